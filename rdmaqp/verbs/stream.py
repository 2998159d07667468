"""Transfers: a work request posted again and again with a window, the receives at the other end, both run in C.

    stream = Stream(qp, Write(region[0:64], remote), count=100_000, window=64, signal_every=16)
    stream.run(timeout=10)

    transfer(Stream(first, Send(a[0:64]), count=1000), Sink(second, b[0:64], count=1000))     # both ends are ours
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.errors import DeadlineError
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import holding
from rdmaqp.verbs.chain import Chain
from rdmaqp.verbs.completion import SLICE_NS, WorkCompletion
from rdmaqp.verbs.slices import region_of
from rdmaqp.verbs.work import Recv, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.verbs._resource import Resource
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.slices import Slice
    from rdmaqp.verbs.work import Local

#: ``wr_id`` of a sink's first receive: far away from the numbers that people give their sends.
FIRST_RECEIVE = 1 << 63

_ENDLESS = (1 << 64) - 1
_MOST_AT_ONCE = 64


class _End:
    """What streams and sinks have in common. While it runs, its queue pair's work of that kind is its own."""

    raw: Any
    uses: tuple[Resource, ...]
    _chain: Chain | None
    _qp: QueuePair | None

    def run(self, timeout: float | None = None) -> None:
        """Run it alone until it is done; see :func:`transfer`."""
        transfer(self, timeout=timeout)

    def where(self) -> str:
        """How far it has come, in words."""
        raise NotImplementedError

    @property
    def count(self) -> int | None:
        """How many messages it is about; ``None`` while that is open."""
        return None if self.raw.count == _ENDLESS else int(self.raw.count)

    @property
    def seconds(self) -> float:
        """From its first message to its last; 0 before it is done."""
        return max(0, int(self.raw.ended_ns - self.raw.begun_ns)) / 1e9 if self.raw.ended_ns else 0.0

    def settle(self, result: int, again: Callable[[int], int]) -> None:
        """Raise what stopped it, or go on where the judge has no objection."""
        lib, chain, qp = native().lib, self._chain, self._qp
        assert chain is not None
        assert qp is not None
        if result == lib.RDMAQP_STALE:
            chain.look_again()
        elif result == lib.RDMAQP_STATUS:
            raise self._failed(qp)
        else:
            qp.resolve(result, chain.posted, len(chain), again)

    def _failed(self, qp: QueuePair) -> Exception:
        from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

        wc = WorkCompletion.from_c(self.raw.failed)
        number = wc.wr_id - int(self.raw.wr_id)
        return completion_error(wc, qp, notes=(f"It was request {number:,}. {self.where()}",))


