"""Chains: work requests made once, checked once, and posted as often as wanted, in one call into C."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

from rdmaqp.errors import ClosedError, DeadlineError
from rdmaqp.model.enums import QPType
from rdmaqp.verbs._native import native, pinned
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.completion import SLICE_NS, deadline
from rdmaqp.verbs.refused import NO_DESTINATION, Posted, Spans, judge_work, require_own_handle
from rdmaqp.verbs.slices import region_of
from rdmaqp.verbs.window import Bind
from rdmaqp.verbs.work import SEND_SIZE, Recv, Work, pack, parts_of, pieces_of, require_work, work_is_inline
from rdmaqp.verbs.work_completion import WorkCompletion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.verbs.receiving import Receiving


class Chain:
    """Work requests of one queue: all sends, or all receives. ``qp.chain(Send(…), Send(…))`` makes one.

    It holds on to the memory that it names. Its requests are checked when they are put into it; the queue pair's state
    and the queue's room, when it is posted. A shared receive queue has chains of receives.
    """

    def __init__(self, qp: Receiving, work: Sequence[Work | Recv]) -> None:
        """Raises ValueError, TypeError, GuardError: as the posting calls of ``QueuePair``."""
        if not work:
            raise ValueError("a chain has at least one work request")
        for one in work:
            require_work(one)
        receives = isinstance(work[0], Recv)
        if not receives and qp.queue == "srq":
            raise TypeError(f"a {qp.kind} takes receives alone, and {type(work[0]).__name__} is none")
        if any(isinstance(one, Recv) != receives for one in work):
            raise ValueError("a chain goes to one queue: all sends, or all receives")
        ffi, lib = native()
        self.qp = qp
        self._work = list(work)
        self._uses: list[Any] = [()] * len(work)
        self._has_binds = False
        self._wrs = ffi.new(f"struct ibv_{'recv' if receives else 'send'}_wr[]", len(work))
        self._slots = ffi.new("struct rdmaqp_slot[]", len(work))
        self.raw = ffi.new("struct rdmaqp_chain *", {
            qp.chain_member: qp.raw, "receives" if receives else "sends": self._wrs, "slots": self._slots,
            "n": len(work), "ended": qp.pd.domain.ended, "follows": getattr(qp, "type", None) is QPType.UD,
            "checked": 1, "slice_ns": SLICE_NS,
        })  # fmt: skip
        self._post = lib.rdmaqp_post_chain
        self._run = lib.rdmaqp_run_chain
        for at, one in enumerate(work):
            self._put(at, one)

    def __len__(self) -> int:
        return len(self._work)

    @property
    def work(self) -> tuple[Work | Recv, ...]:
        """Its requests, as they are now."""
        return tuple(self._work)

    def __repr__(self) -> str:
        return f"<chain of {len(self)} {'receives' if isinstance(self[0], Recv) else 'sends'} to {self.qp}>"

    def __getitem__(self, at: int) -> Work | Recv:
        return self._work[at]

    def __setitem__(self, at: int, work: Work | Recv) -> None:
        """Put another request in the place of one; not while the chain is under way in :meth:`run`."""
        if self.raw.running and self.raw.resets == self.qp.raw.resets:
            raise ValueError("the chain is under way: run() it to its end first")
        require_work(work)
        at = range(len(self._work))[at]
        if isinstance(work, Recv) != isinstance(self._work[at], Recv):
            raise ValueError("a chain goes to one queue: all sends, or all receives")
        self._put(at, work)
        self._work[at] = work

    def _put(self, at: int, work: Work | Recv) -> None:
        ffi, lib = native()
        kept, spans = self._memory_of(work)
        for resource in kept:
            if isinstance(resource, Resource):
                resource.require_open()
        require_own_handle(self.qp, work, at)
        judge_work(self.qp, work, spans, at)
        sges = ffi.new("struct ibv_sge[]", [list(span) for span in spans])
        if isinstance(work, Recv):
            lib.rdmaqp_chain_recv(self.raw, at, work.wr_id, sges, len(spans))
        else:
            work.require_remote(sum(length for _, length, _ in spans))
            record = ffi.new("struct rdmaqp_send_record *")
            pack(memoryview(ffi.buffer(record, SEND_SIZE)), 0, work.as_record())
            if lib.rdmaqp_chain_send(self.raw, at, record, sges, len(spans)):
                raise ValueError(f"request {at}: {NO_DESTINATION}")
            if isinstance(work, Bind):
                part = work.region
                if work.window.pd is not self.qp.pd:
                    raise ValueError(f"request {at}: the window is of another protection domain than {self.qp}")
                lib.rdmaqp_chain_bind(
                    self.raw, at, work.window.handle, work.rkey, region_of(part).handle, part.addr, part.length,
                    int(work.access),
                )
        self._uses[at] = (sges, *kept)
        self._has_binds = self._has_binds or isinstance(work, Bind)
        self._tells_of_its_end = bool(self._slots[len(self) - 1].signaled)

    def _memory_of(self, work: Work | Recv) -> tuple[list[Any], Spans]:
        """What must stay while the request is here, and its pieces."""
        kept: list[Any] = [getattr(getattr(work, "to", None), "ah", None), getattr(work, "window", None)]
        kept += pieces_of(getattr(work, "region", None))
        spans: Spans = []
        for piece in parts_of(getattr(work, "local", None)) if work_is_inline(work) else work.pieces():
            if hasattr(piece, "lkey"):
                kept.append(piece)
                spans.append((piece.addr, piece.length, piece.lkey))
            else:  # to be copied while posting, and registered nowhere
                pinned, span = _pinned(piece)
                kept.append(pinned)
                spans.append(span)
        return [getattr(one, "mr", one) for one in kept], spans

    def post(self) -> None:
        """Post all of it (ibv_post_send(3), ibv_post_recv(3)).

        Raises:
            GuardError: the state takes none, or the queue has no room for all; nothing was posted.
            ClosedError: the queue pair is closed, or memory that the chain names.
            VerbsError: the driver refused; its ``posted`` says how many it had taken.
        """
        result = self._post(self.raw)
        if result:
            self._resolve(result, self._post)
        if self._has_binds:
            self._tell_windows()

    def _tell_windows(self) -> None:
        """Tell windows that requests of the chain bind to what, by the post that has just been."""
        head = int(self.qp.raw.sq.head)
        for number, one in enumerate(self._work, int(self.raw.start)):
            if isinstance(one, Bind) and number < head:
                one.window.bound(one, self.qp, number)  # type: ignore[arg-type]

    def run(self, timeout: float | None = None) -> None:
        """Post the sends, and wait in C until each signaled one has succeeded.

        Completions of other work on the same queue are kept for whoever polls it next; the chain's own that another
        call has polled count as seen.

        Raises:
            ValueError: the last request is not signaled, so that nobody would know its end.
            CompletionError: one failed; it says which. What was flushed behind it waits to be polled.
            DeadlineError: *timeout* seconds are over; call again to go on waiting.
            GuardError, ClosedError, VerbsError: as :meth:`post`.
        """
        if not self._tells_of_its_end:
            raise ValueError("the chain's last request is no signaled send: nobody would know its end")
        if self._has_binds:
            self._run_and_tell(timeout)
        elif timeout is None:
            while (result := self._run(self.raw)) == 0:
                pass  # a slice of time is over: Python looks at signals
            if result < 0 and not self._resolve(result, self._run):
                self.run()
        else:
            self._run_until(timeout)

    def _run_and_tell(self, timeout: float | None) -> None:
        before = int(self.qp.raw.sq.head)
        try:
            self._run_until(timeout)
        finally:
            if int(self.qp.raw.sq.head) != before:
                self._tell_windows()

    def _run_until(self, timeout: float | None) -> None:
        end, raw, left = deadline("run", timeout), self.raw, timeout
        try:
            while True:
                raw.slice_ns = SLICE_NS if left is None else int(max(0, min(left * 1e9, SLICE_NS)))
                result = self._run(raw)
                if result < 0:
                    result = self._resolve(result, self._run)
                if result:
                    return
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise DeadlineError(
                        f"{self.qp}: {raw.reaped} of {raw.signaled} sends completed within {timeout} s"
                    )
        finally:
            raw.slice_ns = SLICE_NS

    def _resolve(self, result: int, call: Callable[[Any], int]) -> int:
        """What *call*, of C, said that is not good: raise what it means, or call again. What it says then."""
        lib = native().lib

        def again(checked: int) -> int:
            self.raw.checked = checked
            try:
                while (result := call(self.raw)) == lib.RDMAQP_STALE:
                    self.look_again()
                return result
            finally:
                self.raw.checked = 1

        if result == lib.RDMAQP_STALE:
            result = again(1)
        if result == lib.RDMAQP_JUDGE:
            result = self.qp.ask_again(self.posted, len(self), again)
        if result == lib.RDMAQP_STATUS:
            self.raise_failed(self._failed())
        self.qp.require_posted(result, self.posted, len(self))
        return result

    def posted(self) -> list[Posted]:
        """What the judge has to know of its requests."""
        return [Posted.of_work(one, self._memory_of(one)[1], sq_sig_all=self.qp.sq_sig_all) for one in self._work]

    def look_again(self) -> None:
        """Memory or destinations of the domain have ended since: was any of it ours?"""
        ended = self.qp.pd.domain.ended
        for at, used in enumerate(self._uses):
            for resource in used:
                if isinstance(resource, Resource) and resource.closed:
                    raise ClosedError(f"request {at} of this chain names a {resource.kind} that is closed")
        self.raw.ended = ended

    def raise_failed(self, failed: Exception) -> NoReturn:
        """Raise *failed*; from it ClosedError, where memory of the chain was closed while its work was under way."""
        try:
            self.look_again()
        except ClosedError as closed:
            raise closed from failed
        raise failed

    def _failed(self) -> Exception:
        from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

        wc, at = WorkCompletion.from_c(self.qp.raw.failed), self.qp.raw.index
        is_ours = at < len(self)
        notes = (f"It was request {at} of {len(self)}.",) if is_ours else ()
        return completion_error(wc, self.qp, index=at if is_ours else None, notes=notes)  # type: ignore[arg-type]


def _pinned(memory: Any) -> tuple[Any, tuple[int, int, int]]:
    """Bytes that may neither move nor end while the first of the two is held; and where they are."""
    try:
        view = memoryview(memory)
    except TypeError:
        raise TypeError(
            f"{type(memory).__name__} has no bytes to be copied: inline=True takes memory regions, slices of them, and "
            "whatever else holds bytes"
        ) from None
    if not view.c_contiguous:
        raise ValueError(
            f"this memory has gaps or another order (shape {view.shape}, strides {view.strides}), and what is copied "
            "while posting is a run of bytes, or a list of such: give a contiguous copy"
        )
    view = view.cast("B")
    held = pinned(view)
    return held, (int(native().ffi.cast("uintptr_t", held)), view.nbytes, 0)
