"""What a diagram shows, whatever it is drawn with: the table's arrows, sorted by where they lead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.lore.machine import Arrow, Kind, arrows
from rdmaqp.guard.lore.states import BY_HARDWARE
from rdmaqp.model.enums import AttrMask, QPState, mask_names

if TYPE_CHECKING:
    from rdmaqp.model.table import Arrow as Pair

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
#: The way up, the backbone of every drawing.
MAIN = ((RESET, INIT), (INIT, RTR), (RTR, RTS))
#: Beside it: the two states that are left for RTS again.
SIDE = ((RTS, SQD), (SQD, RTS), (SQE, RTS))


@dataclass(frozen=True)
class Picture:
    """The machine of one type, on one driver or on none in particular.

    Attributes:
        by_hardware: where it goes by itself, and when; nothing where it never does.
    """

    kind: Kind
    driver: str | None
    arrows: dict[Pair, Arrow] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: Kind, driver: str | None = None) -> Picture:
        """From the table, and the judge's word on the driver."""
        return cls(kind, driver, {(arrow.start, arrow.goal): arrow for arrow in arrows(kind, driver)})

    @property
    def by_hardware(self) -> list[tuple[Pair, str]]:
        """Where it goes by itself, and when."""
        return [BY_HARDWARE[self.kind]] if self.kind in BY_HARDWARE else []

    @property
    def title(self) -> str:
        """Whose machine."""
        return f"{self.kind.name} queue pair" + (f" on {self.driver}" if self.driver else "")

    @property
    def missing(self) -> list[Arrow]:
        """The table's arrows that the driver has not."""
        return [arrow for arrow in self.arrows.values() if arrow.missing]

    def reasons(self) -> list[tuple[str, list[str]]]:
        """Why arrows are missing, each reason once with its arrows."""
        found: dict[str, list[str]] = {}
        for arrow in self.missing:
            name = f"{arrow.start.name} → {arrow.goal.name}"
            reason = (arrow.missing or "").removeprefix(f"{self.driver} has no {name}: ")
            found.setdefault(reason, []).append(name)
        return list(found.items())

    def reaches(self, state: QPState) -> bool:
        """Whether a queue pair of this type can ever be in *state*: by modify, by itself, by a connection manager."""
        seen, todo = {RESET}, [RESET]
        managed = driver_of(self.driver).iwarp
        ways = [pair for pair, arrow in self.arrows.items() if managed or not arrow.missing]
        ways += [pair for pair, _ in self.by_hardware]
        while todo:
            here = todo.pop()
            for start, goal in ways:
                if start is here and goal not in seen:
                    seen.add(goal)
                    todo.append(goal)
        return state in seen


def names(mask: int) -> list[str]:
    """The attributes of *mask*, without the state itself."""
    return list(mask_names(mask & ~int(AttrMask.STATE)))
