"""Names, ports, and who comes to a listening server."""

from __future__ import annotations

import errno
import select
import socket
import time
from typing import Any

import pytest
from handmade import LOCAL, Background, RawPeer

from rdmaqp.connection import dialing, sockets
from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.connection.sockets import AddressError, Channel, Deadline, address_text
from rdmaqp.errors import DeadlineError, PeerError, RdmaqpError


def test_port_taken(listener: Listener) -> None:
    for host in ("127.0.0.1", ""):
        with pytest.raises(AddressError) as caught:
            Listener(listener.port, host)
        assert str(caught.value).startswith(f"TCP port {listener.port} ")
        assert "is taken by another program\nchoose another on both ends (--port)" in str(caught.value)
        assert caught.value.errno == errno.EADDRINUSE
        assert isinstance(caught.value, (RdmaqpError, OSError))


def test_port_taken_between_bind_and_listen() -> None:
    # With SO_REUSEADDR both can bind; only listen() tells the second.
    first, second = Listener(0, "127.0.0.1"), socket.socket()
    port = first.port
    first.close()
    with second:
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        second.bind(("127.0.0.1", port))
        with Listener(port, "127.0.0.1"), pytest.raises(OSError, match="in use"):
            second.listen()


def test_the_port_is_free_again_at_once(background: Background) -> None:
    with Listener(0, "127.0.0.1") as listener:
        port = listener.port
        client = Exchange.connect("127.0.0.1", port, 2)
        listener.accept(2).close()  # closes first: this side keeps the TIME_WAIT
        client.close()
    Listener(port, "127.0.0.1").close()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none(port: int) -> None:
    for call in (lambda: Listener(port), lambda: Exchange.connect("127.0.0.1", port, 1)):
        with pytest.raises(ValueError, match=rf"a TCP port is 0…65535, not {port}"):
            call()


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none(timeout: float) -> None:
    with pytest.raises(ValueError, match="a timeout is 0 s or more, or None"):
        Exchange.connect("127.0.0.1", 1, timeout)


def test_an_address_of_another_machine() -> None:
    with pytest.raises(AddressError, match=r"192\.0\.2\.1 is no address of this machine"):
        Listener(0, "192.0.2.1")


@pytest.mark.parametrize("host", ["no.such.host.invalid", "nul\0host", "a" * 64 + ".example", "1.2.3.4.5"])
def test_a_host_that_cannot_be_resolved(host: str) -> None:
    begin = time.monotonic()
    with pytest.raises(AddressError, match=r"cannot be resolved: .*\ncheck its spelling") as caught:
        Exchange.connect(host, 18515, 5)
    assert repr(host) in str(caught.value)
    assert time.monotonic() - begin < 5


def test_a_name_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: time.sleep(1.5))
    begin = time.monotonic()
    with pytest.raises(DeadlineError, match=r"no name server answered for host 'node1' within 0\.2 s"):
        Exchange.connect("node1", 18515, 0.2)
    assert time.monotonic() - begin < 1.4


def test_nobody_listens(listener: Listener) -> None:
    listener.close()
    with Listener(0, "127.0.0.1") as free:
        port = free.port
    begin = time.monotonic()
    text = rf"^nobody listens on host 127\.0\.0\.1, TCP port {port}; tried for 0\.3 s \(127.*: Connection refused\)\n"
    with pytest.raises(PeerError, match=text):
        Exchange.connect("127.0.0.1", port, 0.3)
    assert 0.3 <= time.monotonic() - begin < 5


def test_a_host_that_swallows_everything() -> None:
    # A listener whose queue is full drops what comes, as a firewall does.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        begin = time.monotonic()
        with pytest.raises(PeerError, match=r"cannot be reached \(127.*: no answer\)\ncheck the address, the route"):
            Exchange.connect("127.0.0.1", full.getsockname()[1], 0.3)
        assert 0.3 <= time.monotonic() - begin < 5
        for filler in fillers:
            filler.close()


