"""What came out: totals by type, state, list and kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oracle.calls import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oracle.calls import Call
    from oracle.judge import Outcome
    from rdmaqp.model.enums import QPState, QPType

_SHOWN = 40


@dataclass
class Tally:
    """Counts, and the calls that nothing explains."""

    by_cell: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    by_group: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_way: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_errno: Counter[int] = field(default_factory=Counter)
    goals: set[tuple[QPType, QPState, Any]] = field(default_factory=set)
    unexplained: list[str] = field(default_factory=list)
    title: str = ""

    def add(self, call: Call, errno: int, outcome: Outcome) -> None:
        """Count one comparison."""
        self.by_cell[call.kind.name, call.state.name, outcome.standing] += 1
        self.by_group[call.group, outcome.standing] += 1
        self.goals.add((call.kind, call.state, call.attr.qp_state if call.mask & STATE else None))
        self.by_way[outcome.standing, outcome.way if outcome.standing != "unexplained" else ""] += 1
        self.by_errno[errno] += 1
        if outcome.standing == "unexplained":
            self.unexplained.append(f"{outcome.way}\n    {call}")

    @property
    def total(self) -> int:
        """All comparisons."""
        return sum(self.by_errno.values())

    def occurred(self, kind: str) -> bool:
        """Whether an explained kind of disagreement was met."""
        return any(kind in way.split(", ") for standing, way in self.by_way if standing == "explained")

    def render(self) -> str:
        """The report."""
        lines = [f"{self.title}: {self.total:,} calls, {len(self.unexplained)} unexplained disagreements"]
        lines += [f"  {count:7}  {standing}{': ' + way if way else ''}"
                  for (standing, way), count in sorted(self.by_way.items())]
        lines.append("by type and state: agreed, explained, unexplained")
        cells = dict.fromkeys((kind, state) for kind, state, _ in self.by_cell)
        lines += [f"  {kind:3} {state:6}" + self._counts(self.by_cell, kind, state) for kind, state in cells]
        lines.append("by list")
        groups = dict.fromkeys(group for group, _ in self.by_group)
        lines += [f"  {group:24}" + self._counts(self.by_group, group) for group in groups]
        lines.append("by errno: " + ", ".join(f"{code}: {n}" for code, n in sorted(self.by_errno.items())))
        lines += self.unexplained[:_SHOWN]
        if len(self.unexplained) > _SHOWN:
            lines.append(f"… and {len(self.unexplained) - _SHOWN} more")
        return "\n".join(lines)

    @staticmethod
    def _counts(counter: Mapping[Any, int], *place: str) -> str:
        return "".join(f"{counter.get((*place, standing), 0):9}" for standing in ("agreed", "explained", "unexplained"))
