"""What to ask the machine next, cause by cause: commands, with what the log has filled in. Data."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rdmaqp.host.network import ip_of
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rdmaqp.guard.cause import Cause

#: At most so many are told.
_ENOUGH = 6

_PATH = ("rdmaqp doctor --peer {peer}", "ip route get {peer} from {ours}", "ip neigh show to {peer}")
_GIDS = ("rdmaqp gids {device}",)
_DOCTOR = ("rdmaqp doctor {device}",)
_DMESG = ("dmesg | grep -i -e {driver} -e infiniband",)
_PORT = ("rdma link show {device}/{port}", "rdmaqp devices {device}")
_THERE = ("rdmaqp watch --once    # on the peer",)
_FOUR = "ss -uln 'sport = :4791'; nft list ruleset | grep -n 4791"

#: Cause -> commands. Upper case stands where the log does not say the name.
ASK: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "neighbour-unresolved": _PATH, "route-missing": _PATH, "netdev-missing": ("ip link", *_GIDS, *_DOCTOR),
    "sgid-empty": _GIDS, "sgid-range": _GIDS, "sgid-moved": _GIDS, "sgid-link-local": _GIDS, "sgid-netdev": _GIDS,
    "grh-missing": _GIDS, "gid-family-mismatch": _GIDS, "dgid-invalid": _GIDS, "peer-gid-type": _GIDS,
    "port-inactive": _PORT, "device-missing": _DOCTOR,
    "provider-missing": ("rdmaqp doctor", "ldconfig -p | grep -e libibverbs -e rdmav"),
    "flush-consequence": ("grep -n -i -m1 -e 'status' -e 'completion' LOG    # the first failure, of any rank",),
    "firmware-refused": _DMESG, "driver-refused": _DMESG,
    "memlock-limit": ("ulimit -l", "grep -i 'locked memory' /proc/PID/limits"),
    "qp-limit": ("rdma resource show", "rdma resource show qp"), "create-over-limit": ("ibv_devinfo -v -d {device}",),
    "peer-unreachable": ("rdmaqp doctor --peer {peer}", _FOUR, "rdma statistic show link {device}/{port}"),
    "peer-not-ready": _THERE, "receiver-not-ready": _THERE,
    "peer-mtu": ("rdmaqp devices    # active MTU, at both ends",), "mtu-over-active": ("rdmaqp devices {device}",),
    "rd-atomic-over-device": ("ibv_devinfo -v -d {device} | grep rd_atom",),
    "mask-missing": ("rdmaqp explain {arrow}",), "transition-illegal": ("rdmaqp explain {arrow}",),
    "memory-not-pinnable": ("lsmod | grep -e peermem -e peer_mem",),
    "pkey-range": ("cat /sys/class/infiniband/{device}/ports/{port}/pkeys/*",),
})  # fmt: skip


def commands(causes: Iterable[Cause], known: Mapping[str, Any], what: str) -> tuple[str, ...]:
    """The commands for *causes* that are not ruled out, the most telling first, each once."""
    found: dict[str, None] = {}
    for cause in causes:
        if cause.standing != "ruled-out":
            found |= dict.fromkeys(filled(command, known) for command in ASK.get(cause.cause, ()))
    if not found and what in ("modify", "completion"):
        found = dict.fromkeys(filled(command, known) for command in (*_DOCTOR, *_GIDS, *_DMESG))
    return tuple(found)[:_ENOUGH]


def filled(command: str, known: Mapping[str, Any]) -> str:
    """*command* with the names that are known."""
    peer, ours = known.get("peer_gid"), known.get("gid")
    names = {
        "device": known.get("device", "DEVICE"), "port": known.get("port", 1), "driver": known.get("driver", "rdma"),
        "peer": ip_of(peer) if isinstance(peer, GID) and not peer.is_zero else "PEER",
        "ours": ip_of(ours) if isinstance(ours, GID) and not ours.is_zero else "SOURCE", "arrow": _arrow(known),
    }  # fmt: skip
    return command.format(**names)


def _arrow(known: Mapping[str, Any]) -> str:
    goal = getattr(known.get("goal"), "name", "RTR")
    before = {"INIT": "RESET", "RTR": "INIT", "RTS": "RTR"}
    start = getattr(known.get("state"), "name", before.get(goal, "RTS"))
    return f"{start} {goal}"
