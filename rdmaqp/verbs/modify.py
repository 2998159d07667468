"""Between the model and C: attributes in and out of ``struct ibv_qp_attr``, and what the guard is told of a call."""

from __future__ import annotations

from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.errors import DeviceError
from rdmaqp.host import process
from rdmaqp.model.attributes import FIELDS, QP_ATTR_NAMES, QPAttr, as_int, enum_value
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.enums import MTU, LinkLayer, QPState, QPType, mask_names, mtu_code
from rdmaqp.model.gid import GidEntry, pick_gid
from rdmaqp.model.request import PortFacts, ProcessFacts, QPCap, QPFacts, Request
from rdmaqp.model.steps import CUSTOMARY
from rdmaqp.verbs import address
from rdmaqp.verbs._native import native
from rdmaqp.verbs.port import GidTable, Port, entry_of, facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rdmaqp.verbs.parts import Parts
    from rdmaqp.verbs.queue_pair import QueuePair

_NO_PORT, _NO_PROCESS = PortFacts(), ProcessFacts()
_CAPACITIES = ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data")


class Transition(NamedTuple):
    """One modify call that took effect: from where to where, with which bits in the mask, when (``time.time_ns``)."""

    start: QPState
    goal: QPState
    bits: int
    time_ns: int

    def __repr__(self) -> str:
        return f"Transition({self.start.name} → {self.goal.name}, {', '.join(self.mask)}, time_ns={self.time_ns})"

    @property
    def mask(self) -> tuple[str, ...]:
        """The names of the bits, lowest first."""
        return mask_names(self.bits)


_GOAL = itemgetter(Transition._fields.index("goal"))  # twice as fast as the name, of which a call reads 128


class Answers:
    """Where a queue pair's answers are put: ``struct rdmaqp_answers``, and the bytes of some of its parts.

    Each queue pair keeps its own from call to call: to make one costs more than to ask.
    """

    __slots__ = ("gid", "netdev", "port", "raw")

    def __init__(self) -> None:
        ffi = native().ffi
        self.raw = ffi.new("struct rdmaqp_answers *")
        self.port = ffi.buffer(ffi.addressof(self.raw, "port"))
        self.gid = ffi.buffer(ffi.addressof(self.raw, "gid"))
        self.netdev = ffi.buffer(ffi.addressof(self.raw, "netdev"))


def init_attr(kind: QPType, cap: QPCap, parts: Parts, *, sq_sig_all: bool) -> dict[str, Any]:
    """The initialiser of ``struct ibv_qp_init_attr``."""
    return {
        "qp_type": int(kind), "cap": cap_in_c(cap), "sq_sig_all": sq_sig_all,
        **{
            name: part.handle for name, part in zip(("send_cq", "recv_cq", "srq"), parts[1:4], strict=True)
            if part is not None
        },
    }  # fmt: skip


def cap_in_c(cap: QPCap) -> dict[str, Any]:
    """The initialiser of ``struct ibv_qp_cap``."""
    return {name: getattr(cap, name) for name in _CAPACITIES}


def read_cap(raw: Any) -> QPCap:
    """Copy a ``struct ibv_qp_cap``."""
    return QPCap(**{name: int(getattr(raw, name)) for name in _CAPACITIES})


def fill_attr(attr: QPAttr, mask: int) -> Any:
    """A ``struct ibv_qp_attr *`` with those attributes that *mask* carries; all else is zero.

    The guard has seen the values: cffi raises OverflowError for what does not fit rather than cutting it.
    """
    return native().ffi.new("struct ibv_qp_attr *", {
        name: value if type(value) is ready else in_c(value)
        for name, ready, in_c in _carried(mask) if (value := getattr(attr, name)) is not None
    })  # fmt: skip


@lru_cache(256)
def _carried(mask: int) -> tuple[tuple[str, type, Callable[[Any], Any]], ...]:
    """The attributes that *mask* carries, each with the type that C takes as it is, and what turns others into C's."""
    fields = [FIELDS[name] for name in QP_ATTR_NAMES if FIELDS[name].mask & mask and name != "cap"]
    return tuple((field.name, field.enum or int, _IN_C.get(field.name, int)) for field in fields)


def _mtu_in_c(value: Any) -> int | None:
    return enum_value(MTU, value) if isinstance(value, str) else mtu_code(int(value))


_IN_C: dict[str, Callable[[Any], Any]] = {
    name: partial(enum_value, field.enum) for name, field in FIELDS.items() if field.enum is not None
} | {"path_mtu": _mtu_in_c, "ah_attr": address.in_c, "alt_ah_attr": address.in_c}


def read_attr(raw: Any, mask: int) -> QPAttr:
    """The attributes of *mask* as ``ibv_query_qp`` filled them."""
    values: dict[str, Any] = {}
    for name in QP_ATTR_NAMES:
        if not FIELDS[name].mask & mask:
            continue
        value = getattr(raw, name)
        if name in ("ah_attr", "alt_ah_attr"):
            value = address.read(value)
        elif name == "cap":
            value = read_cap(value)
        elif name == "qp_state":
            value = QPState(value)
        values[name] = value
    return QPAttr(**values)


