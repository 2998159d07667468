"""Our own end of a global route: the entry of the GID table that it starts from, and which would be better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import GID, GidEntry, pick_gid, rank

if TYPE_CHECKING:
    from rdmaqp.guard.addressing import Path
    from rdmaqp.model.attributes import GlobalRoute

_EMPTY = bytes(16)
_ROCE_V1, _ROCE_V2 = GidType.ROCE_V1, GidType.ROCE_V2
_GID_WORDS = {_ROCE_V1: "RoCE v1", _ROCE_V2: "RoCE v2"}


def entry(path: Path, route: GlobalRoute) -> GidEntry | None:
    """The entry of our own table; findings where it cannot serve, ``None`` where there is none or it is unknown."""
    index, length, request = route.sgid_index, path.port.gid_tbl_len, path.request
    if index is None:
        path.report.skip("sgid-empty", _field(path))
        return None
    if type(index) is not int or not 0 <= index <= 0xFF:
        return None  # values.py says so
    if length is not None and index >= length:
        path.report.find("sgid-range", _field(path), f"{index} is past the end of the GID table", given=index,
                         allowed=f"0…{length - 1}", fix=best(path))
        return None
    found = request.gids.get(index) if path.knows_gids else None
    if found is None and not (path.knows_gids and request.gids_complete):
        path.report.skip("sgid-empty", f"gids[{index}]")
        return None
    if found is None or found.gid == _EMPTY:
        path.report.find("sgid-empty", _field(path), f"slot {index} of the GID table is empty", given=index,
                         allowed=_used(path), fix=best(path))
        return None
    _usable(path, route, found)
    if path.ethernet and (found.type is _ROCE_V1 or found.gid[0] == 0xFE):
        _second_best(path, route, found)
    return found


def _usable(path: Path, route: GlobalRoute, found: GidEntry) -> None:
    types, told = path.driver.gid_types, path.request.qp.sgid
    if types is not None and found.type is not None and found.type not in types:
        kinds = ", ".join(sorted(_GID_WORDS.get(kind, kind.name) for kind in types))
        path.report.find("sgid-driver", _field(path), f"{found}: {path.driver.name} sends from {kinds} only",
                         given=found.index, fix=best(path, found.index), source=path.driver.source)
    if path.ethernet and found.netdev == "" and not _by_mac(found, route):
        path.report.find("sgid-netdev", _field(path), f"{found} belongs to no net device of this network namespace",
                         given=found.index, fix=best(path, found.index) or "run where its net device is: the other "
                         "network namespace, a container with --network=host")
    if told is not None and told != found.gid and path.connected:
        entries = path.request.gids.values()
        now = next((other.index for other in entries if other.gid == told and other.type is found.type), None)
        path.report.find("sgid-moved", _field(path), f"the peer was told {told}, and slot {found.index} now holds "
                         f"{found.gid}", given=found.index,
                         fix=f"sgid_index={now}" if now is not None else "tell the peer the new GID")


def _by_mac(found: GidEntry, route: GlobalRoute) -> bool:
    """RoCE v1 to a link-local address asks no net device."""
    if found.type is not _ROCE_V1:
        return False
    try:
        return GID.parse(route.dgid).is_link_local
    except ValueError:
        return False


def _second_best(path: Path, route: GlobalRoute, found: GidEntry) -> None:
    """A link-local or RoCE v1 source where the table has a better one."""
    others = [
        other for other in path.request.gids.values() if other.type is _ROCE_V2 and not other.gid.is_zero
    ]
    routable = any(rank(other)[0] <= 1 for other in others)
    if found.type is _ROCE_V2 and routable:
        path.report.find("sgid-link-local", _field(path), f"{found} is link-local, and a routable RoCE v2 entry "
                         "exists", given=found.index, fix=_with_peer(path, route, best(path)))
    if found.type is _ROCE_V1:
        twin = next((other.index for other in others if other.gid == found.gid), None)
        if twin is not None:  # a link-local twin is better by half only
            better = best(path, found.index) if found.gid.is_link_local and routable else f"sgid_index={twin}"
            path.report.find("sgid-roce-v1", _field(path), f"{found}: the same address exists as RoCE v2",
                             given=found.index, fix=_with_peer(path, route, better))


def _with_peer(path: Path, route: GlobalRoute, better: str | None) -> str | None:
    """*better*, and the peer's address too where that is of the other family: one without the other is EINVAL."""
    index = (better or "").removeprefix("sgid_index=").partition(" ")[0]
    entry = path.request.gids.get(int(index)) if index.isdigit() else None
    try:
        target = GID.parse(route.dgid)
    except ValueError:
        return better
    if better is None or entry is None or entry.gid.is_ipv4_mapped == target.is_ipv4_mapped:
        return better
    return f"{better}; with the peer's {'IPv4' if entry.gid.is_ipv4_mapped else 'IPv6'} GID as dgid"


def best(path: Path, but: int | None = None) -> str | None:
    """A source address that would do, other than the slot *but*, and why."""
    types = path.driver.gid_types
    choice = pick_gid(
        entry for entry in path.request.gids.values()
        if entry.index != but and entry.netdev != "" and (types is None or entry.type is None or entry.type in types)
    ) if path.knows_gids else None
    if choice is None:
        return None
    return f"sgid_index={choice.entry.index} is {choice.entry.gid} ({choice.reason.split(';')[0]})"


def of_family(path: Path, *, ipv4: bool) -> str | None:
    """The best entry of one family."""
    entries = path.request.gids.values() if path.knows_gids else ()
    choice = pick_gid(entry for entry in entries if entry.gid.is_ipv4_mapped == ipv4 and entry.netdev != "")
    return None if choice is None else f"sgid_index={choice.entry.index}"


def _used(path: Path) -> str | None:
    used = sorted(entry.index for entry in path.request.gids.values() if not entry.is_empty)
    return ", ".join(map(str, used[:8])) + (", …" if len(used) > 8 else "") if used else None


def _field(path: Path) -> str:
    return f"{path.name}.grh.sgid_index"
