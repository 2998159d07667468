"""Protection domains: what belongs together, and where everything of it is made."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

from rdmaqp.model.arguments import checked
from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.enums import AccessFlag, QPType
from rdmaqp.model.request import QPCap
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.address import AddressHandle
from rdmaqp.verbs.group import QueuePairs
from rdmaqp.verbs.memory import MemoryRegion
from rdmaqp.verbs.parts import Parts
from rdmaqp.verbs.queue_pair import QueuePair
from rdmaqp.verbs.srq import SharedReceiveQueue
from rdmaqp.verbs.window import MemoryWindow

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.memory import DLPack
    from rdmaqp.verbs.xrc import XRCDomain


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
            TypeError: it has no buffer, holds Python objects, or NumPy cannot read its DLPack; what to do is said.
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
