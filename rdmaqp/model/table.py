"""The queue-pair state machine, as the kernel has it.

One flat mapping a queue pair type: ``(state, next) -> Rule(required, optional)``. What is absent is illegal. The rows
stand in the order of the kernel's ``qp_state_table`` (``drivers/infiniband/core/verbs.c``, Linux 6.12), so that both
can be read side by side. ``STATE`` is always allowed and never required, as in ``ib_modify_qp_is_ok``.

Each type is whole: an XRC end is not an RC end with a few bits less, and tables that say so are wrong.
Nothing that follows from this table is written a second time anywhere: paths to a goal, hints, diagrams, tests.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.model.enums import AttrMask, DriverType, QPState, QPType

if TYPE_CHECKING:
    from collections.abc import Mapping

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState

CUR_STATE = AttrMask.CUR_STATE
EN_SQD_ASYNC_NOTIFY = AttrMask.EN_SQD_ASYNC_NOTIFY
ACCESS_FLAGS = AttrMask.ACCESS_FLAGS
PKEY_INDEX = AttrMask.PKEY_INDEX
PORT = AttrMask.PORT
QKEY = AttrMask.QKEY
AV = AttrMask.AV
PATH_MTU = AttrMask.PATH_MTU
TIMEOUT = AttrMask.TIMEOUT
RETRY_CNT = AttrMask.RETRY_CNT
RNR_RETRY = AttrMask.RNR_RETRY
RQ_PSN = AttrMask.RQ_PSN
MAX_QP_RD_ATOMIC = AttrMask.MAX_QP_RD_ATOMIC
ALT_PATH = AttrMask.ALT_PATH
MIN_RNR_TIMER = AttrMask.MIN_RNR_TIMER
SQ_PSN = AttrMask.SQ_PSN
MAX_DEST_RD_ATOMIC = AttrMask.MAX_DEST_RD_ATOMIC
PATH_MIG_STATE = AttrMask.PATH_MIG_STATE
DEST_QPN = AttrMask.DEST_QPN
RATE_LIMIT = AttrMask.RATE_LIMIT


class Rule(NamedTuple):
    """What one arrow asks for. Both are ``ibv_qp_attr_mask`` bits as plain integers."""

    required: int = 0
    optional: int = 0


NOTHING = Rule()

#: Arrows that carry the state alone, the same for every type.
#: RESET → ERR is not among them: the specification has it, Linux has not. No arrow leads to SQE: only hardware does.
_BARE = {
    (RESET, RESET): NOTHING,
    (INIT, RESET): NOTHING,
    (INIT, ERR): NOTHING,
    (RTR, RESET): NOTHING,
    (RTR, ERR): NOTHING,
    (RTS, RESET): NOTHING,
    (RTS, ERR): NOTHING,
    (SQD, RESET): NOTHING,
    (SQD, ERR): NOTHING,
    (SQE, RESET): NOTHING,
    (SQE, ERR): NOTHING,
    (ERR, RESET): NOTHING,
    (ERR, ERR): NOTHING,
}

_RC = {
    (RESET, INIT): Rule(PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, INIT): Rule(0, PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, RTR): Rule(
        AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
        ALT_PATH | ACCESS_FLAGS | PKEY_INDEX,
    ),
    (RTR, RTS): Rule(
        TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC,
        CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE,
    ),
    (RTS, RTS): Rule(0, CUR_STATE | ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE | MIN_RNR_TIMER),
    (RTS, SQD): Rule(0, EN_SQD_ASYNC_NOTIFY),
    (SQD, RTS): Rule(0, CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE),
    (SQD, SQD): Rule(
        0,
        PORT | AV | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | MAX_DEST_RD_ATOMIC
        | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | MIN_RNR_TIMER | PATH_MIG_STATE,
    ),
    (SQE, RTS): NOTHING,
}

_UC = {
    (RESET, INIT): Rule(PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, INIT): Rule(0, PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, RTR): Rule(AV | PATH_MTU | DEST_QPN | RQ_PSN, ALT_PATH | ACCESS_FLAGS | PKEY_INDEX),
    (RTR, RTS): Rule(SQ_PSN, CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE),
    (RTS, RTS): Rule(0, CUR_STATE | ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE),
    (RTS, SQD): Rule(0, EN_SQD_ASYNC_NOTIFY),
    (SQD, RTS): Rule(0, CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE),
    (SQD, SQD): Rule(0, AV | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE),
    (SQE, RTS): Rule(0, CUR_STATE | ACCESS_FLAGS),
}

_UD = {
    (RESET, INIT): Rule(PKEY_INDEX | PORT | QKEY),
    (INIT, INIT): Rule(0, PKEY_INDEX | PORT | QKEY),
    (INIT, RTR): Rule(0, PKEY_INDEX | QKEY),
    (RTR, RTS): Rule(SQ_PSN, CUR_STATE | QKEY),
    (RTS, RTS): Rule(0, CUR_STATE | QKEY),
    (RTS, SQD): Rule(0, EN_SQD_ASYNC_NOTIFY),
    (SQD, RTS): Rule(0, CUR_STATE | QKEY),
    (SQD, SQD): Rule(0, PKEY_INDEX | QKEY),
    (SQE, RTS): Rule(0, CUR_STATE | QKEY),
}

#: The kernel's XRC_INI: it sends and never responds, so it has no responder's attributes.
_XRC_SEND = {
    (RESET, INIT): Rule(PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, INIT): Rule(0, PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, RTR): Rule(AV | PATH_MTU | DEST_QPN | RQ_PSN, ALT_PATH | ACCESS_FLAGS | PKEY_INDEX),
    (RTR, RTS): Rule(
        TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC,
        CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE,
    ),
    (RTS, RTS): Rule(0, CUR_STATE | ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE),
    (RTS, SQD): Rule(0, EN_SQD_ASYNC_NOTIFY),
    (SQD, RTS): Rule(0, CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE),
    (SQD, SQD): Rule(
        0,
        PORT | AV | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC
        | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE,
    ),
    (SQE, RTS): NOTHING,
}

#: The kernel's XRC_TGT: it responds and never sends, so it counts no retries.
_XRC_RECV = {
    (RESET, INIT): Rule(PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, INIT): Rule(0, PKEY_INDEX | PORT | ACCESS_FLAGS),
    (INIT, RTR): Rule(
        AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
        ALT_PATH | ACCESS_FLAGS | PKEY_INDEX,
    ),
    (RTR, RTS): Rule(
        TIMEOUT | SQ_PSN,
        CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE,
    ),
    (RTS, RTS): Rule(0, CUR_STATE | ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE | MIN_RNR_TIMER),
    (RTS, SQD): Rule(0, EN_SQD_ASYNC_NOTIFY),
    (SQD, RTS): Rule(0, CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE),
    (SQD, SQD): Rule(
        0,
        PORT | AV | TIMEOUT | MAX_DEST_RD_ATOMIC
        | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | MIN_RNR_TIMER | PATH_MIG_STATE,
    ),
    (SQE, RTS): NOTHING,
}

#: RATE_LIMIT here is all that Linux 6.12 allows; newer kernels widen it, see ``guard/drivers.py``.
_RAW_PACKET = {
    (RESET, INIT): Rule(PORT),
    (INIT, INIT): NOTHING,
    (INIT, RTR): NOTHING,
    (RTR, RTS): Rule(0, RATE_LIMIT),
    (RTS, RTS): Rule(0, RATE_LIMIT),
    (RTS, SQD): NOTHING,
    (SQD, RTS): NOTHING,
    (SQD, SQD): NOTHING,
    (SQE, RTS): NOTHING,
}

Arrow = tuple[QPState, QPState]


def _plain(rows: dict[Arrow, Rule]) -> Mapping[Arrow, Rule]:
    """*rows*, row by row and column by column as in the kernel, with plain integers."""
    return MappingProxyType({
        arrow: Rule(int(rule.required), int(rule.optional)) for arrow, rule in sorted(rows.items())
    })


TABLE: Mapping[QPType, Mapping[Arrow, Rule]] = MappingProxyType({
    QPType.RC: _plain(_BARE | _RC),
    QPType.UC: _plain(_BARE | _UC),
    QPType.UD: _plain(_BARE | _UD),
    QPType.XRC_SEND: _plain(_BARE | _XRC_SEND),
    QPType.XRC_RECV: _plain(_BARE | _XRC_RECV),
    QPType.RAW_PACKET: _plain(_BARE | _RAW_PACKET),
})


#: A driver's own types are not in the kernel's table: each has one in its driver.
#: DCI: Linux drivers/infiniband/hw/mlx5/qp.c, modify_dci_qp_is_ok(), which wants STATE in every mask.
#: DCT: the same file, mlx5_ib_modify_dct(): two arrows, exact masks, no way back.
#: SRD: Linux drivers/infiniband/hw/efa/efa_verbs.c, srd_qp_state_table: UD, and a receiver-not-ready retry.
_STATE = int(AttrMask.STATE)
_DCI = {(start, RESET): Rule(_STATE) for start in QPState} | {
    (start, ERR): Rule(_STATE) for start in QPState if start is not RESET
} | {
    (RESET, INIT): Rule(_STATE | PKEY_INDEX | PORT),
    (INIT, INIT): Rule(_STATE, PKEY_INDEX | PORT),
    (INIT, RTR): Rule(_STATE | PATH_MTU, PKEY_INDEX | AV),
    (RTR, RTS): Rule(_STATE | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | SQ_PSN, MIN_RNR_TIMER),
    (RTS, RTS): Rule(_STATE, MIN_RNR_TIMER),
}
_DCT = {
    (RESET, INIT): Rule(_STATE | ACCESS_FLAGS | PKEY_INDEX | PORT),
    (INIT, RTR): Rule(_STATE | MIN_RNR_TIMER | AV | PATH_MTU),
}
_SRD = _BARE | _UD | {(RTR, RTS): Rule(SQ_PSN, CUR_STATE | QKEY | RNR_RETRY)}

DRIVER_TABLE: Mapping[DriverType, Mapping[Arrow, Rule]] = MappingProxyType({
    DriverType.DCI: _plain(_DCI),
    DriverType.DCT: _plain(_DCT),
    DriverType.SRD: _plain(_SRD),
})

_EMPTY: Mapping[Arrow, Rule] = MappingProxyType({})


def table_of(qp_type: QPType, driver_type: DriverType | None = None) -> Mapping[Arrow, Rule]:
    """The rows of a type; for ``DRIVER`` those of *driver_type*, none where that is unknown."""
    if driver_type is not None and qp_type is QPType.DRIVER:
        return DRIVER_TABLE[driver_type]
    return TABLE.get(qp_type, _EMPTY)


def next_states(qp_type: QPType, state: QPState, driver_type: DriverType | None = None) -> tuple[QPState, ...]:
    """The states that *state* leads to by modify, in order."""
    return tuple(goal for start, goal in table_of(qp_type, driver_type) if start == state)


def path(
    qp_type: QPType, state: QPState, goal: QPState, driver_type: DriverType | None = None
) -> tuple[QPState, ...] | None:
    """The shortest way from *state* to *goal*, both included, or ``None``. It never leads through ERR."""
    ways: list[tuple[QPState, ...]] = [(state,)]
    seen = {state}
    while ways:
        way = ways.pop(0)
        if way[-1] == goal:
            return way
        for step in next_states(qp_type, way[-1], driver_type):
            if step not in seen and (step is not ERR or goal is ERR):
                seen.add(step)
                ways.append((*way, step))
    return None


def belongs_to(qp_type: QPType, bit: int, driver_type: DriverType | None = None) -> tuple[Arrow, ...]:
    """The arrows that take *bit*: those that require it where there are such, else those that allow it."""
    rows = table_of(qp_type, driver_type).items()
    return tuple(arrow for arrow, rule in rows if rule.required & bit) or tuple(
        arrow for arrow, rule in rows if rule.optional & bit
    )
