"""Requests as JSON, in the form of the check contract: read strictly, written back the same.

Facts of the wrong type and unknown keys are errors that name the place (``port.link_layer``) and the nearest known
word. A wrong *value* of an act is not: it is what the guard is there for, and reaches it as it was given.

A trace says the same device, port and tables in line after line. So a text is first taken part by part, and a part
whose text was read lately is not read again. That way only ever ends in a request: all that it does not expect, right
or wrong, is left to :func:`decode`, which says what is wrong.
"""

from __future__ import annotations

import json
import re
from sys import intern
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import RequestError
from rdmaqp.model.codec_shape import REQUEST
from rdmaqp.model.codec_words import fields
from rdmaqp.model.facts import QPFacts
from rdmaqp.model.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from rdmaqp.model.codec_words import Reader

    PartReader: TypeAlias = Callable[[str, int], tuple[Any, int]]

ACTS = ("attr", "post", "create", "reg_mr", "ah")
_ACTS = frozenset(ACTS)
_NO_QP = QPFacts()


def loads(text: str | bytes) -> Request:
    """Read one request from JSON text.

    Raises:
        RequestError: it is not JSON, has a key twice, or is not a request; see :func:`decode`.
    """
    request = _by_parts(text)
    return decode(_parsed(text)) if request is None else request


def decode(value: object) -> Request:
    """Read one request from a parsed JSON object.

    Raises:
        RequestError: an unknown key (the nearest known one is named), a fact of the wrong type, not exactly one act.
    """
    try:
        found = fields(value, REQUEST)
    except RecursionError:
        raise RequestError("it is nested too deeply") from None
    return _request(found)


def _request(found: dict[str, Any]) -> Request:
    if len(found.keys() & _ACTS) != 1:
        acts = " and ".join(act for act in ACTS if act in found)
        raise RequestError(f"a request has exactly one act of {', '.join(ACTS)}; this has {acts or 'none'}")
    if "qp" not in found:
        found["qp"] = _NO_QP
    return Request(**found)


# ---------------------------------------------------------------------- a text as a whole


def _parsed(text: str | bytes) -> Any:
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RequestError:
        raise
    except RecursionError:
        raise RequestError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        where = f"byte {error.object[error.start]:#04x} at column {error.start + 1}"
        raise RequestError(f"not JSON: {where} is not UTF-8") from None
    except ValueError as error:
        raise RequestError(f"not JSON: {str(error)[:200]}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RequestError(f"the key {twice[:60]!r} is there twice")
    return found


def _no_number(name: str) -> Any:
    raise RequestError(f"not JSON: {name} is no number there")


#: Made once: making it costs as much as reading a short request.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
_value_at = _DECODER.raw_decode


# ---------------------------------------------------------------------- a text part by part


def _read(read: Reader) -> PartReader:
    """What *read* makes of the value at a place of a text, and where that ends."""
    def at(text: str, start: int) -> tuple[Any, int]:
        value, end = _value_at(text, start)
        if value is None:
            raise RequestError("null is left out by decode()")
        return read(value), end

    return at


def _remembered(read: Reader, closing: str) -> PartReader:
    """The same, with what was read lately, by its text.

    An object or a list shows by itself where it ends: where a text goes on with the whole of one that was read before,
    the same one stands there. So the end need only be guessed, by the next closing bracket. A wrong guess is the text
    of nothing, and is not found.
    """
    read_at = _read(read)
    known: dict[str, Any] = {}

    def at(text: str, start: int) -> tuple[Any, int]:
        guess = text[start : text.find(closing, start) + 1]
        found = known.get(guess)
        if found is not None:
            return found, start + len(guess)
        found, end = read_at(text, start)
        if len(known) >= 256:
            known.clear()
        if end - start < 8192:
            known[text[start:end]] = found
        return found, end

    return at


_PARTS: dict[str, PartReader] = {name: _read(read) for name, read in REQUEST.items()} | {
    name: _remembered(REQUEST[name], "}") for name in ("device", "port", "pkeys", "qp", "peer", "process")
} | {name: _remembered(REQUEST[name], "]") for name in ("gids", "mask")}

_SPACE = r"[ \t\n\r]*"
#: The first brace of a text, or a comma; then a key, as far as its value.
_NEXT = re.compile(rf'(?:\A{{|{_SPACE},){_SPACE}"([a-z_]+)"{_SPACE}:{_SPACE}').match


def _by_parts(text: str | bytes) -> Request | None:
    """The request, where *text* is one, with nothing unusual about its parts."""
    found: dict[str, Any] = {}
    count = end = 0
    try:
        text = text if isinstance(text, str) else text.decode()
        while key := _NEXT(text, end):
            name = intern(key[1])
            found[name], end = _PARTS[name](text, key.end())
            count += 1
        whole = text[0] == "{" and len(found) == count and text[end:].strip(" \t\n\r") == "}"
        return _request(found) if whole else None
    except (ValueError, LookupError, RecursionError):
        return None