def request(
    qp: QueuePair, attr: QPAttr, mask: int | None, peer: Endpoint | None, state: QPState | None = None
) -> Request:
    """What the guard is asked of this call: the state, the port's facts and the tables' as they are now.

    *state* is given where the guard is to judge by another. Of the tables only what the call touches is read.

    Raises:
        VerbsError: the port, or a key that the call needs, cannot be asked.
    """
    number, pkey_index = _port_num(qp, attr), _pkey_index(qp, attr, peer)
    there = qp._ask(number, _sgid_index(attr), pkey_index)
    facts = _NO_PORT
    gids: Mapping[int, GidEntry] = {}
    pkeys: Mapping[int, int] = {}
    if number:
        lib, answers, port = native().lib, qp._answers, Port(qp.pd.context, number)
        # What has no answer is asked for alone, by what knows how to say the error.
        facts = facts_of(number, answers.port[:]) if there & lib.RDMAQP_HAS_PORT else port.facts
        gids = GidTable(port, entry_of(answers.gid[:], answers.netdev[:]) if there & lib.RDMAQP_HAS_GID else None)
        if there & lib.RDMAQP_HAS_PKEY:
            pkeys = {pkey_index: answers.raw.pkey}
        elif 0 <= pkey_index < (facts.pkey_tbl_len or 0):
            pkeys = {pkey_index: port.pkey(pkey_index)}
    now = qp.last_state if state is None else state
    return Request(
        qp=QPFacts(
            type=qp.type, state=now, port_num=qp.port_num, qp_num=qp.qp_num, pkey_index=qp.pkey_index, cap=qp.cap,
            was=_was(qp, now), sq_draining=qp.sq_draining, srq=qp.srq is not None,
            max_dest_rd_atomic=qp.max_dest_rd_atomic,
        ),
        attr=attr, mask=None if mask is None else int(mask), device=qp.pd.context.facts,
        port=facts, gids=gids, gids_complete=number != 0, pkeys=pkeys, peer=peer,
        process=_NO_PROCESS if attr.qkey is None else process.facts(), kernel=process.kernel_release(),
    )  # fmt: skip


def _was(qp: QueuePair, state: QPState) -> tuple[QPState, ...]:
    """The states before the present one, as far as our own calls led there."""
    goals = tuple(map(_GOAL, qp.transitions))
    return goals[:-1] if goals and goals[-1] is state else goals


def _port_num(qp: QueuePair, attr: QPAttr) -> int:
    """The port that the call is about: the one it names, else the one bound at INIT; 0 where there is none such."""
    last = qp.pd.context.attr.phys_port_cnt
    for value in (attr.port_num, getattr(attr.ah_attr, "port_num", None), qp.port_num):
        if value is not None:
            num = as_int(value)
            if num is not None and 1 <= num <= last:
                return num
    return 0


def _sgid_index(attr: QPAttr) -> int:
    """The slot of the GID table that the call starts from; -1 where it names none."""
    index = getattr(getattr(attr.ah_attr, "grh", None), "sgid_index", None)
    return index if type(index) is int and 0 <= index <= 0xFF else -1


def _pkey_index(qp: QueuePair, attr: QPAttr, peer: Endpoint | None) -> int:
    """The key that the call names; else, where it has to match the peer's, the one bound at INIT; else -1."""
    if attr.pkey_index is not None:
        index = as_int(attr.pkey_index)
    else:
        index = None if peer is None or peer.pkey is None else qp.pkey_index
    return index if index is not None and 0 <= index <= 0xFFFF else -1


def describe(qp: QueuePair, port_num: int, psn: int, gid_index: int | None, more: dict[str, Any]) -> Endpoint:
    """The record of *qp* on *port_num*: see :meth:`QueuePair.endpoint`."""
    context = qp.pd.context
    port = context.port(port_num)
    attr = port.query()
    entry = _choose(port, gid_index, attr.link_layer)
    pkey_index = more.get("pkey_index", 0)
    values: dict[str, Any] = {
        "qp_num": qp.qp_num, "psn": psn, "qp_type": qp.type, "port_num": port_num,
        "link_layer": attr.link_layer, "lid": attr.lid, "lmc": attr.lmc, "port_state": attr.state,
        "grh_required": attr.grh_required, "path_mtu": attr.active_mtu or None,
        "gid": entry and entry.gid, "gid_index": entry and entry.index, "gid_type": entry and entry.type,
        "pkey": port.pkey(pkey_index) or None if pkey_index < attr.pkey_tbl_len else None, "pkey_index": pkey_index,
        "max_rd_atomic": min(context.attr.max_qp_init_rd_atom, 1),
        "max_dest_rd_atomic": min(context.attr.max_qp_rd_atom, 1),
        "qkey": CUSTOMARY["qkey"] if qp.type is QPType.UD else None,
        "rx_depth": qp.cap.max_recv_wr if qp.srq is None else qp.srq.max_wr,
    }  # fmt: skip
    return Endpoint(**(values | more))


def _choose(port: Port, gid_index: int | None, link_layer: LinkLayer) -> GidEntry | None:
    table = port.gids()
    if gid_index is None:
        choice = pick_gid(table)
        if choice is None and link_layer is LinkLayer.ETHERNET:
            raise DeviceError(
                f"{port} has an empty GID table, so RoCE has no address to send from",
                ("Bring its net device up and give it an IP address.",),
            )
        return None if choice is None else choice.entry
    for entry in table:
        if entry.index == gid_index:
            return entry
    used = ", ".join(str(entry.index) for entry in table) or "none"
    raise DeviceError(f"GID index {gid_index} of {port} is empty or past its end; in use: {used}")
