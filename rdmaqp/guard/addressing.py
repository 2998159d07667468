"""Can an address vector lead anywhere: its port, its route, its destination, on this link layer?

The source of a global route, an entry of our own GID table, is looked at in :mod:`.source`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rdmaqp.guard import source
from rdmaqp.guard.case import STATE, is_ethernet, is_iwarp
from rdmaqp.guard.limits import inactive
from rdmaqp.guard.limits import port as has_port
from rdmaqp.guard.report import shown
from rdmaqp.model.attributes import RATES, AddressVector, GlobalRoute
from rdmaqp.model.enums import GidType, LinkLayer, QPState, QPType
from rdmaqp.model.gid import GID, GidEntry

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case
    from rdmaqp.guard.drivers import Driver
    from rdmaqp.guard.report import Report
    from rdmaqp.model.facts import PortFacts
    from rdmaqp.model.request import Request

_NO_PEER = frozenset({GID(bytes(15) + b"\1"), GID.parse("0.0.0.0"), GID.parse("255.255.255.255")})  # noqa: S104

_INFINIBAND = LinkLayer.INFINIBAND
_RTR, _UD, _ROCE_V1 = QPState.RTR, QPType.UD, GidType.ROCE_V1

#: What kind of address a GID is, as bits.
ZERO, MULTICAST, IPV4, LINK_LOCAL, NO_PEER, LOOPBACK = 1, 2, 4, 8, 16, 32


@lru_cache(4096)  # the same few come again and again, and four questions to 16 bytes cost more than one look-up
def kind_of_gid(gid: GID) -> int:
    """The bits of *gid*."""
    mapped = gid.is_ipv4_mapped
    bits = (gid.is_zero, gid.is_multicast, mapped, gid.is_link_local, gid in _NO_PEER, mapped and gid[12] == 127)
    return sum(1 << place for place, bit in enumerate(bits) if bit)


class Path:
    """One address vector, and what is known of where it starts.

    Attributes:
        name: how the caller calls it: ``ah_attr``, ``alt_ah_attr`` or ``ah``.
        connected: whether it is a connected queue pair's; else it is a datagram's.
        resolves: whether the kernel looks for the destination. In a datagram queue pair's own vector it never does.
        port: the facts of its port.
        ethernet, infiniband: what that port speaks; both false where unknown.
        knows_gids: whether ``request.gids`` is the table of that port.
    """

    __slots__ = (
        "connected", "driver", "ethernet", "infiniband", "knows_gids", "name", "port", "report", "request", "resolves",
    )  # fmt: skip

    def __init__(
        self, report: Report, request: Request, driver: Driver, name: str, port: PortFacts,
        ethernet: bool | None,  # noqa: FBT001 - a keyword costs on each call
    ) -> None:  # fmt: skip
        self.report = report
        self.request = request
        self.driver = driver
        self.name = name
        self.port = port
        self.ethernet = ethernet
        self.infiniband = port.link_layer is _INFINIBAND
        self.connected = name != "ah"
        self.resolves = True
        self.knows_gids = port is request.port


def check(case: Case, name: str, address: AddressVector) -> None:
    """The path of a modify call, the primary or the alternate one."""
    number = address.port_num
    if number is None:
        case.report.skip("port-range", f"{name}.port_num")
    elif type(number) is int and not (number == 1 and case.request.device.phys_port_cnt):
        there = has_port(case.report, case.request, f"{name}.port_num", number, only_first=case.driver.first_port_only)
        if not there and name == "alt_ah_attr" and case.ethernet is False:
            return None  # a port that is not there has no link layer to ask about
    if name == "alt_ah_attr":
        return _alternate(case, address)
    if case.mask & STATE and case.goal is _RTR and (number is None or case.request.qp.port_num != number):
        _bound_port(case, number)
    if not case.iwarp:
        path = Path(case.report, case.request, case.driver, name, case.port, case.ethernet)
        path.connected = path.resolves = case.type is not _UD
        judge(path, address)
    return None


def handle(report: Report, request: Request, driver: Driver, address: AddressVector) -> None:
    """The path of a new address handle."""
    number = address.port_num
    if number is None:
        report.skip("port-range", "ah.port_num")
    elif type(number) is int:
        has_port(report, request, "ah.port_num", number, only_first=driver.first_port_only)
    port = request.port if number is None or request.port.num is None else request.port_facts(number)
    if port is None:
        return report.skip("grh-missing", f"ports[{number}]")
    inactive(report, port, "ah.port_num")
    iwarp = is_iwarp(request, driver)
    if not iwarp:
        ethernet = is_ethernet(request, driver, port)
        judge(Path(report, request, driver, "ah", port, ethernet), address)
    return None


def _bound_port(case: Case, number: object) -> None:
    bound = case.request.qp.port_num
    if bound is None:
        case.report.skip("port-mismatch", "qp.port_num")
    elif number is None:
        case.report.skip("port-mismatch", "ah_attr.port_num")
    elif type(number) is int and number != bound:
        case.report.find("port-mismatch", "ah_attr.port_num", f"{number} is not the port that INIT bound the queue "
                         f"pair to, {bound}", given=number, allowed=str(bound), fix=f"port_num={bound}")


def _alternate(case: Case, address: AddressVector) -> None:
    request, number = case.request, address.port_num
    port = request.port_facts(number)
    ethernet = is_ethernet(request, case.driver, port) if port is not None else None
    if case.iwarp or case.ethernet or ethernet:
        case.report.find("alt-path-roce", "alt_ah_attr", "RoCE and iWARP have no alternate path" if case.ethernet
                         or case.iwarp else f"port {number} is Ethernet, and RoCE has no alternate path",
                         given="ALT_PATH", fix="leave the alt_* attributes out")
    elif port is None:
        case.report.skip("alt-path-roce", f"ports[{number}]")
    else:
        path = Path(case.report, request, case.driver, "alt_ah_attr", port, ethernet)
        judge(path, address)


def judge(path: Path, address: AddressVector) -> None:
    """What core, driver and link layer have to say to an address vector."""
    route = address.grh
    uses_route = address.uses_grh
    if route is not None and uses_route:
        entry = source.entry(path, route)
        destination = _destination(path, route)
        if entry is not None and destination is not None and path.resolves:
            _meet(path, route, entry, destination)
    elif route is not None and path.ethernet is not True and _is_filled(route):
        path.report.find("grh-ignored", path.name, "a global route is given, and is_global is 0: it is ignored",
                         given=0, allowed="1", fix="is_global=1, or leave grh out")
    if route is None or not uses_route:
        _without_route(path)
    if path.infiniband:
        _lids(path, address)
    if address.static_rate != 0:
        _rate(path, address.static_rate)
    level = address.sl
    if path.ethernet and type(level) is int and path.driver.max_sl_ethernet < level <= 15:
        path.report.find("value-driver", f"{path.name}.sl", f"{level}: {path.driver.name} takes three bits of it on "
                         "Ethernet", given=level, allowed=f"0…{path.driver.max_sl_ethernet}",
                         source=path.driver.source)


def _without_route(path: Path) -> None:
    if path.ethernet is None and not path.infiniband and path.port.link_layer is None:
        path.report.skip("grh-missing", "port.link_layer")
    elif path.ethernet or path.port.grh_required:
        index = source.best(path)
        why = "RoCE has no other address" if path.ethernet else "this InfiniBand port requires it"
        path.report.find("grh-missing", path.name, f"no global route (is_global is 0): {why}", given=0, allowed="1",
                         fix=f"is_global=1 with a grh: dgid=<the peer's GID>, {index or 'sgid_index=…'}")


def _is_filled(route: GlobalRoute) -> bool:
    try:
        empty = route.dgid is None or GID.parse(route.dgid).is_zero
    except ValueError:
        empty = False
    return not empty or any((route.sgid_index, route.flow_label, route.traffic_class, route.hop_limit))


def _lids(path: Path, address: AddressVector) -> None:
    dlid, bits = address.dlid, address.src_path_bits
    lmc = min(path.port.lmc or 0, 7)
    if type(bits) is int and 0 <= bits <= 0x7F and bits >> lmc:
        path.report.find("src-path-bits", f"{path.name}.src_path_bits", f"{bits} is above what the port's LMC of "
                         f"{lmc} leaves free", given=bits, allowed=f"0…{(1 << lmc) - 1}", fix="src_path_bits=0")
    field = f"{path.name}.dlid"
    if dlid is None and not path.driver.wide_lids:
        path.report.skip("dlid-invalid", field)
    if path.driver.wide_lids or type(dlid) is not int:
        return
    if dlid == 0 and address.uses_grh:
        path.report.find("dlid-invalid", field, "0 with a global route: the packet has no next hop on this subnet",
                         severity="warning", given=0, fix="give the peer's LID, or the router's")
    elif dlid <= 0 or (dlid > 0xBFFF and path.connected):
        path.report.find("dlid-invalid", field, f"{shown(dlid)} is not a unicast LID", given=dlid, allowed="1…0xbfff",
                         fix="give the LID that the peer's port says")


def _rate(path: Path, value: Any) -> None:
    code = RATES.get(value) if isinstance(value, str) else value
    if type(code) is int and path.driver.rate_high < code <= 24:
        path.report.find("value-driver", f"{path.name}.static_rate", f"{path.driver.name} does not know rate {value}",
                         given=value, allowed=f"0, 2…{path.driver.rate_high}", fix="0 is as fast as the port",
                         source=path.driver.source)


def _destination(path: Path, route: GlobalRoute) -> GID | None:
    field, value = f"{path.name}.grh.dgid", route.dgid
    if value is None:
        path.report.skip("dgid-invalid", field)
        return None
    try:
        gid = value if type(value) is GID else GID.parse(value)
    except ValueError as error:
        path.report.find("value-type", field, str(error), given=repr(value))
        return None
    kind = kind_of_gid(gid)
    if not kind & (ZERO | MULTICAST | NO_PEER):
        return gid
    if kind & ZERO:
        what = "empty"
    elif path.connected and kind & MULTICAST and (path.ethernet or not kind & IPV4):
        what = "a multicast address"
    elif path.connected and path.ethernet and kind & NO_PEER:
        what = "no unicast peer's"
    else:
        return gid
    whose = "no connected queue pair has it" if path.connected else "nobody has it"
    path.report.find("dgid-invalid", field, f"{gid} is {what}: {whose}", given=str(gid),
                     fix="give the GID that the peer says")
    return None


def _meet(path: Path, route: GlobalRoute, entry: GidEntry, destination: GID) -> None:
    """Whether source and destination are of one family, and the packet lives long enough."""
    ours, theirs = kind_of_gid(entry.gid), kind_of_gid(destination)
    if path.ethernet and (ours ^ theirs) & IPV4 and not theirs & MULTICAST and not _by_mac(entry, theirs):
        family, other = ("IPv4", "IPv6") if ours & IPV4 else ("IPv6", "IPv4")
        match = source.of_family(path, ipv4=bool(theirs & IPV4))
        path.report.find("gid-family-mismatch", f"{path.name}.grh.dgid", f"{destination} is {other}, and our {entry} "
                         f"is {family}", given=str(destination),
                         fix=f"{match} is {other}" if match else f"ask the peer for its {family} GID")
    elif path.ethernet and path.connected and theirs & ~ours & LOOPBACK:
        path.report.find("dgid-invalid", f"{path.name}.grh.dgid", f"{destination} is this host itself, and our {entry} "
                         "is an address on a network: the kernel looks for it there, in vain", given=str(destination),
                         fix="give the GID that the peer says; for a peer on this host, the device's own")
    # On RoCE the kernel takes the route's own hop limit for connected queue pairs.
    if route.hop_limit in _LOW_HOPS and (path.infiniband or not path.connected):
        outside = entry.gid.subnet_prefix != destination.subnet_prefix
        if outside and not (ours | theirs) & IPV4 and not theirs & (LINK_LOCAL | MULTICAST):
            path.report.find("hop-limit-low", f"{path.name}.grh.hop_limit", f"{route.hop_limit} does not leave this "
                             f"subnet, and {destination} is on another", given=route.hop_limit, fix="hop_limit=64")


_LOW_HOPS = (0, 1)


def _by_mac(entry: GidEntry, destination: int) -> bool:
    """RoCE v1 to a link-local address: the kernel takes the MAC from the GID, and asks neither route nor device."""
    return entry.type is _ROCE_V1 and bool(destination & LINK_LOCAL)
