"""A request for each rule and severity: what calls for it."""

from __future__ import annotations

from typing import Any

from guard_requests import IB, ROCE, V6, lid, modify, post, route, rtr, rts, to_init, with_

from rdmaqp.guard import check
from rdmaqp.guard.report import Report
from rdmaqp.model import codec

PEER = {
    "qp_type": "RC", "qp_num": 18, "psn": 7, "link_layer": "ETHERNET", "lid": 0, "gid": "::ffff:192.0.2.7",
    "gid_type": "ROCE_V2", "path_mtu": 1024, "max_rd_atomic": 1, "max_dest_rd_atomic": 1, "pkey": "0xffff",
    "sees_qp_num": 17, "sees_psn": 8, "port_state": "ACTIVE",
}  # fmt: skip
MR = {"addr": "0x1000", "length": 4096, "lkey": 7, "rkey": 8, "access": ["LOCAL_WRITE"], "pd": 1}
SGE = [{"addr": "0x1000", "length": 64, "lkey": 7}]
WIDE = {"max_qp_rd_atom": 128}
CAPS = {"max_send_wr": 16, "max_recv_wr": 16, "max_send_sge": 1, "max_recv_sge": 1, "max_inline_data": 0}


def judge(request: dict[str, Any]) -> Report:
    """The guard's answer to a request in JSON."""
    return check(codec.decode(request))


def infiniband(**attr: Any) -> dict[str, Any]:
    return modify("RC", "INIT", "RTR", infiniband=True, **attr)


def create(kind: str = "RC", *, device: dict[str, Any] | None = None, **caps: Any) -> dict[str, Any]:
    return with_({"device": rtr()["device"], "qp": {"type": kind}, "create": CAPS | caps}, device=device or {})


def region(access: list[str], length: int = 4096, **process: Any) -> dict[str, Any]:
    return {"device": rtr()["device"], "qp": {}, "reg_mr": {"access": access, "length": length}, "process": process}


def handle(address: dict[str, Any], port: dict[str, Any] = ROCE) -> dict[str, Any]:
    base = rtr()
    return {"device": base["device"], "port": port, "gids": base["gids"], "qp": {"type": "UD"}, "ah": address}


