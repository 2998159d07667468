"""Queue pairs that differ in their numbers alone get the same verdict, which is why one of them is judged for all.

What is each one's own: ``qp_num``, ``dest_qp_num``, ``rq_psn``, ``sq_psn``; and the peer's record of them. Any numbers
of 24 bits do, but 0 and 1 are no peer's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from public_cases import ALL, Case

from rdmaqp import Endpoint, QPState, QPType, Request, bring_up
from rdmaqp.guard import check
from rdmaqp.guard.driver_rows import DRIVERS
from rdmaqp.model import codec
from rdmaqp.model.attributes import enum_value
from rdmaqp.model.enums import GidType, LinkLayer, PortState
from rdmaqp.model.gid import GID, GidEntry
from rdmaqp.model.request import DeviceFacts, PortFacts, QPCap, QPFacts
from rdmaqp.model.steps import as_agreed, is_connected

MODIFIED = [case for case in ALL if "attr" in case.request and "failed" not in case.request]
plain = st.integers(2, 0xFFFFFF)
psn = st.integers(0, 0xFFFFFF)


def found(request: Request) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.field, finding.severity) for finding in check(request).findings]


def skipped(request: Request) -> list[str]:
    return [repr(one) for one in check(request).skipped]


def with_numbers(request: Request, qp_num: int, dest_qp_num: int, rq_psn: int, sq_psn: int) -> Request:
    """The same call of another queue pair, as its own two ends have it."""
    assert request.attr
    own = {"dest_qp_num": dest_qp_num, "rq_psn": rq_psn, "sq_psn": sq_psn}
    attr = request.attr.copied(**{name: own[name] for name in own if getattr(request.attr, name) is not None})
    peer = request.peer and replace(request.peer, qp_num=dest_qp_num, psn=rq_psn, sees_qp_num=None, sees_psn=None)
    return replace(request, qp=replace(request.qp, qp_num=qp_num), attr=attr, peer=peer)


@pytest.mark.parametrize("case", MODIFIED, ids=str)
def test_a_public_failure_is_the_same_with_other_numbers(case: Case) -> None:
    request = codec.decode(case.request)
    one, other = (with_numbers(request, *numbers) for numbers in ((17, 18, 0, 1), (0xFFFFFF, 2, 0xFFFFFF, 0xABCDEF)))
    assert found(one) == found(other)
    assert skipped(one) == skipped(other)


def test_there_are_cases_of_all_steps() -> None:
    requests = [codec.decode(case.request) for case in MODIFIED]
    steps = {(request.qp.state, request.attr and enum_value(QPState, request.attr.qp_state)) for request in requests}
    assert len(MODIFIED) > 200
    assert {(QPState.RESET, QPState.INIT), (QPState.INIT, QPState.RTR), (QPState.RTR, QPState.RTS)} <= steps


@st.composite
def steps_to_rts(draw: st.DrawFn) -> list[Request]:
    """The three calls of any connected type, on any driver and link, right or wrong in what is not a number."""
    kind = draw(st.sampled_from([kind for kind in QPType if kind not in (QPType.DRIVER,) and is_connected(kind)]))
    link = draw(st.sampled_from([LinkLayer.INFINIBAND, LinkLayer.ETHERNET]))
    gid_type = GidType.IB if link is LinkLayer.INFINIBAND else draw(st.sampled_from([GidType.ROCE_V1, GidType.ROCE_V2]))
    depth = st.sampled_from([0, 1, 16, 200])
    ends = [
        Endpoint(
            qp_num=at + 2, psn=at, qp_type=kind, link_layer=link, lid=draw(st.sampled_from([0, 5, 0xC001])),
            gid=GID.parse(draw(st.sampled_from(["fe80::1", "::ffff:192.0.2.7", "2001:db8::1", "ff0e::1"]))),
            gid_index=0, gid_type=gid_type, path_mtu=draw(st.sampled_from([256, 1024, 4096])), port_num=1,
            pkey=draw(st.sampled_from([0xFFFF, 0x7FFF, 0x8001])), pkey_index=draw(st.sampled_from([0, 1])),
            max_rd_atomic=draw(depth), max_dest_rd_atomic=draw(depth),
            port_state=draw(st.sampled_from([PortState.ACTIVE, PortState.DOWN])),
        )
        for at in range(2)
    ]  # fmt: skip
    options = draw(st.fixed_dictionaries({}, optional={
        "timeout": st.integers(0, 40), "retry_cnt": st.integers(0, 9), "min_rnr_timer": st.integers(0, 40),
        "access": st.sampled_from([0, 1, 2, 8, 15]), "sl": st.integers(0, 17), "hop_limit": st.integers(0, 255),
    }))  # fmt: skip
    port = PortFacts(num=1, state=draw(st.sampled_from([PortState.ACTIVE, PortState.DOWN])), link_layer=link, lid=5,
                     active_mtu=draw(st.sampled_from([1024, 4096])), max_mtu=4096, gid_tbl_len=8, pkey_tbl_len=2)
    gid = ends[0].gid
    assert gid
    gids = {0: GidEntry(index=0, gid=gid, type=gid_type, netdev=draw(st.sampled_from(["eth0", "", None])))}
    driver = draw(st.sampled_from(sorted(DRIVERS)))
    calls = []
    for start, attr in zip((QPState.RESET, QPState.INIT, QPState.RTR), bring_up(*ends, **options), strict=True):
        qp = QPFacts(type=kind, state=start, qp_num=2, cap=QPCap(max_send_wr=16, max_recv_wr=16), was=(),
                     port_num=None if start is QPState.RESET else 1, sq_draining=0,
                     pkey_index=None if start is QPState.RESET else ends[0].pkey_index)  # fmt: skip
        calls.append(Request(qp=qp, attr=attr, device=DeviceFacts(driver=driver, name="d", max_qp_rd_atom=16,
                     max_qp_init_rd_atom=16, phys_port_cnt=1), port=port, gids=gids, gids_complete=True,
                     pkeys={0: 0xFFFF, 1: 0x8001}, peer=as_agreed(*ends), kernel=(6, 1)))  # fmt: skip
    return calls


@settings(max_examples=300, deadline=None)
@given(steps_to_rts(), st.tuples(plain, plain, psn, psn), st.tuples(plain, plain, psn, psn))
def test_a_step_is_judged_alike_with_any_numbers(
    calls: list[Request], some: tuple[int, int, int, int], others: tuple[int, int, int, int]
) -> None:
    for call in calls:
        one, other = with_numbers(call, *some), with_numbers(call, *others)
        assert found(one) == found(other)
        assert skipped(one) == skipped(other)


@pytest.mark.parametrize(("number", "rule"), [(0, "qpn-reserved"), (1, "qpn-reserved"), (2, None), (0xFFFFFF, None)])
def test_the_numbers_that_are_no_peers_are_those_that_c_leaves_alone(number: int, rule: str | None) -> None:
    request = Request(qp=QPFacts(type=QPType.RC, state=QPState.INIT), attr=bring_up(
        Endpoint(qp_num=5, psn=1, path_mtu=1024), Endpoint(qp_num=number, psn=2)).rtr)  # fmt: skip
    about = {finding.rule for finding in check(request).findings if finding.field == "dest_qp_num"}
    assert about == ({rule} if rule else set())
