"""Which topics a person means: ``INIT RTR``, ``IBV_QP_TIMEOUT``, ``timeout 14``, ``-110``, ``RETRY_EXC_ERR``, …"""

from __future__ import annotations

import errno
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rdmaqp.guard.driver_rows import ALIASES, DRIVERS
from rdmaqp.guard.lore import topics
from rdmaqp.guard.lore.attributes import PARTS
from rdmaqp.guard.lore.errnos import ERRNOS
from rdmaqp.guard.rules import RULES
from rdmaqp.model.attributes import FIELD_OF_BIT, FIELDS
from rdmaqp.model.enums import AttrMask, QPState, QPType, WCStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rdmaqp.guard.lore.topics import Topic

_PREFIX = re.compile(r"^(IBV?_)?(QPS_|QPT_|QP_|WC_)?", re.IGNORECASE)
_ARROWS = re.compile(r"\s*(?:→|->|=>|,|\bto\b)\s*|\s+", re.IGNORECASE)
_KERNEL_NAMES = {"XRC_INI": "XRC_SEND", "XRC_TGT": "XRC_RECV"}
_STATES = {state.name: state for state in QPState} | {"ERROR": QPState.ERR}
_TYPES = {kind.name: kind for kind in QPType} | {kernel: QPType[name] for kernel, name in _KERNEL_NAMES.items()}
_STATUSES = {status.name: int(status) for status in WCStatus}
_ERRNOS = {name: number for number, name in errno.errorcode.items()} | {"ENOTSUPP": 524, "EWOULDBLOCK": errno.EAGAIN}
_MASKS = {flag.name: FIELD_OF_BIT[int(flag)].name for flag in AttrMask if int(flag) in FIELD_OF_BIT}


class UnknownWordError(LookupError):
    """A word that means nothing here; ``near`` are the nearest that do."""

    def __init__(self, word: str, near: Sequence[str]) -> None:
        self.word, self.near = word, tuple(near)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `rdmaqp explain` alone lists what there is"
        super().__init__(f"{word!r} is nothing that can be explained{hint}")


def known() -> dict[str, list[str]]:
    """Every word there is, by kind."""
    return {
        "states": [state.name for state in QPState],
        "types": [kind.name for kind in QPType],
        "attributes": [*FIELDS, *PARTS],
        "rules": list(RULES),
        "errnos": [errno.errorcode.get(number, "ENOTSUPP") for number in ERRNOS],
        "statuses": list(_STATUSES),
        "drivers": list(DRIVERS),
    }


def explain(words: Sequence[str], qp_type: QPType = QPType.RC, driver: str | None = None) -> list[Topic]:
    """The topics of *words*, of *qp_type* where that matters, with a word on *driver*.

    Raises:
        UnknownWordError: one of them means nothing.
    """
    parts = [part for part in _ARROWS.split(" ".join(words)) if part]
    found: list[Topic] = []
    while parts:
        states = [_STATES.get(_bare(part)) for part in parts[:2]]
        if len(states) == 2 and states[0] is not None and states[1] is not None:
            found.append(topics.arrow(states[0], states[1], qp_type, driver))
            del parts[:2]
            continue
        name = _attribute(parts[0])
        if name is not None and len(parts) > 1 and re.fullmatch(r"\d{1,10}", parts[1]):
            found.append(topics.attribute(name, int(parts[1])))
            del parts[:2]
            continue
        found += _word(parts.pop(0), qp_type, driver)
    return found


def _word(word: str, qp_type: QPType, driver: str | None) -> list[Topic]:
    """What one word means: a number may be both an error number and a status."""
    bare, lower = _bare(word), word.lower()
    name = _attribute(word)
    if re.fullmatch(r"-?\d{1,4}", word):
        found = [topics.error_number(abs(int(word)))] if abs(int(word)) in {*errno.errorcode, 524} else []
        found += [topics.status(int(word))] if not word.startswith("-") and int(word) in _STATUSES.values() else []
    else:
        found = [
            *([topics.state(_STATES[bare], qp_type, driver)] if bare in _STATES else []),
            *([topics.qp_type(_TYPES[bare])] if bare in _TYPES else []),
            *([topics.attribute(name)] if name is not None else []),
            *([topics.rule(lower.replace("_", "-"))] if lower.replace("_", "-") in RULES else []),
            *([topics.error_number(_ERRNOS[word.upper()])] if word.upper() in _ERRNOS else []),
            *([topics.status(_STATUSES[bare])] if bare in _STATUSES else []),
            *([topics.driver(lower)] if lower in DRIVERS or lower in ALIASES else []),
            *([topics.folklore()] if lower == "folklore" else []),
        ]
    if not found:
        raise UnknownWordError(word, _near(word))
    return found


def _bare(word: str) -> str:
    """Without its prefix, in capitals."""
    return _PREFIX.sub("", word).upper()


def _attribute(word: str) -> str | None:
    name = word.lower().rpartition(".")[2]
    if name in FIELDS or name in PARTS:
        return name
    return _MASKS.get(_bare(word))


def _near(word: str) -> list[str]:
    """The nearest known words, whatever their case and prefix."""
    every = {str(name).lower(): str(name) for name in _MASKS}
    every |= {name.lower(): name for names in known().values() for name in names}
    tried = sorted({word.lower(), _bare(word).lower(), word.lower().replace("_", "-")})
    begin = [name for attempt in tried if len(attempt) > 1 for name in every if name.startswith(attempt)]
    near = [match for attempt in tried for match in get_close_matches(attempt, every, 2, 0.6)]
    return [every[match] for match in dict.fromkeys([*begin[:3], *near])][:4]
