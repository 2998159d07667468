"""The working paper of one modify call: what was asked, resolved once, and the findings as they come.

Everything here is plain integers: this is the part of the guard that each passing call pays for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.report import Report
from rdmaqp.model.attributes import CODES, FIELDS, QP_ATTR_NAMES, QPAttr, what_is_set
from rdmaqp.model.enums import AttrMask, LinkLayer, QPState, QPType, Transport
from rdmaqp.model.facts import PortFacts
from rdmaqp.model.table import TABLE, Rule, table_of

if TYPE_CHECKING:

    from rdmaqp.guard.drivers import Driver
    from rdmaqp.model.request import Request

STATE = int(AttrMask.STATE)
_PORT = int(AttrMask.PORT)
_INFINIBAND, _ETHERNET = LinkLayer.INFINIBAND, LinkLayer.ETHERNET
_IWARP = Transport.IWARP
NO_PORT = PortFacts()
_BIT = {name: FIELDS[name].mask for name in QP_ATTR_NAMES}
_ROWS = {kind: dict(rows) for kind, rows in TABLE.items()}
_STATES = {given: QPState(code) for given, code in CODES["qp_state"].items()}

#: Bits that uverbs takes away before the table is asked (``modify_qp_mask``): tolerated, and without effect.
STRIPPED = {
    QPType.XRC_SEND: int(AttrMask.MAX_DEST_RD_ATOMIC | AttrMask.MIN_RNR_TIMER),
    QPType.XRC_RECV: int(AttrMask.MAX_QP_RD_ATOMIC | AttrMask.RETRY_CNT | AttrMask.RNR_RETRY),
}


class Case:
    """A modify request with the questions that every concern asks answered once.

    Attributes:
        given: the attributes that count, by name, as given: those whose bit is in the mask and not stripped.
        ignored: names of attributes that were given, and whose bit is not in the mask.
        derived_mask: the bits that follow from the attributes given.
        mask: the bits that the call carries: those given, or those that follow from the attributes.
        stripped: those of them that the kernel takes away.
        numbers: the attributes that count and are right in themselves, as numbers; filled by :mod:`.values`.
        goal: where the call leads; the present state where STATE is not in the mask; ``None`` unknown.
        rule: the table's row for this arrow; ``None`` where there is none or the arrow is unknown.
        iwarp: whether no rule of InfiniBand or RoCE applies.
        ethernet: whether the port is RoCE; ``None`` unknown, or iWARP.
        is_unchecked: whether driver and kernel do not look at this mask, since STATE is not in it.
    """

    __slots__ = (
        "derived_mask", "driver", "ethernet", "given", "goal", "ignored", "is_unchecked", "iwarp", "mask", "numbers",
        "port", "report", "request", "rule", "state", "stripped", "type",
    )  # fmt: skip

    def __init__(self, request: Request, attr: QPAttr) -> None:
        qp, device = request.qp, request.device
        self.request = request
        self.report = Report(self)
        self.numbers: dict[str, int] = {}
        kind = self.type = qp.type
        state = self.state = qp.state
        self.given, derived = what_is_set(attr)
        mask = derived if request.mask is None else request.mask
        self.derived_mask = derived
        self.mask = mask if mask >= 0 else mask & 0xFFFFFFFF  # as C has it
        self.stripped = STRIPPED[kind] & mask if kind in STRIPPED else 0
        self.ignored: list[str] = []
        if derived & ~mask or self.stripped:
            self._drop_what_does_not_count()
        goal = state
        if mask & STATE:
            goal = attr.qp_state if type(attr.qp_state) is QPState else _state(attr.qp_state)
        self.goal = goal
        self.rule: Rule | None = None
        if kind is not None and state is not None and goal is not None:
            self.rule = (_ROWS[kind] if kind in _ROWS else table_of(kind, qp.driver_type)).get((state, goal))
        driver, self.iwarp = _speaks(device.driver, device.transport)
        self.driver = driver
        port = self.port = self._port(attr)
        self.ethernet = None if self.iwarp else is_ethernet(request, driver, port)
        since = driver.unchecked_since
        self.is_unchecked = (
            since is not None and not mask & STATE and (request.kernel is None or request.kernel >= since)
        )

    def _drop_what_does_not_count(self) -> None:
        mask, stripped = self.mask, self.stripped
        if self.request.units is None:  # a C struct always holds every field
            self.ignored = [name for name in self.given if not _BIT[name] & mask]
        self.given = {name: value for name, value in self.given.items() if _BIT[name] & mask & ~stripped}

    def _port(self, attr: QPAttr) -> PortFacts:
        """The facts of the port that the call is about: the one it names, else the one bound at INIT."""
        request = self.request
        known = request.port
        num: object = request.qp.port_num
        if self.mask & _PORT and attr.port_num is not None:
            num = attr.port_num
        if num is None or known.num == num:
            return known
        return request.port_facts(num) or (known if known.num is None else NO_PORT)

    # ------------------------------------------------------------------ words

    @property
    def arrow(self) -> str:
        """The arrow in words."""
        start = self.state.name if self.state is not None else "?"
        if self.goal is not None:
            return f"{start} → {self.goal.name}"
        asked = self.given.get("qp_state", "?")
        return f"{start} → {asked if isinstance(asked, (str, int)) else '?'}"[:60]

    @property
    def kind(self) -> str:
        """The queue pair's type in words."""
        return kind_of(self.request)

    def subject(self) -> str:
        """Whose call, and which arrow."""
        number = f" {self.request.qp.qp_num:#x}" if self.request.qp.qp_num is not None else ""
        where = f" on {self.request.device.name}" if self.request.device.name else ""
        return f"{self.kind} queue pair{number}{where}, {self.arrow}"

    def present(self) -> tuple[str, ...]:
        """The attributes given, the state apart, in the order of their mask bits."""
        return tuple(sorted((name for name in self.given if name != "qp_state"), key=lambda name: _BIT[name]))

    def tail(self) -> str:
        """That nothing was called, and where the queue pair is."""
        state = f"; the queue pair is still in {self.state.name}" if self.state is not None else ""
        return f"ibv_modify_qp was not called{state}."



def _state(asked: object) -> QPState | None:
    return _STATES.get(asked) if type(asked) in (str, int) else None


def kind_of(request: Request) -> str:
    """The queue pair's type in words."""
    if request.qp.driver_type is not None:
        return request.qp.driver_type.name
    return request.qp.type.name if request.qp.type is not None else "A"


def is_iwarp(request: Request, driver: Driver) -> bool:
    """Whether the device speaks iWARP."""
    return request.device.transport is _IWARP or driver.iwarp


@lru_cache(256)
def _speaks(name: str | None, transport: Transport | None) -> tuple[Driver, bool]:
    """The driver's row, and whether it speaks iWARP there."""
    driver = driver_of(name)
    return driver, transport is _IWARP or driver.iwarp


def is_ethernet(request: Request, driver: Driver, port: PortFacts) -> bool | None:
    """Whether *port* of a device that is not iWARP is RoCE; ``None`` unknown."""
    layer = port.link_layer
    if layer is _ETHERNET:
        return True
    if layer is _INFINIBAND:
        return False
    return True if driver.ethernet and layer is None and request.device.transport in _MAY_BE_ROCE else None


_MAY_BE_ROCE = (None, Transport.IB, Transport.UNKNOWN)