def peer(request: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return with_(request, peer=PEER | changes)


def alt(port: int) -> dict[str, Any]:
    return {"alt_ah_attr": lid(9, port_num=port), "alt_port_num": port, "alt_timeout": 14, "alt_pkey_index": 0}


#: rule, severity, a request that it is for
TRIGGERS: list[tuple[str, str, dict[str, Any]]] = [
    ("transition-illegal", "error", modify("RC", "ERR", "RTS")),
    ("transition-illegal", "error", modify("UD", "RTS", "SQE", driver="mlx4")),
    ("transition-illegal", "error", modify("RC", "RTR", "RTR", qp_state=..., min_rnr_timer=12)),
    ("transition-driver", "error", modify("RC", "RTS", "SQD")),
    ("transition-driver", "error", modify("DCT", "INIT", "ERR")),
    ("transition-driver", "error", modify("RC", "RESET", "RESET", driver="irdma")),
    ("transition-driver", "error", modify("RAW_PACKET", "SQE", "RTS")),
    ("transition-driver", "error", with_(modify("RC", "SQD", "RTS", driver="rxe"), qp={"sq_draining": 1})),
    ("transition-driver", "warning", modify("RC", "RTS", "SQD", driver="newhca")),
    ("transition-driver", "note", modify("RC", "RTS", "SQD", driver="irdma")),
    ("driver-unknown", "note", rtr(driver="newhca")),
    ("transition-needs-cm", "error", with_(rts(driver="siw"), device={"transport": "IWARP"})),
    ("transition-needs-cm", "error", with_(rtr(driver="erdma"), device={"transport": "IWARP"})),
    ("transition-pointless", "warning", modify("RC", "RESET", "RESET")),
    ("cur-state-mismatch", "error", rts(driver="rxe", cur_qp_state="RTS")),
    ("qp-type-unsupported", "error", modify("RC", "RESET", "INIT", driver="efa")),
    ("qp-type-unsupported", "error", modify("XRC_SEND", "RESET", "INIT", driver="rxe")),
    ("qp-type-unsupported", "error", modify("SRD", "RESET", "INIT", driver="mlx5")),
    ("qp-type-unsupported", "error", create("UC", device={"driver": "irdma"})),
    ("qp-type-unsupported", "error", modify("RAW_PACKET", "RESET", "INIT", driver="mlx4", infiniband=True)),
    ("mask-missing", "error", rts(timeout=...)),
    ("mask-missing", "error", modify("DCI", "RTS", "RTS", qp_state=..., min_rnr_timer=12)),
    ("mask-missing", "error", modify("UD", "RTR", "RTS", driver="usnic", qp_state=...)),
    ("mask-excess", "error", rtr(timeout=14)),
    ("mask-excess", "error", modify("UC", "SQD", "SQD", driver="mlx4", ah_attr=route())),
    ("mask-excess", "error", rts(driver="hns", path_mig_state="MIGRATED")),
    ("mask-excess", "error", modify("UD", "RTS", "RTS", driver="rxe", qp_state=..., qp_access_flags=["LOCAL_WRITE"])),
    ("mask-unknown", "error", with_(rts(), mask=["STATE", "0x4000000"])),
    ("mask-unknown", "error", rts(cap={"max_send_wr": 64})),
    ("mask-without-value", "error", with_(modify("RC", "RTS", "RTS"), mask=["STATE", "MIN_RNR_TIMER"])),
    ("mask-without-value", "error", infiniband(alt_ah_attr=lid())),
    ("value-without-mask", "warning", with_(modify("RC", "RTS", "RTS", min_rnr_timer=12), mask=["STATE"])),
    ("mask-ignored", "warning", modify("XRC_RECV", "RTR", "RTS", retry_cnt=7)),
    ("value-range", "error", rts(timeout=32)),
    ("value-range", "error", rtr(ah_attr=route(flow_label=1 << 20))),
    ("value-enum", "error", rtr(path_mtu=1500)),
    ("value-enum", "error", with_(rtr(path_mtu=1024), units="abi")),
    ("value-enum", "error", to_init(qp_access_flags=["LOCAL_WRIT"])),
    ("value-enum", "error", to_init(qp_access_flags=1 << 10)),
    ("value-type", "error", rts(timeout="14")),
    ("value-type", "error", rtr(ah_attr=[1])),
    ("value-type", "error", rtr(ah_attr=route(dgid="nowhere"))),
    ("value-driver", "error", rtr(ah_attr=route() | {"sl": 8})),
    ("value-driver", "error", rtr(ah_attr=route() | {"static_rate": "1200_GBPS"})),
    ("value-driver", "error", rtr(driver="ocrdma", path_mtu=256)),
    ("value-driver", "error", infiniband(driver="mthca", path_mtu=4096)),
    ("value-driver", "error", with_(to_init(driver="rxe", qp_access_flags=["ZERO_BASED"]), kernel="6.12")),
    ("value-driver", "note", rts(driver="hns", timeout=21)),
    ("value-rounded", "note", rtr(max_dest_rd_atomic=3)),
    ("port-range", "error", to_init(port_num=3)),
    ("port-range", "error", rtr(ah_attr=route() | {"port_num": 0})),
    ("port-range", "error", modify("UD", "RESET", "INIT", driver="efa", port_num=2)),
    ("port-mismatch", "error", rtr(ah_attr=route() | {"port_num": 2})),
    ("port-mismatch", "error", modify("RC", "SQD", "SQD", driver="mlx4", port_num=2, ah_attr=route())),
    ("port-mismatch", "error", infiniband(**(alt(2) | {"alt_port_num": 1}))),
    ("port-inactive", "warning", with_(to_init(), port={"state": "DOWN"})),
    ("pkey-range", "error", to_init(pkey_index=1)),
    ("pkey-range", "error", modify("RC", "RESET", "INIT", infiniband=True, pkey_index=128)),
    ("pkey-range", "warning", to_init(driver="rxe", pkey_index=1)),
    ("pkey-limited", "warning", with_(to_init(), pkeys={"0": "0x7fff"})),
    ("grh-missing", "error", rtr(ah_attr=lid())),
    ("grh-missing", "error", with_(infiniband(), port={"grh_required": True})),
    ("sgid-range", "error", with_(rtr(), port={"gid_tbl_len": 3})),
    ("sgid-empty", "error", rtr(ah_attr=route(sgid_index=5))),
    ("sgid-driver", "error", rtr(driver="rxe", ah_attr=route(sgid_index=2))),
    ("sgid-link-local", "warning", rtr(ah_attr=route("fe80::7", 1))),
    ("sgid-roce-v1", "warning", rtr(ah_attr=route(sgid_index=2))),
    ("sgid-netdev", "error", with_(rtr(), gids=[{"index": 3, "gid": "192.0.2.6", "type": "ROCE_V2", "netdev": None}])),
    ("sgid-moved", "error", with_(rtr(), qp={"sgid": V6})),
    ("dgid-invalid", "error", rtr(ah_attr=route("ff02::1", 4))),
    ("dgid-invalid", "error", rtr(ah_attr=route("::ffff:255.255.255.255"))),
    ("dgid-invalid", "error", handle(route("::"))),
    ("gid-family-mismatch", "error", rtr(ah_attr=route("2001:db8::7"))),
    ("dlid-invalid", "error", infiniband(ah_attr=lid(0xC000))),
    ("dlid-invalid", "warning", infiniband(ah_attr=route("fe80::7", 0))),
    ("dlid-invalid", "error", handle(lid(0), IB)),
    ("grh-ignored", "warning", infiniband(ah_attr=route("fe80::7", 0) | {"is_global": 0, "dlid": 5})),
    ("src-path-bits", "warning", infiniband(ah_attr=lid(src_path_bits=1))),
    ("hop-limit-low", "warning", infiniband(ah_attr=route("2001:db8::7", 0, hop_limit=1) | {"dlid": 5})),
    ("hop-limit-low", "warning", handle(route("2001:db8:1::7", 4, hop_limit=0))),
    ("mtu-over-active", "error", rtr(driver="rxe", path_mtu=2048)),
    ("rd-atomic-over-device", "error", rtr(max_dest_rd_atomic=17)),
    ("rd-atomic-over-device", "error", rts(max_rd_atomic=17)),
    ("rd-atomic-over-device", "error", with_(rtr(driver="rxe", max_dest_rd_atomic=129), device=WIDE)),
    ("rd-atomic-over-device", "warning", rts(driver="erdma", max_rd_atomic=17)),
    ("rd-atomic-budget", "warning", with_(rtr(), device={"max_res_rd_atom": 8, "res_rd_atom_in_use": 8})),
    ("rd-atomic-raised", "warning", with_(rtr(driver="rxe", max_dest_rd_atomic=4), qp={"max_dest_rd_atomic": 2})),
    ("rd-atomic-raised", "warning", modify("RC", "SQD", "SQD", driver="rxe", max_dest_rd_atomic=4)),
    ("rd-atomic-disables", "warning", with_(rtr(max_dest_rd_atomic=0), qp={"access_flags": ["REMOTE_READ"]})),
    ("atomic-unsupported", "warning", with_(to_init(qp_access_flags=["REMOTE_ATOMIC"]), device={"atomic_cap": "NONE"})),
    ("timeout-infinite", "warning", rts(timeout=0)),
    ("dead-peer-time", "note", rts(timeout=22)),
    ("rnr-timer-longest", "warning", rtr(min_rnr_timer=0)),
    ("retry-none", "warning", rts(retry_cnt=0)),
    ("retry-none", "warning", rts(rnr_retry=0)),
    ("qpn-reserved", "error", rtr(dest_qp_num=1)),
    ("alt-path-roce", "error", rtr(**alt(1))),
    ("alt-path-roce", "error", with_(infiniband(**alt(2)), ports=[ROCE | {"num": 2}])),
    ("rate-limit-unsupported", "error", rts(rate_limit=5)),
    ("rate-limit-unsupported", "error", rts(driver="rxe", rate_limit=5)),
    ("rate-limit-unsupported", "error", with_(rts(driver="bnxt_re", rate_limit=5), kernel="6.12")),
    ("rate-limit-unsupported", "error", with_(rts(driver=None, rate_limit=5), kernel="6.12")),
    ("qkey-privileged", "warning", modify("UD", "RESET", "INIT", qkey=0x80000000)),
    ("qkey-privileged", "error", with_(modify("UD", "RESET", "INIT", qkey=1 << 31), process={"privileged": False})),
    ("recv-queue-empty", "warning", with_(rtr(), qp={"recv_posted": 0})),
    ("reset-loses-completions", "warning", with_(modify("RC", "RTS", "RESET"), qp={"outstanding": 1})),
    ("driver-unchecked", "warning", modify("RC", "RTS", "RTS", driver="rxe", qp_state=..., timeout=14)),
    ("driver-unchecked", "warning", modify("RC", "RTR", "RTR", driver="bnxt_re", qp_state=..., min_rnr_timer=14)),
    ("peer-gid", "error", peer(rtr(), gid="::ffff:192.0.2.8")),
    ("peer-lid", "error", peer(infiniband(), link_layer="INFINIBAND", lid=9, path_mtu=1024)),
    ("peer-qp-type", "error", peer(rtr(), qp_type="UC")),
    ("peer-link-layer", "error", peer(rtr(), link_layer="INFINIBAND")),
    ("peer-gid-type", "error", peer(rtr(), gid_type="ROCE_V1")),
    ("peer-gid-family", "error", peer(rtr(), gid="2001:db8::7")),
    ("peer-mtu", "error", peer(rtr(), path_mtu=512)),
    ("peer-mtu", "error", peer(rtr(path_mtu=512))),
    ("peer-psn", "error", peer(rtr(), psn=8)),
    ("peer-psn", "error", peer(rts(), sees_psn=9)),
    ("peer-qpn", "error", peer(rtr(), qp_num=19)),
    ("peer-pkey", "error", peer(rtr(), pkey="0x8001")),
    ("peer-pkey", "error", with_(peer(rtr(), pkey="0x7fff"), pkeys={"0": "0x7fff"})),
    ("peer-qkey", "error", with_(modify("UD", "INIT", "RTR", qkey=5), peer={"qp_type": "UD", "qkey": 6})),
    ("peer-rd-atomic", "error", peer(rts(max_rd_atomic=2))),
    ("peer-rd-atomic", "error", peer(rtr(), max_rd_atomic=2)),
    ("peer-port-inactive", "warning", peer(rtr(), port_state="DOWN")),
    ("peer-stale", "error", peer(rtr(), sees_qp_num=16)),
    ("post-srq", "error", with_(post("recv"), qp={"srq": True})),
    ("post-srq", "error", post("recv", kind="XRC_SEND")),
    ("post-state", "error", post(state="RTR")),
    ("post-state", "error", post("recv", state="RESET")),
    ("post-state", "error", post(kind="UD", state="ERR", driver="efa")),
    ("post-flushes", "warning", post(state="ERR")),
    ("post-flushes", "warning", post(kind="UD", state="SQE")),
    ("post-pd", "error", with_(post(sge=SGE), mrs=[MR | {"pd": 2}], qp={"pd": 1})),
    ("post-opcode", "error", post(kind="UC", opcode="RDMA_READ")),
    ("post-opcode", "error", post(kind="UC", opcode="LOCAL_INV", driver="rxe")),
    ("post-opcode", "error", post(kind="XRC_RECV")),
    ("post-opcode", "error", post(opcode="SENT")),
    ("post-opcode", "error", post(opcode=99)),
    ("post-sge", "error", post(num_sge=3)),
    ("post-sge", "error", post(opcode="ATOMIC_FETCH_AND_ADD", length=4)),
    ("post-sge", "error", with_(post(sge=[{"addr": "0x1fff", "length": 2, "lkey": 7}]), mrs=[MR])),
    ("post-inline", "error", post(inline=True, length=65)),
    ("post-inline", "error", post(inline=True, length=8, opcode="RDMA_READ")),
    ("post-inline", "error", post(inline=True, length=8, opcode="ATOMIC_FETCH_AND_ADD")),
    ("post-inline", "error", post(inline=True, length=0, num_sge=0, opcode="LOCAL_INV")),
    ("post-full", "error", with_(post(), qp={"outstanding": 16})),
    ("post-full", "error", with_(post("recv"), qp={"recv_posted": 16})),
    ("post-full", "error", with_(post("srq"), qp={"recv_posted": 16})),
    ("post-stuck", "warning", with_(post(signaled=False), qp={"outstanding": 15, "signaled": False})),
    ("post-mtu", "error", with_(post(kind="UD", length=1025), port={"active_mtu": 1024})),
    ("post-grh", "warning", post("recv", kind="UD", length=39)),
    ("post-key", "warning", with_(post(sge=[SGE[0] | {"lkey": 8}]), mrs=[MR])),
    ("post-access", "error", with_(post("recv", sge=SGE), mrs=[MR | {"access": []}])),
    ("post-access", "error", with_(post(opcode="BIND_MW", num_sge=0, sge=SGE), mrs=[MR])),
    ("post-access", "error", with_(post(opcode="BIND_MW", sge=SGE, access=["REMOTE_ATOMIC"]),
                                   mrs=[MR | {"access": ["MW_BIND", "REMOTE_READ"]}])),
    ("post-sge", "error", with_(post(opcode="BIND_MW", length=0, sge=[SGE[0] | {"length": 0}]),
                                mrs=[MR | {"access": ["MW_BIND"]}])),
    ("post-access", "warning", with_(post(driver="cxgb4", opcode="RDMA_READ", sge=SGE), mrs=[MR])),
    ("create-over-limit", "error", create(max_send_wr=2000)),
    ("create-over-limit", "error", create(max_recv_sge=31)),
    ("qp-limit", "warning", create(device={"qp_in_use": 1000})),
    ("access-needs-local-write", "error", region(["REMOTE_WRITE"])),
    ("access-needs-local-write", "error", region(["REMOTE_ATOMIC", "REMOTE_READ"])),
    ("memlock-limit", "warning", region([], 65537, memlock=65536, ipc_lock=False)),
]  # fmt: skip
