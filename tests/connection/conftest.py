"""Ends under test, and the handmade ones opposite to them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from handmade import Background, RawPeer

from rdmaqp.connection.exchange import Exchange, Listener
from verbs.conftest import null, null_server

__all__ = ["null", "null_server"]


@pytest.fixture
def background() -> Iterator[Background]:
    threads = Background()
    yield threads
    threads.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener(0, "127.0.0.1") as listening:
        yield listening


@pytest.fixture
def pair(listener: Listener) -> Iterator[tuple[Exchange, Exchange]]:
    """A server and a client, connected."""
    with Exchange.connect("127.0.0.1", listener.port, 2) as client, listener.accept(2) as server:
        yield server, client


@pytest.fixture
def raw_client(listener: Listener) -> Iterator[RawPeer]:
    """A client made by hand, which has not greeted yet."""
    with socket.create_connection(("127.0.0.1", listener.port)) as sock:
        yield RawPeer(sock)


@pytest.fixture
def against_raw(listener: Listener, raw_client: RawPeer) -> Iterator[tuple[Exchange, RawPeer]]:
    """A server under test, and a client made by hand that has greeted."""
    with ExitStack() as stack:
        raw_client.send({"kind": "hello"})
        yield stack.enter_context(listener.accept(2)), raw_client
