"""Is there such an arrow?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.model.attributes import enum_value
from rdmaqp.model.enums import AttrMask, QPState, QPType
from rdmaqp.model.table import TABLE, next_states, path

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case


def check(case: Case) -> None:
    """The transition itself, and what the driver makes of it."""
    if case.type is None or case.type not in TABLE:
        return case.skip("transition-illegal", "qp.type" if case.type is None else "a table for driver-specific types")
    if case.state is None:
        return case.skip("transition-illegal", "qp.state")
    if case.goal is None:
        return None  # values.py says what is wrong with qp_state
    if case.rule is None:
        return _illegal(case, case.type, case.state, case.goal)
    reason = case.driver.missing_arrows.get((case.state, case.goal))
    if reason is not None:
        return case.find(
            "transition-driver", "qp_state", f"{case.request.device.driver} has no {case.arrow}: {reason}",
            given=case.goal.name, fix="drain by counting completions, or go to ERR and wait for the flush",
            source=case.driver.source,
        )
    if case.state is QPState.RESET and case.goal is QPState.RESET:
        return case.find(
            "transition-pointless", "qp_state", "RESET to RESET does nothing here, and breaks the queue pair on irdma",
            given="RESET", fix="leave the call out: a new queue pair is in RESET",
        )
    return _cur_state(case)


def _illegal(case: Case, kind: QPType, state: QPState, goal: QPState) -> None:
    if not case.sets(AttrMask.STATE):
        if case.is_unchecked:
            return case.find(
                "driver-unchecked", "qp_state",
                f"without STATE, {case.request.device.driver} changes attributes in {state.name} unchecked; "
                "others refuse it",
            )
        message = f"in {state.name} no attribute can be changed without a transition"
    elif goal is QPState.SQE:
        message = "SQE is entered by the hardware alone, when a send fails"
    else:
        message = f"{kind.name} queue pairs have no {state.name} → {goal.name}"
    way = path(kind, state, goal)
    return case.find(
        "transition-illegal", "qp_state", message, given=goal.name,
        allowed=", ".join(step.name for step in next_states(kind, state)),
        fix="the way there: " + " → ".join(step.name for step in way) if way and len(way) > 1 else None,
    )


def _cur_state(case: Case) -> None:
    claimed = enum_value(QPState, case.value("cur_qp_state", AttrMask.CUR_STATE))
    if claimed is None or case.rule is None or not case.rule.optional & AttrMask.CUR_STATE:
        return
    if claimed != case.state:
        case.find(
            "cur-state-mismatch", "cur_qp_state",
            f"the queue pair is in {case.state.name if case.state is not None else '?'}, not in "
            f"{QPState(claimed).name}; some drivers believe it",
            given=QPState(claimed).name, fix="leave cur_qp_state out",
        )
