"""A call to be made, and what the kernel answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rdmaqp.model.attributes import FIELDS, QP_ATTR_NAMES, AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import AttrMask, QPState, QPType
from rdmaqp.model.facts import QPCap
from rdmaqp.model.gid import GID
from rdmaqp.model.table import TABLE, Rule

TYPES = (QPType.RC, QPType.UC, QPType.UD)
#: rxe never enters SQE: it has no such hardware state.
STATES = (QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS, QPState.SQD, QPState.ERR)
STATE = int(AttrMask.STATE)
Units = Literal["abi"] | None


class Call(NamedTuple):
    """One ``ibv_modify_qp``.

    Attributes:
        kind, state: the queue pair.
        attr, mask: what is asked.
        units: ``"abi"``: the numbers are a C struct's, and cut to its fields as C does it. ``None``: Python's own.
        group: which list it comes from.
        ability: ``"draining"``: sends are under way in SQD. ``"unprivileged"``: without CAP_NET_RAW.
    """

    kind: QPType
    state: QPState
    attr: QPAttr
    mask: int
    units: Units = "abi"
    group: str = ""
    ability: str = ""

    def __str__(self) -> str:
        given = {n: v for n, v in self.attr.given() if FIELDS[n].mask & self.mask}
        return f"{self.group}: {self.kind.name} {self.state.name} {self.mask:#x} {self.units} {self.ability} {given}"


@dataclass(slots=True)
class Answer:
    """What became of a call.

    Attributes:
        errno: 0 accepted; :data:`UNSAYABLE` where Python's half could not make the struct.
        seen: after an accepted call, the attributes of its mask as ``ibv_query_qp`` shows them.
        touched: whether a refused call changed anything that is shown.
    """

    errno: int
    seen: dict[str, Any] = field(default_factory=dict)
    touched: bool = False


UNSAYABLE = -1

#: The numbers that a well-made call carries, in C's units. ``max_dest_rd_atomic`` and the like are powers of two:
#: rxe rounds, and the masks are no test of that.
ORDINARY: dict[str, Any] = {
    "path_mtu": 3, "path_mig_state": 0, "qkey": 0x11111111, "rq_psn": 7, "sq_psn": 8, "dest_qp_num": 18,
    "qp_access_flags": 1, "pkey_index": 0, "en_sqd_async_notify": 0, "max_rd_atomic": 1, "max_dest_rd_atomic": 1,
    "min_rnr_timer": 12, "port_num": 1, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "alt_port_num": 1,
    "alt_pkey_index": 0, "alt_timeout": 14, "rate_limit": 0,
}  # fmt: skip


class Scene(NamedTuple):
    """What the calls need to know of the device: an address to go to, and where it starts.

    *own* is this device's own address, which always resolves; *here* its slot, *other* a slot of the other family.
    """

    own: GID
    here: int
    other: int | None = None
    other_own: GID | None = None
    empty: int = 250

    def vector(self, **more: Any) -> AddressVector:
        """An address vector that resolves; *more* replaces parts of it or of its route."""
        route: dict[str, Any] = {"dgid": self.own, "sgid_index": self.here, "hop_limit": 64}
        route |= {name: more.pop(name) for name in list(more) if name in _ROUTE}
        vector: dict[str, Any] = {"port_num": 1, "grh": GlobalRoute(**route)} | more
        return AddressVector(**vector)


_ROUTE = ("dgid", "sgid_index", "flow_label", "hop_limit", "traffic_class")


def attr_of(scene: Scene, state: QPState, mask: int, units: Units, **given: Any) -> QPAttr:
    """Ordinary values for *mask*, those in *given* replaced. In C's units every field of the struct has a value."""
    values: dict[str, Any] = ORDINARY | {
        "qp_state": int(state), "cur_qp_state": int(state), "ah_attr": scene.vector(), "alt_ah_attr": scene.vector(),
        "cap": QPCap(max_send_wr=5),
    } | given
    if units == "abi":
        return QPAttr(**values)
    return QPAttr(**{name: values[name] for name in QP_ATTR_NAMES if FIELDS[name].mask & mask})


def rule_of(kind: QPType, state: QPState, goal: QPState) -> Rule | None:
    """The kernel's row for an arrow."""
    return TABLE[kind].get((state, goal))

