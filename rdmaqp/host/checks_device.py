"""Is one device fit for a connection: its ports, its net devices, its addresses; and the way to a given peer."""

from __future__ import annotations

import socket
import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.host import network
from rdmaqp.host.answers import Unknown
from rdmaqp.host.line import Line, error, ok, unknown, warning
from rdmaqp.host.network import Neighbour, NetDevice, NoDevice, NoRoute, Route
from rdmaqp.host.path import ask_path
from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import GID, pick_gid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rdmaqp.host.path import PathAnswers
    from rdmaqp.host.sysfs import DeviceView, PortView
    from rdmaqp.model.gid import GidEntry

_ROOT = Path("/")
#: Seconds for a neighbour to answer: the kernel gives it one at INIT → RTR.
_ANSWER = 1.5
#: RoCE's MTUs, and the bytes of its headers on Ethernet that the net device's MTU must hold besides.
_MTUS, _HEADERS = (4096, 2048, 1024, 512, 256), 88


def device(view: DeviceView, root: Path = _ROOT) -> Iterator[Line]:
    """A device, its ports one by one."""
    what = ", ".join(part for part in (view.driver or "driver unknown", view.firmware and f"firmware {view.firmware}",
                                       view.parent and f"on {view.parent}") if part)  # fmt: skip
    if view.uverbs is None:
        yield error("device", f"{what}; no uverbs device: programs cannot open it", "modprobe ib_uverbs", view.name)
    else:
        yield ok("device", what, view.name)
    for each in view.ports:
        yield from port(view, each, root)


def port(view: DeviceView, each: PortView, root: Path = _ROOT) -> Iterator[Line]:
    """A port: up, with a net device that is up, and an address to send from."""
    about = f"{view.name}/{each.num}"
    if not each.is_roce:
        yield from _infiniband(about, each)
        return
    names = each.netdevs or ((view.parent,) if view.parent else ())
    if each.state == "ACTIVE":
        yield ok("port", f"ACTIVE, Ethernet, {each.rate}", about)
    else:
        mend = f"ip link set {names[0]} up" if names else "ip link set NETDEV up    # then the cable, the switch"
        yield error("port", f"{each.state or 'its state is unknown'}: the link is down", mend, about)
    for name in names:
        yield from net_device(name, about, root)
    yield from addresses(about, each, names)


def _infiniband(about: str, each: PortView) -> Iterator[Line]:
    if each.state == "ACTIVE":
        yield ok("port", f"ACTIVE, {each.link_layer or 'link layer unknown'}, {each.rate}, LID {each.lid:#x}", about)
    elif each.state in ("INIT", "ARMED"):
        yield error("port", f"{each.state}: the cable is there, and no subnet manager has configured the port",
                    "systemctl start opensm    # on one machine of the fabric", about)
    else:
        ask = f"ibstat {about.partition('/')[0]}    # then the cable, the switch"
        yield error("port", f"{each.state or 'its state is unknown'}: no link", ask, about)


def net_device(name: str, about: str, root: Path = _ROOT) -> Iterator[Line]:
    """The net device below a RoCE port."""
    found = network.net_device(name, root)
    if isinstance(found, Unknown):
        yield unknown("net device", f"{name}: {found.why}", f"ip link show {name}", about)
    elif isinstance(found, NoDevice):
        yield error("net device", found.why, "ip link    # in a container: give it that net device (Multus, macvlan, "
                    "host network)", about)
    elif not found.up:
        yield error("net device", f"{name} is down", f"ip link set {name} up", about)
    elif found.carrier is False:
        ask = f"ethtool {name}    # cable, transceiver, switch port"
        yield error("net device", f"{name} is up, and has no carrier", ask, about)
    else:
        yield _mtu(found, about)


def _mtu(found: NetDevice, about: str) -> Line:
    if found.mtu is None:
        return ok("net device", f"{found.name} is up", about)
    path = next((mtu for mtu in _MTUS if mtu + _HEADERS <= found.mtu), 256)
    more = "" if path == 4096 else "; 4200 would give 4096"
    return ok("net device", f"{found.name} is up, MTU {found.mtu}: RoCE packets of {path} bytes{more}", about)


def addresses(about: str, each: PortView, names: Sequence[str]) -> Iterator[Line]:
    """The GID table of a RoCE port: an address that others can reach."""
    name = names[0] if names else "NETDEV"
    mend = f"ip addr add ADDRESS/PREFIX dev {name}"
    choice = pick_gid(each.gids)
    if choice is None:
        yield error("addresses", "the GID table is empty", mend, about)
        return
    if all(entry.netdev == "" for entry in each.gids):
        yield error("addresses", "no GID has a net device in this network namespace: each use ends in ENODEV",
                    "docker run --network host …    # or give the container the net device of the RDMA device", about)
        return
    entry = choice.entry
    if entry.gid.is_link_local or entry.type is not GidType.ROCE_V2:
        yield warning("addresses", f"{entry} is the best: {choice.reason}; only neighbours reach it", mend, about)
    else:
        yield ok("addresses", f"{entry}: {choice.reason}", about)


# ---------------------------------------------------------------------- the peer

_GIVE = "give the address of the peer's RoCE net device"


