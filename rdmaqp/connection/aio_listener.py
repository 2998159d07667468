"""A server of the exchange for asyncio: many clients at once in one event loop.

    async with rdmaqp.listen(18515, "", secret=key) as server:
        async for exchange in server:
            tasks.create_task(serve(exchange))
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.connection.aio import AsyncExchange
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.listener import DEFAULT_PORT, LOOPBACK, MOST_NEWCOMERS, PATIENCE_S, bound
from rdmaqp.connection.secrecy import check_secret
from rdmaqp.connection.sockets import Channel, Deadline, address_text
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable


class AsyncListener:
    """A TCP port on which an asyncio server waits for clients. Made by :func:`listen`.

    Each new connection greets in a task of its own, so that none holds up the others. Those that do not greet as they
    should are turned away, and *on_stranger* is told.
    """

    def __init__(
        self, port: int, host: str, secret: bytes | None, patience: float,
        on_stranger: Callable[[PeerError], None] | None,
    ) -> None:  # fmt: skip
        self._asked = (port, host)
        self._secret = check_secret(secret)
        self._patience = patience
        self._on_stranger = on_stranger
        self._greeted: asyncio.Queue[AsyncExchange] = asyncio.Queue()
        #: Those that have not greeted yet, the longest here first.
        self._newcomers: dict[asyncio.Task[None], AsyncExchange] = {}
        self._sock: Any = None

    @property
    def port(self) -> int:
        """The TCP port it listens on. Raises :class:`ClosedError` outside of its ``async with``."""
        return int(self._open().getsockname()[1])

    def _open(self) -> Any:
        if self._sock is None:
            raise ClosedError("this listener listens inside of its `async with` only")
        return self._sock

    async def __aenter__(self) -> Self:
        self._sock = bound(*self._asked)
        self._sock.settimeout(0)
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._take)
        return self

    async def __aexit__(self, *error: object) -> None:
        sock, self._sock = self._sock, None
        asyncio.get_running_loop().remove_reader(sock.fileno())
        sock.close()
        for task in self._newcomers:
            task.cancel()
        await asyncio.gather(*self._newcomers, return_exceptions=True)
        while not self._greeted.empty():  # they greeted, and nobody took them
            self._greeted.get_nowait().close()

    def _take(self) -> None:
        try:
            sock, address = self._sock.accept()
        except (BlockingIOError, ConnectionError):
            return  # it has gone again
        except OSError:  # no descriptor is left: one that only waits has to go
            waiting = next((task for task in self._newcomers if not task.cancelling()), None)
            if waiting is not None:
                self._crowd_out(waiting)
            self._pause()
            return
        if len(self._newcomers) >= MOST_NEWCOMERS:
            self._crowd_out(next(task for task in self._newcomers if not task.cancelling()))
        exchange = AsyncExchange(Exchange(Channel(sock, address_text(address)), "server", self._secret))
        task = asyncio.ensure_future(self._greet(exchange))
        self._newcomers[task] = exchange
        task.add_done_callback(self._greeting_ended)

    def _greeting_ended(self, task: asyncio.Task[None]) -> None:
        exchange = self._newcomers.pop(task)
        if task.cancelled():  # perhaps before it began; never sooner, since its descriptor is watched until then
            exchange.close()

    def _pause(self) -> None:
        """Do not ask again at once: whoever waits to be accepted still does."""
        loop, fd = asyncio.get_running_loop(), self._sock.fileno()
        loop.remove_reader(fd)
        loop.call_later(0.1, lambda: self._sock is not None and loop.add_reader(fd, self._take))

    def _crowd_out(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        exchange = self._newcomers[task]
        self._turn_away(PeerError(
            f"peer {exchange.peer} had not greeted yet, and has to make room for others", exchange.peer
        ))  # fmt: skip

    def _turn_away(self, stranger: PeerError) -> None:
        if self._on_stranger is not None:
            self._on_stranger(stranger)

    async def _greet(self, exchange: AsyncExchange) -> None:
        try:
            self._greeted.put_nowait(await exchange.greeted(Deadline(self._patience)))
        except (PeerError, DeadlineError) as error:
            self._turn_away(error if isinstance(error, PeerError) else PeerError(str(error), exchange.peer))

    @checked()
    async def accept(self, timeout: float | None = None) -> AsyncExchange:
        """The next client that has greeted as it should. Several tasks may wait here.

        Raises:
            DeadlineError: nobody came within *timeout* seconds.
            ClosedError: it is outside of its ``async with``.
        """
        self._open()
        try:
            return await asyncio.wait_for(self._greeted.get(), timeout)
        except TimeoutError:
            raise DeadlineError(f"no client connected to TCP port {self.port} within {timeout:g} s") from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncExchange:
        return await self.accept()


@checked()
def listen(
    port: int = DEFAULT_PORT,
    host: str = LOOPBACK,
    *,
    secret: bytes | None = None,
    patience: float = PATIENCE_S,
    on_stranger: Callable[[PeerError], None] | None = None,
) -> AsyncListener:
    """An asyncio server of the exchange: ``async with listen() as server``, then ``accept()`` or ``async for``.

    Args:
        port: 0 takes a free one, see :attr:`AsyncListener.port`.
        host: the local name or address to listen on. By itself only this machine reaches it; a server for others names
            its address, or ``""`` for all of them, IPv4 and IPv6.
        secret: 16 bytes or more, which a client has to prove.
        patience: seconds that a new connection has for its greeting. Of 256 that are greeting the oldest is turned
            away for the next.
        on_stranger: called for each connection that closes, sends garbage, stays mute, or has not the secret.

    Raises:
        AddressError: (on entering) the port is taken or not allowed, or *host* is none of this machine.
        ValueError: *secret* is too short.
    """
    return AsyncListener(port, host, secret, patience, on_stranger)
