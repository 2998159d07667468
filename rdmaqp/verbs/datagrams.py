"""Datagrams: where they go, where they came from, what stands before their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.model.acts import GRH_BYTES
from rdmaqp.model.enums import QPType
from rdmaqp.model.steps import address_vector
from rdmaqp.verbs import address
from rdmaqp.verbs._native import check, native
from rdmaqp.verbs.work import Destination

if TYPE_CHECKING:
    from rdmaqp.model.attributes import AddressVector
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.slices import Slice
    from rdmaqp.verbs.work_completion import WorkCompletion


def payload(received: MemoryRegion | Slice, wc: WorkCompletion) -> Slice:
    """The bytes that a datagram brought: *received* is the whole receive, *wc* its completion.

    Raises:
        ValueError: the completion is of a longer receive, or of none of a datagram.
    """
    return received[GRH_BYTES : wc.byte_len]  # byte_len counts the header too


def destination(pd: ProtectionDomain, local: Endpoint, remote: Endpoint, **options: Any) -> Destination:
    """Where *remote* is, seen from *local*; see ``QueuePair.destination``."""
    if remote.qp_type not in (None, QPType.UD):
        raise ValueError(f"datagrams go to UD queue pairs, and the record is of one of type {remote.qp_type.name}")
    if remote.qkey is None:
        raise ValueError("the record has no qkey: a datagram is taken only where it carries its receiver's")
    return Destination(pd.create_ah(address_vector(local, remote, **options)), remote.qp_num, remote.qkey)


def reply(
    pd: ProtectionDomain, port_num: int, wc: WorkCompletion, received: MemoryRegion | Slice, qkey: int
) -> Destination:  # fmt: skip
    """Where a datagram came from; see ``QueuePair.reply_to``."""
    return Destination(pd.create_ah(_sender(pd, port_num, wc, received)), wc.src_qp, qkey)


def _sender(
    pd: ProtectionDomain, port_num: int, wc: WorkCompletion, received: MemoryRegion | Slice
) -> AddressVector:  # fmt: skip
    ffi, lib = native()
    context = pd.context
    raw = ffi.new("struct ibv_wc *", {
        "wc_flags": wc.wc_flags, "src_qp": wc.src_qp, "slid": wc.slid, "sl": wc.sl,
        "dlid_path_bits": wc.dlid_path_bits,
    })  # fmt: skip
    header = ffi.new("struct ibv_grh *")
    ffi.memmove(header, received[:GRH_BYTES].buffer, GRH_BYTES)
    attr = ffi.new("struct ibv_ah_attr *")
    result = lib.ibv_init_ah_from_wc(context.handle, port_num, raw, header, attr)
    check("ibv_init_ah_from_wc", result, f"port {port_num} of {context.name}, a datagram from {wc.src_qp:#x}")
    return address.read(attr)
