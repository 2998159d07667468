"""The messages of our protocol, by their kind: made of what is to be told, and read with distrust. Pure functions.

- ``hello``: the client's first words. With a shared secret it has a ``nonce``, and the server answers with a ``hello``
  that has one too, and a ``proof``; then comes the client's ``proof``.
- ``record``: ``nonce``, ``endpoint`` (:class:`Endpoint` without what it sees), ``settings``, ``told``.
- ``echo``: ``nonce`` and ``of``, the receiver's and the sender's own; ``qp_num`` and ``psn`` as received.
- ``verdict``: ``of``, the receiver's nonce; ``refused``: why its sender does not connect, or null.
- ``barrier``: ``name``; at the one after the bring-up ``receives``, how many are posted (null: from a shared queue, or
  not known), or ``failed``: why the queue pair is not up.
- ``bye``: its sender sends nothing more; ``sent``, how many messages that were.  ``fail``: ``reason``.

Unknown fields are skipped, so that one can be added without a new version; anything else takes one.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.frames import FrameError, Message, printable
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.enums import GidType, LinkLayer, PortState, QPType
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

    from rdmaqp.connection.wire import Setting

_INTEGERS: dict[str, tuple[int, int]] = {
    "qp_num": (0, 0xFFFFFF),
    "psn": (0, 0xFFFFFF),
    "lid": (0, 0xFFFF),
    "gid_index": (0, 0xFFFF),
    "max_rd_atomic": (0, 0xFF),
    "max_dest_rd_atomic": (0, 0xFF),
    "pkey": (0, 0xFFFF),
    "pkey_index": (0, 0xFFFF),
    "port_num": (1, 0xFF),
    "lmc": (0, 7),
    "qkey": (0, 0xFFFFFFFF),
    "rx_depth": (0, 0xFFFFFFFF),
}
_ENUMS: dict[str, type[IntEnum]] = {
    "qp_type": QPType, "link_layer": LinkLayer, "gid_type": GidType, "port_state": PortState,
}  # fmt: skip
_MTUS = (256, 512, 1024, 2048, 4096)
_GID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NONCE = re.compile(r"[0-9a-f]{16}", re.ASCII)
_LONG_NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PROOF = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LONGEST_REASON = 4000  # characters; in JSON at most twelve bytes each
_MOST_SETTINGS = 64


def record(
    nonce: str, endpoint: Endpoint, settings: Mapping[str, Setting], told: Mapping[str, Setting] | None = None
) -> Message:
    """The message that tells *endpoint*, the *settings* that both ends must have alike, and what else is *told*.

    Raises:
        ValueError: a value is out of the range that the peer would take.
    """
    fields: Message = {name: getattr(endpoint, name) for name in (*_INTEGERS, "path_mtu", "grh_required")}
    fields |= {name: None if (value := getattr(endpoint, name)) is None else value.name for name in _ENUMS}
    fields["gid"] = None if endpoint.gid is None else endpoint.gid.hex()
    message = {
        "kind": "record", "nonce": nonce, "endpoint": fields, "settings": dict(settings), "told": dict(told or {}),
    }  # fmt: skip
    try:
        read_record(message)
        read_told(message)
    except FrameError as error:
        raise ValueError(f"this end's own record cannot be sent: it {error}") from None
    return message


def read_record(message: Message) -> tuple[str, Endpoint, dict[str, Setting]]:
    """Nonce, endpoint and settings of a ``record``.

    Raises:
        FrameError: something is absent, of another type, or out of range.
    """
    nonce = _text(message, "nonce", _NONCE)
    fields = message.get("endpoint")
    if type(fields) is not dict:
        raise FrameError("sent a record without an endpoint")
    values: dict[str, Any] = {name: _integer(fields, name, *bounds) for name, bounds in _INTEGERS.items()}
    for name in ("qp_num", "psn"):
        if values[name] is None:
            raise FrameError(f"sent a record without {name}")
    values["path_mtu"] = mtu = _integer(fields, "path_mtu", _MTUS[0], _MTUS[-1])
    if mtu is not None and mtu not in _MTUS:
        raise _wrong("path_mtu", mtu, f"one of {_MTUS}")
    values["grh_required"] = grh = fields.get("grh_required")
    if grh is not None and type(grh) is not bool:
        raise _wrong("grh_required", grh, "true or false")
    values |= {name: _member(fields, name, kind) for name, kind in _ENUMS.items()}
    values["gid"] = None if fields.get("gid") is None else GID(bytes.fromhex(_text(fields, "gid", _GID)))
    return nonce, Endpoint(**values), _settings(message.get("settings"))


def read_told(message: Message) -> dict[str, Setting]:
    """What a ``record`` tells besides; nothing where it has no word of it. Raises :class:`FrameError`."""
    return _settings(message.get("told", {}))


def hello(nonce: str, proof: str | None = None) -> Message:
    """The greeting of an end that has a secret; the server's has its proof."""
    return {"kind": "hello", "nonce": nonce} | ({} if proof is None else {"proof": proof})


