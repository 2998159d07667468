"""Transfers in C on the null device: what they count, what they hold to, when they come back, what they say."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_side import Side, calls, connected, error_of, rdmaqp, ready, said, stub

from rdmaqp import Read, RemoteMemory, Send, Sink, Stream, Watch, Write, transfer
from rdmaqp.verbs.completion import SLICE_NS
from rdmaqp.verbs.transfer import run_slice

if TYPE_CHECKING:
    from conftest import Null

FAR = RemoteMemory(1 << 32, 1 << 20, 7)


def write(one: Side, **more: Any) -> Write:
    return Write(one.mr[0:64], FAR[0:64], **more)


# ---------------------------------------------------------------------- counts


def counted(count: int, window: int, batch: int, signal_every: int) -> list[Any]:
    one = ready("RTS", max_send_wr=32)
    stream = Stream(one.qp, write(one), count=count, window=window, batch=batch, signal_every=signal_every)
    stream.run(timeout=20)
    again = Stream(one.qp, write(one), count=3)  # the account is right afterwards: all the room is there
    again.run(timeout=20)
    left = [one.qp.outstanding, len(one.cq.poll())]
    return [stream.posted, stream.completed, stream.seconds > 0, *left, again.completed]


@pytest.mark.parametrize("count", [1, 2, 31, 1000])
@pytest.mark.parametrize("window", [1, 2, 7, 32, 1000])
@pytest.mark.parametrize(("batch", "signal_every"), [(1, 1), (1, 7), (4, 1), (4, 7), (16, 100), (100, 16)])
def test_all_are_posted_and_succeed_whatever_the_window(
    null: Null, count: int, window: int, batch: int, signal_every: int
) -> None:
    assert null.run(counted, count, window, batch, signal_every) == [count, count, True, 0, 0, 3]


def both_ends(count: int, depth: int, batch: int) -> list[Any]:
    first, second = connected(max_send_wr=32, max_recv_wr=64)
    first.mr.buffer[:] = bytes(range(64))
    stream = Stream(first.qp, Send(first.mr[0:64]), count=count, window=32, batch=batch, signal_every=5)
    sink = Sink(second.qp, second.mr, count=count, depth=depth)
    sink.post()
    transfer(stream.feeds(sink), sink, timeout=20)
    return [stream.completed, sink.received, sink.bytes, second.qp.recv_posted, first.qp.outstanding,
            bytes(second.mr.buffer) == bytes(range(64))]  # fmt: skip


@pytest.mark.parametrize("depth", [1, 2, 3, 64])
@pytest.mark.parametrize("batch", [1, 8])
def test_both_ends_in_one_process_lose_nothing_and_leave_nothing(null: Null, depth: int, batch: int) -> None:
    assert null.run(both_ends, 1000, depth, batch) == [1000, 1000, 64_000, 0, 0, True]


def kept_posted(depth: int, count: int) -> list[int]:
    first, second = connected(max_send_wr=32, max_recv_wr=64)
    sink = Sink(second.qp, second.mr, count=count, depth=depth)
    sink.post()
    posted = [second.qp.recv_posted]
    stream = Stream(first.qp, Send(first.mr[0:64]), count=count, window=2).feeds(sink)
    while not run_slice(stream, sink, slice_ns=0):
        posted.append(second.qp.recv_posted)
    return [posted[0], max(posted)]


@pytest.mark.parametrize("depth", [1, 3, 8, 64])
def test_a_sink_keeps_as_many_receives_posted_as_it_says(null: Null, depth: int) -> None:
    """The completion queue has room for no more."""
    assert null.run(kept_posted, depth, 200) == [depth, depth]


def one_queue() -> list[int]:
    """Both ways at once, all four ends on one completion queue."""
    context = rdmaqp.open()
    pd, cq = context.alloc_pd(), context.create_cq(256)
    memory = pd.alloc_mr(128)
    pairs = [pd.create_qp(cq, max_send_wr=16, max_recv_wr=16) for _ in range(2)]
    records = [qp.endpoint(psn=number) for number, qp in enumerate(pairs)]
    pairs[0].connect(*records)
    pairs[1].connect(*reversed(records))
    sinks = [Sink(qp, memory[64:128], count=500) for qp in pairs]
    streams = [
        Stream(qp, Send(memory[0:64]), count=500, signal_every=3).feeds(sink)
        for qp, sink in zip(pairs, reversed(sinks), strict=True)
    ]
    transfer(*streams, *sinks, timeout=20)
    return [*(stream.completed for stream in streams), *(sink.received for sink in sinks), len(cq.poll())]


def test_four_ends_share_a_completion_queue(null: Null) -> None:
    assert null.run(one_queue) == [500, 500, 500, 500, 0]


def others() -> list[Any]:
    """Completions of other work on the same queue come later, to whoever polls; those that a call kept, come here."""
    first, second = connected(max_send_wr=32, max_recv_wr=32)
    first.qp.write(first.mr[0:8], FAR[0:8], wr_id=1 << 40)
    first.qp.recv(first.mr[0:8], wr_id=77)
    second.qp.send(second.mr[0:8], signaled=False)
    Stream(first.qp, write(first), count=100).run(timeout=20)
    kept = sorted(wc.wr_id for wc in first.cq.poll())
    sink = Sink(first.qp, first.mr, count=2)
    sink.post()
    second.qp.send(second.mr[0:8], signaled=False)
    first.qp.chain(write(first)).run(timeout=20)  # keeps the sink's completion for whoever asks
    second.qp.send(second.mr[0:8], signaled=False)
    sink.run(timeout=20)
    return [kept, sink.received, first.qp.outstanding, first.qp.recv_posted]


def test_other_work_on_the_queue_is_nobody_s_loss(null: Null) -> None:
    assert null.run(others) == [[77, 1 << 40], 2, 0, 0]


# ---------------------------------------------------------------------- the window


def unpolled(window: int, room: int, before: int) -> list[int]:
    """With a broken completion queue everything that may be under way is, and no more."""
    one = ready("RTS", max_send_wr=room)
    for _ in range(before):
        one.qp.post(write(one, wr_id=1 << 50))
    stream = Stream(one.qp, write(one), count=200, window=window)
    stub(POLL_CQ_ERRNO=-5)
    broken = error_of(stream.run, 5)
    under_way = [stream.posted, stream.completed, one.qp.outstanding]
    stub(POLL_CQ_ERRNO=None)
    stream.run(timeout=20)
    return [type(broken).__name__, *under_way, stream.completed, one.qp.outstanding, len(one.cq.poll())]


@pytest.mark.parametrize(
    ("window", "room", "before", "posted"), [(1, 16, 0, 1), (5, 16, 0, 5), (16, 16, 0, 16), (99, 16, 0, 16),
                                             (16, 16, 10, 6), (5, 16, 14, 2)])  # fmt: skip
def test_no_more_is_under_way_than_the_window_and_the_queue_hold(
    null: Null, window: int, room: int, before: int, posted: int
) -> None:
    assert null.run(unpolled, window, room, before) == ["VerbsError", posted, 0, posted + before, 200, 0, before]


def stuck() -> dict[str, Any]:
    one = ready("RTS", max_send_wr=4)
    for _ in range(4):
        one.qp.post(write(one, signaled=False))
    return said(error_of(Stream(one.qp, write(one), count=5).run, 20))


def test_a_queue_full_of_unsignaled_work_is_said_not_waited_for(null: Null) -> None:
    assert null.run(stuck)["errors"] == [["post-full", "queue"]]


# ---------------------------------------------------------------------- failures


def failing(settings: dict[str, Any], signal_every: int) -> dict[str, Any]:
    one = ready("RTS", max_send_wr=8)
    stream = Stream(one.qp, write(one, wr_id=500), count=100, window=4, signal_every=signal_every)
    stub(**settings)
    error = error_of(stream.run, 20)
    stub(**dict.fromkeys(settings))
    more = {name: getattr(error, name, None) for name in ("wr_id", "status_name")}
    return {**said(error), **more, "posted": stream.posted, "causes": len(getattr(error, "causes", ()))}


@pytest.mark.parametrize("signal_every", [1, 3])
def test_a_failed_request_is_named_with_its_number_and_why(null: Null, signal_every: int) -> None:
    came = null.run(failing, {"WC_STATUS": "REM_ACCESS_ERR"}, signal_every)
    assert (came["type"], came["status_name"], came["wr_id"]) == ("CompletionError", "REM_ACCESS_ERR", 500)
    assert "It was request 0. 0 of 100 have succeeded, 4 were posted." in came["text"]
    assert came["causes"] > 0


def test_a_refused_post_is_the_driver_s_word(null: Null) -> None:
    came = null.run(failing, {"POST_SEND_ERRNO": 12}, 1)
    assert (came["type"], came["errno"], came["posted"]) == ("VerbsError", 12, 0)
    assert "ibv_post_send" in came["text"]


def goes_on() -> list[Any]:
    one = ready("RTS")
    queue = one.context.create_cq(2)
    qp = one.pd.create_qp(queue, max_send_wr=8)
    here = qp.endpoint(psn=1)
    qp.connect(here, here)
    qp.post(write(one, wr_id=1 << 50))  # has one of the two places, so that the driver takes one request of two
    stream = Stream(qp, write(one), count=50, window=8, batch=2)
    error = error_of(run_slice, stream)
    counts = [stream.posted, qp.outstanding]
    stream.run(timeout=20)
    return [type(error).__name__, *counts, stream.posted, stream.completed, qp.outstanding]


def test_what_the_driver_took_of_a_batch_is_counted_and_the_rest_comes_later(null: Null) -> None:
    assert null.run(goes_on) == ["VerbsError", 1, 2, 50, 50, 0]


def too_early() -> list[Any]:
    one = ready("INIT")
    stream = Stream(one.qp, write(one), count=1)
    return [said(error_of(stream.run, 5))["errors"], stream.posted]


def test_a_state_that_sends_nothing_is_refused_by_the_guard(null: Null) -> None:
    assert null.run(too_early) == [[["post-state", "qp.state"]], 0]


def moved_meanwhile() -> int:
    """The state is not known after a failure; it is asked, and where it is well, the stream goes on."""
    one = ready("RTS")
    one.qp.raw.state = 0
    stream = Stream(one.qp, write(one), count=10)
    stream.run(timeout=20)
    return stream.completed


def test_an_unknown_state_is_asked(null: Null) -> None:
    assert null.run(moved_meanwhile) == 10


def wrong_type() -> list[Any]:
    context = rdmaqp.open()
    pd, cq = context.alloc_pd(), context.create_cq(8)
    region = pd.alloc_mr(64)
    return [said(error_of(Stream, pd.create_qp(cq, qp_type=kind), work(region), count=1))["errors"]
            for kind, work in (("UC", lambda r: Read(r, FAR)), ("UD", lambda r: Write(r, FAR)))]  # fmt: skip


def test_what_the_type_does_not_send_is_refused_when_it_is_made(null: Null) -> None:
    assert null.run(wrong_type) == [[["post-opcode", "opcode"]]] * 2


def misfits() -> list[str]:
    """A stream of receives was a crash."""
    one = ready("RTS")
    shared = one.pd.create_qp(one.cq, srq=one.pd.create_srq(8))
    stream = Stream(one.qp, write(one), count=1)
    wrong: Any = None
    tries = [
        lambda: Stream(one.qp, rdmaqp.Recv(one.mr), count=1), lambda: Stream(one.qp, one.mr, count=1),
        lambda: Sink(shared, one.mr, count=1), lambda: stream.feeds(wrong), lambda: stream.answers(stream, first=True),
        lambda: transfer(one.qp),
    ]  # fmt: skip
    return [f"{type(error).__name__}: {error}" for error in map(error_of, tries)]


def test_what_is_no_end_of_a_transfer_is_refused_when_it_is_made(null: Null) -> None:
    words = (
        "TypeError: a stream posts sends, and Recv is none: a Sink receives",
        "TypeError: MemoryRegion is no work request", "this queue pair takes its receives from a shared receive queue",
        "TypeError: feeds(): sink is None; expected a Sink", "expected a Sink or a Watch",
        "TypeError: transfer(): an end is <RC queue pair",
    )  # fmt: skip
    for text, part in zip(null.run(misfits), words, strict=True):
        assert part in text


def numbers() -> list[str]:
    one = ready("RTS")
    work = write(one)
    wrong: list[dict[str, Any]] = [
        {}, {"count": 1, "seconds": 1.0}, {"count": 0}, {"count": 1, "window": 0}, {"count": 1, "batch": 0},
        {"count": 1, "signal_every": 0}, {"seconds": 0.0}, {"seconds": 1.0, "stamped": True},
        {"count": 9, "batch": 2, "stamped": True},
    ]  # fmt: skip
    said = [str(error_of(Stream, one.qp, work, **options)) for options in wrong]
    said.append(str(error_of(Sink, one.qp, one.mr, count=0)))
    said.append(str(error_of(Watch, one.mr[0:2], count=1)))
    one.mr.buffer[5] = 9
    said.append(str(error_of(Watch, one.mr[5:6], count=1)))
    said.append(str(error_of(transfer, Watch(one.mr[6:7], count=1))))
    return said


def test_numbers_that_cannot_be_are_named(null: Null) -> None:
    texts = null.run(numbers)
    for text, words in zip(texts, ("give one of the two", "give one of the two", "count: 0", "window: 0", "batch: 0",
                                   "signal_every: 0", "seconds: 0.0", "stamps", "stamps", "count: 0", "1 byte, not 2",
                                   "is 9, and has to begin with 0", "with a queue pair"), strict=True):  # fmt: skip
        assert words in text


# ---------------------------------------------------------------------- when it comes back


def late() -> list[Any]:
    first, second = connected()
    sink = Sink(second.qp, second.mr, count=10)
    sink.post()
    start = time.monotonic()
    error = error_of(sink.run, 0.2)
    first.qp.send(first.mr, signaled=False)
    again = error_of(sink.run, 0.2)
    return [type(error).__name__, str(error), time.monotonic() - start < 20, sink.received, str(again)]


def test_a_deadline_says_how_far_it_came_and_it_can_go_on(null: Null) -> None:
    name, text, soon, received, again = null.run(late)
    assert (name, soon, received) == ("DeadlineError", True, 1)
    assert "0 of 10 have been received" in text
    assert "1 of 10 have been received" in again


def slices(timeout: float | None) -> list[int]:
    """How long C may work at a time."""
    import rdmaqp.verbs.transfer as module

    first, second = connected()
    asked: list[int] = []
    real = module.run_slice

    def watched(*ends: Any, slice_ns: int) -> bool:
        asked.append(slice_ns)
        if timeout is None:
            first.qp.send(first.mr[0:8])
        return real(*ends, slice_ns=slice_ns)

    module.run_slice = watched  # type: ignore[assignment]
    sink = Sink(second.qp, second.mr, count=1)
    sink.post()
    if timeout is None:
        sink.run()
    else:
        assert type(error_of(sink.run, timeout)).__name__ == "DeadlineError"
    return asked


def test_the_last_slice_of_time_ends_at_the_deadline(null: Null) -> None:
    short, long = null.run(slices, 0.005), null.run(slices, 0.05)
    assert short[0] == 5_000_000
    assert long[0] == SLICE_NS
    assert min(long) < SLICE_NS
    assert null.run(slices, 0.0)[0] == 0
    assert null.run(slices, None) == [SLICE_NS]


def endless(how: str) -> list[Any]:
    one = ready("RTS")
    stream = Stream(one.qp, write(one), count=1 << 50, window=8)
    if how == "interrupted":
        import _thread

        threading.Timer(0.3, _thread.interrupt_main).start()
    else:
        threading.Timer(0.3, {"pair": one.qp, "queue": one.cq, "memory": one.mr}[how].close).start()
    error = error_of(stream.run, 30)
    counts = [stream.posted == stream.completed or stream.posted - stream.completed <= 8, stream.completed > 0]
    return [type(error).__name__, *counts]


@pytest.mark.parametrize(
    ("how", "name"),
    [("interrupted", "KeyboardInterrupt"), *((what, "ClosedError") for what in ("pair", "queue", "memory"))],
)
def test_ctrl_c_and_a_close_in_another_thread_end_it(null: Null, how: str, name: str) -> None:
    assert null.run(endless, how) == [name, True, True]


def timed() -> list[Any]:
    one = ready("RTS", max_send_wr=32)
    stream = Stream(one.qp, write(one), seconds=0.2, window=32, signal_every=10)
    ticks = []
    transfer(stream, timeout=30, tick=lambda: ticks.append(stream.posted))
    return [stream.completed == stream.posted == stream.count, 0.2 <= stream.seconds < 10, len(ticks) > 1,
            ticks == sorted(ticks), one.qp.outstanding]  # fmt: skip


def test_a_stream_for_some_seconds_ends_with_all_accounted_for(null: Null) -> None:
    assert null.run(timed) == [True, True, True, True, 0]


# ---------------------------------------------------------------------- latency


def stamped() -> list[Any]:
    one = ready("RTS")
    stream = Stream(one.qp, Read(one.mr[0:64], FAR[0:64]), count=20, window=1, stamped=True)
    stream.run(timeout=20)
    return [len(stream.gaps_ns), all(gap > 0 for gap in stream.gaps_ns), Stream(one.qp, write(one), count=1).gaps_ns]


def test_a_stamped_stream_with_a_window_of_one_measures_each(null: Null) -> None:
    assert null.run(stamped) == [19, True, []]


def volley() -> list[Any]:
    first, second = connected(max_send_wr=4, max_recv_wr=4)
    sinks = [Sink(one.qp, one.pd.alloc_mr(64), count=300) for one in (first, second)]
    for sink in sinks:
        sink.post()
    streams = [
        Stream(one.qp, Send(one.mr[0:64]), count=300, stamped=True).answers(sink, first=one is first)
        for one, sink in zip((first, second), sinks, strict=True)
    ]
    ahead = []
    while not run_slice(*streams, *sinks, slice_ns=0):
        ahead.append(streams[0].posted - streams[1].posted)
    wrong = error_of(Stream(first.qp, Send(first.mr[0:8]), count=9, batch=2).answers, sinks[0], first=True)
    return [[stream.completed for stream in streams], [sink.received for sink in sinks], set(ahead) <= {0, 1},
            len(streams[0].gaps_ns), str(wrong)]  # fmt: skip


def test_ends_that_answer_each_other_take_turns(null: Null) -> None:
    completed, received, in_turn, gaps, wrong = null.run(volley)
    assert (completed, received, in_turn, gaps) == ([300, 300], [300, 300], True, 299)
    assert wrong.startswith("batch: ")


def written() -> list[Any]:
    """The null device moves no bytes of a WRITE: the peer's are written by hand."""
    one = ready("RTS", max_send_wr=4)
    watch = Watch(one.mr[63:64], count=300)
    out = one.pd.alloc_mr(8)
    stream = Stream(one.qp, Write(out[0:8], FAR[0:8]), count=300).answers(watch, first=True).marks(out[7:8])
    marks = []
    for number in range(1, 301):
        done = run_slice(stream, watch, slice_ns=0)
        marks.append([stream.posted, out.buffer[7], watch.received, done])
        one.mr.buffer[63] = number % 256
    return [run_slice(stream, watch), all(mark == [n, n % 256, n - 1, False] for n, mark in enumerate(marks, 1))]


def test_writes_are_seen_by_a_byte_of_memory(null: Null) -> None:
    assert null.run(written) == [True, True]


def control_calls() -> int:
    one = ready("RTS")
    before = len(calls())
    Stream(one.qp, write(one), count=10_000).run(timeout=20)
    return len(calls()) - before


def test_a_transfer_makes_no_control_call(null: Null) -> None:
    assert null.run(control_calls) == 0
