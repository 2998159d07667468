"""The data path of an RC connection, opcode by opcode: the data is compared, on both sides."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import rdmaqp
from rdmaqp import (
    MULTICAST_QPN,
    AccessFlag,
    Bind,
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

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = 4096
REMOTE = AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_READ | AccessFlag.REMOTE_ATOMIC
EVERYTHING = AccessFlag.LOCAL_WRITE | REMOTE | AccessFlag.MW_BIND
PATIENCE = 20


@dataclass
class End:
    """One end of the connection: its own memory, its own completion queues with a channel."""

    qp: rdmaqp.QueuePair
    send_cq: rdmaqp.CompletionQueue
    recv_cq: rdmaqp.CompletionQueue
    mr: rdmaqp.MemoryRegion

    def sent(self, n: int = 1) -> list[rdmaqp.WorkCompletion]:
        return reap(self.send_cq, n)

    def received(self, n: int = 1) -> list[rdmaqp.WorkCompletion]:
        return reap(self.recv_cq, n)


def reap(cq: rdmaqp.CompletionQueue, n: int, *, good: bool = True) -> list[rdmaqp.WorkCompletion]:
    found: list[rdmaqp.WorkCompletion] = []
    while len(found) < n:
        found += cq.wait(n - len(found), timeout=PATIENCE)
    if good:
        for wc in found:
            wc.raise_for_status()
    return found


def pattern(seed: int, length: int = SIZE) -> bytes:
    return bytes((seed * 31 + at * 7 + (at >> 8)) % 251 for at in range(length))


@pytest.fixture
def ends(pd: rdmaqp.ProtectionDomain) -> Iterator[tuple[End, End]]:
    made = []
    for seed in (1, 2):
        channel = pd.context.create_comp_channel()
        send_cq, recv_cq = pd.context.create_cq(256, channel), pd.context.create_cq(256, channel)
        qp = pd.create_qp(
            send_cq, recv_cq, max_send_wr=64, max_recv_wr=64, max_send_sge=4, max_recv_sge=4, max_inline_data=64
        )
        mr = pd.alloc_mr(SIZE, EVERYTHING)
        mr.buffer[:] = pattern(seed)
        made.append(End(qp, send_cq, recv_cq, mr))
    here, there = made
    records = [here.qp.endpoint(psn=0x111, max_rd_atomic=4, max_dest_rd_atomic=4),
               there.qp.endpoint(psn=0x222, max_rd_atomic=4, max_dest_rd_atomic=4)]  # fmt: skip
    here.qp.connect(*records, access=AccessFlag.LOCAL_WRITE | REMOTE)
    there.qp.connect(*reversed(records), access=AccessFlag.LOCAL_WRITE | REMOTE)
    yield here, there
    for end in made:
        assert end.send_cq.poll() == end.recv_cq.poll() == []  # nobody left anything behind


# ---------------------------------------------------------------------- SEND


@pytest.mark.parametrize("length", [0, 1, 63, 1024, 1025, SIZE])
def test_send(ends: tuple[End, End], length: int) -> None:
    here, there = ends
    there.qp.recv(there.mr, wr_id=7)
    here.qp.send(here.mr[:length], wr_id=8)
    (sent,), (came,) = here.sent(), there.received()
    assert (sent.wr_id, sent.opcode) == (8, WCOpcode.SEND)
    assert (came.wr_id, came.opcode, came.byte_len, came.imm) == (7, WCOpcode.RECV, length, None)
    assert came.qp_num == there.qp.qp_num
    assert bytes(there.mr.buffer) == pattern(1)[:length] + pattern(2)[length:]


@pytest.mark.parametrize("imm", [0, 1, 0x12345678, 0xFFFFFFFF])
def test_send_with_immediate_data_in_host_byte_order(ends: tuple[End, End], imm: int) -> None:
    here, there = ends
    there.qp.recv(there.mr)
    here.qp.send(here.mr[:16], imm=imm)
    (came,) = there.received()
    assert (came.imm, came.byte_len) == (imm, 16)
    here.sent()
    # On the wire it is big endian: what a C program writes with htonl() and reads with ntohl().
    there.qp.recv(there.mr)
    here.qp.send(imm=imm)
    completions = Completions(4)
    there.recv_cq.wait_into(completions, timeout=PATIENCE)
    assert int(completions.array["imm_data"][0]) == imm
    here.sent()


def test_a_message_that_is_too_long_fails_at_both_ends(ends: tuple[End, End]) -> None:
    here, there = ends
    there.qp.recv(there.mr[:8])
    here.qp.send(here.mr[:16])
    (sent,), (came,) = reap(here.send_cq, 1, good=False), reap(there.recv_cq, 1, good=False)
    # The specification's, and Soft-RoCE's.
    assert (sent.status, came.status) in [
        (WCStatus.REM_INV_REQ_ERR, WCStatus.LOC_LEN_ERR), (WCStatus.REM_OP_ERR, WCStatus.LOC_QP_OP_ERR)
    ]  # fmt: skip
    assert bytes(there.mr.buffer[8:]) == pattern(2)[8:]


def test_scatter_and_gather(ends: tuple[End, End]) -> None:
    """Pieces are gathered in their order, and scattered by the receiver's own cut."""
    here, there = ends
    there.qp.recv([there.mr[100:103], there.mr[0:10], there.mr[200:300]])
    here.qp.send([here.mr[50:60], here.mr[0:1], here.mr[1000:1020], here.mr[7:7]])
    here.sent()
    (came,) = there.received()
    message = pattern(1)[50:60] + pattern(1)[0:1] + pattern(1)[1000:1020]
    assert came.byte_len == len(message)
    got = bytes(there.mr.buffer)
    assert got[100:103] + got[0:10] + got[200 : 200 + 18] == message
    assert got[218:] == pattern(2)[218:]


