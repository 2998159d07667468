"""The table cell by cell against the kernel's: six types, seven states each way, 26 bits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rdmaqp.model.enums import AttrMask, DriverType, QPState, QPType
from rdmaqp.model.table import DRIVER_TABLE, TABLE, belongs_to, next_states, path, table_of

ROWS = json.loads((Path(__file__).parent.parent / "cases" / "qp_state_table.json").read_text())
NAMES = {"XRC_INI": QPType.XRC_SEND, "XRC_TGT": QPType.XRC_RECV}
KERNEL_ONLY = {"SMI", "GSI"}


def kind(name: str) -> QPType:
    return NAMES.get(name) or QPType[name]


KERNEL = {
    (kind(row["qp_type"]), QPState[row["from"]], QPState[row["to"]]): row
    for row in ROWS
    if row["qp_type"] not in KERNEL_ONLY
}


@pytest.mark.parametrize("qp_type", list(TABLE), ids=lambda kind: kind.name)
@pytest.mark.parametrize("start", list(QPState), ids=lambda state: state.name)
@pytest.mark.parametrize("goal", list(QPState), ids=lambda state: state.name)
def test_a_cell(qp_type: QPType, start: QPState, goal: QPState) -> None:
    row = KERNEL.get((qp_type, start, goal))
    ours = TABLE[qp_type].get((start, goal))
    assert (ours is not None) == (row is not None and row["valid"])
    if ours is None or row is None:
        return
    for place in range(26):
        bit = 1 << place
        name = AttrMask(bit).name if bit in AttrMask._value2member_map_ else None
        if name == "RATE_LIMIT":
            # The facts list it apart, since kernels differ; what 6.12 has is what the table has.
            expected = row["rate_limit_passes_core"]["linux_6.12.117"]
            assert bool(ours.optional & bit) == expected
            assert not ours.required & bit
            continue
        assert bool(ours.required & bit) == (name in row["required"]), name
        assert bool(ours.optional & bit) == (name in row["optional"]), name


def test_no_row_of_the_kernel_is_left_out() -> None:
    assert len(KERNEL) == sum(len(rows) for rows in TABLE.values())
    assert {kind for kind, _, _ in KERNEL} == set(TABLE)


def test_rows_stand_in_the_kernels_order() -> None:
    for rows in TABLE.values():
        assert list(rows) == sorted(rows)


def test_numbers_are_plain() -> None:
    for rows in (*TABLE.values(), *DRIVER_TABLE.values()):
        for rule in rows.values():
            assert type(rule.required) is int
            assert type(rule.optional) is int
            assert not rule.required & rule.optional


def test_sqe_is_no_goal_and_the_path_avoids_err() -> None:
    for rows in TABLE.values():
        assert not [goal for _, goal in rows if goal is QPState.SQE]
    assert path(QPType.RC, QPState.ERR, QPState.RTS) == (
        QPState.ERR, QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS,
    )  # fmt: skip
    assert path(QPType.RC, QPState.RESET, QPState.SQE) is None
    assert QPState.ERR not in (path(QPType.UD, QPState.SQD, QPState.INIT) or ())


def test_a_drivers_own_types() -> None:
    state = int(AttrMask.STATE)
    dci, dct, srd = (DRIVER_TABLE[kind] for kind in (DriverType.DCI, DriverType.DCT, DriverType.SRD))
    assert set(dct) == {(QPState.RESET, QPState.INIT), (QPState.INIT, QPState.RTR)}
    assert all(rule.required & state for rule in (*dci.values(), *dct.values()))
    assert not [arrow for arrow in dci if arrow[1] is QPState.SQD]
    ud = TABLE[QPType.UD]
    differs = [arrow for arrow in srd if srd[arrow] != ud[arrow]]
    assert set(srd) == set(ud)
    assert differs == [(QPState.RTR, QPState.RTS)]
    assert srd[differs[0]].optional ^ ud[differs[0]].optional == AttrMask.RNR_RETRY
    assert table_of(QPType.DRIVER) == {}
    assert next_states(QPType.DRIVER, QPState.INIT, DriverType.DCT) == (QPState.RTR,)
    assert belongs_to(QPType.DRIVER, AttrMask.AV, DriverType.DCT) == ((QPState.INIT, QPState.RTR),)
