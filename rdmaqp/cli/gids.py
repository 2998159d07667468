"""``rdmaqp gids``: the GID tables, with the entry that would be picked, and why."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rdmaqp.cli.choosing import add_devices, chosen
from rdmaqp.cli.console import out, plain_table, print_json
from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import pick_gid, rank

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rdmaqp.model.gid import GidEntry

DESCRIPTION = "Shows the GID tables, as show_gids does, and the entry that would be picked, with the reason."

_TYPES = {None: "?", GidType.IB: "IB", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("gids", description=DESCRIPTION)
    add_devices(parser)
    parser.add_argument("--json", action="store_true", help="for a program to read")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List every table."""
    tables = []
    for device in chosen(args):
        with device.open() as context:
            tables += [(device.name, port.num, port.gids()) for port in context.ports]
    if args.json:
        print_json([row for name, num, entries in tables for row in _rows(name, num, entries)])
        return 0
    for place, (name, num, entries) in enumerate(tables):
        if place:
            out.print()
        out.print(Text(f"{name}, port {num}", "bold"))
        _print(entries)
    return 0


def _rows(device: str, port: int, entries: Sequence[GidEntry]) -> Iterator[dict[str, Any]]:
    pick = pick_gid(entries)
    for entry in entries:
        picked = pick is not None and pick.entry is entry
        yield {
            "device": device, "port": port, "index": entry.index, "gid": str(entry.gid),
            "ipv4": str(IPv4Address(entry.gid[12:])) if entry.gid.is_ipv4_mapped else None,
            "type": _TYPES[entry.type], "netdev": entry.netdev, "picked": picked,
            "reason": pick.reason if picked and pick else rank(entry)[1],
        }


def _print(entries: Sequence[GidEntry]) -> None:
    """One table, and below it why one of its entries would be picked."""
    pick = pick_gid(entries)
    if pick is None:
        out.print("  the GID table is empty")
        return
    table = plain_table("", "index", "GID", "net device", "what it is", whole="GID")
    for entry in entries:
        picked = entry is pick.entry
        table.add_row(
            "→" if picked else "", str(entry.index), str(entry.gid), Text(entry.netdev or "–"), rank(entry)[1],
            style="bold green" if picked else None,
        )  # fmt: skip
    out.print(table)
    out.print(Text(f"→ {pick.entry.index} would be picked: {pick.reason}", "green"))
