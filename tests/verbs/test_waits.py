"""Waits: their deadlines, Ctrl-C, the GIL, the events, a close meanwhile. And polling."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, connected, error_of, said, side, stub

from rdmaqp.verbs.completion import SLICE_NS

if TYPE_CHECKING:
    from conftest import Null

MODES = pytest.mark.parametrize("events", [False, True], ids=["spin", "events"])


def deadline(events: bool, timeout: float) -> list[Any]:
    cq = side(events=events).cq
    start = time.monotonic()
    error = said(error_of(cq.wait, timeout=timeout))
    return [error["type"], error["text"], time.monotonic() - start]


@MODES
@pytest.mark.parametrize("timeout", [0, -1, 0.003, 0.1])
def test_a_wait_ends_at_its_deadline(null: Null, events: bool, timeout: float) -> None:
    kind, text, took = null.run(deadline, events, timeout)
    first, pair, hint = text.splitlines()
    assert (kind, first) == ("DeadlineError", f"no completion within {timeout} s on null0")
    assert pair == "  RC queue pair 0x41 on null0: the queue pair is in RESET now"
    assert "rnr_retry 7" in hint
    assert max(timeout, 0) <= took < max(timeout, 0) + 5


def ready_made(events: bool, timeout: float | str | None) -> list[int]:
    first, second = connected(events=events)
    second.qp.post_recv(second.mr, wr_id=7)
    first.qp.post_send(first.mr, wr_id=8)
    return [wc.wr_id for one in (first, second) for wc in one.cq.wait(timeout=timeout and float(timeout))]


@MODES
@pytest.mark.parametrize("timeout", [None, 0, 5, "inf", 1e300])
def test_what_has_completed_is_had_at_once(null: Null, events: bool, timeout: float | str | None) -> None:
    assert null.run(ready_made, events, timeout) == [8, 7]


def later(events: bool) -> list[Any]:
    first, second = connected(events=events)
    second.qp.post_recv(second.mr, wr_id=7)
    threading.Timer(0.15, first.qp.post_send, [first.mr]).start()
    start = time.monotonic()
    (wc,) = second.cq.wait()
    return [wc.wr_id, wc.ok, wc.opcode_name, wc.byte_len, wc.src_qp == first.qp.qp_num, time.monotonic() - start]


@MODES
def test_a_wait_without_a_deadline_ends_when_something_completes(null: Null, events: bool) -> None:
    *wc, took = null.run(later, events)
    assert wc == [7, True, "RECV", 64, True]
    assert 0.1 < took < 10


def polls() -> int:
    """How often the queue is looked at in half a second."""
    one = side(events=True)
    error_of(one.cq.wait, timeout=0.5)
    one.context.close()
    return int(calls("ibv_close_device")[0]["polls"])


def test_a_wait_on_a_channel_sleeps(null: Null) -> None:
    # Thrice a slice: before the event is asked for, then, and when the time is over.
    assert null.run(polls) <= 3 * 0.5e9 / SLICE_NS + 3


def others_go_on(events: bool) -> int:
    """What another thread gets done while one waits in C."""
    cq = side(events=events).cq
    counted, go = 0, True

    def count() -> None:
        nonlocal counted
        while go:
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    error_of(cq.wait, timeout=0.3)
    go = False
    thread.join()
    return counted


@MODES
def test_a_wait_lets_other_threads_run(null: Null, events: bool) -> None:
    assert null.run(others_go_on, events) > 10_000


def wait_for_ever(events: bool) -> None:
    cq = side(events=events).cq
    print("waiting", flush=True)
    cq.wait()


@MODES
def test_ctrl_c_ends_a_wait(null: Null, events: bool) -> None:
    with subprocess.Popen(
        null.command(wait_for_ever, events), env=null.device.environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.05)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert time.monotonic() - start < 5
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT


def closed_meanwhile(events: bool, name: str) -> list[Any]:
    one = side(events=events)
    thing = {"cq": one.cq, "channel": one.channel, "context": one.context}[name]
    assert thing is not None
    start = time.monotonic()
    closing = threading.Timer(0.1, thing.close)
    closing.start()
    error = said(error_of(one.cq.wait, timeout=10))
    took = time.monotonic() - start
    closing.join()
    return [error["type"], error["text"], took]


@pytest.mark.parametrize(
    ("events", "name"), [(False, "cq"), (False, "context"), (True, "cq"), (True, "channel"), (True, "context")]
)
def test_a_wait_ends_when_its_queue_is_closed(null: Null, events: bool, name: str) -> None:
    kind, text, took = null.run(closed_meanwhile, events, name)
    assert kind == "ClosedError"
    assert text.startswith("this completion ")
    assert took < 5  # of 10
    assert [call["result"] for call in null.calls("ibv_destroy_cq")] == [0]


def closing_fails_meanwhile() -> list[Any]:
    """A close that the driver refuses ends the wait; the queue is still good."""
    one = side(events=True)
    stub(DESTROY_QP_ERRNO=16)
    ended = threading.Event()

    def close_again_and_again() -> None:  # the first may come before the wait has begun
        while not ended.wait(0.05):
            error_of(one.cq.close)

    closing = threading.Thread(target=close_again_and_again)
    closing.start()
    error = said(error_of(one.cq.wait, timeout=10))
    ended.set()
    closing.join()
    return [error["type"], one.cq.closed, said(error_of(one.cq.wait, timeout=0))["type"]]


def test_a_wait_after_a_close_that_was_refused_is_a_wait(null: Null) -> None:
    assert null.run(closing_fails_meanwhile) == ["ClosedError", False, "DeadlineError"]


def a_queue_pair_is_made_meanwhile() -> float:
    """Another thread waits for ever on the queue that a new queue pair is to use."""
    one = side(events=True)
    threading.Thread(target=lambda: error_of(one.cq.wait), daemon=True).start()
    time.sleep(0.05)
    start = time.monotonic()
    for _ in range(5):
        one.pd.create_qp(one.cq)
    took = time.monotonic() - start
    one.context.close()
    return took


def test_a_wait_does_not_hold_up_what_is_made_on_its_queue(null: Null) -> None:
    assert null.run(a_queue_pair_is_made_meanwhile) < 0.5


# ---------------------------------------------------------------------- events


def shared_channel() -> list[Any]:
    """Two queues share a channel: waiting on one takes the other's events."""
    first = side(events=True)
    second_cq = first.context.create_cq(64, first.channel)
    second_qp = first.pd.create_qp(second_cq)
    ends = [first.qp.endpoint(psn=1), second_qp.endpoint(psn=2)]
    first.qp.connect(*ends)
    second_qp.connect(*reversed(ends))
    seen = []
    for number in range(3):
        second_qp.post_recv(first.mr, 0, 8, wr_id=number)
        error_of(second_cq.wait, timeout=0.001)  # both are armed now
        error_of(first.cq.wait, timeout=0.001)
        first.qp.post_send(first.mr, 8, 8, wr_id=number)
        seen.append([first.cq.wait(timeout=1)[0].wr_id, second_cq.wait(timeout=1)[0].wr_id])
    first.context.close()
    return seen


