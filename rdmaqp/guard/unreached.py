"""The errors of the core's address look-up: source entry, route, net device, neighbour."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from rdmaqp.errors import errno_name
from rdmaqp.guard.report import shown
from rdmaqp.guard.scene import SOFTWARE
from rdmaqp.host.answers import Unknown
from rdmaqp.host.network import Neighbour, NetDevice, NoDevice, NoRoute, Route
from rdmaqp.model.attributes import GlobalRoute

if TYPE_CHECKING:
    from rdmaqp.guard.cause import Sheet, Standing
    from rdmaqp.guard.scene import Scene

#: What the look-up does not see, and so cannot be the reason of its errors.
_NOT_SEEN = (
    "path_mtu", "psn", "dest_qp_num", "lid", "rd_atomic", "pkey_index", "min_rnr_timer", "mask", "transition",
)  # fmt: skip
_ASKED_LATER = "the table is asked after the address look-up, and answers EINVAL"


def judge(scene: Scene, sheet: Sheet, number: int) -> None:
    """Errors of the look-up, where this call makes one."""
    if number == errno.ENODATA:
        _no_entry(scene, sheet)
    elif scene.unasked:
        sheet.rule_out(("neighbour-unresolved", "route-missing"), scene.unasked)
        return
    elif number == errno.ETIMEDOUT:
        _neighbour(scene, sheet)
        _route_of_a_timeout(scene, sheet)
    elif number == errno.ENODEV:
        _net_device(scene, sheet)
    else:
        _route(scene, sheet, number)
    _rule_out(scene, sheet, number)


def _rule_out(scene: Scene, sheet: Sheet, number: int) -> None:
    name = errno_name(number)
    why = f"{name} comes from the address look-up, which sees sgid_index and dgid alone"
    if scene.act != "modify":
        sheet.rule_out(("path_mtu", "psn", "dest_qp_num", "lid"), why)
        return
    if scene.roce is False:
        why = f"{name} comes from the look-up of sgid_index, which sees nothing else"
    wrong = {f.rule.split("-")[0] for f in scene.report.errors if f.rule.startswith(("mask-", "transition-"))}
    for cause in _NOT_SEEN:
        more = "; it is wrong too, and would be refused next" if cause in wrong else ""
        later = _ASKED_LATER if cause in ("mask", "transition") else why
        sheet.add(cause, "ruled-out", later + more)
    if number != errno.ETIMEDOUT:
        sheet.rule_out(("neighbour-unresolved",), "an unanswered neighbour is ETIMEDOUT, after a second")
    if number == errno.ENODATA:
        sheet.rule_out(("route-missing",), "a missing route is ENETUNREACH or EHOSTUNREACH, at once")


def _no_entry(scene: Scene, sheet: Sheet) -> None:
    route = scene.address.grh if scene.address is not None else None
    standing: Standing = "likely"
    what = "the slot that sgid_index names"
    if isinstance(route, GlobalRoute):
        standing, what = "proved", f"slot {shown(route.sgid_index)} of the GID table"
    there = ""
    if scene.source is not None and not scene.source.is_empty:
        there = f"; it held {scene.source.gid} when the table was read, so it has changed"
    sheet.add("sgid-empty", standing, f"{what} was empty when the kernel looked{there}. Read the table anew before "
              "each RTR: addresses move when a link flaps")


def _neighbour(scene: Scene, sheet: Sheet) -> None:
    hop = scene.machine.neighbour if scene.machine is not None else None
    standing: Standing = "likely"
    if scene.driver in SOFTWARE and scene.roce:
        standing = "proved"  # nothing else behind this driver could time out
    seen = ""
    if isinstance(hop, Neighbour):
        standing = "proved" if hop.state in ("FAILED", "INCOMPLETE") else standing
        seen = f" This machine says: {scene.machine}."
        if hop.resolved:
            standing = "likely"
            seen += " It has answered by now: try again (a first contact can take a second)."
    elif isinstance(hop, Unknown):
        seen = f" Its entry could not be read ({hop.why})."
    sheet.add("neighbour-unresolved", standing, f"nobody answered for {scene.way} (ARP or neighbour discovery, for one "
              f"second).{seen} Is the peer up, on that network and rail, with that address? "
              f"`ping{_by_device(scene)} {_destination(scene)}`, `ip neigh`")
    if scene.roce is None:
        sheet.add("firmware-refused", "likely", "should the port be InfiniBand, a command of the firmware timed out: "
                  "see dmesg")


def _route_of_a_timeout(scene: Scene, sheet: Sheet) -> None:
    """IPv4 without a route times out too: the look-up is tied to the net device, and takes all to be on its link."""
    way = scene.machine.route if scene.machine is not None else None
    if scene.target is not None and not scene.target.is_ipv4_mapped:
        sheet.rule_out(("route-missing",), "a missing IPv6 route is ENETUNREACH or EHOSTUNREACH, at once")
    elif isinstance(way, NoRoute):
        sheet.add("route-missing", "likely", f"this machine has no route to {scene.way} ({way.why}), so the kernel "
                  f"looked for it on the link itself. `ip route get {_destination(scene)}`")
    elif isinstance(way, Route):
        sheet.rule_out(("route-missing",), f"this machine has one: {scene.machine}")
    elif scene.roce is not False:
        sheet.add("route-missing", "likely", "or there is no route: an IPv4 address is then looked for on the net "
                  f"device's own link, where nobody answers. `ip route get {_destination(scene)}`")


def _by_device(scene: Scene) -> str:
    return f" -I {scene.source.netdev}" if scene.source is not None and scene.source.netdev else ""


def _destination(scene: Scene) -> str:
    return str(scene.target).removeprefix("::ffff:") if scene.target is not None else "PEER"


def _net_device(scene: Scene, sheet: Sheet) -> None:
    if sheet.explained:
        return
    there = scene.machine.device if scene.machine is not None else None
    seen = f" This machine says: {scene.machine}." if scene.machine is not None else ""
    named = ""
    if scene.source is not None and scene.source.netdev:
        named = f" ({scene.source.netdev} when the table was read)"
    is_gone = isinstance(there, NoDevice) or (isinstance(there, NetDevice) and not there.up)
    sheet.add("netdev-missing", "proved" if is_gone and named else "likely", f"the net device of the source GID{named} "
              "is down or gone, lives in another network namespace (a container that sees the host's GIDs), or the "
              f"route leads over one that is not this port's.{seen} `ip link`, and in a container its own network")
    sheet.add("device-missing", "likely", "or the RDMA device itself was just removed: `rdma link`")


def _route(scene: Scene, sheet: Sheet, number: int) -> None:
    way = scene.machine.route if scene.machine is not None else None
    if isinstance(way, NoRoute):
        seen = f" This machine says: {way.why}."
    else:
        seen = f" This machine says now: {scene.machine}." if scene.machine is not None else ""
    of_source = " The source address may have gone (IPv6 switched off?)." if number == errno.EADDRNOTAVAIL else ""
    is_known = scene.roce is not None or isinstance(way, NoRoute)
    dev = f" oif {scene.source.netdev}" if scene.source is not None and scene.source.netdev else ""
    sheet.add("route-missing", "proved" if is_known else "likely", f"no route to {scene.way}, or its net device is "
              f"down.{of_source}{seen} `ip route get {_destination(scene)}{dev}`; rails that do not reach each other "
              "need a route, or another sgid_index")
