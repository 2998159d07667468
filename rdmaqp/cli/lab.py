"""`rdmaqp lab`: a throw-away guest kernel with a Soft-RoCE device."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from rdmaqp import lab


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the main parser."""
    parser = subparsers.add_parser(
        "lab", help="a throw-away guest kernel with a Soft-RoCE device",
        description="Boots a guest kernel with Soft-RoCE over this machine's files, which it cannot change.",
    )
    actions = parser.add_subparsers(dest="lab_action", required=True, metavar="ACTION")
    _add_run(actions)
    setup = actions.add_parser("setup", help="fetch a kernel if none here can serve, and try KVM once")
    setup.add_argument("--kernel", metavar="SERIES", help="fetch a kernel of this series as well, such as 6.12")
    setup.set_defaults(run=run, lab_run=_setup)
    status = actions.add_parser("status", help="what would be used, and what is missing")
    status.add_argument("--json", action="store_true", help="as JSON")
    status.set_defaults(run=run, lab_run=_status)


def _add_run(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "run", help="run a command in a fresh guest",
        description="Runs COMMAND as root in a fresh guest and returns its exit status. The guest sees this"
        " machine's files; what it writes is gone with it, except below --rwdir. The RDMA device is rxe0.",
    )
    parser.add_argument("--cpus", type=int, help="virtual CPUs (default: this machine's, at most 4)")
    parser.add_argument("--memory", default="1G", metavar="SIZE",
                        help="such as 512M or 2G (default %(default)s)")
    parser.add_argument("--kernel", metavar="KERNEL", help="path of a kernel image, or a version")
    parser.add_argument("--boot-timeout", type=float, metavar="SECONDS",
                        help="until the command must have started (by itself: 180 without a sign of life, 900 in all)")
    parser.add_argument("--rwdir", action="append", default=[], type=Path, metavar="DIR",
                        help="share this directory for writing; may be repeated")
    parser.add_argument("--memlock", default="unlimited", metavar="KIB",
                        help="limit of locked memory in the guest (default %(default)s)")
    parser.add_argument("--network", type=Path, metavar="DIR",
                        help="an empty directory in which two guests meet: their rxe0 are on one cable")
    parser.add_argument("--host", type=int, choices=(1, 2), default=1,
                        help="which of the two this is: 192.0.2.1 or 192.0.2.2 (default %(default)s)")
    parser.add_argument("--append", action="append", default=[], metavar="ARGUMENT",
                        help="a further argument for the guest's kernel; may be repeated")
    parser.add_argument("--quiet", action="store_true", help="no lines about what the lab is doing")
    # REMAINDER takes everything behind the first word of the command, its options included.
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND...")
    parser.set_defaults(run=run, lab_run=_run)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    result: int = args.lab_run(args)
    return result


def _say(line: str) -> None:
    print(f"lab: {line}", file=sys.stderr, flush=True)


def _say_nothing(_line: str) -> None:
    return


def _run(args: argparse.Namespace) -> int:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    return lab.run(
        words, cpus=args.cpus, memory=args.memory, kernel=args.kernel, boot_timeout=args.boot_timeout,
        rwdirs=args.rwdir, append=args.append, memlock=args.memlock,
        network=args.network, host=args.host, say=_say_nothing if args.quiet else _say,
    )


def _setup(args: argparse.Namespace) -> int:
    _print_status(lab.setup(_say, args.kernel))
    return 0


def _status(args: argparse.Namespace) -> int:
    found = lab.status()
    if args.json:
        print(json.dumps({"ready": found.ready, **_plain(dataclasses.asdict(found))}, indent=2))
    else:
        _print_status(found)
    return 0 if found.ready else 1


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _print_status(found: lab.LabStatus) -> None:
    kernel = f"{found.kernel.version}  {found.kernel.image}" if found.kernel else "none"
    print(f"kernel        {kernel}")
    print(f"              {found.why}")
    for one in found.rejected:
        print(f"              not {one}")
    print(f"modules       {found.kernel.modules if found.kernel else 'none'}")
    print(f"QEMU          {found.qemu or 'none'}")
    print(f"virtme-ng     {found.virtme_ng or 'none'}")
    print(f"acceleration  {found.acceleration.name}: {found.acceleration.why}")
    print(f"cache         {found.cache}")
    for missing in found.missing:
        print(f"missing       {missing}")
    print("ready" if found.ready else "not ready: install what is missing, then `rdmaqp lab setup`")
