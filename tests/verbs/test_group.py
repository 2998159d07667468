"""Many queue pairs at once: each is as if it had been made, brought up and closed by itself."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from group_side import ENDED, MADE, MOVED, made, once_the_first_is_up, peers, told, up
from null_side import calls, error_of, rdmaqp, said, stub

from rdmaqp.verbs import bringing, following, group

if TYPE_CHECKING:
    from conftest import Null


def side_by_side(options: dict[str, Any]) -> dict[str, Any]:
    context, cq, qps = made(**options)
    alone = [qps[0].pd.create_qp(cq, **options) for _ in qps]
    here, there = qps.endpoints(psn=range(10, 15)), peers(qps)
    before = len(calls(MOVED))
    qps.connect(here, there)
    moves = [call["attr"] for call in calls(MOVED)[before:]]
    for qp, ours, theirs in zip(alone, here, there, strict=True):
        qp.connect(ours, theirs)
    same = [one["attr"] for one in calls(MOVED)[before + len(moves) :]]
    times = [[move.time_ns for move in qp.transitions] for qp in qps]
    return {
        "group": [told(qp) for qp in qps], "alone": [told(qp) for qp in alone], "ways": len(qps._ways),
        "moves": moves, "same": same, "sorted": all(sorted(row) == row for row in times),
        "numbers": [qp.qp_num for qp in qps] == list(qps.qp_nums), "sure": context.closed,
    }  # fmt: skip


@pytest.mark.parametrize("options", [
    {}, {"max_send_wr": 5, "sq_sig_all": True}, {"qp_type": "UC"}, {"max_inline_data": 32, "max_recv_wr": 3},
])  # fmt: skip
@pytest.mark.parametrize("port", [{}, {"LINK": "ethernet", "GIDS": "0=fe80::1/ROCE_V2@lo"}], ids=["ib", "roce"])
def test_each_is_as_if_it_had_gone_alone(null: Null, port: dict[str, str], options: dict[str, Any]) -> None:
    came = null.run(side_by_side, options, **port)
    assert came["ways"] == 1
    assert came["group"] == came["alone"]
    assert came["moves"] == came["same"]
    assert len(came["moves"]) == 15
    assert came["sorted"]
    assert came["numbers"]


def data() -> list[Any]:
    cq, qps = up(4)
    pd = qps[0].pd
    region = pd.alloc_mr(64)
    for one in (qps[1], qps[3]):
        one.send(region[0:8], wr_id=one.qp_num)
    found = [[wc.wr_id, wc.ok] for wc in cq.poll()]
    alone = pd.create_qp(cq)
    alone.connect(alone.endpoint(psn=1), peers(qps)[0])
    full = []
    for one in (qps[2], alone):
        error = error_of(lambda one=one: [one.send(region, signaled=False) for _ in range(17)])
        full.append([said(error)["errors"], one.outstanding])
    return [found, [qps[1].qp_num, qps[3].qp_num], full, qps[1].outstanding]


def test_each_has_an_account_of_its_own(null: Null) -> None:
    found, numbers, full, other = null.run(data)
    assert found == [[number, True] for number in numbers]
    assert full[0] == full[1]
    assert full[0][0][0][0] in ("post-full", "post-stuck")
    assert other == 0


def unlike(what: str) -> dict[str, Any]:
    """Bring up five, of which one or all are not as the first was."""
    _, _, qps = made()
    here, there = qps.endpoints(psn=1), peers(qps)
    following.HOLDS_NS = 0
    if what == "moved":
        qps[3].to_init()
    elif what == "lid":
        once_the_first_is_up(lambda: stub(LID=99))
    elif what == "port":
        once_the_first_is_up(lambda: stub(PORT_STATE="DOWN"))
    elif what == "unasked":
        once_the_first_is_up(lambda: stub(QUERY_QP_ERRNO=95))
    raised = None
    with rdmaqp.policy("warn"):
        try:
            qps.connect(here, there)
        except rdmaqp.RdmaqpError as error:
            raised = said(error)
    stub(QUERY_QP_ERRNO=None)
    return {"raised": raised, "ways": len(qps._ways), "states": [qp.state.name for qp in qps],
            "moves": [len(qp.transitions) for qp in qps],
            "warned": [[finding.rule for finding in qp.calls[rdmaqp.QPState.RTR] and qp.history[-1].request
                        and rdmaqp.check(qp.history[1].request).findings] for qp in qps]}  # fmt: skip


@pytest.mark.parametrize(("what", "ways", "warned"), [
    ("moved", 1, [[]] * 5), ("lid", 2, [[]] * 5), ("port", 2, [[], *[["port-inactive"]] * 4]), ("unasked", 1, [[]] * 5),
])  # fmt: skip
def test_who_is_not_as_the_first_goes_alone(null: Null, what: str, ways: int, warned: list[list[str]]) -> None:
    came = null.run(unlike, what)
    assert came["raised"] is None
    assert came["states"] == ["RTS"] * 5
    assert came["moves"] == [3] * 5
    assert came["ways"] == ways
    assert came["warned"] == warned


def stopped(what: str) -> dict[str, Any]:
    _, _, qps = made()
    here, there = qps.endpoints(psn=1), peers(qps)
    if what == "refused":
        there = rdmaqp.Endpoints(there.like, [100, 101, 1, 103, 104], there.psns)
    else:
        once_the_first_is_up(lambda: stub(MODIFY_ERRNO="RTR=110"))
        if what == "failed, looked at before":
            assert qps[1].history == ()
    error = error_of(qps.connect, here, there)
    stub(MODIFY_ERRNO=None)
    at = 2 if what == "refused" else 1
    return {
        **said(error), "notes": getattr(error, "__notes__", []), "states": [qp.state.name for qp in qps],
        "last": [qp.last_state.name for qp in qps], "causes": [cause.cause for cause in getattr(error, "causes", ())],
        "history": [[each.start.name, each.goal.name, each.result, each.errno] for each in qps[at].history],
        "request": repr(getattr(error, "request", None)), "number": f"{qps[at].qp_num:#x}",
        "rest": [error_of(qps[3].modify, qp_state="RTS").report.verdict],  # type: ignore[attr-defined]
    }  # fmt: skip


@pytest.mark.parametrize("what", ["failed", "failed, looked at before"])
def test_one_that_fails_says_why_and_the_others_are_as_they_were(null: Null, what: str) -> None:
    came = null.run(stopped, what)
    assert (came["type"], came["errno"]) == ("VerbsError", 110)
    assert f"QP {came['number']}" in came["text"] or f"queue pair {came['number']}" in came["text"]
    assert "INIT → RTR" in came["text"]
    assert came["causes"]
    assert "dest_qp_num=101" in came["request"].replace("0x65", "101")
    assert came["notes"] == [
        "This is queue pair 1 of 5: those before it are in RTS, those behind it are as they were."
    ]
    assert came["states"] == came["last"] == ["RTS", "INIT", "RESET", "RESET", "RESET"]
    assert came["history"] == [["RESET", "INIT", "taken", None], ["INIT", "RTR", "failed", 110]]
    assert came["rest"] == ["refuse"]


def test_a_number_that_no_peer_has_is_refused(null: Null) -> None:
    came = null.run(stopped, "refused")
    assert (came["type"], came["errors"]) == ("GuardError", [["qpn-reserved", "dest_qp_num"]])
    assert "queue pair 2 of 5" in came["notes"][0]
    assert came["states"] == ["RTS", "RTS", "INIT", "RESET", "RESET"]
    assert came["history"][-1] == ["INIT", "RTR", "refused", None]


def wrong_records() -> dict[str, str]:
    _, _, qps = made()
    here, there = qps.endpoints(psn=1), peers(qps)
    turned = rdmaqp.Endpoints(here.like, reversed(here.qp_nums), here.psns)
    _, _, datagrams = made(2, qp_type="UD")
    asked = {
        "few": lambda: qps.connect(here, there[:4]), "turned": lambda: qps.connect(turned, there),
        "other class": lambda: qps.connect(here, 5), "option": lambda: qps.connect(here, there, timout=3),
        "record": lambda: qps.connect(here, [5] * 5), "psns": lambda: qps.endpoints(psn=[1, 2]),
        "no peer": lambda: datagrams.connect(datagrams.endpoints(psn=1), datagrams.endpoints(psn=1)),
        "none": lambda: qps[0].pd.create_qps(0, qps[0].send_cq), "index": lambda: qps[5],
    }  # fmt: skip
    errors = {name: error_of(act) for name, act in asked.items()}
    assert not calls(MOVED)
    return {name: f"{type(error).__name__}: {error}" for name, error in errors.items()}


def test_wrong_records_are_refused_before_anything_moves(null: Null) -> None:
    came = null.run(wrong_records)
    assert came["few"] == "ValueError: remote: there are 4 records for 5 queue pairs"
    assert came["turned"].startswith("ValueError: local[0] is the record of QP 0x")
    assert came["other class"].startswith("TypeError: connect(): remote is 5, an int")
    assert came["option"].startswith("TypeError: connect() has no argument 'timout'; did you mean 'timeout'?")
    assert came["record"].startswith("TypeError: connect(): remote[0] is 5, an int; expected an Endpoint")
    assert came["psns"] == "ValueError: there are 5 qp_nums and 2 psns: each record has both"
    assert came["no peer"].startswith("ValueError: UD queue pairs have no peer")
    assert came["none"].startswith("ValueError: count: 0 ")
    assert came["index"] == "IndexError: there is no queue pair 5: they are 0…4"


def not_made(what: str) -> dict[str, Any]:
    context = rdmaqp.open()
    pd, cq = context.alloc_pd(), context.create_cq(64)
    if what == "failed":
        whole = group.QueuePairs._make_others

        def make(self: Any, first: Any) -> None:
            stub(CREATE_QP_ERRNO=12)
            whole(self, first)

        group.QueuePairs._make_others = make  # type: ignore[method-assign]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        error = None if what == "too many" else error_of(pd.create_qps, 5, cq)
        if error is None:
            pd.create_qps(5, cq)
    stub(CREATE_QP_ERRNO=None)
    counts = [len(calls(MADE)), len(calls(ENDED))]
    pd.close()
    return {**(said(error) if error else {}), "counts": counts, "warned": [str(one.message) for one in warned]}


def test_where_one_cannot_be_made_none_is_left(null: Null) -> None:
    came = null.run(not_made, "failed")
    assert (came["type"], came["errno"]) == ("VerbsError", 12)
    assert "queue pair 1 of 5 RC queue pairs" in came["text"]
    assert came["counts"][0] == came["counts"][1] + 1  # the one that was answered with an error


def test_more_than_the_device_has_are_warned_of(null: Null) -> None:
    came = null.run(not_made, "too many", MAX_QP=4)
    (warning,) = came["warned"]
    assert warning.startswith("max_qp: 4 queue pairs are in use, and the device has 4")


def given_other_capacities() -> list[Any]:
    group.cap_in_c = lambda cap: {"max_send_wr": cap.max_send_wr + 1}  # type: ignore[attr-defined]
    _, qps = up()
    states = [qp.state.name for qp in qps]
    qps.close()
    return [states, len(calls(MADE)), len(calls(ENDED))]


def test_who_is_given_other_capacities_is_made_again_alone(null: Null) -> None:
    states, created, ended = null.run(given_other_capacities)
    assert states == ["RTS"] * 5
    assert created == ended == 9  # four were made twice


def ends(how: str) -> list[Any]:
    cq, qps = up()
    pd, seen = qps[0].pd, qps[1:3]
    if how == "one of them":
        seen[0].close()
        assert [qp.closed for qp in seen] == [True, False]
        assert cq.queue_pair(seen[0].qp_num) is None
    if how == "refused":
        stub(DESTROY_QP_ERRNO=16)
        error = error_of(qps.close)
        assert said(error)["errno"] == 16
        assert not qps.closed
        stub(DESTROY_QP_ERRNO=None)
        qps[4].send(pd.alloc_mr(8))
    {"pd": pd, "cq": cq}.get(how, qps).close()
    qps.close()
    unseen, again = error_of(lambda: qps[3]), error_of(lambda: seen[1].modify(qp_state="ERR"))
    return [len(calls(ENDED)), qps.closed, [qp.closed for qp in seen], said(unseen), said(again), len(cq._children)]


@pytest.mark.parametrize("how", ["group", "one of them", "refused", "pd", "cq"])
def test_all_end_once(null: Null, how: str) -> None:
    ended, closed, seen, unseen, again, left = null.run(ends, how)
    assert ended == 5 + (how == "refused")
    assert closed
    assert seen == [True, True]
    assert unseen["type"] == again["type"] == "ClosedError"
    assert left == 0


def looked_up() -> dict[str, Any]:
    cq, qps = up()
    numbers = list(qps.qp_nums)
    found = cq.queue_pair(numbers[3])
    assert found is qps[3]
    waited = said(error_of(cq.wait, timeout=0))["text"]
    stub(WC_STATUS="RETRY_EXC_ERR")
    pd = found.pd
    qps[4].send(pd.alloc_mr(8), wr_id=7)
    stub(WC_STATUS=None)
    (wc,) = cq.poll()
    failed = error_of(wc.raise_for_status)
    return {
        "same": qps[-2] is qps[3] and qps[3:4] == [qps[3]], "unknown": cq.queue_pair(0xABCDEF), "length": len(qps),
        "all": [qp.qp_num for qp in qps] == numbers, "text": str(qps), "peer": repr(failed.request.attr),  # type: ignore[attr-defined]
        "wait": waited, "shown": qps.where_now(),
    }  # fmt: skip


def test_each_is_found_by_number_and_explained(null: Null) -> None:
    came = null.run(looked_up)
    assert came["same"]
    assert came["all"]
    assert came["unknown"] is None
    assert came["length"] == 5
    assert came["text"] == "5 RC queue pairs on null0"
    assert "dest_qp_num=104" in came["peer"].replace("0x68", "104")
    assert came["wait"].count("queue pair 0x") == 2  # the first, and the one looked at
    assert "5 RC queue pairs on null0: 5 in RTS, as last known" in came["wait"]
    assert came["shown"] == "5 in RTS"


def logged() -> list[Any]:
    lines: list[str] = []
    with rdmaqp.trace(lines.append):
        _, qps = up()
    return [len(lines), len(qps._ways), [qp.state.name for qp in qps]]


def test_where_calls_are_traced_each_goes_alone(null: Null) -> None:
    assert null.run(logged) == [15, 0, ["RTS"] * 5]


def interrupted() -> dict[str, Any]:
    _, _, qps = made()
    bringing.SLICE_NS = 0
    whole = group.QueuePairs._tell

    def tell(self: Any, start: int, end: int) -> None:
        whole(self, start, end)
        if end == 3:
            raise KeyboardInterrupt

    group.QueuePairs._tell = tell  # type: ignore[method-assign]
    error = error_of(qps.connect, qps.endpoints(psn=1), peers(qps))
    return {"type": type(error).__name__, "known": [qp.last_state.name for qp in qps],
            "states": [qp.state.name for qp in qps], "history": [len(qp.history) for qp in qps]}  # fmt: skip


def test_ctrl_c_leaves_each_as_it_says(null: Null) -> None:
    came = null.run(interrupted)
    assert came["type"] == "KeyboardInterrupt"
    assert came["known"] == came["states"] == ["RTS", "RTS", "RTS", "RESET", "RESET"]
    assert came["history"] == [3, 3, 3, 0, 0]


def to_several_peers() -> dict[str, Any]:
    _, _, qps = made(6)
    here = list(qps.endpoints(psn=1))
    like = here[0]
    there = [replace(like, qp_num=100 + at, lid=20 + at % 2) for at in range(6)]
    there[4] = replace(there[4], sees_qp_num=here[4].qp_num, sees_psn=1)
    qps.connect(here, there)
    attrs = [qp.history[1].attr for qp in qps]
    return {"ways": len(qps._ways), "lids": [attr.ah_attr.dlid for attr in attrs],  # type: ignore[union-attr]
            "numbers": [attr.dest_qp_num for attr in attrs], "states": [qp.state.name for qp in qps]}  # fmt: skip


def test_records_of_several_peers_may_be_mixed(null: Null) -> None:
    came = null.run(to_several_peers)
    assert came["lids"] == [20, 21, 20, 21, 20, 21]
    assert came["numbers"] == [100, 101, 102, 103, 104, 105]
    assert came["states"] == ["RTS"] * 6
    assert came["ways"] == 2  # two peers; a record that is a reply is nobody's example


def other_types() -> dict[str, Any]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    srq = pd.create_srq(8)
    shared = pd.create_qps(3, cq, srq=srq)
    shared.connect(shared.endpoints(psn=1), peers(shared, 3))
    region = pd.alloc_mr(64)
    srq.recv(region)
    datagrams = pd.create_qps(3, cq, qp_type="UD")
    for one, here in zip(datagrams, datagrams.endpoints(psn=1), strict=True):
        one.activate(here)
    xrcd = context.open_xrcd()
    responders = pd.create_qps(2, qp_type="XRC_RECV", xrcd=xrcd)
    here = responders.endpoints(psn=1)
    responders.connect(here, [replace(record, qp_type=rdmaqp.QPType.XRC_SEND) for record in here])
    states = [qp.state.name for qp in shared]
    srq.close()
    return {"shared": states, "closed": shared.closed,
            "datagrams": [qp.state.name for qp in datagrams], "responders": [qp.state.name for qp in responders],
            "depth": shared[0].local and shared[0].local.rx_depth}  # fmt: skip


def test_other_types_and_a_shared_receive_queue(null: Null) -> None:
    came = null.run(other_types, XRC=1)
    assert came["shared"] == ["RTS"] * 3
    assert came["closed"]
    assert came["datagrams"] == ["RTS"] * 3
    assert came["responders"] == ["RTS"] * 2
    assert came["depth"] == 8
