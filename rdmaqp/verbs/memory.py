"""Protection domains and memory regions."""

from __future__ import annotations

import mmap
import resource
from typing import TYPE_CHECKING, Any

from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.enums import AccessFlag, QPType
from rdmaqp.model.request import QPCap
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.address import AddressHandle
from rdmaqp.verbs.queue_pair import QueuePair

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.device import Context


class ProtectionDomain(Resource):
    """``struct ibv_pd``: what belongs together. Queue pairs reach the memory regions of their own domain only."""

    kind = "protection domain"
    _rank = 2

    def __init__(self, context: Context) -> None:
        lib = native().lib
        handle = check_pointer("ibv_alloc_pd", lib.ibv_alloc_pd(context.handle), f"device {context.name}")
        super().__init__(handle, context)
        self.context = context

    def reg_mr(self, memory: Buffer, access: int = AccessFlag.LOCAL_WRITE) -> MemoryRegion:
        """Register *memory*, anything with the buffer protocol, and keep it alive (ibv_reg_mr(3)).

        A bytearray cannot be resized while it is registered. Read-only memory can be registered without LOCAL_WRITE.

        Raises:
            VerbsError: for ENOMEM, the lock limit is named.
        """
        return MemoryRegion(self, memory, access)

    def alloc_mr(self, length: int, access: int = AccessFlag.LOCAL_WRITE) -> MemoryRegion:
        """Allocate *length* bytes (1 or more) of zeroed, page-aligned memory and register it."""
        if length < 1:
            raise ValueError(f"a memory region has at least 1 byte, not {length}")
        return MemoryRegion(self, mmap.mmap(-1, length), access)

    def create_qp(
        self, send_cq: CompletionQueue, recv_cq: CompletionQueue | None = None, *, qp_type: QPType | str = QPType.RC,
        max_send_wr: int = 16, max_recv_wr: int = 16, max_send_sge: int = 1, max_recv_sge: int = 1,
        max_inline_data: int = 0, sq_sig_all: bool = False,
    ) -> QueuePair:
        """A queue pair, in RESET (ibv_create_qp(3)). *recv_cq* is *send_cq* where not given.

        Raises:
            GuardError: a capacity is above the device's.
            VerbsError: the driver refused.
        """
        cap = QPCap(
            max_send_wr=max_send_wr, max_recv_wr=max_recv_wr, max_send_sge=max_send_sge, max_recv_sge=max_recv_sge,
            max_inline_data=max_inline_data,
        )
        return QueuePair(self, send_cq, recv_cq or send_cq, qp_type, cap, sq_sig_all=sq_sig_all)

    def create_ah(self, address: AddressVector) -> AddressHandle:
        """An address handle, for datagrams (ibv_create_ah(3))."""
        return AddressHandle(self, address)

    def _destroy(self, handle: Any) -> None:
        check("ibv_dealloc_pd", native().lib.ibv_dealloc_pd(handle), self.kind)


class MemoryRegion(Resource):
    """``struct ibv_mr``: memory that the device may reach.

    Attributes:
        buffer: a writable view of the memory (read-only where the memory is).
        length: bytes.
        lkey, rkey: the keys by which this side and the other side name it.
    """

    kind = "memory region"
    _rank = 1

    def __init__(self, pd: ProtectionDomain, memory: Buffer, access: int) -> None:
        ffi, lib = native()
        view = memoryview(memory).cast("B")
        if view.nbytes == 0:
            raise ValueError("a memory region has at least 1 byte; this memory is empty")
        if view.readonly and access & _WRITES:
            raise ValueError(
                f"this memory is read-only, and {AccessFlag(access & _WRITES)!r} would let the device write to it; "
                "pass access=0 (or REMOTE_READ), or writable memory"
            )
        # The cdata holds the buffer's export: the owner can neither free nor resize it before release().
        pinned = ffi.from_buffer(view, require_writable=not view.readonly)
        handle = check_pointer(
            "ibv_reg_mr",
            lib.rdmaqp_reg_mr(pd.handle, pinned, view.nbytes, int(access)),
            f"{view.nbytes:,} bytes on {pd.context.name}",
            _memlock_notes(view.nbytes),
        )
        super().__init__(handle, pd)
        self.pd = pd
        self.buffer = view
        self.length = view.nbytes
        self.addr = int(ffi.cast("uintptr_t", pinned))
        self.lkey = int(handle.lkey)
        self.rkey = int(handle.rkey)
        self._pinned = pinned

    def span(self, offset: int, length: int) -> int:
        """The address of *length* bytes at *offset*. Raises ``ValueError`` where they are not all inside."""
        if offset < 0 or length < 0 or offset + length > self.length:
            raise ValueError(
                f"bytes {offset}…{offset + length} are not inside this region of {self.length} bytes"
            )
        return self.addr + offset

    def _destroy(self, handle: Any) -> None:
        check("ibv_dereg_mr", native().lib.ibv_dereg_mr(handle), self.kind)
        native().ffi.release(self._pinned)
        self.buffer.release()


_WRITES = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_ATOMIC


def _memlock_notes(length: int) -> tuple[str, ...]:
    """What to say of the lock limit, where it is smaller than what was asked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= length:
        return ()
    top = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,} bytes"
    return (
        f"This process may lock {soft:,} bytes of memory (RLIMIT_MEMLOCK; the hard limit is {top}), and registering",
        f"locks {length:,}. Raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit,",
        "--ulimit memlock=-1 for a container, or a line in /etc/security/limits.conf.",
    )


