"""The cases of ``tests/cases``: public failures as requests with the right answer, one a line.

``expect`` says what must be found (``verdict``, ``rules``, ``rules_any``), what must not be an error (``not_rules``),
and what a diagnosis must say (``causes``, ``ruled_out``). A key that is absent or empty asks for nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent.parent / "cases"


@dataclass(frozen=True)
class Case:
    id: str
    source: str
    story: str
    request: dict[str, Any]
    expect: dict[str, Any]

    def __str__(self) -> str:
        return self.id


def load() -> list[Case]:
    files = ((CASES / f"{name}.jsonl").read_text(encoding="utf-8") for name in ("reports", "synthetic", "more"))
    lines = (line for text in files for line in text.splitlines())
    known = ("id", "source", "story", "request", "expect")
    return [Case(**{key: value for key, value in json.loads(line).items() if key in known}) for line in lines]


ALL = load()
