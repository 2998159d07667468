"""``rdmaqp bench``: latency, bandwidth and message rate, as server, as client of a host, or both ends in one process.

``--json`` prints one object:

    device, driver, mode ("loopback", "client", "server"), path_mtu (bytes)
    rows      a list of: kind ("latency", "bandwidth"), operation, qp_type, bytes, messages, seconds, lost,
              latency_us {p50, p99, min, max} or null, mb_per_s (10**6 bytes) and messages_per_s or null
    skipped   a list of: operation, qp_type, bytes (null: at any size), why
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmaqp.cli.arguments import add_bind, add_mtu, anywhere, waiting
from rdmaqp.cli.bench_show import Show, show_result
from rdmaqp.cli.chart import charts
from rdmaqp.cli.console import err, print_json, show_guard_warnings
from rdmaqp.connection.bench import Result, run_client, run_loopback, run_server
from rdmaqp.connection.bench_plan import OPERATIONS, Options
from rdmaqp.connection.exchange import Exchange
from rdmaqp.connection.wire import DEFAULT_PORT
from rdmaqp.errors import RdmaqpError
from rdmaqp.model.enums import QPType
from rdmaqp.verbs import device

if TYPE_CHECKING:
    from rdmaqp.errors import PeerError

DESCRIPTION = """Measures what two queue pairs do. With HOST it is the client of a server there, which is started as
`rdmaqp bench` and needs no other options; --loopback has both ends here. The short options are those of perftest."""
_KINDS = {
    "latency": ("latency",), "bandwidth": ("bandwidth",), "rate": ("bandwidth",), "all": ("latency", "bandwidth"),
}  # fmt: skip
_TYPES = ("RC", "UC", "UD")
_ALL_SIZES = tuple(1 << power for power in range(1, 24))  # as perftest's -a
_AT_LEAST_ONE = ("iters", "tx_depth", "rx_depth", "post_list", "cq_mod")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("bench", description=DESCRIPTION)
    parser.add_argument("words", nargs="*", metavar="KIND HOST",
                        help="latency, bandwidth, rate or all (by itself); the server to connect to")
    parser.add_argument("--op", type=_operations, default=tuple(OPERATIONS), metavar="NAMES",
                        help=f"by comma: {', '.join(OPERATIONS)} (all by itself)")
    parser.add_argument("--loopback", action="store_true", help="both ends in this process")
    parser.add_argument("-c", "--connection", type=str.upper, choices=_TYPES, default="RC", help="(%(default)s)")
    parser.add_argument("-s", "--size", type=_sizes, metavar="BYTES",
                        help="of a message; several by comma, with K or M (64,4K,64K by itself)")
    parser.add_argument("-a", "--all", action="store_true", help="all sizes, 2, 4, 8 … 8M")
    parser.add_argument("-n", "--iters", type=int, default=1000, metavar="N", help="messages of each (%(default)s)")
    parser.add_argument("-D", "--duration", type=float, metavar="SECONDS", help="instead of -n, for bandwidth and rate")
    parser.add_argument("-d", "--ib-dev", metavar="DEVICE", help="the first with an ACTIVE port by itself")
    parser.add_argument("-i", "--ib-port", type=int, default=1, metavar="N", help="the device's port (%(default)s)")
    parser.add_argument("-x", "--gid-index", type=int, metavar="N", help="our GID's index; picked by itself")
    add_mtu(parser)
    parser.add_argument("-t", "--tx-depth", type=int, default=128, metavar="N", help="sends under way (%(default)s)")
    parser.add_argument("-r", "--rx-depth", type=int, default=512, metavar="N", help="receives posted (%(default)s)")
    parser.add_argument("-l", "--post-list", "--post_list", type=int, default=1, metavar="N",
                        help="requests posted in one call (%(default)s)")
    parser.add_argument("-Q", "--cq-mod", type=int, default=100, metavar="N", help="one signaled of N (%(default)s)")
    parser.add_argument("-I", "--inline-size", "--inline_size", type=int, metavar="BYTES",
                        help="messages up to it are copied while posting")
    parser.add_argument("-S", "--sl", type=int, default=0, metavar="N", help="service level (%(default)s)")
    parser.add_argument("-p", "--port", type=int, default=DEFAULT_PORT, help="TCP port of the exchange (%(default)s)")
    add_bind(parser)
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS",
                        help="for the exchange, and the longest without a message (%(default)g)")
    parser.add_argument("--json", action="store_true", help="the result, for a program to read")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the plots there")
    parser.set_defaults(run=run, parser=parser)
    anywhere(parser)


def run(args: argparse.Namespace) -> int:
    """Run it and show what it came to."""
    kind, host = _words(args)
    options = _options(args, kind)
    show_guard_warnings()
    with Show(quiet=args.json) as show:
        try:
            result = _measure(args, host, options, show)
        except (RdmaqpError, KeyboardInterrupt) as error:
            if isinstance(error, RdmaqpError):
                error.so_far = {"rows": show.rows}
            if (args.loopback or host) and not args.json:
                show.what_came(kind)
            raise
    if args.json:
        print_json(result.to_dict())
    else:
        show_result(result, kind)
    if args.svg is not None:  # last: a file that cannot be written takes no figures along
        _write_svg(args.svg, result, kind)
    return 0


def _measure(args: argparse.Namespace, host: str | None, options: Options, show: Show) -> Result:
    if args.loopback:
        return run_loopback(options, show)
    # Before anybody waits for anybody: no device here is no reason to keep the other end waiting.
    device.open(options.device).close()
    with _wire(args, host) as wire:
        return run_client(options, wire, show) if host else run_server(options, wire, show)


def _words(args: argparse.Namespace) -> tuple[str, str | None]:
    """Which kind, and which host."""
    wrong = args.parser.error
    kinds = [word for word in args.words if word in _KINDS]
    hosts = [word for word in args.words if word not in _KINDS]
    if len(kinds) > 1 or len(hosts) > 1:
        wrong(f"one of {', '.join(_KINDS)} and one HOST, not {' '.join(args.words)!r}")
    host = hosts[0] if hosts else None
    if args.loopback and host:
        wrong("--loopback has both ends here: leave the host out")
    return kinds[0] if kinds else "all", host


def _options(args: argparse.Namespace, kind: str) -> Options:
    wrong = args.parser.error
    for name in _AT_LEAST_ONE:
        if getattr(args, name) < 1:
            wrong(f"--{name.replace('_', '-')}: {getattr(args, name)} is below 1")
    if args.inline_size is not None and args.inline_size < 0:
        wrong(f"--inline-size: {args.inline_size} is below 0")
    for name in ("timeout", "duration"):
        value = getattr(args, name)
        if value is not None and not 0 < value < 1e6:
            wrong(f"--{name}: {value} is not above 0")
    if not 1 <= args.port <= 65535:
        wrong(f"--port: {args.port} is outside 1…65535")
    if args.all and args.size:
        wrong("--all and --size exclude each other")
    sizes: dict[str, Any] = {"sizes": _ALL_SIZES} if args.all else {"sizes": args.size} if args.size else {}
    return Options(
        device=args.ib_dev, port_num=args.ib_port, gid_index=args.gid_index, qp_type=QPType[args.connection],
        kinds=_KINDS[kind], operations=args.op, iterations=args.iters, seconds=args.duration, mtu=args.mtu,
        tx_depth=args.tx_depth, rx_depth=args.rx_depth, post_list=min(args.post_list, args.tx_depth),
        cq_mod=args.cq_mod, inline_size=args.inline_size, sl=args.sl, timeout=args.timeout, **sizes,
    )  # fmt: skip


def _operations(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",")))
    for name in names:
        if name not in OPERATIONS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(OPERATIONS)}")
    return names


def _sizes(text: str) -> tuple[int, ...]:
    found = set()
    for word in text.upper().split(","):
        number, unit = word.strip(), 1
        if number[-1:] in ("K", "M"):
            number, unit = number[:-1], 1 << (10 if number[-1] == "K" else 20)
        if not number.isdecimal() or int(number) < 1:
            raise argparse.ArgumentTypeError(f"{word!r} is no size: 1 or more bytes, such as 64 or 4K")
        found.add(int(number) * unit)
    return tuple(sorted(found))


def _wire(args: argparse.Namespace, host: str | None) -> Exchange:
    if host:
        return Exchange.connect(host, args.port, args.timeout)
    with Exchange.listen(args.port, args.bind) as listener:
        err.print(waiting(listener.port, args.bind))
        return listener.accept(on_stranger=_stranger)


def _stranger(error: PeerError) -> None:
    err.print(f"[yellow]turned away:[/] {error}", soft_wrap=True)


def _write_svg(file: Path, result: Result, kind: str) -> None:
    from rdmaqp.cli.chart_svg import svg

    kinds = sorted({row.case.qp_type for row in result.rows})
    title = f"{result.device} ({result.driver or 'driver unknown'}), {'/'.join(kinds)}, {result.mode}"
    try:
        file.write_text(svg(title, charts(result.rows, kind)))
    except OSError as error:
        raise RdmaqpError(f"cannot write {file}: {error.strerror or error}") from None
    err.print(f"wrote {file}", soft_wrap=True)
