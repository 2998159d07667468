"""Chains and records on the null device: what is posted, counted, waited for, and by whom it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from null_side import Side, calls, connected, error_of, rdmaqp, said, stub

from rdmaqp import Completions, Recv, RecvRecords, RemoteMemory, Send, SendRecords, Write

if TYPE_CHECKING:
    from conftest import Null

PATIENCE = 20
REMOTE = RemoteMemory(0x1000, 64, 7)


def lone(**options: Any) -> Side:
    """Whose sends go nowhere, and complete."""
    one, _ = connected(**options)
    stub(DROP=1)
    return one


def sends() -> int:
    for context in list(rdmaqp.verbs.device._open_contexts.values()):
        context.close()
    return sum(call["sends"] for call in calls("ibv_close_device"))


def run_often() -> list[Any]:
    one = lone(max_send_wr=8)
    chain = one.qp.chain(*(Send(one.mr[0:8], wr_id=at, signaled=at % 2 == 1) for at in range(8)))
    one.qp.send(one.mr, wr_id=99)
    ran = []
    for _ in range(3):
        try:
            chain.run(timeout=PATIENCE)
        except rdmaqp.GuardError as error:  # the queue holds the one before it
            ran.append(str(said(error)["errors"]))
            one.cq.poll()
    kept = [wc.wr_id for wc in one.cq.poll()]
    return [ran, kept, one.qp.outstanding, len(chain), chain[1].wr_id, sends()]


def test_a_chain_runs_again_and_again(null: Null) -> None:
    assert null.run(run_often) == [["[['post-full', 'queue']]"], [], 0, 8, 1, 17]


def others_are_kept() -> list[Any]:
    one = lone(max_send_wr=128)
    for at in range(70):  # more than are kept without more memory, and more than one poll brings
        one.qp.send(one.mr, wr_id=1000 + at)
    one.qp.chain(Send(one.mr, wr_id=1)).run(timeout=PATIENCE)
    into = Completions(50)
    first = [wc.wr_id for wc in one.cq.poll(10)]
    one.cq.poll_into(into)
    rest = [wc.wr_id for wc in into] + [wc.wr_id for wc in one.cq.wait(64, timeout=PATIENCE)]
    return [first + rest == list(range(1000, 1070)), one.cq.poll(), one.qp.outstanding]


def test_completions_of_other_work_are_kept_in_order_for_whoever_asks_next(null: Null) -> None:
    assert null.run(others_are_kept) == [True, [], 0]


def taken_by_others() -> list[Any]:
    """A run that has reached its deadline, and whose completions another call polls: the next run does not wait."""
    first, second = connected()
    chain = first.qp.chain(Send(first.mr), Send(first.mr))
    native_run = rdmaqp.verbs.chain.native().lib
    assert native_run.rdmaqp_post_chain(chain.raw) == 0
    chain.raw.running, chain.raw.resets = 1, first.qp.raw.resets  # as at its deadline
    replaced = said(error_of(chain.__setitem__, 0, Send(first.mr)))
    polled = len(first.cq.poll())
    chain.run(timeout=PATIENCE)
    chain.run(timeout=PATIENCE)
    assert second
    return [replaced["type"], replaced["text"], polled, sends()]


def test_a_run_does_not_wait_for_what_another_call_has_polled(null: Null) -> None:
    kind, text, polled, count = null.run(taken_by_others)
    assert (kind, text) == ("ValueError", "the chain is under way: run() it to its end first")
    assert (polled, count) == (2, 4)


def reset_meanwhile() -> list[Any]:
    """RESET takes what was under way: the next run posts the chain anew, and does not wait for ever."""
    first, second = connected()
    stub(DROP=1)
    chain = first.qp.chain(Send(first.mr, wr_id=5))
    assert rdmaqp.verbs.chain.native().lib.rdmaqp_post_chain(chain.raw) == 0
    chain.raw.running, chain.raw.resets = 1, first.qp.raw.resets  # as at its deadline
    first.cq.poll()
    first.qp.reset()
    first.qp.connect(first.qp.endpoint(psn=1), second.qp.endpoint(psn=1))
    chain[0] = Send(first.mr, wr_id=6)
    chain.run(timeout=PATIENCE)
    return [first.qp.outstanding, sends()]


def test_a_reset_ends_a_run(null: Null) -> None:
    assert null.run(reset_meanwhile) == [0, 2]


def failing() -> list[Any]:
    one = lone()
    chain = one.qp.chain(*(Send(one.mr, wr_id=10 + at, signaled=at == 3) for at in range(4)))
    chain.run(timeout=PATIENCE)
    stub(WC_STATUS="REM_ACCESS_ERR")
    error = error_of(chain.run, timeout=PATIENCE)
    left = [(wc.wr_id, wc.status_name) for wc in one.cq.poll()]
    return [said(error)["type"], "It was request 0 of 4." in str(error), getattr(error, "wr_id", None), left]


def test_a_run_names_the_first_that_failed(null: Null) -> None:
    """Each fails here, where real hardware flushes what is behind the first."""
    left = [[10 + at, "REM_ACCESS_ERR"] for at in range(1, 4)]
    assert null.run(failing) == ["CompletionError", True, 10, left]


def not_to_be_run() -> list[Any]:
    one = lone()
    chains = [one.qp.chain(Recv(one.mr)), one.qp.chain(Send(one.mr), Send(one.mr, signaled=False))]
    return [said(error_of(chain.run))["text"] for chain in chains] + [sends()]


def test_a_run_needs_an_end_that_is_told(null: Null) -> None:
    text = "the chain's last request is no signaled send: nobody would know its end"
    assert null.run(not_to_be_run) == [text, text, 0]


def queues(kind: str) -> list[Any]:
    import numpy as np

    first, second = connected(max_send_wr=200, max_recv_wr=200, size=256)
    first.mr.buffer[:] = bytes(range(256))
    n = 150  # three handfuls
    records: Any = SendRecords(n)
    array = records.array
    array["addr"], array["length"], array["lkey"] = first.mr.addr + np.arange(n), 1, first.mr.lkey
    array["opcode"], array["wr_id"], array["imm_data"] = 3, np.arange(n, dtype="u8") + np.uint64(2**63), np.arange(n)
    array["send_flags"] = np.where(np.arange(n) % 50 == 49, 2, 0)
    incoming: Any = RecvRecords(n)
    incoming.array["addr"], incoming.array["length"] = second.mr.addr + np.arange(n), 1
    incoming.array["lkey"], incoming.array["wr_id"] = second.mr.lkey, np.arange(n)
    if kind == "bytes":
        records, incoming = bytearray(array.tobytes()), memoryview(incoming.array.tobytes())
    elif kind == "numpy":
        records, incoming = array.copy(), incoming.array.copy()
    second.qp.post_recvs(incoming)
    first.qp.post_sends(records)
    came, done = Completions(n), Completions(n)
    return [
        first.cq.poll_into(done), second.cq.poll_into(came), done.array["wr_id"][:3].tolist(),
        came.array["wr_id"].tolist() == list(range(n)), came.array["imm_data"].tolist() == list(range(n)),
        bytes(second.mr.buffer[:n]) == bytes(range(n)), bytes(second.mr.buffer[n:]) == bytes(256 - n),
        first.qp.outstanding, second.qp.recv_posted,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["rdmaqp", "numpy", "bytes"])
def test_records_are_what_is_posted_whoever_made_them(null: Null, kind: str) -> None:
    assert null.run(queues, kind) == [
        3, 150, [2**63 + 49, 2**63 + 99, 2**63 + 149], True, True, True, True, 0, 0,
    ]  # fmt: skip


def part_of_them() -> list[Any]:
    one = lone()
    records = SendRecords(4)
    for at in range(4):
        records[at] = Write(one.mr[0:8], REMOTE, wr_id=at)
    one.qp.post_sends(records, 0)
    one.qp.post_sends(records, 3)
    records[-1] = Send(one.mr[0:1], wr_id=7)
    one.qp.post_sends(records.array[3:])
    return [[wc.wr_id for wc in one.cq.poll()], sends()]


def test_a_part_of_the_records_can_be_posted(null: Null) -> None:
    assert null.run(part_of_them) == [[0, 1, 2, 7], 4]
