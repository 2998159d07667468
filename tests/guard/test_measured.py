"""What the kernel oracle (``tests/oracle``) taught the guard, for where there is no device to ask."""

from __future__ import annotations

from typing import Any

import pytest
from guard_requests import modify, route, rtr, with_
from rule_triggers import judge

from rdmaqp.guard import Report


def errors(report: Report) -> list[str]:
    return [finding.rule for finding in report.errors]


@pytest.mark.parametrize("dgid", ["127.0.0.1", "127.255.255.254"])
@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_a_loopback_destination_is_no_peer(kind: str, dgid: str) -> None:
    """rxe, 6.1 and 6.12: the neighbour is looked for on the net device, for a second, in vain (ETIMEDOUT)."""
    report = judge(modify(kind, "INIT", "RTR", driver="rxe", ah_attr=route(dgid)))
    assert errors(report) == ["dgid-invalid"]
    assert report.errors[0].field == "ah_attr.grh.dgid"


def test_a_loopback_destination_from_a_loopback_source_may_be_one() -> None:
    here = [{"index": 3, "gid": "127.0.0.1", "type": "ROCE_V2", "netdev": "lo"}]
    assert errors(judge(with_(rtr(driver="rxe", ah_attr=route("127.0.0.1")), gids=here))) == []


OWN_VECTOR: list[dict[str, Any]] = [
    modify("UD", state, state, driver="rxe", qp_state=..., ah_attr=route(dgid))
    for state in ("RESET", "RTR", "RTS") for dgid in ("ff02::1", "224.0.0.1", "255.255.255.255", "::1", "127.0.0.1")
]  # fmt: skip


@pytest.mark.parametrize("request_", OWN_VECTOR, ids=range(len(OWN_VECTOR)))
def test_where_a_datagram_queue_pairs_own_vector_leads_is_nobodys_business(request_: dict[str, Any]) -> None:
    """rxe on 6.12, without STATE: any destination is stored; what is sent goes where its address handle leads."""
    assert errors(judge(with_(request_, kernel="6.12"))) == []


@pytest.mark.parametrize("number", [0, 9, 257])
def test_a_port_that_is_not_there_is_no_reason_to_change_the_address_vectors(number: int) -> None:
    """C cuts 257 to 1, and the kernel takes it: the port is wrong, and nothing is wrong with the address."""
    report = judge(modify("RC", "SQD", "SQD", driver="rxe", port_num=number, ah_attr=route()))
    assert [(finding.rule, finding.field) for finding in report.errors] == [("port-range", "port_num")]


def test_two_ports_that_are_there_and_differ() -> None:
    report = judge(modify("RC", "SQD", "SQD", driver="mlx4", port_num=2, ah_attr=route()))
    assert "port-mismatch" in errors(report)
