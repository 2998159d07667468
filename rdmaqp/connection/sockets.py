"""TCP for the exchange: every wait has a deadline, every failure names the peer, and Ctrl-C gets through.

The sockets are non-blocking and all waiting is done in ``poll``, so that one deadline covers a whole
message: a peer that trickles a byte a second cannot restart the clock.
"""

from __future__ import annotations

import math
import select
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.errors import ClosedError, DeadlineError, PeerError, RdmaqpError

if TYPE_CHECKING:
    from collections.abc import Iterator

KEEPALIVE_IDLE_S = 3
"""Seconds without a byte after which the kernel asks whether the other host is still there."""
VANISHED_AFTER_S = 10
"""Seconds of silence of its kernel after which a host counts as vanished."""
LONGEST_POLL_S = 3600.0  # poll() takes a C int of milliseconds


class AddressError(RdmaqpError, OSError):
    """A host name or TCP port of this end cannot be used.

    Attributes:
        errno: the error number; ``None`` where a name did not resolve.
    """

    def __init__(self, message: str, error: int | None = None) -> None:
        super().__init__(error, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class GoneError(PeerError):
    """The peer has closed or reset the connection, or the network between the two has lost it."""


class Deadline:
    """A point in time, *seconds* from now; ``None`` is never.

    Raises:
        ValueError: *seconds* is negative or NaN.  TypeError: it is no number.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not hasattr(seconds, "__float__"):
            raise TypeError(f"a timeout is a number of seconds or None, not {seconds!r:.50} ({type(seconds).__name__})")
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"a timeout is 0 s or more, or None, not {seconds}")
        self.seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, never negative; infinity where there is no deadline."""
        return max(0.0, self._end - time.monotonic())

    def share(self, parts: int) -> Deadline:
        """The deadline of the first of *parts* attempts that have to fit into what is left."""
        left = self.left() / parts
        return Deadline(None if math.isinf(left) else left)

    def __str__(self) -> str:
        return "for ever" if self.seconds is None else f"{self.seconds:.3g} s"


class Need(NamedTuple):
    """What a conversation waits for: ``POLLIN`` for up to *size* bytes of *what*, or ``POLLOUT`` for room for it."""

    events: int
    what: str
    size: int = 0


class Channel:
    """A connected TCP socket that belongs to one thread, with what has come in but is not understood yet.

    Attributes:
        peer: the other end's address, as errors show it.
        buffer: bytes received and not consumed; never more than the caller asked for.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self.peer = peer
        self.buffer = bytearray()
        self._sock = sock
        self._torn = False
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Without these a host that lost its power looks like one that has nothing to say.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, VANISHED_AFTER_S - KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_AFTER_S * 1000)

    def more(self, size: int, deadline: Deadline, awaiting: str) -> None:
        """Wait for at least one byte and add what is there, up to *size* bytes, to :attr:`buffer`.

        Raises:
            DeadlineError: nothing came in time, or a message that had begun was not complete in time.
            GoneError: the peer closed, or the connection broke.
        """
        # What is there counts at the deadline too, unless it is the next crumb of a message that never ends.
        overdue = bool(self.buffer) and not deadline.left()
        if overdue or not wait_for(self._open(), select.POLLIN, deadline):
            raise self.late(Need(select.POLLIN, awaiting), deadline)
        self.more_now(size, f"while this end waited for {awaiting}")

    def late(self, need: Need, deadline: Deadline) -> DeadlineError:
        """What is raised where *need* was not met before *deadline*."""
        if need.events == select.POLLOUT:
            return DeadlineError(f"peer {self.peer} did not take {need.what} within {deadline}")
        began = f" (only {len(self.buffer)} bytes of it came)" if self.buffer else ""
        return DeadlineError(f"peer {self.peer} did not send {need.what} within {deadline}{began}")

    def settle(self, need: Need, deadline: Deadline) -> None:
        """Wait until *need* is met. Raises as :meth:`more`."""
        if need.events == select.POLLIN:
            self.more(need.size, deadline, need.what)
        elif not wait_for(self._open(), need.events, deadline):
            raise self.late(need, deadline)

    def more_now(self, size: int, moment: str) -> bool:
        """Like :meth:`more` without waiting; ``False`` where nothing is there. Errors say *moment*."""
        try:
            data = self._open().recv(size)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._broken(error, moment) from error
        if not data:
            part = f", {len(self.buffer)} bytes into a message" if self.buffer else ""
            raise GoneError(
                f"peer {self.peer} closed the connection {moment}{part}: it ended or was killed", self.peer
            )
        self.buffer += data
        return True

    def send(self, data: bytes, deadline: Deadline, what: str) -> None:
        """Send all of *data*.

        Raises:
            DeadlineError: the peer does not read.
            GoneError: the peer closed, or the connection broke.
        """
        for need in self.sending(data, what):
            self.settle(need, deadline)

    def sending(self, data: bytes, what: str) -> Iterator[Need]:
        """Send all of *data*, without waiting: it yields where there is no room. Raises as :meth:`send`."""
        rest = memoryview(data)
        sock = self._open()
        if self._torn:
            raise PeerError(f"an earlier message to peer {self.peer} was sent in part only", self.peer)
        self._torn = True
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except BlockingIOError:
                yield Need(select.POLLOUT, what)
            except OSError as error:
                raise self._broken(error, f"while this end sent {what}") from error
        self._torn = False

    def fileno(self) -> int:
        """The socket's descriptor, for ``select`` and the like. Raises :class:`ClosedError`."""
        return self._open().fileno()

    def close(self) -> None:
        """Close the socket; again is harmless."""
        self._sock.close()

    @property
    def closed(self) -> bool:
        """Whether this end has closed it."""
        return self._sock.fileno() < 0

    def _open(self) -> socket.socket:
        if self.closed:
            raise ClosedError(f"the exchange with peer {self.peer} is closed at this end")
        return self._sock

    def _broken(self, error: OSError, moment: str) -> GoneError:
        if isinstance(error, (ConnectionResetError, BrokenPipeError)):
            return GoneError(
                f"peer {self.peer} reset the connection {moment}: it ended or was killed", self.peer
            )
        return GoneError(f"the connection to peer {self.peer} broke {moment}: {error.strerror}", self.peer)


def wait_for(sock: socket.socket, events: int, deadline: Deadline) -> bool:
    """Wait until *sock* is ready for *events* or failed; ``False`` at the deadline. Signals get through."""
    poller = select.poll()
    poller.register(sock, events)
    while True:
        left = deadline.left()
        if poller.poll(math.ceil(min(left, LONGEST_POLL_S) * 1000)):
            return True
        if not left:
            return False


def address_text(address: Any) -> str:
    """A socket address as text: ``10.0.0.1:80``, ``[fe80::1]:80``; an IPv4-mapped one as IPv4."""
    host, port = str(address[0]), address[1]
    host = host.removeprefix("::ffff:") if "." in host else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_port(port: int) -> None:
    """Raise ``ValueError`` unless *port* is 0…65535."""
    if not 0 <= port <= 0xFFFF:
        raise ValueError(f"a TCP port is 0…65535, not {port}")
