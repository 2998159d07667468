"""Our out-of-band exchange over TCP: two ends learn each other's record, agree, and start and end together.

The steps: the client greets; both send a record, and echo the one that they got; each judges the other's; each brings
its queue pair up with receives posted; both meet at the barrier "ready"; traffic, watched by
:meth:`Exchange.check_peer`; both meet at "done", and only then destroy anything. :mod:`rdmaqp.connection.talk` has the
conversation; this drives it over a socket, and waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rdmaqp.connection.agreement import Agreed, Agreement
from rdmaqp.connection.agreement_many import AgreedMany, AgreementMany
from rdmaqp.connection.dialing import dial
from rdmaqp.connection.driven import Driven
from rdmaqp.connection.recovery import Recovered, Recovery, RecoveryError
from rdmaqp.connection.refusals import SettingsError as SettingsError
from rdmaqp.connection.secrecy import check_secret
from rdmaqp.connection.sockets import Deadline
from rdmaqp.connection.talk import Plan
from rdmaqp.connection.wire import DEFAULT_PORT, LOOPBACK, WireListener
from rdmaqp.errors import RdmaqpError
from rdmaqp.model.arguments import checked
from rdmaqp.model.steps import bring_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Self

    from rdmaqp.connection.talk import Heard
    from rdmaqp.connection.wire import Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.endpoints import Endpoints
    from rdmaqp.verbs.group import QueuePairs
    from rdmaqp.verbs.queue_pair import QueuePair

T = TypeVar("T")


class Exchange(Driven):
    """One end of our exchange; see :class:`~rdmaqp.connection.wire.Wire` for what every wire does.

    Made by :meth:`connect`, or by ``Listener(port).accept(timeout)``. With a *secret*, the same 16 bytes or more at
    both ends, each proves to the other that it has it, and every message that it is this exchange's.
    """

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

    @checked(bring_up)
    def agree_all(
        self,
        qps: QueuePairs,
        local: Endpoints | None = None,
        *,
        timeout: float,
        settings: Mapping[str, Setting] | None = None,
        told: Mapping[str, Setting] | None = None,
        **options: Any,
    ) -> AgreedMany:
        """Bring a group of queue pairs up with the peer's, number 0 with its number 0 and so on, in one conversation.

        As :meth:`agree`, for up to 7,000 of them, all in RESET: each end's guard judges the first two, and
        ``qps.connect`` the others as it brings them up. Where it stops in the middle, both ends raise, and
        those before it are in RTS. Receives are posted behind it, or before into a shared receive queue.

        Raises:
            ValueError: there are more than 7,000, or not as many records as queue pairs.
            RefusedError: also where the peer has not as many, or calls :meth:`agree`.
            The other errors are those of :meth:`agree`.
        """
        plan = AgreementMany(qps, local, options)
        return plan.result(self._drive(self.talk.agree(plan.begin(settings, told)), Deadline(timeout)))

    @checked()
    def recover(
        self,
        qp: QueuePair | Recovery,
        agreed: Agreed | None = None,
        *,
        timeout: float,
        settings: Mapping[str, Setting] | None = None,
        told: Mapping[str, Setting] | None = None,
        prepare: Callable[[QueuePair], None] | None = None,
    ) -> Recovered:
        """Bring *qp*, in whatever state, back to RTS together with the peer's, which has to do the same.

        It goes to ERR, and everything that was posted comes out; to RESET, or a successor is made where the driver
        has no way on from there (irdma, iWARP); to INIT, where the receives are posted again; then the two agree as by
        :meth:`agree`, with new PSNs, the GID wherever it stands now, and the options of before.

        Args:
            qp: the queue pair; or, to try once more, the ``recovery`` of a :class:`RecoveryError`.
            agreed: what :meth:`agree` or the last ``recover`` returned.
            timeout: seconds for all of it.
            settings, told: as for :meth:`agree`.
            prepare: called in INIT with the queue pair, to post receives. Without it those that were flushed are posted
                again, where the queue pair keeps them (``qp.keep_work()``).

        Returns:
            the queue pair to go on with, and ``unknown``: what was posted and not acknowledged. An acknowledgement may
            have been lost, so that the peer has it: only the peer can say. :class:`~rdmaqp.Connection` asks it.

        Raises:
            RecoveryError: it is not up; ``__cause__`` is one of the errors of :meth:`agree`. What was taken out is
                there, and it may be tried again while ``exchange.in_step``.
            UnaccountedError: not everything has come out of it.
            ValueError: neither *prepare* is given, nor are the receives kept; no *agreed*.
        """
        deadline = Deadline(timeout)
        recovery = Recovery.of(qp, agreed, deadline.left())
        try:
            plan, brought = recovery.plan(settings, told, prepare)
            result = plan.result(self._drive(self.talk.agree(brought), deadline))
        except RdmaqpError as error:
            raise RecoveryError(recovery, error) from error
        return Recovered(recovery.qp, result, recovery.reaped)

    @property
    def in_step(self) -> bool:
        """Whether both ends know where they stand, so that they can agree, once more or for the first time."""
        return self.talk.in_step and not self.talk.failed

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


class Listener(WireListener[Exchange]):
    """A TCP port on which a server waits for the clients of our exchange, as :class:`WireListener` says.

    A client has to prove the *secret*, where one is given.
    """

    @checked()
    def __init__(self, port: int = DEFAULT_PORT, host: str = LOOPBACK, *, secret: bytes | None = None) -> None:
        known = check_secret(secret)
        super().__init__(lambda channel, role: Exchange(channel, role, known), port, host)
