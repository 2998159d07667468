"""The ledger of one reap or drain: what was under way when it began, what has come since, what is missing."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from rdmaqp.errors import UnaccountedError
from rdmaqp.model.enums import WCOpcode
from rdmaqp.verbs._native import native
from rdmaqp.verbs.reaped import Reaped, Undone, unknown_of
from rdmaqp.verbs.work_completion import WorkCompletion

if TYPE_CHECKING:
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.work import Recv, Work
    from rdmaqp.verbs.work_queues import WorkQueues

SENDS: Final = 1
RECEIVES: Final = 2

#: The upper 48 bits of a marker's wr_id: nobody else's, one hopes.
_MARK: Final = int.from_bytes(b"rdmaqp")
_serial = count()


class Ledger:
    """What was under way on *qp*, by C's account, and how it ended.

    Attributes:
        closings: how often the queue pair had been closed when this began.
        completions: those that succeeded.
        failed: those that failed, by queue.
        marker: the wr_id of the signaled send behind the last one; ``None`` where none was needed so far.
        unmarked: why there can be no marker; empty where there can.
    """

    def __init__(self, qp: WorkQueues, kinds: int) -> None:
        self.closings = qp.closings
        self.qp = qp
        self.kinds = kinds
        self.completions: list[WorkCompletion] = []
        self.failed: dict[str, list[WorkCompletion]] = {"send": [], "recv": []}
        self.marker: int | None = None
        self.unmarked = ""
        self._marker_came = False
        self._sends = _sends_of(qp)
        self.end = int(qp.raw.sq.head)

    # ------------------------------------------------------------------ taking

    def take(self, slice_ns: int) -> bool:
        """Take what has come off both queues; wait a slice of time where nothing has. Whether anything came."""
        queues = self._queues()
        if any(self._take(cq, kinds, 0) for cq, kinds in queues):
            return True
        waiting = [pair for pair in queues if self._is_open(pair[1])]
        return any(self._take(cq, kinds, slice_ns // len(waiting)) for cq, kinds in waiting)

    def _queues(self) -> list[tuple[CompletionQueue, int]]:
        qp = self.qp
        if qp.send_cq is qp.recv_cq:
            return [(qp.send_cq, self.kinds)]
        return [(cq, kind) for cq, kind in ((qp.send_cq, SENDS), (qp.recv_cq, RECEIVES)) if kind & self.kinds]

    def _take(self, cq: CompletionQueue, kinds: int, slice_ns: int) -> bool:
        found = cq._take(self.qp.qp_num, kinds, slice_ns)
        for wc in found:
            if wc.wr_id >> 16 == _MARK and not wc.opcode & WCOpcode.RECV:
                self._marker_came = self._marker_came or wc.wr_id == self.marker
            elif wc.ok:
                self.completions.append(wc)
            else:
                self.failed["recv" if wc.opcode & WCOpcode.RECV else "send"].append(wc)
        return bool(found)

    # ------------------------------------------------------------------ counting

    @property
    def is_through(self) -> bool:
        """Whether everything that was under way has ended."""
        return not self._is_open(self.kinds)

    def _is_open(self, kinds: int) -> bool:
        raw = self.qp.raw
        sends = kinds & SENDS and not self._marker_came and (raw.sq.lost or raw.sq.tail < raw.sq.head)
        return bool(sends or (kinds & RECEIVES and raw.rq.tail < raw.rq.head))

    @property
    def needs_marker(self) -> bool:
        """Whether the last send will not tell of its end by itself, and a marker behind it has room now."""
        sq = self.qp.raw.sq
        if self.marker is not None or self.unmarked:
            return False
        return self.ends_unsignaled and bool(sq.lost or sq.head - sq.tail < sq.room)

    @property
    def ends_unsignaled(self) -> bool:
        """Whether the last of the sends under way will not tell of its end by itself."""
        sq = self.qp.raw.sq
        return bool(sq.lost or (sq.tail < sq.head and sq.signaled < sq.head))

    def new_marker(self) -> int:
        """The wr_id for a marker that is about to be posted."""
        self.marker = _MARK << 16 | next(_serial) & 0xFFFF
        return self.marker

    def no_marker(self, why: str) -> None:
        """There will be none."""
        self.marker, self.unmarked = None, why

    # ------------------------------------------------------------------ what came of it

    def reaped(self) -> Reaped:
        """What has come until now."""
        return self._settle()[0]

    def unaccounted(self, message: str) -> UnaccountedError:
        """The error that says what is missing, and hands over what is there."""
        reaped, missing = self._settle()
        some = ", ".join(str(one) for one in missing[:8]) + (", …" if len(missing) > 8 else "")
        lines = [f"{self.qp}: {message}: {len(missing)} requests are unaccounted for: {some}", f"  so far: {reaped}"]
        lines += [f"  {self.unmarked}"] if self.unmarked else []
        return UnaccountedError("\n".join(lines), reaped, missing)

    def _settle(self) -> tuple[Reaped, list[Undone]]:
        raw = self.qp.raw
        cause = WorkCompletion.from_c(raw.cause, self.qp.send_cq) if raw.has_cause else None
        sends, missing = self._settled_sends()
        receives, waiting = self._settled_receives()
        number = int(raw.failed_number) if raw.failures else 0
        unknown = unknown_of(sends, cause, number)
        return Reaped(tuple(self.completions), cause, tuple(sends), tuple(receives), unknown), [*missing, *waiting]

    def _settled_sends(self) -> tuple[list[Undone], list[Undone]]:
        """The sends that did not succeed, and those of which nobody has heard."""
        raw = self.qp.raw
        ended = self.end if self._marker_came else min(int(raw.sq.tail), self.end)
        first = int(raw.first_failed) if raw.failures else ended
        told = iter(self.failed["send"])
        wc = next(told, None)
        undone: list[Undone] = []
        for number, wr_id in self._sends:
            if number < first:
                continue
            work = self.qp.kept("send", number)
            # Where the first have been polled by others, this takes the first of the same wr_id.
            if wc is not None and wc.wr_id == wr_id:
                undone.append(Undone("send", wr_id, number, wc, work))
                wc = next(told, None)
            else:
                undone.append(Undone("send", wr_id, number, None, work))
        return ([one for one in undone if one.number < ended],  # type: ignore[operator]
                [one for one in undone if one.number >= ended])  # type: ignore[operator]

    def _settled_receives(self) -> tuple[list[Undone], list[Undone]]:
        """The same of receives, which complete in the order of posting."""
        qp, told = self.qp, self.failed["recv"]
        if qp.srq is not None:
            return [Undone("recv", wc.wr_id, None, wc) for wc in told], []
        tail, head = int(qp.raw.rq.tail), int(qp.raw.rq.head)
        done = [
            Undone("recv", wc.wr_id, number, wc, qp.kept("recv", number))
            for number, wc in enumerate(told, tail - len(told))
        ]
        if qp.raw.recv_failures:  # those that others have polled: known where the objects are
            first = min(int(qp.raw.recv_first_failed), tail - len(told))
            done = [*_kept_receives(qp, range(first, tail - len(told))), *done]
        if not self.kinds & RECEIVES:
            return done, []
        return done, [Undone("recv", getattr(qp.kept("recv", at), "wr_id", 0), at, None, qp.kept("recv", at))
                      for at in range(tail, head)]


def _kept_receives(qp: WorkQueues, numbers: range) -> list[Undone]:
    kept: list[tuple[int, Work | Recv | None]] = [(number, qp.kept("recv", number)) for number in numbers]
    return [Undone("recv", work.wr_id, number, None, work) for number, work in kept if work is not None]


def _sends_of(qp: WorkQueues) -> list[tuple[int, int]]:
    """Number and wr_id of each send from the first that failed, or else the oldest under way, as far as is noted."""
    ffi, sq = native().ffi, qp.raw.sq
    head, size = int(sq.head), int(sq.mask) + 1
    first = min(int(qp.raw.first_failed), int(sq.tail)) if qp.raw.failures else int(sq.tail)
    slots = memoryview(ffi.buffer(sq.slots, size * ffi.sizeof("struct rdmaqp_slot"))).cast("Q")
    numbers = range(max(first, head - size), head)
    return [(at, wr_id) for at in numbers if (wr_id := slots[2 * (at & sq.mask)]) >> 16 != _MARK]