def test_every_event_is_acknowledged_to_the_queue_that_it_is_from(null: Null) -> None:
    assert null.run(shared_channel) == [[0, 0], [1, 1], [2, 2]]
    ended = null.calls("ibv_destroy_cq")
    # The real library waits here for ever, for more as for less than were delivered.
    assert [call["unacknowledged"] for call in ended] == [0, 0]


def descriptor() -> list[Any]:
    one = side(events=True)
    assert one.channel is not None
    return [one.channel.fd > 2, os.get_blocking(one.channel.fd), type(error_of(os.read, one.channel.fd, 8)).__name__]


def test_the_channels_descriptor_does_not_block(null: Null) -> None:
    assert null.run(descriptor) == [True, False, "BlockingIOError"]


# ---------------------------------------------------------------------- polling


def polled(numbers: list[int]) -> list[int]:
    first, second = connected(max_send_wr=200, max_recv_wr=200)
    for number in range(150):
        second.qp.post_recv(second.mr, wr_id=number)
        first.qp.post_send(first.mr, signaled=False)
    return [len(second.cq.poll(number)) for number in numbers]


def test_polling_takes_what_is_there_and_64_at_most(null: Null) -> None:
    assert null.run(polled, [0, 1, 16, 64, 1000, 1000, 1000]) == [0, 1, 16, 64, 64, 5, 0]


