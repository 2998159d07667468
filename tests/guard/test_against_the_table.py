"""The guard against the kernel's own table, exhaustively: refused there is refused here, and nothing else is.

The oracle is a second writing of ``modify_qp()`` in uverbs and ``ib_modify_qp_is_ok()``, over the table as it was
parsed from the kernel's source (``tests/cases/qp_state_table.json``), not over ours.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from rdmaqp import AddressVector, AttrMask, GlobalRoute, QPAttr, QPFacts, QPState, QPType, Request, check
from rdmaqp.model.attributes import FIELD_OF_BIT
from rdmaqp.model.enums import LinkLayer
from rdmaqp.model.request import DeviceFacts, PortFacts, ProcessFacts

NAMES = {"XRC_INI": "XRC_SEND", "XRC_TGT": "XRC_RECV"}
TYPES = [QPType.RC, QPType.UC, QPType.UD, QPType.RAW_PACKET, QPType.XRC_SEND, QPType.XRC_RECV]
STRIPPED = {QPType.XRC_SEND: ("MAX_DEST_RD_ATOMIC", "MIN_RNR_TIMER"),
            QPType.XRC_RECV: ("MAX_QP_RD_ATOMIC", "RETRY_CNT", "RNR_RETRY")}  # fmt: skip
RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState


def bits(names: list[str]) -> int:
    return sum(AttrMask[name] for name in names)


ROWS = {
    (QPType[NAMES.get(row["qp_type"], row["qp_type"])], QPState[row["from"]], QPState[row["to"]]): (
        bits(row["required"]), bits(row["optional"]),
    )
    for row in json.loads((Path(__file__).parent.parent / "cases" / "qp_state_table.json").read_text())
    if row["valid"] and row["qp_type"] not in ("SMI", "GSI")
}  # fmt: skip

ADDRESS = AddressVector(dlid=5)
VALUES = {
    "path_mtu": 1024, "path_mig_state": 0, "qkey": 0x1111, "rq_psn": 7, "sq_psn": 8, "dest_qp_num": 18, "cap": 1,
    "qp_access_flags": 1, "pkey_index": 0, "en_sqd_async_notify": 1, "max_rd_atomic": 1, "max_dest_rd_atomic": 1,
    "min_rnr_timer": 12, "port_num": 1, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "rate_limit": 1,
    "ah_attr": ADDRESS, "alt_ah_attr": ADDRESS, "alt_port_num": 1,
}  # fmt: skip
PORT = PortFacts(
    num=1, link_layer=LinkLayer.INFINIBAND, active_mtu=4096, gid_tbl_len=8, pkey_tbl_len=8, grh_required=False, lmc=0
)


def kernel_takes(kind: QPType, state: QPState, goal: QPState, mask: int) -> bool:
    """Linux 6.12, with a driver that always asks the table; *goal* is *state* where STATE is not in *mask*."""
    if mask >> 26 or mask & (0xF << 21) or mask & AttrMask.CAP:
        return False
    for name in STRIPPED.get(kind, ()):
        mask &= ~AttrMask[name]
    if mask & AttrMask.AV and not (mask & AttrMask.STATE and goal is RTR):
        mask |= AttrMask.PORT
    if mask & AttrMask.CUR_STATE and state not in (RTR, RTS, SQD, SQE):
        return False
    row = ROWS.get((kind, state, goal))
    if row is None:
        return False
    required, optional = row
    rate = AttrMask.RATE_LIMIT
    paced = kind is QPType.RAW_PACKET and (state, goal) in ((RTR, RTS), (RTS, RTS))
    if mask & rate and not paced:
        return False
    return not required & ~mask and not mask & ~(required | optional | AttrMask.STATE | rate)


def request(kind: QPType, state: QPState, goal: QPState, mask: int) -> Request:
    values = {"qp_state": goal, "cur_qp_state": state}
    for place in range(2, 26):
        if mask >> place & 1 and (1 << place) in FIELD_OF_BIT:
            name = FIELD_OF_BIT[1 << place].name
            values[name] = VALUES[name]
            if name == "alt_ah_attr":
                values["alt_port_num"] = 1
    given = {name: value for name, value in values.items() if _bit(name) & mask}
    return Request(
        qp=QPFacts(type=kind, state=state, port_num=1, qp_num=17), attr=QPAttr(**given), mask=mask, port=PORT,
        device=DeviceFacts(phys_port_cnt=1, max_qp_rd_atom=16, max_qp_init_rd_atom=16), kernel=(6, 12),
        process=ProcessFacts(privileged=True),
    )  # fmt: skip


def _bit(name: str) -> int:
    return next(bit for bit, field in FIELD_OF_BIT.items() if field.name == name) if name != "alt_port_num" else 1 << 14


def agree(kind: QPType, state: QPState, goal: QPState, mask: int) -> None:
    goal = goal if mask & 1 else state
    report = check(request(kind, state, goal, mask))
    takes = kernel_takes(kind, state, goal, mask)
    assert report.refused != takes, f"{mask:#x}: the kernel {'takes' if takes else 'refuses'} it\n{report.render()}"


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("with_state", [1, 0], ids=["with STATE", "without STATE"])
def test_each_required_bit_dropped_and_each_other_added(kind: QPType, with_state: int) -> None:
    for state in QPState:
        for goal in QPState:
            whole = ROWS.get((kind, state, goal), (0, 0))[0] | with_state
            agree(kind, state, goal, whole)
            for place in range(1, 30):
                agree(kind, state, goal, whole ^ 1 << place)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_random_masks(kind: QPType) -> None:
    draw = random.Random(int(kind))
    arrows = [(state, goal) for state in QPState for goal in QPState]
    for _ in range(4000):
        state, goal = draw.choice(arrows)
        required, optional = ROWS.get((kind, state, goal), (0, 0))
        mask = required | (optional & draw.getrandbits(26)) | (draw.random() < 0.9)
        for _ in range(draw.choice((0, 0, 1, 2))):
            mask ^= 1 << draw.randrange(27)
        agree(kind, state, goal, mask)


def test_a_route_to_a_roce_peer_is_no_excess() -> None:
    route = AddressVector(grh=GlobalRoute("::ffff:192.0.2.7", 3))
    given = request(QPType.RC, INIT, RTR, ROWS[QPType.RC, INIT, RTR][0] | 1)
    attr = QPAttr(**dict(given.attr.given()) | {"ah_attr": route}) if given.attr else QPAttr()
    assert check(Request(qp=given.qp, attr=attr)).verdict == "pass"
