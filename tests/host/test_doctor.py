"""The doctor's questions: made-up trees of the kernel's files, and a network namespace of one's own for the peer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rdmaqp.host import checks, checks_device, firewall, libraries, process, sysfs
from rdmaqp.host.answers import Refused, Unknown
from rdmaqp.host.line import Line
from rdmaqp.model.enums import GidType
from rdmaqp.model.facts import ProcessFacts

GIDS = {0: ("fe80::6", "IB/RoCE v1", "v0"), 1: ("fe80::6", "RoCE v2", "v0"), 2: ("::ffff:192.0.2.6", "IB/RoCE v1",
"v0"),
        3: ("::ffff:192.0.2.6", "RoCE v2", "v0")}  # fmt: skip


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def tree(
    root: Path, name: str = "rxe0", *, state: str = "4: ACTIVE", link: str = "Ethernet", lid: str = "0x0",
    gids: dict[int, tuple[str, str, str | None]] | None = None, uverbs: bool = True, parent: str = "v0",
) -> Path:  # fmt: skip
    """A device as sysfs has it."""
    base = f"sys/class/infiniband/{name}"
    files = {
        f"{base}/node_type": "1: CA", f"{base}/fw_ver": "", f"{base}/ports/1/state": state, f"{base}/ports/1/lid": lid,
        f"{base}/ports/1/link_layer": link, f"{base}/ports/1/rate": "10 Gb/sec (1X)",
    }  # fmt: skip
    if parent:
        files[f"{base}/parent"] = parent
    for slot, (gid, kind, netdev) in (GIDS if gids is None else gids).items():
        files |= {f"{base}/ports/1/gids/{slot}": gid, f"{base}/ports/1/gid_attrs/types/{slot}": kind}
        if netdev is not None:
            files[f"{base}/ports/1/gid_attrs/ndevs/{slot}"] = netdev
    files[f"{base}/ports/1/gids/9"] = "0000:0000:0000:0000:0000:0000:0000:0000"
    if uverbs:
        files["sys/class/infiniband_verbs/uverbs0/ibdev"] = name
    write(root, **files)
    return root


def net(root: Path, name: str = "v0", *, flags: str = "0x1003", carrier: str = "1", mtu: str = "1500") -> None:
    place = f"sys/class/net/{name}"
    write(root, **{f"{place}/ifindex": "7", f"{place}/flags": flags, f"{place}/carrier": carrier, f"{place}/mtu": mtu})


def view(root: Path) -> sysfs.DeviceView:
    (found,) = sysfs.devices(root)
    return found


def levels(lines: Iterable[Line]) -> dict[str, str]:
    return {line.check: line.level for line in lines}


def test_a_device_as_sysfs_has_it(tmp_path: Path) -> None:
    found = view(tree(tmp_path))
    assert (found.name, found.driver, found.uverbs, found.parent) == ("rxe0", "rxe", "uverbs0", "v0")
    (port,) = found.ports
    assert (port.num, port.state, port.is_roce, port.lid, port.netdevs) == (1, "ACTIVE", True, 0, ("v0",))
    assert [(entry.index, str(entry.gid), entry.type) for entry in port.gids] == [
        (0, "fe80::6", GidType.ROCE_V1), (1, "fe80::6", GidType.ROCE_V2), (2, "::ffff:192.0.2.6", GidType.ROCE_V1),
        (3, "::ffff:192.0.2.6", GidType.ROCE_V2),
    ]  # fmt: skip


def test_states_of_ports(tmp_path: Path) -> None:
    tree(tmp_path)
    tree(tmp_path, "mlx5_0", state="1: DOWN")
    assert sysfs.port_states(tmp_path) == {"mlx5_0/1": "DOWN", "rxe0/1": "ACTIVE"}
    assert sysfs.port_states(tmp_path / "none") == {}
    assert sysfs.names(tmp_path) == ("mlx5_0", "rxe0")
    assert [device.name for device in sysfs.devices(tmp_path, only=["rxe0", "none"])] == ["rxe0"]


def test_hardware_is_named_by_what_drives_it(tmp_path: Path) -> None:
    tree(tmp_path, "rocep1s0", parent="")
    (tmp_path / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True)
    device = tmp_path / "sys/class/infiniband/rocep1s0/device"
    device.mkdir()
    (device / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers/mlx5_core")
    assert view(tmp_path).driver == "mlx5"


def test_no_rdma_at_all(tmp_path: Path) -> None:
    assert sysfs.devices(tmp_path) == sysfs.names(tmp_path) == ()
    (line,) = checks.presence((), tmp_path)
    assert line.level == "error"
    assert "rdma link add" in line.mend
    assert "rdmaqp lab run" in line.mend


def test_another_system_than_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    (line,) = checks.machine((), tmp_path)
    assert line.level == "error"
    assert "rdmaqp check" in line.says


def test_a_port_that_is_well(tmp_path: Path) -> None:
    net(tree(tmp_path))
    lines = list(checks_device.device(view(tmp_path), tmp_path))
    assert {line.level for line in lines} == {"ok"}
    assert "RoCE packets of 1024 bytes; 4200 would give 4096" in next(x.says for x in lines if x.check == "net device")
    assert "GID 3 (::ffff:192.0.2.6, RoCE v2)" in next(x.says for x in lines if x.check == "addresses")


@pytest.mark.parametrize(
    ("changes", "network", "check", "level", "mend"),
    [
        ({"state": "1: DOWN"}, {}, "port", "error", "ip link set v0 up"),
        ({}, {"flags": "0x1002"}, "net device", "error", "ip link set v0 up"),
        ({}, {"carrier": "0"}, "net device", "error", "ethtool v0"),
        ({"gids": {}}, {}, "addresses", "error", "ip addr add"),
        ({"gids": {0: ("fe80::6", "RoCE v2", "v0")}}, {}, "addresses", "warning", "ip addr add ADDRESS/PREFIX dev v0"),
        ({"gids": {0: ("::ffff:192.0.2.6", "IB/RoCE v1", "v0")}}, {}, "addresses", "warning", "ip addr add"),
        ({"gids": {0: ("::ffff:192.0.2.6", "RoCE v2", None)}}, {}, "addresses", "error", "--network host"),
        ({"uverbs": False}, {}, "device", "error", "modprobe ib_uverbs"),
        ({"link": "InfiniBand", "state": "2: INIT"}, {}, "port", "error", "opensm"),
        ({"link": "InfiniBand", "state": "1: DOWN"}, {}, "port", "error", "ibstat rxe0"),
        ({"link": "InfiniBand", "lid": "0x7"}, {}, "port", "ok", ""),
    ],
)
def test_a_port_that_is_not(
    tmp_path: Path, changes: dict[str, Any], network: dict[str, str], check: str, level: str, mend: str
) -> None:
    net(tree(tmp_path, **changes), **network)
    found = [line for line in checks_device.device(view(tmp_path), tmp_path) if line.check == check]
    assert [line.level for line in found] == [level]
    assert mend in found[0].mend


def test_a_net_device_that_is_elsewhere(tmp_path: Path) -> None:
    (tree(tmp_path) / "sys/class/net").mkdir(parents=True)
    found = {line.check: line for line in checks_device.device(view(tmp_path), tmp_path)}
    assert found["net device"].level == "error"
    assert "no net device v0" in found["net device"].says


def test_modules(tmp_path: Path) -> None:
    assert levels(checks.modules((), tmp_path)) == {"modules": "unknown"}
    write(tmp_path, **{"proc/modules": "ib_core 1 0\nrdma_rxe 1 0"})
    (line,) = checks.modules((), tmp_path)
    assert (line.level, line.mend) == ("error", "modprobe ib_uverbs")
    write(tmp_path, **{"proc/modules": "ib_core 1 0\nib_uverbs 1 0"})
    assert [line.mend for line in checks.modules((), tmp_path)] == ["modprobe rdma_ucm"]
    write(tmp_path, **{"proc/modules": "ib_core 1 0\nib_uverbs 1 0\nrdma_ucm 1 0"})
    assert levels(checks.modules((), tmp_path)) == {"modules": "ok"}
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    devices = sysfs.devices(tree(tmp_path))
    assert [line.mend for line in checks.modules(devices, tmp_path)] == ["", "modprobe nvidia-peermem"]


def test_a_kernel_that_loads_no_modules(tmp_path: Path) -> None:
    write(tmp_path, **{"proc/version": "Linux version 6.18.0"})
    (line,) = checks.modules((), tmp_path)
    assert (line.level, "loads no modules" in line.says, "modprobe" in line.mend) == ("error", True, False)
    (line,) = checks.presence((), tmp_path)
    assert "modprobe" not in line.mend
    for name in ("ib_uverbs", "rdma_ucm"):
        (tmp_path / "sys/module" / name).mkdir(parents=True)
    assert levels(checks.modules((), tmp_path)) == {"modules": "ok"}


def test_device_nodes(tmp_path: Path) -> None:
    devices = sysfs.devices(tree(tmp_path))
    (line,) = checks.nodes(devices, tmp_path)
    assert line.level == "error"
    assert "--device /dev/infiniband" in line.mend
    write(tmp_path, **{"dev/infiniband/uverbs0": ""})
    assert [line.level for line in checks.nodes(devices, tmp_path)] == ["ok"]
    write(tmp_path, **{"proc/modules": "rdma_ucm 1 0"})
    assert [line.level for line in checks.nodes(devices, tmp_path)] == ["ok", "warning"]
    write(tmp_path, **{"dev/infiniband/rdma_cm": ""})
    assert [line.level for line in checks.nodes(devices, tmp_path)] == ["ok"]


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        (ProcessFacts(memlock=(1 << 64) - 1), "ok"), (ProcessFacts(memlock=64 << 10), "warning"),
        (ProcessFacts(memlock=64 << 10, ipc_lock=True), "ok"), (ProcessFacts(memlock=1 << 30), "ok"),
    ],
)  # fmt: skip
def test_memlock(monkeypatch: pytest.MonkeyPatch, facts: ProcessFacts, level: str) -> None:
    monkeypatch.setattr(process, "facts", lambda: facts)
    (line,) = checks.memlock()
    assert line.level == level
    assert ("ulimit -l unlimited" in line.mend) == (level == "warning")


def libibverbs(root: Path, place: str = "usr/lib64", abi: int = 34, *drivers: str) -> None:
    folder = root / place
    (folder / "libibverbs").mkdir(parents=True)
    code = b"\x7fELF\0IBVERBS_1.14\0" + f"IBVERBS_PRIVATE_{abi}".encode() + b"\0"
    (folder / f"libibverbs.so.1.14.{abi}.0").write_bytes(code)
    (folder / "libibverbs.so.1").symlink_to(f"libibverbs.so.1.14.{abi}.0")
    for name in drivers:
        (folder / f"libibverbs/lib{name}.so").write_bytes(b"")


def test_libraries(tmp_path: Path) -> None:
    devices = sysfs.devices(tree(tmp_path))
    (line,) = checks.library(devices, tmp_path)
    assert (line.level, "libibverbs" in line.mend) == ("error", True)
    libibverbs(tmp_path, "usr/lib64", 34, "rxe-rdmav34", "mlx5-rdmav34")
    (found,) = libraries.libraries(tmp_path)
    assert (found.abi, found.rdma_core, found.drivers) == (34, "34", {"rxe", "mlx5"})
    assert levels(checks.library(devices, tmp_path)) == {"libraries": "ok"}


def test_libraries_of_two_builds(tmp_path: Path) -> None:
    devices = sysfs.devices(tree(tmp_path))
    libibverbs(tmp_path, "usr/lib64", 57, "rxe-rdmav34", "mlx5-rdmav57")
    (line,) = checks.library(devices, tmp_path)
    assert line.level == "error"
    assert "no user library for rxe" in line.says
    assert "-rdmav34.so" in line.says
    libibverbs(tmp_path, "usr/local/lib", 34, "rxe-rdmav34")
    assert [line.level for line in checks.library(devices, tmp_path)] == ["warning", "error"]


def test_a_kernel_of_another_abi(tmp_path: Path) -> None:
    devices = sysfs.devices(tree(tmp_path))
    libibverbs(tmp_path, "usr/lib64", 34, "rxe-rdmav34")
    write(tmp_path, **{"sys/class/infiniband_verbs/abi_version": "9"})
    assert [line.level for line in checks.library(devices, tmp_path)] == ["ok", "error"]


CHAIN = {"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": "drop"}}
MATCH = {"match": {"left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}
ACCEPT = {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [MATCH, {"accept": None}]}}


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ({"nftables": [{"metainfo": {}}]}, "ok"), ({"nftables": [CHAIN]}, "warning"), ({"nftables": [CHAIN, ACCEPT]},
        "ok"),
        (Refused("Operation not permitted"), "unknown"), (Unknown("nft is not installed"), "unknown"), ([], "ok"),
    ],
)  # fmt: skip
def test_a_packet_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, level: str) -> None:
    monkeypatch.setattr(firewall, "ask_json", lambda *_: answer)
    devices = sysfs.devices(tree(tmp_path))
    (tmp_path / "sys/module/nf_tables").mkdir(parents=True)
    write(tmp_path, **{"proc/net/udp": "  sl  local_address\n   1: 00000000:12B7 00000000:0000 07"})
    (line,) = checks.roce_port(devices, tmp_path)
    assert line.level == level
    if level == "warning":
        assert line.mend == "nft add rule inet filter input udp dport 4791 accept"
    write(tmp_path, **{"proc/net/udp": "  sl  local_address\n"})
    assert [line.level for line in checks.roce_port(devices, tmp_path)] == ["warning", level]


PEER = """
from rdmaqp.host import checks_device
from rdmaqp.host.sysfs import DeviceView, PortView
from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import GID, GidEntry
def entry(index, text): return GidEntry(index, GID.parse(text), GidType.ROCE_V2, 'v0')
port = PortView(1, 'ACTIVE', 'Ethernet', 0, '', (entry(0, 'fe80::1'), entry(1, '192.0.2.6'), entry(2, '2001:db8::6')))
view = DeviceView('rxe0', 'rxe', '', 'uverbs0', 'v0', (port,))
answer = [list(line) for line in checks_device.peer({host!r}, [view])]
"""


@pytest.mark.parametrize(
    ("host", "shell", "level", "says"),
    [
        ("192.0.2.7", "", "error", "nobody answers for 192.0.2.7 on v0"),
        ("192.0.2.7", "ip neigh add 192.0.2.7 lladdr 02:00:00:00:00:07 dev v0", "ok", "PERMANENT, 02:00:00:00:00:07"),
        ("192.0.2.6", "", "ok", "this machine"),
        ("198.51.100.1", "", "error", "no route to 198.51.100.1, so it is looked for on v0"),
        ("2001:db8::7", "ip neigh add 2001:db8::7 lladdr 02:00:00:00:00:07 dev v0", "ok", "2001:db8::7 is PERMANENT"),
        ("198.51.100.1", "ip route add default via 192.0.2.1; ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev v0",
        "ok",
         "gateway 192.0.2.1"),
    ],
)  # fmt: skip
def test_the_way_to_a_peer(namespace: Callable[..., Any], host: str, shell: str, level: str, says: str) -> None:
    ((check, found, about, text, mend),) = namespace(PEER.format(host=host), shell)
    assert (check, found, about) == ("peer", level, f"rxe0/1 → {host}")
    assert says in text
    assert bool(mend) == (level != "ok")


def test_no_packet_filter_at_all(tmp_path: Path) -> None:
    devices = sysfs.devices(tree(tmp_path))
    write(tmp_path, **{"proc/net/udp": "   1: 00000000:12B7 00000000:0000 07"})
    assert [line.level for line in checks.roce_port(devices, tmp_path)] == ["ok"]


def test_loopback_is_no_peer(tmp_path: Path) -> None:
    (line,) = checks_device.peer("127.0.0.1", sysfs.devices(tree(tmp_path)))
    assert (line.level, "loopback" in line.says) == ("error", True)


def test_a_peer_of_another_family(tmp_path: Path) -> None:
    devices = sysfs.devices(tree(tmp_path))
    (line,) = checks_device.peer("2001:db8::7", devices)
    assert line.level == "error"
    assert "no IPv6 address" in line.says


def test_a_peer_that_has_no_name() -> None:
    (line,) = checks_device.peer("no such host", ())
    assert line.level == "error"
    (line,) = checks_device.peer("192.0.2.1", ())
    assert line.level == "unknown"
