"""Two ends on the null device, connected or about to agree, and work in a thread; for a process of
:mod:`null_side`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from null_side import rdmaqp, stub

FLUSHES = {"FLUSH": 1}


def pair(**options: Any) -> tuple[Any, Any]:
    """A client's and a server's connection. The null device loses what finds no receive posted: few messages."""
    stub(**FLUSHES)
    context, made = rdmaqp.open(), []
    with rdmaqp.Listener(0) as listener:
        other = threading.Thread(
            target=lambda: made.append(rdmaqp.Connection(listener.accept(10), context, **{"depth": 16} | options))
        )
        other.start()
        client = rdmaqp.Connection.connect("127.0.0.1", listener.port, device=context, **{"depth": 16} | options)
        other.join(10)
    return client, made[0]


def meanwhile(work: Any) -> Any:
    """Start *work*; call what is returned to have its result."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def finish() -> Any:
        thread.join(30)
        return found[0]

    return finish


def told(error: BaseException) -> dict[str, Any]:
    reasons = getattr(error, "reasons", {})
    return {"type": type(error).__name__, "text": str(error), "reasons": reasons}


def in_threads(server: Callable[[Any], Any], client: Callable[[Any], Any], secret: bytes | None = None) -> list[Any]:
    """What *server* and *client* return of their exchange, or raise, as dictionaries."""
    found: list[Any] = [None, None]

    def one(at: int, exchange: Any, work: Callable[[Any], Any]) -> None:
        try:
            with exchange:
                found[at] = work(exchange)
        except rdmaqp.RdmaqpError as error:
            found[at] = told(error)

    with rdmaqp.Listener(0, secret=secret) as listener:
        other = threading.Thread(target=lambda: one(0, listener.accept(10), server))
        other.start()
        one(1, rdmaqp.Exchange.connect("127.0.0.1", listener.port, 10, secret=secret), client)
        other.join(10)
    return found


def in_asyncio(server: Callable[[Any], Any], client: Callable[[Any], Any]) -> list[Any]:
    """The same in one event loop: what *server* and *client*, which are awaited, return."""

    async def both() -> list[Any]:
        async with rdmaqp.listen(0) as listener:
            ours, theirs = await asyncio.gather(
                listener.accept(10), rdmaqp.AsyncExchange.connect("127.0.0.1", listener.port, 10)
            )
            async with theirs, ours:
                return list(await asyncio.gather(server(ours), client(theirs)))

    return asyncio.run(both())
