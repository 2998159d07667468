"""The wire of ``ibv_rc_pingpong``, against sockets that do what its source does, byte for byte, and against worse."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from handmade import LOCAL, SETTINGS, Background, RawPeer

from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.connection.wire import DEFAULT_PORT, WireListener
from rdmaqp.connection.wire_ibv import IbvWire, decode_record, encode_record
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.gid import GID

OURS = b"0000:000011:abcdef:00000000000000000000ffff0a000001\0"
THEIRS = b"0003:00002a:000007:fe8000000000000000000000000000ff\0"
REMOTE = Endpoint(qp_num=0x2A, psn=7, lid=3, gid=GID.parse("fe80::ff"))
PEER = r"peer 127\.0\.0\.1:\d+ "


@pytest.fixture
def stock_server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        yield listening


@pytest.fixture
def stock_client(ibv_listener: WireListener[IbvWire]) -> Iterator[RawPeer]:
    with socket.create_connection(("127.0.0.1", ibv_listener.port)) as sock:
        yield RawPeer(sock)


@pytest.fixture
def ibv_listener() -> Iterator[WireListener[IbvWire]]:
    with IbvWire.listen(0, "127.0.0.1") as listening:
        yield listening


def test_the_bytes() -> None:
    assert DEFAULT_PORT == 18515
    assert encode_record(LOCAL) == OURS
    assert len(OURS) == 52
    assert decode_record(THEIRS) == decode_record(THEIRS.upper()) == REMOTE
    assert encode_record(Endpoint(qp_num=1, psn=2)) == b"0000:000001:000002:" + b"0" * 32 + b"\0"


@pytest.mark.parametrize("field", ["qp_num", "psn", "lid"])
def test_a_number_that_does_not_fit_is_not_cut(field: str) -> None:
    for value in (-1, 1 << 24):
        with pytest.raises(ValueError, match=f"{field} has "):
            encode_record(Endpoint(**{"qp_num": 1, "psn": 2, field: value}))  # type: ignore[arg-type]


def test_as_client_of_the_stock_server(stock_server: socket.socket, background: Background) -> None:
    steps: list[str] = []

    def server() -> None:
        sock, _ = stock_server.accept()
        with closing(sock):
            assert sock.recv(52) == OURS  # one read, as the original does
            time.sleep(0.1)
            steps.append("server is up")
            sock.sendall(THEIRS)
            assert sock.recv(52) == b"done\0"
            assert sock.recv(1) == b""

    background(server)
    with IbvWire.connect("127.0.0.1", stock_server.getsockname()[1], 2) as wire:
        assert wire.exchange_records(LOCAL, SETTINGS, lambda _: steps.append("client is up"), 2) == REMOTE
        wire.barrier("done", 1)
        wire.check_peer()
        assert not wire.fail("nobody can hear this")
        background.join()  # the server sees the end without waiting for ours
    assert steps == ["server is up", "client is up"]


def test_as_server_of_the_stock_client(
    ibv_listener: WireListener[IbvWire], stock_client: RawPeer, background: Background
) -> None:
    steps: list[str] = []

    def client() -> None:
        stock_client.send(THEIRS)
        assert stock_client.sock.recv(52) == OURS
        steps.append("answered")
        stock_client.send(b"done\0")
        stock_client.close()

    background(client)
    with ibv_listener.accept(2) as wire:
        time.sleep(0.1)
        assert wire.exchange_records(LOCAL, SETTINGS, lambda _: steps.append("server is up"), 2) == REMOTE
        with pytest.raises(ClosedError, match="this wire carries one"):
            wire.exchange_records(LOCAL, SETTINGS, lambda _: None, 2)
    background.join()
    assert steps == ["server is up", "answered"]


def test_both_ends_ours(ibv_listener: WireListener[IbvWire], background: Background) -> None:
    def client() -> None:
        with IbvWire.connect("127.0.0.1", ibv_listener.port, 2) as wire:
            assert wire.exchange_records(REMOTE, {}, lambda _: None, 2).qp_num == LOCAL.qp_num

    background(client)
    with ibv_listener.accept(2) as wire:
        assert wire.exchange_records(LOCAL, {}, lambda _: None, 2) == REMOTE


BAD = {
    "garbage": (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", r"it sent b'SSH.* where its (record|'done') was expected"),
    "one wrong byte": (b"\xff", r"it sent b'\\xff' where "),
    "a done that goes on": (b"done\0x", r"it sent b'\w+(\\x00x)?' where its (record|'done' and no more) was expected"),
    "our own exchange": (b"RDQP\0\1", "it speaks rdmaqp's own exchange: leave out --wire ibv at this end"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("step", ["record", "done"])
def test_garbage_to_the_server(
    ibv_listener: WireListener[IbvWire], stock_client: RawPeer, step: str, name: str
) -> None:
    data, says = BAD[name]
    stock_client.send(data if step == "record" else THEIRS)

    def serve() -> None:
        with ibv_listener.accept(2) as wire:
            wire.exchange_records(LOCAL, {}, lambda _: stock_client.send(data), 2)

    with pytest.raises(PeerError, match=f"(?s)^{PEER}does not speak the wire of ibv_rc_pingpong: .*{says}"):
        serve()


RECORDS = {
    "no hexadecimal": THEIRS.replace(b"00002a", b"0000zz"),
    "a sign": THEIRS.replace(b"00002a", b"-0002a"),
    "another separator": THEIRS.replace(b":", b";", 1),
    "no NUL": THEIRS[:-1] + b"0",
    "a NUL too early": THEIRS[:-2] + b"\0\0",
    "too long": THEIRS + b"x",
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("role", ["server", "client"])
def test_a_record_that_is_none(
    ibv_listener: WireListener[IbvWire], stock_server: socket.socket, background: Background, name: str, role: str
) -> None:
    data = RECORDS[name]

    def server() -> None:
        with socket.create_connection(("127.0.0.1", ibv_listener.port)) as sock:
            sock.sendall(data)
            ibv_listener.accept(2)

    def client() -> None:
        with IbvWire.connect("127.0.0.1", stock_server.getsockname()[1], 2) as wire:
            sock, _ = stock_server.accept()
            with closing(sock):
                sock.sendall(data)
                wire.exchange_records(LOCAL, {}, lambda _: pytest.fail("brought up"), 2)

    shown = re.escape(repr(data)[:30])
    with pytest.raises(PeerError, match=f"^{PEER}does not speak the wire of ibv_rc_pingpong: it sent {shown}"):
        server() if role == "server" else client()


@pytest.mark.parametrize("part", [0, 1, 51])
@pytest.mark.parametrize("end", ["closes", "is mute"])
def test_a_short_record(
    ibv_listener: WireListener[IbvWire], stock_server: socket.socket, part: int, end: str
) -> None:
    with IbvWire.connect("127.0.0.1", stock_server.getsockname()[1], 2) as wire:
        sock, _ = stock_server.accept()
        with closing(sock):
            sock.sendall(THEIRS[:part])
            if end == "closes":
                sock.shutdown(socket.SHUT_WR)
            with pytest.raises((PeerError, DeadlineError)) as caught:
                wire.exchange_records(LOCAL, {}, lambda _: pytest.fail("brought up"), 0.2)
    if end == "closes":
        assert "closed the connection while this end waited for its record" in str(caught.value)
        assert not part or f", {part} bytes into a message" in str(caught.value)
    else:
        assert "did not send its record within 0.2 s" in str(caught.value)
        assert not part or f"(only {part} bytes of it came)" in str(caught.value)


@pytest.mark.parametrize("end", ["closes", "is mute", "trickles"])
def test_no_done(
    ibv_listener: WireListener[IbvWire], stock_client: RawPeer, background: Background, end: str
) -> None:
    stock_client.send(THEIRS)

    def client() -> None:
        stock_client.sock.recv(52)
        if end == "closes":
            stock_client.close()
        elif end == "trickles":
            with suppress(OSError):  # as it should be: the end under test has closed
                for byte in b"done":
                    stock_client.send(bytes([byte]))
                    time.sleep(0.09)

    background(client)
    with ibv_listener.accept(2) as wire, pytest.raises((PeerError, DeadlineError)) as caught:
        wire.exchange_records(LOCAL, {}, lambda _: None, 0.2)
    assert "its 'done'" in str(caught.value)
    assert ("closed" if end == "closes" else "within 0.2 s") in str(caught.value)
    if end == "trickles":
        assert re.search(r"only \d bytes of it came", str(caught.value))


def test_a_failed_bring_up_closes(
    ibv_listener: WireListener[IbvWire], stock_client: RawPeer
) -> None:
    def bring_up(_remote: Endpoint) -> None:
        raise RuntimeError("refused")

    stock_client.send(THEIRS)
    with pytest.raises(RuntimeError, match="refused"), ibv_listener.accept(2) as wire:
        wire.exchange_records(LOCAL, {}, bring_up, 2)
    assert stock_client.sock.recv(52) == b""


def test_a_stock_client_at_our_own_server_is_told_apart(listener: Listener, background: Background) -> None:
    def client() -> None:
        with (
            IbvWire.connect("127.0.0.1", listener.port, 2) as wire,
            pytest.raises(PeerError, match="the connection while this end waited for its record"),
        ):
            wire.exchange_records(LOCAL, {}, lambda _: None, 2)

    background(client)
    with pytest.raises(PeerError, match="looks like a stock ibv_rc_pingpong: give --wire ibv"):
        listener.accept(2)


def test_our_own_client_at_an_ibv_server_is_told_apart(
    ibv_listener: WireListener[IbvWire], background: Background
) -> None:
    def client() -> None:
        with Exchange.connect("127.0.0.1", ibv_listener.port, 2) as exchange, pytest.raises(PeerError):
            exchange.swap(LOCAL, {}, 2)

    background(client)
    with pytest.raises(PeerError, match="speaks rdmaqp's own exchange: leave out --wire ibv"):
        ibv_listener.accept(2)
