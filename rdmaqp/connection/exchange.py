"""Our out-of-band exchange over TCP: two ends learn each other's record, agree, and start and end together.

The steps: the client greets; both send a record, and echo the one that they got; each judges the other's; each brings
its queue pair up with receives posted; both meet at the barrier "ready"; traffic, watched by
:meth:`Exchange.check_peer`; both meet at "done", and only then destroy anything. :mod:`rdmaqp.connection.talk` has the
conversation; this drives it over a socket, and waits.
"""

from __future__ import annotations

import select
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rdmaqp.connection.agreement import Agreed, Agreement
from rdmaqp.connection.frames import FrameError, fail
from rdmaqp.connection.refusals import SettingsError as SettingsError
from rdmaqp.connection.secrecy import check_secret
from rdmaqp.connection.sockets import Deadline, GoneError, Need, dial
from rdmaqp.connection.talk import MOST_EARLY, Do, Hear, Plan, Say, Talk
from rdmaqp.connection.wire import DEFAULT_PORT, LOOPBACK, Wire, WireListener, reason_of
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.arguments import checked
from rdmaqp.model.steps import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Any, Self

    from rdmaqp.connection.frames import Message
    from rdmaqp.connection.sockets import Channel
    from rdmaqp.connection.talk import Heard, Steps
    from rdmaqp.connection.wire import Role, Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.queue_pair import QueuePair

T = TypeVar("T")


class Exchange(Wire):
    """One end of our exchange; see :class:`~rdmaqp.connection.wire.Wire` for what every wire does.

    Made by :meth:`connect`, or by ``Listener(port).accept(timeout)``. With a *secret*, the same 16 bytes or more at
    both ends, each proves to the other that it has it, and every message that it is this exchange's.
    """

    def __init__(self, channel: Channel, role: Role, secret: bytes | None = None) -> None:
        super().__init__(channel, role)
        self.talk = Talk(role, channel.peer, secret, self.fail)

    @classmethod
    @checked()
    def connect(
        cls, host: str, port: int = DEFAULT_PORT, timeout: float = 10.0, *, secret: bytes | None = None
    ) -> Self:
        """Connect to a server; again and again while that is refused: it may start a little later.

        Raises:
            AddressError: *host* cannot be resolved.
            DeadlineError: the name server or the peer was too slow.
            PeerError: nobody listened in time, or the host cannot be reached.
            SecretError: the server did not prove that it has the *secret*.
            ValueError: *secret* is too short.
        """
        check_secret(secret)
        deadline = Deadline(timeout)
        return cls(dial(host, port, deadline), "client", secret).greeted(deadline)

    @classmethod
    @checked()
    def listen(cls, port: int = DEFAULT_PORT, host: str = LOOPBACK, *, secret: bytes | None = None) -> Listener:
        """Listen as :class:`Listener` does."""
        return Listener(port, host, secret=secret)

    @checked()
    def swap(
        self, local: Endpoint, settings: Mapping[str, Setting], timeout: float
    ) -> tuple[Endpoint, dict[str, Setting]]:
        """Tell *local* and *settings*, and return the peer's; its ``sees_…`` say what it took *local* for.

        May be called again, when a queue pair was replaced: each swap has a nonce of its own, and what was
        sent for an earlier one is refused. Settings that both ends name have to be equal; one that only one
        end knows does not count.

        Raises:
            DeadlineError: the peer was too slow.
            PeerError: it went away, gave up, or sent something else.
            SettingsError: a setting differs.
            ValueError: *local* or *settings* have a value that no peer would take.
        """
        heard = self._drive(self.talk.swap(local, settings, {}), Deadline(timeout))[2]
        return heard.remote, heard.settings

    @checked(bring_up)
    def agree(
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
        """Bring *qp* up with the peer's queue pair: from RESET or INIT to RTS at both ends, or at neither.

        First to INIT, where *prepare* is called, to post receives; then the two swap records, and each end's guard
        judges the steps to RTR and RTS by both records, before either is taken. Where one refuses, both raise the
        same :class:`RefusedError`. MTU and depths are the smaller of both ends'. The GID that was told is looked for
        in the table again before RTR, and followed where it has moved. When this returns, both ends are in RTS with
        their receives posted, and may send.

        Args:
            qp: the queue pair; the peer calls this with its own.
            local: its record; ``qp.endpoint(psn=…)`` with a random PSN where not given.
            timeout: seconds for all of it.
            settings: what both ends must have alike, where both name it.
            told: up to 64 values that the peer is to know besides.
            prepare: called in INIT.
            options: those of :func:`~rdmaqp.model.steps.bring_up`.

        Raises:
            RefusedError: the two do not fit together; its ``reasons`` say whose guard says what.
            SettingsError: a setting differs.
            NotUpError: the peer agreed, and its queue pair did not come up.
            GuardError, VerbsError: ours did not.
            DeadlineError, PeerError: the peer was too slow, went away, or sent something else.
        """
        plan = Agreement(qp, local, prepare, options)
        return plan.result(self._drive(self.talk.agree(plan.begin(settings, told)), Deadline(timeout)))

    def exchange_records(
        self,
        local: Endpoint,
        settings: Mapping[str, Setting],
        bring_up: Callable[[Endpoint], object],
        timeout: float,
        judge: Callable[[Endpoint], str | None] | None = None,
    ) -> Endpoint:
        """Swap, judge, bring up, and meet at the barrier "ready"; as :meth:`Wire.exchange_records` says."""

        def brought_up(remote: Endpoint) -> None:
            bring_up(remote)

        plan = Plan(local, settings, {}, judge or (lambda _: None), brought_up)
        heard: Heard = self._drive(self.talk.agree(plan), Deadline(timeout))
        return heard.remote

    @checked()
    def barrier(self, name: str, timeout: float) -> None:
        """Wait until the peer is at the barrier *name*, too; as :meth:`Wire.barrier` says."""
        self._drive(self.talk.meet(name), Deadline(timeout))

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
        needs = self.stepping(steps)
        go_on: Callable[[], Need | Do] = partial(needs.send, None)
        while True:
            try:
                need = go_on()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                go_on = partial(needs.send, self._meet_need(need, deadline))
            except (PeerError, DeadlineError) as error:
                go_on = partial(needs.throw, error)

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
        go_on: Callable[[], Say | Hear | Do] = partial(steps.send, None)
        while True:
            try:
                step = go_on()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                go_on = partial(steps.send, (yield from self._take_step(step)))
            except (PeerError, DeadlineError) as error:
                go_on = partial(steps.throw, error)  # who has an error of its own to raise, raises that

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


class Listener(WireListener[Exchange]):
    """A TCP port on which a server waits for the clients of our exchange, as :class:`WireListener` says.

    A client has to prove the *secret*, where one is given.
    """

    @checked()
    def __init__(self, port: int = DEFAULT_PORT, host: str = LOOPBACK, *, secret: bytes | None = None) -> None:
        known = check_secret(secret)
        super().__init__(lambda channel, role: Exchange(channel, role, known), port, host)
