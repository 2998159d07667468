"""Bytes from the guest: passed on unchanged, up to the token; lines of status; the console's end."""

from __future__ import annotations

import os
import random

import pytest

from rdmaqp.lab.streams import Console, Output, Status

TOKEN = b"abcabcabd"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("body", [b"", b"abc", b"abcabcabcabca", bytes(range(256)), b"x" * 999, b"abcabcab"])
def test_output_is_passed_on_byte_for_byte_up_to_the_token(body: bytes, size: int) -> None:
    reader, writer = os.pipe()
    output = Output(TOKEN, writer)
    stream = body + TOKEN
    for start in range(0, len(stream), size):
        assert not output.ended
        output.feed(stream[start : start + size])
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == body
    assert output.ended


def test_output_of_a_guest_that_died_is_not_held_back() -> None:
    reader, writer = os.pipe()
    output = Output(TOKEN, writer)
    output.feed(b"last words abcab")
    output.flush()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"last words abcab"
    assert not output.ended


def test_status_lines_come_in_any_pieces() -> None:
    status = Status()
    for byte in b"stage loading rdma_rxe\nready\nexit 37\n":
        status.feed(bytes([byte]))
    assert (status.stage, status.started, status.exit_status) == ("loading rdma_rxe", True, 37)
    assert status.failed is None


def test_a_failed_step_is_kept() -> None:
    status = Status()
    status.feed(b"failed modprobe -a rdma_rxe: not found\n")
    assert status.failed == "modprobe -a rdma_rxe: not found"
    assert not status.started


def test_the_console_keeps_its_end_without_control_characters() -> None:
    console = Console()
    for number in range(20_000):
        console.feed(b"\x1b[1mline %d\x1b[0m\x07\r\n" % number)
    tail = console.tail(3)
    assert tail == "line 19997\nline 19998\nline 19999"


def test_the_console_takes_any_bytes() -> None:
    console = Console()
    console.feed(random.Random(1).randbytes(5000))
    assert isinstance(console.tail(), str)


def test_the_beginning_of_a_crash_is_shown_with_its_end() -> None:
    console = Console()
    before = [f"before {number}" for number in range(50)]
    after = [f"stack {number}" for number in range(100)]
    console.feed("\n".join([*before, "Kernel panic - not syncing: sysrq triggered crash", *after]).encode())
    tail = console.tail(10).splitlines()
    assert tail[:4] == [*before[-3:], "Kernel panic - not syncing: sysrq triggered crash"]
    assert tail[-6:] == ["...", *after[-5:]]
