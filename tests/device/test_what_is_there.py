"""Devices, ports and address tables against what other tools and sysfs say."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import rdmaqp
from device.conftest import RDMAQP


def test_devices_agrees_with_ibv_devinfo(context: rdmaqp.Context) -> None:
    said = subprocess.run(["ibv_devinfo", "-v", "-d", context.name], capture_output=True, text=True, check=True).stdout
    theirs = dict(re.findall(r"^\s*(\w+):\s+(\S+)", said, re.MULTILINE))
    shown = subprocess.run([*RDMAQP, "devices", "--json"], capture_output=True, text=True, check=True).stdout
    ours = next(device for device in json.loads(shown) if device["name"] == context.name)
    names = (
        "max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe", "max_mr", "max_pd", "max_qp_rd_atom", "max_res_rd_atom",
        "max_qp_init_rd_atom", "max_mw", "max_mcast_grp", "max_ah", "max_srq", "max_srq_wr", "max_srq_sge", "max_pkeys",
        "local_ca_ack_delay", "phys_port_cnt",
    )  # fmt: skip
    assert {name: str(ours[name]) for name in names} == {name: theirs[name] for name in names}
    assert ours["node_guid"] == theirs["node_guid"].replace(":", "")
    port = ours["ports"][0]
    assert f"PORT_{port['state']}" == theirs["state"]
    assert str(port["active_mtu"]) == theirs["active_mtu"]
    assert port["link_layer"].lower() == theirs["link_layer"].lower()


def test_driver_is_named(context: rdmaqp.Context) -> None:
    if not context.name.startswith("rxe"):
        module = Path(f"/sys/class/infiniband/{context.name}/device/driver/module").resolve().name
        assert context.driver is not None
        assert module.startswith(context.driver)
    else:
        assert context.driver == "rxe"


def test_gid_table_agrees_with_sysfs(context: rdmaqp.Context) -> None:
    base = Path(f"/sys/class/infiniband/{context.name}/ports/1")
    entries = context.port(1).gids()
    assert entries
    for entry in entries:
        assert rdmaqp.GID.parse((base / f"gids/{entry.index}").read_text().strip()) == entry.gid
        kind = (base / f"gid_attrs/types/{entry.index}").read_text().strip()
        assert kind == {"IB": "IB/RoCE v1", "ROCE_V1": "IB/RoCE v1", "ROCE_V2": "RoCE v2"}[entry.type.name]
        if entry.netdev:
            assert (base / f"gid_attrs/ndevs/{entry.index}").read_text().strip() == entry.netdev


def test_gids_marks_one_pick_with_its_reason(context: rdmaqp.Context) -> None:
    shown = subprocess.run([*RDMAQP, "gids", context.name, "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(shown.stdout)
    picked = [row for row in rows if row["picked"]]
    assert len(picked) == 1
    if any(row["type"] == "RoCE v2" and row["ipv4"] for row in rows):
        assert picked[0]["ipv4"]
        assert "routable" in picked[0]["reason"]


def test_pkeys(context: rdmaqp.Context) -> None:
    assert context.port(1).pkeys()[0] & 0x7FFF
