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
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.account import Account
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.happening import ConnectionEndedError, ConnectionLostError, Happening, Kind, tell
from rdmaqp.connection.line import Line, arrival_of
from rdmaqp.connection.recovery import Recovery, RecoveryError
from rdmaqp.connection.sockets import Deadline
from rdmaqp.connection.wire import DEFAULT_PORT, reason_of
from rdmaqp.errors import ClosedError, DeadlineError, GuardError, PeerError, RdmaqpError, VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.steps import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from rdmaqp.connection.agreement import Agreed
    from rdmaqp.connection.line import Arrival
    from rdmaqp.connection.wire import Setting
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.work_completion import WorkCompletion

_REAP_S = 10.0
_LONGEST_PAUSE_S = 2.0


class Connection:
    """Messages of up to *size* bytes over an RC queue pair, both ways, for one thread. See the module.

    It has *depth* messages under way at most, and *depth* receives posted; a peer that does not take its messages makes
    :meth:`send` wait. The exchange is its own from here on, and closed with it.

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
            on_event: called with each :class:`Happening`, within the call in which it happens. All go to the logger
                ``rdmaqp`` too.
            options: those of :func:`~rdmaqp.model.steps.bring_up`.

        Raises:
            as :meth:`Exchange.agree`; DeviceError, VerbsError: the device has not what is needed.
            ValueError: a number is out of range.
        """
        for name, value, least in (("size", size, 1), ("depth", depth, 1), ("backoff", backoff, 0)):
            if value < least:
                raise ValueError(f"{name}: {value} is below {least}")
        self._exchange = exchange
        self.account = Account(depth)
        self.recoveries = 0
        self._patience, self._backoff, self._on_event = Deadline(patience).seconds, backoff, on_event
        self._arrived: deque[Arrival] = deque()
        self._peer_sent: int | None = None  # once the peer has said goodbye
        self._dead: PeerError | ClosedError | None = None
        try:
            self._line = Line(device, size=size, depth=depth)
        except BaseException as error:
            self._give_up(error)
            raise
        try:
            local = self._line.qp.endpoint(port_num, psn=secrets.randbits(24), gid_index=gid_index)
            self.agreed = exchange.agree(
                self._line.qp, local, timeout=timeout, told=self._told(),
                prepare=lambda: self._post_receives(self._line.qp), **options,
            )  # fmt: skip
            self.size = min(size, self._number(self.agreed, "size"))
        except BaseException as error:
            self._give_up(error)
            self._line.close()
            raise
        self._tell("connected", f"{self}: up, MTU {self.agreed.path_mtu}, messages of up to {self.size} bytes")

    @classmethod
    @checked()
    def connect(
        cls, host: str, port: int = DEFAULT_PORT, *, secret: bytes | None = None, timeout: float = 10.0, **more: Any
    ) -> Self:
        """Connect to a server there, which has ``Connection(listener.accept())``; *more* as for the class itself.

        Raises as :meth:`Exchange.connect`, and the class itself.
        """
        return cls(Exchange.connect(host, port, timeout, secret=secret), timeout=timeout, **more)

    def __str__(self) -> str:
        return f"connection with {self._exchange.peer}"

    @property
    def qp(self) -> QueuePair:
        """The queue pair; a recovery may replace it."""
        return self._line.qp

    @property
    def peer(self) -> str:
        """The other end's TCP address."""
        return self._exchange.peer

    @property
    def unacknowledged(self) -> list[tuple[int, bytes]]:
        """The messages that were sent and are not known to have arrived, each with its number."""
        return [(one.number, self._line.read(one.slot, one.length, received=False)) for one in self.account.under_way]

    # ------------------------------------------------------------------ messages

    def send(self, data: bytes | bytearray | memoryview, timeout: float | None = None) -> int:
        """Send a message of 0…:attr:`size` bytes; returns its number, counted from 1. See :meth:`flush`.

        Its bytes are copied. It waits while *depth* messages are under way.

        Raises:
            DeadlineError: there was no room within *timeout* seconds; the message is not sent.
            ConnectionLostError: the connection does not go on; this message is not among ``unknown``, unless its
                posting was what failed.
            ValueError: it is too long.
        """
        length = memoryview(data).nbytes
        if length > self.size:
            raise ValueError(f"a message of {length} bytes: this connection takes up to {self.size}")
        deadline = Deadline(timeout)
        self._require_peer()
        self._look(Deadline(0))
        while not self.account.free:
            self._go_on(deadline, "room for a message")
        self._require_peer()
        parcel = self.account.post(length)
        self._line.write(parcel.slot, memoryview(data).cast("B"))
        try:
            self._line.send(parcel.slot, length)
        except (GuardError, VerbsError) as error:
            self._recover(str(error))
        return parcel.number

    def recv(self, timeout: float | None = None) -> bytes:
        """The next message.

        Raises:
            DeadlineError: none came within *timeout* seconds.
            ConnectionEndedError: the peer has closed, and there is nothing more.
            ConnectionLostError: the connection does not go on; what had come before has been returned first.
        """
        deadline = Deadline(timeout)
        while not self._arrived:
            if self._peer_sent is not None and self.account.received >= self._peer_sent:
                raise ConnectionEndedError(f"peer {self.peer} has closed the connection in good order", self.peer)
            self._go_on(deadline, "message")
        slot, length = self._arrived.popleft()
        data = self._line.read(slot, length, received=True)
        if self._dead is None:
            try:
                self._line.receive(self._line.qp, [slot])
            except (GuardError, VerbsError) as error:
                self._recover(str(error))
        return data

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all messages that were sent have arrived.

        Raises:
            DeadlineError: they had not within *timeout* seconds.
            ConnectionLostError: the connection does not go on.
        """
        deadline = Deadline(timeout)
        while self.account.under_way:
            self._go_on(deadline, f"acknowledgement of {len(self.account.under_way)} messages")

    def poll(self) -> None:
        """Look after the connection without waiting. Raises :class:`ConnectionLostError`."""
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

    def close(self, timeout: float | None = None) -> None:
        """Flush, say goodbye to the peer, and close everything; again is harmless.

        *timeout*, in seconds, is the patience of a recovery where it is not given. Raises as :meth:`flush`; everything
        is closed all the same.
        """
        if isinstance(self._dead, ClosedError):
            return
        try:
            if self._dead is None and self._peer_sent is None:
                self.flush(self._patience if timeout is None else timeout)
                self._exchange.say_bye(self.account.sent)
        except BaseException as error:
            self._exchange.fail(reason_of(error))
            raise
        finally:
            self._dead = ClosedError(f"this {self} is closed")
            self._exchange.close()
            self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._give_up(error)
            self._dead = self._dead or ClosedError(f"this {self} is closed")
        self.close() if error is None else self._line.close()

    # ------------------------------------------------------------------ what happens meanwhile

    def _go_on(self, deadline: Deadline, awaiting: str) -> None:
        self._require_alive()
        late = not deadline.left()
        if not self._look(deadline) and late:
            raise DeadlineError(f"{self}: no {awaiting} within {deadline}; the queue pair is in {self.qp.state.name}")

    def _look(self, deadline: Deadline) -> bool:
        """Take what has happened, after waiting for it; whether anything has."""
        watched = [] if self._peer_sent is not None else [self._exchange.channel.fileno()]
        found = self._line.wait(watched, deadline)
        for wc in found:
            self._completed(wc)
        if not all(wc.ok for wc in found):
            self._recover("a work request failed")
            return True
        return self._hear() or bool(found)

    def _completed(self, wc: WorkCompletion) -> None:
        if not wc.ok:
            return
        arrival = arrival_of(wc)
        if arrival is None:
            self.account.acknowledge()
        else:
            self.account.received += 1
            self._arrived.append(arrival)

    def _hear(self) -> bool:
        """Whether the peer has said something over the exchange; that is seen to."""
        if self._peer_sent is not None:
            return False
        try:
            kind = self._exchange.news()
            if kind is None:
                return False
            if kind == "bye":
                self._peer_sent = self._exchange.take_bye()
                self._tell("ended", f"{self}: the peer has closed, after {self._peer_sent} messages")
                return True
        except (PeerError, ClosedError) as error:
            raise self._lost(error) from error
        self._recover("the peer asks for it")
        return True

    # ------------------------------------------------------------------ recovery

    def _recover(self, why: str) -> None:
        """Come up again, with nothing lost and nothing twice. Raises :class:`ConnectionLostError`."""
        began, limit = time.monotonic(), Deadline(self._patience)
        if self._peer_sent is not None:
            raise self._lost(PeerError("the peer has closed the connection", self.peer), began)
        while True:
            try:
                recovery = Recovery(self.qp, self.agreed, min(limit.left(), _REAP_S))
            except RdmaqpError as error:
                raise self._lost(error, began) from error
            for wc in recovery.reaped.completions:
                self._completed(wc)
            cause = recovery.reaped.cause
            said = why if cause is None else cause.status_name
            self._tell("failed", f"{self}: {said}; recovering", cause=cause)
            self.agreed = self._agree(recovery, limit, began)
            if self._resume(began):
                return

    def _agree(self, recovery: Recovery, limit: Deadline, began: float) -> Agreed:
        """Agree anew, again and again while both ends are in step, and *limit* is not over."""
        pause, attempt = self._backoff, 0
        while True:
            attempt += 1
            try:
                recovered = self._exchange.recover(
                    recovery, timeout=limit.left(), told=self._told(), prepare=self._post_receives
                )
            except RecoveryError as error:
                why = error.__cause__
                assert isinstance(why, Exception)
                self._line.qp = recovery.qp
                if not self._exchange.in_step or not limit.left():
                    raise self._lost(why, began) from why
                self._tell("retrying", f"{self}: attempt {attempt}: {why}", error=why, attempt=attempt)
                time.sleep(min(pause, limit.left()))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self._line.qp = recovered.qp
                return recovered.agreed

    def _resume(self, began: float) -> bool:
        """Settle by the peer's count, and post the rest again; ``False`` where the queue pair failed under that."""
        before = len(self.account.under_way)
        try:
            again = self.account.settle(self._number(self.agreed, "received"))
        except ValueError as error:
            raise self._lost(PeerError(str(error), self.peer), began) from error
        try:
            for parcel in again:
                self._line.send(parcel.slot, parcel.length)
        except (GuardError, VerbsError):
            return False
        self.recoveries += 1
        arrived, stalled = before - len(again), time.monotonic() - began
        text = f"{self}: recovered in {stalled:.3g} s; of {before} messages {arrived} had arrived, the rest is sent again"
        self._tell("recovered", text, arrived=arrived, again=len(again), stalled=stalled)
        return True

    def _post_receives(self, qp: QueuePair) -> None:
        """Post every slot in which no message stands that nobody has taken yet."""
        held = {arrival.slot for arrival in self._arrived}
        self._line.receive(qp, [slot for slot in range(self._line.depth) if slot not in held])

    def _told(self) -> dict[str, Setting]:
        return {"size": self._line.size, "received": self.account.received}

    def _number(self, agreed: Agreed, name: str) -> int:
        value = agreed.told.get(name)
        if type(value) is not int or value < 0:
            raise PeerError(f"peer {self.peer} has no Connection at its end: it did not tell {name}", self.peer)
        return value

    # ------------------------------------------------------------------ the end

    def _require_alive(self) -> None:
        if self._dead is not None:
            raise self._dead

    def _require_peer(self) -> None:
        self._require_alive()
        if self._peer_sent is not None:
            raise self._lost(PeerError("the peer has closed the connection", self.peer))

    def _lost(self, error: Exception, began: float | None = None) -> ConnectionLostError:
        """The error that ends it, which all later calls raise too."""
        unknown = self.unacknowledged
        words = f"{len(unknown)} messages may have arrived or not" if unknown else "everything sent had arrived"
        text = f"{self} is lost: {error}\n{words}; {self.account.received} were received"
        self._dead = lost = ConnectionLostError(text, self.peer, unknown, self.account.received)
        self._exchange.fail(str(error))
        stalled = 0.0 if began is None else time.monotonic() - began
        self._tell("lost", text, error=error, stalled=stalled)
        return lost

    def _give_up(self, error: BaseException) -> None:
        if not isinstance(error, PeerError):
            self._exchange.fail(reason_of(error))
        self._exchange.close()

    def _tell(self, kind: Kind, text: str, **more: Any) -> None:
        tell(self._on_event, Happening(kind=kind, text=text, **more))
