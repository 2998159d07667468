"""Protection domains and memory regions."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.enums import AccessFlag, QPType
from rdmaqp.model.request import QPCap, QPFacts, Registration, Request
from rdmaqp.verbs._native import check, check_pointer, native, pinned
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.address import AddressHandle
from rdmaqp.verbs.asking import ask_guard
from rdmaqp.verbs.group import QueuePairs
from rdmaqp.verbs.parts import Parts
from rdmaqp.verbs.queue_pair import QueuePair
from rdmaqp.verbs.slices import RemoteMemory, Slice, bounds
from rdmaqp.verbs.srq import SharedReceiveQueue
from rdmaqp.verbs.window import MemoryWindow

if TYPE_CHECKING:
    from typing import Protocol

    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.xrc import XRCDomain

    class DLPack(Protocol):
        """What shows its memory by DLPack: tensors, most of all."""

        def __dlpack__(self, **options: Any) -> Any: ...

        def __dlpack_device__(self) -> tuple[int, int]: ...


class ProtectionDomain(Resource):
    """``struct ibv_pd``: what belongs together. Queue pairs reach the memory regions of their own domain only.

    Attributes:
        number: its own, as the kernel counts them.
    """

    kind = "protection domain"
    _rank = 3

    def __init__(self, context: Context) -> None:
        ffi, lib = native()

        def make() -> Any:
            handle = check_pointer("ibv_alloc_pd", lib.ibv_alloc_pd(context.handle), f"device {context.name}")
            self.number = int(handle.handle)
            return handle

        #: What C knows of it: its memory, its destinations.
        self.domain = ffi.new("struct rdmaqp_domain *")
        self.context = context
        super().__init__(make, context)

    def __str__(self) -> str:
        return f"{self.kind} on {self.context.name}"

    @checked()
    def reg_mr(self, memory: Buffer | DLPack, access: int = AccessFlag.LOCAL_WRITE) -> MemoryRegion:
        """Register *memory*, anything with the buffer protocol or DLPack, and keep it alive (ibv_reg_mr(3)).

        A bytearray cannot be resized while it is registered. Read-only memory can be registered without LOCAL_WRITE.
        DLPack is for memory of the CPU, and takes NumPy to read it.

        Raises:
            TypeError: it has no buffer, or NumPy cannot read its DLPack; what to do is said.
            ValueError: it is empty, has gaps, or is read-only and *access* would write to it.
            VerbsError: for ENOMEM, the lock limit is named.
        """
        return MemoryRegion(self, memory, access)

    @checked()
    def alloc_mr(self, length: int, access: int = AccessFlag.LOCAL_WRITE) -> MemoryRegion:
        """Allocate *length* bytes (1 or more) of zeroed, page-aligned memory and register it.

        Raises as :meth:`reg_mr`; MemoryError where this process cannot have so much.
        """
        if length < 1:
            raise ValueError(f"a memory region has at least 1 byte, not {length}")
        try:
            memory = mmap.mmap(-1, length)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"no memory for a region of {length:,} bytes: {error}") from error
        return MemoryRegion(self, memory, access)

    def alloc_mw(self) -> MemoryWindow:
        """A memory window of type 2, bound to nothing yet (ibv_alloc_mw(3)).

        Raises :class:`VerbsError`, which says what the device has: not all have windows.
        """
        return MemoryWindow(self)

    @checked()
    def create_qp(
        self, send_cq: CompletionQueue | None = None, recv_cq: CompletionQueue | None = None, *,
        qp_type: QPType | str = QPType.RC, srq: SharedReceiveQueue | None = None, xrcd: XRCDomain | None = None,
        max_send_wr: int = 16, max_recv_wr: int = 16, max_send_sge: int = 1, max_recv_sge: int = 1,
        max_inline_data: int = 0, sq_sig_all: bool = False,
    ) -> QueuePair:
        """A queue pair, in RESET (ibv_create_qp(3)). *recv_cq* is *send_cq* where not given.

        With an *srq* its receives come from there, and *max_recv_wr* and *max_recv_sge* are not used. An XRC_RECV queue
        pair has an *xrcd*, and no completion queue: its receives complete where the shared receive queue's do.

        Raises:
            GuardError: a capacity is above the device's; the driver has no such type.
            VerbsError: the driver refused.
            ValueError: the parts do not belong together, or one is missing.
        """
        cap = QPCap(
            max_send_wr=max_send_wr, max_recv_wr=max_recv_wr, max_send_sge=max_send_sge, max_recv_sge=max_recv_sge,
            max_inline_data=max_inline_data,
        )
        parts = Parts(self, send_cq, recv_cq or send_cq, srq, xrcd)
        return QueuePair(parts, qp_type, cap, sq_sig_all=sq_sig_all)

    @checked()
    def create_qps(
        self, count: int, send_cq: CompletionQueue | None = None, recv_cq: CompletionQueue | None = None, *,
        qp_type: QPType | str = QPType.RC, srq: SharedReceiveQueue | None = None, xrcd: XRCDomain | None = None,
        max_send_wr: int = 16, max_recv_wr: int = 16, max_send_sge: int = 1, max_recv_sge: int = 1,
        max_inline_data: int = 0, sq_sig_all: bool = False,
    ) -> QueuePairs:
        """*count* queue pairs, each as :meth:`create_qp` makes it: a sequence, made at C's speed (:class:`QueuePairs`).

        Raises as :meth:`create_qp`, and leaves none then; ValueError for a *count* below 1. The guard warns of more
        than the device has in all.
        """
        cap = QPCap(
            max_send_wr=max_send_wr, max_recv_wr=max_recv_wr, max_send_sge=max_send_sge, max_recv_sge=max_recv_sge,
            max_inline_data=max_inline_data,
        )
        parts = Parts(self, send_cq, recv_cq or send_cq, srq, xrcd)
        return QueuePairs(count, parts, qp_type, cap, sq_sig_all=sq_sig_all)

    @checked()
    def create_srq(
        self, max_wr: int, max_sge: int = 1, srq_limit: int = 0, *, xrcd: XRCDomain | None = None,
        cq: CompletionQueue | None = None,
    ) -> SharedReceiveQueue:  # fmt: skip
        """A shared receive queue for *max_wr* receives, 1…``attr.max_srq_wr``, of *max_sge* pieces (ibv_create_srq(3)).

        *srq_limit* is as in ``srq.modify``. With *xrcd* and *cq* it is an XRC queue, whose completions come to *cq*.

        Raises:
            ValueError: a number is outside its range, or the parts do not belong together.
            VerbsError: the driver refused.
        """
        return SharedReceiveQueue(self, max_wr, max_sge, srq_limit, xrcd=xrcd, cq=cq)

    @checked()
    def create_ah(self, address: AddressVector) -> AddressHandle:
        """An address handle, for datagrams (ibv_create_ah(3))."""
        return AddressHandle(self, address)

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        check("ibv_dealloc_pd", lib.ibv_dealloc_pd(handle), self.kind)
        lib.rdmaqp_end_domain(self.domain)


class MemoryRegion(Resource):
    """``struct ibv_mr``: memory that the device may reach.

    ``region[0:64]`` is a piece of it that can be posted.

    Attributes:
        addr: its address.
        length: bytes.
        access: the access flags that it was registered with.
        lkey, rkey: the keys by which this side and the other side name it.
    """

    kind = "memory region"
    _rank = 2

    def __init__(self, pd: ProtectionDomain, memory: Buffer | DLPack, access: int) -> None:
        ffi, lib = native()
        view = _bytes_of(memory)
        if view.readonly and access & _WRITES:
            raise ValueError(
                f"this memory is read-only, and {AccessFlag(access & _WRITES)!r} would let the device write to it; "
                "pass access=0 (or REMOTE_READ), or writable memory"
                + _why_read_only(memory)
            )

        def asked() -> Request:
            act = Registration(access=int(access), length=view.nbytes)
            return Request(qp=QPFacts(), reg_mr=act, device=pd.context.facts)

        ask_guard(asked)
        held = pinned(view)  # the owner can neither free nor resize it before release()

        def make() -> Any:
            pointer = lib.rdmaqp_reg_mr(pd.handle, held, view.nbytes, int(access))
            handle = check_pointer("ibv_reg_mr", pointer, f"{view.nbytes:,} bytes on {pd.context.name}", asked)
            self.lkey, self.rkey = int(handle.lkey), int(handle.rkey)
            if lib.rdmaqp_add_region(pd.domain, self.addr, self.length, self.lkey, self.access):
                lib.ibv_dereg_mr(handle)
                raise MemoryError(f"no room to note {view.nbytes:,} bytes in their {pd.kind}")
            return handle

        self.pd = pd
        self.access = int(access)
        self.length = view.nbytes
        self.addr = int(ffi.cast("uintptr_t", held))
        self._view = view
        self._pinned = held
        try:
            super().__init__(make, pd)
        except BaseException:
            self._let_go()
            raise

    def __getitem__(self, key: slice) -> Slice:
        """Bytes that a work request can name. Raises ``ValueError`` where they are not all inside."""
        self.require_open()
        return Slice(self, *bounds(key, self.length, f"this region of {self.length} bytes"))

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<memory region of {self.length} bytes, lkey {self.lkey:#x}, rkey {self.rkey:#x}{state}>"

    @property
    def remote(self) -> RemoteMemory:
        """What to tell the peer, so that it may read or write this memory, as *access* lets it."""
        return RemoteMemory(self.addr, self.length, self.rkey)

    @property
    def buffer(self) -> memoryview:
        """A view of the memory, byte by byte; writable where the memory is."""
        self.require_open()
        return self._view

    def span(self, offset: int, length: int) -> int:
        """The address of *length* bytes at *offset*. Raises ``ValueError`` where they are not all inside."""
        self.require_open()
        if offset < 0 or length < 0 or offset + length > self.length:
            raise ValueError(f"bytes {offset}…{offset + length} are not inside this region of {self.length} bytes")
        return self.addr + offset

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        lib.rdmaqp_drop_region(self.pd.domain, self.lkey)  # first: no post may find it while it ends
        try:
            check("ibv_dereg_mr", lib.ibv_dereg_mr(handle), self.kind)
        except VerbsError:
            lib.rdmaqp_add_region(self.pd.domain, self.addr, self.length, self.lkey, self.access)
            raise
        self._let_go()

    def _let_go(self) -> None:
        native().ffi.release(self._pinned)
        with suppress(BufferError):  # a NumPy array made of it keeps the memory for itself
            self._view.release()


def _bytes_of(memory: Buffer | DLPack) -> memoryview:
    view = _buffer_of(memory)
    if view.nbytes == 0:
        raise ValueError("a memory region has at least 1 byte; this memory is empty")
    if not view.c_contiguous:
        raise ValueError(
            f"this memory has gaps or another order (shape {view.shape}, strides {view.strides}), and a memory region "
            "is one run of bytes: register the whole and use offsets, or a contiguous copy"
        )
    return view.cast("B")


def _buffer_of(memory: Any) -> memoryview:
    try:
        return memoryview(memory)
    except TypeError:
        if not hasattr(memory, "__dlpack__"):
            raise
    kind = type(memory).__name__
    device, number = memory.__dlpack_device__()
    if device not in _CPU_DEVICES:
        raise TypeError(f"this {kind} is on DLPack device ({int(device)}, {number}), and not in memory of the CPU")
    try:
        import numpy as np  # optional
    except ImportError:
        raise TypeError(f"this {kind} shows its memory by DLPack alone, which NumPy reads: install numpy") from None
    try:
        array: Any = np.from_dlpack(memory)  # a buffer to the type checker too, from Python 3.12 on
        return memoryview(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"NumPy {np.__version__} cannot read the DLPack of this {kind}: {error}. Give it as bytes (of PyTorch: "
            "tensor.view(torch.uint8))"
        ) from error


def _why_read_only(memory: Any) -> str:
    try:
        memoryview(memory)
    except TypeError:
        return (
            "; NumPy takes all DLPack for read-only that is older than version 1, which cannot say (of PyTorch, give "
            "tensor.numpy())"
        )
    return ""


#: ``DLDeviceType``: kDLCPU, and what CUDA and ROCm have pinned of it.
_CPU_DEVICES = frozenset({1, 3, 11})
_WRITES = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_ATOMIC