def default_poll() -> int:
    first, second = connected(max_send_wr=200, max_recv_wr=200)
    for _ in range(20):
        second.qp.post_recv(second.mr)
        first.qp.post_send(first.mr, signaled=False)
    return len(second.cq.poll())


def test_polling_takes_sixteen_by_itself(null: Null) -> None:
    assert null.run(default_poll) == 16


def odd_numbers() -> dict[str, str]:
    cq = side().cq
    uses = {
        "poll(-1)": lambda: cq.poll(-1), "wait(0)": lambda: cq.wait(0, timeout=1), "wait(-5)": lambda: cq.wait(-5),
        "poll(1.5)": lambda: cq.poll(1.5), "poll(None)": lambda: cq.poll(None),
    }  # fmt: skip
    return {name: said(error_of(use))["type"] for name, use in uses.items()}


def test_numbers_that_make_no_sense_are_errors_and_no_waits(null: Null) -> None:
    assert null.run(odd_numbers) == {
        "poll(-1)": "ValueError", "wait(0)": "ValueError", "wait(-5)": "ValueError", "poll(1.5)": "TypeError",
        "poll(None)": "TypeError",
    }  # fmt: skip


def broken_queue(verb: str, number: int, events: bool) -> list[Any]:
    cq = side(events=events).cq
    stub(**{f"{verb}_ERRNO": number})
    if verb == "GET_CQ_EVENT":
        return [said(error_of(cq.wait, timeout=0.05))]
    errors = [error_of(cq.wait, timeout=5)]
    if verb == "POLL_CQ":
        errors.append(error_of(cq.poll))
    return [said(error) | {"verb": getattr(error, "verb", None)} for error in errors]


@pytest.mark.parametrize(
    ("verb", "number", "errno", "name", "events"),
    [
        # "failed", and no more is said: errno is left over from something else
        ("POLL_CQ", -1, 5, "ibv_poll_cq", False),
        ("POLL_CQ", -1, 5, "ibv_poll_cq", True),
        ("POLL_CQ", -22, 22, "ibv_poll_cq", False),
        ("POLL_CQ", -22, 22, "ibv_poll_cq", True),
        ("REQ_NOTIFY_CQ", 5, 5, "ibv_req_notify_cq", True),
        ("REQ_NOTIFY_CQ", -5, 5, "ibv_req_notify_cq", True),
        ("GET_CQ_EVENT", 5, 5, "ibv_get_cq_event", True),
    ],
)
def test_a_broken_queue_is_an_error_that_names_the_verb(
    null: Null, verb: str, number: int, errno: int, name: str, events: bool
) -> None:
    for answer in null.run(broken_queue, verb, number, events):
        assert (answer["type"], answer["errno"]) == ("VerbsError", errno)
        assert f"completion queue on null0: {name} failed" in answer["text"]


def failed_work() -> list[Any]:
    first, _ = connected()
    stub(WC_STATUS="RETRY_EXC_ERR")
    first.qp.post_send(first.mr, wr_id=0xABC)
    (wc,) = first.cq.wait(timeout=1)
    error = error_of(wc.raise_for_status)
    return [wc.ok, wc.status, wc.status_name, error.status, error.wr_id, error.qp_num == first.qp.qp_num, str(error)]


def test_failed_work_is_a_completion_that_can_be_raised(null: Null) -> None:
    *data, text = null.run(failed_work)
    assert data == [False, 12, "RETRY_EXC_ERR", 12, 0xABC, True]
    assert "work request 0xabc completed with RETRY_EXC_ERR (12)" in text


def status_of_another_day() -> list[str]:
    from rdmaqp.verbs.work_completion import WorkCompletion, wc_status_name

    wc = WorkCompletion(1, 99, 77, 0, 0, 0, 0, 0, None, 0, 0, 0, None)
    return [wc_status_name(3), wc_status_name(99), wc.opcode_name, wc.status_name]


def test_a_status_that_is_newer_than_we_are_has_the_librarys_name(null: Null) -> None:
    known, unknown, opcode, same = null.run(status_of_another_day)
    assert (known, opcode) == ("LOC_EEC_OP_ERR", "77")
    assert unknown == same
    assert unknown
