"""The exchange for asyncio: the same conversation and the same bytes, many at once in one event loop.

    async with rdmaqp.listen(18515, "", secret=key) as server:
        async for exchange in server:
            tasks.create_task(serve(exchange))
"""

from __future__ import annotations

import asyncio
import math
import select
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rdmaqp.connection.agreement import Agreed, Agreement
from rdmaqp.connection.dialing import dial
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.listener import DEFAULT_PORT, LOOPBACK, MOST_NEWCOMERS, PATIENCE_S, bound
from rdmaqp.connection.secrecy import check_secret
from rdmaqp.connection.sockets import Channel, Deadline, Need, address_text
from rdmaqp.connection.wire import reason_of
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.arguments import checked
from rdmaqp.model.steps import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from rdmaqp.connection.talk import Do, Steps
    from rdmaqp.connection.wire import Role, Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.queue_pair import QueuePair

T = TypeVar("T")


class AsyncExchange:
    """One end of the exchange, for one task of an event loop. See :class:`~rdmaqp.Exchange`, whose calls these are.

    Bringing a queue pair up may take a second (an address that has to be resolved): that runs in a thread.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @classmethod
    @checked()
    async def connect(
        cls, host: str, port: int = DEFAULT_PORT, timeout: float = 10.0, *, secret: bytes | None = None
    ) -> Self:
        """Connect to a server; again and again while that is refused. Raises as :meth:`Exchange.connect`."""
        check_secret(secret)
        deadline = Deadline(timeout)
        channel = await asyncio.to_thread(dial, host, port, deadline)
        return await cls(Exchange(channel, "client", secret))._greeted(deadline)

    async def _greeted(self, deadline: Deadline) -> Self:
        try:
            await self._drive(self._exchange.talk.greet(), deadline)
        except BaseException:
            self.close()
            raise
        return self

    @property
    def role(self) -> Role:
        """``"client"`` where this end connected, else ``"server"``."""
        return self._exchange.role

    @property
    def peer(self) -> str:
        """The other end's TCP address."""
        return self._exchange.peer

    @checked()
    async def swap(
        self, local: Endpoint, settings: Mapping[str, Setting], timeout: float
    ) -> tuple[Endpoint, dict[str, Setting]]:
        """Tell *local* and *settings*, and return the peer's; as :meth:`Exchange.swap`."""
        heard = (await self._drive(self._exchange.talk.swap(local, settings, {}), Deadline(timeout)))[2]
        return heard.remote, heard.settings

    @checked(bring_up)
    async def agree(
        self,
        qp: QueuePair,
        local: Endpoint | None = None,
        *,
        timeout: float,
        settings: Mapping[str, Setting] | None = None,
        told: Mapping[str, Setting] | None = None,
        prepare: Callable[[], None] | None = None,
        **options: Any,
    ) -> Agreed:
        """Bring *qp* up with the peer's queue pair; as :meth:`Exchange.agree`."""
        plan = Agreement(qp, local, prepare, options)
        talk = self._exchange.talk.agree(plan.begin(settings, told))
        return plan.result(await self._drive(talk, Deadline(timeout)))

    @checked()
    async def barrier(self, name: str, timeout: float) -> None:
        """Wait until the peer is at the barrier *name*, too."""
        await self._drive(self._exchange.talk.meet(name), Deadline(timeout))

    def check_peer(self) -> None:
        """Raise :class:`PeerError` where the peer has closed, was killed, or gave up."""
        self._exchange.check_peer()

    def has_news(self) -> bool:
        """Whether the peer has sent what comes next. Raises as :meth:`check_peer`."""
        return self._exchange.has_news()

    def fail(self, reason: str) -> bool:
        """Tell the peer that this end gives up. Never raises."""
        return self._exchange.fail(reason)

    def close(self) -> None:
        """Close the connection; again is harmless."""
        self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exchange.__exit__(kind, error, trace)

    async def _drive(self, steps: Steps[T], deadline: Deadline) -> T:
        """Hold a conversation, and let others run wherever it has to wait."""
        needs = self._exchange.stepping(steps)
        go_on: Callable[[], Need | Do] = partial(needs.send, None)
        while True:
            try:
                need = go_on()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                go_on = partial(needs.send, await self._meet(need, deadline))
            except (PeerError, DeadlineError) as error:
                go_on = partial(needs.throw, error)

    async def _meet(self, need: Need | Do, deadline: Deadline) -> Any:
        if isinstance(need, Need):
            return await _settled(self._exchange.channel, need, deadline)
        try:
            return await asyncio.shield(work := asyncio.ensure_future(asyncio.to_thread(need.work)))
        except asyncio.CancelledError:
            # The thread moves the queue pair still: whoever closes that must not do so under its hands.
            await asyncio.wait([work])
            self.fail("cancelled")
            raise
        except BaseException as error:
            self.fail(reason_of(error))
            raise


async def _settled(channel: Channel, need: Need, deadline: Deadline) -> None:
    """Wait until *need* is met, or raise as ``Channel.settle``."""
    # A message that has begun has no more time than one that has not: a crumb at the deadline is too late.
    if (channel.buffer and not deadline.left()) or not await _ready(channel, need.events, deadline):
        raise channel.late(need, deadline)
    if need.events == select.POLLIN:
        channel.more_now(need.size, f"while this end waited for {need.what}")


async def _ready(channel: Channel, events: int, deadline: Deadline) -> bool:
    """Whether the socket is ready for *events* before *deadline*."""
    loop = asyncio.get_running_loop()
    fd = channel.fileno()
    ready = asyncio.Event()
    watch, forget = (
        (loop.add_reader, loop.remove_reader) if events == select.POLLIN else (loop.add_writer, loop.remove_writer)
    )
    watch(fd, ready.set)
    try:
        left = deadline.left()
        await asyncio.wait_for(ready.wait(), None if math.isinf(left) else left)
    except TimeoutError:
        return False
    finally:
        forget(fd)
    return True


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
        self._newcomers: dict[asyncio.Task[None], None] = {}
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
        if len(self._newcomers) >= MOST_NEWCOMERS:
            oldest = next(iter(self._newcomers))
            self._newcomers.pop(oldest)
            oldest.cancel()
        exchange = AsyncExchange(Exchange(Channel(sock, address_text(address)), "server", self._secret))
        task = asyncio.ensure_future(self._greet(exchange))
        self._newcomers[task] = None
        task.add_done_callback(lambda task: self._newcomers.pop(task, None))

    async def _greet(self, exchange: AsyncExchange) -> None:
        try:
            self._greeted.put_nowait(await exchange._greeted(Deadline(self._patience)))
        except (PeerError, DeadlineError) as error:
            if self._on_stranger is not None:
                stranger = error if isinstance(error, PeerError) else PeerError(str(error), exchange.peer)
                self._on_stranger(stranger)

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
