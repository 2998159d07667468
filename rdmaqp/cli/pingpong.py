"""``rdmaqp pingpong``: as server, as client of a host, or both ends in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.cli.console import err, out, print_json, progress_bar, show_guard_warnings
from rdmaqp.cli.histogram import histogram
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.pingpong import Observer, Options, Result, run_loopback, run_with_peer
from rdmaqp.connection.wire import DEFAULT_PORT
from rdmaqp.connection.wire_ibv import IbvWire
from rdmaqp.verbs import device

if TYPE_CHECKING:
    import argparse

    from rdmaqp.connection.wire import Wire
    from rdmaqp.errors import PeerError
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.gid import GidChoice
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.modify import Transition
    from rdmaqp.verbs.port import Port, PortAttr
    from rdmaqp.verbs.queue_pair import QueuePair

DESCRIPTION = """Brings a reliable connection up and bounces verified messages over it. With HOST it is the client of a
server there, without it waits for a client. Without options it picks device, port and address, and says what it
picked. The short options are those of ibv_rc_pingpong."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("pingpong", description=DESCRIPTION)
    parser.add_argument("host", nargs="?", help="the server to connect to")
    parser.add_argument("--loopback", action="store_true", help="both ends in this process")
    parser.add_argument("-p", "--port", type=int, default=DEFAULT_PORT, help="TCP port of the exchange (%(default)s)")
    parser.add_argument("-d", "--ib-dev", metavar="DEVICE", help="the first with an ACTIVE port by itself")
    parser.add_argument("-i", "--ib-port", type=int, default=1, metavar="N", help="the device's port (%(default)s)")
    parser.add_argument("-g", "--gid-idx", type=int, metavar="N", help="our GID's index; picked by itself")
    parser.add_argument("-s", "--size", type=int, default=4096, metavar="BYTES", help="of a message (%(default)s)")
    parser.add_argument("-n", "--iters", type=int, default=1000, metavar="N", help="round trips (%(default)s)")
    parser.add_argument("-m", "--mtu", type=int, metavar="BYTES", help="path MTU; the port's active one by itself")
    parser.add_argument("-r", "--rx-depth", type=int, default=500, metavar="N", help="receives posted (%(default)s)")
    parser.add_argument("-l", "--sl", type=int, default=0, metavar="N", help="service level (%(default)s)")
    parser.add_argument("-e", "--events", action="store_true", help="sleep on events instead of spinning")
    parser.add_argument("-c", "--validate", "--chk", action="store_true", help="compare every byte of each message")
    parser.add_argument("--wire", choices=("rdmaqp", "ibv"), default="rdmaqp",
                        help="how records are exchanged; ibv talks to a stock ibv_rc_pingpong")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS",
                        help="for the exchange, and the longest without a message (%(default)g)")
    parser.add_argument("--json", action="store_true", help="the result, for a program to read")
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run it and show what it came to."""
    options = _options(args)
    show_guard_warnings()
    with _Show(options.iterations, quiet=args.json) as show:
        if args.loopback:
            result = run_loopback(options, show)
        else:
            # Before anybody waits for anybody: no device here is no reason to keep the other end waiting.
            device.open(options.device).close()
            with _wire(args, options) as wire:
                result = run_with_peer(options, wire, show)
    if args.json:
        print_json(result.to_dict())
    else:
        _print(result)
    return 0


def _options(args: argparse.Namespace) -> Options:
    wrong = args.parser.error
    if args.loopback and args.host:
        wrong("--loopback has both ends here: leave the host out")
    if args.loopback and args.wire == "ibv":
        wrong("--loopback exchanges nothing: leave --wire out")
    for name in ("size", "iters", "rx_depth"):
        if getattr(args, name) < 1:
            wrong(f"--{name.replace('_', '-')}: {getattr(args, name)} is below 1")
    if args.timeout <= 0:
        wrong(f"--timeout: {args.timeout} is not above 0")
    if not 1 <= args.port <= 65535:
        wrong(f"--port: {args.port} is outside 1…65535")
    return Options(
        device=args.ib_dev, port_num=args.ib_port, gid_index=args.gid_idx, size=args.size, iterations=args.iters,
        mtu=args.mtu, rx_depth=args.rx_depth, sl=args.sl, events=args.events, validate=args.validate,
        timeout=args.timeout,
    )  # fmt: skip


def _wire(args: argparse.Namespace, options: Options) -> Wire:
    kind: type[Wire] = IbvWire if args.wire == "ibv" else Exchange
    if args.host:
        return kind.connect(args.host, args.port, options.timeout)
    with kind.listen(args.port) as listener:
        err.print(f"waiting for a client on TCP port {listener.port}")
        return listener.accept(on_stranger=_stranger)


def _stranger(error: PeerError) -> None:
    err.print(f"[yellow]turned away:[/] {error}", soft_wrap=True)


class _Show(Observer):
    """Says on standard error what happens; a bar where it takes long."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar = None if quiet or not err.is_terminal else progress_bar("ping-pong", total)

    def __enter__(self) -> _Show:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _say(self, text: str) -> None:
        if not self._quiet:
            err.print(text, soft_wrap=True)

    def chose(self, context: Context, port: Port, attr: PortAttr, gid: GidChoice | None) -> None:
        self._say(f"device  {context.name} ({context.driver or 'driver unknown'}), port {port.num}: {attr.state.name}, "
                  f"{attr.link_layer.name}, active MTU {attr.active_mtu}")
        if gid is not None:
            self._say(f"source  {gid.entry} – {gid.reason}")

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
