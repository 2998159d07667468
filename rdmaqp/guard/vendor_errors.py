"""What mlx5 says beside a completion's status: the vendor's syndrome, which programs print as vendor_err. Data.

No manual that everybody may read lists them; NVIDIA's own libdpcp decodes them (Mellanox/libdpcp src/dpcp/err_cqe.cpp),
and public reports agree (openucx/ucx#9515, charmplusplus/charm#2532, openzfs/zfs#6795). Other vendors' numbers mean
other things: these are asked on mlx5 alone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Devices whose syndromes these are.
DRIVER = "mlx5"


class Sense(NamedTuple):
    """What one number says.

    Attributes:
        words: for a reader.
        cause: a key of the causes, where it singles one out; ``""`` where the status says as much.
        more: where to look.
    """

    words: str
    cause: str = ""
    more: str = ""


#: Where the memory protection refused: the upper five bits of the number.
_PLACES: Mapping[int, str] = MappingProxyType({
    0x10: "when a work request was fetched", 0x18: "of an atomic operation", 0x20: "of an RDMA read",
    0x28: "in a receive's buffer", 0x30: "in a receive's buffer", 0x38: "of an RDMA write",
    0x50: "when data was gathered, or a window bound", 0x60: "when a work request was fetched",
    0x78: "of a fast registration", 0xC0: "of an RDMA write with immediate", 0xC8: "of an invalidation",
})  # fmt: skip
#: And why: the lower three.
_WHY: Mapping[int, Sense] = MappingProxyType({
    1: Sense("PCIe error", "memory-not-pinnable", "the device could not reach that memory over PCIe: a GPU's whose "
             "peer-to-peer path is closed (ACS, IOMMU, peer-memory module), or an address that is not there"),
    2: Sense("another protection domain", "local-key", "the region and the queue pair belong to different ones"),
    3: Sense("access not allowed", "local-key", "the region's access flags lack it"),
    4: Sense("past the end of the region", "local-key"),
    6: Sense("page not there", "memory-not-pinnable", "the page was gone, or the bus refused"),
})  # fmt: skip

_RNR = range(0xA0, 0xC0)
_LOSES = "the peer is there, and packets are lost on the way: PFC, ECN, a bad cable or transceiver"
#: All other numbers that say more than, or as much as, their status.
_OTHERS: Mapping[int, Sense] = MappingProxyType({
    0x40: Sense("the completion queue is not valid"),
    0x41: Sense("the completion queue is full"), 0x49: Sense("the completion queue is full"),
    0x68: Sense("the work request is malformed", "post-opcode"),
    0x69: Sense("the message is longer than a message may be", "post-sge"),
    0x6A: Sense("the message is longer than the MTU (UD)", "post-sge"),
    0x6D: Sense("an opcode that this type of queue pair has not", "post-opcode"),
    0x71: Sense("a reserved opcode", "post-opcode"),
    0x80: Sense("no answer came in time"),
    0x81: Sense("no answer came in time, and the retries are used up"),
    0x83: Sense("answers to later packets came, and the retries are used up", "peer-unreachable", _LOSES),
    0x85: Sense("the peer told of missing packets, and the retries are used up", "peer-unreachable", _LOSES),
    0x87: Sense("the peer had no receive, as often as rnr_retry allows"),
    0x88: Sense("the peer refused the access (NAK)"),
    0x89: Sense("the peer could not carry it out (NAK)"),
    0x8A: Sense("the peer found the request invalid (NAK)"),
    0x8E: Sense("a packet longer than the path MTU", "peer-mtu"),
    0x90: Sense("this queue pair does not allow reads (qp_access_flags)", "access-denied"),
    0x91: Sense("this queue pair does not allow atomics (qp_access_flags)", "access-denied"),
    0x92: Sense("this queue pair does not allow writes (qp_access_flags)", "access-denied"),
    0x94: Sense("the packet number is not the expected one", "peer-psn"),
    0xD1: Sense("an atomic whose address is not a multiple of 8", "remote-key"),
    0xD2: Sense("more reads and atomics under way than max_dest_rd_atomic", "peer-rd-atomic"),
    0xD4: Sense("the message is longer than the buffer for it", "post-sge"),
    0xD6: Sense("no receive is posted", "receiver-not-ready"),
    0xD7: Sense("the message is longer than the receive that it met", "post-sge"),
    0xF5: Sense("the queue pair was moved to ERR by a command (the program, or the driver)"),
    0xF9: Sense("flushed: the queue pair was in ERR already"),
})  # fmt: skip


def sense(driver: str | None, vendor_err: int | None) -> Sense | None:
    """What *vendor_err* says on *driver*; ``None`` where nobody here knows."""
    if driver != DRIVER or vendor_err is None:
        return None
    if vendor_err in _RNR:
        return Sense("the peer had no receive posted")
    found = _OTHERS.get(vendor_err)
    place, why = _PLACES.get(vendor_err & ~7), _WHY.get(vendor_err & 7)
    if found is None and place is not None and why is not None:
        found = why._replace(words=f"{why.words} {place}")
    return found
