"""``rdmaqp pingpong``: as server, as client of a host, or both ends in one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rdmaqp.cli.arguments import add_bind, add_mtu, waiting, within
from rdmaqp.cli.console import err, out, print_json, show_guard_warnings
from rdmaqp.cli.histogram import histogram
from rdmaqp.cli.telling import Telling
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.pingpong import Observer, Options, Result, run_loopback, run_with_peer
from rdmaqp.connection.wire import DEFAULT_PORT
from rdmaqp.connection.wire_ibv import IbvWire
from rdmaqp.errors import GuardError
from rdmaqp.verbs import device

if TYPE_CHECKING:
    import argparse

    from rdmaqp.connection.wire import Wire
    from rdmaqp.errors import PeerError
    from rdmaqp.guard import Finding
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.modify import Transition
    from rdmaqp.verbs.queue_pair import QueuePair

DESCRIPTION = """Brings a reliable connection up and bounces verified messages over it. With HOST it is the client of a
server there, without it waits for a client. Without options it picks device, port and address, and says what it
picked. The short options are those of ibv_rc_pingpong."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("pingpong", description=DESCRIPTION)
    number = partial(_number, parser)
    parser.add_argument("host", nargs="?", help="the server to connect to")
    parser.add_argument("--loopback", action="store_true", help="both ends in this process")
    number("-p", "--port", DEFAULT_PORT, 1, 65535, "TCP port of the exchange")
    add_bind(parser)
    parser.add_argument("-d", "--ib-dev", metavar="DEVICE", help="the first with an ACTIVE port by itself")
    number("-i", "--ib-port", 1, 1, 255, "the device's port")
    number("-g", "--gid-idx", None, 0, 255, "our GID's index; picked by itself")
    number("-s", "--size", 4096, 1, 1 << 31, "bytes of a message")
    number("-n", "--iters", 1000, 1, 100_000_000, "round trips")
    add_mtu(parser)
    number("-r", "--rx-depth", 500, 1, (1 << 31) - 1, "receives posted")
    number("-l", "--sl", 0, 0, 15, "service level")
    parser.add_argument("-e", "--events", action="store_true", help="sleep on events instead of spinning")
    parser.add_argument("-c", "--validate", "--chk", action="store_true", help="compare every byte of each message")
    parser.add_argument("--wire", choices=("rdmaqp", "ibv"), default="rdmaqp",
                        help="how records are exchanged; ibv talks to a stock ibv_rc_pingpong")
    parser.add_argument("--timeout", type=within(0.001, 1e6, float), default=10.0, metavar="SECONDS",
                        help="for the exchange, and the longest without a message (%(default)g)")
    parser.add_argument("--json", action="store_true", help="the result, for a program to read")
    parser.set_defaults(run=run, parser=parser)


def _number(
    parser: argparse.ArgumentParser, short: str, long: str, default: int | None, low: int, high: int, what: str
) -> None:
    usual = "" if default is None else " (%(default)s)"
    parser.add_argument(short, long, type=within(low, high), default=default, metavar="N", help=what + usual)


def run(args: argparse.Namespace) -> int:
    """Run it and show what it came to."""
    options = _options(args)
    show_guard_warnings()
    try:
        result = _run(args, options)
    except GuardError as error:
        if not args.json:
            error.report.findings[:] = [_as_typed(finding) for finding in error.report.findings]
        raise
    if args.json:
        print_json(result.to_dict())
    else:
        _print(result)
    return 0


#: The attribute that an option ends in.
_OPTION_OF = {
    "path_mtu": "-m", "ah_attr.sl": "-l", "ah_attr.grh.sgid_index": "-g", "port_num": "-i", "ah_attr.port_num": "-i",
    "max_recv_wr": "-r",
}  # fmt: skip


def _as_typed(finding: Finding) -> Finding:
    """*finding* in the words of the command line, for whoever gave no attribute but an option."""
    option = _OPTION_OF.get(finding.field)
    if option is None:
        return finding
    name = finding.field.rpartition(".")[2]
    fix = finding.fix and finding.fix.replace(f"{name}=", f"{option} ")
    return finding._replace(field=f"{option} ({name})", fix=fix)


def _run(args: argparse.Namespace, options: Options) -> Result:
    with _Show(options.iterations, quiet=args.json) as show:
        if args.loopback:
            return run_loopback(options, show)
        # Before anybody waits for anybody: no device here is no reason to keep the other end waiting.
        device.open(options.device).close()
        with _wire(args, options) as wire:
            return run_with_peer(options, wire, show)


def _options(args: argparse.Namespace) -> Options:
    if args.loopback and args.host:
        args.parser.error("--loopback has both ends here: leave the host out")
    if args.loopback and args.wire == "ibv":
        args.parser.error("--loopback exchanges nothing: leave --wire out")
    return Options(
        device=args.ib_dev, port_num=args.ib_port, gid_index=args.gid_idx, size=args.size, iterations=args.iters,
        mtu=args.mtu, rx_depth=args.rx_depth, sl=args.sl, events=args.events, validate=args.validate,
        timeout=args.timeout,
    )  # fmt: skip


def _wire(args: argparse.Namespace, options: Options) -> Wire:
    kind: type[Wire] = IbvWire if args.wire == "ibv" else Exchange
    if args.host:
        return kind.connect(args.host, args.port, options.timeout)
    with kind.listen(args.port, args.bind) as listener:
        err.print(waiting(listener.port, args.bind))
        return listener.accept(on_stranger=_stranger)


def _stranger(error: PeerError) -> None:
    err.print(Text.assemble(("turned away: ", "yellow"), str(error)), soft_wrap=True)


class _Show(Telling, Observer):
    """Says on standard error what happens; a bar where it takes long."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        super().__init__("ping-pong", total, quiet=quiet)

    def met(self, local: Endpoint, remote: Endpoint) -> None:
        self._say(f"local   {local}\nremote  {remote}")

    def moved(self, qp: QueuePair, transition: Transition) -> None:
        self._say(f"  QP {qp.qp_num:#08x}  [bold]{transition.start.name} → {transition.goal.name}[/]  "
                  f"[dim]{', '.join(name for name in transition.mask if name != 'STATE')}[/]")

    def progress(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, visible=True)


def _print(result: Result) -> None:
    latency: dict[str, Any] = result.latency_us
    each = result.seconds / result.iterations * 1e6
    out.print(
        f"[bold green]{result.verified} of {result.iterations} round trips verified[/], {result.bytes} bytes each, "
        f"in {result.seconds:.2f} s: {each:.2f} µs each"
    )
    if latency["p50"] is None:
        return
    out.print("round trip  " + "   ".join(f"{name} {latency[name]:.2f} µs" for name in ("p50", "p99", "min", "max")))
    for line in histogram(result.latencies_us, width=min(out.width, 80)):
        out.print(line, markup=False)
