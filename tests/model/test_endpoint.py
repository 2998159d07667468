"""``bring_up``: a pure function of two records."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from rdmaqp import GID, AccessFlag, AddressVector, Endpoint, GidType, GlobalRoute, LinkLayer, QPAttr, QPState, bring_up

IB = {"link_layer": LinkLayer.INFINIBAND}
ROCE = {"link_layer": LinkLayer.ETHERNET, "lid": 0}
NEAR, FAR = GID.parse("fe80::1"), GID.parse("fec0::2")
V4 = GID.parse("192.0.2.9")


def ours(**values: Any) -> Endpoint:
    return Endpoint(**({"qp_num": 0x11, "psn": 0x111111, "lid": 0x1A, "gid": NEAR, "gid_index": 3} | IB | values))


def theirs(**values: Any) -> Endpoint:
    near = GID.parse("fe80::2")
    return Endpoint(**({"qp_num": 0x22, "psn": 0x222222, "lid": 0x2A, "gid": near, "gid_index": 5} | IB | values))


def address(local: Endpoint, remote: Endpoint, **options: Any) -> AddressVector:
    vector = bring_up(local, remote, **options).rtr.ah_attr
    assert vector is not None
    return vector


def test_the_three_steps() -> None:
    init, rtr, rts = bring_up(ours(), theirs())
    assert init == QPAttr(
        qp_state=QPState.INIT, pkey_index=0, port_num=1, qp_access_flags=AccessFlag.LOCAL_WRITE
    )
    assert rtr == QPAttr(
        qp_state=QPState.RTR, path_mtu=1024, dest_qp_num=0x22, rq_psn=0x222222, max_dest_rd_atomic=1,
        min_rnr_timer=12, ah_attr=AddressVector(port_num=1, dlid=0x2A),
    )  # fmt: skip
    assert rts == QPAttr(
        qp_state=QPState.RTS, timeout=14, retry_cnt=6, rnr_retry=7, sq_psn=0x111111, max_rd_atomic=1
    )


@pytest.mark.parametrize(
    ("local", "remote", "routed"),
    [
        (ours(), theirs(), False),
        (ours(), theirs(gid=FAR), True),
        (ours(grh_required=True), theirs(), True),
        (ours(), theirs(lid=0), True),
        (ours(), theirs(lid=None), True),
        (ours(gid=None), theirs(gid=FAR), False),  # our own subnet is unknown
        (ours(grh_required=True), theirs(gid=None), False),  # nothing to route to; the guard says so
        (ours(), theirs(gid=GID(bytes(16)), lid=0), False),
        (ours(**ROCE), theirs(**ROCE), True),
        (ours(**ROCE), theirs(**ROCE, gid=V4, gid_type=GidType.ROCE_V2), True),
        (ours(**ROCE), theirs(**ROCE, gid=V4, gid_type=GidType.ROCE_V1), True),
        (ours(**(ROCE | {"lid": 9})), theirs(**(ROCE | {"lid": 8})), True),
    ],
)
def test_a_route_is_given_where_it_is_needed(local: Endpoint, remote: Endpoint, routed: bool) -> None:
    vector = address(local, remote, traffic_class=106, flow_label=0x12345, hop_limit=9)
    route = GlobalRoute(remote.gid or b"", sgid_index=3, flow_label=0x12345, hop_limit=9, traffic_class=106)
    assert vector.grh == (route if routed else None)
    assert vector.uses_grh == routed


@pytest.mark.parametrize(
    ("local", "remote", "options", "dlid"),
    [
        (ours(), theirs(), {}, 0x2A),
        (ours(), theirs(gid=FAR), {}, 0x2A),
        (ours(), theirs(gid=FAR), {"dlid": 0x77}, 0x77),  # the router's
        (ours(), theirs(), {"dlid": 0}, 0),
        (ours(), theirs(lid=None), {}, 0),
        (ours(**ROCE), theirs(**ROCE), {}, 0),
        (ours(**ROCE), theirs(**(ROCE | {"lid": 8})), {}, 0),
    ],
)
def test_the_lid(local: Endpoint, remote: Endpoint, options: dict[str, int], dlid: int) -> None:
    assert address(local, remote, **options).dlid == dlid


@pytest.mark.parametrize(
    ("field", "step", "near", "far", "agreed"),
    [
        ("path_mtu", "rtr", {"path_mtu": 4096}, {"path_mtu": 2048}, 2048),
        ("path_mtu", "rtr", {"path_mtu": 256}, {"path_mtu": 2048}, 256),
        ("path_mtu", "rtr", {}, {"path_mtu": 512}, 512),
        ("path_mtu", "rtr", {"path_mtu": 4096}, {}, 4096),
        ("max_rd_atomic", "rts", {"max_rd_atomic": 16}, {"max_dest_rd_atomic": 4}, 4),
        ("max_rd_atomic", "rts", {"max_rd_atomic": 2}, {"max_dest_rd_atomic": 4}, 2),
        ("max_rd_atomic", "rts", {"max_rd_atomic": 2}, {"max_dest_rd_atomic": 0}, 0),
        ("max_rd_atomic", "rts", {"max_dest_rd_atomic": 9}, {"max_rd_atomic": 9}, 1),  # the other direction's
        ("max_dest_rd_atomic", "rtr", {"max_dest_rd_atomic": 16}, {"max_rd_atomic": 8}, 8),
        ("max_dest_rd_atomic", "rtr", {"max_dest_rd_atomic": 4}, {"max_rd_atomic": 8}, 4),
        ("max_dest_rd_atomic", "rtr", {"max_rd_atomic": 9}, {"max_dest_rd_atomic": 9}, 1),
    ],
)
def test_both_ends_are_held_to_what_the_other_can(
    field: str, step: str, near: dict[str, int], far: dict[str, int], agreed: int
) -> None:
    steps = bring_up(ours(**near), theirs(**far))
    assert getattr(getattr(steps, step), field) == agreed


def test_options_go_to_the_fields_of_their_names() -> None:
    init, rtr, rts = bring_up(
        ours(port_num=2, pkey_index=7), theirs(), access=0xF, sl=5, static_rate=3, timeout=1, retry_cnt=2, rnr_retry=3,
        min_rnr_timer=4,
    )  # fmt: skip
    assert (init.port_num, init.pkey_index, init.qp_access_flags) == (2, 7, 0xF)
    assert rtr.ah_attr == AddressVector(port_num=2, dlid=0x2A, sl=5, static_rate=3)
    assert rtr.min_rnr_timer == 4
    assert (rts.timeout, rts.retry_cnt, rts.rnr_retry) == (1, 2, 3)


@pytest.mark.parametrize("name", ["gid_index", "pkey_index", "port_num"])
def test_what_only_its_owner_uses_is_not_taken_from_the_peer(name: str) -> None:
    base = bring_up(ours(), theirs(gid=FAR))
    assert bring_up(ours(), replace(theirs(gid=FAR), **{name: 99})) == base
    assert bring_up(replace(ours(), **{name: 99}), theirs(gid=FAR)) != base


def test_the_two_ends_meet() -> None:
    here, there = bring_up(ours(), theirs()), bring_up(theirs(), ours())
    for one, other, record in ((here, there, theirs()), (there, here, ours())):
        assert one.rtr.dest_qp_num == record.qp_num
        assert one.rtr.rq_psn == other.rts.sq_psn
        assert one.rtr.path_mtu == other.rtr.path_mtu
        assert one.rts.max_rd_atomic == other.rtr.max_dest_rd_atomic


def test_the_records_are_left_as_they_were() -> None:
    local, remote = ours(), theirs()
    before = [{f.name: getattr(end, f.name) for f in fields(end)} for end in (local, remote)]
    bring_up(local, remote)
    assert [{f.name: getattr(end, f.name) for f in fields(end)} for end in (local, remote)] == before
