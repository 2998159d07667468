"""Arguments of the wrong type, refused at the door: by their name, with what was given and what is expected.

What is expected is the annotation, read as text: ``CompletionQueue | None`` is satisfied by whatever has a class of
that name. So nothing has to be imported for it, and nothing is said twice.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import Enum
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from rdmaqp.model import enums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Names in annotations that leave open what is meant, or that the function itself asks of.
_OPEN = frozenset({"", "Any", "Callable", "Iterable", "Literal", "Mapping", "Self", "Sequence"})
#: Enumerations are taken as their numbers too.
_NUMBERED = frozenset(name for name, kind in vars(enums).items() if isinstance(kind, type) and issubclass(kind, int))
_WORDS = {
    "Buffer": "a bytes-like object", "DLPack": "DLPack", "float": "a number", "NoneType": "None", "int": "an int",
    "bool": "a bool",
}  # fmt: skip


class Kind(NamedTuple):
    """What one argument may be: the names of classes, ``None`` among them as its own class."""

    names: frozenset[str]
    expected: str

    def takes(self, value: object) -> bool:
        """Whether *value* is of this kind: by its class, or by what it can do."""
        kind, names = type(value), self.names
        if kind.__name__ in names or not names.isdisjoint(base.__name__ for base in kind.__mro__):
            return True
        if "Buffer" in names:
            return _has_buffer(value) or ("DLPack" in names and hasattr(value, "__dlpack__"))
        is_whole = hasattr(kind, "__index__")
        if is_whole and ("int" in names or "bool" in names or not names.isdisjoint(_NUMBERED)):
            return True
        return "float" in names and (is_whole or hasattr(kind, "__float__"))


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    except ValueError:  # it has one, and cannot show it: whoever asks for it says why
        return True
    return True


def checked(more: Callable[..., Any] | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Check the arguments of a function by its annotations; *more* is what its further keywords (``**``) go to.

    The function then raises TypeError for a keyword that it has not, and names the nearest; and for a value of another
    type. Not for the hot path: it costs about a microsecond.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters = signature(function).parameters
        names = [name for name, parameter in parameters.items() if parameter.kind <= Parameter.POSITIONAL_OR_KEYWORD]
        kinds = _kinds(parameters.values())
        is_open = more is None and any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
        if more is not None:
            kinds = _kinds(signature(more).parameters.values()) | kinds
        title = function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[0]

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for name, value in zip(names, args, strict=False):
                kind = kinds[name]
                if kind is not None and not kind.takes(value):
                    raise _wrong(title, name, value, kind)
            for name, value in kwargs.items():
                kind = kinds.get(name)
                if kind is not None and not kind.takes(value):
                    raise _wrong(title, name, value, kind)
                if kind is None and not is_open and name not in kinds:
                    raise _unknown(title, name, kinds)
            return function(*args, **kwargs)

        return call

    return decorate


def require(title: str, name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """The same for one argument of a function on the hot path, which looks at the class by itself first."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise _wrong(title, name, value, Kind(frozenset(), " or ".join(_word(one.__name__) for one in kinds)))


def wrong_type(title: str, name: str, value: object, expected: str) -> TypeError:
    """The error for *value*, which is not what is expected."""
    return _wrong(title, name, value, Kind(frozenset(), expected))


def _kinds(parameters: Iterable[Parameter]) -> dict[str, Kind | None]:
    return {
        parameter.name: _kind(parameter.annotation) for parameter in parameters
        if parameter.kind is not Parameter.VAR_KEYWORD
    }


def _kind(annotation: Any) -> Kind | None:
    """What an annotation asks for; ``None`` where that is left open."""
    parts = annotation.split("|") if isinstance(annotation, str) else [""]
    names = [part.partition("[")[0].strip().replace("None", "NoneType") for part in parts]
    if not _OPEN.isdisjoint(names):
        return None
    return Kind(frozenset(names), " or ".join(map(_word, names)))


def _word(name: str) -> str:
    return _WORDS.get(name) or f"{_article(name)} {name}"


def _article(name: str) -> str:
    return "an" if name[0] in "AEIOaeio" else "a"


def _wrong(title: str, name: str, value: object, kind: Kind) -> TypeError:
    shown = f"{value!s}, a member of {type(value).__name__}" if isinstance(value, Enum) else repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
    kind_given = type(value).__name__
    given = "None" if value is None else f"{shown}, {_article(kind_given)} {kind_given}"
    return TypeError(f"{title}(): {name} is {given}; expected {kind.expected}")


def _unknown(title: str, name: str, known: Iterable[str]) -> TypeError:
    words = [word for word in known if word != "self"]
    near = get_close_matches(name, words, 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(words)}"
    return TypeError(f"{title}() has no argument {name!r}; {hint}")
