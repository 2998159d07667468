"""Our out-of-band exchange over TCP: two ends learn each other's record, and start and end together.

The steps: the client greets; both send a record, and echo the one that they got; each brings its queue
pair up with receives posted; both meet at the barrier "ready"; traffic, watched by
:meth:`Exchange.check_peer`; both meet at "done", and only then destroy anything.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from rdmaqp.connection import frames
from rdmaqp.connection.frames import FrameError, printable
from rdmaqp.connection.sockets import Deadline, GoneError
from rdmaqp.connection.wire import DEFAULT_PORT, Wire, WireListener, reason_of
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rdmaqp.connection.sockets import Channel
    from rdmaqp.connection.wire import Role, Setting
    from rdmaqp.model.endpoint import Endpoint

_MOST_EARLY = 4  # messages that a peer in order may be ahead: the "done", and the next swap's
_LONGEST_REASON = 4000  # characters; in JSON at most twelve bytes each
_LONGEST_NAME = 64


class SettingsError(PeerError):
    """The two ends were started with settings that do not fit together.

    Attributes:
        differences: each setting's name with this end's value and the peer's.
    """

    def __init__(self, peer: str, differences: Mapping[str, tuple[Setting, Setting]]) -> None:
        first = f"this end and peer {peer} differ in {', '.join(differences)}"
        rows = [
            f"  {name}: here {ours!r}, there {printable(repr(theirs), _LONGEST_NAME)}"
            for name, (ours, theirs) in differences.items()
        ]
        super().__init__("\n".join([first, *rows, "start both ends with the same"]), peer)
        self.differences = dict(differences)


class Exchange(Wire):
    """One end of our exchange; see :class:`~rdmaqp.connection.wire.Wire` for what every wire does.

    Made by :meth:`connect`, or by ``Listener(port).accept(timeout)``.
    """

    def __init__(self, channel: Channel, role: Role) -> None:
        super().__init__(channel, role)
        self._early: deque[frames.Message] = deque()
        self._failed = False

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
        return self._swap(local, settings, Deadline(timeout))

    def exchange_records(
        self,
        local: Endpoint,
        settings: Mapping[str, Setting],
        bring_up: Callable[[Endpoint], None],
        timeout: float,
    ) -> Endpoint:
        """Swap, bring up, and meet at the barrier "ready"; as :meth:`Wire.exchange_records` says."""
        deadline = Deadline(timeout)
        remote, _ = self._swap(local, settings, deadline)
        try:
            bring_up(remote)
        except BaseException as error:
            self.fail(reason_of(error))
            raise
        self._meet("ready", deadline)
        return remote

    @checked()
    def barrier(self, name: str, timeout: float) -> None:
        """Wait until the peer is at the barrier *name*, too; as :meth:`Wire.barrier` says."""
        self._meet(name, Deadline(timeout))

    def check_peer(self) -> None:
        """Raise :class:`PeerError` where the peer has closed, was killed, or gave up. Does not wait."""
        while self._channel.more_now(self._missing(), "while this end counted on it"):
            if not self._missing():
                if len(self._early) == _MOST_EARLY:
                    self._refuse(FrameError("sends messages that nobody asked for"))
                self._early.append(self._take())

    def has_news(self) -> bool:
        """Whether the peer has sent what comes next, its record or its barrier. Does not wait.

        Raises :class:`PeerError` as :meth:`check_peer`.
        """
        self.check_peer()
        return bool(self._early)

    def fail(self, reason: str) -> bool:
        """Tell the peer that this end gives up: it raises :class:`PeerError` with *reason*. Never raises."""
        if self._failed:
            return False
        self._failed = True
        # Best effort: the caller has its own error to report, and a peer that cannot hear this sees us close.
        with suppress(PeerError, DeadlineError, ClosedError):
            message = {"kind": "fail", "reason": reason[:_LONGEST_REASON]}
            self._channel.send(frames.encode(message), Deadline(0), "the reason")
            return True
        return False

    def _greet(self, deadline: Deadline) -> None:
        if self.role == "client":
            self._send({"kind": "hello"}, deadline, "our greeting")
        else:
            self._expect("hello", deadline, "its greeting")

    def _swap(
        self, local: Endpoint, settings: Mapping[str, Setting], deadline: Deadline
    ) -> tuple[Endpoint, dict[str, Setting]]:
        nonce = secrets.token_hex(8)
        self._send(frames.record(nonce, local, settings), deadline, "our record")
        message = self._expect("record", deadline, "its record")
        try:
            their_nonce, remote, their_settings = frames.read_record(message)
            self._send(frames.echo(their_nonce, nonce, remote), deadline, "our echo of its record")
            message = self._expect("echo", deadline, "its echo of our record")
            echoed, of, qp_num, psn = frames.read_echo(message)
            if (echoed, of) != (nonce, their_nonce):
                raise FrameError("answered to an earlier record: its answer is stale")
        except FrameError as error:
            self._refuse(error)
        differences = {
            name: (ours, their_settings[name])
            for name, ours in settings.items()
            if name in their_settings and not _same(ours, their_settings[name])
        }
        if differences:
            raise SettingsError(self.peer, differences)
        return dataclasses.replace(remote, sees_qp_num=qp_num, sees_psn=psn), their_settings

    def _meet(self, name: str, deadline: Deadline) -> None:
        self._send({"kind": "barrier", "name": name}, deadline, f"{name!r}")
        there = self._expect("barrier", deadline, f"its {name!r}").get("name")
        if there != name:
            at = printable(repr(there), _LONGEST_NAME)
            self._refuse(FrameError(f"is at the barrier {at}, not {name!r}: the two do different things"))

    def _send(self, message: frames.Message, deadline: Deadline, what: str) -> None:
        try:
            return self._channel.send(frames.encode(message), deadline, what)
        except GoneError as error:
            gone = error
        # It may have said why before it went; that says more than a broken pipe, and is no consequence of it.
        with suppress(GoneError):
            self.check_peer()
        raise gone

    def _expect(self, kind: str, deadline: Deadline, awaiting: str) -> frames.Message:
        message = self._early.popleft() if self._early else self._receive(deadline, awaiting)
        if message["kind"] != kind:
            came = printable(repr(message["kind"]), _LONGEST_NAME)
            self._refuse(FrameError(f"sent a message of kind {came} where {kind!r} was expected"))
        return message

    def _receive(self, deadline: Deadline, awaiting: str) -> frames.Message:
        while lacking := self._missing():
            self._channel.more(lacking, deadline, awaiting)
        return self._take()

    def _missing(self) -> int:
        try:
            return frames.missing(self._channel.buffer)
        except FrameError as error:
            self._refuse(error)

    def _take(self) -> frames.Message:
        """Take the one frame that is in the buffer; a ``fail`` is raised at once."""
        frame = bytes(self._channel.buffer)
        self._channel.buffer.clear()
        try:
            message = frames.decode(frame)
        except FrameError as error:
            self._refuse(error)
        if message["kind"] == "fail":
            self._failed = True  # an answer would reach nobody
            reason = printable(message.get("reason"), _LONGEST_REASON)
            raise PeerError(f"peer {self.peer} gave up: {reason}", self.peer)
        return message

    def _refuse(self, error: FrameError) -> NoReturn:
        if error.ours:
            self.fail(f"this end {error}")
        raise PeerError(f"peer {self.peer} {error}", self.peer) from None


class Listener(WireListener[Exchange]):
    """A TCP port on which a server waits for the clients of our exchange, as :class:`WireListener` says."""

    @checked()
    def __init__(self, port: int = DEFAULT_PORT, host: str = "") -> None:
        super().__init__(Exchange, port, host)


def _same(ours: Setting, theirs: Setting) -> bool:
    # True == 1 in Python, but not for whoever typed them.
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)
