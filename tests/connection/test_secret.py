"""A shared secret: who has it is let in, who has not hears nothing."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from handmade import LOCAL, REMOTE, Background, RawPeer

from rdmaqp.connection import frames, messages
from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.connection.secrecy import Seal, SecretError
from rdmaqp.errors import PeerError

KEY = b"sixteen bytes or more of it"


@pytest.fixture
def guarded() -> Any:
    with Listener(0, secret=KEY) as listener:
        yield listener


def connect(listener: Listener, secret: bytes | None) -> tuple[Any, Any]:
    """What each end gets, an exchange or an error: the server's, the client's."""
    found: list[Any] = [None]

    def serve() -> None:
        try:
            found[0] = listener.accept(5)
        except PeerError as error:
            found[0] = error

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with Exchange.connect("127.0.0.1", listener.port, 5, secret=secret) as client:
            thread.join(5)
            client.swap(LOCAL, {}, 5)
            raise AssertionError("they talk")
    except PeerError as error:
        thread.join(5)
        return found[0], error


def test_both_have_it(guarded: Listener, background: Background) -> None:
    got: list[Any] = []

    def serve() -> None:
        with guarded.accept(5) as server:
            got.append(server.swap(REMOTE, {"size": 1}, 5)[0].qp_num)
            server.barrier("done", 5)

    background(serve)
    with Exchange.connect("127.0.0.1", guarded.port, 5, secret=KEY) as client:
        assert client.swap(LOCAL, {"size": 1}, 5)[0].qp_num == REMOTE.qp_num
        client.barrier("done", 5)
    background.join()
    assert got == [LOCAL.qp_num]


def test_a_client_with_another(guarded: Listener) -> None:
    server, client = connect(guarded, b"another, as long as that")
    assert isinstance(client, SecretError)  # the server's proof is wrong too
    assert isinstance(server, PeerError)
    assert str(server).endswith("gave up: refused")  # no detail


def test_a_client_without_one(guarded: Listener) -> None:
    server, client = connect(guarded, None)
    assert isinstance(server, SecretError)
    assert str(client).endswith("gave up: refused")


def test_a_server_without_one(listener: Listener) -> None:
    server, client = connect(listener, KEY)
    assert "has a shared secret, and the other end has none" in str(server)
    assert "this end has a shared secret, and the other end has none" in str(client)


def test_a_wrong_proof_is_refused_without_detail(guarded: Listener, background: Background) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port)) as sock:
        raw = RawPeer(sock)
        raw.send(messages.hello("0" * 32))

        def play() -> None:
            raw.read()
            raw.send({"kind": "proof", "proof": "0" * 64})

        background(play)
        with pytest.raises(SecretError, match="did not prove that it has this end's shared secret"):
            guarded.accept(5)
        assert raw.read() == {"kind": "fail", "reason": "refused"}


class Tap:
    """Between the two ends: what the client says is kept."""

    def __init__(self, to: int, background: Background) -> None:
        self.said = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        background(self._run, to, background)

    def _run(self, to: int, background: Background) -> None:
        with self._server, self._server.accept()[0] as here, socket.create_connection(("127.0.0.1", to)) as there:
            other = background(self._copy, there, here, False)
            self._copy(here, there, True)
            other.join(5)

    def _copy(self, source: socket.socket, to: socket.socket, keep: bool) -> None:
        while data := source.recv(65536):
            if keep:
                self.said += data
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


def test_a_recorded_conversation_is_refused(guarded: Listener, background: Background) -> None:
    tap = Tap(guarded.port, background)

    def serve() -> None:
        with guarded.accept(5) as server:
            server.swap(REMOTE, {}, 5)
            server.barrier("done", 5)

    other = background(serve)
    with Exchange.connect("127.0.0.1", tap.port, 5, secret=KEY) as client:
        client.swap(LOCAL, {}, 5)
        client.barrier("done", 5)
    other.join(5)
    with socket.create_connection(("127.0.0.1", guarded.port)) as sock:
        sock.sendall(tap.said)
        with pytest.raises(SecretError):
            guarded.accept(5)


def sealed_ends() -> tuple[Seal, Seal]:
    return Seal(KEY, "client", "1" * 32, "2" * 32), Seal(KEY, "server", "1" * 32, "2" * 32)


def test_frames_are_sealed_in_order_and_direction() -> None:
    client, server = sealed_ends()
    first, second = (frames.encode({"kind": kind}, client) for kind in ("one", "two"))
    assert frames.decode(first, server) == {"kind": "one"}
    with pytest.raises(SecretError):
        frames.decode(first, server)  # again
    client, server = sealed_ends()
    with pytest.raises(SecretError):
        frames.decode(second, server)  # out of its turn
    with pytest.raises(SecretError):
        frames.decode(frames.encode({"kind": "one"}, server), server)  # our own, come back
    assert not client.accepts(client.proof())
    assert client.accepts(server.proof())


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_every_byte_counts(at: int) -> None:
    client, server = sealed_ends()
    frame = bytearray(frames.encode({"kind": "record", "x": 12345}, client))
    frame[frames.HEADER.size + at % (len(frame) - frames.HEADER.size)] ^= 1
    with pytest.raises(SecretError):
        frames.decode(bytes(frame), server)


@pytest.mark.parametrize("use", [
    lambda: Exchange.connect("127.0.0.1", 1, 1, secret=b"short"), lambda: Listener(0, secret=b"short"),
])  # fmt: skip
def test_a_secret_that_can_be_guessed(use: Any) -> None:
    with pytest.raises(ValueError, match="a shared secret of 5 bytes can be guessed; give 16 or more"):
        use()
