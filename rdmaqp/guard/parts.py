"""Which part of a request is of the wrong type. It is asked only once judging has failed: what passes pays nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from rdmaqp.model import acts, attributes, endpoint, enums, facts, gid, request
from rdmaqp.model.arguments import wrong_type

if TYPE_CHECKING:
    from rdmaqp.model.request import Request

_CLASSES: Mapping[str, type] = {
    name: kind for module in (enums, gid, acts, attributes, endpoint, facts, request)
    for name, kind in vars(module).items() if isinstance(kind, type)
} | {kind.__name__: kind for kind in (int, str, float, bool, tuple)} | {"Mapping": Mapping}
#: Their own fields are values of an act: what is wrong with those is a finding.
_VALUES = (attributes.QPAttr, attributes.AddressVector, attributes.GlobalRoute)


def refuse_wrong_parts(asked: Request) -> None:
    """Name the first part of *asked* that is not what its annotation says; nothing where there is none.

    Raises:
        TypeError: there is one.
    """
    for place, value, annotation in _parts("request", asked):
        expected = [part.strip() for part in annotation.split("|")]
        kinds = [_CLASSES.get(word.partition("[")[0]) for word in expected]
        if value is None and "None" in expected:
            continue
        if annotation.startswith("Literal"):
            if value not in ("abi", "send", "recv", "srq"):
                raise wrong_type("check", place, value, annotation)
        elif not any(kind is not None and _is(value, kind) for kind in kinds):
            words = [_expected(word, value) for word in expected if word != "None"]
            raise wrong_type("check", place, value, " or ".join(words) or annotation)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)


def _expected(word: str, value: object) -> str:
    """The class that is meant; its very member where the value is one's name or number."""
    kind = _CLASSES.get(word)
    if kind is not None and issubclass(kind, Enum):
        meant = [member for member in kind if value in (member.name, member.value)]
        return f"{word}.{meant[0].name}" if meant else word
    return word


def _parts(place: str, holder: Any) -> Iterator[tuple[str, Any, str]]:
    """Every field of *holder* and of what it holds, with its place and its annotation."""
    for field in fields(holder):
        value = getattr(holder, field.name)
        where = f"{place}.{field.name}"
        yield where, value, str(field.type)
        if is_dataclass(value) and not isinstance(value, (type, *_VALUES)):
            yield from _parts(where, value)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if is_dataclass(item) and not isinstance(item, type):
                    yield from _parts(f"{where}[{index}]", item)
