"""The state machine of a type, arrow by arrow, with what a driver makes of each: the judge's own answers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.guard import check
from rdmaqp.guard.driver_rows import DRIVERS, driver_of
from rdmaqp.model.attributes import QPAttr
from rdmaqp.model.enums import DriverType, QPType
from rdmaqp.model.facts import DeviceFacts, QPFacts
from rdmaqp.model.request import Request
from rdmaqp.model.table import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rdmaqp.model.enums import QPState
    from rdmaqp.model.table import Arrow as Pair
    from rdmaqp.model.table import Rule

#: What has a machine of its own: a type of the core's, or one of a driver's.
Kind = QPType | DriverType


class Arrow(NamedTuple):
    """One arrow of the table.

    Attributes:
        required, optional: ``ibv_qp_attr_mask`` bits.
        missing: why the driver has it not; ``None`` where it has.
    """

    start: QPState
    goal: QPState
    required: int
    optional: int
    missing: str | None = None


_WHETHER = frozenset({"transition-driver", "transition-needs-cm"})


def parts_of(kind: Kind) -> tuple[QPType, DriverType | None]:
    """*kind* as the table is asked: the type, and which of its driver's own."""
    return (QPType.DRIVER, kind) if isinstance(kind, DriverType) else (kind, None)


def facts_of(kind: Kind, **more: Any) -> QPFacts:
    """A queue pair of *kind*, as the judge is told of it."""
    qp_type, own = parts_of(kind)
    return QPFacts(type=qp_type, driver_type=own, **more)


def rules_of(kind: Kind) -> Mapping[Pair, Rule]:
    """The rows of the table for *kind*."""
    return table_of(*parts_of(kind))


def owner(kind: Kind) -> str | None:
    """The driver that a type is the own of; ``None`` for the core's."""
    return next((row.name for row in DRIVERS.values() if kind in row.driver_types), None)


@lru_cache(maxsize=128)
def arrows(kind: Kind, driver: str | None = None) -> tuple[Arrow, ...]:
    """Every arrow of the table for *kind*, in the table's order."""
    found = []
    for (start, goal), rule in rules_of(kind).items():
        missing = None
        if driver is not None:
            request = Request(
                qp=facts_of(kind, state=start, was=(), sq_draining=0),
                attr=QPAttr(qp_state=goal), device=DeviceFacts(driver=driver),
            )  # fmt: skip
            errors = [finding for finding in check(request).errors if finding.rule in _WHETHER]
            missing = errors[0].message if errors else None
        found.append(Arrow(start, goal, rule.required, rule.optional, missing))
    return tuple(found)


def has_type(kind: Kind, driver: str | None) -> bool:
    """Whether *driver* has queue pairs of *kind*; an unknown one may."""
    row = driver_of(driver)
    if isinstance(kind, DriverType):
        return driver is None or kind in row.driver_types
    return row.types is None or kind in row.types


def types_of(driver: str | None) -> tuple[Kind, ...]:
    """The types that *driver* has, its own by their names; all where none is named."""
    named = [kind for kind in QPType if kind is not QPType.DRIVER]
    return tuple(kind for kind in (*named, *DriverType) if has_type(kind, driver))
