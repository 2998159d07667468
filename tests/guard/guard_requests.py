"""Requests that pass, in the JSON of the check contract, to be spoilt one thing at a time."""

from __future__ import annotations

import copy
from typing import Any

from rdmaqp.model.attributes import FIELD_OF_BIT
from rdmaqp.model.enums import DriverType, QPState, QPType
from rdmaqp.model.table import table_of

V4, V6, LOCAL = "::ffff:192.0.2.6", "2001:db8::6", "fe80::6"
ROCE_GIDS = [
    {"index": 0, "gid": LOCAL, "type": "ROCE_V1", "netdev": "eth0"},
    {"index": 1, "gid": LOCAL, "type": "ROCE_V2", "netdev": "eth0"},
    {"index": 2, "gid": V4, "type": "ROCE_V1", "netdev": "eth0"},
    {"index": 3, "gid": V4, "type": "ROCE_V2", "netdev": "eth0"},
    {"index": 4, "gid": V6, "type": "ROCE_V2", "netdev": "eth0"},
    {"index": 5, "gid": "::"},
]
ROCE = {
    "num": 1, "state": "ACTIVE", "link_layer": "ETHERNET", "active_mtu": 1024, "max_mtu": 4096, "lid": 0,
    "gid_tbl_len": 256, "pkey_tbl_len": 1, "grh_required": False,
}  # fmt: skip
IB = ROCE | {"link_layer": "INFINIBAND", "active_mtu": 4096, "lid": 4, "lmc": 0, "pkey_tbl_len": 128, "gid_tbl_len": 8}
DEVICE = {
    "name": "dev0", "driver": "mlx5", "transport": "IB", "phys_port_cnt": 2, "max_qp": 1000, "max_qp_wr": 1024,
    "max_sge": 30, "max_qp_rd_atom": 16, "max_qp_init_rd_atom": 16, "max_res_rd_atom": 4096, "atomic_cap": "HCA",
}  # fmt: skip

VALUES: dict[str, Any] = {
    "path_mtu": 1024, "path_mig_state": "MIGRATED", "qkey": 0x1111, "rq_psn": 7, "sq_psn": 8, "dest_qp_num": 18,
    "qp_access_flags": ["LOCAL_WRITE"], "pkey_index": 0, "en_sqd_async_notify": 1, "max_rd_atomic": 1,
    "max_dest_rd_atomic": 1, "min_rnr_timer": 12, "port_num": 1, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7,
    "rate_limit": 1000,
}  # fmt: skip


def route(dgid: str = "::ffff:192.0.2.7", sgid_index: int = 3, **more: Any) -> dict[str, Any]:
    grh = {"dgid": dgid, "sgid_index": sgid_index, "flow_label": 0, "hop_limit": 64, "traffic_class": 0} | more
    return {"is_global": 1, "dlid": 0, "sl": 0, "src_path_bits": 0, "static_rate": 0, "port_num": 1, "grh": grh}


def lid(dlid: int = 5, **more: Any) -> dict[str, Any]:
    return {"is_global": 0, "dlid": dlid, "sl": 0, "src_path_bits": 0, "static_rate": 0, "port_num": 1} | more


def value_of(name: str, *, infiniband: bool = False) -> Any:
    if name in ("ah_attr", "alt_ah_attr"):
        return lid() if infiniband else route()
    return copy.deepcopy(VALUES[name])


def modify(
    kind: str, start: str, goal: str, *, driver: str | None = "mlx5", infiniband: bool = False, **attr: Any
) -> dict[str, Any]:
    """A modify call with everything that the arrow requires; *attr* adds or replaces, ``...`` leaves out."""
    own = DriverType[kind] if kind in DriverType.__members__ else None
    qp_type = QPType.DRIVER if own is not None else QPType[kind]
    rule = table_of(qp_type, own).get((QPState[start], QPState[goal]))
    values: dict[str, Any] = {}
    for place in range(26):
        if rule is not None and rule.required >> place & 1 and place:
            name = FIELD_OF_BIT[1 << place].name
            values[name] = value_of(name, infiniband=infiniband)
    values = {"qp_state": goal} | values | attr
    qp = {"type": qp_type.name, "state": start, "qp_num": 17, "recv_posted": 4, "outstanding": 0, "srq": False}
    if own is not None:
        qp["driver_type"] = own.name
    if start != "RESET":
        qp["port_num"] = 1
        qp["pkey_index"] = 0
    return {
        "device": DEVICE | {"driver": driver} if driver else {k: v for k, v in DEVICE.items() if k != "driver"},
        "port": dict(IB if infiniband else ROCE),
        "gids": [{"index": 0, "gid": "fe80::a", "type": "IB"}] if infiniband else copy.deepcopy(ROCE_GIDS),
        "pkeys": {"0": "0xffff"},
        "qp": qp,
        "attr": {name: value for name, value in values.items() if value is not ...},
    }  # fmt: skip


def rtr(**attr: Any) -> dict[str, Any]:
    return modify("RC", "INIT", "RTR", **attr)


def rts(**attr: Any) -> dict[str, Any]:
    return modify("RC", "RTR", "RTS", **attr)


def to_init(**attr: Any) -> dict[str, Any]:
    return modify("RC", "RESET", "INIT", **attr)


def post(
    queue: str = "send", *, kind: str = "RC", state: str = "RTS", driver: str = "mlx5", **more: Any
) -> dict[str, Any]:
    base = modify(kind, "INIT", "RTR", driver=driver)
    del base["attr"]
    base["qp"]["state"] = state
    cap = {"max_send_wr": 16, "max_recv_wr": 16, "max_send_sge": 2, "max_recv_sge": 2, "max_inline_data": 64}
    base["qp"]["cap"] = cap
    act = {"queue": queue, "num_sge": 1, "length": 64} | ({"opcode": "SEND"} if queue == "send" else {}) | more
    return base | {"post": act}


def with_(request: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """The request with parts merged in: ``with_(rtr(), port={"state": "DOWN"}, kernel="6.1")``."""
    done = copy.deepcopy(request)
    for name, value in parts.items():
        if isinstance(value, dict) and isinstance(done.get(name), dict):
            done[name] |= value
        else:
            done[name] = value
    return done
