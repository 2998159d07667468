"""How a server waits for clients: many may be on their way in at once, and none holds up the others."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rdmaqp.connection.dialing import resolve
from rdmaqp.connection.sockets import LONGEST_POLL_S, AddressError, Channel, Deadline, address_text, check_port
from rdmaqp.errors import DeadlineError, PeerError
from rdmaqp.model.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.connection.wire import Role, Wire

DEFAULT_PORT = 18515
"""The TCP port of ``ibv_rc_pingpong``, and ours."""
LOOPBACK = "127.0.0.1"
"""Where a server listens by itself: only this machine reaches it."""
PATIENCE_S = 5.0
"""Seconds that a server gives a new connection to greet."""
MOST_NEWCOMERS = 256
"""Connections that may be greeting at the same time."""

W = TypeVar("W", bound="Wire")


class Newcomer(Generic[W]):
    """A connection that has not greeted yet.

    Attributes:
        wire: its end here.
        need: what it waits for.
    """

    def __init__(self, wire: W, deadline: Deadline) -> None:
        self.wire, self.deadline = wire, deadline
        self._steps = wire.greeting()
        self.need = next(self._steps)  # a server hears first

    def go_on(self) -> bool:
        """Go on with what is there; whether it has greeted. Raises :class:`PeerError`."""
        if self.need.events == select.POLLIN:
            self.wire.channel.more_now(self.need.size, f"while this end waited for {self.need.what}")
        try:
            self.need = next(self._steps)
        except StopIteration:
            return True
        return False

    def late(self) -> PeerError:
        """What is said of one whose time is over."""
        error = self.wire.channel.late(self.need, self.deadline)
        return PeerError(f"{error}\na port scanner looks like this, too", self.wire.peer)

    def crowded_out(self) -> PeerError:
        """What is said of one that has to make room for the next."""
        text = f"peer {self.wire.peer} had not greeted yet, and has to make room for others"
        return PeerError(text, self.wire.peer)


class WireListener(Generic[W]):
    """A TCP port on which a server waits for clients; a context manager.

    Close it once the clients that are wanted have come, so that others are refused instead of waiting in
    vain; closing leaves accepted ones alone.

    Args:
        wire: makes a wire, which the clients speak, of a channel and the role ``"server"``.
        port: 0 takes a free one, see :attr:`port`.
        host: the local name or address to listen on. By itself only this machine reaches it; a server for others
            names its address, or ``""`` for all of them, IPv4 and IPv6.

    Raises:
        AddressError: the port is taken or not allowed, or *host* is none of this machine.
    """

    def __init__(self, wire: Callable[[Channel, Role], W], port: int = DEFAULT_PORT, host: str = LOOPBACK) -> None:
        check_port(port)
        self._wire = wire
        self._sock = bound(port, host)
        self._sock.settimeout(0)
        #: Those that have not greeted yet, by descriptor, the longest here first.
        self._newcomers: dict[int, Newcomer[W]] = {}

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
        """Wait for a client that greets as it should. Those that have not yet are listened to at the same time.

        Args:
            timeout: seconds; ``None`` waits until a signal.
            on_stranger: called for each connection that closes, sends garbage or stays mute, after which
                listening goes on; without it the first such connection raises.
            patience: seconds that a new connection has for its greeting. Of 256 that are greeting the oldest is
                turned away for the next.

        Raises:
            DeadlineError: nobody came.
            PeerError: the first who came was a stranger, and *on_stranger* is not given.
        """
        deadline = Deadline(timeout)
        while True:
            try:
                wire = self._next(deadline, patience)
            except PeerError as error:
                if on_stranger is None:
                    raise
                on_stranger(error)
                continue
            if wire is not None:
                return wire
            if not deadline.left():
                raise DeadlineError(f"no client connected to TCP port {self.port} within {deadline}")

    def _next(self, deadline: Deadline, patience: float) -> W | None:
        """The next to have greeted, where one has before something else happens, or *deadline*."""
        poller = select.poll()
        poller.register(self._sock, select.POLLIN)
        for fd, newcomer in self._newcomers.items():
            poller.register(fd, newcomer.need.events)
        left = min([deadline.left(), *(newcomer.deadline.left() for newcomer in self._newcomers.values())])
        ready = [fd for fd, _ in poller.poll(math.ceil(min(left, LONGEST_POLL_S) * 1000))]
        if self._sock.fileno() in ready:
            self._take(patience)
        for fd in ready:
            if fd in self._newcomers:
                wire = self._go_on(fd)
                if wire is not None:
                    return wire
        for fd, newcomer in list(self._newcomers.items()):
            if not newcomer.deadline.left():
                raise self._turned_away(fd, newcomer.late())
        return None

    def _take(self, patience: float) -> None:
        try:
            sock, address = self._sock.accept()
        except (BlockingIOError, ConnectionError):
            return  # it has gone again
        except OSError:  # no descriptor is left: one that only waits has to go
            if not self._newcomers:
                raise
            fd, oldest = next(iter(self._newcomers.items()))
            raise self._turned_away(fd, oldest.crowded_out()) from None
        newcomer = Newcomer(self._wire(Channel(sock, address_text(address)), "server"), Deadline(patience))
        self._newcomers[sock.fileno()] = newcomer
        if len(self._newcomers) > MOST_NEWCOMERS:
            fd, oldest = next(iter(self._newcomers.items()))
            raise self._turned_away(fd, oldest.crowded_out())

    def _go_on(self, fd: int) -> W | None:
        newcomer = self._newcomers[fd]
        try:
            if not newcomer.go_on():
                return None
        except PeerError as error:
            raise self._turned_away(fd, error) from error
        del self._newcomers[fd]
        return newcomer.wire

    def _turned_away(self, fd: int, error: PeerError) -> PeerError:
        self._newcomers.pop(fd).wire.close()
        return error

    def close(self) -> None:
        """Stop listening; again is harmless."""
        self._sock.close()
        for newcomer in self._newcomers.values():
            newcomer.wire.close()
        self._newcomers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def bound(port: int, host: str) -> socket.socket:
    """A socket that listens there; see :class:`WireListener`. Raises :class:`AddressError`."""
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
        sock.listen(2 * MOST_NEWCOMERS)  # this, too, says that the port is taken
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
