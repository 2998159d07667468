"""What an argument may be, by the text of its annotation."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from rdmaqp import GID, Endpoint, QPState, QPType
from rdmaqp.model.arguments import _kind, checked
from rdmaqp.model.endpoint import PeerRecord


class Other(IntEnum):
    ONE = 1


@pytest.mark.parametrize(("annotation", "good", "bad"), [
    ("int", [0, True, np.int64(3), QPType.RC], [None, 1.0, "1", np.float64(1)]),
    ("float | None", [0, 1.5, None, np.float32(1), np.int8(1)], ["1", [], 1j]),
    ("str", ["", np.str_("x")], [b"", 5, None]),
    ("PeerRecord", [Endpoint(qp_num=1, psn=1), PeerRecord()], [{}, None]),
    ("QPType | str", [QPType.UD, "UD", 4, Other.ONE], [1.5, None, b"UD"]),
    ("GID | None", [GID(bytes(16)), None], [bytes(16), "::1"]),
    ("Buffer", [b"x", bytearray(1), memoryview(b"x"), np.zeros(3)], ["x", 5, None]),
    ("bool", [True, 0, np.bool_(True)], ["yes", None]),
])  # fmt: skip
def test_what_is_taken(annotation: str, good: list[Any], bad: list[Any]) -> None:
    kind = _kind(annotation)
    assert kind is not None
    assert [value for value in good if not kind.takes(value)] == []
    assert [value for value in bad if kind.takes(value)] == []


@pytest.mark.parametrize("annotation", ["Any", "Callable[[int], None] | None", "Mapping[str, int]", "", "Literal['a']"])
def test_what_is_left_open(annotation: str) -> None:
    assert _kind(annotation) is None


def test_a_checked_function_stays_what_it_was() -> None:
    @checked()
    def add(first: int, second: int = 2, *, state: QPState | None = None, **more: Any) -> int:
        """Add."""
        return first + second + (state or 0) + len(more)

    assert (add(1), add(1, second=3), add(1, 2, state=QPState.RTR, x=5)) == (3, 4, 6)
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'first'"):
        add()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"add\(\): state is 'RTR', a str; expected a QPState or None"):
        add(1, state="RTR")  # type: ignore[arg-type]
