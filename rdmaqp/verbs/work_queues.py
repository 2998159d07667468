"""The data path of a queue pair: posting, from convenient to fast. C compares and posts; Python packs and explains.

    qp.send(region[0:64])                       one request
    qp.post(Send(a), Write(b, remote))          several, in order, all checked before any is posted
    chain = qp.chain(Send(a), Send(b))          made once …
    chain.post()                                … and posted often
    qp.post_sends(records)                      an array of records, in one call
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.errors import ClosedError
from rdmaqp.guard.posting import opcodes_of
from rdmaqp.model.enums import QPState, QPType
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.chain import Chain
from rdmaqp.verbs.records import RecvRecords, SendRecords, record_of, records_in
from rdmaqp.verbs.refused import NO_DESTINATION, Posted, judge_posts, judge_work, post_failed
from rdmaqp.verbs.slices import Slice, region_of
from rdmaqp.verbs.work import (
    RECV_SIZE,
    CompareSwap,
    FetchAdd,
    Read,
    Recv,
    Send,
    Work,
    Write,
    pack,
    work_is_inline,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.model.request import QPCap
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.memory import MemoryRegion, ProtectionDomain
    from rdmaqp.verbs.slices import RemoteMemory
    from rdmaqp.verbs.work import Local

_SENDS = frozenset({QPState.RTS, QPState.SQD})
_RECEIVES = frozenset({QPState.INIT, QPState.RTR, QPState.RTS, QPState.SQD, QPState.SQE})


class WorkQueues(Resource):
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
    has_srq: bool = False

    def open_queues(self, handle: Any) -> None:
        """Begin the accounts of a native queue pair that has just been made."""
        ffi, lib = native()
        driver, cap = self.pd.context.facts.driver, self.cap
        size = 1 << max(cap.max_send_wr - 1, 0).bit_length()
        self._slots = ffi.new("struct rdmaqp_slot[]", size)
        takes, refused = opcodes_of(self.type, driver)
        self.raw = ffi.new("struct rdmaqp_qp *", {
            "qp": handle, "domain": self.pd.domain, "qp_num": self.qp_num,
            "sq": {"slots": self._slots, "mask": size - 1, "room": cap.max_send_wr}, "rq": {"room": cap.max_recv_wr},
            "send_states": _bits(_SENDS - refused["send"]), "recv_states": _bits(_RECEIVES - refused["recv"]),
            "opcodes": takes, "max_send_sge": cap.max_send_sge, "max_recv_sge": cap.max_recv_sge,
            "max_inline_data": cap.max_inline_data, "sq_sig_all": self.sq_sig_all,
            "datagram": self.type is QPType.UD, "extended": self.type is QPType.XRC_SEND,
            "send_cq": self.send_cq.raw, "recv_cq": self.recv_cq.raw,
        })  # fmt: skip
        self.raw.receives = ffi.addressof(self.raw, "rq")
        self._native_sends, self._native_recvs = lib.rdmaqp_post_sends, lib.rdmaqp_post_recvs
        self._one = ffi.new("struct rdmaqp_send_record[]", 1)
        self._one_bytes = memoryview(ffi.buffer(self._one))
        self.last_state = QPState.RESET
        for cq in {id(cq): cq for cq in (self.send_cq, self.recv_cq)}.values():
            error = lib.rdmaqp_add_pair(cq.raw, self.raw)
            if error == lib.RDMAQP_CLOSED:
                raise ClosedError(f"the {cq.kind} is closed")
            if error:
                raise MemoryError(f"no room to note {self} at its completion queue")

    def close_queues(self) -> None:
        """Forget the accounts, once the native queue pair is gone."""
        for cq in (self.send_cq, self.recv_cq):
            native().lib.rdmaqp_drop_pair(cq.raw, self.raw)

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

    def recv(self, local: Local = None, *, wr_id: int = 0) -> None:
        """Post a receive into *local*. Of a datagram the first 40 bytes are the global route header's."""
        self.post(Recv(local=local, wr_id=wr_id))

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
        if len(work) == 1 and not _needs_chain(work[0]):
            one = work[0]
            self.require_own(one)
            pack(self._one_bytes, 0, record_of(one))
            if isinstance(one, Recv):
                self.post_recvs(self._one_bytes[:RECV_SIZE])
            else:
                result = self._native_sends(self.raw, self._one, 1, 1)
                if result:
                    self._resolve_sends(result, self._one, 1)
        else:
            self.chain(*work).post()

    def chain(self, *work: Work | Recv) -> Chain:
        """Requests made once and posted often; see :class:`Chain`."""
        return Chain(self, work)

    def post_sends(self, records: Any, count: int | None = None) -> None:
        """Post an array of sends, or its first *count*, in one call.

        *records* is a :class:`~rdmaqp.SendRecords`, or a NumPy array or other buffer of :data:`~rdmaqp.SEND_DTYPE`.
        """
        raw, n = records_in(records, SendRecords)
        if count is not None:
            n = _count(n, count)
        result = self._native_sends(self.raw, raw, n, 1)
        if result:
            self._resolve_sends(result, raw, n)

    def _resolve_sends(self, result: int, raw: Any, n: int) -> None:
        post = self._native_sends

        def posted() -> list[Posted]:
            return [Posted.of_record(raw[at], "send", sq_sig_all=self.sq_sig_all) for at in range(n)]

        self.resolve(result, posted, n, lambda checked: post(self.raw, raw, n, checked))

    def post_recvs(self, records: Any, count: int | None = None) -> None:
        """Post an array of receives, or its first *count*: :class:`~rdmaqp.RecvRecords`, or :data:`RECV_DTYPE`."""
        raw, n = records_in(records, RecvRecords)
        n = n if count is None else _count(n, count)
        result = self._native_recvs(self.raw, raw, n, 1)
        if result:
            post = self._native_recvs
            self.resolve(result, lambda: [Posted.of_record(raw[at], "recv") for at in range(n)], n,
                         lambda checked: post(self.raw, raw, n, checked))

    # ------------------------------------------------------------------ what did not pass

    def require_own(self, work: Work | Recv) -> None:
        """Ask the judge where *work* names memory of another protection domain, whose keys may look like ours."""
        pieces = () if work_is_inline(work) else work.pieces()
        if any(region_of(piece).pd is not self.pd for piece in pieces):
            judge_work(self, work, [(piece.addr, piece.length, piece.lkey) for piece in pieces])

    def resolve(
        self, result: int, posted: Callable[[], Sequence[Posted]], n: int, again: Callable[[int], int]
    ) -> None:
        """Raise what a posting call's *result* means, or post all the same where the judge has no objection.

        *posted* tells the judge what the *n* requests are; *again*, called with whether to compare, posts them.
        """
        if result == native().lib.RDMAQP_JUDGE:
            result = self.ask_again(posted, n, again)
        self.require_posted(result, posted, n)

    def require_posted(self, result: int, posted: Callable[[], Sequence[Posted]], n: int) -> None:
        """Raise what a negative *result* means."""
        lib = native().lib
        if result >= 0:
            return
        if result == lib.RDMAQP_CLOSED:
            self.require_open()
            raise ClosedError(f"the completion queue of {self} is closed")
        if result == lib.RDMAQP_NO_AH:
            raise ValueError(f"{self}: request {self.raw.index}: {NO_DESTINATION}")
        raise post_failed(self, posted()[self.raw.index], n)

    def ask_again(self, posted: Callable[[], Sequence[Posted]], n: int, again: Callable[[int], int]) -> int:
        """Perhaps the state has changed since; else ask the judge, who knows what C does not."""
        lib = native().lib
        state = self.ask_state()
        result = again(1)
        if result == lib.RDMAQP_JUDGE:
            judge_posts(self, posted(), n, state)
            result = again(0)
        return result

    def ask_state(self) -> QPState:
        """The state, asked of the driver; the last known where the driver does not say."""
        raise NotImplementedError


def _bits(states: frozenset[QPState]) -> int:
    return sum(1 << state for state in states)


def _needs_chain(work: Work | Recv) -> bool:
    if getattr(work, "inline", False) or (not hasattr(work, "as_record") and not isinstance(work, Recv)):
        return True
    local = getattr(work, "local", None)
    return isinstance(local, (list, tuple)) and len(local) > 1


def _count(n: int, count: int) -> int:
    if not 0 <= count <= n:
        raise ValueError(f"count: {count} is outside 0…{n}, the records given")
    return count


def _part(mr: MemoryRegion, offset: int, length: int | None) -> Slice:
    size = mr.length - offset if length is None else length
    mr.span(offset, size)
    return Slice(mr, offset, size)
