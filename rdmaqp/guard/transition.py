"""Is there such an arrow, for this type, with this driver?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard.case import STATE, kind_of
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.drivers import UNKNOWN
from rdmaqp.model.attributes import enum_value
from rdmaqp.model.enums import AttrMask, QPState, QPType
from rdmaqp.model.table import TABLE, next_states, path

if TYPE_CHECKING:
    from enum import IntEnum

    from rdmaqp.guard.case import Case
    from rdmaqp.guard.drivers import Driver
    from rdmaqp.guard.report import Report
    from rdmaqp.model.request import Request

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
_RC, _DRIVER = QPType.RC, QPType.DRIVER
_CUR_STATE = int(AttrMask.CUR_STATE)
_BY_CM = frozenset({RTR, RTS, SQD})
_BY_CM_FIX = (
    "connect by rdma_cm: rdmaqp.cm_connect(host, port) and rdmaqp.cm_listen(port, host), link.disconnect(); in C "
    "rdma_connect, rdma_accept, rdma_disconnect"
)

#: Arrows that some drivers lack: on a driver that nobody knows they are worth a warning.
_NOT_EVERYWHERE = frozenset({(RTS, SQD), (SQD, SQD), (SQD, RTS), (SQE, RTS)})
_IWARP_SOURCE = "RFC 5044; Linux sw/siw/siw_verbs.c, hw/cxgb4/qp.c, hw/irdma/verbs.c"


def check(case: Case) -> None:
    """The queue pair type, the transition itself, and what the driver makes of it."""
    kind, state, driver = case.type, case.state, case.driver
    if driver is UNKNOWN:
        _unknown_driver(case)
    if kind is not None and driver.types is not None and kind not in driver.types:
        unsupported(case.report, case.request, driver, driver.types)
    elif kind is _DRIVER or (case.iwarp and kind is not _RC):
        _own_types(case)
    if case.mask & _CUR_STATE:
        _cur_state(case)
    if kind is None:
        case.report.skip("transition-illegal", "qp.type")
    elif state is None:
        case.report.skip("transition-illegal", "qp.state")
    elif case.goal is not None:  # else values.py says what is wrong with qp_state
        _arrow(case, kind, state, case.goal)


def _arrow(case: Case, kind: QPType, state: QPState, goal: QPState) -> None:
    if kind is _DRIVER and case.request.qp.driver_type is None:
        case.report.skip("transition-illegal", "qp.driver_type")
    elif case.iwarp:
        _iwarp(case, goal)
    elif case.rule is None:
        _illegal(case, kind, state, goal)
    else:
        driver, arrow = case.driver, (state, goal)
        if arrow in driver.missing_arrows or (kind in driver.missing_by_type and arrow in driver.missing_by_type[kind]):
            _missing(case, kind, state, goal)
        if state in _TURNS or goal in _TURNS:
            _detours(case, state, goal)


_TURNS = frozenset({RESET, SQD})


def unsupported(report: Report, request: Request, driver: Driver, types: frozenset[QPType]) -> None:
    """That the driver has no such type."""
    report.find(
        "qp-type-unsupported", "qp_type", f"{driver.name} has no {kind_of(request)} queue pairs",
        given=kind_of(request), allowed=", ".join(sorted(kind.name for kind in types)),
        fix="use one of these types, or another device", source=driver.source,
    )


def _own_types(case: Case) -> None:
    """``DRIVER`` on a driver that has another, and anything but RC on iWARP."""
    driver, own = case.driver, case.request.qp.driver_type
    if case.iwarp and case.type is not None:
        if not driver.types:
            case.report.find("qp-type-unsupported", "qp_type", f"iWARP has no {case.kind} queue pairs",
                             given=case.kind, allowed="RC", source="RFC 5040")
    elif own is not None and driver is not UNKNOWN and own not in driver.driver_types:
        has = ", ".join(sorted(kind.name for kind in driver.driver_types))
        case.report.find("qp-type-unsupported", "qp_type", f"{driver.name} has no {own.name} queue pairs",
                         given=own.name, allowed=has or None, source=driver.source,
                         fix="use one of these types, or another device")


def _unknown_driver(case: Case) -> None:
    name = case.request.device.driver
    if name is None:
        case.report.skip("transition-driver", "device.driver")
    else:
        case.report.find("driver-unknown", "device.driver", f"nothing is known of {name[:40]!r}: the core table alone "
                         "decides", given=name)
    arrow = (case.state, case.goal)
    if arrow in _NOT_EVERYWHERE and case.mask & STATE and case.rule is not None and not case.iwarp:
        case.report.find("transition-driver", "qp_state", f"not every driver has {case.arrow} (mlx5 and hns have not), "
                         "and nothing is known of this one", severity="warning", given=case.goal and case.goal.name,
                         fix="count completions instead of draining, and go through ERR and RESET to start again")


def _iwarp(case: Case, goal: QPState) -> None:
    """iWARP drivers never ask the table. What leads to a stream, or closes one, is the connection manager's."""
    if not case.mask & STATE:
        return
    if goal in _BY_CM:
        what = "closes the connection" if goal is SQD else "needs a stream, which the connection manager sets up"
        case.report.find("transition-needs-cm", "qp_state", f"on iWARP {goal.name} {what}", given=goal.name,
                         allowed="INIT, ERR", fix=_BY_CM_FIX, source=_IWARP_SOURCE)
    elif goal is not ERR and case.rule is None and case.type is not None and case.state is not None:
        _illegal(case, case.type, case.state, goal)


