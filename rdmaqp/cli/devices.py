"""``rdmaqp devices``: what ``ibv_devinfo`` users look for, in one table, with the address that would be picked."""

from __future__ import annotations

from dataclasses import asdict
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

from rich.table import Table

from rdmaqp.cli.console import out, print_json
from rdmaqp.model.enums import PortState
from rdmaqp.verbs.device import Context, devices, no_device

if TYPE_CHECKING:
    import argparse

    from rdmaqp.verbs.port import Port

#: ``active_width`` and ``active_speed`` codes of the specification: lanes, and Gbit/s a lane.
_LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_GBITS = {1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("devices", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--json", action="store_true", help="everything, for a program to read")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List them."""
    found = devices()
    if not found and not args.json:
        raise no_device()
    contexts = [device.open() for device in found]
    try:
        if args.json:
            print_json([_describe(context) for context in contexts])
        else:
            out.print(_table(contexts))
    finally:
        for context in contexts:
            context.close()
    return 0


def _table(contexts: list[Context]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("device", "driver", "port", "state", "link", "rate", "MTU", "LID", "address picked", "why"):
        table.add_column(name, overflow="fold" if name == "why" else "ellipsis", no_wrap=name != "why")
    for context in contexts:
        for port in context.ports:
            table.add_row(*_row(context, port))
    return table


def _row(context: Context, port: Port) -> tuple[str, ...]:
    attr, pick = port.query(), port.pick_gid()
    state = f"[{'green' if attr.state is PortState.ACTIVE else 'red'}]{attr.state.name}[/]"
    mtu = str(attr.active_mtu) if attr.active_mtu == attr.max_mtu else f"{attr.active_mtu} of {attr.max_mtu}"
    return (
        context.name, context.driver or "?", str(port.num), state, attr.link_layer.name, _rate(attr), mtu,
        f"{attr.lid:#x}" if attr.lid else "–",
        f"{pick.entry.index}: {pick.entry.gid}" if pick else "none", pick.reason if pick else "the GID table is empty",
    )  # fmt: skip


def _rate(attr: Any) -> str:
    lanes, each = _LANES.get(attr.active_width), _GBITS.get(attr.active_speed)
    return f"{lanes * each:g} Gbit/s" if lanes and each else "?"


def _describe(context: Context) -> dict[str, Any]:
    ports = []
    for port in context.ports:
        pick = port.pick_gid()
        ports.append({
            "num": port.num,
            **_plain(asdict(port.query())),
            "picked_gid": pick and {"index": pick.entry.index, "gid": str(pick.entry.gid), "reason": pick.reason},
        })
    return {
        "name": context.name, "driver": context.driver, "transport": context.device.transport.name,
        **_plain(asdict(context.attr)), "ports": ports,
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Enumerations as names, flags as lists of them, GUIDs as hexadecimal text."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, IntFlag):
            plain[name] = [str(flag.name) for flag in value]
        elif isinstance(value, IntEnum):
            plain[name] = value.name
        else:
            plain[name] = f"{value:016x}" if name.endswith("_guid") else value
    return plain
