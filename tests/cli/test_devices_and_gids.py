"""``rdmaqp devices`` and ``rdmaqp gids`` on a null device: what is shown, the pick, and the ways on without one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from stub.null_device import NullDevice

GIDS = "0=fe80::7/ROCE_V1@lo,1=fe80::7/ROCE_V2@lo,2=::ffff:192.0.2.1/ROCE_V1@lo,3=::ffff:192.0.2.1/ROCE_V2@lo"
ROCE = {"LINK": "ethernet", "GIDS": GIDS}


def rdmaqp(null_device: NullDevice, *arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    return null_device.run([sys.executable, "-m", "rdmaqp", *arguments], **settings)


def test_devices_shows_every_port_with_its_pick(null_device: NullDevice) -> None:
    done = rdmaqp(null_device, "devices", DEVICES="one,two", PORTS=2, PORT_STATE="ACTIVE,DOWN", **ROCE)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][:4] == ["device", "driver", "port", "state"]
    assert [row[:4] for row in rows[1:5]] == [
        ["one", "?", "1", "ACTIVE"], ["one", "?", "2", "DOWN"], ["two", "?", "1", "ACTIVE"], ["two", "?", "2", "DOWN"],
    ]  # fmt: skip
    assert "3: ::ffff:192.0.2.1" in done.stdout
    assert "RoCE v2, routable, IPv4; before GID 1" in done.stdout


def test_listings_of_only_those_named(null_device: NullDevice) -> None:
    for arguments, expected in (((), "abc"), (("b",), "b"), (("c", "a", "c"), "ac")):
        shown = rdmaqp(null_device, "devices", "--json", *arguments, DEVICES="a,b,c")
        assert "".join(device["name"] for device in json.loads(shown.stdout)) == expected
        shown = rdmaqp(null_device, "gids", *arguments, DEVICES="a,b,c", **ROCE)
        assert "".join(re.findall(r"^(.), port 1$", shown.stdout, re.MULTILINE)) == expected


WIDE = {"GIDS": "1=2001:db8:1234:5678:9abc:def0:1234:5678/ROCE_V2@lo,3=fe80::7:1234:5678:9abc/ROCE_V1@lo",
        "LINK": "ethernet", "PORTS": 2, "PORT_STATE": "ACTIVE,ARMED", "DEVICES": "mlx5_bond_0,rocep65s0f0"}  # fmt: skip


@pytest.mark.parametrize("command", ["devices", "gids"])
@pytest.mark.parametrize(("columns", "most"), [("", 80), ("0", 80), ("x", 80), ("120", 120), ("80", 80)])
def test_without_a_terminal_the_lines_are_narrow_whole_and_clean(
    null_device: NullDevice, monkeypatch: pytest.MonkeyPatch, command: str, columns: str, most: int
) -> None:
    """As wide as COLUMNS says, else 80; nothing is cut off, and nothing in an address is taken for a picture."""
    monkeypatch.setenv("COLUMNS", columns)
    done = rdmaqp(null_device, command, **WIDE)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= most
    assert [line for line in lines if line != line.rstrip()] == []
    assert "…" not in done.stdout
    assert "2001:db8:1234:5678:9abc:def0:1234:5678" in done.stdout
    if command == "gids":
        assert "fe80::7:1234:5678:9abc" in done.stdout


def test_devices_in_json_has_all_of_the_device_and_its_ports(null_device: NullDevice) -> None:
    done = rdmaqp(null_device, "devices", "--json", LID=0x2A, MAX_QP_RD_ATOM=7)
    (device,) = json.loads(done.stdout)
    assert device["name"] == "null0"
    assert device["max_qp_rd_atom"] == 7
    assert device["transport"] == "IB"
    (port,) = device["ports"]
    assert (port["num"], port["state"], port["link_layer"], port["lid"]) == (1, "ACTIVE", "INFINIBAND", 0x2A)
    assert port["picked_gid"]["reason"] == "InfiniBand"


def test_what_a_newer_device_reports_hides_nothing(null_device: NullDevice) -> None:
    """A number without a name is shown as the number, and a bit as hexadecimal."""
    done = rdmaqp(null_device, "devices", "--json", ATOMIC_CAP=9, DEVICE_CAP_FLAGS=(1 << 30) | 1)
    (device,) = json.loads(done.stdout)
    assert (device["atomic_cap"], device["device_cap_flags"]) == ("9", ["RESIZE_MAX_WR", "0x40000000"])
    assert "null0" in rdmaqp(null_device, "devices", ATOMIC_CAP=9).stdout


def test_gids_marks_the_pick_and_gives_each_entrys_standing(null_device: NullDevice) -> None:
    rows = json.loads(rdmaqp(null_device, "gids", "--json", **ROCE).stdout)
    assert [(row["index"], row["type"], row["ipv4"], row["picked"]) for row in rows] == [
        (0, "RoCE v1", None, False), (1, "RoCE v2", None, False),
        (2, "RoCE v1", "192.0.2.1", False), (3, "RoCE v2", "192.0.2.1", True),
    ]  # fmt: skip
    assert all(row["netdev"] == "lo" and row["reason"] for row in rows)
    shown = rdmaqp(null_device, "gids", **ROCE).stdout.splitlines()
    assert shown[0] == "null0, port 1"
    assert next(line for line in shown if line.startswith("→")).split()[1:3] == ["3", "::ffff:192.0.2.1"]
    assert shown[-1].startswith("→ 3 would be picked: RoCE v2, routable, IPv4; before GID 1")


@pytest.mark.parametrize("command", ["devices", "gids"])
def test_without_a_device_it_says_the_two_ways_on(null_device: NullDevice, command: str) -> None:
    done = rdmaqp(null_device, command, NO_DEVICES=1)
    assert done.returncode == 1
    assert "this machine has no RDMA device" in done.stderr
    assert "rdma link add" in done.stderr
    assert "rdmaqp lab run" in done.stderr
    empty = rdmaqp(null_device, command, "--json", NO_DEVICES=1)
    assert (empty.returncode, json.loads(empty.stdout)) == (0, [])


@pytest.mark.parametrize("command", ["devices", "gids"])
def test_an_unknown_device_names_those_there_are(null_device: NullDevice, command: str) -> None:
    done = rdmaqp(null_device, command, "mlx5_0", "mlx5_7", DEVICES="mlx5_0,mlx5_1")
    assert done.returncode == 1
    assert "no device 'mlx5_7'; there are: mlx5_0, mlx5_1" in done.stderr


def test_a_reader_that_has_enough_is_no_traceback(null_device: NullDevice) -> None:
    command = f"{sys.executable} -m rdmaqp devices --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = null_device.run(["bash", "-c", command], DEVICES=",".join(f"d{n}" for n in range(60)))
    assert done.stdout == "[\n"
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 141)
