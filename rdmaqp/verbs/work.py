"""Work requests as plain objects: what a queue pair can be asked to do, one class a kind.

    qp.post(Send(region[0:64]), Write(region[64:128], remote[0:64], imm=7))

Each becomes a record, the form in which C takes it (:mod:`rdmaqp.verbs.records`). See ibv_post_send(3).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rdmaqp.model.acts import SendFlag, WROpcode
from rdmaqp.model.attributes import as_int

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.verbs.address import AddressHandle
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.slices import RemoteMemory, Slice

    #: What a work request names of our own memory: one piece or several.
    Local: TypeAlias = MemoryRegion | Slice | Sequence[MemoryRegion | Slice] | None

FENCE, SIGNALED, SOLICITED, INLINE = map(int, (SendFlag.FENCE, SendFlag.SIGNALED, SendFlag.SOLICITED, SendFlag.INLINE))

#: The fields of a send's record, in order, with their kinds in :mod:`struct`.
SEND_FIELDS: Final = (
    ("wr_id", "Q"), ("addr", "Q"), ("remote_addr", "Q"), ("compare_add", "Q"), ("swap", "Q"), ("length", "I"),
    ("lkey", "I"), ("rkey", "I"), ("imm_data", "I"), ("opcode", "I"), ("send_flags", "I"), ("ah", "I"),
    ("remote_qpn", "I"), ("remote_qkey", "I"), ("remote_srqn", "I"),
)  # fmt: skip
RECV_FIELDS: Final = (("wr_id", "Q"), ("addr", "Q"), ("length", "I"), ("lkey", "I"))
_SEND = struct.Struct("=" + "".join(kind for _, kind in SEND_FIELDS))
_RECV = struct.Struct("=" + "".join(kind for _, kind in RECV_FIELDS))
SEND_SIZE: Final = _SEND.size
RECV_SIZE: Final = _RECV.size


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a datagram goes. ``QueuePair.destination(remote)`` makes one of a peer's record.

    Attributes:
        ah: the address handle.
        qp_num: the queue pair there, 24 bits.
        qkey: its Q_Key.
    """

    ah: AddressHandle
    qp_num: int
    qkey: int

    def close(self) -> None:
        """End the address handle; its protection domain's end would, too."""
        self.ah.close()


#: What a kind of request adds to its record: remote_addr, compare_add, swap, rkey, imm_data, ah, remote_qpn,
#: remote_qkey.
Details = tuple[int, int, int, int, int, int, int, int]


@dataclass(slots=True, kw_only=True)
class Work:
    """A send request.

    Attributes:
        wr_id: 64 bits that its completion brings back.
        signaled: whether it completes where it succeeds. One that fails always does.
        solicited: whether the other side's event, armed for solicited ones alone, is raised.
        fence: whether it waits for earlier reads and atomics of this queue pair (RC).
        inline: copy the bytes while posting, up to ``max_inline_data`` of them: SEND and RDMA_WRITE, from any buffer.
        remote_srqn: of XRC, the shared receive queue there.
    """

    opcode: ClassVar[WROpcode]

    wr_id: int = 0
    signaled: bool = True
    solicited: bool = False
    fence: bool = False
    inline: bool = False
    remote_srqn: int = 0

    def code(self) -> int:
        """Its ``enum ibv_wr_opcode``."""
        return self.opcode

    def _details(self) -> Details:
        return 0, 0, 0, 0, 0, 0, 0, 0

    def as_record(self, addr: int = 0, length: int = 0, lkey: int = 0) -> tuple[int, ...]:
        """The values of its record, for one piece of memory, in the order of :data:`SEND_FIELDS`."""
        # Whatever is true sets its own bit, and no other: 2 is no reason to make an unsolicited send a solicited one.
        flags = (
            (SIGNALED if self.signaled else 0) | (SOLICITED if self.solicited else 0)
            | (FENCE if self.fence else 0) | (INLINE if self.inline else 0)
        )  # fmt: skip
        remote_addr, compare_add, swap, rkey, imm_data, ah, qpn, qkey = self._details()
        return (
            self.wr_id, addr, remote_addr, compare_add, swap, length, lkey, rkey, imm_data, self.code(), flags, ah,
            qpn, qkey, self.remote_srqn,
        )

    def pieces(self) -> tuple[MemoryRegion | Slice, ...]:
        """The pieces of our memory that it names."""
        return pieces_of(getattr(self, "local", None))

    def require_remote(self, length: int) -> None:
        """Raise :class:`ValueError` where the remote memory that it names is not what *length* bytes of ours need."""
        remote: RemoteMemory | None = getattr(self, "remote", None)
        if remote is not None and remote.addr % 8 and isinstance(self, (CompareSwap, FetchAdd)):
            raise ValueError(f"an atomic is on 8 bytes at a multiple of 8, and their address there is {remote.addr:#x}")
        if remote is not None and length > remote.length:
            raise ValueError(f"{length} bytes here, and the remote memory that is named has {remote.length}")


