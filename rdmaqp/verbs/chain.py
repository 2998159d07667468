"""Chains: work requests made once, checked once, and posted as often as wanted, in one call into C."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from rdmaqp.errors import ClosedError, DeadlineError
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.completion import SLICE_NS, WorkCompletion
from rdmaqp.verbs.refused import NO_DESTINATION, Posted, Spans, judge_work
from rdmaqp.verbs.slices import region_of
from rdmaqp.verbs.work import SEND_SIZE, Bind, Recv, Work, pack, pieces_of, work_is_inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rdmaqp.verbs.work_queues import WorkQueues


class Chain:
    """Work requests of one queue: all sends, or all receives. ``qp.chain(Send(…), Send(…))`` makes one.

    It holds on to the memory that it names. Its requests are checked when they are put into it; the queue pair's state
    and the queue's room, when it is posted.
    """

    def __init__(self, qp: WorkQueues, work: Sequence[Work | Recv]) -> None:
        """Raises ValueError, TypeError, GuardError: as the posting calls of ``QueuePair``."""
        if not work:
            raise ValueError("a chain has at least one work request")
        receives = isinstance(work[0], Recv)
        if any(isinstance(one, Recv) != receives for one in work):
            raise ValueError("a chain goes to one queue: all sends, or all receives")
        ffi, lib = native()
        self.qp = qp
        self._work = list(work)
        self._uses: list[Any] = [()] * len(work)
        self._wrs = ffi.new(f"struct ibv_{'recv' if receives else 'send'}_wr[]", len(work))
        self.raw = ffi.new("struct rdmaqp_chain *", {
            "qp": qp.raw, "receives" if receives else "sends": self._wrs, "n": len(work),
            "ended": qp.pd.domain.ended,
        })  # fmt: skip
        self._post = lib.rdmaqp_post_chain
        for at, one in enumerate(work):
            self._put(at, one)
        self.raw.signaled = 0 if receives else sum(self._is_signaled(cast("Work", one)) for one in work)

    def __len__(self) -> int:
        return len(self._work)

    def __getitem__(self, at: int) -> Work | Recv:
        return self._work[at]

    def __setitem__(self, at: int, work: Work | Recv) -> None:
        """Put another request in the place of one; not while the chain is under way in :meth:`run`."""
        at = range(len(self._work))[at]
        if isinstance(work, Recv) != isinstance(self._work[at], Recv):
            raise ValueError("a chain goes to one queue: all sends, or all receives")
        self._put(at, work)
        if isinstance(work, Work):
            before = self._is_signaled(cast("Work", self._work[at]))
            self.raw.signaled += self._is_signaled(work) - before
        self._work[at] = work

    def _is_signaled(self, work: Work) -> bool:
        return work.signaled or self.qp.sq_sig_all

    def _put(self, at: int, work: Work | Recv) -> None:
        ffi, lib = native()
        kept, spans = self._memory_of(work)
        judge_work(self.qp, work, spans, at)
        sges = ffi.new("struct ibv_sge[]", [list(span) for span in spans])
        if isinstance(work, Recv):
            lib.rdmaqp_chain_recv(self.raw, at, work.wr_id, sges, len(spans))
        else:
            record = ffi.new("struct rdmaqp_send_record *")
            pack(memoryview(ffi.buffer(record, SEND_SIZE)), 0, work.as_record())
            if lib.rdmaqp_chain_send(self.raw, at, record, sges, len(spans)):
                raise ValueError(f"request {at}: {NO_DESTINATION}")
            if isinstance(work, Bind):
                part = work.region
                lib.rdmaqp_chain_bind(
                    self.raw, at, work.window.handle, work.rkey, region_of(part).handle, part.addr, part.length,
                    int(work.access),
                )
        self._uses[at] = (sges, *kept)

    def _memory_of(self, work: Work | Recv) -> tuple[list[Any], Spans]:
        """What must stay while the request is here, and its pieces."""
        ffi = native().ffi
        kept: list[Any] = [getattr(getattr(work, "to", None), "ah", None), getattr(work, "window", None)]
        kept += pieces_of(getattr(work, "region", None))
        local = getattr(work, "local", None)
        if work_is_inline(work) and not hasattr(local, "lkey"):
            view = memoryview(cast("Any", local)).cast("B")
            pinned = ffi.from_buffer(view)
            return [*kept, pinned], [(int(ffi.cast("uintptr_t", pinned)), view.nbytes, 0)]
        pieces = work.pieces()
        kept += pieces
        return [getattr(one, "mr", one) for one in kept], [(piece.addr, piece.length, piece.lkey) for piece in pieces]

    def post(self) -> None:
        """Post all of it (ibv_post_send(3), ibv_post_recv(3)).

        Raises:
            GuardError: the state takes none, or the queue has no room for all; nothing was posted.
            ClosedError: the queue pair is closed, or memory that the chain names.
            VerbsError: the driver refused; its ``posted`` says how many it had taken.
        """
        result = self._post(self.raw, 1)
        if result:
            self._resolve(result, lambda checked: self._post(self.raw, checked))

    def run(self, timeout: float | None = None) -> None:
        """Post the sends, and wait in C until each signaled one has succeeded.

        Completions of other work on the same queue are kept for whoever polls it next.

        Raises:
            ValueError: the last request is not signaled, so that nobody would know its end.
            CompletionError: one failed; it says which. What was flushed behind it waits to be polled.
            DeadlineError: *timeout* seconds are over; call again to go on waiting.
            GuardError, ClosedError, VerbsError: as :meth:`post`.
        """
        lib, cq, raw = native().lib, self.qp.send_cq.raw, self.raw
        last = self._work[-1]
        if isinstance(last, Recv) or not self._is_signaled(last):
            raise ValueError("the chain's last request is no signaled send: nobody would know its end")
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            result = lib.rdmaqp_run_chain(raw, cq, SLICE_NS, 1)
            if result == 1:
                return
            if result < 0:
                self._resolve(result, lambda checked: lib.rdmaqp_run_chain(raw, cq, 0, checked))
                if not raw.running:
                    return
            if end is not None and time.monotonic() >= end:
                raise DeadlineError(f"{self.qp}: {raw.reaped} of {raw.signaled} sends completed within {timeout} s")

    def _resolve(self, result: int, again: Any) -> None:
        lib = native().lib
        if result == lib.RDMAQP_STALE:
            self.look_again()
            result = again(1)
            if result >= 0:
                return
        if result == lib.RDMAQP_STATUS:
            raise self._failed()
        self.qp.resolve(result, self.posted, len(self), again)

    def posted(self) -> list[Posted]:
        """What the judge has to know of its requests."""
        return [Posted.of_work(one, self._memory_of(one)[1]) for one in self._work]

    def look_again(self) -> None:
        """Memory or destinations of the domain have ended since: was any of it ours?"""
        ended = self.qp.pd.domain.ended
        for at, used in enumerate(self._uses):
            for resource in used:
                if isinstance(resource, Resource) and resource.closed:
                    raise ClosedError(f"request {at} of this chain names a {resource.kind} that is closed")
        self.raw.ended = ended

    def _failed(self) -> Exception:
        from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

        wc = WorkCompletion.from_c(self.qp.raw.failed)
        return completion_error(wc, self.qp, notes=(f"It was request {self.qp.raw.index} of {len(self)}.",))  # type: ignore[arg-type]