def peer(host: str, devices: Sequence[DeviceView]) -> Iterator[Line]:
    """The way to *host* from each RoCE port: the route over its net device, and whether the next hop answers."""
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except OSError as problem:
        yield error("peer", f"no such host: {problem.strerror or problem}", _GIVE, host)
        return
    if all(ip_address(str(info[4][0]).partition("%")[0]).is_loopback for info in infos):
        yield error("peer", "a loopback address: no RDMA device has it", _GIVE, host)
        return
    targets = list(dict.fromkeys(GID.parse(str(info[4][0]).partition("%")[0]) for info in infos))
    ports = [(view, each) for view in devices for each in view.ports if each.is_roce]
    if not ports:
        yield unknown("peer", "no RoCE port here to go from" + ("; InfiniBand goes by LID: ibping" if devices else ""),
                      about=host)
        return
    for view, each in ports:
        yield from _from_port(host, targets, f"{view.name}/{each.num}", each)


def _from_port(host: str, targets: Sequence[GID], about: str, each: PortView) -> Iterator[Line]:
    about = f"{about} → {host}"
    for target in targets:
        source = _source(each, target)
        if source is None:
            continue
        yield from _way(about, source, target)
        return
    family = "IPv4" if targets[0].is_ipv4_mapped else "IPv6"
    name = each.netdevs[0] if each.netdevs else "NETDEV"
    yield error("peer", f"this port has no {family} address, and {network.ip_of(targets[0])} is one: RTR would end in "
                        f"EINVAL",
                f"ip addr add ADDRESS/PREFIX dev {name}", about)


def _source(each: PortView, target: GID) -> GidEntry | None:
    """The entry that a connection to *target* would start from: RoCE v2, of its family."""
    fit = [entry for entry in each.gids if entry.type is GidType.ROCE_V2 and entry.netdev
           and entry.gid.is_ipv4_mapped == target.is_ipv4_mapped
           and entry.gid.is_link_local == target.is_link_local]  # fmt: skip
    choice = pick_gid(fit)
    return choice.entry if choice is not None else None


def _way(about: str, source: GidEntry, target: GID) -> Iterator[Line]:
    answers = ask_path(source, target)
    way, to = answers.route, network.ip_of(target)
    if isinstance(way, NoRoute):
        add = f"ip route add {to} dev {source.netdev}    # or by a gateway"
        yield error("peer", f"no route to {to} over {source.netdev}: {way.why}", add, about)
    elif isinstance(way, Unknown):
        yield unknown("peer", f"the route: {way.why}", f"ip route get {to} oif {source.netdev}", about)
    elif way.local:
        yield ok("peer", f"{to} is this machine; from {source}", about)
    else:
        yield _hop(about, source, target, way, _neighbour(answers, way, to))


def _neighbour(answers: PathAnswers, way: Route, to: str) -> Neighbour | Unknown:
    """The next hop, asked anew if nobody knows it: a datagram makes the kernel look for it."""
    hop = answers.neighbour
    address = way.gateway or to
    if isinstance(hop, Neighbour) and hop.resolved:
        return hop
    _knock(address, way.dev)
    end = time.monotonic() + _ANSWER
    while True:
        found = network.neighbour(address, way.dev)
        if isinstance(found, Unknown) or found.resolved or found.state == "FAILED" or time.monotonic() > end:
            return found
        time.sleep(0.1)


def _knock(address: str, dev: str) -> None:
    """One datagram to the discard port (9): nobody reads it, and the neighbour is looked for."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
        if family == socket.AF_INET6:
            where = (address, 9, 0, socket.if_nametoindex(dev))
        with socket.socket(family, kind) as sock:
            # As RoCE does: over this net device, also where the route would lead over another. Since Linux 5.7 any
            # process may; before, with CAP_NET_RAW.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, dev.encode())
            sock.setblocking(False)  # noqa: FBT003 - it has no keyword
            sock.sendto(b"", where)
    except OSError:
        return  # not allowed, or refused: the neighbour table says what there is to say


def _hop(about: str, source: GidEntry, target: GID, way: Route, hop: Neighbour | Unknown) -> Line:
    to, next_hop = network.ip_of(target), way.gateway or network.ip_of(target)
    by = f"{source.gid} by {way.dev}" + (f", gateway {way.gateway}" if way.gateway else "")
    if isinstance(hop, Unknown):
        return unknown("peer", f"whether {next_hop} answers: {hop.why}", f"ip neigh show to {next_hop}", about)
    if hop.state == "NONE":
        return unknown("peer", f"whether {next_hop} answers: nobody has looked for it on {way.dev}", f"ping -c1 -I "
                       f"{way.dev} {next_hop}", about)  # fmt: skip
    if not hop.resolved:
        return _unanswered(about, target, next_hop, way, hop)
    if way.dev != source.netdev:
        ask = f"ip route get {to} oif {source.netdev}"
        return warning("peer", f"{to} is reached by {way.dev}, and the address is {source.netdev}'s", ask, about)
    return ok("peer", f"{to} from {by}: {hop.address} is {hop.state}, {hop.mac}", about)


def _unanswered(about: str, target: GID, next_hop: str, way: Route, hop: Neighbour) -> Line:
    """Nobody is there; or there is no route, and the kernel takes the destination to be on the net device's link."""
    end = "RTR would end in ETIMEDOUT after a second"
    if way.gateway is None and isinstance(network.route(target), NoRoute):
        return error("peer", f"no route to {next_hop}, so it is looked for on {way.dev} itself, where nobody answers "
                     f"({hop.state}): {end}", f"ip route add {next_hop} via GATEWAY dev {way.dev}", about)  # fmt: skip
    ask = f"ping -c1 -I {way.dev} {next_hop}; ip neigh show to {next_hop}    # is it up, on that network and rail?"
    return error("peer", f"nobody answers for {next_hop} on {way.dev} ({hop.state}): {end}", ask, about)
