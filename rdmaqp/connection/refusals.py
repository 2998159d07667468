"""How two ends tell each other that they do not fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.connection.frames import printable
from rdmaqp.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.connection.wire import Role, Setting

_LONGEST_VALUE = 64


class GoodbyeError(PeerError):
    """The peer has ended the connection in good order, where something else was awaited.

    Attributes:
        sent: how many messages it had sent.
    """

    def __init__(self, peer: str, sent: int) -> None:
        super().__init__(f"peer {peer} has ended the connection in good order", peer)
        self.sent = sent


class SettingsError(PeerError):
    """The two ends were started with settings that do not fit together.

    Attributes:
        differences: each setting's name with this end's value and the peer's.
    """

    def __init__(self, peer: str, differences: Mapping[str, tuple[Setting, Setting]]) -> None:
        first = f"this end and peer {peer} differ in {', '.join(differences)}"
        rows = [
            f"  {name}: here {ours!r}, there {printable(repr(theirs), _LONGEST_VALUE)}"
            for name, (ours, theirs) in differences.items()
        ]
        super().__init__("\n".join([first, *rows, "start both ends with the same"]), peer)
        self.differences = dict(differences)


class RefusedError(PeerError):
    """An end refused the other's record before its queue pair left INIT. Both ends raise it, with the same reasons.

    The exchange goes on: once the reason is gone, the two may agree again.

    Attributes:
        reasons: by role, ``"client"`` and ``"server"``, why that end refused; only those that did.
    """

    def __init__(self, peer: str, reasons: Mapping[Role, str]) -> None:
        told = [f"the {role} refuses: {reason}" for role, reason in sorted(reasons.items())]
        super().__init__("\n".join([f"this end and peer {peer} do not agree; neither connects", *told]), peer)
        self.reasons = dict(reasons)


class NotUpError(PeerError):
    """The peer agreed, and could not bring its queue pair up. The exchange goes on, as after :class:`RefusedError`.

    Attributes:
        reason: the peer's words.
    """

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"peer {peer} could not bring its queue pair up: {reason}", peer)
        self.reason = reason
