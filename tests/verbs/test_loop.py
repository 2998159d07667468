"""The ping-pong loop in C: both ends on the null device, what they count, what they notice, when they come back."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_side import (
    DataError,
    PingPongEnd,
    Verify,
    calls,
    connected,
    error_of,
    run_slice,
    said,
    side,
    stub,
)

if TYPE_CHECKING:
    from conftest import Null

SIZES = [1, 2, 7, 8, 9, 15, 16, 17, 4095, 4096, 4097, 1 << 20]


def two_ends(size: int = 64, iterations: int = 100, rx_depth: int | None = None, **options: Any) -> list[PingPongEnd]:
    verify = options.pop("verify", [Verify.STAMP] * 2)
    sides = connected(size=size, **options)
    ends = [
        PingPongEnd(
            one.qp, one.mr, one.pd.alloc_mr(size), size=size, iterations=iterations, initiator=number == 0,
            verify=verify[number], rx_depth=rx_depth, peer=f"peer {number}",
        )
        for number, one in enumerate(sides)
    ]  # fmt: skip
    for end in ends:
        end.post_receives()
    return ends


def finish(ends: list[PingPongEnd], seconds: float = 30) -> bool:
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if run_slice(*ends):
            return True
    return False


def sizes(kind: str, numbers: list[int]) -> dict[str, list[Any]]:
    counts = {}
    for size in numbers:
        ends = two_ends(size, 40 if size < 1 << 20 else 5, verify=[Verify[kind]] * 2)
        done = finish(ends)
        counts[str(size)] = [done, *(end.received for end in ends), *(len(end.latencies_ns) for end in ends)]
        ends[0].qp.pd.context.close()
    return counts


@pytest.mark.parametrize("kind", ["STAMP", "WHOLE"])
def test_every_size_is_verified_to_the_last_message(null: Null, kind: str) -> None:
    counts = null.run(sizes, kind, SIZES)
    assert counts == {
        str(size): [True, count, count, count, count - 1]
        for size, count in ((size, 40 if size < 1 << 20 else 5) for size in SIZES)
    }


def answered_by_stock(size: int) -> list[Any]:
    """Our client against what a stock ibv_rc_pingpong server does: it sends back what it got."""
    first, second = connected(size=size)
    into = first.pd.alloc_mr(size)
    client = PingPongEnd(first.qp, first.mr, into, size=size, iterations=5, initiator=True, verify=Verify.ECHO)
    client.post_receives()
    pages = set()
    for _ in range(5):
        second.qp.post_recv(second.mr)
        run_slice(client, slice_ns=1_000_000)
        (wc,) = [wc for wc in second.cq.poll() if wc.opcode_name == "RECV"]
        assert wc.byte_len == size
        pages |= set(second.mr.buffer[::4096])
        second.qp.post_send(second.mr, signaled=False)
    return [run_slice(client), client.received, sorted(pages)]


@pytest.mark.parametrize("size", [1, 17, 4095, 4096, 4097, 12289])
def test_a_client_of_a_stock_server(null: Null, size: int) -> None:
    assert null.run(answered_by_stock, size) == [True, 5, [0]]  # -c looks for a zero at the start of each page


def asked_by_stock(size: int, fill: int, pages: bool) -> list[Any]:
    """Our server against a stock client: its buffer is all 0x7b, with -c a zero at the start of each page."""
    first, second = connected(size=size)
    server = PingPongEnd(
        second.qp, second.mr, second.pd.alloc_mr(size), size=size, iterations=5, initiator=False, verify=Verify.STOCK
    )
    server.post_receives()
    first.mr.buffer[:] = bytes([fill]) * size
    if pages:
        for at in range(0, size, 4096):
            first.mr.buffer[at] = 0
    into = first.pd.alloc_mr(size)
    same = True
    done = False
    for _ in range(5):
        first.qp.post_recv(into)
        first.qp.post_send(first.mr, signaled=False)
        try:
            done = run_slice(server, slice_ns=1_000_000)
        except DataError as error:
            return [str(error)]
        (wc,) = first.cq.poll()
        same = same and wc.byte_len == size and bytes(into.buffer) == bytes(first.mr.buffer)
    return [done, server.received, same]


@pytest.mark.parametrize("size", [1, 17, 4096, 4097, 12289])
@pytest.mark.parametrize("pages", [False, True])
def test_a_server_of_a_stock_client(null: Null, size: int, pages: bool) -> None:
    assert null.run(asked_by_stock, size, 0x7B, pages) == [True, 5, True]


def test_a_server_notices_other_bytes_than_a_stock_client_sends(null: Null) -> None:
    (text,) = null.run(asked_by_stock, 5000, 0x7A, False)
    assert "message 0 arrived with wrong bytes, or with 5000 of 5000" in text


# ---------------------------------------------------------------------- wrong bytes


def changed(kind: str, size: int, at: int, sent: int | None) -> dict[str, Any]:
    """Play the initiator by hand towards our own server end, with one byte changed on its way, or another length."""
    first, second = connected(size=size)
    verify = Verify[kind]
    source = PingPongEnd(
        first.qp, first.mr, first.pd.alloc_mr(size), size=size, iterations=9, initiator=True, verify=verify
    )
    stub(DROP=1)  # what the true initiator sends is taken out of its buffer, and arrives by hand
    run_slice(source, slice_ns=1_000_000)
    stub(DROP=0)
    message = bytearray(first.mr.buffer)
    message[at] ^= 0x10
    into = second.pd.alloc_mr(size)
    into.buffer[:] = first.mr.buffer  # what a shorter message leaves is right, so that its length alone gives it away
    server = PingPongEnd(second.qp, second.mr, into, size=size, iterations=9, initiator=False, verify=verify)
    server.post_receives()
    first.qp.post_send(first.pd.reg_mr(message), 0, sent, signaled=False)
    try:
        run_slice(server, slice_ns=1_000_000)
    except DataError as error:
        return {"text": str(error), "received": server.received}
    return {"text": "", "received": server.received}


@pytest.mark.parametrize(
    ("kind", "size", "at"),
    [("STAMP", size, at) for size in (1, 2, 7, 8, 9, 15, 16, 17, 64) for at in {0 if size > 15 else size - 1, size - 1}]
    + [("WHOLE", size, at) for size in (1, 7, 8, 9, 17, 64) for at in {0, size // 2, size - 1}],
)
def test_a_byte_changed_on_the_way_is_noticed(null: Null, kind: str, size: int, at: int) -> None:
    came = null.run(changed, kind, size, at, None)
    assert f"RC queue pair 0x42 on null0: message 0 arrived with wrong bytes, or with {size} of" in came["text"]
    assert came["received"] == 0


def test_a_byte_in_the_middle_is_noticed_where_every_byte_is_compared(null: Null) -> None:
    assert null.run(changed, "STAMP", 64, 30, None) == {"text": "", "received": 1}
    assert null.run(changed, "WHOLE", 64, 30, None)["received"] == 0


def test_another_length_is_noticed(null: Null) -> None:
    came = null.run(changed, "STAMP", 64, 30, 63)
    assert came["text"].endswith("or with 63 of 64")


def stale() -> list[Any]:
    """The same message twice: each has a number, and the second time it is the wrong one."""
    ends = two_ends(64, 50, max_recv_wr=1)
    overlapping = ends[0]
    assert finish([*ends])
    message = bytes(overlapping.uses[2].buffer)
    first, second = connected(size=64)
    server = PingPongEnd(second.qp, second.mr, second.pd.alloc_mr(64), size=64, iterations=9, initiator=False)
    server.post_receives()
    first.qp.post_send(first.pd.reg_mr(bytearray(message)), signaled=False)
    return [type(error_of(run_slice, server)).__name__]


def test_a_message_of_another_time_is_noticed(null: Null) -> None:
    assert null.run(stale) == ["DataError"]


# ---------------------------------------------------------------------- shapes


@pytest.mark.parametrize("rx_depth", [1, 2, 3, 16, 500, None])
@pytest.mark.parametrize("events", [False, True], ids=["spin", "events"])
def test_any_depth_will_do(null: Null, rx_depth: int | None, events: bool) -> None:
    assert null.run(depth, rx_depth, events) == [True, 100, 100]


def depth(rx_depth: int | None, events: bool) -> list[Any]:
    ends = two_ends(rx_depth=rx_depth, events=events)
    return [finish(ends), *(end.received for end in ends)]


def never_more_than_needed() -> list[int]:
    ends = two_ends(iterations=3, max_recv_wr=16)
    assert finish(ends)
    ends[0].qp.pd.context.close()
    (closed,) = calls("ibv_close_device")
    return [closed["sends"], closed["receives"], closed["lost"]]


def test_no_more_is_posted_than_the_run_uses(null: Null) -> None:
    assert null.run(never_more_than_needed) == [6, 6, 0]


def events_are_acknowledged() -> None:
    ends = two_ends(events=True)
    assert finish(ends)
    ends[0].qp.pd.context.close()


def test_the_loops_events_are_acknowledged(null: Null) -> None:
    null.run(events_are_acknowledged)
    assert [call["unacknowledged"] for call in null.calls("ibv_destroy_cq")] == [0, 0]


def one_end_with_a_channel() -> list[Any]:
    """One end sleeps, the other spins: together they spin."""
    first = side(events=True)
    second = side(first.context)
    ends = [first.qp.endpoint(psn=1), second.qp.endpoint(psn=2)]
    first.qp.connect(*ends)
    second.qp.connect(*reversed(ends))
    answers = []
    for order in ((first, second), (second, first)):
        loops = [
            PingPongEnd(one.qp, one.mr, one.pd.alloc_mr(64), size=64, iterations=9, initiator=one is first)
            for one in order
        ]
        for loop in loops:
            loop.post_receives()
        answers.append(finish(loops))
    stub(DROP=1)  # with nothing to do they would sleep, if both could
    idle = [
        PingPongEnd(one.qp, one.mr, one.pd.alloc_mr(64), size=64, iterations=9, initiator=one is first)
        for one in (first, second)
    ]
    return [*answers, run_slice(*idle)]


def test_one_end_may_have_a_channel_and_the_other_none(null: Null) -> None:
    assert null.run(one_end_with_a_channel) == [True, True, False]


def two_threads(events: bool) -> list[Any]:
    """Each end in a thread of its own, as two processes would run it."""
    ends = two_ends(iterations=100, events=events)  # two that spin on one processor take a time slice a message
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda end=end: answers.append(finish([end]))) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers, [end.received for end in ends]]


@pytest.mark.parametrize("events", [False, True], ids=["spin", "events"])
def test_each_end_runs_in_a_thread_of_its_own(null: Null, events: bool) -> None:
    assert null.run(two_threads, events) == [[True, True], [100, 100]]


def impossible() -> dict[str, str]:
    first, _ = connected(size=64)
    other_cq = first.context.create_cq(64)
    two_queues = first.pd.create_qp(first.cq, other_cq)
    one_queue = first.pd.create_qp(first.cq)
    small, mr = first.pd.alloc_mr(63), first.mr
    good = {"size": 64, "iterations": 9, "initiator": True}

    def end(qp: Any = first.qp, send: Any = mr, recv: Any = mr, **changes: Any) -> PingPongEnd:
        return PingPongEnd(qp, send, recv, **(good | changes))

    uses = {
        "send region too small": lambda: end(send=small), "receive region too small": lambda: end(recv=small),
        "size 0": lambda: end(size=0), "size -1": lambda: end(size=-1), "iterations 0": lambda: end(iterations=0),
        "iterations -1": lambda: end(iterations=-1), "rx_depth 0": lambda: end(rx_depth=0),
        "rx_depth -1": lambda: end(rx_depth=-1), "two queues": lambda: end(two_queues),
        "one queue for both": lambda: run_slice(end(), end(one_queue)),
    }  # fmt: skip
    return {name: f"{type(error_of(use)).__name__}: {error_of(use)}" for name, use in uses.items()}


def test_what_cannot_be_is_an_error_before_it_runs(null: Null) -> None:
    answers = null.run(impossible)
    assert {name for name, answer in answers.items() if not answer.startswith("ValueError: ")} == set()
    assert answers["send region too small"] == "ValueError: size: 64 bytes do not fit the send region of 63 bytes"
    assert answers["receive region too small"] == "ValueError: size: 64 bytes do not fit the receive region of 63 bytes"
    assert answers["size 0"] == answers["iterations 0"].replace("64 and 0", "0 and 9")


# ---------------------------------------------------------------------- no progress, and failures


def nothing_arrives(events: bool, slice_ms: int) -> list[Any]:
    ends = two_ends(events=events)
    stub(DROP=1)
    took = []
    for _ in range(3):
        start = time.monotonic()
        assert run_slice(*ends, slice_ns=slice_ms * 1_000_000) is False
        took.append(time.monotonic() - start)
    return [min(took), sorted(took)[1], *(end.received for end in ends)]


@pytest.mark.parametrize("slice_ms", [1, 50])
@pytest.mark.parametrize("events", [False, True], ids=["spin", "events"])
def test_a_slice_ends_though_nothing_arrives(null: Null, events: bool, slice_ms: int) -> None:
    least, usual, *received = null.run(nothing_arrives, events, slice_ms)
    assert slice_ms / 1000 <= least
    assert usual < slice_ms / 1000 + 2
    assert received == [0, 0]


def goes_on() -> list[Any]:
    """A slice is short, and the next goes on where it ended."""
    ends = two_ends(iterations=20_000)
    slices, seen = 0, [0]
    while not run_slice(*ends, slice_ns=200_000):
        slices += 1
        seen.append(ends[0].received)
    times = ends[0].latencies_ns
    return [slices > 3, seen == sorted(seen), ends[0].received, len(times), min(times) > 0]


def test_a_run_is_made_of_slices(null: Null) -> None:
    assert null.run(goes_on) == [True, True, 20_000, 20_000, True]


def failed_send(status: str) -> dict[str, Any]:
    ends = two_ends()
    stub(WC_STATUS=status)
    error = error_of(run_slice, *ends)
    return said(error) | {
        "status": error.status_name, "peer": error.peer, "qp_num": error.qp_num == ends[0].qp.qp_num,
        "state": ends[0].qp.state.name,
    }  # fmt: skip


@pytest.mark.parametrize("status", ["RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR", "REM_INV_REQ_ERR"])
def test_a_send_that_fails_names_status_queue_pair_and_peer(null: Null, status: str) -> None:
    came = null.run(failed_send, status)
    assert (came["type"], came["status"], came["peer"], came["qp_num"]) == ("CompletionError", status, "peer 0", True)
    assert came["text"].splitlines()[0].startswith(
        f"queue pair 0x41 (peer peer 0): work request 0x2 completed with {status} ("
    )
    assert came["text"].endswith("after 0 of 100 messages")
    assert came["state"] == "ERR"


def failed_verb(verb: str, number: int, events: bool) -> dict[str, Any]:
    ends = two_ends(events=events, rx_depth=1)
    if verb in ("REQ_NOTIFY_CQ", "GET_CQ_EVENT"):
        stub(DROP=1)
    stub(**{f"{verb}_ERRNO": number})
    error = error_of(finish, ends)
    return said(error) | {"verb": getattr(error, "verb", None)}


@pytest.mark.parametrize(
    ("verb", "number", "errno", "name", "events"),
    [
        ("POST_SEND", 12, 12, "ibv_post_send", False),
        ("POST_SEND", -12, 12, "ibv_post_send", False),
        ("POST_RECV", 22, 22, "ibv_post_recv", False),
        ("POST_RECV", -22, 22, "ibv_post_recv", False),
        ("POLL_CQ", -1, 5, "ibv_poll_cq", False),
        ("POLL_CQ", -9, 9, "ibv_poll_cq", False),
        ("REQ_NOTIFY_CQ", 9, 9, "ibv_req_notify_cq", True),
        ("REQ_NOTIFY_CQ", -9, 9, "ibv_req_notify_cq", True),
        ("GET_CQ_EVENT", 9, 9, "ibv_get_cq_event", True),
    ],
)
def test_a_verb_that_fails_is_named(
    null: Null, verb: str, number: int, errno: int, name: str, events: bool
) -> None:
    came = null.run(failed_verb, verb, number, events)
    assert (came["type"], came["errno"], came["verb"]) == ("VerbsError", errno, name)
    assert came["text"].startswith("RC queue pair 0x4")


def first_post_fails() -> dict[str, Any]:
    first, _ = connected()
    end = PingPongEnd(first.qp, first.mr, first.mr, size=64, iterations=9, initiator=True)
    stub(POST_RECV_ERRNO=-12)
    return said(error_of(end.post_receives))


def test_receives_that_cannot_be_posted(null: Null) -> None:
    came = null.run(first_post_fails)
    assert (came["type"], came["errno"]) == ("VerbsError", 12)
    assert "ibv_post_recv failed" in came["text"]


def closed_parts(name: str) -> str:
    first, _ = connected()
    into = first.pd.alloc_mr(64)
    end = PingPongEnd(first.qp, first.mr, into, size=64, iterations=9, initiator=True)
    {"qp": first.qp, "send": first.mr, "recv": into, "cq": first.cq, "context": first.context}[name].close()
    made = error_of(PingPongEnd, first.qp, first.mr, into, size=64, iterations=9, initiator=True)
    errors = {type(error).__name__ for error in (error_of(run_slice, end), error_of(end.post_receives), made)}
    return ", ".join(sorted(errors))


@pytest.mark.parametrize("name", ["qp", "send", "recv", "cq", "context"])
def test_a_loop_of_which_a_part_is_closed_does_not_run(null: Null, name: str) -> None:
    assert null.run(closed_parts, name) == "ClosedError"


def inline() -> list[Any]:
    ends = two_ends(64, 10, max_inline_data=64)
    return [finish(ends), bool(ends[0].raw.send_flags & 8)]


def test_small_messages_go_inline_where_the_queue_pair_can(null: Null) -> None:
    assert null.run(inline) == [True, True]
