"""A server that has to do with many at once, most of whom do it no good: it keeps serving the others."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from handmade import LOCAL, REMOTE, Background

import rdmaqp
from rdmaqp.connection import frames
from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.connection.listener import MOST_NEWCOMERS
from rdmaqp.errors import DeadlineError, PeerError

IDLE = 200


@contextmanager
def idlers(port: int, number: int, say: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(number)]
        for sock in made:
            sock.sendall(say)
        yield made


def client(port: int, number: int) -> None:
    with Exchange.connect("127.0.0.1", port, 10) as exchange:
        assert exchange.swap(LOCAL, {"number": number}, 10)[0].qp_num == REMOTE.qp_num
        exchange.barrier("done", 10)


@pytest.mark.parametrize("say", [b"", b"RDQP\x00\x02"], ids=["mute", "half a greeting"])
def test_two_hundred_idle_connections_hold_nobody_up(
    listener: Listener, background: Background, say: bytes
) -> None:
    with idlers(listener.port, IDLE, say):
        for number in range(5):
            background(client, listener.port, number)
        begin = time.monotonic()
        for _ in range(5):
            with listener.accept(20, patience=60) as server:
                server.swap(REMOTE, {}, 10)
                server.barrier("done", 10)
        assert time.monotonic() - begin < 20
    background.join()


def test_the_oldest_makes_room(listener: Listener, background: Background) -> None:
    strangers: list[str] = []
    with ExitStack() as stack:
        for _ in range(4):  # the backlog holds a part of them at a time
            stack.enter_context(idlers(listener.port, 70))
            with pytest.raises(DeadlineError):
                listener.accept(0.5, on_stranger=lambda error: strangers.append(str(error)), patience=60)
        background(client, listener.port, 1)
        with listener.accept(20, on_stranger=lambda error: strangers.append(str(error)), patience=60) as server:
            server.swap(REMOTE, {}, 10)
            server.barrier("done", 10)
    assert 280 - MOST_NEWCOMERS <= len(strangers) <= 281 - MOST_NEWCOMERS
    assert "had not greeted yet" in strangers[0]
    background.join()


def test_random_bytes_and_cut_records(listener: Listener, background: Background) -> None:
    dice = random.Random(5)
    whole = frames.encode({"kind": "hello", "pad": "x" * 200})
    strangers: list[PeerError] = []

    def throw() -> None:
        for number in range(120):
            cut = dice.randrange(len(whole))
            data = bytearray(dice.randbytes(dice.randrange(1, 300)) if number % 3 else whole[:cut])
            if number % 3 == 2:
                data = bytearray(whole)
                data[dice.randrange(10)] ^= 1 << dice.randrange(8)
            with socket.create_connection(("127.0.0.1", listener.port)) as sock:
                sock.sendall(data)
        client(listener.port, 1)

    background(throw)
    with listener.accept(30, on_stranger=strangers.append) as server:
        server.swap(REMOTE, {}, 10)
        server.barrier("done", 10)
    background.join()
    assert len(strangers) >= 100  # a bit in the length may leave the rest to come, until it closes
    assert all(str(error).startswith("peer 127.0.0.1:") for error in strangers)


# ---------------------------------------------------------------------- asyncio


def test_asyncio_serves_many_at_once_among_the_idle() -> None:
    async def serve(exchange: rdmaqp.AsyncExchange) -> int:
        async with exchange:
            _, settings = await exchange.swap(REMOTE, {}, 10)
            await exchange.barrier("done", 10)
            return int(str(settings["number"]))

    async def ask(port: int, number: int) -> None:
        async with await rdmaqp.AsyncExchange.connect("127.0.0.1", port, 10) as exchange:
            remote, _ = await exchange.swap(LOCAL, {"number": number}, 10)
            assert (remote.qp_num, exchange.role) == (REMOTE.qp_num, "client")
            await exchange.barrier("done", 10)

    async def everything() -> list[int]:
        async with rdmaqp.listen(0) as server:
            with idlers(server.port, IDLE):
                clients = [asyncio.create_task(ask(server.port, number)) for number in range(50)]
                served = [asyncio.create_task(serve(await server.accept(10))) for _ in range(50)]
                await asyncio.gather(*clients)
                return sorted(await asyncio.gather(*served))

    assert asyncio.run(everything()) == list(range(50))


def test_asyncio_tells_of_strangers_and_goes_on() -> None:
    strangers: list[str] = []

    async def everything() -> None:
        async with rdmaqp.listen(
            0, patience=0.2, on_stranger=lambda error: strangers.append(str(error)), secret=b"k" * 20
        ) as server:
            nobody = r"no client connected to TCP port \d+ within 0\.6 s"
            with idlers(server.port, 1), idlers(server.port, 1, b"GET /"), pytest.raises(DeadlineError, match=nobody):
                await server.accept(0.6)
            with pytest.raises(PeerError, match="gave up: refused"):
                async with await rdmaqp.AsyncExchange.connect("127.0.0.1", server.port, 5) as client:
                    await client.swap(LOCAL, {}, 5)
            task = asyncio.create_task(
                rdmaqp.AsyncExchange.connect("127.0.0.1", server.port, 5, secret=b"k" * 20)
            )
            async for exchange in server:
                exchange.close()
                break
            (await task).close()

    asyncio.run(everything())
    assert any("did not send its greeting within 0.2 s" in said for said in strangers)
    assert any("does not speak rdmaqp's exchange" in said for said in strangers)
    assert any("did not prove" in said for said in strangers)


async def told_of(exchange: rdmaqp.AsyncExchange) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        exchange.check_peer()
        await asyncio.sleep(0.01)


def test_asyncio_waits_have_deadlines_and_can_be_cancelled() -> None:
    async def everything() -> None:
        async with rdmaqp.listen(0) as server:
            client = await rdmaqp.AsyncExchange.connect("127.0.0.1", server.port, 5)
            async with client, await server.accept(5) as peer:
                assert not client.has_news()
                with pytest.raises(DeadlineError, match=r"did not send its record within 0\.2 s"):
                    await client.swap(LOCAL, {}, 0.2)
                task = asyncio.create_task(client.barrier("done", 60))
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                client.fail("out of patience")
                with pytest.raises(PeerError, match="gave up: out of patience"):
                    await told_of(peer)

    asyncio.run(everything())


def test_asyncio_listens_inside_of_its_block_only() -> None:
    async def everything() -> None:
        server = rdmaqp.listen(0)
        with pytest.raises(rdmaqp.ClosedError, match="inside of its `async with` only"):
            await server.accept(1)
        async with server:
            client = await rdmaqp.AsyncExchange.connect("127.0.0.1", server.port, 5)
        async with client:
            with pytest.raises(PeerError, match=r"(closed|reset) the connection"):  # nobody took it
                await client.barrier("ready", 5)

    asyncio.run(everything())


def test_by_itself_a_server_is_for_this_machine_alone() -> None:
    with Listener(0) as listener:
        assert listener._sock.getsockname()[0] == "127.0.0.1"


def test_descriptors_that_run_out_cost_the_idle_their_place(background: Background) -> None:
    """In a process of its own: few descriptors, and more who wait than there are."""
    program = """
import resource, socket, sys
from rdmaqp.connection.exchange import Exchange, Listener
listener = Listener(0)
print(listener.port, flush=True)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
strangers = []
exchange = listener.accept(60, on_stranger=strangers.append, patience=60)
print(len(strangers), "turned away", flush=True)
"""
    root = str(Path(rdmaqp.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": root},
    ) as server:  # fmt: skip
        assert server.stdin
        assert server.stdout
        port = int(server.stdout.readline())
        with idlers(port, 60):
            print(file=server.stdin, flush=True)
            with Exchange.connect("127.0.0.1", port, 30):
                turned_away = server.stdout.readline()
    assert int(turned_away.split()[0]) >= 20