@pytest.mark.parametrize("length", [0, 1, 17, 64])
def test_inline_bytes_need_no_region_and_may_change_at_once(ends: tuple[End, End], length: int) -> None:
    here, there = ends
    words = bytearray(pattern(5, length))
    there.qp.recv(there.mr)
    here.qp.send(words, inline=True)
    words[:] = bytes(length)
    there.received()
    here.sent()
    assert bytes(there.mr.buffer[:length]) == pattern(5, length)


def test_inline_from_pieces_and_with_immediate_data(ends: tuple[End, End]) -> None:
    here, there = ends
    there.qp.recv(there.mr)
    here.qp.send([here.mr[0:8], here.mr[16:24]], inline=True, imm=99)
    here.mr.buffer[0:24] = bytes(24)
    (came,) = there.received()
    here.sent()
    assert (came.imm, bytes(there.mr.buffer[:16])) == (99, pattern(1)[0:8] + pattern(1)[16:24])


# ---------------------------------------------------------------------- RDMA


@pytest.mark.parametrize("length", [1, 1024, 1025, SIZE])
def test_write(ends: tuple[End, End], length: int) -> None:
    here, there = ends
    here.qp.write(here.mr[:length], there.mr.remote)
    (sent,) = here.sent()
    assert sent.opcode == WCOpcode.RDMA_WRITE
    assert bytes(there.mr.buffer) == pattern(1)[:length] + pattern(2)[length:]


def test_write_to_the_middle_from_pieces_and_inline(ends: tuple[End, End]) -> None:
    here, there = ends
    here.qp.post(
        Write([here.mr[0:5], here.mr[9:12]], there.mr.remote[1000:1008], signaled=False),
        Write(b"inline", there.mr.remote[2000:2006], inline=True),
    )
    here.sent()
    expected = bytearray(pattern(2))
    expected[1000:1008] = pattern(1)[0:5] + pattern(1)[9:12]
    expected[2000:2006] = b"inline"
    assert bytes(there.mr.buffer) == expected


@pytest.mark.parametrize("imm", [0, 0x01020304])
def test_write_with_immediate_data_takes_a_receive(ends: tuple[End, End], imm: int) -> None:
    here, there = ends
    there.qp.recv(wr_id=3)
    here.qp.write(here.mr[0:32], there.mr.remote[64:], imm=imm)
    here.sent()
    (came,) = there.received()
    assert (came.opcode, came.imm, came.byte_len, came.wr_id) == (WCOpcode.RECV_RDMA_WITH_IMM, imm, 32, 3)
    assert bytes(there.mr.buffer[64:96]) == pattern(1)[:32]
    assert there.qp.recv_posted == 0


@pytest.mark.parametrize("length", [1, 1024, 1025, SIZE])
def test_read(ends: tuple[End, End], length: int) -> None:
    here, there = ends
    here.qp.read(here.mr[:length], there.mr.remote)
    (sent,) = here.sent()
    assert sent.opcode == WCOpcode.RDMA_READ
    assert bytes(here.mr.buffer) == pattern(2)[:length] + pattern(1)[length:]


def test_read_scatters(ends: tuple[End, End]) -> None:
    here, there = ends
    here.qp.read([here.mr[500:510], here.mr[0:10]], there.mr.remote[40:60])
    here.sent()
    assert bytes(here.mr.buffer[500:510]) + bytes(here.mr.buffer[0:10]) == pattern(2)[40:60]