def _illegal(case: Case, kind: QPType, state: QPState, goal: QPState) -> None:
    own = case.request.qp.driver_type
    if case.is_unchecked:
        return case.report.find(
            "driver-unchecked", "qp_state", f"without STATE, {case.driver.name} changes attributes in {state.name} "
            "unchecked; others refuse it", source=case.driver.source,
        )
    rule = "transition-illegal"
    if not case.mask & STATE:
        message = f"in {state.name} no attribute can be changed without a transition"
    elif goal is SQE:
        message = "SQE is entered by the hardware alone, when a send fails"
    else:
        message = f"{case.kind} queue pairs have no {state.name} → {goal.name}"
        if kind is _DRIVER and (state, goal) in TABLE[_RC]:
            rule = "transition-driver"
    way = path(kind, state, goal, own)
    steps = ", ".join(step.name for step in next_states(kind, state, own))
    return case.report.find(
        rule, "qp_state", message, given=goal.name, allowed=steps or "nothing: destroy it",
        fix="the way there: " + " → ".join(step.name for step in way) if way and len(way) > 1 else None,
        source=case.driver.source if rule == "transition-driver" else None,
    )


def _missing(case: Case, kind: QPType, state: QPState, goal: QPState) -> None:
    """An arrow of the core table that the driver has not."""
    driver, arrow = case.driver, (state, goal)
    reason = driver.missing_by_type.get(kind, {}).get(arrow) or driver.missing_arrows.get(arrow)
    if reason is None or kind is _DRIVER:
        return
    if goal is RESET:
        fix = "go to ERR first"
    elif goal is SQD:
        fix = "drain by counting completions, or go to ERR and wait for the flush"
    else:
        fix = "destroy it and create another"
    case.report.find("transition-driver", "qp_state", f"{driver.name} has no {case.arrow}: {reason}",
                     given=goal.name, fix=fix, source=driver.source)


