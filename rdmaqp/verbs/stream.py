"""The ends of a transfer: a work request posted again and again with a window, the receives at the other end.

    stream = Stream(qp, Write(region[0:64], remote), count=100_000, window=64, signal_every=16)
    stream.run(timeout=10)

    transfer(Stream(first, Send(a[0:64]), count=1000), Sink(second, b[0:64], count=1000))     # both ends are ours
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.model.arguments import require
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import holding
from rdmaqp.verbs.chain import Chain
from rdmaqp.verbs.slices import region_of
from rdmaqp.verbs.transfer import ENDLESS, End
from rdmaqp.verbs.work import Recv, Work, require_work

if TYPE_CHECKING:
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.slices import Slice
    from rdmaqp.verbs.work import Local

#: ``wr_id`` of a sink's first receive: far away from the numbers that people give their sends.
FIRST_RECEIVE = 1 << 63

_MOST_AT_ONCE = 64


class Stream(End):
    """A work request posted *count* times, *window* of them under way at most.

    Each is posted as *work* says, but for two things: request number n, from 0 on, has the ``wr_id`` *work.wr_id* + n
    (nothing else on the queue pair should have one of these meanwhile), and *signal_every* says which are signaled.

    Attributes:
        window: at most what the send queue and the completion queue hold.
        signal_every: each of so many is signaled, and the last; held to what the window allows.
    """

    sends = True

    def __init__(
        self, qp: QueuePair, work: Work, *, count: int | None = None, seconds: float | None = None,
        window: int | None = None, batch: int = 1, signal_every: int = 1, stamped: bool = False,
    ) -> None:
        """Give *count*, or *seconds* after which no more are posted.

        *batch* requests go to the driver in one call. *stamped* keeps the time of each post, for :attr:`gaps_ns`.

        Raises:
            ValueError: a number that cannot be.
            GuardError, TypeError: *work* is no send, or does not pass, as the posting calls of ``QueuePair``.
        """
        require_work(work)
        if not isinstance(work, Work):
            raise TypeError(f"a stream posts sends, and {type(work).__name__} is none: a Sink receives")
        room = qp.cap.max_send_wr
        window = min(room, room if window is None else window, qp.send_cq.cqe * max(signal_every, 1))
        if (count is None) == (seconds is None):
            raise ValueError("a stream ends after a count, or after some seconds: give one of the two")
        at_least_one = {"window": window, "batch": batch, "signal_every": signal_every}
        _require_positive(**at_least_one, **({} if count is None else {"count": count}))
        if seconds is not None and not 0 < seconds < 1e9:
            raise ValueError(f"seconds: {seconds} is not above 0")
        if stamped and (count is None or batch > 1):
            raise ValueError("stamps are of single posts, and of a count of them: leave batch and seconds out")
        ffi = native().ffi
        self.qp, self.batch, self.window = qp, min(batch, window, count or window), window
        self.signal_every = 1 if qp.sq_sig_all else min(signal_every, window - self.batch + 1)
        self.chain = Chain(qp, [work] * self.batch)
        self._stamps = ffi.new("int64_t[]", count or 1) if stamped else ffi.NULL
        self._partners: list[Any] = []
        self.uses = (qp, qp.send_cq)
        self.raw = ffi.new("struct rdmaqp_stream *", {
            "chain": self.chain.raw, "queue": qp.send_cq.raw, "stamps": self._stamps, "wr_id": work.wr_id,
            "count": ENDLESS if count is None else count, "duration_ns": int((seconds or 0) * 1e9),
            "window": window, "signal_every": self.signal_every,
        })  # fmt: skip

    @property
    def posted(self) -> int:
        """Requests posted."""
        return int(self.raw.posted)

    @property
    def completed(self) -> int:
        """Requests known to have succeeded."""
        return int(self.raw.completed)

    @property
    def gaps_ns(self) -> list[int]:
        """The time from each post to the next, of a stamped stream; with a window of 1, each request's latency."""
        stamps = [] if self._stamps == native().ffi.NULL else self._stamps[0 : self.posted]
        return [after - before for before, after in pairwise(stamps)]

    def feeds(self, sink: Sink) -> Self:
        """Post nothing that has no receive at *sink* yet, which runs in the same :func:`transfer`."""
        require("feeds", "sink", sink, Sink)
        self._partners.append(sink)
        self.raw.into = sink.raw
        return self

    def answers(self, sink: Sink | Watch, *, first: bool) -> Self:
        """Make it one end of a ping-pong: post each message once *sink* has the answer to the one before.

        Where it is not *first*, each message is itself the answer to one that *sink* has.

        Raises ValueError where it posts in batches.
        """
        if self.batch > 1:
            raise ValueError(f"batch: an end of a ping-pong posts one at a time, not {self.batch}")
        require("answers", "sink", sink, (Sink, Watch))
        self._partners.append(sink)
        self.raw.answers, self.raw.first = sink.raw, int(first)
        return self

    def marks(self, byte: Slice) -> Self:
        """Write each message's number, from 1 on, modulo 256, into *byte*, 1 byte of ours, before it is posted."""
        ffi, region = native().ffi, _byte(byte)
        if self.batch > 1:
            raise ValueError(f"batch: a stream that numbers its messages posts one at a time, not {self.batch}")
        self.uses = (*self.uses, region)
        self.raw.mark = ffi.cast("uint8_t *", byte.addr)
        return self

    def where(self) -> str:
        """How far it has come, in words."""
        of = "" if self.count is None else f" of {self.count:,}"
        return f"{self.completed:,}{of} have succeeded, {self.posted:,} were posted."

    def __repr__(self) -> str:
        return f"<stream on {self.qp}: {self.where()}>"