@pytest.mark.parametrize("what", ["another key", "past the end"])
def test_memory_that_is_not_the_peers_to_reach(ends: tuple[End, End], what: str) -> None:
    here, there = ends
    remote = there.mr.remote
    wrong = {
        "another key": RemoteMemory(remote.addr, 64, remote.rkey ^ 0x5500),
        "past the end": RemoteMemory(remote.addr + SIZE - 8, 64, remote.rkey),
    }[what]
    here.qp.write(here.mr[:64], wrong, wr_id=5)
    (sent,) = reap(here.send_cq, 1, good=False)
    assert (sent.status, sent.wr_id) == (WCStatus.REM_ACCESS_ERR, 5)
    assert bytes(there.mr.buffer) == pattern(2)


# ---------------------------------------------------------------------- atomics


def words_of(end: End) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(end.mr.buffer, "u8")


def test_compare_and_swap(ends: tuple[End, End]) -> None:
    here, there = ends
    words_of(there)[4] = 100
    here.qp.compare_swap(here.mr[0:8], there.mr.remote[32:40], compare=100, swap=2**64 - 2)
    (sent,) = here.sent()
    assert (sent.opcode, int(words_of(here)[0]), int(words_of(there)[4])) == (WCOpcode.COMP_SWAP, 100, 2**64 - 2)
    here.qp.compare_swap(here.mr[8:16], there.mr.remote[32:40], compare=100, swap=1)  # it is not 100 any more
    here.sent()
    assert (int(words_of(here)[1]), int(words_of(there)[4])) == (2**64 - 2, 2**64 - 2)


def test_fetch_and_add_wraps(ends: tuple[End, End]) -> None:
    here, there = ends
    words_of(there)[0] = 2**64 - 3
    for turn, (before, add) in enumerate([(2**64 - 3, 2), (2**64 - 1, 5), (4, 2**64 - 4), (0, 0)]):
        here.qp.fetch_add(here.mr[8 * turn : 8 * turn + 8], there.mr.remote, add)
        (sent,) = here.sent()
        assert (sent.opcode, int(words_of(here)[turn])) == (WCOpcode.FETCH_ADD, before)
    assert int(words_of(there)[0]) == 0


def test_a_fence_waits_for_the_read_before_it(ends: tuple[End, End]) -> None:
    """What the read brings is what the fenced send sends."""
    here, there = ends
    for _ in range(20):
        here.mr.buffer[:64] = bytes(64)
        there.qp.recv(there.mr[2048:])
        here.qp.post(
            Read(here.mr[:64], there.mr.remote[:64], signaled=False), Send(here.mr[:64], fence=True)
        )
        here.sent()
        there.received()
        assert bytes(there.mr.buffer[2048:2112]) == pattern(2)[:64]
    assert here.qp.outstanding == 0


# ---------------------------------------------------------------------- memory windows


