"""The data path of an RC connection, opcode by opcode: the data is compared, on both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from device.rc_ends import PATIENCE, SIZE, End, pattern, reap, words_of
from rdmaqp import (
    Completions,
    Read,
    RemoteMemory,
    Send,
    WCOpcode,
    WCStatus,
    Write,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


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


def test_the_example(device_name: str) -> None:
    command = [sys.executable, EXAMPLES / "rdma_write_read.py", device_name]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "there: b'written from far'", "here:  b'written '", "100 additions of 7 make 700; the swap leaves 1",
    ]  # fmt: skip