class Stream(_End):
    """A work request posted *count* times, *window* of them under way at most.

    Each is posted as *work* says, but for two things: request number n, from 0 on, has the ``wr_id`` *work.wr_id* + n
    (nothing else on the queue pair should have one of these meanwhile), and *signal_every* says which are signaled.

    Attributes:
        window: at most what the send queue and the completion queue hold.
        signal_every: each of so many is signaled, and the last; held to what the window allows.
    """

    def __init__(
        self, qp: QueuePair, work: Work, *, count: int | None = None, seconds: float | None = None,
        window: int | None = None, batch: int = 1, signal_every: int = 1, stamped: bool = False,
    ) -> None:
        """Give *count*, or *seconds* after which no more are posted.

        *batch* requests go to the driver in one call. *stamped* keeps the time of each post, for :attr:`gaps_ns`.

        Raises:
            ValueError: a number that cannot be.
            GuardError, TypeError: *work* does not pass, as the posting calls of ``QueuePair``.
        """
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
        self._qp, self.batch, self.window = qp, min(batch, window, count or window), window
        self.signal_every = 1 if qp.sq_sig_all else min(signal_every, window - self.batch + 1)
        self._chain = Chain(qp, [work] * self.batch)
        self._stamps = ffi.new("int64_t[]", count or 1) if stamped else ffi.NULL
        self._partners: list[Any] = []
        self.uses = (qp, qp.send_cq)
        self.raw = ffi.new("struct rdmaqp_stream *", {
            "chain": self._chain.raw, "queue": qp.send_cq.raw, "stamps": self._stamps, "wr_id": work.wr_id,
            "count": _ENDLESS if count is None else count, "duration_ns": int((seconds or 0) * 1e9),
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
        return f"<stream on {self._qp}: {self.where()}>"


class Sink(_End):
    """*count* messages received into *local*, each over the one before; *depth* receives are kept posted.

    Their ``wr_id`` is :data:`FIRST_RECEIVE` + n. *count* ``None`` goes on until :meth:`expect` says how many there are.
    A datagram's memory has 40 bytes more, in front.
    """

    def __init__(
        self, qp: QueuePair, local: Local, *, count: int | None = None, depth: int | None = None
    ) -> None:
        """Raises ValueError, GuardError, TypeError: as :class:`Stream`."""
        room = min(qp.cap.max_recv_wr, qp.recv_cq.cqe)
        depth = min(room, room if depth is None else depth)
        _require_positive(depth=depth, **({} if count is None else {"count": count}))
        self._qp, self.depth = qp, depth
        self._chain = Chain(qp, [Recv(local)] * min(max(depth // 2, 1), _MOST_AT_ONCE))
        self.uses = (qp, qp.recv_cq)
        self.raw = native().ffi.new("struct rdmaqp_sink *", {
            "chain": self._chain.raw, "queue": qp.recv_cq.raw, "wr_id": FIRST_RECEIVE, "depth": depth,
            "count": _ENDLESS if count is None else count,
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
        return f"<sink on {self._qp}: {self.where()}>"


class Watch(_End):
    """*count* messages of the peer's RDMA WRITEs, seen by their last byte: it becomes 1, 2, … modulo 256, from 0.

    That is how latency of WRITE is measured: no completion tells the side that is written to.
    """

    _chain = _qp = None

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


def run_slice(*ends: Stream | Sink | Watch | _End, slice_ns: int = SLICE_NS) -> bool:
    """Run *ends*, which belong together, for *slice_ns* at most. Whether all are done.

    Raises:
        CompletionError: a work request failed; the error says which. What was flushed behind it waits to be polled.
        GuardError, VerbsError, ClosedError: a post was refused.
        ValueError: more ends than one call takes, or none that has a queue pair.
    """
    ffi, lib = native()
    streams = [end for end in ends if isinstance(end, Stream)]
    sinks = [end for end in ends if not isinstance(end, Stream)]
    if len(ends) > lib.RDMAQP_ENDS or not any(end._chain is not None for end in ends):
        raise ValueError(f"a transfer has 1…{lib.RDMAQP_ENDS} ends, one at least with a queue pair, not {len(ends)}")
    raws = [ffi.new("struct rdmaqp_stream *[]", [end.raw for end in streams]),
            ffi.new("struct rdmaqp_sink *[]", [end.raw for end in sinks])]  # fmt: skip
    done = [0]

    def go(checked: int) -> int:
        done[0] = lib.rdmaqp_transfer(raws[0], len(streams), raws[1], len(sinks), slice_ns, checked)
        return done[0]

    with holding(*(resource for end in ends for resource in end.uses)):
        result = go(1)
        if result < 0:
            culprits = [end for end in ends if end.raw.result < 0] + [end for end in ends if end._chain is not None]
            culprits[0].settle(result, go)
    return bool(done[0] == 1)


def transfer(
    *ends: Stream | Sink | Watch | _End, timeout: float | None = None, tick: Callable[[], object] | None = None
) -> None:
    """Run *ends* in one loop in C until all are done. Ctrl-C works; the GIL is released.

    Completions of other work on the same queues are kept for whoever polls them next.

    Args:
        timeout: seconds; ``None`` waits for ever.
        tick: called every 20 ms or so.

    Raises:
        DeadlineError: *timeout* seconds are over; call again to go on.
        CompletionError, GuardError, VerbsError, ClosedError: as :func:`run_slice`. The counts are as far as it came.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while not run_slice(*ends):
        if tick is not None:
            tick()
        if end is not None and time.monotonic() >= end:
            said = "\n".join(f"  {one._qp or 'memory'}: {one.where()}" for one in ends)
            raise DeadlineError(f"the transfer is not done within {timeout} s\n{said}")


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if not 1 <= number < 1 << 63:
            raise ValueError(f"{name}: {number} is below 1" if number < 1 else f"{name}: {number} is above 2**63 - 1")


def _byte(byte: Slice) -> MemoryRegion:
    if len(byte) != 1:
        raise ValueError(f"a message is known by 1 byte, not {len(byte)}")
    return region_of(byte)

