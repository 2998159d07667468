"""A call as the shim carried it, as the request that the guard is asked: as a Python call's, in raw numbers."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rdmaqp.guard.driver_rows import driver_of_provider
from rdmaqp.host import process
from rdmaqp.model.attributes import FIELDS, AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import (
    AtomicCap,
    AttrMask,
    DeviceCap,
    DriverType,
    GidType,
    LinkLayer,
    PortState,
    QPState,
    QPType,
    Transport,
    mtu_bytes,
)
from rdmaqp.model.gid import GID, GidEntry
from rdmaqp.model.request import DeviceFacts, PortFacts, ProcessFacts, QPCap, QPFacts, Request
from rdmaqp.preload.wire import NOT_ASKED, Answer, Call, Gid, gids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.preload.seen import QueuePair

_QKEY = int(AttrMask.QKEY)
# Plain numbers: to ask the flags themselves would take a third of what is done here.
_HAS_STATE, _HAS_DEVICE, _HAS_PORT, _HAS_GIDS, _HAS_PKEY = map(int, Answer)
_NO_TYPE = 255
_LIMITS = (
    "phys_port_cnt", "max_qp", "max_qp_wr", "max_sge", "max_qp_rd_atom", "max_qp_init_rd_atom", "max_res_rd_atom",
)  # fmt: skip
_limits_of = attrgetter(*_LIMITS)
_VECTORS = ("ah_attr", "alt_ah_attr")
#: The attributes that travel, each with its mask bit. CAP cannot be modified, and its value says nothing.
_CARRIED = tuple((name, field.mask) for name, field in FIELDS.items() if name != "cap")
_TYPES, _STATES = QPType._value2member_map_, QPState._value2member_map_
_NO_PROCESS, _NO_PORT = ProcessFacts(), PortFacts()


def request_of(call: Call, slots: bytes, known: QueuePair) -> Request:
    """What the guard is asked of *call*, and of the table in *slots*; *known* is what its queue pair's calls told."""
    return Request(
        qp=_queue_pair(call, known), attr=_attr(call), mask=call.mask, units="abi", device=_device(call),
        port=_port(call), gids=_table(slots), gids_complete=bool(call.answers & _HAS_GIDS),
        pkeys={call.pkey_index: call.pkey} if call.answers & _HAS_PKEY else {},
        process=process.facts(pid=known.process.pid) if call.mask & _QKEY else _NO_PROCESS,
        kernel=process.kernel_release(),
    )  # fmt: skip


def state_of(call: Call, known: QueuePair) -> QPState | None:
    """The state that the kernel has it in; where it does not say, the one that it was last seen to go to."""
    found: Any = _STATES.get(call.state) if call.answers & _HAS_STATE else None
    if found is None and known.steps:
        found = known.last_state
    return found if found is not None else _STATES.get(call.cached_state)  # type: ignore[return-value]


def _queue_pair(call: Call, known: QueuePair) -> QPFacts:
    state = state_of(call, known)
    cap = None
    if call.answers & _HAS_STATE and (call.max_send_wr or call.max_recv_wr):
        cap = _room(call.max_send_wr, call.max_recv_wr, call.max_send_sge, call.max_recv_sge, call.max_inline_data)
    kind: Any = _TYPES.get(call.qp_type)
    # EFA has one type of its own. mlx5 has two, and nothing that can be asked says which.
    own = DriverType.SRD if kind is QPType.DRIVER and call.provider.startswith(b"libefa") else None
    return QPFacts(
        type=kind, driver_type=own, state=state, port_num=known.port_num, qp_num=call.qp_num,
        pkey_index=known.pkey_index, cap=cap, was=known.was(state), srq=bool(call.has_srq),
        sq_draining=call.sq_draining if call.answers & _HAS_STATE else None,
        max_dest_rd_atomic=known.max_dest_rd_atomic,
    )  # fmt: skip


