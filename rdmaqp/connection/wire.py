"""What the two wires have in common, so that a caller can swap them, and how a server waits for a client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, Self

from rdmaqp.connection.dialing import dial
from rdmaqp.connection.listener import DEFAULT_PORT as DEFAULT_PORT
from rdmaqp.connection.listener import LOOPBACK as LOOPBACK
from rdmaqp.connection.listener import WireListener as WireListener
from rdmaqp.connection.sockets import Channel, Deadline, Need
from rdmaqp.errors import PeerError
from rdmaqp.model.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType

    from rdmaqp.model.endpoint import Endpoint

Role = Literal["server", "client"]
Setting = str | int | float | bool | None


class Wire(ABC):
    """One end of an out-of-band TCP connection over which two queue pairs learn each other's record.

    It belongs to one thread. As a context manager it closes at the end, and tells the peer why where an error
    or Ctrl-C ended the block. Every *timeout* is in seconds and covers the whole call.

    Attributes:
        role: ``"client"`` where this end connected, else ``"server"``.
    """

    def __init__(self, channel: Channel, role: Role) -> None:
        self._channel = channel
        self.role: Role = role

    @classmethod
    @checked()
    def connect(cls, host: str, port: int = DEFAULT_PORT, timeout: float = 10.0) -> Self:
        """Connect to a server; again and again while that is refused: it may start a little later.

        Raises:
            AddressError: *host* cannot be resolved.
            DeadlineError: the name server or the peer was too slow.
            PeerError: nobody listened in time, or the host cannot be reached.
        """
        deadline = Deadline(timeout)
        return cls(dial(host, port, deadline), "client").greeted(deadline)

    @classmethod
    @checked()
    def listen(cls, port: int = DEFAULT_PORT, host: str = LOOPBACK) -> WireListener[Self]:
        """Listen as :class:`WireListener` does, for peers that speak this wire."""
        return WireListener(cls, port, host)

    def greeted(self, deadline: Deadline) -> Self:
        """This wire, once both ends have shown that they mean it. Closes, and raises, where they do not."""
        try:
            for need in self.greeting():
                self._channel.settle(need, deadline)
        except BaseException:
            self._channel.close()
            raise
        return self

    @property
    def channel(self) -> Channel:
        """The connection."""
        return self._channel

    @property
    def peer(self) -> str:
        """The other end's TCP address."""
        return self._channel.peer

    @abstractmethod
    def greeting(self) -> Generator[Need, None, None]:
        """Do what shows that both ends mean this wire: the client says it, the server reads it.

        It does not wait: it yields what it needs to go on.
        """

    @abstractmethod
    def exchange_records(
        self,
        local: Endpoint,
        settings: Mapping[str, Setting],
        bring_up: Callable[[Endpoint], None],
        timeout: float,
        judge: Callable[[Endpoint], str | None] | None = None,
    ) -> Endpoint:
        """Swap records, call *bring_up* with the peer's when this wire wants it, and return the peer's.

        *judge* says why this end refuses the peer's record, where it does, before either end brings anything up; a
        wire without a word for it does not ask. *bring_up* brings the local queue pair to RTS, its receives posted.
        When this returns, traffic may begin.

        Raises:
            DeadlineError: the peer was too slow.
            PeerError: the peer went away, gave up, or sent something else.
            RefusedError: one of the two refused.
            ValueError: *local* or *settings* cannot be written on this wire.
        """

    @abstractmethod
    def barrier(self, name: str, timeout: float) -> None:
        """Wait until the peer is at the same barrier, where the wire has such a thing; else do nothing.

        Raises:
            DeadlineError: it did not come in time.
            PeerError: it went away, gave up, or is at another one.
        """

    @abstractmethod
    def check_peer(self) -> None:
        """Raise :class:`PeerError` where the peer is known to be gone or to have given up. Does not wait.

        It costs one system call. Where the wire cannot know, it does nothing.
        """

    @abstractmethod
    def fail(self, reason: str) -> bool:
        """Tell the peer, if the wire can, that this end gives up and why. Never raises and does not wait.

        Returns whether the words are on their way. Later calls do nothing: the first reason counts.
        """

    def close(self) -> None:
        """Close the connection; again is harmless."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Where the peer is the reason, it knows already.
        if error is not None and not isinstance(error, PeerError):
            self.fail(reason_of(error))
        self.close()


def reason_of(error: BaseException) -> str:
    """What the peer is told of *error*."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted (Ctrl-C)"
    return str(error) or type(error).__name__
