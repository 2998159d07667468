"""``rdmaqp doctor``: what of this machine stands in the way of RDMA, line by line, with the command that mends it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp import __version__
from rdmaqp.cli.console import out, print_json
from rdmaqp.errors import DeviceError
from rdmaqp.host import checks, checks_device, sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rdmaqp.host.line import Level, Line
    from rdmaqp.host.sysfs import DeviceView

DESCRIPTION = """Looks at what programs need for RDMA: kernel modules, device nodes and permissions, locked memory, user
libraries and their build, ports, net devices, addresses (GID tables), UDP port 4791; with --peer the route to a given
host from each RoCE port, and whether the next hop answers (one datagram to its discard port makes the kernel look).
Nothing is changed. Each line is ok, a warning or an error, with the command that mends it. Exit status: 0 no error,
1 an error."""

_LOOKS: dict[Level, tuple[str, str]] = {
    "ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("ERROR", "bold red"), "unknown": ("?", "cyan"),
}  # fmt: skip
_LAB = (
    "No hardware is needed to go on: the lab is a throw-away guest kernel with a Soft-RoCE device, as any user:\n"
    "    rdmaqp lab run -- rdmaqp doctor\n"
    "    rdmaqp lab run -- rdmaqp pingpong --loopback"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "doctor", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("devices", nargs="*", metavar="NAME", help="only these devices; all by themselves")
    parser.add_argument("--peer", metavar="HOST", action="append", default=[], help="look for the way to this host or "
                        "address too; may be given again")
    parser.add_argument("--json", action="store_true", help="the lines as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look, and tell."""
    there = sysfs.names()
    devices = sysfs.devices(only=_chosen(args.devices, there))
    lines = list(_lines(devices, args.peer))
    if args.json:
        print_json({"version": __version__, "lines": [line._asdict() for line in lines]})
    else:
        _print(lines)
        if not there:
            out.print()
            out.print(_LAB)
    return 1 if any(line.level == "error" for line in lines) else 0


def _chosen(names: Sequence[str], there: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in there:
            has = ", ".join(there) or "none at all"
            raise DeviceError(f"the kernel has no RDMA device {name!r} here; it has: {has}")
    return names or there


def _lines(devices: Sequence[DeviceView], peers: Sequence[str]) -> Iterator[Line]:
    yield from checks.machine(devices)
    for device in devices:
        yield from checks_device.device(device)
    for host in peers:
        yield from checks_device.peer(host, devices)


def _print(lines: Sequence[Line]) -> None:
    """A line each, what mends it below; then the sum."""
    for line in lines:
        word, style = _LOOKS[line.level]
        about = f"{line.about}: " if line.about else ""
        text = Text.assemble((f"{word:8}", style), (f"{line.check:13}", "bold"), f"{about}{line.says}")
        if line.mend:
            text.append(f"\n{'':21}→ {line.mend}", "green")
        out.print(_hung(text), soft_wrap=True)
    count = {level: sum(line.level == level for line in lines) for level in _LOOKS}
    parts = [f"{count['ok']} ok", f"{count['warning']} warning{'' if count['warning'] == 1 else 's'}",
             f"{count['error']} error{'' if count['error'] == 1 else 's'}"]  # fmt: skip
    if count["unknown"]:
        parts.append(f"{count['unknown']} could not be asked")
    out.print(Text(", ".join(parts), "bold"))


def _hung(text: Text) -> Text:
    """*text* within the console's width; what goes on stands below its column."""
    column, width = 21, max(out.width - 1, 60)
    lines = []
    for line in text.split("\n"):
        if len(line.plain) <= width:
            lines.append(line)
            continue
        head, rest = line.divide([column])[:2]
        parts = rest.wrap(out, width - column)
        for part in parts:
            part.rstrip()
        lines.append(head.append_text(Text("\n" + " " * column).join(parts)))
    return Text("\n").join(lines)