def _detours(case: Case, state: QPState, goal: QPState) -> None:
    """What becomes of a queue pair that goes to RESET, comes from there again, or drains."""
    driver, qp = case.driver, case.request.qp
    if not case.mask & STATE:
        return
    if driver.spoilt_by_reset:
        _spoilt(case, state, goal)
    elif state is RESET and goal is RESET:
        case.report.find(
            "transition-pointless", "qp_state", "RESET to RESET does nothing here, and breaks the queue pair on irdma",
            given="RESET", fix="leave the call out: a new queue pair is in RESET",
        )
    if driver.waits_for_drain and state is SQD and goal is not ERR:
        if qp.sq_draining is None:
            case.report.skip("transition-driver", "qp.sq_draining")
        elif qp.sq_draining:
            case.report.find(
                "transition-driver", "qp_state", f"the send queue still drains (sq_draining is 1), and {driver.name} "
                "lets it go to ERR only", given=goal.name, allowed="ERR", source=driver.source,
                fix="wait until ibv_query_qp says sq_draining 0, or go to ERR",
            )
    if driver.flushes_in_sqd and goal is SQD and state is RTS:
        case.report.find("transition-driver", "qp_state", f"{driver.name} flushes both queues on the way to SQD",
                         severity="note", given=goal.name, source=driver.source)


def _spoilt(case: Case, state: QPState, goal: QPState) -> None:
    """irdma: the hardware's own state is ERROR after any RESET or ERR, and INIT and RTR are refused from then on."""
    name, was = case.driver.name, case.request.qp.was
    fix = "destroy the queue pair and create another"
    if goal is RESET:
        case.report.find(
            "transition-driver", "qp_state", f"on {name} a queue pair never leaves RESET a second time",
            severity="error" if state is RESET else "note", given=goal.name, source=case.driver.source,
            fix="leave the call out: a new queue pair is in RESET" if state is RESET else fix,
        )
    elif state is RESET and was:
        case.report.find("transition-driver", "qp_state", f"it has been through {', '.join(s.name for s in was)}: on "
                         f"{name} it never leaves RESET again", given=goal.name, fix=fix, source=case.driver.source)
    elif state is RESET and was is None:
        case.report.skip("transition-driver", "qp.was")


def _cur_state(case: Case) -> None:
    """CUR_STATE where it is legal (or where nobody looks), and false. Elsewhere it is an excess bit."""
    claimed = enum_value(QPState, case.given.get("cur_qp_state"))
    state = case.state
    if claimed is None or state is None or claimed == state or case.iwarp:
        return
    legal = case.rule is not None and (case.rule.required | case.rule.optional) & _CUR_STATE
    # A claim can make an arrow of its own: drivers that believe it take (claim, goal) for the row.
    believed = case.rule is None and case.goal is RTS and claimed in (RTR, RTS, SQD, SQE)
    if legal or believed or case.is_unchecked:
        case.report.find(
            "cur-state-mismatch", "cur_qp_state",
            f"the queue pair is in {state.name}, not in {QPState(claimed).name}; some drivers believe it",
            given=QPState(claimed).name, allowed=state.name, fix="leave cur_qp_state out",
        )


def is_valid_transition(
    start: QPState | str | int, goal: QPState | str | int, qp_type: QPType | str | int = QPType.RC,
    *, driver: str | None = None,
) -> bool:  # fmt: skip
    """Whether a modify call can lead from *start* to *goal*, for this queue pair type and with this kernel driver.

    Raises:
        ValueError: no such state or type.
    """
    here, there = (_member(QPState, state) for state in (start, goal))
    kind, row = _member(QPType, qp_type), driver_of(driver)
    arrow = (QPState(here), QPState(there))
    if row.types is not None and kind not in row.types:
        return False
    if row.iwarp and (there in _BY_CM or (here == ERR and there != ERR)):
        return False
    missing = arrow in row.missing_arrows or arrow in row.missing_by_type.get(QPType(kind), {})
    spoils = row.spoilt_by_reset and arrow == (RESET, RESET)
    return arrow in TABLE.get(QPType(kind), {}) and not missing and not spoils


def _member(enum: type[IntEnum], value: object) -> int:
    known = enum_value(enum, value)
    if known is None:
        raise ValueError(f"{value!r} is not one of {', '.join(enum.__members__)}")
    return known
