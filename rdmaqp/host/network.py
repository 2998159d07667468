"""Where this machine's IP stack would send: the route to an address, its next hop's MAC, the net device.

RoCE asks the same stack at INIT → RTR (Linux ``drivers/infiniband/core/addr.c``): the route from the source address
over the GID's net device, then the neighbour.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmaqp.host.answers import Refused, Unknown, ask_json, read_text

if TYPE_CHECKING:
    from rdmaqp.model.gid import GID

#: States of a neighbour entry that have a MAC address to send to.
_RESOLVED = frozenset({"REACHABLE", "STALE", "DELAY", "PROBE", "PERMANENT", "NOARP"})


@dataclass(frozen=True, slots=True)
class Route:
    """The way to an address.

    Attributes:
        dev: the net device that it leaves by.
        gateway: the next hop; ``None`` where the destination itself is on the link.
        local: whether the destination is this machine.
    """

    dev: str
    gateway: str | None = None
    local: bool = False

    def __str__(self) -> str:
        if self.local:
            return f"this machine, by {self.dev}"
        return f"by {self.dev}" + (f", gateway {self.gateway}" if self.gateway else ", on the link")


@dataclass(frozen=True, slots=True)
class NoRoute:
    """There is no way there.

    Attributes:
        why: the kernel's words, such as "Network is unreachable".
    """

    why: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry of the neighbour table (ARP, or neighbour discovery).

    Attributes:
        address: the next hop.
        state: ``REACHABLE``, ``STALE``, ``INCOMPLETE``, ``FAILED``, …; ``NONE`` where there is no entry.
        mac: its hardware address, where it is known.
    """

    address: str
    dev: str
    state: str
    mac: str | None = None

    @property
    def resolved(self) -> bool:
        """Whether packets have a MAC address to go to."""
        return self.state in _RESOLVED


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A net device of this network namespace.

    Attributes:
        up: whether it is set up (``ip link set … up``).
        carrier: whether there is a link; ``None`` where it is down and so does not say.
        mtu: bytes of an IP packet, 256…; RoCE's own headers fit into that too.
    """

    name: str
    up: bool
    carrier: bool | None
    mtu: int | None


@dataclass(frozen=True, slots=True)
class NoDevice:
    """There is no net device of that name in this network namespace."""

    name: str

    @property
    def why(self) -> str:
        """The same in words."""
        return f"there is no net device {self.name} in this network namespace"


def ip_of(gid: GID) -> str:
    """The IP address that a RoCE GID stands for, as the tools write it."""
    return str(IPv4Address(gid[12:])) if gid.is_ipv4_mapped else str(IPv6Address(bytes(gid)))


def route(destination: GID, source: GID | None = None, dev: str | None = None) -> Route | NoRoute | Unknown:
    """The route to *destination*, from *source* and over *dev* where given, as the kernel would choose it."""
    command = ["ip", "-j", "route", "get", ip_of(destination)]
    if source is not None and source.is_ipv4_mapped == destination.is_ipv4_mapped:
        command += ["from", ip_of(source)]
    if dev:
        command += ["oif", dev]
    found = ask_json(*command)
    if isinstance(found, Refused):
        return _no_route(found.why)
    if isinstance(found, Unknown):
        return found
    entry = _first(found)
    if entry is None or not isinstance(entry.get("dev"), str):
        return Unknown("ip route get gave no device")
    kind = entry.get("type", "unicast")
    if kind in ("unreachable", "blackhole", "prohibit"):
        return NoRoute(f"the route is of type {kind}")
    gateway = entry.get("gateway") or (entry.get("via") or {}).get("host")
    return Route(entry["dev"], gateway, local=kind == "local")


def _no_route(words: str) -> NoRoute | Unknown:
    prefix = "RTNETLINK answers: "
    return NoRoute(words.removeprefix(prefix)) if words.startswith(prefix) else Unknown(words)


def neighbour(address: str, dev: str) -> Neighbour | Unknown:
    """The neighbour entry of *address* on *dev*."""
    found = ask_json("ip", "-j", "neigh", "show", "to", address, "dev", dev)
    if isinstance(found, Refused):
        return Unknown(found.why)
    if isinstance(found, Unknown):
        return found
    entry = _first(found)
    if entry is None:
        return Neighbour(address, dev, "NONE")
    states = entry.get("state") or ["NONE"]
    return Neighbour(address, dev, str(states[0]).upper(), entry.get("lladdr"))


def _first(found: Any) -> dict[str, Any] | None:
    entry = found[0] if isinstance(found, list) and found else None
    return entry if isinstance(entry, dict) else None


def net_device(name: str, root: Path = Path("/")) -> NetDevice | NoDevice | Unknown:
    """The state of net device *name*, from sysfs (under *root*)."""
    if not name or "/" in name or name in (".", ".."):
        return Unknown(f"{name!r} is no name of a net device")
    place = root / "sys/class/net" / name
    index = read_text(place / "ifindex")
    if root == Path("/"):
        try:
            here = socket.if_nametoindex(name)
        except OSError:
            return NoDevice(name)
        if index != str(here):
            return Unknown("/sys is mounted for another network namespace than this one")
    elif isinstance(index, Unknown):
        return NoDevice(name) if (root / "sys/class/net").is_dir() else index
    flags, carrier, mtu = (read_text(place / file) for file in ("flags", "carrier", "mtu"))
    return NetDevice(
        name=name,
        up=isinstance(flags, str) and bool((_number(flags, 16) or 0) & 1),  # IFF_UP
        carrier=carrier == "1" if isinstance(carrier, str) else None,
        mtu=_number(mtu, 10) if isinstance(mtu, str) else None,
    )


def _number(text: str, base: int) -> int | None:
    try:
        return int(text, base)
    except ValueError:
        return None
