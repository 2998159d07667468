"""How a :class:`~rdmaqp.Connection` lasts: what it does about completions, the peer's words, and failures."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rdmaqp.connection.ending import Ending
from rdmaqp.connection.happening import ConnectionLostError
from rdmaqp.connection.recovery import Recovery, RecoveryError
from rdmaqp.connection.refusals import GoodbyeError
from rdmaqp.connection.sockets import Deadline
from rdmaqp.errors import (
    ClosedError,
    DeadlineError,
    GuardError,
    PeerError,
    RdmaqpError,
    UnaccountedError,
    VerbsError,
)
from rdmaqp.model.enums import QPState

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.connection.agreement import Agreed
    from rdmaqp.connection.wire import Setting
    from rdmaqp.verbs.queue_pair import QueuePair

_REAP_S = 10.0
_LONGEST_PAUSE_S = 2.0


class Lasting(Ending):
    """What goes on within the calls of a :class:`~rdmaqp.Connection`."""

    # ------------------------------------------------------------------ what happens meanwhile

    def _go_on(self, deadline: Deadline, awaiting: str = "message") -> None:
        self._alone.require_not_closing(self)
        self._require_alive()
        late = not deadline.left()
        if self._look(deadline) or not late:
            return
        text = f"{self}: no {awaiting} within {deadline}; the queue pair is in {self.qp.state.name}"
        if len(self._arrived) == self._line.depth:
            text += (
                f"\n{len(self._arrived)} messages have come, which is all that there is room for: the peer may be "
                "waiting until they are taken; recv() them, then go on"
            )
        raise DeadlineError(text)

    def _go_on_to_the_last(self, deadline: Deadline) -> None:
        """As :meth:`_go_on`, once the peer has closed: what it was told has arrived is here, or never will be."""
        limit = self._last if self._last.left() < deadline.left() else deadline
        try:
            self._go_on(limit)
        except DeadlineError:
            if limit is deadline:
                raise
            text = f"the peer has closed after {self._peer_sent} messages, and {self.account.received} have come"
            raise self._lost(PeerError(text, self.peer)) from None

    def _look(self, deadline: Deadline) -> bool:
        """Take what has happened, after waiting for it; whether anything has."""
        watched = [] if self._peer_sent is not None else [self._exchange.channel.fileno()]
        found = self._line.wait(watched, deadline)
        try:
            for wc in found:
                self._completed(wc)
        except BaseException as error:  # Ctrl-C: who knows which of them are counted
            self._lost(error)
            raise
        if not all(wc.ok for wc in found):
            self._recover("a work request failed")
            return True
        return self._hear() or bool(found)

    def _post(self, post: Callable[[], None]) -> None:
        """Post something that a recovery would post again by itself."""
        if self._line.qp.last_state is not QPState.RTS:
            self._recover(f"the queue pair was moved to {self._line.qp.last_state.name}")
            return
        try:
            post()
        except (GuardError, VerbsError) as error:
            self._recover(str(error))
        except BaseException as error:  # Ctrl-C: who knows whether it is posted
            self._lost(error)
            raise

    def _hear(self) -> bool:
        """Whether the peer has said something over the exchange; that is seen to."""
        if self._peer_sent is not None:
            return False
        try:
            kind = self._exchange.news()
            if kind is None:
                return False
            if kind == "bye":
                self._end(self._exchange.take_bye())
                return True
        except (PeerError, ClosedError) as error:
            raise self._lost(error) from error
        self._recover("the peer asks for it")
        return True

    # ------------------------------------------------------------------ recovery

    def _recover(self, why: str) -> None:
        """Come up again, with nothing lost and nothing twice. Raises :class:`ConnectionLostError`."""
        began = time.monotonic()
        try:
            self._recover_since(began, why)
        except ConnectionLostError:
            raise
        except BaseException as error:  # Ctrl-C: the two ends are out of step
            self._lost(error, began)
            raise

    def _recover_since(self, began: float, why: str) -> None:
        limit = Deadline(self._patience)
        while True:
            try:
                recovery = Recovery(self.qp, self.agreed, min(limit.left(), _REAP_S))
            except UnaccountedError as error:
                self._all_completed(error.reaped)
                raise self._lost(error, began) from error
            except RdmaqpError as error:
                raise self._lost(error, began) from error
            self._all_completed(recovery.reaped)
            if self._peer_sent is None:
                cause = recovery.reaped.cause
                said = why if cause is None else cause.status_name
                self._tell("failed", f"{self}: {said}; recovering", cause=cause)
                agreed = self._agree(recovery, limit, began)
            if self._peer_sent is not None:
                if self.account.under_way or self.account.received < self._peer_sent:
                    raise self._lost(PeerError("the peer has closed the connection", self.peer), began)
                return  # everything has arrived at either end: nothing needs the queue pair any more
            self.agreed = agreed
            if self._resume(began):
                return

    def _agree(self, recovery: Recovery, limit: Deadline, began: float) -> Agreed:
        """Agree anew, again and again while both ends are in step, and *limit* is not over.

        Where the peer has closed meanwhile, that is noted, and what was agreed on before is returned.
        """
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
                sent = self._said_goodbye(why)
                if sent is not None:
                    self._end(sent)
                    return self.agreed
                if not self._exchange.in_step or not limit.left():
                    raise self._lost(why, began) from why
                self._tell("retrying", f"{self}: attempt {attempt}: {why}", error=why, attempt=attempt)
                time.sleep(min(pause, limit.left()))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self._line.qp = recovered.qp
                return recovered.agreed

    def _said_goodbye(self, why: Exception) -> int | None:
        """How many messages the peer had sent when it closed in good order; ``None`` where it has not."""
        if isinstance(why, GoodbyeError):
            return why.sent
        with suppress(PeerError, ClosedError):  # our record may have come too late for the peer, and its word lie here
            if self._exchange.news() == "bye":
                return self._exchange.take_bye()
        return None

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
        text = f"{self}: recovered in {stalled:.3g} s; {arrived} messages had arrived, {len(again)} are sent again"
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
