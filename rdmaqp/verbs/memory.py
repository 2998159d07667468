"""Protection domains and memory regions."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.enums import AccessFlag, QPType
from rdmaqp.model.request import QPCap, QPFacts, Registration, Request
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.address import AddressHandle
from rdmaqp.verbs.asking import ask_guard
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
        def make() -> Any:
            return check_pointer("ibv_alloc_pd", native().lib.ibv_alloc_pd(context.handle), f"device {context.name}")

        super().__init__(make, context)
        self.context = context

    def reg_mr(self, memory: Buffer, access: int = AccessFlag.LOCAL_WRITE) -> MemoryRegion:
        """Register *memory*, anything with the buffer protocol, and keep it alive (ibv_reg_mr(3)).

        A bytearray cannot be resized while it is registered. Read-only memory can be registered without LOCAL_WRITE.

        Raises:
            TypeError: it has no buffer.
            ValueError: it is empty, has gaps, or is read-only and *access* would write to it.
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
        length: bytes.
        lkey, rkey: the keys by which this side and the other side name it.
    """

    kind = "memory region"
    _rank = 1

    def __init__(self, pd: ProtectionDomain, memory: Buffer, access: int) -> None:
        ffi, lib = native()
        view = _bytes_of(memory)
        if view.readonly and access & _WRITES:
            raise ValueError(
                f"this memory is read-only, and {AccessFlag(access & _WRITES)!r} would let the device write to it; "
                "pass access=0 (or REMOTE_READ), or writable memory"
            )

        def asked() -> Request:
            act = Registration(access=int(access), length=view.nbytes)
            return Request(qp=QPFacts(), reg_mr=act, device=pd.context.facts)

        ask_guard(asked)
        # The cdata holds the buffer's export: the owner can neither free nor resize it before release().
        pinned = ffi.from_buffer(view, require_writable=not view.readonly)

        def make() -> Any:
            pointer = lib.rdmaqp_reg_mr(pd.handle, pinned, view.nbytes, int(access))
            return check_pointer("ibv_reg_mr", pointer, f"{view.nbytes:,} bytes on {pd.context.name}", asked)

        self.pd = pd
        self.length = view.nbytes
        self.addr = int(ffi.cast("uintptr_t", pinned))
        self._view = view
        self._pinned = pinned
        try:
            super().__init__(make, pd)
        except BaseException:
            self._let_go()
            raise
        self.lkey = int(self.handle.lkey)
        self.rkey = int(self.handle.rkey)

    @property
    def buffer(self) -> memoryview:
        """A view of the memory, byte by byte; writable where the memory is."""
        self.require_open()
        return self._view

    def span(self, offset: int, length: int) -> int:
        """The address of *length* bytes at *offset*. Raises ``ValueError`` where they are not all inside."""
        self.require_open()
        if offset < 0 or length < 0 or offset + length > self.length:
            raise ValueError(
                f"bytes {offset}…{offset + length} are not inside this region of {self.length} bytes"
            )
        return self.addr + offset

    def _destroy(self, handle: Any) -> None:
        check("ibv_dereg_mr", native().lib.ibv_dereg_mr(handle), self.kind)
        self._let_go()

    def _let_go(self) -> None:
        native().ffi.release(self._pinned)
        with suppress(BufferError):  # a NumPy array made of it keeps the memory for itself
            self._view.release()


def _bytes_of(memory: Buffer) -> memoryview:
    view = memoryview(memory)
    if view.nbytes == 0:
        raise ValueError("a memory region has at least 1 byte; this memory is empty")
    if not view.c_contiguous:
        raise ValueError(
            f"this memory has gaps or another order (shape {view.shape}, strides {view.strides}), and a memory region "
            "is one run of bytes: register the whole and use offsets, or a contiguous copy"
        )
    return view.cast("B")


_WRITES = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_ATOMIC
