"""Our protocol's frames and messages as bytes: pure functions, strict about what comes in.

A frame is ``RDQP``, the version (16 bits), the length of what follows (32 bits, both big-endian), and
that many bytes of JSON: one object with a ``kind``. What each kind has, :mod:`rdmaqp.connection.messages` says.

With a shared secret, all frames after the greeting end in 32 bytes that prove it (:mod:`rdmaqp.connection.secrecy`);
the length counts them.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdmaqp.connection.secrecy import Seal

MAGIC = b"RDQP"
VERSION = 2
LONGEST = 64 * 1024
"""Bytes of JSON that a frame may carry."""
HEADER = struct.Struct("!4sHI")

_STOCK_RECORD = re.compile(rb"[0-9a-fA-F]{4}:", re.ASCII)

Message = dict[str, Any]


class FrameError(ValueError):
    """What came is not what the protocol has. The text continues "peer …"; told to the peer, "this end …".

    Attributes:
        ours: whether it began with :data:`MAGIC`, so that the peer would understand an answer.
    """

    def __init__(self, text: str, *, ours: bool = True) -> None:
        super().__init__(text)
        self.ours = ours


def encode(message: Mapping[str, Any], seal: Seal | None = None) -> bytes:
    """A message as a frame, sealed where the two ends have a secret.

    Raises:
        ValueError: it is longer than :data:`LONGEST`, or JSON has no word for something in it.
    """
    body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > LONGEST:
        raise ValueError(f"a message of {len(body)} bytes does not fit into a frame; at most {LONGEST} do")
    proof = 0 if seal is None else seal.size
    frame = HEADER.pack(MAGIC, VERSION, len(body) + proof) + body
    return frame if seal is None else frame + seal.sign(frame)


def missing(buffer: bytes | bytearray, seal: Seal | None = None) -> int:
    """How many bytes *buffer* lacks to the end of its frame's header or, once that is there, of its frame.

    Raises:
        FrameError: it is not the beginning of a frame. Known from the first wrong byte on.
    """
    if buffer[: len(MAGIC)] != MAGIC[: len(buffer)]:
        raise FrameError(_not_ours(bytes(buffer[:40])), ours=False)
    if len(buffer) < HEADER.size:
        return HEADER.size - len(buffer)
    _, version, length = HEADER.unpack_from(buffer)
    if version != VERSION:
        raise FrameError(
            f"speaks version {version} of the exchange, not version {VERSION} as expected\n"
            "install the same rdmaqp on both ends"
        )
    if length > LONGEST + (0 if seal is None else seal.size):
        raise FrameError(f"announced a message of {length} bytes; at most {LONGEST} are allowed")
    return int(HEADER.size + length - len(buffer))


def _not_ours(begin: bytes) -> str:
    if _STOCK_RECORD.match(begin):
        advice = "this looks like a stock ibv_rc_pingpong: give --wire ibv at this end"
    else:
        advice = "check that host and port are those of an rdmaqp peer; a port scanner looks like this, too"
    return f"does not speak rdmaqp's exchange: it sent {begin!r} where {MAGIC!r} was expected\n{advice}"


def decode(frame: bytes, seal: Seal | None = None) -> Message:
    """The message in a complete frame.

    Raises:
        FrameError: it is not a JSON object with a kind.
        SecretError: *seal* is given, and it does not prove the secret.
    """
    if seal is not None:
        frame = seal.open(frame)
    try:
        text = frame[HEADER.size :].decode()
        message = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except RecursionError:
        raise FrameError("sent JSON that is nested too deeply; a message is flat") from None
    except ValueError as error:
        raise FrameError(f"sent a message that is not JSON: {error}") from None
    if type(message) is not dict or type(message.get("kind")) is not str:
        raise FrameError("sent JSON that is no message; expected an object with a 'kind'")
    return message


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def printable(text: object, longest: int) -> str:
    """*text* from the peer without what would play with a terminal, cut after *longest* characters."""
    return "".join(c if c == "\n" or c.isprintable() else "?" for c in str(text)[:longest])
