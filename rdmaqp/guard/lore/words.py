"""Which topics a person means: ``INIT RTR``, ``IBV_QP_TIMEOUT``, ``timeout 14``, ``-110``, ``RETRY_EXC_ERR``, …"""

from __future__ import annotations

import errno
import re
from difflib import get_close_matches
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from rdmaqp.guard.driver_rows import ALIASES, DRIVERS
from rdmaqp.guard.lore import topics
from rdmaqp.guard.lore.attributes import PARTS
from rdmaqp.guard.lore.errnos import ERRNOS, name_of
from rdmaqp.guard.lore.machine import Kind, owner
from rdmaqp.guard.rules import RULES
from rdmaqp.model.attributes import FIELD_OF_BIT, FIELDS
from rdmaqp.model.enums import AttrMask, DriverType, QPState, QPType, WCStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rdmaqp.guard.lore.topics import Topic

_PREFIX = re.compile(r"^(IBV?_)?(QPS_|QPT_|QP_|WC_)?", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*(?:→|->|=>|,|\bto\b)\s*|\s+", re.IGNORECASE)
#: What joins states besides, where all that it parts are states: INIT-RTR, init_to_rtr, the firmware's INIT2RTR.
_JOINS = (re.compile(r"[^A-Za-z0-9_]+"), re.compile(r"(?:[^A-Za-z0-9]|2|to)+", re.IGNORECASE))
#: What may stand behind an attribute: one of its codes or values.
_CODE = re.compile(r"-?(?:\d{1,10}|0[xX][0-9a-fA-F]{1,8})")
_KERNEL_NAMES = {"XRC_INI": "XRC_SEND", "XRC_TGT": "XRC_RECV"}
_STATES = {state.name: state for state in QPState} | {"ERROR": QPState.ERR}
_TYPES: dict[str, Kind] = {kind.name: kind for kind in (*QPType, *DriverType)}
_TYPES |= {kernel: QPType[name] for kernel, name in _KERNEL_NAMES.items()}
_STATUSES = {status.name: int(status) for status in WCStatus}
_ERRNOS = {name: number for number, name in errno.errorcode.items()} | {
    "ENOTSUPP": 524, "EWOULDBLOCK": errno.EAGAIN, "EOPNOTSUPP": errno.EOPNOTSUPP,
}  # fmt: skip
_MASKS = {flag.name: FIELD_OF_BIT[int(flag)].name for flag in AttrMask if int(flag) in FIELD_OF_BIT}


class UnknownWordError(LookupError):
    """A word that means nothing here; ``near`` are the nearest that do."""

    def __init__(self, word: str, near: Sequence[str]) -> None:
        self.word, self.near = word, tuple(near)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `rdmaqp explain` alone lists what there is"
        shown = word if len(word) <= 40 else f"{word[:39]}…"
        super().__init__(f"{shown!r} is nothing that can be explained{hint}")


def known() -> dict[str, list[str]]:
    """Every word there is, by kind."""
    return {
        "states": [state.name for state in QPState],
        "types": [kind.name for kind in (*QPType, *DriverType)],
        "attributes": [*FIELDS, *PARTS],
        "rules": list(RULES),
        "errnos": [name_of(number) for number in ERRNOS],
        "statuses": list(_STATUSES),
        "drivers": list(DRIVERS),
    }


def explain(words: Sequence[str], kind: Kind = QPType.RC, driver: str | None = None) -> list[Topic]:
    """The topics of *words*, of queue pairs of *kind* where that matters, with a word on *driver*.

    States in a row are a way, and its arrows are explained one by one; a word with a blank in it stands for itself.

    Raises:
        UnknownWordError: one of them means nothing, or there is none.
    """
    driver = driver or owner(kind)
    found = [topic for parts in _phrases(words) for topic in _phrase(parts, kind, driver)]
    if not found:
        raise UnknownWordError(" ".join(words), ())
    return found


def _phrases(words: Sequence[str]) -> Iterator[list[str]]:
    """The words, parted; single ones that follow each other are one phrase, so that INIT RTR is an arrow."""
    running: list[str] = []
    for word in words:
        parts = [state for part in _BETWEEN.split(word) if part for state in _joined(part)]
        if len(parts) < 2:
            running += parts
            continue
        yield running
        yield parts
        running = []
    yield running


def _joined(part: str) -> list[str]:
    """The states that *part* joins; itself where it joins none."""
    for join in _JOINS:
        states = [state for state in join.split(part) if state]
        if len(states) > 1 and all(_bare(state) in _STATES for state in states):
            return states
    return [part]


def _phrase(parts: list[str], kind: Kind, driver: str | None) -> Iterator[Topic]:
    while parts:
        way = [_STATES[_bare(part)] for part in takewhile(lambda part: _bare(part) in _STATES, parts)]
        name = _attribute(parts[0])
        if len(way) > 1:
            yield from (topics.arrow(start, goal, kind, driver) for start, goal in pairwise(way))
            del parts[: len(way)]
        elif name is not None and len(parts) > 1 and _CODE.fullmatch(parts[1]):
            yield topics.attribute(name, int(parts[1], 16 if "x" in parts[1].lower() else 10))
            del parts[:2]
        else:
            word = parts.pop(0)
            yield from _word(word, kind, driver)
            named = _TYPES.get(_bare(word), QPType.DRIVER)
            if named is not QPType.DRIVER and parts and _bare(parts[0]) in _STATES:  # UC INIT RTR: UC's own
                kind, driver = named, driver or owner(named)


def _word(word: str, kind: Kind, driver: str | None) -> list[Topic]:
    """What one word means: a number may be both an error number and a status."""
    bare, lower = _bare(word), word.lower()
    name = _attribute(word)
    if re.fullmatch(r"-?\d{1,4}", word):
        found = [topics.error_number(abs(int(word)))] if abs(int(word)) in {*errno.errorcode, 524} else []
        found += [topics.status(int(word))] if not word.startswith("-") and int(word) in _STATUSES.values() else []
    else:
        found = [
            *([topics.state(_STATES[bare], kind, driver)] if bare in _STATES else []),
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
    """The nearest known words, whatever their case and prefix: those like it, that begin with it, that hold it."""
    every = {str(name).lower(): str(name) for name in _MASKS}
    every |= {name.lower(): name for names in known().values() for name in names}
    tried = sorted({word.lower(), _bare(word).lower(), word.lower().replace("_", "-")})
    begin = [name for attempt in tried if len(attempt) > 1 for name in every if name.startswith(attempt)]
    hold = [name for attempt in tried if len(attempt) > 2 for name in every if attempt in name]
    near = [match for attempt in tried if len(attempt) > 1 for match in get_close_matches(attempt, every, 2, 0.6)]
    faint = [match for attempt in tried for match in get_close_matches(attempt, every, 2, 0.4)]
    found = [*begin[:3], *near, *hold[:3]] or (faint if 2 < len(word) < 40 else [])
    return [every[match] for match in dict.fromkeys(found)][:4]
