"""What ``QueuePair.connect`` hands to ``ibv_modify_qp``, byte by byte, on every link layer.

The expected bytes are written down here by offset, so that neither cffi nor rdmaqp's own structures have a say in them.
"""

from __future__ import annotations

import struct
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

import pytest
from null_side import QPState, rdmaqp, side

if TYPE_CHECKING:
    from conftest import Null

# struct ibv_qp_attr on 64-bit machines, measured with offsetof against rdma-core 44 (65 has the same): offset, format.
ATTR = {
    "qp_state": (0, "I"), "cur_qp_state": (4, "I"), "path_mtu": (8, "I"), "path_mig_state": (12, "I"),
    "qkey": (16, "I"), "rq_psn": (20, "I"), "sq_psn": (24, "I"), "dest_qp_num": (28, "I"),
    "qp_access_flags": (32, "I"), "pkey_index": (120, "H"), "alt_pkey_index": (122, "H"),
    "en_sqd_async_notify": (124, "B"), "sq_draining": (125, "B"), "max_rd_atomic": (126, "B"),
    "max_dest_rd_atomic": (127, "B"), "min_rnr_timer": (128, "B"), "port_num": (129, "B"), "timeout": (130, "B"),
    "retry_cnt": (131, "B"), "rnr_retry": (132, "B"), "alt_port_num": (133, "B"), "alt_timeout": (134, "B"),
    "rate_limit": (136, "I"),
}  # fmt: skip
AH_ATTR, SIZE = 56, 144
# struct ibv_ah_attr, from its own start.
ADDRESS = {
    "dgid": (0, "16s"), "flow_label": (16, "I"), "sgid_index": (20, "B"), "hop_limit": (21, "B"),
    "traffic_class": (22, "B"), "dlid": (24, "H"), "sl": (26, "B"), "src_path_bits": (27, "B"),
    "static_rate": (28, "B"), "is_global": (29, "B"), "port_num": (30, "B"),
}  # fmt: skip

# enum ibv_qp_attr_mask, as its header writes it.
(STATE, ACCESS, PKEY, PORT, AV, MTU, TIMEOUT, RETRY, RNR, RQ_PSN, RD, MIN_RNR, SQ_PSN, DEST_RD, DEST) = (
    1 << bit for bit in (0, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 20)
)
TO_INIT = STATE | PKEY | PORT | ACCESS
TO_RTR = STATE | AV | MTU | DEST | RQ_PSN | DEST_RD | MIN_RNR
TO_RTS = STATE | TIMEOUT | RETRY | RNR | SQ_PSN | RD


def attr(address: dict[str, Any] | None = None, **values: int) -> str:
    """The bytes of a ``struct ibv_qp_attr`` that is zero but for these, in hexadecimal."""
    raw = bytearray(SIZE)
    for name, value in values.items():
        offset, form = ATTR[name]
        struct.pack_into("=" + form, raw, offset, value)
    for name, value in (address or {}).items():
        offset, form = ADDRESS[name]
        struct.pack_into("=" + form, raw, AH_ATTR + offset, value)
    return raw.hex()


def gid(text: str) -> bytes:
    return IPv6Address(text).packed


