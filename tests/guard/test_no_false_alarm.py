"""What kernel and driver take and carry out as given is never an error."""

from __future__ import annotations

from typing import Any

import pytest
from guard_requests import IB, LOCAL, lid, modify, post, route, rtr, rts, to_init, with_
from rule_triggers import MR, SGE, alt, create, handle, infiniband, judge, peer, region

#: What kernel and driver take and carry out: never an error.
FINE: list[dict[str, Any]] = [
    rtr(),
    rts(),
    to_init(),
    infiniband(),
    rtr(driver="rxe", path_mtu=512),
    rtr(driver="irdma"),
    rtr(driver="bnxt_re"),
    rtr(driver=None),
    rtr(ah_attr=route("2001:db8::7", 4)),
    rtr(ah_attr=route("fe80::7", 0)),
    rtr(ah_attr=route(hop_limit=0)),
    rtr(rq_psn=0, dest_qp_num=0xFFFFFF),
    rts(timeout=31, sq_psn=0xFFFFFF),
    rts(cur_qp_state="RTR"),
    rts(rate_limit=0, driver="bnxt_re"),
    modify("RAW_PACKET", "RTR", "RTS", rate_limit=1000),
    modify("RAW_PACKET", "RTR", "RTS", rate_limit=1000, driver=None),
    modify("RC", "SQD", "SQD", driver="mlx4", ah_attr=route()),
    modify("RC", "SQD", "RTS", driver="rxe"),
    modify("RC", "SQD", "ERR", driver="rxe"),
    modify("RC", "ERR", "ERR"),
    modify("RC", "ERR", "RESET", driver="irdma"),
    modify("UD", "SQE", "RTS", driver="mlx4", cur_qp_state="SQE"),
    modify("UC", "SQD", "SQD", driver="rxe", qp_state=..., ah_attr=route()),
    modify("RC", "RTR", "RTR", driver="rxe", qp_state=..., min_rnr_timer=3),
    modify("UD", "RTS", "RTS", driver="rxe", qp_state=..., ah_attr=route("2001:db8::7")),
    modify("RC", "RESET", "RESET", driver="rxe", qp_state=..., pkey_index=0),
    modify("DCI", "INIT", "RTR", ah_attr=route()),
    modify("DCT", "INIT", "RTR"),
    modify("SRD", "RTR", "RTS", driver="efa", rnr_retry=3),
    modify("XRC_SEND", "INIT", "RTR", max_dest_rd_atomic=255),
    modify("RC", "RESET", "INIT", driver="siw", pkey_index=7, qkey=1),
    modify("RC", "RESET", "ERR", driver="siw"),
    modify("UD", "RESET", "INIT", driver="mlx4", infiniband=True, pkey_index=127),
    infiniband(ah_attr=lid(0xC000), driver="hfi1"),
    infiniband(**alt(2)),
    with_(rtr(), units="abi", attr={"path_mtu": 3, "qp_state": 2}),
    with_(rtr(), units="abi", attr={"path_mtu": "MTU_1024", "qp_state": "RTR"}),
    with_(rts(), units="abi", mask=["STATE", "TIMEOUT", "RETRY_CNT", "RNR_RETRY", "SQ_PSN", "MAX_QP_RD_ATOMIC"],
          attr={"qp_state": 3, "path_mtu": 0, "dest_qp_num": 0, "min_rnr_timer": 99}),
    peer(rtr()),
    peer(rts()),
    peer(infiniband(), link_layer="INFINIBAND", lid=4, lmc=1),
    with_(modify("XRC_SEND", "INIT", "RTR"), peer={"qp_type": "XRC_RECV"}),
    post("recv", state="INIT"),
    post(state="SQD", driver="mlx4"),
    post(kind="UD", opcode="SEND_WITH_INV", driver="rxe"),
    post(inline=True, length=64, sge=[{"addr": 1, "length": 64, "lkey": 0}]),
    post(inline=True, length=64, opcode="RDMA_WRITE_WITH_IMM"),
    post(inline=True, length=64, opcode="SEND_WITH_INV"),
    with_(post(sge=SGE), mrs=[MR]),
    with_(post(opcode="BIND_MW", num_sge=0, sge=SGE, access=["REMOTE_WRITE"]),
          mrs=[MR | {"access": ["MW_BIND", "LOCAL_WRITE"]}]),
    with_(post(opcode="BIND_MW", num_sge=0, sge=SGE, access=["REMOTE_READ"]), mrs=[MR | {"access": ["MW_BIND"]}]),
    with_(post("recv"), qp={"outstanding": 16}),
    create(),
    region(["LOCAL_WRITE", "REMOTE_WRITE"]),
    region([], 1 << 40, memlock=None),
    region(["ON_DEMAND"], (1 << 64) - 1, memlock=65536, ipc_lock=False),
    handle(route("ff02::1", 4)),
    handle(lid(0xC001), IB),
]  # fmt: skip


@pytest.mark.parametrize("request_", FINE, ids=range(len(FINE)))
def test_no_false_alarm(request_: dict[str, Any]) -> None:
    report = judge(request_)
    assert [finding.one_line() for finding in report.errors] == []


def test_link_local_is_normal_on_infiniband_and_where_it_is_all_there_is() -> None:
    assert judge(infiniband(ah_attr=route("fe80::7", 0) | {"dlid": 5})).verdict == "pass"
    only = [{"index": 1, "gid": LOCAL, "type": "ROCE_V2", "netdev": "eth0"}]
    assert judge(with_(rtr(ah_attr=route("fe80::7", 1)), gids=only)).verdict == "pass"


def test_a_driver_under_its_modules_name_is_the_same_driver() -> None:
    assert judge(modify("RC", "RTS", "SQD", driver="mlx5_ib")).errors[0].rule == "transition-driver"
    assert judge(modify("UC", "RESET", "INIT", driver="ice")).errors[0].rule == "qp-type-unsupported"


def test_kernels_differ_where_the_mask_has_no_state() -> None:
    request = modify("RC", "RTR", "RTR", driver="rxe", qp_state=..., min_rnr_timer=3)
    assert judge(with_(request, kernel="6.1")).errors[0].rule == "transition-illegal"
    assert judge(with_(request, kernel="6.12")).verdict == "warn"
