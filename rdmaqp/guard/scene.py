"""What is known of a failure: the act, the driver, the link, the address, and what the guard found in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rdmaqp.guard.case import Case, is_ethernet, is_iwarp
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.drivers import UNKNOWN
from rdmaqp.model.attributes import AddressVector, GlobalRoute
from rdmaqp.model.enums import AttrMask, GidType, QPState, QPType
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from rdmaqp.guard.report import Finding, Report
    from rdmaqp.host.path import PathAnswers
    from rdmaqp.model.gid import GidEntry
    from rdmaqp.model.request import Request

Act = Literal["modify", "post", "create", "reg_mr", "ah"]

#: Drivers without firmware behind them: all they say, they say themselves.
SOFTWARE = frozenset({"rxe", "siw", "hfi1", "qib"})
_UNCONNECTED = frozenset({QPType.UD, QPType.RAW_PACKET, QPType.DRIVER})
_AV, _ALT = int(AttrMask.AV), int(AttrMask.ALT_PATH)


class Scene:
    """One failure.

    Attributes:
        request, report: the call, and what the guard found in it.
        machine: what this machine answered of the path; ``None`` where it was not asked.
        act: which of the verbs it was.
        driver: the kernel driver's name; ``None`` where it is unknown.
        iwarp: whether no rule of InfiniBand or RoCE applies.
        roce: whether the port is RoCE; ``None`` unknown.
        mask: the bits of a modify call.
        goal: where it led.
        source: our own entry of the GID table, where it is known.
        target: the destination's GID, where one is given.
        unasked: why the IP stack is not asked for the destination by this call; empty where it is, or may be.
    """

    def __init__(self, request: Request, report: Report, machine: PathAnswers | None = None) -> None:
        self.request = request
        self.report = report
        self.machine = machine
        row = driver_of(request.device.driver)
        self.driver = request.device.driver if row is UNKNOWN else row.name
        self.iwarp = is_iwarp(request, row)
        self.mask = 0
        self.goal: QPState | None = None
        self.act: Act = "modify"
        port = request.port
        address: object = None
        if request.attr is not None:
            case = Case(request, request.attr)
            self.mask, self.goal, port = case.mask, case.goal, case.port
            address = request.attr.ah_attr if case.mask & _AV else None
        else:
            acts: tuple[Act, ...] = ("post", "create", "reg_mr", "ah")
            self.act = next((act for act in acts if getattr(request, act) is not None), "post")
            address = request.ah
        self.roce = False if self.iwarp else is_ethernet(request, row, port)
        self.address = address if isinstance(address, AddressVector) else None
        self.source, self.target = _ends(request, self.address)
        self.unasked = self._unasked()
        self._open = self._unchecked()

    def _unasked(self) -> str:
        if self.iwarp:
            return "iWARP leaves addresses to the connection manager"
        if self.roce is False:
            return "an InfiniBand port asks neither route nor neighbour"
        if self.address is None:
            return "the call carries no address vector"
        if self.act == "modify" and self.request.qp.type in _UNCONNECTED:
            return "for this queue pair type the destination is not looked up here"
        if self.target is not None and self.target.is_multicast:
            return "a multicast address has its MAC in itself"
        if self.source is not None and self.source.type is GidType.ROCE_V1 and (
            self.target is not None and self.target.is_link_local
        ):
            return "RoCE v1 takes the MAC of a link-local destination from its GID"
        return ""

    def _unchecked(self) -> dict[str, str]:
        """The rules that could not be asked, and those that hang on them, with what they need."""
        # That the driver is unknown leaves nothing open: arrows that not every driver has are findings then.
        found = {skip.rule: skip.needs for skip in self.report.skipped if skip.needs != "device.driver"}
        for rule in ("mask-missing", "mask-excess"):
            if "transition-illegal" in found:  # without an arrow there is no row to compare with
                found.setdefault(rule, found["transition-illegal"])
            elif self.finding("transition-illegal") is not None:
                found.setdefault(rule, "a transition that exists")
        if self.target is not None and self.source is None and not self.unasked:
            found.setdefault("gid-family-mismatch", found.get("sgid-empty", "gids"))
        return found

    # ------------------------------------------------------------------ findings

    def finding(self, rule: str) -> Finding | None:
        """The first finding of *rule* that is more than a note."""
        return next((f for f in self.report.findings if f.rule == rule and f.severity != "note"), None)

    def needs(self, rule: str) -> str | None:
        """What *rule* would have needed to be checked; ``None`` where it was."""
        return self._open.get(rule)

    # ------------------------------------------------------------------ words

    @property
    def name(self) -> str:
        """The driver, in words."""
        return self.driver or "the driver"

    @property
    def has_firmware(self) -> bool:
        """Whether firmware may stand behind the driver; unknown counts as such."""
        return self.driver not in SOFTWARE

    @property
    def way(self) -> str:
        """From where to where, in words."""
        ours = f" from {self.source.gid}" if self.source is not None else ""
        dev = f" over {self.source.netdev}" if self.source is not None and self.source.netdev else ""
        return f"{self.target if self.target is not None else 'the destination'}{ours}{dev}"


def _ends(request: Request, address: AddressVector | None) -> tuple[GidEntry | None, GID | None]:
    """Our entry of the GID table, and the destination, as far as they can be read."""
    if address is None or not isinstance(address.grh, GlobalRoute) or not address.uses_grh:
        return None, None
    index = address.grh.sgid_index
    source = request.gids.get(index) if type(index) is int else None
    try:
        target = None if address.grh.dgid is None else GID.parse(address.grh.dgid)
    except ValueError:
        target = None
    return source, target
