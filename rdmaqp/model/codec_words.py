"""The words of the check contract's JSON: numbers, names, flags, GIDs, each read strictly or passed on as given."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from difflib import get_close_matches
from math import isfinite
from sys import intern
from typing import TYPE_CHECKING, Any, TypeAlias

from rdmaqp.errors import RequestError
from rdmaqp.model.enums import AttrMask, QPState, Reported, mtu_bytes
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from enum import Enum, IntEnum, IntFlag

Reader: TypeAlias = Callable[[Any], Any]

_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,64}")


def fields(value: object, readers: Mapping[str, Reader], taken: type | None = None) -> dict[str, Any]:
    """The values of an object, each by its reader; those of the type *taken* stay as they are.

    ``null`` is left out: it is none, or unknown.
    """
    if type(value) is not dict:
        raise RequestError(f"{shown(value)} is not an object")
    found = {}
    key = ""
    try:
        for key, item in value.items():
            if item is not None:
                read = readers[key]
                # Interned, since a constructor compares a keyword with all that it knows, first by identity.
                found[intern(key)] = item if type(item) is taken else read(item)
    except KeyError:
        raise RequestError(unknown("key", key, readers)) from None
    except RequestError as error:
        raise error.within(key) from None
    if len(found) < len(value):  # a null: its key may still be one that nobody knows
        for key in value:
            if key not in readers:
                raise RequestError(unknown("key", key, readers))
    return found


def unknown(what: str, word: object, known: Iterable[str]) -> str:
    """The message for a word that nobody knows, with the nearest one that is."""
    known = list(known)
    near = get_close_matches(str(word)[:60], known, 1, 0.5)
    if not near:  # another case, or a prefix that stays away here
        near = [name for name in known if str(word).upper().endswith(name.upper())][-1:]
    if near:
        return f"unknown {what} {shown(word)}; did you mean {near[0]!r}?"
    return f"unknown {what} {shown(word)}; known: {', '.join(known[:12])}" + (", …" if len(known) > 12 else "")


def shown(value: object) -> str:
    """*value* in a message: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, (dict, list)):
        return f"a {'list' if isinstance(value, list) else 'JSON object'}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


# ---------------------------------------------------------------------- strict


def number(value: object) -> int:
    """A whole number, not negative, or its hexadecimal text."""
    if type(value) is int and value >= 0:
        return value
    if type(value) is str and _HEX.fullmatch(value):
        return int(value, 16)
    raise RequestError(f"{shown(value)} is not a whole number of 0 or more (or \"0x…\")")


def lmc(value: object) -> int:
    """A LID mask control: how many low bits of a LID are free."""
    known = number(value)
    if known > 7:
        raise RequestError(f"{shown(value)} is no LMC: 0…7")
    return known


def text(value: object) -> str:
    """A string."""
    if type(value) is not str:
        raise RequestError(f"{shown(value)} is not text")
    return value


def tag(value: object) -> int | str:
    """A number or a string, only ever compared."""
    return value if type(value) is str else number(value)


def identity(value: object) -> str | int | float:
    """The request's id."""
    if type(value) is str or type(value) is int or (type(value) is float and isfinite(value)):
        return value
    raise RequestError(f"{shown(value)} is neither text nor a number")


def switch(value: object) -> bool:
    """True or false, or 1 or 0."""
    if value is True or value is False:
        return value
    if type(value) is int and value in (0, 1):
        return bool(value)
    raise RequestError(f"{shown(value)} is neither true nor false")


def listed(value: object) -> list[Any]:
    """A list."""
    if type(value) is not list:
        raise RequestError(f"{shown(value)} is not a list")
    return value


def each(value: object, reader: Reader) -> tuple[Any, ...]:
    """A list, each item by *reader*."""
    found = []
    for place, item in enumerate(listed(value)):
        try:
            found.append(reader(item))
        except RequestError as error:
            raise error.within(f"[{place}]") from None
    return tuple(found)


def gid(value: object) -> GID:
    """A GID as text."""
    try:
        return GID.parse(text(value))
    except RequestError:
        raise
    except ValueError as error:
        raise RequestError(str(error)) from None


