"""A shared secret: each end proves that it has it, and every later frame proves that it is this end's next one.

HMAC-SHA256 (RFC 2104) over both ends' nonces, the sender's role, the frame's number and the frame. A nonce is made
anew for each connection, so that nothing recorded on an earlier one counts; nothing is encrypted. Whoever listens, or
is answered once, can try guesses at home: a secret has to be long and random, ``secrets.token_bytes(32)``.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from rdmaqp.errors import PeerError

if TYPE_CHECKING:
    from rdmaqp.connection.wire import Role

SHORTEST = 16
"""Bytes that a secret has at least."""


class SecretError(PeerError):
    """The peer does not have this end's shared secret, or somebody in between changed or repeated a frame.

    The peer is told only that it was refused.
    """

    def __init__(self, peer: str = "") -> None:
        super().__init__(
            f"peer {peer} was refused: it did not prove that it has this end's shared secret\n"
            "start both ends with the same secret; nothing was told to it",
            peer,
        )


def check_secret(secret: bytes | None) -> bytes | None:
    """*secret*, where it can be one.

    Raises:
        ValueError: it is shorter than :data:`SHORTEST` bytes.
    """
    if secret is None:
        return None
    if len(secret) < SHORTEST:
        raise ValueError(
            f"a shared secret of {len(secret)} bytes can be guessed; give {SHORTEST} or more, such as "
            "secrets.token_bytes(32)"
        )
    return bytes(secret)


class Seal:
    """What seals an end's frames and opens the other's, once both have told their nonces.

    Attributes:
        size: bytes that it adds to a frame.
    """

    size = hashlib.sha256().digest_size

    def __init__(self, secret: bytes, role: Role, client_nonce: str, server_nonce: str) -> None:
        self._secret = secret
        self._nonces = f"{client_nonce}:{server_nonce}".encode()
        self._ours, self._theirs = (role, _OTHER[role])
        self._sent = self._opened = 0

    def proof(self) -> str:
        """What this end shows in its greeting."""
        return self._mac(self._ours, b"greeting").hex()

    def accepts(self, proof: str) -> bool:
        """Whether *proof* is the other end's."""
        return hmac.compare_digest(self._mac(self._theirs, b"greeting").hex(), proof)

    def sign(self, frame: bytes) -> bytes:
        """The bytes that end this end's next frame."""
        self._sent += 1
        return self._mac(self._ours, b"%d:" % self._sent + frame)

    def open(self, frame: bytes) -> bytes:
        """The other end's next frame without its proof. Raises :class:`SecretError`."""
        self._opened += 1
        plain, proof = frame[: -self.size], frame[-self.size :]
        if not hmac.compare_digest(self._mac(self._theirs, b"%d:" % self._opened + plain), proof):
            raise SecretError
        return plain

    def _mac(self, role: Role, data: bytes) -> bytes:
        return hmac.digest(self._secret, b"rdmaqp:%s:%s:" % (role.encode(), self._nonces) + data, "sha256")


_OTHER: dict[Role, Role] = {"client": "server", "server": "client"}
