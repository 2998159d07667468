"""What a :class:`~rdmaqp.Connection` tells its user, and how it ends when it cannot go on."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rdmaqp.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.verbs.work_completion import WorkCompletion

LOG = logging.getLogger("rdmaqp")

Kind = Literal["connected", "failed", "retrying", "recovered", "ended", "lost"]
_LEVELS: dict[Kind, int] = {
    "connected": logging.INFO, "failed": logging.WARNING, "retrying": logging.WARNING, "recovered": logging.INFO,
    "ended": logging.INFO, "lost": logging.ERROR,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that a connection's user may want to know.

    Attributes:
        kind: ``connected``; ``failed``: a recovery begins; ``retrying``: an attempt has failed, and another follows;
            ``recovered``; ``ended``: the peer has closed in good order; ``lost``: it does not go on.
        text: the same in words.
        cause: of ``failed``: the completion that failed; ``None`` where the failure was the peer's.
        error: of ``retrying`` and ``lost``: why.
        attempt: how often the two have tried to agree in this recovery.
        arrived: of ``recovered``: messages without an acknowledgement that had arrived all the same.
        again: of ``recovered``: messages that had not, and were posted again.
        stalled: of ``recovered`` and ``lost``: seconds since the failure was noticed.
    """

    kind: Kind
    text: str
    cause: WorkCompletion | None = None
    error: BaseException | None = None
    attempt: int = 0
    arrived: int = 0
    again: int = 0
    stalled: float = 0.0

    def __str__(self) -> str:
        return self.text


class ConnectionLostError(PeerError):
    """A connection does not go on; why is its ``__cause__``.

    Attributes:
        unknown: the messages that were sent and not acknowledged, each with its number: the peer may have received
            them, or not.
        received: how many messages had come from the peer.
    """

    def __init__(self, message: str, peer: str, unknown: Sequence[tuple[int, bytes]], received: int) -> None:
        super().__init__(message, peer)
        self.unknown = tuple(unknown)
        self.received = received


class ConnectionEndedError(PeerError):
    """The peer has closed the connection in good order, and everything that it sent has been received."""


def tell(listener: Callable[[Happening], object] | None, happening: Happening) -> None:
    """Tell the log and the user's function. What that raises is logged: it must not stop a recovery."""
    LOG.log(_LEVELS[happening.kind], "%s", happening.text)
    if listener is None:
        return
    try:
        listener(happening)
    except Exception:  # a user's function may raise anything
        LOG.exception("on_event raised, told of %s: %s", happening.kind, happening.text)
