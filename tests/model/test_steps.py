"""The steps to RTS of each type: which attributes, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from rdmaqp import GID, AddressVector, Endpoint, QPAttr, QPState, QPType, bring_up, check
from rdmaqp.model.request import QPFacts, Request
from rdmaqp.model.steps import CUSTOMARY, is_connected, step_to

LOCAL = Endpoint(qp_num=0x11, psn=0x111111, lid=0x1A, gid=GID.parse("fe80::1"), qkey=0x2222, port_num=2, pkey_index=3)
REMOTE = Endpoint(qp_num=0x22, psn=0x222222, lid=0x2A, gid=GID.parse("fe80::2"), qkey=0x3333)

# Written down from ibv_modify_qp(3), its table a type; the steps themselves come from the kernel's.
BOUND = {"pkey_index", "port_num"}
PEER = {"ah_attr", "path_mtu", "dest_qp_num", "rq_psn"}
RETRIES = {"timeout", "retry_cnt", "rnr_retry", "max_rd_atomic"}
SERVES = {"max_dest_rd_atomic", "min_rnr_timer"}
STEPS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "RC": (BOUND | {"qp_access_flags"}, PEER | SERVES, RETRIES | {"sq_psn"}),
    "UC": (BOUND | {"qp_access_flags"}, PEER, {"sq_psn"}),
    "UD": (BOUND | {"qkey"}, set(), {"sq_psn"}),
    "XRC_SEND": (BOUND | {"qp_access_flags"}, PEER, RETRIES | {"sq_psn"}),
    "XRC_RECV": (BOUND | {"qp_access_flags"}, PEER | SERVES, {"timeout", "sq_psn"}),
    "RAW_PACKET": ({"port_num"}, set(), set()),
}


def of(kind: str, **values: Any) -> Endpoint:
    fields = {name: getattr(LOCAL, name) for name in ("qp_num", "psn", "lid", "gid", "qkey", "port_num", "pkey_index")}
    return Endpoint(**(fields | {"qp_type": QPType[kind]} | values))


@pytest.mark.parametrize("kind", STEPS)
def test_each_type_is_given_what_it_takes_and_no_more(kind: str) -> None:
    steps = bring_up(of(kind), REMOTE)
    for step, wanted in zip(steps, STEPS[kind], strict=True):
        assert {name for name, _ in step.given()} == wanted | {"qp_state"}


@pytest.mark.parametrize("kind", STEPS)
def test_the_guard_has_nothing_against_the_steps(kind: str) -> None:
    steps = bring_up(of(kind), REMOTE)
    for state, step in zip((QPState.RESET, QPState.INIT, QPState.RTR), steps, strict=True):
        report = check(Request(qp=QPFacts(type=QPType[kind], state=state, port_num=2), attr=step))
        assert not report.errors


def test_the_numbers_of_uc_and_ud() -> None:
    init, rtr, rts = bring_up(of("UC"), REMOTE, access=6)
    assert init == QPAttr(qp_state=QPState.INIT, pkey_index=3, port_num=2, qp_access_flags=6)
    assert rtr == QPAttr(
        qp_state=QPState.RTR, path_mtu=1024, dest_qp_num=0x22, rq_psn=0x222222,
        ah_attr=AddressVector(port_num=2, dlid=0x2A),
    )
    assert rts == QPAttr(qp_state=QPState.RTS, sq_psn=0x111111)
    assert bring_up(of("UD")) == (
        QPAttr(qp_state=QPState.INIT, pkey_index=3, port_num=2, qkey=0x2222),
        QPAttr(qp_state=QPState.RTR), QPAttr(qp_state=QPState.RTS, sq_psn=0x111111),
    )  # fmt: skip
    assert bring_up(of("UD", qkey=None)).init.qkey == CUSTOMARY["qkey"] == 0x11111111


@pytest.mark.parametrize(
    ("kind", "given", "step", "rule"),
    [
        ("UC", {"retry_cnt": 3}, "rts", "mask-excess"),
        ("UC", {"min_rnr_timer": 12}, "rtr", "mask-excess"),
        ("UD", {"access": 1}, "init", "mask-excess"),
        ("XRC_RECV", {"rnr_retry": 7}, "rts", "mask-ignored"),
        ("XRC_SEND", {"min_rnr_timer": 1}, "rtr", "mask-ignored"),
        ("RAW_PACKET", {"timeout": 14}, "rts", "mask-excess"),
    ],
)
def test_what_a_type_has_no_place_for_is_left_to_the_guard(
    kind: str, given: dict[str, int], step: str, rule: str
) -> None:
    attr = getattr(bring_up(of(kind), REMOTE, **given), step)
    state = QPState(QPState[step.upper()] - 1)
    report = check(Request(qp=QPFacts(type=QPType[kind], state=state, port_num=2), attr=attr))
    (name,) = given
    field = {"access": "qp_access_flags"}.get(name, name)
    assert (rule, field) in [(finding.rule, finding.field) for finding in report.findings]


@pytest.mark.parametrize("kind", ["RC", "UC", "XRC_SEND", "XRC_RECV"])
def test_a_connected_type_needs_the_peers_record(kind: str) -> None:
    assert is_connected(QPType[kind])
    with pytest.raises(ValueError, match=f"a {kind} queue pair has a peer: its record is needed"):
        bring_up(of(kind))


def test_a_drivers_own_type_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="its driver's own"):
        bring_up(of("DRIVER"), REMOTE)


def test_a_step_alone() -> None:
    assert step_to(QPType.UD, QPState.RTR, {"path_mtu": None}) == QPAttr(qp_state=QPState.RTR)
    given = step_to(QPType.UC, QPState.RTS, {"sq_psn": 0, "timeout": 1})
    assert given == QPAttr(qp_state=QPState.RTS, sq_psn=0, timeout=1)
