"""Routes, neighbours and net devices, asked of real network namespaces and of made-up trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdmaqp.host import answers, network
from rdmaqp.host.answers import Refused, Unknown
from rdmaqp.host.network import Neighbour, NetDevice, NoDevice, NoRoute, Route
from rdmaqp.host.path import PathAnswers, ask_path
from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import GID, GidEntry

Namespace = Callable[..., Any]

ROUTE = """
from rdmaqp.host.network import route
from rdmaqp.model.gid import GID
answer = [repr(route(GID.parse(to), source and GID.parse(source), dev)) for to, source, dev in {asked}]
"""


def test_routes(namespace: Namespace) -> None:
    shell = """
    ip route add 198.51.100.0/24 via 192.0.2.1
    ip route add unreachable 203.0.113.0/25
    ip route add blackhole 203.0.113.128/26
    ip route add prohibit 203.0.113.192/26
    ip -6 route add 2001:db8:1::/64 via 2001:db8::1
    ip -6 route add unreachable 2001:db8:2::/64
    """
    asked = {
        ("192.0.2.7", "192.0.2.6", "v0"): Route("v0"),
        ("192.0.2.7", None, None): Route("v0"),
        ("192.0.2.6", None, None): Route("lo", local=True),
        ("198.51.100.9", "192.0.2.6", "v0"): Route("v0", "192.0.2.1"),
        ("203.0.113.1", None, None): NoRoute("No route to host"),
        ("203.0.113.130", None, None): NoRoute("Invalid argument"),
        ("203.0.113.200", None, None): NoRoute("Permission denied"),
        ("8.8.8.8", None, None): NoRoute("Network is unreachable"),
        ("8.8.8.8", "192.0.2.6", "v0"): Route("v0"),  # as the kernel's own look-up: over a device, on the link
        ("2001:db8::7", "2001:db8::6", "v0"): Route("v0"),
        ("2001:db8:1::7", None, None): Route("v0", "2001:db8::1"),
        ("2001:db9::7", None, None): NoRoute("Network is unreachable"),
        ("fe80::7", None, "v0"): Route("v0"),
        # A source of the other family is not given to the tool: there is nothing to be asked of it.
        ("192.0.2.7", "2001:db8::6", "v0"): Route("v0"),
    }  # fmt: skip
    came = namespace(ROUTE.format(asked=list(asked)), shell)
    assert dict(zip(asked, came, strict=True)) == {key: repr(value) for key, value in asked.items()}


def test_a_device_that_is_not_there_is_unknown_and_no_missing_route(namespace: Namespace) -> None:
    (came,) = namespace(ROUTE.format(asked=[("192.0.2.7", None, "nix")]))
    assert came.startswith("Unknown(why='Cannot find device")


NEIGHBOUR = """
from rdmaqp.host.network import neighbour
answer = [repr(neighbour(*asked)) for asked in {asked}]
"""


def test_neighbours(namespace: Namespace) -> None:
    shell = """
    ip neigh add 192.0.2.8 lladdr 02:00:00:00:00:08 dev v0 nud permanent
    ip neigh add 192.0.2.9 dev v0 nud failed
    ip -6 neigh add 2001:db8::8 lladdr 02:00:00:00:00:09 dev v0 nud stale
    """
    asked = [("192.0.2.8", "v0"), ("192.0.2.9", "v0"), ("192.0.2.10", "v0"), ("2001:db8::8", "v0"), ("x", "v0"),
             ("192.0.2.8", "nix")]  # fmt: skip
    permanent, failed, none, stale, wrong, nowhere = namespace(NEIGHBOUR.format(asked=asked), shell)
    assert permanent == repr(Neighbour("192.0.2.8", "v0", "PERMANENT", "02:00:00:00:00:08"))
    assert failed == repr(Neighbour("192.0.2.9", "v0", "FAILED"))
    assert none == repr(Neighbour("192.0.2.10", "v0", "NONE"))
    assert stale == repr(Neighbour("2001:db8::8", "v0", "STALE", "02:00:00:00:00:09"))
    assert wrong.startswith("Unknown(")
    assert nowhere.startswith("Unknown(")


@pytest.mark.parametrize(
    ("state", "resolved"),
    [("REACHABLE", True), ("STALE", True), ("DELAY", True), ("PROBE", True), ("PERMANENT", True), ("NOARP", True),
     ("INCOMPLETE", False), ("FAILED", False), ("NONE", False)],
)  # fmt: skip
def test_which_neighbours_have_a_mac(state: str, resolved: bool) -> None:
    assert Neighbour("192.0.2.7", "eth0", state).resolved is resolved


SILENT = """
import socket, time
from rdmaqp.host.path import ask_path
from rdmaqp.model.gid import GID, GidEntry
ours = GidEntry(1, GID.parse("192.0.2.6"), None, "v0")
there = GID.parse("192.0.2.77")
before = ask_path(ours, there)
plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plug.sendto(b"x", ("192.0.2.77", 9))
time.sleep(0.05)
after = ask_path(ours, there)
answer = [str(before), str(after), after.neighbour.state, str(ask_path(ours, GID.parse("192.0.2.6")))]
"""


def test_the_whole_path_to_a_peer_that_does_not_answer(namespace: Namespace) -> None:
    """What an unanswered ARP looks like, as RoCE's own look-up leaves it."""
    before, after, state, own = namespace(SILENT)
    assert before == "v0 is up, MTU 1500; route by v0, on the link; neighbour 192.0.2.77 NONE"
    assert state in ("INCOMPLETE", "FAILED")
    assert after == before.replace("NONE", state)
    assert own == "v0 is up, MTU 1500; route this machine, by lo"