def mtu(value: object) -> int | None:
    """An MTU in bytes or as its code; 0 is unknown, as a port that is down has it."""
    known = number(value)
    size = mtu_bytes(known)
    if size is None and known != 0:
        raise RequestError(f"{shown(value)} is no MTU: 256, 512, 1024, 2048, 4096, or its code 1…5")
    return size


def error_number(value: object) -> int:
    """An error number, by its name too; some drivers give it negative."""
    if type(value) is str and value in _ERRNO:
        return _ERRNO[value]
    if type(value) is int and 0 < abs(value) < 4096:
        return value
    raise RequestError(f"{shown(value)} is no error number (22, or \"EINVAL\")")


_ERRNO = {name: code for code, name in errno.errorcode.items()}


def one_of(*known: str) -> Callable[[object], str]:
    """One of a few words."""
    def read(value: object) -> str:
        if type(value) is str and value in known:
            return value
        raise RequestError(unknown("word", value, known))

    return read


def member(enum: type[IntEnum]) -> Callable[[object], Any]:
    """A member of *enum*, by its name or its number."""
    names: dict[Any, Any] = dict(enum.__members__)
    numbers: dict[Any, Any] = dict(enum._value2member_map_)

    def read(value: object) -> Any:
        known = names.get(value) if type(value) is str else numbers.get(value) if type(value) is int else None
        if known is None and issubclass(enum, Reported) and type(value) is int and 0 <= value <= 0xFF:
            return enum(value)  # a kernel's that is newer than we are
        if known is None:
            raise RequestError(unknown("name", value, names))
        return known

    return read


def named(enum: type[Enum]) -> Callable[[object], Any]:
    """A member of *enum*, by its name."""
    def read(value: object) -> Any:
        if type(value) is str and value in enum.__members__:
            return enum.__members__[value]
        raise RequestError(unknown("name", value, enum.__members__))

    return read


_state = member(QPState)


def state(value: object) -> QPState | None:
    """A state; libibverbs' ``UNKNOWN`` (7) is just that."""
    return None if value in ("UNKNOWN", 7) and value is not True else _state(value)


def flags(kind: type[IntFlag]) -> Callable[[object], int]:
    """A list of names (bits without a name as "0x…"), or the raw number."""
    bits: dict[Any, int] = {name: int(flag) for name, flag in kind.__members__.items()}

    def read(value: object) -> int:
        if type(value) is not list:
            return number(value)
        found = 0
        for place, item in enumerate(value):
            bit = bits.get(item) if type(item) is str else None
            if bit is None:
                bit = _bit(item, place, bits)
            found |= bit
        return found

    return read


def _bit(item: object, place: int, known: Mapping[str, int]) -> int:
    if type(item) is str and not _HEX.fullmatch(item):
        raise RequestError(unknown("name", item, known), f"[{place}]")
    try:
        return number(item)
    except RequestError as error:
        raise error.within(f"[{place}]") from None


#: The bits of ``ibv_qp_attr_mask``.
mask = flags(AttrMask)


def status(kind: type[IntEnum]) -> Callable[[object], int]:
    """A completion status, by its name or its number, known or not."""
    def read(value: object) -> int:
        if type(value) is str and value in kind.__members__:
            return int(kind.__members__[value])
        if type(value) is str and not _HEX.fullmatch(value):
            raise RequestError(unknown("status", value, kind.__members__))
        return number(value)

    return read


# ---------------------------------------------------------------------- as given


def loose(value: Any) -> Any:
    """Whatever it is; hexadecimal text as its number."""
    if type(value) is str and value[:2] in ("0x", "0X") and _HEX.fullmatch(value):
        return int(value, 16)
    return value


def flags_loose(kind: type[IntFlag]) -> Callable[[Any], Any]:
    """Names as their flags where all are known, else as given."""
    strict = flags(kind)

    def read(value: Any) -> Any:
        try:
            return strict(value)
        except RequestError:
            return loose(value)

    return read


def opcode(kind: type[IntEnum]) -> Callable[[Any], Any]:
    """A name as its member where it is known, else as given."""
    return lambda value: kind.__members__.get(value, value) if type(value) is str else value
