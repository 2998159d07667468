"""A connection that lasts: messages in order, none lost and none twice, through whatever its queue pair goes through.

    with rdmaqp.Connection.connect(host) as connection:                  # the client
        connection.send(b"hello")
        connection.flush(timeout=5)

    with rdmaqp.Listener(host="") as listener, rdmaqp.Connection(listener.accept()) as connection:      # the server
        for message in connection:                                       # until the peer closes
            print(message)

Where a queue pair fails, both ends take everything out of theirs, agree anew over the exchange, which stays open, and
tell each other how many messages they have received. What had arrived without an acknowledgement is done; the rest is
posted again. All this happens within the calls of this object: an end that makes none is waited for.
"""

from __future__ import annotations

import secrets
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.account import Account
from rdmaqp.connection.alone import Alone, alone
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.happening import ConnectionEndedError, ConnectionLostError, Happening
from rdmaqp.connection.lasting import Lasting
from rdmaqp.connection.line import Arrival, Line, flat
from rdmaqp.connection.sockets import Deadline
from rdmaqp.connection.wire import DEFAULT_PORT, reason_of
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.arguments import checked
from rdmaqp.model.steps import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.verbs.device import Context

_LONGEST_LEAVING_S = 5.0  # that a block which an exception ends waits for another thread's call


