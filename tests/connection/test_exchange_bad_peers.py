"""Peers that stay mute, go away, or say what they should not, at each step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from handmade import LOCAL, NONCE, REMOTE, SETTINGS, Background, RawPeer, watch

import rdmaqp.errors
from rdmaqp.connection import frames, messages
from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.errors import DeadlineError, PeerError

STEPS = ["greeting", "record", "echo", "verdict", "ready", "done"]
PATIENCE = 0.2
PEER = r"peer 127\.0\.0\.1:\d+ "


def run_all(listener: Listener, timeout: float = PATIENCE) -> None:
    """All that a server does, each step with its own deadline."""
    with listener.accept(5, patience=timeout) as exchange:
        exchange.exchange_records(LOCAL, SETTINGS, lambda _: None, timeout)
        exchange.barrier("done", timeout)


def play(raw: RawPeer, until: str) -> None:
    if until != "greeting":
        raw.send({"kind": "hello"})
        raw.play(until)


def whole_message(step: str) -> bytes:
    """A valid message for *step*, long, so that it can be told in crumbs."""
    long = {"pad": "x" * 1000}
    if step == "greeting":
        return frames.encode({"kind": "hello"} | long)
    if step == "record":
        return frames.encode(messages.record(NONCE, REMOTE, SETTINGS) | long)
    if step == "echo":
        return frames.encode(messages.echo("0" * 16, NONCE, LOCAL) | long)
    if step == "verdict":
        return frames.encode(messages.verdict("0" * 16, None) | long)
    return frames.encode({"kind": "barrier", "name": step} | long)


BAD: dict[str, tuple[bytes, str]] = {
    "an HTTP request": (
        b"GET / HTTP/1.1\r\n\r\n", r"does not speak rdmaqp's exchange: it sent b'G.*' where b'RDQP' was expected",
    ),
    "one wrong byte": (b"\0", r"it sent b'\\x00' where b'RDQP' was expected"),
    "a stock record": (
        b"0000:000011:abcdef:00000000000000000000ffff0a000001\0", r"it sent b'0000:.*give --wire ibv at this end",
    ),
    "another version": (
        frames.HEADER.pack(b"RDQP", 3, 5) + b"{....",
        r"speaks version 3 of the exchange, not version 2 as expected\ninstall the same rdmaqp on both ends",
    ),
    "too long a message": (
        frames.HEADER.pack(b"RDQP", 2, 65537), r"announced a message of 65537 bytes; at most 65536 are allowed",
    ),
    "no JSON": (frames.HEADER.pack(b"RDQP", 2, 4) + b"{no}", "sent a message that is not JSON: "),
    "no UTF-8": (frames.HEADER.pack(b"RDQP", 2, 3) + b'"\xff"', "sent a message that is not JSON: 'utf-8'"),
    "nothing": (frames.HEADER.pack(b"RDQP", 2, 0), "sent a message that is not JSON: "),
    "NaN": (frames.HEADER.pack(b"RDQP", 2, 25) + b'{"kind":"hello","x": NaN}', "NaN is no JSON"),
    "a huge number": (frames.HEADER.pack(b"RDQP", 2, 60000) + b"1" * 60000, "sent a message that is not JSON: "),
    "deep nesting": (frames.HEADER.pack(b"RDQP", 2, 60000) + b"[" * 60000, "nested too deeply"),
    "a twin key": (
        frames.HEADER.pack(b"RDQP", 2, 29) + b'{"kind":"hello","kind":"hoo"}', "a key stands twice in one object",
    ),
    "a list": (frames.HEADER.pack(b"RDQP", 2, 2) + b"[]", "sent JSON that is no message"),
    "no kind": (frames.encode({"kin": 1}), "sent JSON that is no message"),
    "a kind that is a number": (frames.encode({"kind": 1}), "sent JSON that is no message"),
    "an unknown kind": (frames.encode({"kind": "\x1bh"}), r"sent a message of kind '\\x1bh' where '\w+' was expected"),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", BAD)
def test_bad_bytes(
    listener: Listener, raw_client: RawPeer, background: Background, step: str, name: str
) -> None:
    data, says = BAD[name]
    background(lambda: (play(raw_client, step), raw_client.send(data)))
    with pytest.raises(PeerError, match=f"(?s)^{PEER}.*{says}") as caught:
        run_all(listener, 2)
    assert caught.value.peer in str(caught.value)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("part", [0, 1, 5, 300])
@pytest.mark.parametrize("reset", [False, True])
def test_a_peer_that_closes(
    listener: Listener, raw_client: RawPeer, background: Background, step: str, part: int, reset: bool
) -> None:
    background(lambda: (play(raw_client, step), raw_client.send(whole_message(step)[:part]), raw_client.close(reset)))
    bytes_in = f", {part} bytes into a message" if part else ""
    closed = f"(reset|closed) the connection while this end (waited for its|sent) .*({bytes_in})?: it ended or was"
    with pytest.raises(PeerError, match=f"^{PEER}{closed}"):
        run_all(listener, 2)


@pytest.mark.parametrize(
    ("step", "part"),
    [("greeting", 0), ("record", 0), ("record", 30), ("echo", 0), ("verdict", 0), ("ready", 30), ("done", 0)],
)
def test_a_peer_that_stays_mute(
    listener: Listener, raw_client: RawPeer, background: Background, step: str, part: int
) -> None:
    background(lambda: (play(raw_client, step), raw_client.send(whole_message(step)[:part])))
    begin = time.monotonic()
    came = rf" \(only {part} bytes of it came\)" if part else ""
    awaited = {"echo": "echo of our record", "ready": "'ready'", "done": "'done'"}.get(step, step)
    with pytest.raises(
        (DeadlineError, PeerError), match=rf"^{PEER}did not send its {awaited} within 0\.2 s{came}"
    ):
        run_all(listener)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("step", ["greeting", "record", "done"])
def test_a_peer_that_trickles(
    listener: Listener, raw_client: RawPeer, background: Background, step: str
) -> None:
    def trickle() -> None:
        play(raw_client, step)
        try:
            for byte in whole_message(step)[:60]:
                raw_client.send(bytes([byte]))
                time.sleep(0.03)
        except OSError:
            return  # as it should be: the end under test has closed
        raise AssertionError("the end under test waited for a message that takes 30 seconds")

    background(trickle)
    with pytest.raises((DeadlineError, PeerError), match=r"within 0\.2 s \(only \d+ bytes of it came\)"):
        run_all(listener)


def pour(raw: RawPeer, begin: bytes, block: bytes) -> None:
    try:
        raw.send(begin)
        for _ in range(1 << 30 >> 20):
            raw.send(block)
    except OSError:
        return  # as it should be: the end under test has closed


@pytest.mark.parametrize(
    ("begin", "unit"),
    [
        (b"", b"\0"),
        (frames.HEADER.pack(b"RDQP", 2, 1 << 30), b" "),
        (frames.HEADER.pack(b"RDQP", 2, frames.LONGEST), b" "),
        (b"", frames.encode({"kind": "barrier", "name": "x" * 65000})),
    ],
    ids=["zeros", "one message", "the longest message, and more", "messages"],
)
@pytest.mark.parametrize("use", ["wait", "check_peer"])
def test_a_gigabyte(
    against_raw: tuple[Exchange, RawPeer], background: Background, begin: bytes, unit: bytes, use: str
) -> None:
    exchange, raw = against_raw
    block = unit * ((1 << 20) // len(unit))
    background(pour, raw, begin, block)
    tracemalloc.start()
    try:
        start = time.monotonic()
        with pytest.raises(PeerError, match=rf"^{PEER}(sen|does|announced|is at the barrier 'xxx)"):
            exchange.barrier("ready", 3) if use == "wait" else watch(exchange, 3)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert time.monotonic() - start < 5
    exchange.close()


def test_peers_at_different_barriers(against_raw: tuple[Exchange, RawPeer]) -> None:
    exchange, raw = against_raw
    raw.send({"kind": "barrier", "name": "done"})
    with pytest.raises(PeerError, match=r"is at the barrier 'done', not 'ready'"):
        exchange.barrier("ready", 1)


def test_a_client_of_another_version_is_answered(listener: Listener, raw_client: RawPeer) -> None:
    raw_client.send(frames.HEADER.pack(b"RDQP", 3, 5) + b"{....")
    with pytest.raises(PeerError, match="speaks version 3"):
        listener.accept(1)
    answer = raw_client.read()
    assert answer["reason"].startswith("this end speaks version 3 of the exchange, not version 2 as expected")


def test_a_stranger_gets_no_answer(listener: Listener, raw_client: RawPeer) -> None:
    raw_client.send(b"G")
    with pytest.raises(PeerError, match="it sent b'G'"):
        listener.accept(1)
    assert raw_client.sock.recv(100) == b""


PEER_PROGRAM = """
import sys, time
from handmade import REMOTE, SETTINGS
from rdmaqp.connection.exchange import Exchange, Listener
exchange = Exchange.connect("127.0.0.1", int(sys.argv[1]), 60)
exchange.exchange_records(REMOTE, SETTINGS, lambda _: None, 60)
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_peer_killed_in_the_middle(listener: Listener, number: int) -> None:
    root = Path(rdmaqp.errors.__file__).parents[1]
    path = os.pathsep.join([str(root), str(Path(__file__).parent)])
    command = [sys.executable, "-c", PEER_PROGRAM, str(listener.port)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}) as program,
        listener.accept(60) as exchange,  # a Python that starts on a busy machine
    ):
        exchange.exchange_records(LOCAL, SETTINGS, lambda _: None, 60)
        assert program.stdout is not None
        program.stdout.readline()
        exchange.check_peer()
        program.send_signal(number)
        begin = time.monotonic()
        with pytest.raises(PeerError, match=f"^{PEER}.* the connection while this end counted on it"):
            watch(exchange, 20)
        assert time.monotonic() - begin < 20
