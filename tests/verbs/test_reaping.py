"""Reaping and draining: everything that was posted comes out, once, and is told apart."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_side import Side, calls, connected, error_of, rdmaqp, ready, said, side, stub

from rdmaqp import QPState, Recv, Send

if TYPE_CHECKING:
    from conftest import Null


def ids(those: Any) -> list[int]:
    return [one.wr_id for one in those]


def told_apart() -> dict[str, Any]:
    first, second = connected()
    stub(FLUSH=1)
    second.qp.recv(second.mr)
    for at in range(3):
        first.qp.recv(first.mr[8 * at : 8 * at + 8], wr_id=0x100 + at)
    first.qp.send(first.mr[0:8], wr_id=1)
    stub(HOLD=1)
    for at in range(2, 7):
        first.qp.send(first.mr[0:8], wr_id=at, signaled=at % 2 == 0)
    reaped = first.qp.reap(5)
    again = first.qp.reap(5)
    return {
        "good": ids(reaped.completions), "cause": reaped.cause is None, "sends": ids(reaped.sends),
        "unknown": ids(reaped.unknown), "receives": ids(reaped.receives), "state": first.qp.state.name,
        "statuses": sorted({one.completion.status_name for one in (*reaped.sends, *reaped.receives)}),
        "again": [ids(again.completions), ids(again.sends), ids(again.receives)],
        "left": [first.qp.outstanding, first.qp.recv_posted, len(first.cq.poll()), len(second.cq.poll())],
        "numbers": [one.number for one in reaped.sends], "text": str(reaped),
    }  # fmt: skip


def test_everything_posted_comes_out_and_is_told_apart(null: Null) -> None:
    came = null.run(told_apart)
    assert came["good"] == [1]
    assert came["cause"]
    assert came["sends"] == came["unknown"] == [2, 3, 4, 5, 6]
    assert came["receives"] == [0x100, 0x101, 0x102]
    assert came["statuses"] == ["WR_FLUSH_ERR"]
    assert came["state"] == "ERR"
    assert came["again"] == [[], [2, 3, 4, 5, 6], []]
    assert came["left"] == [0, 0, 0, 1]
    assert came["numbers"] == [1, 2, 3, 4, 5]
    assert came["text"] == "1 succeeded, 5 sends did not (5 unknown), 3 receives flushed; no cause"


def cause_of(status: str) -> dict[str, Any]:
    """A send that fails, after one that nobody has acknowledged, with one more behind it; its completion is polled."""
    one = ready("RTS")
    stub(FLUSH=1)
    one.qp.send(one.mr, wr_id=1, signaled=False)
    stub(WC_STATUS=status)
    one.qp.send(one.mr, wr_id=2)
    stub(WC_STATUS=None)
    polled = ids(one.cq.poll())
    with rdmaqp.policy(ignore="post-flushes"):
        one.qp.send(one.mr, wr_id=3)
    reaped = one.qp.reap(5)
    assert reaped.cause is not None
    return {
        "polled": polled, "cause": [reaped.cause.wr_id, reaped.cause.status_name],
        "sends": ids(reaped.sends), "unknown": ids(reaped.unknown),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "unknown"),
    [("RETRY_EXC_ERR", [2, 3]), ("RNR_RETRY_EXC_ERR", [2, 3]), ("REM_OP_ERR", [2, 3]), ("REM_ACCESS_ERR", []),
     ("LOC_PROT_ERR", [])],
)  # fmt: skip
def test_the_cause_is_kept_though_it_was_polled_and_says_what_is_unknown(
    null: Null, status: str, unknown: list[int]
) -> None:
    came = null.run(cause_of, status)
    assert came["polled"] == [2]
    assert came["cause"] == [2, status]
    assert came["sends"] == [2, 3]
    assert came["unknown"] == unknown


def of_others() -> dict[str, Any]:
    """Four queue pairs on one completion queue."""
    first, second = connected()
    others = [side(first.context) for _ in range(2)]
    mine = [first.pd.create_qp(first.cq) for _ in range(3)]
    for qp in mine:
        here = qp.endpoint(psn=1)
        qp.connect(here, here)
    stub(FLUSH=1, DROP=1)
    for turn in range(8):
        for at, qp in enumerate((first.qp, *mine)):
            qp.send(first.mr, wr_id=0x10 * at + turn)
    reaped = mine[0].reap(5)
    drained = mine[1].drain(5)
    rest = [wc for _ in range(3) for wc in first.cq.poll(64)]
    del second, others
    return {
        "reaped": ids(reaped.completions), "drained": ids(drained.completions),
        "rest": [sum(wc.qp_num == qp.qp_num for wc in rest) for qp in (first.qp, *mine)],
        "order": [ids(wc for wc in rest if wc.qp_num == qp.qp_num) for qp in (first.qp, mine[2])],
    }  # fmt: skip


def test_completions_of_other_queue_pairs_are_kept_for_whoever_polls(null: Null) -> None:
    came = null.run(of_others)
    assert came["reaped"] == [0x10 + at for at in range(8)]
    assert came["drained"] == [0x20 + at for at in range(8)]
    assert came["rest"] == [8, 0, 0, 8]
    assert came["order"] == [list(range(8)), [0x30 + at for at in range(8)]]


def deadline() -> dict[str, Any]:
    one = ready("RTS")
    stub(HIDE=1)
    for at in range(3):
        one.qp.send(one.mr, wr_id=at)
    late = error_of(one.qp.drain, 0.05)
    stub(HIDE=None)
    after = one.qp.drain(5)
    stub(HOLD=1, FLUSH=1)
    one.qp.recv(one.mr, wr_id=9)
    one.qp.send(one.mr, wr_id=7)
    flushed = one.qp.drain(0.05, flush=True)
    assert isinstance(late, rdmaqp.UnaccountedError)
    return {
        "late": said(late), "missing": ids(late.unaccounted), "after": ids(after.completions),
        "flushed": [ids(flushed.sends), ids(flushed.receives), one.qp.state.name],
    }  # fmt: skip


def test_the_deadline_names_what_is_missing_and_err_can_account_for_it(null: Null) -> None:
    came = null.run(deadline)
    assert came["late"]["type"] == "UnaccountedError"
    assert "3 requests are unaccounted for: send 0x0, send 0x1, send 0x2" in came["late"]["text"]
    assert "not every send completed within 0.05 s" in came["late"]["text"]
    assert came["missing"] == came["after"] == [0, 1, 2]
    assert came["flushed"] == [[7], [9], "ERR"]


def unsignaled(windows: bool) -> dict[str, Any]:
    stub(MAX_MW=8 if windows else None, DEVICE_CAP_FLAGS=hex(1 << 23) if windows else None)
    first, second = connected()
    for at in range(3):
        first.qp.send(first.mr, wr_id=at, signaled=False)
    error = error_of(first.qp.drain, 5) if not windows else None
    drained = first.qp.drain(5) if windows else first.qp.drain(5, marker=Send(first.mr[0:1]))
    for at in range(3):
        second.qp.send(second.mr, wr_id=at, signaled=False)
    stub(FLUSH=1)
    reaped = second.qp.reap(5)  # all of them had ended, in silence
    return {
        "error": error and said(error), "completions": ids(drained.completions), "left": first.qp.outstanding,
        "sends": ids(reaped.sends), "calls": [call["call"] for call in calls("ibv_alloc_mw", "ibv_dealloc_mw")],
    }  # fmt: skip


@pytest.mark.parametrize("windows", [True, False])
def test_a_marker_tells_of_the_end_of_sends_that_do_not(null: Null, windows: bool) -> None:
    came = null.run(unsignaled, windows)
    assert (came["completions"], came["left"], came["sends"]) == ([], 0, [])
    if windows:
        assert len(came["calls"]) == 2
    else:
        assert came["error"]["type"] == "ValueError"
        assert "the last send is not signaled" in came["error"]["text"]
        assert "marker" in came["error"]["text"]


def kept() -> dict[str, Any]:
    first, second = connected()
    first.qp.keep_work()
    work = [Send(first.mr[8 * at : 8 * at + 8], wr_id=at) for at in range(4)]
    receives = [Recv(first.mr[8 * at : 8 * at + 8], wr_id=at) for at in range(2)]
    stub(FLUSH=1, HOLD=1)
    first.qp.post(*receives)
    first.qp.post(*work[:2])
    first.qp.chain(work[2]).post()
    first.qp.send(work[3].local, wr_id=3)
    full = error_of(first.qp.post, *(Send(first.mr[0:8]) for _ in range(20)))
    first.qp.post_sends(records(first))
    reaped = first.qp.reap(5)
    same = [one.work is other for one, other in zip(reaped.sends, work, strict=False)]
    stub(HOLD=None)
    first.qp.reset()
    second.qp.reset()
    ends = [first.qp.endpoint(psn=1), second.qp.endpoint(psn=2)]
    first.qp.connect(*ends)
    second.qp.connect(*reversed(ends))
    second.qp.post(*(Recv(second.mr[8 * at : 8 * at + 8], wr_id=at) for at in range(4)))
    first.mr.buffer[:32] = bytes(range(32))
    first.qp.post(*(one.work for one in reaped.sends if one.work))
    return {
        "same": same, "sends": ids(reaped.sends), "receives": [one.work in receives for one in reaped.receives],
        "full": said(full)["type"], "last": reaped.sends[-1].work, "bytes": list(second.mr.buffer[:32]),
    }  # fmt: skip


def records(one: Side) -> rdmaqp.SendRecords:
    made = rdmaqp.SendRecords(1)
    made[0] = Send(one.mr[0:8], wr_id=0x50)
    return made


def test_objects_are_kept_and_can_be_posted_again(null: Null) -> None:
    came = null.run(kept)
    assert came["same"] == [True, True, True, False]  # the fourth is what send() made
    assert came["sends"] == [0, 1, 2, 3, 0x50]
    assert came["receives"] == [True, True]
    assert (came["full"], came["last"]) == ("GuardError", None)
    assert came["bytes"] == list(range(32))


def interrupted(how: str) -> list[Any]:
    import _thread

    one = ready("RTS")
    stub(HIDE=1)
    one.qp.send(one.mr)
    ends = {"ctrl-c": _thread.interrupt_main, "qp": one.qp.close, "cq": one.cq.close, "device": one.context.close}
    threading.Timer(0.2, ends[how]).start()
    start = time.monotonic()
    error = error_of(one.qp.drain, 40)
    return [type(error).__name__, time.monotonic() - start < 30]


@pytest.mark.parametrize(
    ("how", "name"),
    [("ctrl-c", "KeyboardInterrupt"), ("qp", "ClosedError"), ("cq", "ClosedError"), ("device", "ClosedError")],
)
def test_a_signal_and_a_close_in_another_thread_end_a_drain(null: Null, how: str, name: str) -> None:
    assert null.run(interrupted, how) == [name, True]


def nothing_posted() -> list[Any]:
    one = side()
    before = [str(one.qp.reap(1)), one.qp.state.name, str(one.qp.drain(1))]
    one.qp.to_init()
    stub(FLUSH=1)
    one.qp.recv(one.mr, wr_id=5)
    return [*before, ids(one.qp.reap(5).receives), one.qp.state == QPState.ERR, one.qp.cause]


def test_in_reset_nothing_is_done_and_in_init_receives_come_back(null: Null) -> None:
    text = "0 succeeded, 0 sends did not (0 unknown), 0 receives flushed; no cause"
    assert null.run(nothing_posted) == [text, "RESET", text, [5], True, None]


def paused(driver: str | None) -> dict[str, Any]:
    stub(DEVICES=f"{driver}_0" if driver else None)
    one = ready("RTS")
    if driver:
        one.context.__dict__["facts"] = rdmaqp.DeviceFacts(name="null0", driver=driver)
        return {"error": said(error_of(lambda: one.qp.paused().__enter__())), "state": one.qp.state.name}
    with one.qp.paused() as qp:
        states = [qp.state.name]
    states.append(one.qp.state.name)
    inner = error_of(_raise_in, one.qp)
    stub(DRAINING=1)
    late = error_of(lambda: one.qp.paused(0.05).__enter__())
    return {"states": [*states, one.qp.state.name], "inner": type(inner).__name__, "late": said(late)}


def _raise_in(qp: rdmaqp.QueuePair) -> None:
    with qp.paused():
        raise LookupError


def test_a_pause_ends_in_rts_whatever_becomes_of_it(null: Null) -> None:
    came = null.run(paused, None)
    assert came["states"] == ["SQD", "RTS", "RTS"]
    assert came["inner"] == "LookupError"
    assert came["late"]["type"] == "DeadlineError"
    assert "it is back in RTS" in came["late"]["text"]


@pytest.mark.parametrize(
    ("driver", "why"),
    [("mlx5", "no way to SQD"), ("hns", "no way to SQD"), ("irdma", "flushes both queues"), ("siw", "iWARP")],
)
def test_where_sqd_means_something_else_it_is_not_entered(null: Null, driver: str, why: str) -> None:
    came = null.run(paused, driver)
    assert came["error"]["type"] == "ValueError"
    assert why in came["error"]["text"]
    assert came["state"] == "RTS"
