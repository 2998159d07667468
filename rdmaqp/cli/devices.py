"""``rdmaqp devices``: the devices and their ports in one table, with the address that would be picked."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rdmaqp.cli.choosing import add_devices, chosen
from rdmaqp.cli.console import out, plain_table, print_json
from rdmaqp.model.enums import PortState

if TYPE_CHECKING:
    import argparse

    from rich.table import Table

    from rdmaqp.verbs.device import Context

DESCRIPTION = """Shows the devices and their ports in one table, as ibv_devinfo does on pages, and the address that
would be picked on each port, with the reason."""

#: ``active_width`` and ``active_speed`` codes of the specification: lanes, and Gbit/s a lane.
_LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_GBITS = {1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("devices", description=DESCRIPTION)
    add_devices(parser)
    parser.add_argument("--json", action="store_true", help="everything, for a program to read")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List them."""
    with ExitStack() as stack:
        contexts = [stack.enter_context(device.open()) for device in chosen(args)]
        if args.json:
            print_json([_describe(context) for context in contexts])
        else:
            out.print(_ports(contexts))
            out.print()
            out.print(_addresses(contexts))
    return 0


def _ports(contexts: list[Context]) -> Table:
    table = plain_table("device", "driver", "port", "state", "link", "rate", "MTU", "LID")
    for context in contexts:
        for port in context.ports:
            attr = port.query()
            mtu = str(attr.active_mtu) if attr.active_mtu == attr.max_mtu else f"{attr.active_mtu} of {attr.max_mtu}"
            state = Text(attr.state.name, "green" if attr.state is PortState.ACTIVE else "red")
            table.add_row(
                Text(context.name), context.driver or "?", str(port.num), state, attr.link_layer.name, _rate(attr), mtu,
                f"{attr.lid:#x}" if attr.lid else "–",
            )  # fmt: skip
    return table


def _addresses(contexts: list[Context]) -> Table:
    """A table of their own: beside the rest they would need twice a terminal's width."""
    table = plain_table("device", "port", "address picked", "why", whole="address picked")
    for context in contexts:
        for port in context.ports:
            pick = port.pick_gid()
            address = f"{pick.entry.index}: {pick.entry.gid}" if pick else "none"
            reason = pick.reason if pick else "the GID table is empty"
            table.add_row(Text(context.name), str(port.num), address, reason)
    return table


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
            plain[name] = str(value).split("|") if value else []
        elif isinstance(value, IntEnum):
            plain[name] = value.name
        else:
            plain[name] = f"{value:016x}" if name.endswith("_guid") else value
    return plain