@dataclass(slots=True)
class Send(Work):
    """SEND, and SEND_WITH_IMM or SEND_WITH_INV where *imm* or *invalidate* is given.

    Attributes:
        local: the bytes.
        imm: 32 bits for the receiver, in host byte order.
        invalidate: a key of the receiver's that is to end. A message carries this or *imm*: they have one field.
        to: where it goes, of a datagram.
    """

    local: Local | Buffer = None
    imm: int | None = None
    invalidate: int | None = None
    to: Destination | None = None

    def code(self) -> int:
        """Which of the three."""
        if self.invalidate is not None:
            return WROpcode.SEND_WITH_INV
        return WROpcode.SEND if self.imm is None else WROpcode.SEND_WITH_IMM

    def _details(self) -> Details:
        to = self.to
        where = (0, 0, 0) if to is None else (to.ah.number, to.qp_num, to.qkey)
        return 0, 0, 0, self.invalidate or 0, self.imm or 0, *where


@dataclass(slots=True)
class Write(Work):
    """RDMA_WRITE, and RDMA_WRITE_WITH_IMM where *imm* is given: that one takes a receive there.

    Attributes:
        local: the bytes.
        remote: where they go; as long as they are, or longer.
        imm: 32 bits for the receiver, in host byte order.
    """

    local: Local | Buffer
    remote: RemoteMemory
    imm: int | None = None

    def code(self) -> int:
        """Which of the two."""
        return WROpcode.RDMA_WRITE if self.imm is None else WROpcode.RDMA_WRITE_WITH_IMM

    def _details(self) -> Details:
        return self.remote.addr, 0, 0, self.remote.rkey, self.imm or 0, 0, 0, 0


@dataclass(slots=True)
class Read(Work):
    """RDMA_READ: *remote*'s bytes into *local*."""

    opcode = WROpcode.RDMA_READ

    local: Local
    remote: RemoteMemory

    def _details(self) -> Details:
        return self.remote.addr, 0, 0, self.remote.rkey, 0, 0, 0, 0


@dataclass(slots=True)
class CompareSwap(Work):
    """ATOMIC_CMP_AND_SWP on the 8 bytes at *remote*: where they are *compare* they become *swap*, 64 bits each.

    Their old value comes into the 8 bytes *local*, in host byte order.
    """

    opcode = WROpcode.ATOMIC_CMP_AND_SWP

    local: MemoryRegion | Slice
    remote: RemoteMemory
    compare: int
    swap: int

    def _details(self) -> Details:
        return self.remote.addr, self.compare, self.swap, self.remote.rkey, 0, 0, 0, 0


