"""Many requests at once: signals, chains, records, columns, asyncio. The data is compared, on both sides."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import rdmaqp
from device.rc_ends import PATIENCE, End, pattern, reap, words_of
from rdmaqp import (
    CompareSwap,
    Completions,
    FetchAdd,
    Read,
    Recv,
    RecvRecords,
    RemoteMemory,
    Send,
    SendRecords,
    WCOpcode,
    WCStatus,
    Write,
)
from rdmaqp.model.acts import WROpcode

# ---------------------------------------------------------------------- signals


def test_unsignaled_sends_end_with_the_next_signaled_one(ends: tuple[End, End]) -> None:
    here, there = ends
    for turn in range(20):  # four times what the queue holds
        last = Write(here.mr[:8], there.mr.remote, wr_id=turn)
        here.qp.post(*(Write(here.mr[:8], there.mr.remote, signaled=False) for _ in range(15)), last)
        assert [wc.wr_id for wc in here.sent()] == [turn]
        assert here.qp.outstanding == 0


def test_solicited_events(ends: tuple[End, End]) -> None:
    here, there = ends
    channel = there.recv_cq.channel
    assert channel is not None
    for _ in range(3):
        there.qp.recv(there.mr)
    there.recv_cq.req_notify(solicited_only=True)
    here.qp.send(here.mr[:8])
    here.sent()
    there.received()
    with pytest.raises(rdmaqp.DeadlineError):
        channel.get_event(timeout=0.3)
    here.qp.send(here.mr[:8], solicited=True)
    assert channel.get_event(timeout=PATIENCE) is there.recv_cq
    there.received()
    there.recv_cq.req_notify()
    here.qp.send(here.mr[:8])
    assert channel.get_event(timeout=PATIENCE) is there.recv_cq
    there.received()
    here.sent(2)


# ---------------------------------------------------------------------- chains, records, columns


def test_a_chain_of_every_kind_posted_and_run_often(ends: tuple[End, End]) -> None:
    here, there = ends
    receives = there.qp.chain(Recv(there.mr[2048:2064]), Recv([there.mr[2064:2068], there.mr[2068:3000]]))
    sends = here.qp.chain(
        Send(here.mr[0:16], signaled=False),
        Write([here.mr[16:20], here.mr[24:28]], there.mr.remote[0:8], signaled=False),
        Read(here.mr[1024:1032], there.mr.remote[0:8]),
        CompareSwap(here.mr[1040:1048], there.mr.remote[3000:3008], 0, 1, signaled=False),
        FetchAdd(here.mr[1048:1056], there.mr.remote[3008:3016], 3),
        Send(b"inline words", inline=True, imm=5),
    )
    words_of(there)[375] = words_of(there)[376] = 0
    for turn in range(12):
        receives.post()
        if turn % 2:
            sends.run(timeout=PATIENCE)
        else:
            sends.post()
            assert [wc.opcode for wc in here.sent(3)] == [WCOpcode.RDMA_READ, WCOpcode.FETCH_ADD, WCOpcode.SEND]
        assert [wc.imm for wc in there.received(2)] == [None, 5]
        assert bytes(here.mr.buffer[1024:1032]) == pattern(1)[16:20] + pattern(1)[24:28]
        assert [int(words_of(here)[at]) for at in (130, 131)] == [min(turn, 1), 3 * turn]
        assert bytes(there.mr.buffer[2064:2076]) == b"inline words"
    assert here.qp.outstanding == there.qp.recv_posted == 0
    there.qp.recv(there.mr[2048:])  # the inline SEND is still in it
    sends[0] = Write(b"other", there.mr.remote[100:105], inline=True)
    sends.run(timeout=PATIENCE)
    assert bytes(there.mr.buffer[100:105]) == b"other"
    there.received()


def test_run_names_the_request_that_failed_and_keeps_what_is_not_its_own(ends: tuple[End, End]) -> None:
    here, there = ends
    here.qp.write(here.mr[:8], there.mr.remote, wr_id=77)
    bad = RemoteMemory(there.mr.addr, 8, there.mr.rkey ^ 0x100)
    chain = here.qp.chain(*(Write(here.mr[:8], bad if at == 2 else there.mr.remote, wr_id=at) for at in range(4)))
    with pytest.raises(rdmaqp.CompletionError, match=r"request 2 of 4") as caught:
        chain.run(timeout=PATIENCE)
    assert (caught.value.status, caught.value.wr_id) == (WCStatus.REM_ACCESS_ERR, 2)
    left = reap(here.send_cq, 2, good=False)
    assert {(wc.wr_id, wc.status) for wc in left} == {(77, WCStatus.SUCCESS), (3, WCStatus.WR_FLUSH_ERR)}


@pytest.mark.parametrize("made_by", ["rdmaqp", "numpy"])
def test_records_of_every_opcode(ends: tuple[End, End], made_by: str) -> None:
    """One array, one call: each opcode that a record carries, with its own fields."""
    here, there = ends
    remote, key = there.mr.addr, there.mr.rkey
    opcodes = [WROpcode.SEND, WROpcode.SEND_WITH_IMM, WROpcode.RDMA_WRITE, WROpcode.RDMA_WRITE_WITH_IMM,
               WROpcode.RDMA_READ, WROpcode.ATOMIC_CMP_AND_SWP, WROpcode.ATOMIC_FETCH_AND_ADD]  # fmt: skip
    n = len(opcodes)
    records = SendRecords(n)
    array = records.array if made_by == "rdmaqp" else np.zeros(n, rdmaqp.SEND_DTYPE)
    array["opcode"], array["wr_id"] = opcodes, np.arange(n) + 2**40
    array["addr"], array["length"], array["lkey"] = here.mr.addr + 8 * np.arange(n), 8, here.mr.lkey
    array["remote_addr"], array["rkey"] = remote + 1024 + 8 * np.arange(n), key
    array["imm_data"], array["send_flags"] = 0xA1B2C3D4, 2
    array["compare_add"], array["swap"] = 11, 22
    words_of(there)[133], words_of(there)[134] = 11, 100
    incoming = RecvRecords(3)
    for at in range(3):
        incoming[at] = Recv(there.mr[at * 8 : at * 8 + 8], wr_id=at)
    there.qp.post_recvs(incoming)
    here.qp.post_sends(records if made_by == "rdmaqp" else array)
    came, done = Completions(8), Completions(n)
    assert here.send_cq.wait_into(done, n, timeout=PATIENCE) == n
    assert there.recv_cq.wait_into(came, 3, timeout=PATIENCE) == 3
    assert done.array["status"].tolist() == [0] * n
    assert done.array["wr_id"].tolist() == array["wr_id"].tolist()
    assert came.array["imm_data"][:3].tolist()[1:] == [0xA1B2C3D4] * 2
    assert [wc.imm for wc in came] == [None, 0xA1B2C3D4, 0xA1B2C3D4]
    ours, theirs = bytes(here.mr.buffer), bytes(there.mr.buffer)
    assert theirs[0:16] == pattern(1)[0:16]
    assert theirs[1040:1056] == pattern(1)[16:32]
    assert ours[32:40] == pattern(2)[1056:1064]
    assert words_of(here)[5:7].tolist() == [11, 100]
    assert words_of(there)[133:135].tolist() == [22, 111]


def test_a_thousand_records_through_a_queue_of_64(ends: tuple[End, End]) -> None:
    here, there = ends
    records, done = SendRecords(64), Completions(64)
    for at in range(64):
        records[at] = Write(here.mr[at : at + 1], there.mr.remote[at : at + 1], signaled=at % 16 == 15)
    for turn in range(16):
        here.mr.buffer[:64] = pattern(turn, 64)
        here.qp.post_sends(records)
        assert here.send_cq.wait_into(done, 4, timeout=PATIENCE) == 4
        assert bytes(there.mr.buffer[:64]) == pattern(turn, 64)
    assert here.qp.outstanding == 0


# ---------------------------------------------------------------------- asyncio


async def pingpong(here: End, there: End, turns: int) -> int:
    """Four tasks of one event loop, each on its queue; both queues of an end share its channel."""

    async def receive(end: End) -> int:
        count = 0
        async for wc in end.recv_cq.completions():
            wc.raise_for_status()
            count += 1
            if count == turns:
                break
        return count

    async def send(end: End) -> int:
        for turn in range(turns):
            end.qp.send(end.mr[:8], imm=turn)
            for wc in await end.send_cq.completions():
                wc.raise_for_status()
        return turns

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        tasks = [group.create_task(job(end)) for end in (here, there) for job in (receive, send)]
    return sum(task.result() for task in tasks)


def test_asyncio(ends: tuple[End, End]) -> None:
    here, there = ends
    turns = 50
    for end in ends:
        for at in range(turns):
            end.qp.recv(end.mr[1024 + at : 1032 + at])
    assert asyncio.run(pingpong(here, there, turns)) == 4 * turns