def read_nonce(message: Message) -> str:
    """The nonce of a greeting. Raises :class:`FrameError`."""
    return _text(message, "nonce", _LONG_NONCE)


def read_proof(message: Message) -> str:
    """The proof of a ``hello`` or ``proof``. Raises :class:`FrameError`."""
    return _text(message, "proof", _PROOF)


def verdict(of: str, refused: str | None) -> Message:
    """What its sender thinks of the record with the nonce *of*: ``None`` is that it will connect."""
    return {"kind": "verdict", "of": of, "refused": _cut(refused)}


def read_verdict(message: Message) -> tuple[str, str | None]:
    """The nonce that a ``verdict`` is about, and why its sender refuses. Raises :class:`FrameError`."""
    return _text(message, "of", _NONCE), _reason(message, "refused")


def barrier(name: str, receives: int | None = None, failed: str | None = None) -> Message:
    """Its sender is at the barrier *name*."""
    return {"kind": "barrier", "name": name, "receives": receives, "failed": _cut(failed)}


def read_readiness(message: Message) -> tuple[int | None, str | None]:
    """How many receives are posted at the sender of a ``barrier``; why it is not up. Raises :class:`FrameError`."""
    return _integer(message, "receives", 0, 0xFFFFFFFF), _reason(message, "failed")


def read_sent(message: Message) -> int:
    """How many messages the sender of a ``bye`` has sent. Raises :class:`FrameError`."""
    sent = _integer(message, "sent", 0, (1 << 63) - 1)
    if sent is None:
        raise FrameError("sent a goodbye that does not count its messages")
    return sent


def fail(reason: str) -> Message:
    """Its sender gives up."""
    return {"kind": "fail", "reason": _cut(reason)}


def reason_in(message: Message) -> str:
    """Why the sender of a ``fail`` gave up, fit for a terminal."""
    return printable(message.get("reason"), _LONGEST_REASON)


def echo(nonce: str, of: str, seen: Endpoint) -> Message:
    """The message that repeats *nonce* and the numbers that came with it; *of* is the sender's own nonce."""
    return {"kind": "echo", "nonce": nonce, "of": of, "qp_num": seen.qp_num, "psn": seen.psn}


def read_echo(message: Message) -> tuple[str, str, int, int]:
    """Nonce, the sender's nonce, QP number and PSN of an ``echo``.

    Raises:
        FrameError: something is absent, of another type, or out of range.
    """
    qp_num, psn = (_integer(message, name, *_INTEGERS[name]) for name in ("qp_num", "psn"))
    if qp_num is None or psn is None:
        raise FrameError("sent an echo without qp_num or psn")
    return _text(message, "nonce", _NONCE), _text(message, "of", _NONCE), qp_num, psn


def _cut(reason: str | None) -> str | None:
    return None if reason is None else reason[:_LONGEST_REASON]


def _reason(message: Message, name: str) -> str | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong(name, value, "text or null")
    return printable(value, _LONGEST_REASON)


def _integer(fields: Message, name: str, low: int, high: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _wrong(name, value, f"{low}…{high}")
    return value


def _text(fields: Message, name: str, pattern: re.Pattern[str]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _wrong(name, value, f"text like {pattern.pattern}")
    return value


def _member(fields: Message, name: str, kind: type[IntEnum]) -> IntEnum | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value not in kind.__members__:
        raise _wrong(name, value, f"one of {', '.join(kind.__members__)}")
    return kind[value]


def _settings(value: object) -> dict[str, Setting]:
    if type(value) is not dict or len(value) > _MOST_SETTINGS:
        raise FrameError(f"sent a record without settings, or with more than {_MOST_SETTINGS}")
    for name, setting in value.items():
        plain = setting is None or isinstance(setting, (str, int, float))
        endless = isinstance(setting, float) and not math.isfinite(setting)
        if not isinstance(name, str) or not plain or endless:
            raise _wrong(f"setting {printable(name, 40)}", setting, "text, a number, true, false or null")
    return value


def _wrong(name: str, value: object, expected: str) -> FrameError:
    return FrameError(f"sent {name} = {printable(repr(value), 80)}; expected {expected}")
