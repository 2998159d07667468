"""The data path of a queue pair: posting, from convenient to fast. C compares and posts; Python packs and explains.

    qp.send(region[0:64])                       one request
    qp.post(Send(a), Write(b, remote))          several, in order, all checked before any is posted
    chain = qp.chain(Send(a), Send(b))          made once …
    chain.post()                                … and posted often
    qp.post_sends(records)                      an array of records, in one call
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import ClosedError
from rdmaqp.guard.posting import opcodes_of
from rdmaqp.model.enums import QPState, QPType
from rdmaqp.model.request import QPFacts
from rdmaqp.verbs._native import native
from rdmaqp.verbs.receiving import Receiving, counted, needs_chain
from rdmaqp.verbs.records import record_of, sends_in
from rdmaqp.verbs.refused import Posted
from rdmaqp.verbs.slices import Slice
from rdmaqp.verbs.window import Bind, MemoryWindow
from rdmaqp.verbs.work import (
    CompareSwap,
    FetchAdd,
    LocalInvalidate,
    Read,
    Recv,
    Send,
    Work,
    Write,
    pack,
)

if TYPE_CHECKING:
    from rdmaqp.model.request import QPCap
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.slices import RemoteMemory
    from rdmaqp.verbs.srq import SharedReceiveQueue
    from rdmaqp.verbs.work import Local

_SENDS = frozenset({QPState.RTS, QPState.SQD})
_RECEIVES = frozenset({QPState.INIT, QPState.RTR, QPState.RTS, QPState.SQD, QPState.SQE})


class WorkQueues(Receiving):
    """What :class:`~rdmaqp.QueuePair` posts with. One thread owns it.

    All posting calls raise:

    GuardError: by the rules ``post-…`` of the check contract; nothing was posted. ``RDMAQP_GUARD`` and
        :func:`rdmaqp.policy` hold here too.
    VerbsError: the driver refused; ``posted`` says how many of the call's requests it had taken.
    ClosedError, ValueError, TypeError: it is closed; a number does not fit its field; that is no memory.
    """

    pd: ProtectionDomain
    send_cq: CompletionQueue
    recv_cq: CompletionQueue
    type: QPType
    qp_num: int
    cap: QPCap
    sq_sig_all: bool
    srq: SharedReceiveQueue | None = None

    def account(self, handle: Any, slots: Any, mask: int) -> dict[str, Any]:
        """The initialiser of ``struct rdmaqp_qp``, in RESET; *slots* hold as many sends as *mask* says, and one."""
        driver, cap = self.pd.context.facts.driver, self.cap
        takes, refused = opcodes_of(self.type, driver)
        return {
            "qp": handle, "domain": self.pd.domain, "qp_num": self.qp_num,
            "send_cq": _raw_of(self.send_cq), "recv_cq": _raw_of(self.recv_cq),
            "sq": {"slots": slots, "mask": mask, "room": cap.max_send_wr}, "rq": {"room": cap.max_recv_wr},
            "send_states": _bits(_SENDS - refused["send"]), "recv_states": _bits(_RECEIVES - refused["recv"]),
            "opcodes": takes, "max_send_sge": cap.max_send_sge, "max_recv_sge": cap.max_recv_sge,
            "max_inline_data": cap.max_inline_data, "sq_sig_all": self.sq_sig_all, "state": 1 << QPState.RESET,
            "datagram": self.type is QPType.UD, "max_datagram": 0xFFFFFFFF, "extended": self.type is QPType.XRC_SEND,
        }  # fmt: skip

    def open_queues(self, handle: Any) -> None:
        """Begin the accounts of a native queue pair that has just been made."""
        ffi, lib = native()
        size = slots_for(self.cap)
        self._slots = ffi.new("struct rdmaqp_slot[]", size)
        self.raw = ffi.new("struct rdmaqp_qp *", self.account(handle, self._slots, size - 1))
        self._native_sends = lib.rdmaqp_post_sends
        self.last_state = QPState.RESET
        shared = self.srq
        self.raw.receives = ffi.addressof(self.raw, "rq") if shared is None else ffi.addressof(shared.raw, "queue")
        for cq in self._completion_queues():
            error = lib.rdmaqp_add_pair(cq.raw, self.raw)
            if error:
                if error == lib.RDMAQP_CLOSED:
                    raise ClosedError(f"the {cq.kind} is closed")
                raise MemoryError(f"no room to note {self} at its completion queue")

    def unmake(self, handle: Any) -> None:
        """End what has been made so far: the native queue pair, where there is one, and its accounts."""
        ffi, lib = native()
        if "raw" in vars(self):  # its completion queues may know of it
            lib.rdmaqp_end_many(self.raw, 1, ffi.new("uint32_t *"))
        elif handle != ffi.NULL:
            lib.ibv_destroy_qp(handle)

    def _completion_queues(self) -> list[CompletionQueue]:
        """Both, one, or none."""
        found = (self.send_cq, self.recv_cq)
        return list({id(cq): cq for cq in found if cq is not None}.values())

    @cached_property
    def _one(self) -> Any:
        """Where a single send's record is written."""
        return native().ffi.new("struct rdmaqp_send_record[]", 1)

    @cached_property
    def _one_bytes(self) -> memoryview:
        return memoryview(native().ffi.buffer(self._one))

    @property
    def last_state(self) -> QPState:
        """The state last known. Posting goes by it, since to ask the driver takes a system call."""
        return self._last_state

    @last_state.setter
    def last_state(self, state: QPState) -> None:
        self._last_state = state
        if state is QPState.RESET:
            native().lib.rdmaqp_forget_work(self.raw)
        self.raw.state = 1 << state

    @property
    def outstanding(self) -> int:
        """Sends posted and not known to have ended: an unsignaled one ends with the next signaled completion."""
        return int(self.raw.sq.head - self.raw.sq.tail)

    @property
    def signaled(self) -> bool:
        """Whether one of the outstanding sends is signaled: its completion frees those before it too."""
        return bool(self.raw.sq.signaled > self.raw.sq.tail)

    @property
    def recv_posted(self) -> int:
        """Receives posted and not yet completed. What completed and has not been polled counts as posted."""
        return int(self.raw.rq.head - self.raw.rq.tail)

    def under_way(self, queue: str) -> int:
        """Requests of that queue that have not ended, as far as is known."""
        return self.outstanding if queue == "send" else self.recv_posted

    def kept(self, queue: str, number: int) -> Work | Recv | None:  # noqa: ARG002 - keep_work() replaces it
        """The object that was posted as request *number* of that queue, where they are kept."""
        return None

    def facts(self) -> QPFacts:
        """What the judge is told of it, whatever is under way."""
        return QPFacts(
            type=self.type, qp_num=self.qp_num, cap=self.cap, srq=self.srq is not None, pd=self.pd.number
        )

    # ------------------------------------------------------------------ one request

    def send(self, local: Local | bytes = None, **options: Any) -> None:
        """SEND the bytes of *local*; *options* are the other attributes of :class:`~rdmaqp.Send`."""
        self.post(Send(local, **options))

    def write(self, local: Local | bytes, remote: RemoteMemory, **options: Any) -> None:
        """RDMA_WRITE the bytes of *local* to *remote*; *options*: :class:`~rdmaqp.Write`."""
        self.post(Write(local, remote, **options))

    def read(self, local: Local, remote: RemoteMemory, **options: Any) -> None:
        """RDMA_READ *remote* into *local*; *options*: :class:`~rdmaqp.Read`."""
        self.post(Read(local, remote, **options))

    def compare_swap(
        self, local: MemoryRegion | Slice, remote: RemoteMemory, compare: int, swap: int, **options: Any
    ) -> None:
        """Make the 8 bytes at *remote* *swap* where they are *compare*; their old value comes into *local*."""
        self.post(CompareSwap(local, remote, compare, swap, **options))

    def fetch_add(self, local: MemoryRegion | Slice, remote: RemoteMemory, add: int, **options: Any) -> None:
        """Add *add* to the 8 bytes at *remote*; their old value comes into *local*."""
        self.post(FetchAdd(local, remote, add, **options))

    def bind(self, window: MemoryWindow, region: MemoryRegion | Slice, access: int, **options: Any) -> RemoteMemory:
        """Bind *window* to the bytes of *region* under its next key: what the peer may reach once that has completed.

        *access*: REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC. Sends behind it may tell the peer at once.
        """
        work = Bind(window, region, access, **options)
        self.post(work)
        return work.remote

    def invalidate(self, key: MemoryWindow | int, **options: Any) -> None:
        """LOCAL_INV: end the key of a memory window, which can then be bound again."""
        self.post(LocalInvalidate(key.rkey if isinstance(key, MemoryWindow) else key, **options))
        if isinstance(key, MemoryWindow):
            key.unbound()

    def post_send(
        self, mr: MemoryRegion, offset: int = 0, length: int | None = None, *, wr_id: int = 0, signaled: bool = True
    ) -> None:
        """SEND *length* bytes at *offset* of *mr*, by default all from *offset*: ``send(mr[offset:…])`` by C's name."""
        self.send(_part(mr, offset, length), wr_id=wr_id, signaled=signaled)

    def post_recv(self, mr: MemoryRegion, offset: int = 0, length: int | None = None, *, wr_id: int = 0) -> None:
        """Post a receive into *length* bytes at *offset* of *mr*: ``recv(mr[offset:…])`` by C's name."""
        self.recv(_part(mr, offset, length), wr_id=wr_id)

    # ------------------------------------------------------------------ several

    def post(self, *work: Work | Recv) -> None:
        """Post requests in order. All sends, or all receives; none is posted unless all pass the checks."""
        if len(work) == 1 and not needs_chain(work[0]):
            one = work[0]
            if isinstance(one, Recv):
                self.recv_one(one)
            else:
                self.require_own(one)
                pack(self._one_bytes, 0, record_of(one))
                result = self._native_sends(self.raw, self._one, 1, 1)
                if result:
                    self._resolve_sends(result, self._one, 1)
        else:
            self.chain(*work).post()

    def post_sends(self, records: Any, count: int | None = None) -> None:
        """Post an array of sends, or its first *count*, in one call.

        *records* is a :class:`~rdmaqp.SendRecords`, or a NumPy array or other buffer of :data:`~rdmaqp.SEND_DTYPE`.
        """
        raw, n = sends_in(records)
        if count is not None:
            n = counted(n, count)
        result = self._native_sends(self.raw, raw, n, 1)
        if result:
            self._resolve_sends(result, raw, n)

    def _resolve_sends(self, result: int, raw: Any, n: int) -> None:
        post = self._native_sends

        def posted() -> list[Posted]:
            return [Posted.of_record(raw[at], "send", sq_sig_all=self.sq_sig_all) for at in range(n)]

        self.resolve(result, posted, n, lambda checked: post(self.raw, raw, n, checked))

    def ask_state(self) -> QPState:
        """The state, asked of the driver; the last known where the driver does not say."""
        raise NotImplementedError


def slots_for(cap: QPCap) -> int:
    """How many sends an account notes: a power of two, at least the queue's room."""
    return 1 << max(cap.max_send_wr - 1, 0).bit_length()


def _raw_of(cq: CompletionQueue | None) -> Any:
    return native().ffi.NULL if cq is None else cq.raw


def _bits(states: frozenset[QPState]) -> int:
    return sum(1 << state for state in states)


def _part(mr: MemoryRegion, offset: int, length: int | None) -> Slice:
    size = mr.length - offset if length is None else length
    mr.span(offset, size)
    return Slice(mr, offset, size)