def test_a_socket_connected_to_itself_is_nobody(listener: Listener) -> None:
    with Listener(0, "127.0.0.1") as free:
        port = free.port
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            dialing._connect(sock, ("127.0.0.1", port), Deadline(1))


def test_nobody_comes(listener: Listener) -> None:
    begin = time.monotonic()
    with pytest.raises(DeadlineError, match=rf"no client connected to TCP port {listener.port} within 0\.2 s"):
        listener.accept(0.2)
    assert time.monotonic() - begin < 5


def test_a_port_scanner_raises_without_on_stranger(listener: Listener) -> None:
    socket.create_connection(("127.0.0.1", listener.port)).close()
    with pytest.raises(PeerError, match=r"^peer 127\.0\.0\.1:\d+ closed the connection while this end waited for its"):
        listener.accept(1)


def test_strangers_do_not_end_the_listening(listener: Listener, background: Background) -> None:
    strangers: list[str] = []

    def clients() -> None:
        socket.create_connection(("127.0.0.1", listener.port)).close()
        with socket.create_connection(("127.0.0.1", listener.port)) as mute:
            with socket.create_connection(("127.0.0.1", listener.port)) as loud:
                loud.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with Exchange.connect("127.0.0.1", listener.port, 5) as exchange:
                    exchange.swap(LOCAL, {}, 5)
            mute.close()

    background(clients)
    with listener.accept(5, on_stranger=lambda error: strangers.append(str(error)), patience=0.2) as server:
        server.swap(LOCAL, {}, 5)
    # Each by itself: the mute one holds nobody up, and is still within its time, or just beyond.
    assert "closed" in strangers[0]
    assert any("does not speak rdmaqp's exchange" in said for said in strangers)
    assert len(strangers) == 2 or "did not send its greeting within 0.2 s" in strangers[2]


def test_strangers_do_not_outlast_the_deadline(listener: Listener, raw_client: RawPeer) -> None:
    begin = time.monotonic()
    with pytest.raises(DeadlineError, match=r"no client connected .* within 0\.3 s"):
        listener.accept(0.3, on_stranger=lambda _: None)
    assert time.monotonic() - begin < 5


def test_a_message_that_never_ends_ends_at_the_deadline() -> None:
    here, there = socket.socketpair()
    with here, there:
        channel = _channel_over(here)
        there.sendall(b"abc")
        channel.more(1, Deadline(0), "its novel")  # what is there counts, even at the deadline
        with pytest.raises(DeadlineError, match=r"its novel within 0 s \(only 1 bytes of it came\)"):
            channel.more(1, Deadline(0), "its novel")


def test_a_peer_that_does_not_read_ends_at_the_deadline() -> None:
    here, there = socket.socketpair()
    with there:
        channel = _channel_over(here)
        with pytest.raises(DeadlineError, match=r"peer x did not take the flood within 0\.2 s"):
            channel.send(b"x" * (8 << 20), Deadline(0.2), "the flood")
        with pytest.raises(PeerError, match="an earlier message to peer x was sent in part only"):
            channel.send(b"and then", Deadline(0.2), "more")
        channel.close()


def _channel_over(sock: socket.socket) -> Channel:
    channel = object.__new__(Channel)  # a Unix socket has no TCP options
    channel.peer, channel.buffer, channel._sock, channel._torn = "x", bytearray(), sock, False
    sock.setblocking(False)
    return channel


def test_a_vanished_host_would_be_noticed(pair: tuple[Exchange, Exchange]) -> None:
    for end in pair:
        sock = end._channel._sock
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 3
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 7
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (("10.0.0.1", 80), "10.0.0.1:80"),
        (("::ffff:10.0.0.1", 80, 0, 0), "10.0.0.1:80"),
        (("fe80::1%eth0", 80, 0, 2), "[fe80::1%eth0]:80"),
    ],
)
def test_addresses_as_text(address: tuple[Any, ...], text: str) -> None:
    assert address_text(address) == text


def test_a_long_wait_does_not_overflow_poll() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"x")
        assert sockets.wait_for(here, select.POLLIN, Deadline(1e12))
        assert sockets.wait_for(here, select.POLLIN, Deadline(None))
