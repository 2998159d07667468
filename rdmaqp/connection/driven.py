"""A wire that holds the conversations of :mod:`rdmaqp.connection.talk`: bytes in, bytes out, and who waits for what."""

from __future__ import annotations

import select
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from rdmaqp.connection.frames import FrameError
from rdmaqp.connection.messages import fail, read_sent
from rdmaqp.connection.sockets import Deadline, GoneError, Need
from rdmaqp.connection.talk import MOST_EARLY, Do, Hear, Say, Talk
from rdmaqp.connection.wire import Wire, reason_of
from rdmaqp.errors import ClosedError, DeadlineError, PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from rdmaqp.connection.frames import Message
    from rdmaqp.connection.sockets import Channel
    from rdmaqp.connection.talk import Steps
    from rdmaqp.connection.wire import Role

T = TypeVar("T")
Asked = TypeVar("Asked")


class Turns(Generic[Asked, T]):
    """A generator, asked turn by turn: what it yields is met, and it is told the answer, or raised the error.

    Attributes:
        result: what it returned, once :meth:`next` has no more.
    """

    result: T

    def __init__(self, steps: Generator[Asked, Any, T]) -> None:
        self._steps = steps
        self._go_on: Callable[[], Asked] = partial(steps.send, None)

    def next(self) -> Asked | None:
        """What it asks for next; ``None`` where it has returned. Raises what it raises."""
        try:
            return self._go_on()
        except StopIteration as end:
            self.result = end.value
            return None

    def answer(self, value: object) -> None:
        """Tell it *value* at the next turn."""
        self._go_on = partial(self._steps.send, value)

    def fail(self, error: Exception) -> None:
        """Raise *error* in it at the next turn."""
        self._go_on = partial(self._steps.throw, error)


class Driven(Wire):
    """What :class:`~rdmaqp.Exchange` is made of, besides its calls.

    Attributes:
        talk: the conversation's state.
    """

    def __init__(self, channel: Channel, role: Role, secret: bytes | None = None) -> None:
        super().__init__(channel, role)
        self.talk = Talk(role, channel.peer, secret, self.fail)

    def check_peer(self) -> None:
        """Raise :class:`PeerError` where the peer has closed, was killed, or gave up. Does not wait."""
        while self._channel.more_now(self._missing(), "while this end counted on it"):
            if not self._missing():
                if len(self.talk.early) == MOST_EARLY:
                    self.talk.refuse(FrameError("sends messages that nobody asked for"))
                self.talk.early.append(self._take())

    def has_news(self) -> bool:
        """Whether the peer has sent what comes next, its record or its barrier. Does not wait.

        Raises :class:`PeerError` as :meth:`check_peer`.
        """
        self.check_peer()
        return bool(self.talk.early)

    def news(self) -> str | None:
        """The kind of the message that the peer has sent next; ``None`` where it has sent none. Does not wait.

        Raises :class:`PeerError` as :meth:`check_peer`, once nothing is left of what came before.
        """
        try:
            self.check_peer()
        except PeerError:
            if not self.talk.early:
                raise
        return str(self.talk.early[0]["kind"]) if self.talk.early else None

    def take_bye(self) -> int:
        """The ``bye`` that the peer has sent next: how many messages it had sent. Raises :class:`PeerError`."""
        message = self.talk.early.popleft()
        try:
            return read_sent(message)
        except FrameError as error:
            self.talk.refuse(error)

    def say_bye(self, sent: int) -> None:
        """Tell the peer that this end sends nothing more. Does not wait; a peer that has gone hears nothing."""
        with suppress(PeerError, DeadlineError):
            self._channel.send(self.talk.encode({"kind": "bye", "sent": sent}), Deadline(0), "our goodbye")

    def fail(self, reason: str) -> bool:
        """Tell the peer that this end gives up: it raises :class:`PeerError` with *reason*. Never raises."""
        if self.talk.failed:
            return False
        self.talk.failed = True
        # Best effort: the caller has its own error to report, and a peer that cannot hear this sees us close.
        with suppress(PeerError, DeadlineError, ClosedError):
            self._channel.send(self.talk.encode(fail(reason)), Deadline(0), "the reason")
            return True
        return False

    # ------------------------------------------------------------------ how it is driven

    def greeting(self) -> Generator[Need, None, None]:
        """Greet, and prove the secret."""
        steps = self.stepping(self.talk.greet())
        while True:
            try:
                need = next(steps)
            except StopIteration:
                return
            assert isinstance(need, Need)  # a greeting has nothing to do here
            yield need

    def _drive(self, steps: Steps[T], deadline: Deadline) -> T:
        """Hold a conversation, and wait wherever it has to."""
        turns = Turns(self.stepping(steps))
        while (need := turns.next()) is not None:
            try:
                turns.answer(self._meet_need(need, deadline))
            except (PeerError, DeadlineError) as error:
                turns.fail(error)
        return turns.result

    def _meet_need(self, need: Need | Do, deadline: Deadline) -> Any:
        if isinstance(need, Need):
            return self._channel.settle(need, deadline)
        try:
            return need.work()
        except BaseException as error:  # Ctrl-C: what else fails, the conversation tells by itself
            self.fail(reason_of(error))
            raise

    def stepping(self, steps: Steps[T]) -> Generator[Need | Do, Any, T]:
        """Hold a conversation without waiting: it yields what is needed for it to go on."""
        turns = Turns(steps)
        while (step := turns.next()) is not None:
            try:
                turns.answer((yield from self._take_step(step)))
            except (PeerError, DeadlineError) as error:
                turns.fail(error)  # who has an error of its own to raise, raises that
        return turns.result

    def _take_step(self, step: Say | Hear | Do) -> Generator[Need | Do, Any, Any]:
        if isinstance(step, Say):
            return (yield from self._saying(step))
        if isinstance(step, Do):
            return (yield step)
        message = self.talk.early.popleft() if self.talk.early else (yield from self._hearing(step.awaiting))
        return self.talk.expected(message, step.kind)

    def _saying(self, step: Say) -> Generator[Need, None, None]:
        try:
            return (yield from self._channel.sending(self.talk.encode(step.message), step.what))
        except GoneError as error:
            gone = error
        # It may have said why before it went; that says more than a broken pipe, and is no consequence of it.
        with suppress(GoneError):
            self.check_peer()
        raise gone

    def _hearing(self, awaiting: str) -> Generator[Need, None, Message]:
        while lacking := self._missing():
            yield Need(select.POLLIN, awaiting, lacking)
        return self._take()

    def _missing(self) -> int:
        return self.talk.missing(self._channel.buffer)

    def _take(self) -> Message:
        return self.talk.take(self._channel.buffer)