def test_a_window_is_bound_used_and_invalidated(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    here, there = ends
    window = pd.alloc_mw()
    keys = {window.rkey}
    for turn in range(3):
        start = 100 * turn
        told = there.qp.bind(window, there.mr[start : start + 50], AccessFlag.REMOTE_WRITE, wr_id=turn)
        (bound,) = there.sent()
        assert (bound.opcode, bound.wr_id) == (WCOpcode.BIND_MW, turn)
        assert window.remote == told == RemoteMemory(there.mr.addr + start, 50, window.rkey)
        keys.add(told.rkey)
        here.qp.write(here.mr[0:50], window.remote)
        here.sent()
        assert bytes(there.mr.buffer[start : start + 51]) == pattern(1)[:50] + pattern(2)[start + 50 : start + 51]
        there.qp.invalidate(window)
        assert there.sent()[0].opcode == WCOpcode.LOCAL_INV
    assert len(keys) == 4
    window.close()


@pytest.mark.parametrize("how", ["invalidated", "not allowed"])
def test_a_window_is_a_limit(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain, how: str) -> None:
    here, there = ends
    with pd.alloc_mw() as window:
        remote = there.qp.bind(window, there.mr[0:64], AccessFlag.REMOTE_READ)
        there.sent()
        here.qp.read(here.mr[0:64], remote)
        here.sent()
        assert bytes(here.mr.buffer[:64]) == pattern(2)[:64]
        if how == "invalidated":
            there.qp.invalidate(window)
            there.sent()
            here.qp.read(here.mr[0:64], remote)
        else:
            here.qp.write(here.mr[0:64], remote)
        assert reap(here.send_cq, 1, good=False)[0].status == WCStatus.REM_ACCESS_ERR
        assert bytes(there.mr.buffer) == pattern(2)


def test_send_with_invalidate_ends_the_receivers_window(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    here, there = ends
    window = pd.alloc_mw()
    remote = there.qp.bind(window, there.mr[0:64], AccessFlag.REMOTE_WRITE)
    there.sent()
    there.qp.recv(there.mr[1024:])
    here.qp.post(Write(here.mr[0:64], remote, signaled=False), Send(here.mr[64:80], invalidate=remote.rkey))
    here.sent()
    (came,) = there.received()
    assert (came.byte_len, came.imm) == (16, None)
    # Soft-RoCE ends the key, and does not say so in the completion (6.1: no WITH_INV).
    assert came.invalidated_rkey == (None if not came.wc_flags & 8 else remote.rkey), came
    assert bytes(there.mr.buffer[:64]) == pattern(1)[:64]
    here.qp.write(here.mr[0:64], remote)
    assert reap(here.send_cq, 1, good=False)[0].status == WCStatus.REM_ACCESS_ERR
    window.close()


def test_the_peer_is_told_by_a_send_behind_the_bind(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    here, there = ends
    window = pd.alloc_mw()
    here.qp.recv(here.mr[0:16])
    bind = Bind(window, there.mr[128:256], AccessFlag.REMOTE_READ, signaled=False)
    there.mr.buffer[:12] = bind.remote.addr.to_bytes(8, "little") + bind.remote.rkey.to_bytes(4, "little")
    there.qp.post(bind, Send(there.mr[:12]))
    there.sent()
    here.received()
    told = bytes(here.mr.buffer[:12])
    remote = RemoteMemory(int.from_bytes(told[:8], "little"), 128, int.from_bytes(told[8:], "little"))
    assert remote == window.remote
    here.qp.read(here.mr[1024:1152], remote)
    here.sent()
    assert bytes(here.mr.buffer[1024:1152]) == pattern(2)[128:256]


def test_what_a_window_is_bound_to_ends_after_it(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    """A region with a window on it, and a queue pair with one, are closed by whoever closes the device, in order."""
    _, there = ends
    region = pd.alloc_mr(64, EVERYTHING)
    window = pd.alloc_mw()
    there.qp.bind(window, region, AccessFlag.REMOTE_READ)
    there.sent()
    with pytest.raises(rdmaqp.VerbsError, match="ibv_dereg_mr"):
        region.close()
    assert not region.closed
    there.qp.close()
    pd.close()
    assert window.closed
    assert region.closed


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


# ---------------------------------------------------------------------- multicast


def test_multicast(pd: rdmaqp.ProtectionDomain) -> None:
    """To the group of all hosts: Soft-RoCE joins none in the IP stack, which hands back what this machine is in."""
    group, qkey = "224.0.0.1", 0x11111111
    choice = pd.context.port(1).pick_gid()
    assert choice
    cq, mr = pd.context.create_cq(16), pd.alloc_mr(256)
    sender, member, other = (pd.create_qp(cq, qp_type="UD") for _ in range(3))
    for qp in (sender, member, other):
        qp.modify(qp_state="INIT", port_num=1, pkey_index=0, qkey=qkey)
        qp.recv(mr[0:128])
        qp.modify(qp_state="RTR")
        qp.modify(qp_state="RTS", sq_psn=1)
    mr.buffer[128:136] = b"to group"
    route = rdmaqp.GlobalRoute(dgid=group, sgid_index=choice.entry.index)
    to = rdmaqp.Destination(pd.create_ah(rdmaqp.AddressVector(grh=route)), MULTICAST_QPN, qkey)
    with member.attach_mcast(group):
        sender.send(mr[128:136], to=to)
        found = {wc.opcode: wc for wc in reap(cq, 2)}
        came = found[WCOpcode.RECV]
        assert (came.qp_num, came.src_qp, came.byte_len) == (member.qp_num, sender.qp_num, 48)
        assert bytes(mr.buffer[40:48]) == b"to group"
    member.recv(mr[0:128])
    sender.send(mr[128:136], to=to)
    assert [wc.opcode for wc in reap(cq, 1)] == [WCOpcode.SEND]
    with pytest.raises(rdmaqp.DeadlineError):
        cq.wait(timeout=0.5)  # nobody is in it any more


def test_multicast_memberships_end_with_the_block_and_with_the_queue_pair(pd: rdmaqp.ProtectionDomain) -> None:
    cq = pd.context.create_cq(16)
    qp = pd.create_qp(cq, qp_type="UD")
    qp.modify(qp_state="INIT", port_num=1, pkey_index=0, qkey=0x11111111)
    with qp.attach_mcast("ff0e::1:2") as member, pytest.raises(ValueError, match="already"):
        qp.attach_mcast("ff0e::1:2")
    assert member.closed
    qp.attach_mcast("ff0e::1:2")
    qp.detach_mcast("ff0e::1:2")
    left = qp.attach_mcast("239.1.2.3")
    qp.close()
    assert left.closed


def test_the_example(device_name: str) -> None:
    command = [sys.executable, EXAMPLES / "rdma_write_read.py", device_name]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "there: b'written from far'", "here:  b'written '", "100 additions of 7 make 700; the swap leaves 1",
    ]  # fmt: skip
