"""`rdmaqp guard -- PROGRAM …`: any program under the guard, and what is wrong with its queue pairs."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from rdmaqp.cli.guard_show import Teller, summary
from rdmaqp.guard.policy import current
from rdmaqp.preload import launch
from rdmaqp.preload.judge import Judge
from rdmaqp.preload.server import Server, sweep
from rdmaqp.preload.trace import TraceFile

#: argparse would show the program as "...".
USAGE = """rdmaqp guard [--report | --enforce] [--trace FILE [--redact]] [--quiet] [--deadline SECONDS]
                    [--no-audit] [--] PROGRAM ARGUMENTS..."""

_PREFIX = "rdmaqp-guard-"
DESCRIPTION = """Runs PROGRAM unchanged and says, on standard error, what is wrong with the queue pairs of it and of all
processes that it starts: each modify call is judged before it is made, and explained where it fails. The exit status
is PROGRAM's own (128 + n where signal n ended it); 127 it is not there, 126 it cannot be run, 1 it cannot be
watched."""

EPILOG = """for example:
  rdmaqp guard -- ibv_rc_pingpong -d mlx5_0 -g 3 server
  rdmaqp guard --enforce -- mpirun -n 2 ./a.out
  rdmaqp guard --trace calls.jsonl --redact -- python train.py;  rdmaqp check calls.jsonl
Rules that are not to be mentioned stand in the environment: RDMAQP_GUARD="-port-inactive -timeout-infinite".
Not seen: what does not pass ibv_modify_qp (DevX, mlx5dv), static and setuid programs, processes on other machines.
A process that already runs cannot be attached to."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "guard", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=USAGE,
    )  # fmt: skip
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--report", action="store_true", help="tell, and let everything through (the default)")
    mode.add_argument("--enforce", action="store_true",
                      help="answer EINVAL to a call with an error, which is then not made")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write each call to FILE, for `rdmaqp check`")
    parser.add_argument("--redact", action="store_true",
                        help="in the trace, put stand-ins for GIDs, net devices, Q_Keys and process names")
    parser.add_argument("--quiet", action="store_true", help="only findings and failures, no table at the end")
    parser.add_argument("--deadline", type=_seconds, default=2.0, metavar="SECONDS",
                        help="a process that waits longer for a verdict goes on unwatched (default %(default)g)")
    parser.add_argument("--no-audit", action="store_true",
                        help="do without LD_AUDIT, which valgrind stumbles over at the program's end; look-ups on a "
                        "handle (dlsym, dlvsym) are then not seen")
    # REMAINDER takes everything behind the first word of the command, its options included.
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM ARGUMENTS",
                        help="a program that is linked with libibverbs or loads it; a script, mpirun, …")
    parser.set_defaults(run=run, parser=parser)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.001 to 3600")
    return value


def run(args: argparse.Namespace) -> int:
    """Run the program; its own exit status."""
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        args.parser.error("which program? rdmaqp guard -- PROGRAM ARGUMENTS…")
    if args.redact and args.trace is None:
        args.parser.error("--redact is about the trace: give --trace FILE too")
    try:
        return _watch(args, words)
    except launch.LaunchError as error:
        print(f"rdmaqp: {error}", file=sys.stderr)
        return error.status
    except OSError as error:  # no room for the socket's folder, no descriptor
        print(f"rdmaqp: {words[0]} cannot be watched, and was not started: {error}", file=sys.stderr)
        return 1


def _watch(args: argparse.Namespace, words: list[str]) -> int:
    program = launch.find(words[0])
    launch.require_watchable(program)
    with ExitStack() as stack:
        trace = None
        if args.trace is not None:
            file = _opened(args.trace)
            stack.callback(_close, file)
            trace = TraceFile(file, redact=args.redact)
        teller = Teller(enforce=args.enforce)
        judge = Judge(teller, enforce=args.enforce, ignore=_ignored(), trace=trace)
        sweep(Path(_place()), _PREFIX)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_place()))
        server = Server(Path(folder), judge)
        stack.callback(server.close)
        audit = launch.audits() and not args.no_audit
        variables = launch.environment(os.environ, server.path, args.deadline, audit=audit)
        child = launch.start(program, words, variables)
        launch.pass_on(child, server.ended)
        try:
            server.serve()
        except Exception as error:  # whatever it is: the program goes on, and its status is ours
            server.problem = server.problem or f"please report it: {type(error).__name__}: {error}"
            server.close()
            child.wait()
    if trace is not None and trace.problem:
        print(f"rdmaqp guard: warning: the trace {args.trace} is not whole: {trace.problem}", file=sys.stderr)
    if not args.quiet:
        summary(judge, server.problem)
    return launch.status_of(child)


def _close(file: IO[str]) -> None:
    with suppress(OSError):  # what could not be written is tried once more
        file.close()


def _place() -> str:
    """Where the socket's folder is made: its path has to fit into ``sun_path``, 108 bytes (unix(7))."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) < 70 else "/tmp"  # noqa: S108 - a folder of its own is made there


def _ignored() -> frozenset[str]:
    """The rules not to mention, from the environment.

    Raises:
        LaunchError: it names something that is no rule.
    """
    try:
        return current().ignore
    except ValueError as error:
        raise launch.LaunchError(str(error), 2) from None


def _opened(file: Path) -> IO[str]:
    try:
        return file.open("w", encoding="utf-8")
    except OSError as error:
        raise launch.LaunchError(f"{file}: {error.strerror}", 2) from None