@lru_cache(64)
def _room(send: int, recv: int, send_sge: int, recv_sge: int, inline: int) -> QPCap:
    return QPCap(
        max_send_wr=send, max_recv_wr=recv, max_send_sge=send_sge, max_recv_sge=recv_sge, max_inline_data=inline
    )  # fmt: skip


def _attr(call: Call) -> QPAttr:
    values: dict[str, Any] = {}
    raw, mask = call.attr, call.mask
    for name, bit in _CARRIED:
        if bit & mask:
            value = getattr(raw, name)
            values[name] = _vector(value) if name in _VECTORS else value
    return QPAttr(**values)


def _vector(raw: Any) -> AddressVector:
    route = None
    if raw.is_global:
        route = GlobalRoute(
            dgid=GID(bytes(raw.dgid)), sgid_index=raw.sgid_index, flow_label=raw.flow_label, hop_limit=raw.hop_limit,
            traffic_class=raw.traffic_class,
        )  # fmt: skip
    return AddressVector(
        port_num=raw.port_num, dlid=raw.dlid, sl=raw.sl, src_path_bits=raw.src_path_bits, static_rate=raw.static_rate,
        is_global=raw.is_global, grh=route,
    )  # fmt: skip


def _text(raw: bytes) -> str | None:
    return raw.decode(errors="replace") or None


def _device(call: Call) -> DeviceFacts:
    limits = _limits_of(call) if call.answers & _HAS_DEVICE else None
    return _described(call.device, call.provider, call.transport, limits, call.atomic_cap, call.device_cap_flags)


@lru_cache(64)
def _described(
    name: bytes, provider: bytes, transport: int, limits: tuple[int, ...] | None, atomics: int, flags: int
) -> DeviceFacts:  # fmt: skip
    known, driver = _text(name), driver_of_provider(provider.decode(errors="replace"))
    if limits is None:
        return DeviceFacts(name=known, driver=driver, transport=Transport(transport))
    return DeviceFacts(
        name=known, driver=driver, transport=Transport(transport), atomic_cap=AtomicCap(atomics),
        device_cap_flags=DeviceCap(flags), **dict(zip(_LIMITS, limits, strict=True)),
    )  # fmt: skip


def _port(call: Call) -> PortFacts:
    if not call.answers & _HAS_PORT:
        return _NO_PORT
    return _port_with(call.port_num, call.port_state, call.link_layer, call.active_mtu, call.max_mtu, call.lid,
                      call.lmc, call.gid_tbl_len, call.pkey_tbl_len, bool(call.grh_required))  # fmt: skip


@lru_cache(64)
def _port_with(
    num: int, state: int, layer: int, active_mtu: int, max_mtu: int, lid: int, lmc: int, gids: int, pkeys: int,
    grh: bool,  # noqa: FBT001
) -> PortFacts:  # fmt: skip
    return PortFacts(
        num=num, state=PortState(state), link_layer=LinkLayer(layer), active_mtu=mtu_bytes(active_mtu),
        max_mtu=mtu_bytes(max_mtu), lid=lid, lmc=lmc, gid_tbl_len=gids, pkey_tbl_len=pkeys, grh_required=grh,
    )  # fmt: skip


@lru_cache(256)
def _table(slots: bytes) -> Mapping[int, GidEntry]:
    """The entries by index: the same object while the table does not change, for each queue pair keeps its calls'."""
    return {slot.index: _entry(slot) for slot in gids(slots)}


def _entry(slot: Gid) -> GidEntry:
    gid = GID(bytes(slot.gid))
    if slot.type == _NO_TYPE:
        return GidEntry(index=slot.index, gid=gid)
    kind = GidType(slot.type)
    # No net device: RoCE has one elsewhere, or has lost it; InfiniBand needs none.
    is_unknown = slot.netdev == NOT_ASKED or (kind is GidType.IB and not slot.ifindex)
    netdev = None if is_unknown else slot.netdev.decode(errors="replace")
    return GidEntry(index=slot.index, gid=gid, type=kind, netdev=netdev)
