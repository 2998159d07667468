"""The whole way from a source GID to a destination GID, as this machine sees it now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rdmaqp.host import network
from rdmaqp.host.answers import Unknown
from rdmaqp.host.network import Neighbour, NetDevice, NoDevice, NoRoute, Route

if TYPE_CHECKING:
    from rdmaqp.model.gid import GID, GidEntry


@dataclass(frozen=True, slots=True)
class PathAnswers:
    """What this machine answered of one path.

    Attributes:
        device: the net device of the source GID.
        route: the way to the destination over it.
        neighbour: the next hop; ``None`` where there is no route to ask for, or the destination is this machine.
    """

    device: NetDevice | NoDevice | Unknown
    route: Route | NoRoute | Unknown
    neighbour: Neighbour | Unknown | None

    def __str__(self) -> str:
        parts = [_of_device(self.device) if isinstance(self.device, NetDevice) else self.device.why]
        parts.append(f"route {self.route.why if isinstance(self.route, (NoRoute, Unknown)) else self.route}")
        if isinstance(self.neighbour, Neighbour):
            mac = f" {self.neighbour.mac}" if self.neighbour.mac else ""
            parts.append(f"neighbour {self.neighbour.address} {self.neighbour.state}{mac}")
        elif self.neighbour is not None:
            parts.append(f"neighbour {self.neighbour}")
        return "; ".join(parts)


def _of_device(device: NetDevice) -> str:
    carrier = {True: "", False: ", no carrier", None: ""}[device.carrier]
    return f"{device.name} is {'up' if device.up else 'down'}{carrier}, MTU {device.mtu}"


def ask_path(source: GidEntry, destination: GID) -> PathAnswers:
    """Ask this machine for the way from *source* to *destination*. It takes some milliseconds, and changes nothing."""
    dev = source.netdev
    if not dev:  # the kernel asks for the route over it: over another one the answer would be another
        missing = Unknown("the GID has none in this network namespace")
        return PathAnswers(missing, missing, None)
    device = network.net_device(dev)
    way = network.route(destination, source.gid, dev)
    hop: Neighbour | Unknown | None = None
    if isinstance(way, Route) and not way.local:
        hop = network.neighbour(way.gateway or network.ip_of(destination), way.dev)
    return PathAnswers(device, way, hop)
