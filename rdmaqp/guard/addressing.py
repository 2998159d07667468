"""Can the address vector lead anywhere: its route, its source, its destination, on this link layer?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.model.attributes import AddressVector, GlobalRoute, as_int
from rdmaqp.model.enums import AttrMask, GidType, QPState
from rdmaqp.model.gid import GID, GidEntry, pick_gid, rank

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case


def check(case: Case) -> None:
    """The primary path, the alternate path, the destination queue pair."""
    address = case.value("ah_attr", AttrMask.AV)
    if isinstance(address, AddressVector):
        _address(case, "ah_attr", address)
        _bound_port(case, address)
    if case.sets(AttrMask.ALT_PATH):
        _alternate(case)
    number = as_int(case.value("dest_qp_num", AttrMask.DEST_QPN))
    if number in (0, 1):
        case.find("qpn-reserved", "dest_qp_num", f"{number} is a management queue pair, never a peer", given=number,
                  allowed="2…0xffffff", fix="give the number that the peer says")


def _bound_port(case: Case, address: AddressVector) -> None:
    bound = case.request.qp.port_num
    if case.goal is not QPState.RTR or as_int(address.port_num) is None:
        return
    if bound is None:
        case.skip("port-mismatch", "qp.port_num")
    elif address.port_num != bound:
        case.find("port-mismatch", "ah_attr.port_num", f"{address.port_num} is not the port that INIT bound the queue "
                  f"pair to, {bound}", given=address.port_num, allowed=str(bound), fix=f"port_num={bound}")


def _alternate(case: Case) -> None:
    if case.is_ethernet:
        case.find("alt-path-roce", "alt_ah_attr", "RoCE and iWARP have no alternate path", given="ALT_PATH",
                  fix="leave the alt_* attributes out")
        return
    address = case.given.get("alt_ah_attr")
    if not isinstance(address, AddressVector):
        return
    if "alt_port_num" in case.given and case.given["alt_port_num"] != address.port_num:
        case.find("port-mismatch", "alt_ah_attr.port_num", f"{address.port_num} is not alt_port_num, "
                  f"{case.given['alt_port_num']}", given=address.port_num)
    if address.port_num == case.request.port.num:  # nothing is known of another port's tables
        _address(case, "alt_ah_attr", address)


def _address(case: Case, name: str, address: AddressVector) -> None:
    if address.grh is not None and address.uses_grh:
        destination = _destination(case, f"{name}.grh", address.grh)
        source = _source(case, f"{name}.grh", address.grh)
        if source is not None and destination is not None:
            _families(case, f"{name}.grh", source, destination)
            _hops(case, f"{name}.grh", address.grh, source, destination)
    elif address.grh is not None:
        case.find("grh-ignored", name, "a global route is given, and is_global is 0: it is ignored",
                  fix="is_global=1, or leave grh out")
    _link_layer(case, name, address)


def _link_layer(case: Case, name: str, address: AddressVector) -> None:
    ethernet, port = case.is_ethernet, case.request.port
    if ethernet is None and not address.uses_grh:
        case.skip("grh-missing", "port.link_layer")
    elif (ethernet or port.grh_required) and (not address.uses_grh or address.grh is None):
        best = pick_gid(case.request.gids.values())
        index = f"sgid_index={best.entry.index}" if best is not None else "sgid_index=…"
        why = "RoCE has no other address" if ethernet else "this InfiniBand port requires it"
        case.find("grh-missing", name, f"no global route (is_global is 0): {why}", given=0, allowed="1",
                  fix=f"grh=GlobalRoute(dgid=<the peer's GID>, {index})")
    if case.is_infiniband and as_int(address.dlid) is not None:
        _dlid(case, name, address)
    if ethernet and (as_int(address.sl) or 0) > case.driver.max_sl_ethernet:
        case.find("value-driver", f"{name}.sl", f"{address.sl} is cut to three bits on Ethernet by "
                  f"{case.request.device.driver}", given=address.sl, allowed=f"0…{case.driver.max_sl_ethernet}",
                  source=case.driver.source)


def _dlid(case: Case, name: str, address: AddressVector) -> None:
    if case.request.device.driver == "hfi1":  # its LIDs are wider than 16 bits
        return
    if address.uses_grh and address.dlid == 0:
        case.find("dlid-invalid", f"{name}.dlid", "0 with a global route: the packet has no next hop on this subnet",
                  severity="warning", given=0, fix="give the peer's LID, or the router's")
    elif not 1 <= address.dlid <= 0xBFFF and (not address.uses_grh or address.dlid <= 0xFFFF):
        case.find("dlid-invalid", f"{name}.dlid", f"{address.dlid:#x} is not a unicast LID", given=address.dlid,
                  allowed="1…0xbfff", fix="give the LID that the peer's port says")


def _destination(case: Case, name: str, route: GlobalRoute) -> GID | None:
    try:
        gid = GID.parse(route.dgid)
    except ValueError as error:
        case.find("value-type", f"{name}.dgid", str(error), given=repr(route.dgid)[:80])
        return None
    if gid.is_zero or gid.is_multicast:
        case.find("dgid-invalid", f"{name}.dgid", f"{gid} is {'empty' if gid.is_zero else 'a multicast address'}: no "
                  "connected queue pair has it", given=str(gid), fix="give the GID that the peer says")
        return None
    return gid


def _source(case: Case, name: str, route: GlobalRoute) -> GidEntry | None:
    """The entry of our own table; findings where it cannot serve."""
    index, field = as_int(route.sgid_index), f"{name}.sgid_index"
    request = case.request
    if index is None or not 0 <= index <= 0xFF:
        return None  # values.py says so
    length = request.port.gid_tbl_len
    if length is not None and index >= length:
        case.find("sgid-range", field, f"{index} is past the end of the GID table", given=index,
                  allowed=f"0…{length - 1}", fix=_better(case))
        return None
    entry = request.gids.get(index)
    if entry is None and not request.gids_complete:
        case.skip("sgid-empty", f"gids[{index}]")
        return None
    if entry is None or entry.is_empty:
        case.find("sgid-empty", field, f"slot {index} of the GID table is empty", given=index,
                  allowed=_used(case), fix=_better(case))
        return None
    _entry(case, field, entry)
    return entry


def _entry(case: Case, field: str, entry: GidEntry) -> None:
    types = case.driver.gid_types
    if types is not None and entry.type is not None and entry.type not in types:
        case.find("sgid-driver", field, f"{entry}: {case.request.device.driver} sends from "
                  f"{', '.join(sorted(kind.name for kind in types))} only", given=entry.index, fix=_better(case, entry.index),
                  source=case.driver.source)
    if case.is_ethernet and entry.netdev == "":
        case.find("sgid-netdev", field, f"{entry} belongs to no net device of this network namespace",
                  given=entry.index, fix=_better(case, entry.index))
    told = case.request.qp.sgid
    if told is not None and told != entry.gid:
        now = next((e.index for e in case.request.gids.values() if e.gid == told and e.type is entry.type), None)
        case.find("sgid-moved", field, f"the peer was told {told}, and slot {entry.index} now holds {entry.gid}",
                  given=entry.index, fix=f"sgid_index={now}" if now is not None else "tell the peer the new GID")
    if not case.is_ethernet:
        return
    others = [other for other in case.request.gids.values() if other.type is GidType.ROCE_V2 and not other.is_empty]
    if entry.type is GidType.ROCE_V2 and entry.gid.is_link_local and any(rank(other)[0] <= 1 for other in others):
        case.find("sgid-link-local", field, f"{entry} is link-local, and a routable RoCE v2 entry exists",
                  given=entry.index, fix=_better(case, entry.index))
    if entry.type is GidType.ROCE_V1:
        twin = next((other.index for other in others if other.gid == entry.gid), None)
        if twin is not None:
            case.find("sgid-roce-v1", field, f"{entry}: the same address exists as RoCE v2", given=entry.index,
                      fix=f"sgid_index={twin}")


def _families(case: Case, name: str, source: GidEntry, destination: GID) -> None:
    if case.is_ethernet and source.gid.is_ipv4_mapped != destination.is_ipv4_mapped:
        ours, theirs = ("IPv4", "IPv6") if source.gid.is_ipv4_mapped else ("IPv6", "IPv4")
        match = pick_gid(e for e in case.request.gids.values() if e.gid.is_ipv4_mapped == destination.is_ipv4_mapped)
        case.find("gid-family-mismatch", f"{name}.dgid", f"{destination} is {theirs}, and our {source} is {ours}",
                  given=str(destination),
                  fix=f"sgid_index={match.entry.index} is {theirs}" if match else f"ask the peer for its {ours} GID")


def _hops(case: Case, name: str, route: GlobalRoute, source: GidEntry, destination: GID) -> None:
    # On RoCE the kernel takes the route's own hop limit for connected queue pairs.
    if not case.is_infiniband or source.gid.subnet_prefix == destination.subnet_prefix or destination.is_ipv4_mapped:
        return
    if route.hop_limit in (0, 1):
        case.find("hop-limit-low", f"{name}.hop_limit", f"{route.hop_limit} does not leave this subnet, and "
                  f"{destination} is on another", given=route.hop_limit, fix="hop_limit=64")


def _used(case: Case) -> str | None:
    used = sorted(entry.index for entry in case.request.gids.values() if not entry.is_empty)
    return ", ".join(map(str, used[:8])) + (", …" if len(used) > 8 else "") if used else None


def _better(case: Case, but: int | None = None) -> str | None:
    """A source address that would do, other than the slot *but*."""
    types = case.driver.gid_types
    best = pick_gid(
        entry for entry in case.request.gids.values()
        if entry.index != but and entry.netdev != "" and (types is None or entry.type is None or entry.type in types)
    )
    return None if best is None else f"sgid_index={best.entry.index} is {best.entry.gid} ({best.reason.split(';')[0]})"