def test_a_gid_without_a_net_device_asks_nothing() -> None:
    came = ask_path(GidEntry(1, GID.parse("192.0.2.6"), GidType.ROCE_V2, ""), GID.parse("192.0.2.7"))
    assert isinstance(came.device, Unknown)
    assert isinstance(came.route, Unknown)
    assert came.neighbour is None


# ---------------------------------------------------------------------- net devices


def device(root: Path, name: str = "eth0", **files: str | None) -> Path:
    place = root / "sys/class/net" / name
    place.mkdir(parents=True)
    for file, text in ({"ifindex": "2", "flags": "0x1003", "carrier": "1", "mtu": "1500"} | files).items():
        if text is not None:
            (place / file).write_text(f"{text}\n")
    return root


def test_net_devices(tmp_path: Path) -> None:
    device(tmp_path)
    device(tmp_path, "down", flags="0x1002", carrier=None)
    device(tmp_path, "cable", carrier="0", mtu="9000")
    device(tmp_path, "odd", flags="what", mtu=None)
    assert network.net_device("eth0", tmp_path) == NetDevice("eth0", True, True, 1500)
    assert network.net_device("down", tmp_path) == NetDevice("down", False, None, 1500)
    assert network.net_device("cable", tmp_path) == NetDevice("cable", True, False, 9000)
    assert network.net_device("odd", tmp_path) == NetDevice("odd", False, True, None)


def test_a_net_device_that_is_not_here(tmp_path: Path) -> None:
    came = network.net_device("eth1", device(tmp_path))
    assert came == NoDevice("eth1")
    assert network.net_device("nix0") == NoDevice("nix0")
    assert isinstance(came, NoDevice)
    assert came.why == "there is no net device eth1 in this network namespace"


@pytest.mark.parametrize("name", ["", ".", "..", "../../../etc"])
def test_what_is_no_name(tmp_path: Path, name: str) -> None:
    came = network.net_device(name, device(tmp_path))
    assert isinstance(came, Unknown)
    assert str(came).startswith("unknown: ")


OTHER = """
from rdmaqp.host.network import net_device
answer = [repr(net_device(name)) for name in ("v0", "lo", "nix")]
"""


def test_a_sysfs_of_another_namespace_is_not_believed(namespace: Namespace) -> None:
    v0, lo, nix = namespace(OTHER, "umount /sys")
    assert v0 == "Unknown(why='/sys is mounted for another network namespace than this one')"
    assert lo.startswith(("NetDevice(", "Unknown("))  # its number is 1 everywhere
    assert nix == "NoDevice(name='nix')"
    assert namespace(OTHER)[0] == "NetDevice(name='v0', up=True, carrier=True, mtu=1500)"


def test_no_sysfs(tmp_path: Path) -> None:
    came = network.net_device("eth0", tmp_path)
    assert isinstance(came, Unknown)
    assert "No such file" in came.why


def test_this_machines_own() -> None:
    assert network.net_device("lo") == NetDevice("lo", True, True, 65536)


# ---------------------------------------------------------------------- the tool itself


def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (tmp_path / "ip").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "ip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo nonsense", "did not answer in JSON"),
        ("echo '{}'", "gave no device"),
        ("echo '[]'", "gave no device"),
        ("echo '[{\"dev\": 1}]'", "gave no device"),
        ("echo 'Option \"-j\" is unknown' >&2; exit 255", "is unknown"),
        ("exit 3", "ended with 3"),
        ("sleep 9", "timed out"),
    ],
)
def test_whatever_the_tool_does_the_answer_is_unknown_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    tool(tmp_path, monkeypatch, script)
    monkeypatch.setattr(answers, "PATIENCE", 0.3)
    came = network.route(GID.parse("192.0.2.7"))
    assert isinstance(came, Unknown)
    assert why in came.why


def test_no_tool_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert network.route(GID.parse("192.0.2.7")) == Unknown("ip is not installed")
    assert network.neighbour("192.0.2.7", "eth0") == Unknown("ip is not installed")
    (tmp_path / "ip").write_text("not a program")
    (tmp_path / "ip").chmod(0o755)
    came = network.route(GID.parse("192.0.2.7"))
    assert isinstance(came, Unknown)
    assert "cannot be run" in came.why


def test_old_tools_say_the_kind_of_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, 'echo \'[{"type": "unreachable", "dst": "203.0.113.1", "dev": "lo"}]\'')
    assert network.route(GID.parse("203.0.113.1")) == NoRoute("the route is of type unreachable")
    tool(tmp_path, monkeypatch, 'echo \'[{"dst": "203.0.113.1", "via": {"host": "fe80::1"}, "dev": "eth0"}]\'')
    assert network.route(GID.parse("203.0.113.1")) == Route("eth0", "fe80::1")


def test_the_tool_speaks_english_and_is_not_preloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("LC_ALL", "xx_YY")
    tool(tmp_path, monkeypatch, 'echo "$LC_ALL ${LD_PRELOAD-none}" >&2; exit 1')
    assert answers.ask_json("ip") == Refused("C none")


def test_a_path_in_words() -> None:
    gone = PathAnswers(NoDevice("eth0"), NoRoute("Network is unreachable"), None)
    assert str(gone) == "there is no net device eth0 in this network namespace; route Network is unreachable"
    cable = PathAnswers(NetDevice("eth0", True, False, 1500), Route("eth0", "192.0.2.1"), Unknown("x"))
    assert str(cable) == "eth0 is up, no carrier, MTU 1500; route by eth0, gateway 192.0.2.1; neighbour unknown: x"
