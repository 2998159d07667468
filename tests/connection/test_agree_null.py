"""agree() on the null device: what is handed over, which GID, who refuses; in threads and in asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from null_connection import in_asyncio, in_threads
from null_side import QPState, calls, rdmaqp, side, stub

if TYPE_CHECKING:

    from verbs.conftest import Null

ROCE = {"LINK": "ethernet"}


def summary(agreed: Any) -> dict[str, Any]:
    names = ("path_mtu", "max_rd_atomic", "max_dest_rd_atomic", "receives", "moved")
    return {name: getattr(agreed, name) for name in names} | {"gid_index": agreed.local.gid_index}


def agreed(way: str) -> Any:
    here, there = side(), side()
    records = [
        here.qp.endpoint(psn=1, path_mtu=1024, max_rd_atomic=8, max_dest_rd_atomic=2),
        there.qp.endpoint(psn=2, path_mtu=2048, max_rd_atomic=1, max_dest_rd_atomic=16),
    ]

    def receives(one: Any, number: int) -> Any:
        return lambda: one.qp.post(*(rdmaqp.Recv(one.mr[0:8]) for _ in range(number)))

    if way == "threads":
        found = in_threads(
            lambda exchange: exchange.agree(here.qp, records[0], timeout=10, prepare=receives(here, 3)),
            lambda exchange: exchange.agree(there.qp, records[1], timeout=10, prepare=receives(there, 5)),
            b"a secret of some length",
        )  # fmt: skip
    else:
        found = in_asyncio(
            lambda exchange: exchange.agree(here.qp, records[0], timeout=10, prepare=receives(here, 3)),
            lambda exchange: exchange.agree(there.qp, records[1], timeout=10, prepare=receives(there, 5)),
        )
    assert [one.qp.state for one in (here, there)] == [QPState.RTS, QPState.RTS]
    return [summary(one) for one in found]


@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_both_come_up_with_what_both_can(null: Null, way: str) -> None:
    server, client = null.run(agreed, way)
    assert (server["path_mtu"], client["path_mtu"]) == (1024, 1024)
    assert (server["max_rd_atomic"], client["max_dest_rd_atomic"]) == (8, 8)
    assert (server["max_dest_rd_atomic"], client["max_rd_atomic"]) == (1, 1)
    assert (server["receives"], client["receives"]) == (5, 3)
    handed = [null.fields(entry) for entry in null.calls("ibv_modify_qp")]
    assert sorted(fields["rq_psn"] for fields in handed if fields["qp_state"] == 2) == [1, 2]


def disagreeing(**changes: Any) -> Any:
    here, there = side(), side()
    record = there.qp.endpoint(psn=2)
    for name, value in changes.items():
        kind = {"gid_type": rdmaqp.GidType, "link_layer": rdmaqp.LinkLayer, "qp_type": rdmaqp.QPType}.get(name)
        changes[name] = kind[value] if kind else rdmaqp.GID.parse(value) if name == "gid" else value
    from dataclasses import replace

    wrong = replace(record, **changes)
    # agree() writes the type of the queue pair itself into the record: this end tells a lie on purpose.
    from rdmaqp.connection.agreement import Agreement

    def lie(exchange: Any) -> Any:
        plan = Agreement(there.qp, wrong, None, {})
        plan.local = wrong
        from rdmaqp.connection.sockets import Deadline

        return exchange._drive(exchange.talk.agree(plan.begin(None, None)), Deadline(10))

    found = in_threads(lambda exchange: summary(exchange.agree(here.qp, timeout=10)), lie)
    return [*found, [one.qp.state.name for one in (here, there)]]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"gid_type": "ROCE_V1"}, "speaks another RoCE than the peer's"),
        ({"gid": "fe80::ff:fe00:1", "gid_index": 1}, "are of different families"),
        ({"link_layer": "INFINIBAND", "lid": 5}, "ours is ETHERNET, the peer's INFINIBAND"),
        ({"qp_type": "UC"}, "ours is RC, the peer's UC"),
        ({"pkey": 0x7FF0}, "another partition"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_guard_at_both_ends(
    null: Null, changes: dict[str, Any], rule: str
) -> None:
    server, client, states = null.run(told_lies, changes)
    assert server["type"] == client["type"] == "RefusedError"
    assert server["reasons"] == client["reasons"]
    assert rule in server["reasons"]["server"]
    assert states == ["INIT", "INIT"]


def told_lies(changes: dict[str, Any]) -> Any:
    stub(**ROCE)
    return disagreeing(**changes)


def moved(gids: str) -> Any:
    stub(**ROCE, GIDS="1=fe80::ff:fe00:1/ROCE_V2@lo,2=::ffff:192.0.2.1/ROCE_V2@lo")
    here, there = side(), side()
    record = here.qp.endpoint(psn=1)
    assert record.gid_index == 2

    def late(exchange: Any) -> Any:
        stub(GIDS=gids)  # between our record and RTR
        return summary(exchange.agree(here.qp, record, timeout=10))

    return in_threads(late, lambda exchange: summary(exchange.agree(there.qp, there.qp.endpoint(psn=5), timeout=10)))


def test_a_gid_that_has_moved_is_followed(null: Null) -> None:
    server, _ = null.run(moved, "1=fe80::ff:fe00:1/ROCE_V2@lo,5=::ffff:192.0.2.1/ROCE_V2@lo")
    assert (server.get("moved"), server.get("gid_index")) == (2, 5), server
    used = [null.fields(entry) for entry in null.calls("ibv_modify_qp")]
    assert 5 in [fields["ah_attr.grh.sgid_index"] for fields in used if fields["qp_state"] == 2]


def test_a_gid_that_has_gone_is_told_to_both(null: Null) -> None:
    server, client = null.run(moved, "1=fe80::ff:fe00:1/ROCE_V2@lo")
    assert server["type"] == client["type"] == "RefusedError"
    says = "which the peer was told, is in the table of port 1 of null0 no more; it was at index 2"
    assert says in server["reasons"]["server"] == client["reasons"]["server"]


def policy_off() -> Any:
    """What the guard is told not to look at is not refused."""
    stub(**ROCE)
    with rdmaqp.policy("off"):
        here, there = side(), side()

        def one(qp: Any) -> Any:
            def work(exchange: Any) -> Any:
                with rdmaqp.policy("off"):
                    return summary(exchange.agree(qp, qp.endpoint(psn=1, pkey=0x7FF0 + qp.qp_num % 2), timeout=10))

            return work

        return in_threads(one(here.qp), one(there.qp))


def test_the_policy_holds(null: Null) -> None:
    assert all("path_mtu" in found for found in null.run(policy_off))


def not_up() -> Any:
    stub(MODIFY_ERRNO="RTR=110")
    here, there = side(), side()
    found = in_threads(
        lambda exchange: exchange.agree(here.qp, timeout=10), lambda exchange: exchange.agree(there.qp, timeout=10)
    )
    assert len(calls("ibv_modify_qp")) == 4
    return found


def test_the_kernels_refusal_is_its_own_and_both_hear_of_it(null: Null) -> None:
    for found in null.run(not_up):
        assert found["type"] == "VerbsError"
        assert "ETIMEDOUT" in found["text"]
