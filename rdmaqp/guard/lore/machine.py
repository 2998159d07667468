"""The state machine of a type, arrow by arrow, with what a driver makes of each: the judge's own answers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.guard import check
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.model.attributes import QPAttr
from rdmaqp.model.facts import DeviceFacts, QPFacts
from rdmaqp.model.request import Request
from rdmaqp.model.table import table_of

if TYPE_CHECKING:
    from rdmaqp.model.enums import DriverType, QPState, QPType


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


@lru_cache(maxsize=128)
def arrows(qp_type: QPType, driver: str | None = None, driver_type: DriverType | None = None) -> tuple[Arrow, ...]:
    """Every arrow of the table for *qp_type*, in the table's order."""
    found = []
    for (start, goal), rule in table_of(qp_type, driver_type).items():
        missing = None
        if driver is not None:
            request = Request(
                qp=QPFacts(type=qp_type, state=start, was=(), sq_draining=0, driver_type=driver_type),
                attr=QPAttr(qp_state=goal), device=DeviceFacts(driver=driver),
            )  # fmt: skip
            errors = [finding for finding in check(request).errors if finding.rule in _WHETHER]
            missing = errors[0].message if errors else None
        found.append(Arrow(start, goal, rule.required, rule.optional, missing))
    return tuple(found)


def has_type(qp_type: QPType, driver: str | None) -> bool:
    """Whether *driver* has queue pairs of *qp_type*; an unknown one may."""
    types = driver_of(driver).types
    return types is None or qp_type in types
