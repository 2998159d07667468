"""``rdmaqp gids``: what ``show_gids`` users look for, with the entry that would be picked, and why."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from rich.table import Table

from rdmaqp.cli.console import out, print_json
from rdmaqp.errors import DeviceError
from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import rank
from rdmaqp.verbs.device import devices, no_device

if TYPE_CHECKING:
    import argparse

    from rdmaqp.model.gid import GidChoice, GidEntry

_TYPES = {None: "?", GidType.IB: "IB", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("gids", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("device", nargs="?", help="only this one")
    parser.add_argument("--json", action="store_true", help="for a program to read")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List every table."""
    found = [device for device in devices() if args.device in (None, device.name)]
    if not found and args.device is not None:
        known = ", ".join(device.name for device in devices()) or "none at all"
        raise DeviceError(f"there is no device {args.device!r}; there are: {known}")
    if not found and not args.json:
        raise no_device()
    rows = []
    for device in found:
        with device.open() as context:
            for port in context.ports:
                pick = port.pick_gid()
                rows += [_row(device.name, port.num, entry, pick) for entry in port.gids()]
    if args.json:
        print_json(rows)
    else:
        out.print(_table(rows))
    return 0


def _row(device: str, port: int, entry: GidEntry, pick: GidChoice | None) -> dict[str, Any]:
    picked = pick is not None and pick.entry.index == entry.index
    return {
        "device": device, "port": port, "index": entry.index, "gid": str(entry.gid),
        "ipv4": str(IPv4Address(entry.gid[12:])) if entry.gid.is_ipv4_mapped else None,
        "type": _TYPES[entry.type], "netdev": entry.netdev, "picked": picked,
        "reason": pick.reason if picked and pick else rank(entry)[1],
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "device", "port", "index", "GID", "IPv4", "type", "net device", "why"):
        table.add_column(name, justify="right" if name == "index" else "left", no_wrap=name != "why")
    for row in rows:
        table.add_row(
            "→" if row["picked"] else "", row["device"], str(row["port"]), str(row["index"]), row["gid"],
            row["ipv4"] or "–", row["type"], row["netdev"] or "–", row["reason"],
            style="bold green" if row["picked"] else None,
        )
    return table
