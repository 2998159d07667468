"""What an address vector or a peer's record leaves open is named among the checks not made, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from rdmaqp.guard import check
from rdmaqp.guard.report import Report
from rdmaqp.model import codec

GRH = {"dgid": "::ffff:192.0.2.7", "sgid_index": 3, "flow_label": 0, "hop_limit": 64, "traffic_class": 0}
AV = {"is_global": 1, "dlid": 0, "sl": 0, "src_path_bits": 0, "static_rate": 0, "port_num": 1}
ETHERNET = {"num": 1, "state": "ACTIVE", "link_layer": "ETHERNET", "active_mtu": 4096, "gid_tbl_len": 256}
INFINIBAND = ETHERNET | {"link_layer": "INFINIBAND", "pkey_tbl_len": 128, "lid": 7}
GIDS = [{"index": 0, "gid": "fe80::6", "type": "ROCE_V1"}, {"index": 3, "gid": "192.0.2.6", "type": "ROCE_V2"}]


def without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def to_rtr(address: dict[str, Any], *, port: dict[str, Any] = ETHERNET, peer: dict[str, Any] | None = None) -> Report:
    attr = {"qp_state": "RTR", "path_mtu": 1024, "dest_qp_num": 18, "rq_psn": 0, "max_dest_rd_atomic": 1,
            "min_rnr_timer": 12, "ah_attr": address}  # fmt: skip
    request = {"device": {"driver": "mlx5", "phys_port_cnt": 1}, "port": port, "gids": GIDS,
               "qp": {"type": "RC", "state": "INIT", "port_num": 1}, "attr": attr}  # fmt: skip
    return check(codec.decode(request | ({"peer": peer} if peer is not None else {})))


@pytest.mark.parametrize("how", ["absent", "null"])
@pytest.mark.parametrize(
    ("part", "rule"),
    [("grh.sgid_index", "sgid-empty"), ("grh.dgid", "dgid-invalid"), ("port_num", "port-range"),
     ("port_num", "port-mismatch"), ("dlid", "dlid-invalid")],
)  # fmt: skip
def test_a_part_that_is_not_given_is_named(part: str, rule: str, how: str) -> None:
    name = part.rpartition(".")[2]
    holder = GRH if part.startswith("grh.") else AV
    changed = without(holder, name) | ({name: None} if how == "null" else {})
    if part == "dlid":
        report = to_rtr(changed | {"is_global": 0}, port=INFINIBAND)
    else:
        report = to_rtr(AV | {"grh": changed} if holder is GRH else changed | {"grh": GRH})
    assert (rule, f"ah_attr.{part}") in report.skipped
    assert report.verdict == "pass"
    whole = to_rtr(AV | {"grh": GRH}) if part != "dlid" else to_rtr(AV | {"is_global": 0, "dlid": 9}, port=INFINIBAND)
    assert not [skip for skip in whole.skipped if skip.needs.startswith("ah_attr")]


def test_a_handle_names_its_parts_too() -> None:
    request = {"port": ETHERNET, "gids": GIDS, "ah": without(AV, "port_num") | {"grh": without(GRH, "sgid_index")}}
    skipped = check(codec.decode(request)).skipped
    assert {("port-range", "ah.port_num"), ("sgid-empty", "ah.grh.sgid_index")} <= set(skipped)


def test_a_number_of_the_peers_that_does_not_fit_is_not_advised() -> None:
    report = to_rtr(AV | {"grh": GRH}, peer={"qp_num": 1 << 24})
    (finding,) = [finding for finding in report.findings if finding.rule == "peer-qpn"]
    assert finding.allowed is None
    assert finding.fix is not None
    assert "0x1000000" not in finding.fix
    (finding,) = [f for f in to_rtr(AV | {"grh": GRH}, peer={"qp_num": 19}).findings if f.rule == "peer-qpn"]
    assert finding.fix == "dest_qp_num=0x13"


def test_the_alternate_tables_length_is_asked_for() -> None:
    attr = {"qp_state": "RTS", "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "sq_psn": 0, "max_rd_atomic": 1,
            "alt_ah_attr": AV | {"is_global": 0, "dlid": 9, "port_num": 2}, "alt_port_num": 2, "alt_pkey_index": 500,
            "alt_timeout": 14}  # fmt: skip
    request = {"device": {"driver": "mlx4", "phys_port_cnt": 2}, "port": INFINIBAND, "attr": attr,
               "qp": {"type": "RC", "state": "RTR", "port_num": 1}}  # fmt: skip
    report = check(codec.decode(request))
    assert ("pkey-range", "ports[2].pkey_tbl_len") in report.skipped
    assert report.verdict == "pass"
    known = check(codec.decode(request | {"ports": [INFINIBAND, INFINIBAND | {"num": 2}]}))
    assert [finding.rule for finding in known.errors] == ["pkey-range"]


def test_one_bit_is_told_in_words() -> None:
    (finding,) = to_rtr(AV | {"is_global": 2, "grh": GRH}).errors
    assert finding.message == "2 is neither 0 nor 1"
