"""The ``rdmaqp`` command: one module a subcommand. The only room that knows rich and argparse."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from rdmaqp import __version__
from rdmaqp.cli.failing import Parser, show, wants_json
from rdmaqp.cli.streams import leave_nothing_unwritten, reopen_closed
from rdmaqp.errors import RdmaqpError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

#: Each is a module with add_parser(subparsers) and run(args) -> exit status.
COMMANDS = {
    "devices": "the RDMA devices of this machine and their ports",
    "gids": "the GID tables, and which entry would be picked",
    "pingpong": "a real RC connection, and verified messages over it",
    "bench": "latency, bandwidth and message rate, as perftest measures them",
    "check": "judge requests, one JSON object a line",
    "guard": "any program, unchanged, with its modify calls judged as they are made",
    "diagnose": "why a queue pair failed, from the log of a program or of the kernel",
    "doctor": "what of this machine stands in the way of RDMA, and how to mend it",
    "watch": "the kernel's queue pairs, live",
    "explain": "what a state, arrow, attribute, rule, errno, status or driver is about",
    "diagram": "the state machine of a type, in the terminal or as a picture",
    "walk": "a queue pair to operate by hand, imagined or real",
    "lab": "a throw-away guest kernel with a Soft-RoCE device",
}


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """The command line; whole only for *command*, so that the others' modules need not be loaded."""
    top = Parser(
        prog="rdmaqp", description="Bring RDMA queue pairs up, and say what is wrong before the hardware does."
    )
    top.add_argument("--version", action="version", version=f"rdmaqp {__version__}")
    subparsers = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, what in COMMANDS.items():
        if command == name:
            import_module(f"rdmaqp.cli.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=what)
    return top


def run(argv: Sequence[str]) -> int:
    """Run one command: 0 well, 1 it failed and said why, 2 wrong usage, 128 + n ended by signal n.

    Without a command it says what there is, and that is wrong usage still: a script that has lost its arguments must
    not go on as if something had been done.
    """
    reopen_closed()
    if not argv:
        parser().print_help(sys.stderr)
        return 2
    Parser.in_json = wants_json(argv)
    args = parser(argv[0]).parse_args(argv)
    try:
        status = _command(args)
        sys.stdout.flush()
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE  # the reader has had enough
    except OSError as error:
        print(f"rdmaqp: cannot write to standard output: {error.strerror or error}", file=sys.stderr)
        status = 1
    leave_nothing_unwritten()
    return status


def _command(args: argparse.Namespace) -> int:
    try:
        return int(args.run(args))
    except RdmaqpError as error:
        show(error, as_json=getattr(args, "json", False))
        return 1
    except KeyboardInterrupt:
        print("rdmaqp: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
