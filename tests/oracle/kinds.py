"""What guard and kernel may disagree about, each kind with its reason. Everything else is a mistake of the guard's.

The oracle asserts that each kind does occur: one that nothing needs any more is a hole in the comparison.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from oracle.calls import STATE, rule_of
from oracle.raw import as_given
from rdmaqp.model.attributes import AV_RANGES, FIELDS, GRH_RANGES, RATE_CODES
from rdmaqp.model.enums import AccessFlag, MigState, QPState, QPType, mtu_bytes
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from oracle.calls import Answer, Call
    from rdmaqp.guard import Report
    from rdmaqp.model.request import Request


class Difference(NamedTuple):
    """A call that guard and kernel do not see alike; *changed* are the attributes that it did not carry out."""

    call: Call
    answer: Answer
    request: Request
    report: Report
    changed: list[str]

    @property
    def kernel(self) -> tuple[int, int]:
        """The running kernel's release."""
        assert self.request.kernel is not None
        return self.request.kernel

    def given(self, name: str) -> Any:
        """The value given for an attribute, or for a part of an address vector; ``None`` where there is none."""
        return as_given(self.call.attr, self.call.mask).get(name)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of disagreement.

    Attributes:
        name: its name in the report.
        reason: why it is right that they disagree.
        holds: whether a difference is of this kind. It is given the difference and, where the guard alone refuses, its
            finding; where the kernel changes an attribute, that attribute's name.
        rules: the guard's rules that it explains, where the kernel accepted the call and carried it out.
        by_kernel: the kernel refuses what the guard takes.
        of_change: the kernel changes what the guard takes.
    """

    name: str
    reason: str
    holds: Callable[[Difference, Any], bool]
    rules: frozenset[str] = frozenset()
    by_kernel: bool = False
    of_change: bool = False


#: Attributes whose value ``ibv_query_qp`` never shows on rxe, with the reason why nothing is lost by that.
NOT_SHOWN = {
    "ah_attr.dlid": "RoCE has no LIDs: it reads back 0",
    "ah_attr.src_path_bits": "RoCE has no LIDs: it reads back 0",
    "ah_attr.sl": "Soft-RoCE has no priorities: it reads back 0",
    "ah_attr.static_rate": "Soft-RoCE does not pace: it reads back 0",
    "en_sqd_async_notify": "the event comes or not; it reads back 0",
    "cur_qp_state": "a claim about the present, not an attribute",
}


def _range(name: str) -> tuple[int, int] | None:
    part = name.rpartition(".")[2]
    if name.startswith(("ah_attr.", "alt_ah_attr.")):
        return AV_RANGES.get(part) or GRH_RANGES.get(part)
    return (FIELDS[name].low, FIELDS[name].high) if name in FIELDS else None


def _outside_its_field(difference: Difference, finding: Any) -> bool:
    limits, value = _range(finding.field), difference.given(finding.field)
    return limits is not None and isinstance(value, int) and not limits[0] <= value <= limits[1]


_CODES: dict[str, frozenset[int]] = {
    "path_mtu": frozenset(range(1, 6)), "path_mig_state": frozenset(map(int, MigState)),
    "ah_attr.static_rate": RATE_CODES, "cur_qp_state": frozenset(map(int, QPState)),
}
#: The access flags that have a name, and those that the kernel calls optional.
_ACCESS = int(sum(AccessFlag)) | 0x3FF00000


def _no_such_code(difference: Difference, finding: Any) -> bool:
    value = difference.given(finding.field)
    if finding.field == "qp_access_flags":
        return difference.kernel < (6, 12) and bool(value & ~_ACCESS)
    return finding.field in _CODES and value not in _CODES[finding.field]


def _claims_falsely(difference: Difference, finding: Any) -> bool:
    """The call is right for the state that it claims, or nobody looks."""
    call, claim = difference.call, difference.given("cur_qp_state")
    if claim is None or claim & 0xFF == call.state:
        return False
    if not call.mask & STATE and difference.kernel >= (6, 2):
        return True
    claimed = QPState(claim & 0xFF)
    rule = rule_of(call.kind, claimed, QPState(difference.given("qp_state") & 0xFF) if call.mask & STATE else claimed)
    return rule is not None and not rule.required & ~call.mask and (
        not call.mask & ~(rule.required | rule.optional | STATE)
    )


def _over_active(difference: Difference, finding: Any) -> bool:
    asked, active = mtu_bytes(difference.given("path_mtu")), difference.request.port.active_mtu
    return asked is not None and active is not None and asked > active


_NOBODY = (GID.parse("::"), GID.parse("255.255.255.255"))


def _no_peer(difference: Difference, finding: Any) -> bool:
    if finding.rule == "qpn-reserved":
        return difference.given("dest_qp_num") in (0, 1)
    gid = difference.given("ah_attr.grh.dgid")
    if difference.call.kind is QPType.UD:  # nobody asks where a datagram queue pair's own vector leads
        return bool(gid == _NOBODY[0])
    return isinstance(gid, GID) and (gid.is_multicast or gid in _NOBODY)


def _hop_limit(difference: Difference, name: Any) -> bool:
    return bool(name == "ah_attr.grh.hop_limit") and difference.call.kind is not QPType.UD


def _neighbour(difference: Difference, _: Any) -> bool:
    return difference.call.group == "unreachable" and difference.answer.errno == errno.ETIMEDOUT


def _route(difference: Difference, _: Any) -> bool:
    gid = difference.given("ah_attr.grh.dgid")
    away = isinstance(gid, GID) and not gid.is_ipv4_mapped and not gid.is_link_local
    return away and difference.answer.errno == errno.ENETUNREACH


def _privilege(difference: Difference, _: Any) -> bool:
    """It must have warned, at least."""
    warned = any(finding.rule == "qkey-privileged" for finding in difference.report.warnings)
    return warned and difference.call.ability == "unprivileged" and difference.answer.errno == errno.EPERM


KINDS = (
    Kind("outside its field", "rxe stores it as given; the next driver cuts it to the field's width",
         _outside_its_field, frozenset({"value-range"})),
    Kind("no such code", "rxe stores a code that no enumeration has; nothing can be meant by it",
         _no_such_code, frozenset({"value-enum"})),
    Kind("false CUR_STATE", "rxe believes the caller's claim, and takes the row of the state that it names",
         _claims_falsely, frozenset({
             "cur-state-mismatch", "transition-illegal", "transition-driver", "mask-missing", "mask-excess"})),
    Kind("MTU above the active one", "rxe takes it, and its packets do not fit the net device's frames",
         _over_active, frozenset({"mtu-over-active"})),
    Kind("destination that is no peer", "rxe resolves a group, or nobody; no connected queue pair has such a number or "
         "address", _no_peer, frozenset({"qpn-reserved", "dgid-invalid"})),
    Kind("hop limit by the route", "RoCE takes the route's own: documented, and harmless", _hop_limit,
         of_change=True),
    Kind("neighbour that does not answer", "only the network knows", _neighbour, by_kernel=True),
    Kind("no route", "only the routing table knows", _route, by_kernel=True),
    Kind("privilege unknown", "the system's setting may lift the need for CAP_NET_RAW: the guard warns", _privilege,
         by_kernel=True),
)  # fmt: skip
