"""The guard stands before ``ibv_modify_qp``: what it refuses never reaches the library, and all is said at once."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from null_side import AddressVector, GlobalRoute, QPAttr, calls, connected, error_of, rdmaqp, ready, said, side

if TYPE_CHECKING:
    from conftest import Null

def refused(cases: list[Any]) -> list[dict[str, Any]]:
    """Make modify calls, each on top of what is right, and say what came of them. ``"-"`` takes an attribute away."""
    right = {
        "RESET": {"qp_state": "INIT", "port_num": 1, "pkey_index": 0, "qp_access_flags": 0},
        "INIT": {
            "qp_state": "RTR", "path_mtu": 1024, "dest_qp_num": 7, "rq_psn": 0, "max_dest_rd_atomic": 1,
            "min_rnr_timer": 12, "ah_attr": AddressVector(dlid=9),
        },
        "RTR": {
            "qp_state": "RTS", "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "sq_psn": 0, "max_rd_atomic": 1,
        },
        "RTS": {},
    }  # fmt: skip
    answers = []
    context = rdmaqp.open()
    for state, attributes, mask, address in cases:
        one = ready(state, context=context)
        fields = {name: value for name, value in (right[state] | attributes).items() if value != "-"}
        if address is not None:
            route = address.pop("grh", None)
            fields["ah_attr"] = AddressVector(**address, grh=route and GlobalRoute(**route))
        before = len(calls("ibv_modify_qp"))
        try:
            error = error_of(one.qp.modify, mask=mask, **fields)
        except AssertionError as nothing:
            error = nothing
        answers.append(said(error) | {
            "native": len(calls("ibv_modify_qp")) - before,
            "state": one.qp.state.name,
            "moves": len(one.qp.transitions),
            "report": getattr(error, "report", None) is one.qp.report is not None,
        })  # fmt: skip
    return answers


BIG = 2**70
STATE, PORT, PKEY, ACCESS = 1, 1 << 5, 1 << 4, 1 << 3

CASES: list[tuple[str, dict[str, Any], int | None, dict[str, Any] | None, list[list[str]]]] = [
    # the arrow
    ("RESET", {"qp_state": "RTR"}, None, None, [["transition-illegal", "qp_state"]]),
    ("INIT", {"qp_state": 3}, None, None, [["transition-illegal", "qp_state"]]),
    ("RTS", {"qp_state": "SQE"}, None, None, [["transition-illegal", "qp_state"]]),
    ("RTS", {"qp_state": "INIT", "port_num": 1}, None, None, [["transition-illegal", "qp_state"]]),
    # the mask
    ("RESET", {"port_num": "-"}, None, None, [["mask-missing", "port_num"]]),
    ("RESET", {"sq_psn": 0}, None, None, [["mask-excess", "sq_psn"]]),
    ("INIT", {"min_rnr_timer": "-", "sq_psn": 5}, None, None, [
        ["mask-missing", "min_rnr_timer"], ["mask-excess", "sq_psn"],
    ]),
    ("RESET", {}, STATE | PORT | PKEY, None, [["mask-missing", "qp_access_flags"]]),
    ("RESET", {"qp_access_flags": "-"}, STATE | PORT | PKEY | ACCESS, None, [
        ["mask-without-value", "qp_access_flags"],
    ]),
    ("RESET", {}, STATE | PORT | PKEY | ACCESS | 1 << 26, None, [["mask-unknown", "mask"]]),
    ("RESET", {}, STATE | PORT | PKEY | ACCESS | BIG, None, [["mask-unknown", "mask"]]),
    ("RESET", {"cap": 1}, None, None, [["mask-unknown", "cap"]]),
    # values
    ("RESET", {"port_num": 0}, None, None, [["port-range", "port_num"]]),
    ("RESET", {"port_num": 2}, None, None, [["port-range", "port_num"]]),
    ("RESET", {"port_num": 256}, None, None, [["port-range", "port_num"]]),
    ("RESET", {"port_num": BIG}, None, None, [["port-range", "port_num"]]),
    ("RESET", {"port_num": -1}, None, None, [["port-range", "port_num"]]),
    ("RESET", {"port_num": 1.0}, None, None, [["value-type", "port_num"]]),
    ("RESET", {"port_num": True}, None, None, [["value-type", "port_num"]]),
    ("RESET", {"port_num": "1"}, None, None, [["value-type", "port_num"]]),
    ("RESET", {"pkey_index": 1}, None, None, [["pkey-range", "pkey_index"]]),
    ("RESET", {"qp_access_flags": -1}, None, None, [["value-range", "qp_access_flags"]]),
    ("RESET", {"qp_access_flags": 1 << 32}, None, None, [["value-range", "qp_access_flags"]]),
    ("RESET", {"qp_state": "NOWHERE"}, None, None, [["value-enum", "qp_state"]]),
    ("RESET", {"qp_state": 7}, None, None, [["value-enum", "qp_state"]]),
    ("RESET", {"qp_state": 256}, None, None, [["value-enum", "qp_state"]]),
    ("RESET", {"qp_state": BIG}, None, None, [["value-enum", "qp_state"]]),
    ("RESET", {"qp_state": 1.0}, None, None, [["value-type", "qp_state"]]),
    ("INIT", {"path_mtu": 1500}, None, None, [["value-enum", "path_mtu"]]),
    ("INIT", {"path_mtu": 0}, None, None, [["value-enum", "path_mtu"]]),
    ("INIT", {"path_mtu": 512.0}, None, None, [["value-type", "path_mtu"]]),
    ("INIT", {"rq_psn": 1 << 24}, None, None, [["value-range", "rq_psn"]]),
    ("INIT", {"rq_psn": BIG}, None, None, [["value-range", "rq_psn"]]),
    ("INIT", {"rq_psn": -1}, None, None, [["value-range", "rq_psn"]]),
    ("INIT", {"dest_qp_num": 1}, None, None, [["qpn-reserved", "dest_qp_num"]]),
    ("INIT", {"min_rnr_timer": 32}, None, None, [["value-range", "min_rnr_timer"]]),
    ("INIT", {"max_dest_rd_atomic": 17}, None, None, [["rd-atomic-over-device", "max_dest_rd_atomic"]]),
    ("INIT", {"ah_attr": 5}, None, None, [["value-type", "ah_attr"]]),
    ("INIT", {}, None, {"dlid": 0}, [["dlid-invalid", "ah_attr.dlid"]]),
    ("INIT", {}, None, {"dlid": BIG}, [["value-range", "ah_attr.dlid"], ["dlid-invalid", "ah_attr.dlid"]]),
    ("INIT", {}, None, {"dlid": 9, "sl": 16}, [["value-range", "ah_attr.sl"]]),
    ("INIT", {}, None, {"dlid": 9, "static_rate": 1}, [["value-enum", "ah_attr.static_rate"]]),
    ("INIT", {}, None, {"dlid": 9, "grh": {"dgid": "nonsense"}}, [["value-type", "ah_attr.grh.dgid"]]),
    ("INIT", {}, None, {"dlid": 9, "grh": {"dgid": "fe80::2", "sgid_index": 1}}, [
        ["sgid-empty", "ah_attr.grh.sgid_index"],
    ]),
    ("INIT", {}, None, {"dlid": 9, "grh": {"dgid": "fe80::2", "sgid_index": 8}}, [
        ["sgid-range", "ah_attr.grh.sgid_index"],
    ]),
    ("INIT", {}, None, {"dlid": 9, "grh": {"dgid": "fe80::2", "flow_label": 1 << 20}}, [
        ["value-range", "ah_attr.grh.flow_label"],
    ]),
    ("RTR", {"timeout": 32}, None, None, [["value-range", "timeout"]]),
    ("RTR", {"retry_cnt": 8}, None, None, [["value-range", "retry_cnt"]]),
    ("RTR", {"rnr_retry": 2.5}, None, None, [["value-type", "rnr_retry"]]),
    ("RTR", {"max_rd_atomic": 17}, None, None, [["rd-atomic-over-device", "max_rd_atomic"]]),
    ("RTR", {"sq_psn": 1 << 24, "timeout": -1, "retry_cnt": "-", "qkey": 5}, None, None, [
        ["mask-missing", "retry_cnt"], ["mask-excess", "qkey"], ["value-range", "sq_psn"], ["value-range", "timeout"],
    ]),
]  # fmt: skip


@pytest.fixture(scope="module")
def answers(null_for_all: Null) -> list[dict[str, Any]]:
    return list(null_for_all.run(refused, [case[:4] for case in CASES]))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n}-{case[4][0][0]}" for n, case in enumerate(CASES)])
def test_what_is_wrong_is_refused_before_the_native_call(answers: list[dict[str, Any]], number: int) -> None:
    state, *_, errors = CASES[number]
    came = answers[number]
    illegal = any(rule == "transition-illegal" for rule, _ in errors)
    assert came["type"] == ("InvalidStateTransition" if illegal else "GuardError"), came["text"]
    found = sorted(finding for finding in came["errors"] if not illegal or finding[0] == "transition-illegal")
    assert found == sorted(errors)
    assert came["native"] == 0
    assert (came["state"], came["report"]) == (state, True)
    assert came["moves"] == {"RESET": 0, "INIT": 1, "RTR": 2, "RTS": 3}[state]
    assert f"ibv_modify_qp was not called; the queue pair is still in {state}" in came["text"]
    assert all(field in came["text"] for _, field in errors)


def connect_by_records(change: dict[str, Any]) -> dict[str, Any]:
    """Connect towards a record of which something is not as it should be."""
    one = side()
    here = one.qp.endpoint(psn=5)
    names = {"link_layer": rdmaqp.LinkLayer, "qp_type": rdmaqp.QPType}
    change = {name: names[name][value] if name in names else value for name, value in change.items()}
    values = {"qp_num": 0x99, "psn": 6, "lid": 0x2A, "qp_type": rdmaqp.QPType.RC, "link_layer": here.link_layer}
    error = error_of(one.qp.connect, here, rdmaqp.Endpoint(**(values | change)))
    return said(error) | {"state": one.qp.state.name, "native": len(calls("ibv_modify_qp"))}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"qp_type": "UC"}, "peer-qp-type"),
        ({"link_layer": "ETHERNET"}, "peer-link-layer"),
        ({"sees_qp_num": 0x77}, "peer-stale"),
        ({"pkey": 0x9234}, "peer-pkey"),
        ({"qp_num": 0}, "qpn-reserved"),
        ({"psn": 1 << 24}, "value-range"),
        ({"lid": 0}, "dlid-invalid"),
    ],
)
def test_connect_compares_with_the_peers_record(null: Null, change: dict[str, Any], rule: str) -> None:
    came = null.run(connect_by_records, change)
    assert rule in [found for found, _ in came["errors"]]
    assert (came["type"], came["state"], came["native"]) == ("GuardError", "INIT", 1)


def from_rts() -> dict[str, Any]:
    one, _ = connected()
    before = len(calls("ibv_modify_qp"))
    here = one.qp.endpoint(psn=5)
    return said(error_of(one.qp.connect, here, here)) | {"native": len(calls("ibv_modify_qp")) - before}


def test_connect_of_a_connected_queue_pair_is_refused(null: Null) -> None:
    came = null.run(from_rts)
    assert (came["type"], came["native"]) == ("InvalidStateTransition", 0)
    assert "RTS → INIT" in came["text"]


def misspelt() -> list[dict[str, Any]]:
    one = side()
    return [
        said(error_of(one.qp.modify, qp_state="INIT", **{name: 1}))
        for name in ("min_rnr_timmer", "portnum", "state", "zzz")
    ]


def test_an_unknown_keyword_names_the_nearest(null: Null) -> None:
    came = null.run(misspelt)
    assert {answer["type"] for answer in came} == {"TypeError"}
    assert [answer["text"].rpartition("mean ")[2] for answer in came[:3]] == [
        "'min_rnr_timer'?", "'port_num'?", "'qp_state'?"
    ]  # fmt: skip
    assert came[3]["text"] == "there is no attribute 'zzz'"
    assert null.calls("ibv_modify_qp") == []


def whole_numbers_of_numpy() -> list[Any]:
    import numpy as np

    one = side()
    one.qp.modify(
        qp_state=np.uint8(1), port_num=np.int64(1), pkey_index=np.uint16(0), qp_access_flags=np.uint32(1),
        mask=np.int64(57),
    )
    assert type(one.qp.port_num) is int
    one.qp.modify(QPAttr(
        qp_state=np.int32(2), path_mtu=np.int64(512), dest_qp_num=np.uint32(9), rq_psn=np.int64(7),
        max_dest_rd_atomic=np.uint8(1), min_rnr_timer=np.uint8(3), ah_attr=AddressVector(np.int8(1), np.uint16(9)),
    ))  # fmt: skip
    floats = said(error_of(one.qp.modify, qp_state="RTS", timeout=np.float64(14)))
    return [one.qp.state.name, floats["errors"][-1]]


def test_whole_numbers_of_numpy_are_taken_and_its_floats_are_not(null: Null) -> None:
    assert null.run(whole_numbers_of_numpy) == ["RTR", ["value-type", "timeout"]]
    init, rtr = (null.fields(call) for call in null.calls("ibv_modify_qp"))
    assert (init["qp_state"], init["port_num"], init["qp_access_flags"]) == (1, 1, 1)
    assert (rtr["path_mtu"], rtr["dest_qp_num"], rtr["rq_psn"], rtr["ah_attr.dlid"]) == (2, 9, 7, 9)


def nothing_given() -> list[Any]:
    one = side()
    one.qp.modify(qp_state="INIT", port_num=1, pkey_index=0, qp_access_flags=0, timeout=None, ah_attr=None)
    one.qp.modify(QPAttr(qp_state="ERR"), timeout=None, mask=None)
    return [call["mask"] for call in calls("ibv_modify_qp")]


def test_none_is_not_set(null: Null) -> None:
    assert null.run(nothing_given) == [STATE | PORT | PKEY | ACCESS, STATE]


def warned(refuse: bool) -> list[Any]:
    one = side()
    with warnings.catch_warnings(record=not refuse) as caught:
        warnings.simplefilter("error" if refuse else "always")
        call = {"qp_state": "INIT", "port_num": 1, "pkey_index": 0, "qp_access_flags": 0}
        if refuse:
            return [said(error_of(one.qp.modify, **call))["text"], one.qp.state.name]
        report = one.qp.modify(**call)
        assert caught is not None
        return [str(caught[0].message), caught[0].filename, report.verdict, one.qp.state.name]


def test_what_smells_is_a_warning_and_the_call_is_made(null: Null) -> None:
    text, file, verdict, state = null.run(warned, False, PORT_STATE="DOWN")
    assert "port 1 is DOWN" in text
    assert (file, verdict, state) == (__file__, "warn", "INIT")


def test_a_warning_made_an_error_stops_the_call(null: Null) -> None:
    text, state = null.run(warned, True, PORT_STATE="DOWN")
    assert "port 1 is DOWN" in text
    assert (state, null.calls("ibv_modify_qp")) == ("RESET", [])


def too_much() -> dict[str, Any]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(4), context.alloc_pd()
    return said(error_of(pd.create_qp, cq, max_send_wr=101, max_recv_wr=-1, max_send_sge=3, max_inline_data=1 << 32))


def test_capacities_above_the_devices_are_refused_before_the_native_call(null: Null) -> None:
    came = null.run(too_much, MAX_QP_WR=100, MAX_SGE=2)
    assert came["errors"] == [
        ["create-over-limit", "max_send_wr"], ["value-range", "max_recv_wr"], ["create-over-limit", "max_send_sge"],
        ["create-over-limit", "max_inline_data"],
    ]  # fmt: skip
    assert null.calls("ibv_create_qp") == []


def unknown_type() -> dict[str, Any]:
    context = rdmaqp.open()
    return said(error_of(context.alloc_pd().create_qp, context.create_cq(4), qp_type="CR"))


def test_an_unknown_type_names_those_there_are(null: Null) -> None:
    came = null.run(unknown_type)
    assert came["type"] == "ValueError"
    assert "RC, UC, UD" in came["text"]


def types() -> list[str]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(4), context.alloc_pd()
    return [pd.create_qp(cq, qp_type=kind).type.name for kind in ("RC", "uc", 4)]


def test_each_type_is_made_as_what_it_is(null: Null) -> None:
    assert null.run(types) == ["RC", "UC", "UD"]
    assert [call["qp_type"] for call in null.calls("ibv_create_qp")] == [2, 3, 4]
