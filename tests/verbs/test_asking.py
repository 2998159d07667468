"""What is asked of the device before a modify call: as much as the call touches, and anew each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from null_side import AddressVector, GlobalRoute, QPAttr, calls, error_of, rdmaqp, ready, said, side, stub

if TYPE_CHECKING:
    from conftest import Null

ROCE = {"LINK": "ethernet", "GIDS": "0=fe80::1/ROCE_V2@lo,3=::ffff:192.0.2.1/ROCE_V2@lo,4=::ffff:192.0.2.1/ROCE_V1@lo"}
QUERIES = ("ibv_query_qp", "ibv_query_port", "ibv_query_gid_ex", "ibv_query_gid_table", "ibv_query_pkey")


def rtr(index: int = 3, **more: Any) -> QPAttr:
    route = GlobalRoute("::ffff:192.0.2.9", sgid_index=index)
    return QPAttr(**{
        "qp_state": "RTR", "path_mtu": 1024, "dest_qp_num": 9, "rq_psn": 1, "max_dest_rd_atomic": 1,
        "min_rnr_timer": 12, "ah_attr": AddressVector(grh=route),
    } | more)  # fmt: skip


def asked(index: int) -> list[Any]:
    """What is asked of the device by INIT → RTR from slot *index*, and what the guard says."""
    one = ready("INIT")
    before = len(calls())
    try:
        found = one.qp.modify(rtr(index)).findings
    except rdmaqp.GuardError as error:
        found = error.report.findings
    return [
        [call["call"] for call in calls()[before:] if call["call"] in QUERIES],
        [[finding.rule, finding.fix] for finding in found],
    ]


def test_a_call_from_a_slot_that_will_do_reads_that_slot_alone(null: Null) -> None:
    assert null.run(asked, 3, **ROCE) == [["ibv_query_qp", "ibv_query_port", "ibv_query_gid_ex"], []]


@pytest.mark.filterwarnings("ignore::rdmaqp.GuardWarning")
@pytest.mark.parametrize(("index", "rule"), [(0, "gid-family-mismatch"), (1, "sgid-empty"), (4, "sgid-roce-v1")])
def test_the_others_are_read_where_they_may_be_better(null: Null, index: int, rule: str) -> None:
    queries, found = null.run(asked, index, **ROCE)
    assert queries.count("ibv_query_gid_table") == 1
    assert rule in [name for name, _ in found]
    assert "sgid_index=3" in str(found)


@pytest.mark.parametrize("error", [95, -95, 22])
def test_where_a_slot_alone_cannot_be_read_the_table_is(null: Null, error: int) -> None:
    queries, found = null.run(asked, 3, QUERY_GID_ERRNO=error, **ROCE)
    assert queries.count("ibv_query_gid_table") == 1
    assert found == []


def test_where_neither_can_be_read_nothing_is_guessed(null: Null) -> None:
    came = null.run(unreadable, {"QUERY_GID_ERRNO": 5, "QUERY_GID_TABLE_ERRNO": 5}, "INIT", **ROCE)
    assert came["text"].startswith("port 1 of null0: ibv_query_gid_table failed: Input/output error (EIO, 5)")
    assert came["state"] == "INIT"


def unreadable(settings: dict[str, int], state: str) -> dict[str, Any]:
    one = ready(state)
    stub(**settings)
    call = {"qp_state": "INIT", "port_num": 1, "pkey_index": 0, "qp_access_flags": 0}
    error = error_of(one.qp.modify, **call) if state == "RESET" else error_of(one.qp.modify, rtr())
    return said(error) | {"state": one.qp.state.name}


@pytest.mark.parametrize(
    ("verb", "text"), [
        ("QUERY_PORT", "port 1 of null0: ibv_query_port failed: Input/output error (EIO, 5)"),
        ("QUERY_PKEY", "port 1 of null0: ibv_query_pkey failed: Input/output error (EIO, 5)"),
    ],
)  # fmt: skip
def test_a_question_that_fails_is_said_to_have_failed(null: Null, verb: str, text: str) -> None:
    came = null.run(unreadable, {f"{verb}_ERRNO": 5}, "RESET")
    assert (came["type"], came["state"]) == ("VerbsError", "RESET")
    assert came["text"].startswith(text)
    assert null.calls("ibv_modify_qp") == []


def changed_meanwhile() -> list[Any]:
    from rdmaqp.verbs import modify

    one = ready("INIT")
    rules = []
    for settings in (
        {"ACTIVE_MTU": 512}, {"ACTIVE_MTU": None, "PORT_STATE": "DOWN"},
        {"PORT_STATE": None, "GIDS": "0=fe80::1/ROCE_V2@lo"}, {"GIDS": "3=::ffff:192.0.2.1/ROCE_V2"},
    ):  # fmt: skip
        stub(**settings)
        report = rdmaqp.check(modify.request(one.qp, rtr(), None, None))
        rules.append([finding.rule for finding in report.findings])
    stub(GIDS=ROCE["GIDS"])
    return [*rules, one.qp.modify(rtr()).verdict]


def test_what_changes_at_run_time_is_asked_each_time(null: Null) -> None:
    assert null.run(changed_meanwhile, **ROCE) == [
        ["mtu-over-active"], ["port-inactive"], ["sgid-empty"], ["sgid-netdev"], "pass"
    ]  # fmt: skip


def kept() -> list[Any]:
    """The caller goes on to use his own attributes for the next one."""
    one = ready("INIT")
    attr = rtr()
    one.qp.modify(attr)
    attr.dest_qp_num = 77
    call = one.qp.calls[rdmaqp.QPState.RTR].attr
    assert call is not None
    return [call.dest_qp_num, one.qp.transitions[-1].mask]


def test_what_was_judged_is_kept_as_it_was(null: Null) -> None:
    number, mask = null.run(kept, **ROCE)
    assert number == 9
    assert mask == [
        "STATE", "AV", "PATH_MTU", "RQ_PSN", "MIN_RNR_TIMER", "MAX_DEST_RD_ATOMIC", "DEST_QPN"
    ]  # fmt: skip


def table() -> list[Any]:
    from rdmaqp.verbs.port import GidTable

    port = side().context.port(1)
    known = port.gids()[1]
    gids = GidTable(port, known)
    before = len(calls("ibv_query_gid_table"))
    first = gids.get(3) is known
    stub(GIDS="0=fe80::9/ROCE_V2@lo")  # what was read stays what it was when it was read
    reads = len(calls("ibv_query_gid_table")) - before
    return [first, reads, sorted(gids), gids.get(1), str(gids[0].gid), gids[3] is known, len(gids), 7 in gids]


def test_the_table_is_a_mapping_that_is_read_at_the_second_look(null: Null) -> None:
    assert null.run(table, **ROCE) == [True, 0, [0, 3], None, "fe80::9", True, 2, False]
