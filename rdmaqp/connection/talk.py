"""What two ends say to each other, in which order, without a socket: :class:`Exchange` and :class:`AsyncExchange`
drive the same conversation.

A conversation is a generator. It yields :class:`Say`, :class:`Hear` or :class:`Do`, and is sent what was heard or done.

The steps: greeting; records, and the echo of each, so that both know that the other means this very queue pair;
verdicts, each end's on the other's record, before any queue pair leaves INIT; the bring-up; the barrier "ready", which
says how many receives are posted: behind it either end may send.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from rdmaqp.connection import frames, messages
from rdmaqp.connection.frames import FrameError, printable
from rdmaqp.connection.refusals import GoodbyeError, NotUpError, RefusedError, SettingsError
from rdmaqp.connection.secrecy import Seal, SecretError, check_secret
from rdmaqp.connection.wire import reason_of
from rdmaqp.errors import DeadlineError, PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from rdmaqp.connection.wire import Role, Setting
    from rdmaqp.model.endpoint import Endpoint

MOST_EARLY = 4  # messages that a peer in order may be ahead: the "done", and the next swap's
_LONGEST_NAME = 64


class Say(NamedTuple):
    """Send *message*; *what* it is, errors say."""

    message: frames.Message
    what: str


class Hear(NamedTuple):
    """The next message is wanted, of this *kind*; errors say what was awaited."""

    kind: str
    awaiting: str


class Do(NamedTuple):
    """*work* is to be done here, which may take a second or so; its result is wanted."""

    work: Callable[[], Any]


T = TypeVar("T")
if TYPE_CHECKING:
    from typing import TypeAlias

    Steps: TypeAlias = Generator[Say | Hear | Do, Any, T]


class Heard(NamedTuple):
    """What the peer said of itself.

    Attributes:
        remote: its record; ``sees_…`` is what it took ours for.
        settings: those that it named.
        told: what it told besides.
        receives: how many it had posted when it was ready; ``None`` where it did not say.
    """

    remote: Endpoint
    settings: dict[str, Setting]
    told: dict[str, Setting]
    receives: int | None = None


class Plan(NamedTuple):
    """What an end brings along.

    Attributes:
        local: its record.
        settings: what both ends must have alike, where both name it.
        told: what the peer is to know besides.
        judge: given the peer's record, why this end refuses; ``None`` is that it does not.
        bring_up: given the peer's record, brings the queue pair up, and says how many receives are posted.
        hear: given all that the peer has said, before *judge*, why this end cannot make anything of it.
    """

    local: Endpoint
    settings: Mapping[str, Setting]
    told: Mapping[str, Setting]
    judge: Callable[[Endpoint], str | None]
    bring_up: Callable[[Endpoint], int | None]
    hear: Callable[[Heard], str | None] = lambda _: None


class Talk:
    """One end's part.

    Attributes:
        early: messages that came before they were asked for.
        failed: whether one of the two has given up.
        in_step: whether both ends know where they stand, so that they can agree again.
    """

    def __init__(self, role: Role, peer: str, secret: bytes | None, fail: Callable[[str], object]) -> None:
        self.role, self.peer = role, peer
        self._secret = check_secret(secret)
        self._fail = fail
        self._seal: Seal | None = None
        self.early: deque[frames.Message] = deque()
        self.failed = False
        self.in_step = True

    # ------------------------------------------------------------------ bytes

    def encode(self, message: frames.Message) -> bytes:
        """The frame to send. Raises ValueError where it is too long."""
        return frames.encode(message, self._seal)

    def missing(self, buffer: bytearray) -> int:
        """How many bytes *buffer* lacks; see :func:`frames.missing`. Raises :class:`PeerError`."""
        try:
            return frames.missing(buffer, self._seal)
        except FrameError as error:
            self.refuse(error)

    def take(self, buffer: bytearray) -> frames.Message:
        """Take the one frame that is in *buffer*; a ``fail`` is raised at once."""
        frame = bytes(buffer)
        buffer.clear()
        try:
            message = frames.decode(frame, self._seal)
        except FrameError as error:
            self.refuse(error)
        except SecretError:
            self.refuse_secret()
        if message["kind"] == "fail":
            self.failed = True  # an answer would reach nobody
            raise PeerError(f"peer {self.peer} gave up: {messages.reason_in(message)}", self.peer)
        return message

    def expected(self, message: frames.Message, kind: str) -> frames.Message:
        """*message*, which has to be of that *kind*."""
        if message["kind"] != kind:
            came = printable(repr(message["kind"]), _LONGEST_NAME)
            if message["kind"] == "bye":
                raise GoodbyeError(self.peer, self._read(messages.read_sent, message))
            self.refuse(FrameError(f"sent a message of kind {came} where {kind!r} was expected"))
        return message

    def refuse(self, error: FrameError) -> NoReturn:
        """Raise *error* as the peer's, who is told of it where it would understand."""
        if error.ours:
            self._fail(f"this end {error}")
        raise PeerError(f"peer {self.peer} {error}", self.peer) from None

    def refuse_secret(self) -> NoReturn:
        """Raise :class:`SecretError`; the peer hears no reason."""
        self._seal = None  # a sealed word would tell more than that
        self._fail("refused")
        raise SecretError(self.peer) from None

    # ------------------------------------------------------------------ conversations

    def greet(self) -> Steps[None]:
        """Both mean this protocol, and prove the secret where there is one."""
        return self._greet_as_client() if self.role == "client" else self._greet_as_server()

    def _greet_as_client(self) -> Steps[None]:
        if self._secret is None:
            yield Say({"kind": "hello"}, "our greeting")
            return
        nonce = secrets.token_hex(16)
        yield Say(messages.hello(nonce), "our greeting")
        answer = yield Hear("hello", "its greeting")
        seal = Seal(self._secret, self.role, nonce, self._read(messages.read_nonce, answer))
        self._require_proof(seal, answer)
        yield Say({"kind": "proof", "proof": seal.proof()}, "our proof")
        self._seal = seal

    def _greet_as_server(self) -> Steps[None]:
        message = yield Hear("hello", "its greeting")
        if self._secret is None:
            if "nonce" in message:
                self.refuse(FrameError("has a shared secret, and the other end has none"))
            return
        if "nonce" not in message:
            self.refuse_secret()
        theirs, ours = self._read(messages.read_nonce, message), secrets.token_hex(16)
        seal = Seal(self._secret, self.role, theirs, ours)
        yield Say(messages.hello(ours, seal.proof()), "our greeting")
        self._require_proof(seal, (yield Hear("proof", "its proof")))
        self._seal = seal

    def _require_proof(self, seal: Seal, message: frames.Message) -> None:
        if not seal.accepts(self._read(messages.read_proof, message)):
            self.refuse_secret()

    def _read(self, read: Callable[[frames.Message], T], message: frames.Message) -> T:
        try:
            return read(message)
        except FrameError as error:
            self.refuse(error)

    def swap(
        self, local: Endpoint, settings: Mapping[str, Setting], told: Mapping[str, Setting]
    ) -> Steps[tuple[str, str, Heard]]:
        """Tell *local*, and learn the peer's record: our nonce, the peer's, and what it said."""
        nonce = secrets.token_hex(8)
        yield Say(messages.record(nonce, local, settings, told), "our record")
        message = yield Hear("record", "its record")
        their_nonce, remote, their_settings = self._read(messages.read_record, message)
        their_words = self._read(messages.read_told, message)
        yield Say(messages.echo(their_nonce, nonce, remote), "our echo of its record")
        echo = yield Hear("echo", "its echo of our record")
        echoed, of, qp_num, psn = self._read(messages.read_echo, echo)
        if (echoed, of) != (nonce, their_nonce):
            self.refuse(FrameError("answered to an earlier record: its answer is stale"))
        differences = {
            name: (ours, their_settings[name])
            for name, ours in settings.items()
            if name in their_settings and not _same(ours, their_settings[name])
        }
        if differences:
            raise SettingsError(self.peer, differences)
        remote = dataclasses.replace(remote, sees_qp_num=qp_num, sees_psn=psn)
        return nonce, their_nonce, Heard(remote, their_settings, their_words)

    def agree(self, plan: Plan) -> Steps[Heard]:
        """All from the records to the barrier "ready"."""
        self.in_step = False
        nonce, their_nonce, heard = yield from self.swap(plan.local, plan.settings, plan.told)
        remote = heard.remote
        error: Exception | None
        ours, error = yield Do(lambda: _attempt(lambda: plan.hear(heard) or plan.judge(remote)))
        if error is not None:
            ours = reason_of(error)
        yield Say(messages.verdict(their_nonce, ours), "our verdict")
        of, theirs = self._read(messages.read_verdict, (yield Hear("verdict", "its verdict")))
        if of != nonce:
            self.refuse(FrameError("judged an earlier record: its answer is stale"))
        if ours is not None or theirs is not None:
            self.in_step = True
            both = {self.role: ours, _OTHER[self.role]: theirs}
            raise RefusedError(self.peer, {role: why for role, why in both.items() if why is not None}) from error
        receives, error = yield Do(lambda: _attempt(lambda: plan.bring_up(remote)))
        failed = None if error is None else reason_of(error)
        try:
            there, their_failure = yield from self._meet("ready", receives, failed)
        except (PeerError, DeadlineError):
            if error is not None:
                raise error from None  # a peer that has gone meanwhile is a lesser matter
            raise
        self.in_step = True
        if error is not None:
            raise error
        if their_failure is not None:
            raise NotUpError(self.peer, their_failure)
        return heard._replace(receives=there)

    def meet(self, name: str) -> Steps[None]:
        """Wait for each other at the barrier *name*."""
        yield from self._meet(name)

    def _meet(
        self, name: str, receives: int | None = None, failed: str | None = None
    ) -> Steps[tuple[int | None, str | None]]:
        yield Say(messages.barrier(name, receives, failed), f"{name!r}")
        message = yield Hear("barrier", f"its {name!r}")
        there = message.get("name")
        if there != name:
            at = printable(repr(there), _LONGEST_NAME)
            self.refuse(FrameError(f"is at the barrier {at}, not {name!r}: the two do different things"))
        return self._read(messages.read_readiness, message)


def _attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What *work* came to: its result, or its error, which the peer has to hear of first."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def _same(ours: Setting, theirs: Setting) -> bool:
    # True == 1 in Python, but not for whoever typed them.
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


_OTHER: dict[Role, Role] = {"client": "server", "server": "client"}