@dataclass(slots=True)
class FetchAdd(Work):
    """ATOMIC_FETCH_AND_ADD on the 8 bytes at *remote*: *add*, 64 bits, is added, modulo 2**64.

    Their old value comes into the 8 bytes *local*, in host byte order.
    """

    opcode = WROpcode.ATOMIC_FETCH_AND_ADD

    local: MemoryRegion | Slice
    remote: RemoteMemory
    add: int

    def _details(self) -> Details:
        return self.remote.addr, self.add, 0, self.remote.rkey, 0, 0, 0, 0


@dataclass(slots=True)
class LocalInvalidate(Work):
    """LOCAL_INV: the key *rkey*, of a memory window of ours, ends."""

    opcode = WROpcode.LOCAL_INV

    rkey: int

    def _details(self) -> Details:
        return 0, 0, 0, self.rkey, 0, 0, 0, 0


@dataclass(slots=True)
class Recv:
    """A receive: the next message, or the next immediate data, comes into *local*."""

    local: Local = None
    wr_id: int = 0

    def pieces(self) -> tuple[MemoryRegion | Slice, ...]:
        """The pieces of our memory that it names."""
        return pieces_of(self.local)


def require_work(work: object) -> None:
    """Raise :class:`TypeError` where *work* is none, :class:`ValueError` where it is two at once."""
    if not isinstance(work, (Work, Recv)) or type(work) is Work:
        raise TypeError(f"{type(work).__name__} is no work request, such as Send(region[0:64]) or Recv(region)")
    if isinstance(work, (Write, Read, CompareSwap, FetchAdd)) and not hasattr(work.remote, "rkey"):
        hint = "give its .remote" if hasattr(work.remote, "lkey") else "RemoteMemory(addr, length, rkey) makes one"
        raise TypeError(f"{type(work).__name__}: remote is {_given(work.remote)}; expected the peer's memory: {hint}")
    if isinstance(work, Send) and not (work.to is None or hasattr(work.to, "ah")):
        raise TypeError(f"Send: to is {_given(work.to)}; expected a destination: qp.destination(record) makes one")
    if isinstance(work, Send) and work.imm is not None and work.invalidate is not None:
        raise ValueError("Send: a message carries imm, or invalidate, and not both: they have one field in it")


def _given(value: object) -> str:
    return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"


def work_is_inline(work: Work | Recv) -> bool:
    """Whether its bytes are copied while posting, from any buffer."""
    return isinstance(work, Work) and work.inline


def pieces_of(local: object) -> tuple[MemoryRegion | Slice, ...]:
    """*local* as a tuple of what has an address, a length and an lkey.

    Raises:
        TypeError: something in it is no memory region and no slice of one.
    """
    parts = parts_of(local)
    for part in parts:
        if not hasattr(part, "lkey"):
            raise TypeError(
                f"{type(part).__name__} is no registered memory: post a memory region or a slice of one "
                "(region[0:64]), or plain bytes with inline=True"
            )
    return parts


def parts_of(local: object) -> tuple[Any, ...]:
    """*local* as a tuple: none, one, or several."""
    if local is None:
        return ()
    return tuple(local) if isinstance(local, (list, tuple)) else (local,)


def pack(into: memoryview, at: int, values: Sequence[int]) -> None:
    """Write the values of a send's or a receive's record as number *at* of *into*.

    Raises:
        ValueError, TypeError: one does not fit its field, which is named.
    """
    form = _SEND if len(values) == len(SEND_FIELDS) else _RECV
    try:
        form.pack_into(into, at * form.size, *values)
    except struct.error:
        names = SEND_FIELDS if form is _SEND else RECV_FIELDS
        for (name, kind), value in zip(names, values, strict=True):
            high = (1 << (64 if kind == "Q" else 32)) - 1
            number = as_int(value)
            if number is None:
                raise TypeError(f"{name}: {value!r} is no integer") from None
            if not 0 <= number <= high:
                raise ValueError(f"{name}: {number} is outside 0…{high:#x}") from None
        raise
