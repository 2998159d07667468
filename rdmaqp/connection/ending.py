"""How a :class:`~rdmaqp.Connection` ends: what it knows of its state, and the errors that say so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.happening import LOG, ConnectionLostError, Happening, Kind, tell
from rdmaqp.connection.line import arrival_of
from rdmaqp.connection.sockets import Deadline
from rdmaqp.connection.wire import reason_of
from rdmaqp.errors import ClosedError, PeerError, RdmaqpError, UnaccountedError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from rdmaqp.connection.account import Account
    from rdmaqp.connection.agreement import Agreed
    from rdmaqp.connection.alone import Alone
    from rdmaqp.connection.exchange import Exchange
    from rdmaqp.connection.line import Arrival, Line
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.reaped import Reaped
    from rdmaqp.verbs.work_completion import WorkCompletion

_LAST_REAP_S = 2.0
_LAST_S = 10.0


class Ending:
    """The state of a :class:`~rdmaqp.Connection`, which sets these up and documents them, and its end."""

    agreed: Agreed
    account: Account
    recoveries: int
    _exchange: Exchange
    _line: Line
    _patience: float
    _backoff: float
    _on_event: Callable[[Happening], object] | None
    #: Messages that stand in their slots until somebody takes them.
    _arrived: deque[Arrival]
    #: How many the peer has sent, once it has said goodbye.
    _peer_sent: int | None
    #: Until when the last of those has to be here.
    _last: Deadline
    #: What all calls raise from here on.
    _dead: PeerError | ClosedError | None
    _alone: Alone

    def __str__(self) -> str:
        return f"connection with {self._exchange.peer}"

    @property
    def closed(self) -> bool:
        """Whether it is closed at this end."""
        return isinstance(self._dead, ClosedError)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ", lost" if self._dead is not None else ""
        return f"<{self}{state}>"

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

    def _completed(self, wc: WorkCompletion) -> None:
        if not wc.ok:
            return
        arrival = arrival_of(wc)
        if arrival is None:
            self.account.acknowledge()
        else:
            self.account.received += 1
            self._arrived.append(arrival)

    def _end(self, sent: int) -> None:
        """The peer has closed, and had sent so many messages."""
        self._peer_sent, self._last = sent, Deadline(_LAST_S)
        self._tell("ended", f"{self}: the peer has closed, after {sent} messages")

    def _require_open(self) -> None:
        if isinstance(self._dead, ClosedError):
            raise self._dead.with_traceback(None)

    def _require_alive(self) -> None:
        if self._dead is not None:
            raise self._dead.with_traceback(None)  # else it would grow by each call that raises it

    def _require_peer(self) -> None:
        self._require_alive()
        if self._peer_sent is not None:
            raise self._lost(PeerError("the peer has closed the connection", self.peer))

    def _all_completed(self, reaped: Reaped) -> None:
        for wc in reaped.completions:
            self._completed(wc)

    def _lost(self, error: BaseException, began: float | None = None) -> ConnectionLostError:
        """The error that ends it, which all later calls raise too.

        What the queue pair has acknowledged to the peer counts, and is returned by :meth:`Connection.recv`; so it takes
        nothing more from here on.
        """
        self._dead = self._loss(error)  # already now: Ctrl-C may come while its work is taken out
        try:
            self._all_completed(self._line.qp.reap(timeout=_LAST_REAP_S))
        except UnaccountedError as short:
            self._all_completed(short.reaped)
        except RdmaqpError as broken:
            LOG.warning("%s: the queue pair does not say what became of its work: %s", self, broken)
        self._dead = lost = self._loss(error)
        self._exchange.fail(reason_of(error))
        stalled = 0.0 if began is None else time.monotonic() - began
        self._tell("lost", str(lost), error=error, stalled=stalled)
        return lost

    def _loss(self, error: BaseException) -> ConnectionLostError:
        unknown = self.unacknowledged
        words = f"{len(unknown)} messages may have arrived (unknown)" if unknown else "everything sent had arrived"
        text = f"{self} is lost: {reason_of(error)}\n{words}; {self.account.received} were received"
        lost = ConnectionLostError(text, self.peer, unknown, self.account.received)
        lost.__cause__ = error
        return lost

    def _give_up(self, error: BaseException) -> None:
        if not isinstance(error, PeerError):
            self._exchange.fail(reason_of(error))
        self._exchange.close()

    def _tell(self, kind: Kind, text: str, **more: Any) -> None:
        tell(self._on_event, Happening(kind=kind, text=text, **more))