def connect(here: dict[str, Any], there: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """Connect a queue pair to a peer that exists as a record alone. *here* and *there* are fields of the records."""
    one = side()
    port_num = here.pop("port_num", 1)
    local = one.qp.endpoint(port_num, psn=0x0A0B0C, **here)
    record = {"qp_num": 0x123456, "psn": 0x654321, "link_layer": local.link_layer, "path_mtu": 4096} | there
    if "gid" in record:
        record["gid"] = rdmaqp.GID.parse(record["gid"])
    if "gid_type" in record:
        record["gid_type"] = rdmaqp.GidType[record["gid_type"]]
    one.qp.connect(local, rdmaqp.Endpoint(**record), **options)
    assert one.qp.state is QPState.RTS
    return [f"{step.start.name} → {step.goal.name}: {', '.join(step.mask)}" for step in one.qp.transitions]


IB = {"qp_num": 0x123456, "psn": 0x654321, "lid": 0x2A, "gid": "fe80::200:0:0:2"}
V4 = {"gid": "::ffff:192.0.2.9", "gid_type": "ROCE_V2"}
ROCE = {"LINK": "ethernet", "GIDS": "0=fe80::1/ROCE_V1@lo,1=fe80::1/ROCE_V2@lo,3=::ffff:192.0.2.1/ROCE_V2@lo"}
OTHER_SUBNET = {"gid": "fec0::200:0:0:2"}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # name: settings, here, there, options, the address vector
    "InfiniBand, LID alone": ({}, {}, IB, {}, {"dlid": 0x2A, "port_num": 1}),
    "InfiniBand, no GID known": ({}, {}, {"lid": 0xBFFF}, {}, {"dlid": 0xBFFF, "port_num": 1}),
    "InfiniBand, service level": ({}, {}, IB, {"sl": 15}, {"dlid": 0x2A, "sl": 15, "port_num": 1}),
    "InfiniBand, rate": ({}, {}, IB, {"static_rate": 7}, {"dlid": 0x2A, "static_rate": 7, "port_num": 1}),
    "InfiniBand, another subnet": (
        {}, {}, IB | OTHER_SUBNET, {"dlid": 0x77, "flow_label": 0xFFFFF, "traffic_class": 0xFF, "hop_limit": 3},
        {"dgid": gid("fec0::200:0:0:2"), "flow_label": 0xFFFFF, "hop_limit": 3, "traffic_class": 0xFF, "dlid": 0x77,
         "is_global": 1, "port_num": 1},
    ),
    "InfiniBand, another subnet, second GID": (
        {"GIDS": "0=fe80::200:0:0:1/IB,5=fec0:1::1/IB"}, {"gid_index": 5}, IB, {},
        {"dgid": gid("fe80::200:0:0:2"), "sgid_index": 5, "hop_limit": 64, "dlid": 0x2A, "is_global": 1, "port_num": 1},
    ),
    "InfiniBand, route required": (
        {"GRH_REQUIRED": 1}, {}, IB, {},
        {"dgid": gid("fe80::200:0:0:2"), "hop_limit": 64, "dlid": 0x2A, "is_global": 1, "port_num": 1},
    ),
    "InfiniBand, second port": ({"PORTS": 2}, {"port_num": 2}, IB, {}, {"dlid": 0x2A, "port_num": 2}),
    "RoCE v2, IPv4": (
        ROCE, {}, V4, {"traffic_class": 106, "sl": 3},
        {"dgid": gid("::ffff:192.0.2.9"), "sgid_index": 3, "hop_limit": 64, "traffic_class": 106, "is_global": 1,
         "sl": 3, "port_num": 1},
    ),
    "RoCE v2, IPv6": (
        {"LINK": "ethernet", "GIDS": "7=2001:db8::1/ROCE_V2@lo"}, {}, {"gid": "2001:db8::2", "gid_type": "ROCE_V2"}, {},
        {"dgid": gid("2001:db8::2"), "sgid_index": 7, "hop_limit": 64, "is_global": 1, "port_num": 1},
    ),
    "RoCE v1": (
        {"LINK": "ethernet", "GIDS": "0=::ffff:192.0.2.1/ROCE_V1@lo"}, {},
        {"gid": "::ffff:192.0.2.9", "gid_type": "ROCE_V1"}, {},
        {"dgid": gid("::ffff:192.0.2.9"), "hop_limit": 64, "is_global": 1, "port_num": 1},
    ),
    "RoCE, where both ports say a LID": (
        ROCE | {"LID": 5}, {}, V4 | {"lid": 6}, {},
        {"dgid": gid("::ffff:192.0.2.9"), "sgid_index": 3, "hop_limit": 64, "is_global": 1, "port_num": 1},
    ),
    "RoCE on the second port of two": (
        {"PORTS": 2, "LINK": "infiniband,ethernet",
         "GIDS": "0=fe80::200:0:0:1/IB;4=::ffff:192.0.2.1/ROCE_V2@lo"},
        {"port_num": 2}, V4, {},
        {"dgid": gid("::ffff:192.0.2.9"), "sgid_index": 4, "hop_limit": 64, "is_global": 1, "port_num": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_address_vector(null: Null, name: str) -> None:
    settings, here, there, options, address = CASES[name]
    steps = null.run(connect, here, there, options, **settings)
    init, rtr, rts = null.calls("ibv_modify_qp")
    port_num = address["port_num"]
    mtu = 3 if "ethernet" in str(settings.get("LINK")) else 5  # the null device's active MTU is 1024 there, else 4096
    assert (init["mask"], init["attr"]) == (TO_INIT, attr(qp_state=1, port_num=port_num, qp_access_flags=1))
    assert (rtr["mask"], rtr["attr"]) == (TO_RTR, attr(
        address, qp_state=2, path_mtu=mtu, rq_psn=0x654321, dest_qp_num=0x123456, max_dest_rd_atomic=1,
        min_rnr_timer=12,
    ))  # fmt: skip
    assert (rts["mask"], rts["attr"]) == (
        TO_RTS, attr(qp_state=3, sq_psn=0x0A0B0C, timeout=14, retry_cnt=6, rnr_retry=7, max_rd_atomic=1)
    )
    assert [step.split(":")[0] for step in steps] == ["RESET → INIT", "INIT → RTR", "RTR → RTS"]


def test_every_number_arrives_at_its_largest(null: Null) -> None:
    settings = {"MAX_QP_RD_ATOM": 255, "MAX_QP_INIT_RD_ATOM": 255, "PKEYS": "ffff,0,0,8001"}
    here = {"max_rd_atomic": 255, "max_dest_rd_atomic": 255, "pkey_index": 3}
    there = IB | {"qp_num": 0xFFFFFF, "psn": 0xFFFFFF, "path_mtu": 256}
    options = {"access": 0xF, "timeout": 31, "retry_cnt": 1, "rnr_retry": 2, "min_rnr_timer": 31}
    null.run(connect, here, there, options, **settings)
    init, rtr, rts = (call["attr"] for call in null.calls("ibv_modify_qp"))
    assert init == attr(qp_state=1, pkey_index=3, port_num=1, qp_access_flags=0xF)
    assert rtr == attr(
        {"dlid": 0x2A, "port_num": 1}, qp_state=2, path_mtu=1, rq_psn=0xFFFFFF, dest_qp_num=0xFFFFFF,
        max_dest_rd_atomic=255, min_rnr_timer=31,
    )  # fmt: skip
    assert rts == attr(
        qp_state=3, sq_psn=0x0A0B0C, timeout=31, retry_cnt=1, rnr_retry=2, max_rd_atomic=255
    )


def record_with_pkey_index(index: int) -> list[Any]:
    end = side().qp.endpoint(psn=1, pkey_index=index)
    return [end.pkey, end.pkey_index]


@pytest.mark.parametrize(("index", "key"), [(0, 0xFFFF), (1, 0x8001), (2, None), (9, None)])
def test_the_record_names_the_key_at_the_index_given(null: Null, index: int, key: int | None) -> None:
    assert null.run(record_with_pkey_index, index, PKEYS="ffff,8001,0") == [key, index]


def resume(states: list[str]) -> list[str]:
    one = side()
    here = one.qp.endpoint(psn=1)
    steps = dict(zip(("INIT", "RTR", "RTS"), rdmaqp.bring_up(here, here), strict=True))
    for state in states:
        one.qp.modify(steps[state])
    one.qp.connect(here, here)
    return [step.goal.name for step in one.qp.transitions]


@pytest.mark.parametrize("states", [[], ["INIT"], ["INIT", "RTR"]], ids=["RESET", "INIT", "RTR"])
def test_connect_goes_on_from_where_the_queue_pair_is(null: Null, states: list[str]) -> None:
    assert null.run(resume, states) == ["INIT", "RTR", "RTS"]


def every_field() -> None:
    """A call with all that ibv_qp_attr can carry; the guard is not asked."""
    one = side()
    address = rdmaqp.AddressVector(
        2, 0xFFFF, 15, 0x7F, 24, rdmaqp.GlobalRoute(b"0123456789abcdef", 255, 0xFFFFF, 255, 255)
    )
    other = rdmaqp.AddressVector(1, 3, 1, 2, 0, None)
    values = rdmaqp.QPAttr(
        qp_state=6, cur_qp_state="SQD", path_mtu=2048, path_mig_state="ARMED", qkey=0xFFFFFFFF, rq_psn=1, sq_psn=2,
        dest_qp_num=3, qp_access_flags=4, ah_attr=address, alt_ah_attr=other, pkey_index=0xFFFF, alt_pkey_index=6,
        en_sqd_async_notify=1, max_rd_atomic=8, max_dest_rd_atomic=9, min_rnr_timer=10, port_num=11, timeout=12,
        retry_cnt=5, rnr_retry=6, alt_port_num=13, alt_timeout=14, rate_limit=0xFFFFFFFE,
    )  # fmt: skip
    one.qp._apply(values, values.mask, QPState.RESET)
    back = one.qp.query(values.mask)
    for name, value in values.given():
        if name not in ("ah_attr", "alt_ah_attr", "path_mig_state", "path_mtu", "cur_qp_state"):
            assert getattr(back, name) == value, (name, getattr(back, name), value)
    assert (back.path_mtu, back.path_mig_state, back.cur_qp_state) == (4, 2, 6)  # the stub's own cur_qp_state
    assert bytes(back.ah_attr.grh.dgid) == b"0123456789abcdef"
    assert (back.ah_attr.grh.sgid_index, back.ah_attr.grh.flow_label) == (255, 0xFFFFF)
    assert (back.alt_ah_attr.dlid, back.alt_ah_attr.grh, back.alt_ah_attr.sl) == (3, None, 1)


def test_every_field_goes_to_its_place_and_comes_back(null: Null) -> None:
    null.run(every_field)
    (call,) = null.calls("ibv_modify_qp")
    assert call["mask"] == 0x21FFFFF & ~(1 << 19)  # all but CAP
    address = {
        "dgid": b"0123456789abcdef", "flow_label": 0xFFFFF, "sgid_index": 255, "hop_limit": 255, "traffic_class": 255,
        "dlid": 0xFFFF, "sl": 15, "src_path_bits": 0x7F, "static_rate": 24, "is_global": 1, "port_num": 2,
    }  # fmt: skip
    whole = bytearray.fromhex(attr(
        address, qp_state=6, cur_qp_state=4, path_mtu=4, path_mig_state=2, qkey=0xFFFFFFFF, rq_psn=1, sq_psn=2,
        dest_qp_num=3, qp_access_flags=4, pkey_index=0xFFFF, alt_pkey_index=6, en_sqd_async_notify=1, max_rd_atomic=8,
        max_dest_rd_atomic=9, min_rnr_timer=10, port_num=11, timeout=12, retry_cnt=5, rnr_retry=6, alt_port_num=13,
        alt_timeout=14, rate_limit=0xFFFFFFFE,
    ))  # fmt: skip
    other = {"dlid": 3, "sl": 1, "src_path_bits": 2, "port_num": 1}
    whole[88:120] = bytes.fromhex(attr(other))[AH_ATTR : AH_ATTR + 32]
    assert call["attr"] == whole.hex()
