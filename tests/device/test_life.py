"""The life of a connection on a real kernel: reap, drain, pause, events, history."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from pathlib import Path

import pytest

import rdmaqp
from device.rc_ends import End
from forked import Forked
from rdmaqp import QPState, Send


def test_a_wrong_rkey_is_the_cause_and_everything_behind_it_comes_back(ends: tuple[End, End]) -> None:
    here, there = ends
    there.qp.post(*(rdmaqp.Recv(there.mr[64 * at : 64 * at + 64], wr_id=0x100 + at) for at in range(8)))
    here.qp.post(rdmaqp.Recv(here.mr[0:64], wr_id=0x200), rdmaqp.Recv(here.mr[64:128], wr_id=0x201))
    here.qp.send(here.mr[0:64], wr_id=1)
    there.received()
    wrong = rdmaqp.RemoteMemory(there.mr.addr, 64, there.mr.rkey ^ 0xFFFF00)
    here.qp.post(
        Send(here.mr[64:128], wr_id=2, signaled=False), rdmaqp.Write(here.mr[0:64], wrong, wr_id=3),
        Send(here.mr[0:64], wr_id=4), Send(here.mr[0:64], wr_id=5, signaled=False),
    )  # fmt: skip
    there.received()  # so the one before it has arrived
    while here.qp.state is not QPState.ERR:
        pass
    reaped = here.qp.reap(timeout=20)
    print(reaped)
    assert reaped.cause is not None
    assert (reaped.cause.wr_id, reaped.cause.status_name) == (3, "REM_ACCESS_ERR")
    assert [wc.wr_id for wc in reaped.completions] == [1]
    assert [one.wr_id for one in reaped.sends] == [3, 4, 5]
    assert reaped.unknown == ()
    assert [one.wr_id for one in reaped.receives] == [0x200, 0x201]
    other = there.qp.reap(timeout=20)
    print(other)
    assert [one.wr_id for one in other.receives] == [0x102 + at for at in range(6)]


def pair_of_ends(context: rdmaqp.Context, depth: int, **options: int) -> tuple[End, End]:
    """Two connected ends with room for *depth* requests; *options* are those of the bring-up."""
    pd = context.alloc_pd()
    made = []
    for _ in range(2):
        send_cq, recv_cq = context.create_cq(depth + 16), context.create_cq(depth + 16)
        qp = pd.create_qp(send_cq, recv_cq, max_send_wr=depth, max_recv_wr=depth)
        made.append(End(qp, send_cq, recv_cq, pd.alloc_mr(4096, rdmaqp.AccessFlag.LOCAL_WRITE)))
    here, there = made
    records = [here.qp.endpoint(psn=0x333), there.qp.endpoint(psn=0x444)]
    here.qp.connect(*records, **options)
    there.qp.connect(*reversed(records), **options)
    return here, there


IN_FLIGHT = 1000


def test_a_thousand_in_flight_are_drained_also_where_few_of_them_tell(context: rdmaqp.Context) -> None:
    here, there = pair_of_ends(context, IN_FLIGHT + 8)
    there.qp.post(*(rdmaqp.Recv(there.mr[0:8]) for _ in range(IN_FLIGHT)))
    work = [Send(here.mr[0:8], wr_id=at, signaled=at % 100 == 50) for at in range(IN_FLIGHT)]
    here.qp.post(*work)
    drained = here.qp.drain(timeout=60)
    assert [wc.wr_id for wc in drained.completions] == list(range(50, IN_FLIGHT, 100))
    assert (drained.cause, drained.sends, here.qp.outstanding) == (None, (), 0)
    assert here.qp.state is QPState.RTS
    assert len(there.received(IN_FLIGHT)) == IN_FLIGHT
    here.qp.drain(timeout=0)  # at rest


def test_a_slow_peer_is_waited_for_and_the_deadline_names_what_is_missing(context: rdmaqp.Context) -> None:
    here, there = pair_of_ends(context, 32, rnr_retry=7, min_rnr_timer=1)
    for at in range(20):
        here.qp.send(here.mr[0:8], wr_id=at)
    with pytest.raises(rdmaqp.UnaccountedError, match="20 requests are unaccounted for: send 0x0, send 0x1") as caught:
        here.qp.drain(timeout=0.3)
    assert [one.wr_id for one in caught.value.unaccounted] == list(range(20))
    slowly = threading.Thread(target=receive_slowly, args=(there, 20))
    slowly.start()
    drained = here.qp.drain(timeout=60)
    slowly.join()
    assert [wc.wr_id for wc in drained.completions] == list(range(20))
    there.received(20)


def receive_slowly(there: End, n: int) -> None:
    for _ in range(n):
        time.sleep(0.02)
        there.qp.recv(there.mr[0:8])


def test_a_dead_peer_leaves_everything_unknown_and_it_is_posted_again(context: rdmaqp.Context) -> None:
    here, there = pair_of_ends(context, 32, rnr_retry=7, timeout=8, retry_cnt=1)
    here.qp.keep_work()
    there.qp.post(*(rdmaqp.Recv(there.mr[0:8]) for _ in range(4)))
    here.qp.post(rdmaqp.Recv(here.mr[0:8], wr_id=77))
    for at in range(4):
        here.mr.buffer[8 * at : 8 * at + 8] = bytes([at] * 8)
        here.qp.send(here.mr[8 * at : 8 * at + 8], wr_id=at, signaled=at % 2 == 1)
    assert [wc.wr_id for wc in here.qp.drain(timeout=30).completions] == [1, 3]
    there.received(4)
    there.qp.reset()
    work = [Send(here.mr[8 * at : 8 * at + 8], wr_id=at, signaled=at == 2) for at in range(4)]
    here.qp.post(*work)
    drained = here.qp.drain(timeout=1, flush=True)
    assert drained.cause is None or drained.cause.status_name == "RETRY_EXC_ERR"
    assert [one.work for one in drained.sends] == [one.work for one in drained.unknown] == work
    again = here.qp.reap(timeout=30)
    assert [one.work for one in again.sends] == work
    assert [one.wr_id for one in (*drained.receives, *again.receives)] == [77]
    here.qp.reset()
    records = [here.qp.endpoint(psn=0x777), there.qp.endpoint(psn=0x888)]
    there.qp.connect(*reversed(records))
    here.qp.connect(*records)
    there.qp.post(*(rdmaqp.Recv(there.mr[8 * at : 8 * at + 8], wr_id=at) for at in range(4)))
    here.qp.post(*(one.work for one in again.unknown))
    assert len(here.qp.drain(timeout=30).completions) == 1
    there.received(4)
    assert bytes(there.mr.buffer[:32]) == bytes(at for at in range(4) for _ in range(8))


def test_an_empty_receive_queue_is_a_cause_that_leaves_the_send_unknown(context: rdmaqp.Context) -> None:
    here, there = pair_of_ends(context, 32, rnr_retry=1, min_rnr_timer=1)
    here.qp.send(here.mr[0:8], wr_id=1)
    here.qp.send(here.mr[0:8], wr_id=2)
    drained = here.qp.drain(timeout=30)
    assert drained.cause is not None
    assert (drained.cause.status_name, drained.cause.wr_id) == ("RNR_RETRY_EXC_ERR", 1)
    assert [one.wr_id for one in drained.unknown] == [1, 2]
    assert here.qp.cause == drained.cause
    there.qp.close()


def test_work_posted_in_a_pause_is_held_and_then_runs(context: rdmaqp.Context) -> None:
    here, there = pair_of_ends(context, 32)
    there.qp.post(*(rdmaqp.Recv(there.mr[0:8], wr_id=at) for at in range(32)))
    here.qp.send(here.mr[0:8], wr_id=1)
    with here.qp.paused(timeout=30) as paused:
        assert (paused.state, paused.sq_draining) == (QPState.SQD, 0)
        here.sent(1)
        here.qp.modify(qp_state="SQD", timeout=10, retry_cnt=5)
        here.qp.send(here.mr[0:8], wr_id=2)
        time.sleep(0.3)
        assert here.send_cq.poll() == []
    assert [wc.wr_id for wc in here.sent(1)] == [2]
    there.received(2)
    with pytest.raises(KeyError), here.qp.paused(timeout=30):
        raise KeyError
    assert here.qp.state is QPState.RTS
    kernel = tuple(int(part) for part in platform.release().split(".")[:2])
    for _ in range(here.qp.cap.max_send_wr - 1):  # its queue has been gone round once
        here.qp.send(here.mr[0:8])
        here.qp.drain(timeout=30)
        there.qp.recv(there.mr[0:8])
    if kernel < (6, 2):
        with here.qp.paused(timeout=30):
            pass
    else:
        with pytest.raises(ValueError, match="may never finish draining"), here.qp.paused():
            pass
    assert here.qp.state is QPState.RTS


def test_the_history_is_replayed_by_check(ends: tuple[End, End], tmp_path: Path) -> None:
    here, _ = ends
    assert [(one.start.name, one.goal.name, one.result) for one in here.qp.history] == [
        ("RESET", "INIT", "taken"), ("INIT", "RTR", "taken"), ("RTR", "RTS", "taken"),
    ]  # fmt: skip
    lines: list[str] = []
    file = tmp_path / "calls.jsonl"
    with rdmaqp.trace(lines.append), rdmaqp.trace(file):
        with pytest.raises(rdmaqp.GuardError):
            here.qp.modify(qp_state="RTR")
        with pytest.raises(rdmaqp.VerbsError):
            here.qp.modify(qp_state="INIT", port_num=1, pkey_index=0, qp_access_flags=0, policy="off")
        here.qp.modify(qp_state="RTS", min_rnr_timer=3)
        here.qp.error()
    here.qp.reset()
    assert file.read_text().splitlines() == lines
    assert [one.result for one in here.qp.history[3:]] == ["refused", "failed", "taken", "taken", "taken"]
    assert [one.errno for one in here.qp.history[3:]] == [None, 22, None, None, None]
    assert all(one.duration_ns > 0 for one in here.qp.history)
    process = Forked(["check", str(file), "--json"])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err  # something is refused
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["verdict"] for answer in answers] == ["refuse", "refuse", "pass", "pass"]
    assert all(one["id"].startswith("RC queue pair 0x") for one in answers)
    assert "RTS → RTR refused" in answers[0]["id"]
    assert {finding["rule"] for finding in answers[0]["findings"]} >= {"transition-illegal"}
    assert answers[1]["causes"]


def test_a_device_is_dead_in_a_forked_child_and_lives_on_in_the_parent(ends: tuple[End, End]) -> None:
    here, there = ends
    there.qp.recv(there.mr[0:8])
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        said = []
        for use in (lambda: here.qp.send(here.mr[0:8]), here.send_cq.poll, lambda: here.qp.state, here.qp.close):
            try:
                said.append(str(use()))
            except BaseException as error:
                said.append(f"{type(error).__name__}: {error}")
        try:
            with rdmaqp.open(here.qp.pd.context.name) as again:
                said.append(str(again.port(1).query().state.name))
        except BaseException as error:
            said.append(repr(error))
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        sent, polled, state, closed, again = json.loads(file.read())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert all(text.startswith("ClosedError: ") and "forked" in text for text in (sent, polled, state))
    assert (closed, again) == ("None", "ACTIVE")
    here.qp.send(here.mr[0:8])
    here.sent()
    there.received()
