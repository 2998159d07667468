"""The exchange for asyncio: the same conversation and the same bytes, many at once in one event loop."""

from __future__ import annotations

import asyncio
import math
import select
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rdmaqp.connection.agreement import Agreed, Agreement
from rdmaqp.connection.agreement_many import AgreedMany, AgreementMany
from rdmaqp.connection.dialing import dial
from rdmaqp.connection.driven import Turns
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.recovery import Recovered, Recovery, RecoveryError
from rdmaqp.connection.secrecy import check_secret
from rdmaqp.connection.sockets import Channel, Deadline, Need
from rdmaqp.connection.wire import DEFAULT_PORT
from rdmaqp.errors import DeadlineError, PeerError, RdmaqpError
from rdmaqp.model.arguments import checked
from rdmaqp.model.steps import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from rdmaqp.connection.talk import Do, Steps
    from rdmaqp.connection.wire import Role, Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.endpoints import Endpoints
    from rdmaqp.verbs.group import QueuePairs
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
        return await cls(Exchange(channel, "client", secret)).greeted(deadline)

    async def greeted(self, deadline: Deadline) -> Self:
        """This exchange, once both ends have shown that they mean it. Closes, and raises, where they do not."""
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

    @checked(bring_up)
    async def agree_all(
        self,
        qps: QueuePairs,
        local: Endpoints | None = None,
        *,
        timeout: float,
        settings: Mapping[str, Setting] | None = None,
        told: Mapping[str, Setting] | None = None,
        **options: Any,
    ) -> AgreedMany:
        """Bring a group of queue pairs up with the peer's; as :meth:`Exchange.agree_all`."""
        plan = AgreementMany(qps, local, options)
        talk = self._exchange.talk.agree(plan.begin(settings, told))
        return plan.result(await self._drive(talk, Deadline(timeout)))

    @checked()
    async def recover(
        self,
        qp: QueuePair | Recovery,
        agreed: Agreed | None = None,
        *,
        timeout: float,
        settings: Mapping[str, Setting] | None = None,
        told: Mapping[str, Setting] | None = None,
        prepare: Callable[[QueuePair], None] | None = None,
    ) -> Recovered:
        """Bring *qp* back to RTS together with the peer's; as :meth:`Exchange.recover`."""
        deadline = Deadline(timeout)
        recovery = await self._in_thread(lambda: Recovery.of(qp, agreed, deadline.left()))
        try:
            plan, brought = await self._in_thread(lambda: recovery.plan(settings, told, prepare))
            result = plan.result(await self._drive(self._exchange.talk.agree(brought), deadline))
        except RdmaqpError as error:
            raise RecoveryError(recovery, error) from error
        return Recovered(recovery.qp, result, recovery.reaped)

    @property
    def in_step(self) -> bool:
        """Whether the two can agree once more."""
        return self._exchange.in_step

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
        turns = Turns(self._exchange.stepping(steps))
        while (need := turns.next()) is not None:
            try:
                turns.answer(await self._meet(need, deadline))
            except (PeerError, DeadlineError) as error:
                turns.fail(error)
        return turns.result

    async def _meet(self, need: Need | Do, deadline: Deadline) -> Any:
        if isinstance(need, Need):
            return await _settled(self._exchange.channel, need, deadline)
        return await self._in_thread(need.work)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        running = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread moves the queue pair still: whoever closes that must not do so under its hands.
            await asyncio.wait([running])
            self.fail("cancelled")
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
