"""What the two wires have in common, so that a caller can swap them, and how a server waits for a client."""

from __future__ import annotations

import errno
import os
import select
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from rdmaqp.connection.sockets import (
    AddressError,
    Channel,
    Deadline,
    address_text,
    check_port,
    dial,
    resolve,
    wait_for,
)
from rdmaqp.errors import DeadlineError, PeerError
from rdmaqp.model.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from rdmaqp.model.endpoint import Endpoint

DEFAULT_PORT = 18515
"""The TCP port of ``ibv_rc_pingpong``, and ours."""
PATIENCE_S = 5.0
"""Seconds that a server gives a new connection to greet; others wait behind it."""

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
        return cls._greeted(dial(host, port, deadline), "client", deadline)

    @classmethod
    @checked()
    def listen(cls, port: int = DEFAULT_PORT, host: str = "") -> WireListener[Self]:
        """Listen as :class:`WireListener` does, for peers that speak this wire."""
        return WireListener(cls, port, host)

    @classmethod
    def _greeted(cls, channel: Channel, role: Role, deadline: Deadline) -> Self:
        wire = cls(channel, role)
        try:
            wire._greet(deadline)
        except BaseException:
            channel.close()
            raise
        return wire

    @property
    def peer(self) -> str:
        """The other end's TCP address."""
        return self._channel.peer

    @abstractmethod
    def _greet(self, deadline: Deadline) -> None:
        """Do what shows that both ends mean this wire: the client says it, the server reads it."""

    @abstractmethod
    def exchange_records(
        self,
        local: Endpoint,
        settings: Mapping[str, Setting],
        bring_up: Callable[[Endpoint], None],
        timeout: float,
    ) -> Endpoint:
        """Swap records, call *bring_up* with the peer's when this wire wants it, and return the peer's.

        *bring_up* brings the local queue pair to RTS, its receives posted. When this returns, traffic may
        begin.

        Raises:
            DeadlineError: the peer was too slow.
            PeerError: the peer went away, gave up, or sent something else.
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


W = TypeVar("W", bound=Wire)


class WireListener(Generic[W]):
    """A TCP port on which a server waits for clients; a context manager.

    Close it once the clients that are wanted have come, so that others are refused instead of waiting in
    vain; closing leaves accepted ones alone.

    Args:
        wire: what the clients speak.
        port: 0 takes a free one, see :attr:`port`.
        host: the local name or address to listen on; empty is all of them, IPv4 and IPv6.

    Raises:
        AddressError: the port is taken or not allowed, or *host* is none of this machine.
    """

    def __init__(self, wire: type[W], port: int = DEFAULT_PORT, host: str = "") -> None:
        check_port(port)
        self._wire = wire
        self._sock = _bound(port, host)
        self._sock.settimeout(0)

    @property
    def port(self) -> int:
        """The TCP port it listens on."""
        return int(self._sock.getsockname()[1])

    @checked()
    def accept(
        self,
        timeout: float | None = None,
        *,
        on_stranger: Callable[[PeerError], None] | None = None,
        patience: float = PATIENCE_S,
    ) -> W:
        """Wait for a client that greets as it should.

        Args:
            timeout: seconds; ``None`` waits until a signal.
            on_stranger: called for each connection that closes, sends garbage or stays mute, after which
                listening goes on; without it the first such connection raises.
            patience: seconds that a new connection has for its greeting.

        Raises:
            DeadlineError: nobody came.
            PeerError: the first who came was a stranger, and *on_stranger* is not given.
        """
        deadline = Deadline(timeout)
        while wait_for(self._sock, select.POLLIN, deadline):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, ConnectionError):
                continue  # it has gone again
            try:
                return self._greet(sock, address_text(address), min(patience, deadline.left()))
            except PeerError as error:
                if on_stranger is None:
                    raise
                on_stranger(error)
        raise DeadlineError(f"no client connected to TCP port {self.port} within {deadline}")

    def _greet(self, sock: socket.socket, peer: str, patience: float) -> W:
        try:
            return self._wire._greeted(Channel(sock, peer), "server", Deadline(patience))
        except DeadlineError as error:
            raise PeerError(f"{error}\na port scanner looks like this, too", peer) from error

    def close(self) -> None:
        """Stop listening; again is harmless."""
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _bound(port: int, host: str) -> socket.socket:
    if not host:
        try:
            return _listening(socket.AF_INET6, ("::", port))
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise _unusable(error, port) from error
        host = "0.0.0.0"  # noqa: S104 - a server; the kernel has no IPv6
    found = resolve(host, port, Deadline(None), socket.AI_PASSIVE)
    try:
        return _listening(found[0][0], found[0][4])
    except OSError as error:
        raise _unusable(error, port, host) from error


def _listening(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        sock.bind(address)
        sock.listen()  # this, too, says that the port is taken
    except BaseException:
        sock.close()
        raise
    return sock


def _unusable(error: OSError, port: int, host: str = "") -> AddressError:
    place = f"TCP port {port}" + (f" of {host}" if host else "")
    if error.errno == errno.EADDRINUSE:
        text = (
            f"{place} is taken by another program\n"
            f"choose another on both ends (--port), or see who has it: ss -ltnp 'sport = :{port}'"
        )
    elif error.errno == errno.EACCES:
        text = f"{place} needs privileges\nchoose one from 1024 on (--port)"
    elif error.errno == errno.EADDRNOTAVAIL:
        text = f"{host} is no address of this machine\nleave it out to listen on all, or see: ip address"
    else:
        text = f"cannot listen on {place}: {os.strerror(error.errno or 0)}"
    return AddressError(text, error.errno)
