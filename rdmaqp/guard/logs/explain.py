"""A failure that a log tells of, asked of the judge: the request it makes, the causes, what to ask the machine next.

A log has little of the call: what it does not have is never judged, and named as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import errno_name
from rdmaqp.guard import check
from rdmaqp.guard.cause import Cause, Sheet
from rdmaqp.guard.creation import About
from rdmaqp.guard.diagnosis import diagnose
from rdmaqp.guard.errnos import ANSWERS, OF_ADDRESS
from rdmaqp.guard.logs.asking import commands
from rdmaqp.guard.logs.happened import CM, EVENTS, REJECTED, UNNUMBERED, UNTOLD
from rdmaqp.guard.logs.pattern import Reason
from rdmaqp.guard.logs.words import driver_of, link_of
from rdmaqp.guard.report import Report
from rdmaqp.guard.vendor_errors import DRIVER, sense
from rdmaqp.model.attributes import AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import DriverType, LinkLayer, QPState, QPType, WCStatus
from rdmaqp.model.gid import GID, GidEntry
from rdmaqp.model.request import (
    Completion,
    DeviceFacts,
    PortFacts,
    Post,
    ProcessFacts,
    QPCap,
    QPFacts,
    Registration,
    Request,
)
from rdmaqp.model.request import Failure as Failed

if TYPE_CHECKING:
    from rdmaqp.guard.logs.reader import Failure

#: A command without a syndrome never came to the firmware.
_UNASKED_FIRMWARE = (
    Reason(
        "driver-refused",
        "likely",
        "the syndrome is 0: the firmware was not asked, the kernel refused the command "
        "(its "
        "arguments, the process's rights, a driver older than the library)",
    ),
)
#: Asked of an address vector, which only a call to RTR carries.
_OF_VECTOR = frozenset({
    "grh-missing", "sgid-range", "sgid-empty", "sgid-driver", "sgid-netdev", "gid-family-mismatch", "dgid-invalid",
    "dlid-invalid", "alt-path-roce", "mtu-over-active",
})  # fmt: skip
_NEEDS = "the call's attributes and mask, which a log does not have"


@dataclass(frozen=True)
class Explanation:
    """What a failure comes to.

    Attributes:
        title: in words.
        request: as ``rdmaqp check`` reads it; ``None`` where the message says its reason by itself.
        causes: proved, likely, ruled out.
        untold: what the log does not say, and where it would be found; empty where nothing essential is missing.
        ask: commands that ask the machine next.
    """

    title: str
    request: Request | None
    causes: tuple[Cause, ...]
    untold: str
    ask: tuple[str, ...]


def explain(failure: Failure) -> Explanation:
    """Why it failed, as far as the log goes."""
    known = _completed(failure.known)
    what, sheet = failure.pattern.what, Sheet()
    request = _request(what, known)
    reasons = _UNASKED_FIRMWARE if known.get("syndrome") == 0 else failure.pattern.reasons
    for reason in reasons:
        sheet.add(*reason)
    if failure.pattern.innocent:
        sheet.rule_out(failure.pattern.innocent, failure.pattern.because)
    if failure.earlier is not None:
        sheet.add(
            "flush-consequence",
            "proved",
            "the queue pair was in ERR already, and this work was never tried: "
            f"line {failure.earlier} of this log has an earlier failure",
        )
    untold = ""
    for reason in _happened(what, known):
        sheet.add(*reason)
    if request is not None and not reasons:
        untold = _judged(request, known, sheet, UNTOLD.get(what, ()))
    other = "qp" not in known.get("made", "qp")
    causes = tuple(cause for cause in sheet.causes() if not other or reasons or cause.cause != "qp-limit")
    title = _title(failure, known)
    return Explanation(title, request, causes, untold, commands(causes, known, what))


def _happened(what: str, known: dict[str, Any]) -> tuple[Reason, ...]:
    """What an event says, or the connection manager."""
    if what == "event":
        return EVENTS.get(known["event"], ()) if "event" in known else ()
    if what != "cm":
        return ()
    event, number = known.get("cm"), known.get("errno")
    short = None if event is None else event.removeprefix("RDMA_CM_EVENT_")
    if short == "REJECTED":
        return REJECTED.get(known.get("reject"), REJECTED[None])
    return CM.get((short, number)) or CM.get((short, None), ())


def _completed(known: dict[str, Any]) -> dict[str, Any]:
    """*known*, with what follows from it."""
    device = known.get("device")
    if isinstance(device, str):
        known.setdefault("driver", driver_of(device))
        known.setdefault("link", link_of(device))
    for name in ("gid", "peer_gid"):  # an IPv4 address is RoCE's
        if isinstance(known.get(name), GID) and known[name].is_ipv4_mapped and not known.get("link"):
            known["link"] = "ETHERNET"
    return {name: value for name, value in known.items() if value is not None}


# ---------------------------------------------------------------------- the request


def _request(what: str, known: dict[str, Any]) -> Request | None:
    kind = known.get("type")
    own = kind if isinstance(kind, DriverType) else None
    link = known.get("link")
    shared: dict[str, Any] = {
        "qp": QPFacts(type=QPType.DRIVER if own else kind, driver_type=own, state=known.get("state"),
                      qp_num=known.get("qp_num"), port_num=known.get("port")),
        "device": DeviceFacts(name=known.get("device"), driver=known.get("driver")),
        "port": PortFacts(num=known.get("port"), link_layer=LinkLayer[link] if link else None),
        "process": ProcessFacts(memlock=known.get("memlock")),
    }  # fmt: skip
    number = known.get("errno")
    if number is not None:
        shared["failed"] = Failed(number)
    if what == "modify":
        return _modify(known, shared)
    if what == "completion" and known.get("status"):
        how = Completion(status=int(known["status"]), vendor_err=known.get("vendor_err"))
        return Request(**shared | {"post": Post(queue="send"), "completion": how, "failed": None})
    acts: dict[str, dict[str, Any]] = {
        "create": {"create": QPCap()}, "post": {"post": Post(queue=known.get("queue", "send"))},
        "ah": {"ah": _vector(known)},
        "reg_mr": {"reg_mr": Registration(length=known.get("length"), access=known.get("access"))},
    }  # fmt: skip
    return Request(**shared, **acts[what]) if what in acts else None


def _modify(known: dict[str, Any], shared: dict[str, Any]) -> Request:
    goal = known.get("goal")
    if goal is None and known.get("errno") in OF_ADDRESS:
        goal = QPState.RTR  # no other step looks for an address
    attr = QPAttr(qp_state=goal, dest_qp_num=known.get("dest_qp_num"))
    if goal is QPState.RTR:
        attr.ah_attr = _vector(known)
        own = known.get("gid")
        if own is not None:
            index = known.get("gid_index", 0)
            shared["gids"] = {index: GidEntry(index, own)}
    return Request(attr=attr, **shared)


def _vector(known: dict[str, Any]) -> AddressVector:
    """The address vector as far as it is known: where no index is, the kernel's look-up of it can't be spoken of."""
    address = AddressVector(port_num=known.get("port", 1))
    if "gid_index" in known or ("peer_gid" in known and known.get("errno") in OF_ADDRESS):
        target: Any = known.get("peer_gid")  # None is "not known" to the judge
        address.grh = GlobalRoute(dgid=target, sgid_index=known.get("gid_index", 0))
    return address


# ---------------------------------------------------------------------- the judge


def _judged(request: Request, known: dict[str, Any], sheet: Sheet, usual: tuple[Reason, ...]) -> str:
    """Ask the judge; returns what it would have needed of the log. *usual* refuses such a call, where none is told."""
    if request.completion is not None:
        _note(sheet, diagnose(request, Report(About("queue pair", request, "ibv_poll_cq"))))
        return ""
    report = check(request)
    decided = _decided(request, known)
    report.findings = [finding for finding in report.findings if finding.rule in decided]
    if request.failed is not None:
        if request.attr is not None:
            _leave_open(report, request.failed.errno, decided, known)
        _note(sheet, diagnose(request, report))
        return ""
    for finding in report.errors:
        sheet.add(finding.rule, "likely", f"{finding.field}: {finding.message}")
    for reason in UNNUMBERED.get(known.get("goal"), ()) if request.attr is not None else usual:
        sheet.add(*reason)
    return (
        "the error number: the program does not print it. `strace -f -e trace=ioctl,write -Z PROGRAM` shows it (the "
        "last call on /dev/infiniband/uverbs…), and `rdmaqp explain EINVAL ETIMEDOUT` what each says"
    )


def _leave_open(report: Report, number: int, decided: frozenset[str], known: dict[str, Any]) -> None:
    """Name the rules that answer *number* and could not be asked."""
    skipped = {skip.rule for skip in report.skipped}
    elsewhere = _OF_VECTOR if known.get("goal", QPState.RTR) is not QPState.RTR else frozenset()
    for rule in ANSWERS["modify"].get(number, {}):
        if rule not in decided and rule not in skipped and rule not in elsewhere:
            report.skip(rule, _NEEDS)


def _note(sheet: Sheet, causes: tuple[Cause, ...]) -> None:
    for cause in causes:
        sheet.add(*cause)


def _decided(request: Request, known: dict[str, Any]) -> frozenset[str]:
    """The rules that could be asked in full with what the log has."""
    rules: set[str] = set()
    if {"state", "goal", "type"} <= known.keys():
        rules |= {"transition-illegal", "transition-driver", "transition-needs-cm"}
    if {"type", "driver"} <= known.keys():
        rules.add("qp-type-unsupported")
    if request.attr is not None and request.attr.ah_attr is not None and request.attr.ah_attr.grh is not None:
        rules.add("grh-missing")
        if "peer_gid" in known:
            rules.add("dgid-invalid")
        if {"gid", "gid_index"} <= known.keys():
            rules |= {"sgid-empty", "sgid-range"}
        if {"gid", "peer_gid", "link"} <= known.keys():
            rules.add("gid-family-mismatch")
    return frozenset(rules)


# ---------------------------------------------------------------------- words

_VERBS = {"create": "ibv_create_qp", "reg_mr": "ibv_reg_mr", "ah": "ibv_create_ah", "modify": "ibv_modify_qp"}


def _title(failure: Failure, known: dict[str, Any]) -> str:
    what, program = failure.pattern.what, failure.pattern.program
    if what == "completion":
        status = known.get("status")
        name = getattr(status, "name", None) or _status_name(status)
        number = f" ({int(status)})" if status is not None else ""
        vendor = _vendor(known)
        return f"{program}: a completion failed: {name}{number}{vendor}"
    if what == "event":
        return f"{program}: asynchronous event {known['event'].name}" if "event" in known else f"{program}: an event"
    if what == "cm" and "cm" in known:
        number = f", error {known['errno']} ({errno_name(known['errno'])})" if "errno" in known else ""
        return f"{program}: {known['cm']}{number}" + (f", reason {known['reject']}" if "reject" in known else "")
    if what == "told" and not {"made", "command"} & known.keys():
        return f"{program}: {failure.pattern.reasons[0].cause}"
    verb = known.get("made") or _VERBS.get(what) or f"ibv_post_{known.get('queue', 'send')}"
    if program.startswith("kernel") and "made" not in known:
        command = known.get("command")
        verb = f"firmware command {command}" if command else verb.replace("ibv_", "ib_")
    where = ""
    if what == "modify":
        start = known["state"].name + " → " if "state" in known else "to "
        where = f" {start}{known['goal'].name}" if "goal" in known else ""
    error = known.get("errno")
    how = f": {failure.pattern.reasons[0].cause}" if what == "told" else ", and the log does not say how"
    said = f": {errno_name(error)} ({error})" if error else how
    return f"{program}: {verb}{where} failed{said}"


def _vendor(known: dict[str, Any]) -> str:
    """The vendor's word, with what it says where the device is, or may be, one whose words are known."""
    number, driver = known.get("vendor_err"), known.get("driver")
    if number is None:
        return ""
    found = sense(driver or DRIVER, number)
    words = "" if found is None else f" ({'' if driver else f'on {DRIVER}: '}{found.words})"
    return f", vendor_err {number:#x}{words}"


def _status_name(status: int | None) -> str:
    if status is None:
        return "the log does not say how"
    return WCStatus(status).name if status in set(map(int, WCStatus)) else "an unknown status"