class Sink(End):
    """*count* messages received into *local*, each over the one before; *depth* receives are kept posted.

    Their ``wr_id`` is :data:`FIRST_RECEIVE` + n. *count* ``None`` goes on until :meth:`expect` says how many there are.
    A datagram's memory has 40 bytes more, in front.
    """

    def __init__(
        self, qp: QueuePair, local: Local, *, count: int | None = None, depth: int | None = None
    ) -> None:
        """Raises ValueError, GuardError, TypeError: as :class:`Stream`; of a shared receive queue too."""
        if qp.srq is not None:
            Chain(qp, [Recv(local)])  # the judge's word for it
        room = min(qp.cap.max_recv_wr, qp.recv_cq.cqe)
        depth = min(room, room if depth is None else depth)
        _require_positive(depth=depth, **({} if count is None else {"count": count}))
        self.qp, self.depth = qp, depth
        self.chain = Chain(qp, [Recv(local)] * min(max(depth // 2, 1), _MOST_AT_ONCE))
        self.uses = (qp, qp.recv_cq)
        self.raw = native().ffi.new("struct rdmaqp_sink *", {
            "chain": self.chain.raw, "queue": qp.recv_cq.raw, "wr_id": FIRST_RECEIVE, "depth": depth,
            "count": ENDLESS if count is None else count,
        })  # fmt: skip

    @property
    def received(self) -> int:
        """Messages received."""
        return int(self.raw.received)

    @property
    def bytes(self) -> int:
        """Bytes received, of a datagram with the 40 in front."""
        return int(self.raw.bytes)

    def post(self) -> None:
        """Post the first receives; to be done before the peer may send.

        Raises GuardError, VerbsError, ClosedError: as the posting calls of ``QueuePair``.
        """
        fill = native().lib.rdmaqp_fill_sink
        with holding(*self.uses):
            result = fill(self.raw, 1)
            while result:
                self.settle(result, lambda checked: fill(self.raw, checked))
                result = fill(self.raw, 1) if result == native().lib.RDMAQP_STALE else 0

    def expect(self, count: int) -> None:
        """It is done with *count* messages; at once, where so many have come."""
        if count < self.received:
            raise ValueError(f"count: {self.received:,} have been received, and {count:,} are expected")
        self.raw.count = count

    def where(self) -> str:
        """How far it has come, in words."""
        of = "" if self.count is None else f" of {self.count:,}"
        return f"{self.received:,}{of} have been received."

    def __repr__(self) -> str:
        return f"<sink on {self.qp}: {self.where()}>"


class Watch(End):
    """*count* messages of the peer's RDMA WRITEs, seen by their last byte: it becomes 1, 2, … modulo 256, from 0.

    That is how latency of WRITE is measured: no completion tells the side that is written to.
    """

    chain = qp = None

    def __init__(self, byte: Slice, *, count: int) -> None:
        """*byte* is 1 byte of ours. Raises ValueError where it is not, or is not 0."""
        _require_positive(count=count)
        region, ffi = _byte(byte), native().ffi
        if byte.buffer[0]:
            raise ValueError(f"the byte to be watched is {byte.buffer[0]}, and has to begin with 0")
        self.uses = (region,)
        self.raw = ffi.new("struct rdmaqp_sink *", {
            "watched": ffi.cast("uint8_t *", byte.addr), "count": count,
        })  # fmt: skip

    @property
    def received(self) -> int:
        """Messages seen."""
        return int(self.raw.received)

    def where(self) -> str:
        """How far it has come, in words."""
        return f"{self.received:,} of {self.count:,} were written here."


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if not 1 <= number < 1 << 63:
            raise ValueError(f"{name}: {number} is below 1" if number < 1 else f"{name}: {number} is above 2**63 - 1")


def _byte(byte: Slice) -> MemoryRegion:
    if len(byte) != 1:
        raise ValueError(f"a message is known by 1 byte, not {len(byte)}")
    return region_of(byte)