class Connection(Lasting):
    """Messages of up to *size* bytes over an RC queue pair, both ways, for one thread at a time. See the module.

    It has *depth* messages under way at most, and *depth* receives posted; a peer that does not take its messages makes
    :meth:`send` wait. Two ends that both send, and do not :meth:`recv` in between, wait for each other once *depth*
    messages stand at either: give *timeout*, and receive where it is over. The exchange is its own from here on, and
    closed with it. Where the TCP connection breaks, it is lost, though the queue pair may be well: without it the two
    could not agree again.

    A call that comes while another is under way, in a second thread or in *on_event*, raises :class:`BusyError`. Only
    :meth:`close` may come from any thread: the call under way then raises ClosedError, within a second or so.

    Attributes:
        size: bytes of the longest message that both ends take.
        account: which messages are where.
        recoveries: how often it has recovered.
        agreed: what the two ends have agreed on last.
    """

    @checked(bring_up)
    def __init__(
        self,
        exchange: Exchange,
        device: Context | str | None = None,
        *,
        port_num: int = 1,
        gid_index: int | None = None,
        size: int = 4096,
        depth: int = 64,
        timeout: float = 10.0,
        patience: float = 30.0,
        backoff: float = 0.05,
        on_event: Callable[[Happening], object] | None = None,
        **options: Any,
    ) -> None:
        """Agree with the peer, which does the same at its end, and come up.

        Args:
            exchange: to the peer, as it was made.
            device: an open device or a name; the first with an ACTIVE port by itself.
            port_num: its port.
            gid_index: our GID's; picked by itself.
            size: bytes of a message, 1 or more; the smaller of both ends' counts.
            depth: messages under way, 1 or more.
            timeout: seconds for coming up.
            patience: seconds for a recovery, from the failure on; then the connection is lost.
            backoff: seconds between the first attempts of a recovery; doubled from one to the next, up to 2 s.
            on_event: called with each :class:`Happening`, within the call in which it happens. Where it raises, that is
                logged, and the connection goes on. All go to the logger ``rdmaqp`` too.
            options: those of :func:`~rdmaqp.model.steps.bring_up`.

        Raises:
            as :meth:`Exchange.agree`; DeviceError, VerbsError: the device has not what is needed. MemoryError: it is
                too much memory.
            ValueError: a number is out of range.
        """
        least_of = {"size": (size, 1), "depth": (depth, 1), "patience": (patience, 0), "backoff": (backoff, 0)}
        for name, (value, least) in least_of.items():
            if not value >= least:  # nor is it "not a number"
                raise ValueError(f"{name}: {value} is below {least}")
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event is {on_event!r}; expected a function that takes a Happening, or None")
        size, depth = int(size), int(depth)  # True is 1, and goes over the wire as that
        self._exchange = exchange
        self.recoveries = 0
        self._patience, self._backoff, self._on_event = patience, backoff, on_event
        self._arrived: deque[Arrival] = deque()
        self._peer_sent: int | None = None  # once the peer has said goodbye
        self._dead: PeerError | ClosedError | None = None
        self._alone = Alone()
        try:
            self._line = Line(device, port_num, size=size, depth=depth)
        except BaseException as error:
            self._give_up(error)
            raise
        self.account = Account(depth)
        try:
            local = self._line.qp.endpoint(port_num, psn=secrets.randbits(24), gid_index=gid_index)
            self.agreed = exchange.agree(
                self._line.qp, local, timeout=timeout, told=self._told(),
                prepare=lambda: self._post_receives(self._line.qp), **options,
            )  # fmt: skip
            self.size = min(size, self._number(self.agreed, "size"))
            self._tell("connected", f"{self}: up, MTU {self.agreed.path_mtu}, messages of up to {self.size} bytes")
        except BaseException as error:
            self._give_up(error)
            self._line.close()
            raise

    @classmethod
    @checked()
    def connect(
        cls, host: str, port: int = DEFAULT_PORT, *, secret: bytes | None = None, timeout: float = 10.0, **more: Any
    ) -> Self:
        """Connect to a server there, which has ``Connection(listener.accept())``; *more* as for the class itself.

        Raises as :meth:`Exchange.connect`, and the class itself.
        """
        exchange = Exchange.connect(host, port, timeout, secret=secret)
        try:
            return cls(exchange, timeout=timeout, **more)
        except BaseException as error:
            exchange.fail(reason_of(error))  # no word where it has been said already
            exchange.close()
            raise

    # ------------------------------------------------------------------ messages

    @alone
    def send(self, data: Buffer, timeout: float | None = None) -> int:
        """Send a message of 0…:attr:`size` bytes; returns its number, counted from 1. See :meth:`flush`.

        Its bytes are copied. It waits while *depth* messages are under way.

        Raises:
            DeadlineError: there was no room within *timeout* seconds; the message is not sent.
            ConnectionLostError: the connection does not go on; this message is not among ``unknown``, unless its
                posting was what failed.
            ValueError: it is too long.
            ClosedError: it is closed; BusyError: another of its calls is under way.
        """
        content = flat(data)
        length = len(content)
        if length > self.size:
            raise ValueError(f"a message of {length} bytes: this connection takes up to {self.size}")
        deadline = Deadline(timeout)
        self._require_peer()
        self._look(Deadline(0))
        while not self.account.free:
            self._go_on(deadline, "room for a message")
        self._require_peer()
        parcel = self.account.post(length)
        self._line.write(parcel.slot, content)
        self._post(lambda: self._line.send(parcel.slot, length))
        return parcel.number

    @alone
    def recv(self, timeout: float | None = None) -> bytes:
        """The next message.

        Raises:
            DeadlineError: none came within *timeout* seconds.
            ConnectionEndedError: the peer has closed, and there is nothing more.
            ConnectionLostError: the connection does not go on; what had come before has been returned first.
            ClosedError: it is closed; BusyError: another of its calls is under way.
        """
        deadline = Deadline(timeout)
        self._require_open()
        while not self._arrived:
            if self._peer_sent is not None and self.account.received >= self._peer_sent:
                raise ConnectionEndedError(f"peer {self.peer} has closed the connection in good order", self.peer)
            try:
                (self._go_on if self._peer_sent is None else self._go_on_to_the_last)(deadline)
            except ConnectionLostError:
                if not self._arrived:  # else it has come before, or with the failure: this is raised once all is taken
                    raise
        return self._take()

    def _take(self) -> bytes:
        """The first that has arrived; its slot is posted again."""
        slot, length, taken = self._arrived.popleft()
        data = self._line.read(slot, length, received=True) if taken is None else taken
        if self._dead is None and self._peer_sent is None:  # else nothing more will come
            try:
                self._post(lambda: self._line.receive(self._line.qp, [slot]))
            except ConnectionLostError:
                pass  # the next call says so: this message had come before
            except BaseException:
                self._arrived.appendleft(Arrival(slot, length, data))
                raise
        return data

    @checked()
    @alone
    def flush(self, timeout: float | None = None) -> None:
        """Wait until all messages that were sent have arrived.

        Raises:
            DeadlineError: they had not within *timeout* seconds.
            ConnectionLostError: the connection does not go on.
            BusyError: another of its calls is under way.
        """
        self._flush(timeout)

    def _flush(self, timeout: float | None) -> None:
        deadline = Deadline(timeout)
        while self.account.under_way:
            self._go_on(deadline, f"acknowledgement of {len(self.account.under_way)} messages")

    @alone
    def poll(self) -> None:
        """Look after the connection without waiting. Raises :class:`ConnectionLostError`, ClosedError, BusyError."""
        self._require_alive()
        self._look(Deadline(0))

    def __iter__(self) -> Iterator[bytes]:
        """The messages, until the peer closes in good order."""
        while True:
            try:
                message = self.recv()
            except ConnectionEndedError:
                return
            yield message

    @checked()
    def close(self, timeout: float | None = None) -> None:
        """Flush, say goodbye to the peer, and close everything; again is harmless.

        Any thread may call it. A call that is under way in another has to end first, and raises ClosedError.

        *timeout*, in seconds, is the patience of a recovery where it is not given. Raises as :meth:`flush`; everything
        is closed all the same, unless another thread's call was still under way when the time was over.
        """
        deadline = Deadline(self._patience if timeout is None else timeout)
        if self._alone.left_behind:
            self._shut()  # the parent's goes on
            return
        if self._alone.inside_here:
            if self._dead is None:
                raise self._alone.busy(self, "close")
            self._shut()  # on_event was told that it is lost, and closes it
            return
        if not self._alone.enter_last(deadline.left()):
            raise DeadlineError(f"{self} is not closed: a call of another thread was under way for {deadline}")
        try:
            if self._dead is None and self._peer_sent is None:
                self._flush(deadline.left())
                self._exchange.say_bye(self.account.sent)
        except BaseException as error:
            self._exchange.fail(reason_of(error))
            raise
        finally:
            self._shut()
            self._alone.leave()

    def _shut(self) -> None:
        if not isinstance(self._dead, ClosedError):
            self._dead = ClosedError(f"this {self} is closed")
        self._arrived.clear()
        self._exchange.close()
        self._line.close()

    def __del__(self) -> None:
        """Leave nothing open where it was dropped; the peer sees that it has gone, without a goodbye."""
        if hasattr(self, "_line") and not self.closed and not sys.is_finalizing():
            self._shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._alone.left_behind:
            self.close()
            return
        inside = self._alone.enter_last(_LONGEST_LEAVING_S)
        try:
            self._give_up(error)
            self._shut()
        finally:
            if inside:
                self._alone.leave()
