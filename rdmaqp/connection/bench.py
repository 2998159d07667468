"""The benchmark: both ends in this process, or one of them and a peer found over TCP.

The client plans, and names each case to the server, which needs no options but the device's. For each case both ends
make a queue pair, swap records, meet at "ready", run, and tell each other what they counted.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.bench_end import BenchEnd, End
from rdmaqp.connection.bench_plan import Case, Options, Row, Skipped, abilities_of, plan, weaker
from rdmaqp.errors import DeadlineError, PeerError, RdmaqpError
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.gid import GidChoice, pick_gid
from rdmaqp.verbs import device
from rdmaqp.verbs.slices import RemoteMemory
from rdmaqp.verbs.stream import Sink, Stream
from rdmaqp.verbs.transfer import run_slice

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.connection.exchange import Exchange
    from rdmaqp.connection.wire import Setting
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.port import Port, PortAttr

#: How long messages that may be lost are waited for once the sender is done, seconds.
GRACE_S = 0.2
#: In a swap that is about something else than queue pairs.
_NOBODY = Endpoint(qp_num=0, psn=0)


class Observer:
    """Is told what happens. These methods do nothing; a program overrides those it wants."""

    def chose(self, context: Context, port: Port, attr: PortAttr, gid: GidChoice | None) -> None:
        """The device, the port and the source address that are used."""

    def planned(self, cases: list[Case], skipped: list[Skipped]) -> None:
        """What will be measured, and what will not."""

    def begins(self, case: Case) -> None:
        """A case has begun."""

    def progress(self, share: float) -> None:
        """So much of the case is done, 0…1."""

    def measured(self, row: Row) -> None:
        """A case is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a benchmark came to."""

    device: str
    driver: str | None
    mode: str
    path_mtu: int | None
    rows: list[Row] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """In plain types, for JSON."""
        return {
            "device": self.device, "driver": self.driver, "mode": self.mode, "path_mtu": self.path_mtu,
            "rows": [row.to_dict() for row in self.rows],
            "skipped": [
                {"operation": one.operation, "qp_type": one.qp_type, "bytes": one.size, "why": one.why}
                for one in self.skipped
            ],
        }  # fmt: skip


class _Bench:
    """What all three ways of running have in common."""

    def __init__(self, options: Options, observer: Observer | None, stack: ExitStack, mode: str) -> None:
        self.options, self.observer, self.mode = options, observer or Observer(), mode
        self.context = stack.enter_context(device.open(options.device))
        self.rows: list[Row] = []
        self.skipped: list[Skipped] = []
        self.path_mtu: int | None = None
        port = self.context.port(options.port_num)
        table = port.gids()
        asked = next((GidChoice(entry, "as asked") for entry in table if entry.index == options.gid_index), None)
        gid = asked if options.gid_index is not None else pick_gid(table)
        self.observer.chose(self.context, port, port.query(), gid)

    def plan(self, abilities: dict[str, Any]) -> list[Case]:
        """The cases. Raises RdmaqpError where none is left."""
        cases, self.skipped = plan(self.options, self.context, abilities)
        self.observer.planned(cases, self.skipped)
        if not cases:
            reasons = "\n".join(f"  {one.operation.upper()}, {one.qp_type}: {one.why}" for one in self.skipped)
            raise RdmaqpError(f"nothing of what is asked for can be measured\n{reasons}")
        return cases

    def end(self, case: Case, stack: ExitStack, *, sends: bool) -> BenchEnd:
        """One end of *case*."""
        return BenchEnd(case, self.options, self.context, stack, sends=sends)

    def note(self, row: Row, path_mtu: int) -> None:
        """Keep what a case came to."""
        self.rows.append(row)
        self.path_mtu = path_mtu
        self.observer.measured(row)

    def result(self) -> Result:
        """All of it."""
        return Result(
            device=self.context.name, driver=self.context.driver, mode=self.mode, path_mtu=self.path_mtu,
            rows=self.rows, skipped=self.skipped,
        )  # fmt: skip


def run_loopback(options: Options, observer: Observer | None = None) -> Result:
    """Both ends in this process, on one device. Raises :class:`RdmaqpError` of whichever kind went wrong."""
    with ExitStack() as stack:
        bench = _Bench(options, observer, stack, "loopback")
        for case in bench.plan(abilities_of(bench.context, options.port_num)):
            bench.observer.begins(case)
            with ExitStack() as own:
                ours, theirs = (bench.end(case, own, sends=sends) for sends in (True, False))
                theirs.connect(ours.local, ours.memory)
                ours.connect(theirs.local, theirs.memory)
                if ours.stream is not None and isinstance(theirs.sink, Sink) and not case.is_answered:
                    ours.stream.feeds(theirs.sink)
                _drive(case, (*ours.ends, *theirs.ends), bench)
                received = theirs.sink.received if isinstance(theirs.sink, Sink) else None
                bench.note(_row(ours, received), ours.path_mtu)
        return bench.result()


def run_client(options: Options, wire: Exchange, observer: Observer | None = None) -> Result:
    """This end plans and measures; the other, at the end of *wire*, is :func:`run_server`.

    Raises:
        PeerError, DeadlineError: the peer went away, or does not move.
        RdmaqpError: whatever else went wrong; the peer is told.
    """
    with ExitStack() as stack:
        bench = _Bench(options, observer, stack, "client")
        ours = abilities_of(bench.context, options.port_num)
        theirs = _tell(wire, {f"client_{name}": value for name, value in ours.items()}, options.timeout)
        both = weaker(ours, {name: theirs.get(f"server_{name}") for name in ours})
        for case in bench.plan(both):
            bench.observer.begins(case)
            _tell(wire, {"case": case.to_text()}, options.timeout)
            with ExitStack() as own:
                end = _joined(bench, case, wire, own, sends=True)
                _drive(case, end.ends, bench, wire)
                sent = end.stream.posted if end.stream is not None else 0
                counts = _tell(wire, {"client_sent": sent}, _patience(case, options))
                received = counts.get("server_received")
                bench.note(_row(end, received if isinstance(received, int) else None), end.path_mtu)
        _tell(wire, {"case": ""}, options.timeout)
        return bench.result()


def run_server(options: Options, wire: Exchange, observer: Observer | None = None) -> Result:
    """This end does what the client at the end of *wire* asks for, until it asks for nothing more. Raises as that."""
    with ExitStack() as stack:
        bench = _Bench(options, observer, stack, "server")
        ours = abilities_of(bench.context, options.port_num)
        _tell(wire, {f"server_{name}": value for name, value in ours.items()}, options.timeout)
        while True:
            _await(wire)
            text = _tell(wire, {}, options.timeout).get("case")
            if not text:
                return bench.result()
            try:
                case = Case.from_text(str(text))
            except (ValueError, TypeError) as error:
                raise PeerError(f"peer {wire.peer} asks for what this end does not know: {error}", wire.peer) from None
            bench.observer.begins(case)
            with ExitStack() as own:
                end = _joined(bench, case, wire, own, sends=False)
                if end.ends:
                    _drive(case, end.ends, bench, wire)
                _await(wire)
                received = end.sink.received if isinstance(end.sink, Sink) else None
                counts = _tell(wire, {"server_received": received}, options.timeout)
                sent = counts.get("client_sent")
                messages = received if received is not None else sent if isinstance(sent, int) else 0
                bench.note(Row(case=case, messages=messages, seconds=_seconds(end.ends)), end.path_mtu)


def _tell(wire: Exchange, settings: dict[str, Setting], timeout: float) -> dict[str, Setting]:
    """Swap *settings* for the peer's; both ends are there when it returns."""
    return wire.swap(_NOBODY, settings, timeout)[1]


def _await(wire: Exchange) -> None:
    """Wait until the peer has said what comes next, as long as it is there."""
    while not wire.has_news():
        time.sleep(0.002)


def _joined(bench: _Bench, case: Case, wire: Exchange, own: ExitStack, *, sends: bool) -> BenchEnd:
    """One end, connected with the other: traffic may begin."""
    end = bench.end(case, own, sends=sends)
    here, there = ("client", "server") if sends else ("server", "client")
    memory = {f"{here}_{name}": value for name, value in (
        ("addr", end.memory.addr), ("length", end.memory.length), ("rkey", end.memory.rkey),
    )}  # fmt: skip
    remote, theirs = wire.swap(end.local, memory, bench.options.timeout)
    try:
        where = [theirs[f"{there}_{name}"] for name in ("addr", "length", "rkey")]
        end.connect(remote, RemoteMemory(*(int(value or 0) for value in where)))
    except (KeyError, ValueError) as error:
        raise PeerError(f"peer {wire.peer} tells memory that cannot be: {error}", wire.peer) from error
    wire.barrier("ready", bench.options.timeout)
    return end


def _patience(case: Case, options: Options) -> float:
    return options.timeout + (GRACE_S if case.can_lose else 0)


# ---------------------------------------------------------------------- traffic


def _drive(case: Case, ends: tuple[End, ...], bench: _Bench, wire: Exchange | None = None) -> None:
    """The traffic: slices in C, and between them a look at the peer, the progress, the clock."""
    start = last = time.monotonic()
    seen = -1
    is_over = _is_over(case, ends, wire)
    while not run_slice(*ends):
        now, done = time.monotonic(), sum(_done(end) for end in ends)
        whole = case.iterations * len(ends) if case.seconds is None else case.seconds
        bench.observer.progress(min(1.0, (done if case.seconds is None else now - start) / whole))
        if done > seen:
            seen, last = done, now
        elif is_over(now - last):
            break
        elif now - last > bench.options.timeout:
            said = "\n".join(f"  {end.where()}" for end in ends)
            raise DeadlineError(f"{case}: nothing has moved for {bench.options.timeout:g} s\n{said}")
        if wire is not None:
            wire.check_peer()
    bench.observer.progress(1.0)


def _done(end: End) -> int:
    return end.completed if isinstance(end, Stream) else end.received


def _is_over(case: Case, ends: tuple[End, ...], wire: Exchange | None) -> Callable[[float], bool]:
    """Whether no more will come, after so many seconds without a message: the sender is done, and what may be lost is.

    Without a loss this is asked only of a stream of so many seconds: nobody knows before how many there will be.
    """
    streams = [end for end in ends if isinstance(end, Stream)]

    def is_over(idle: float) -> bool:
        if case.kind == "latency" or (case.seconds is None and not case.can_lose):
            return False
        sender_is_done = all(end.completed == end.count for end in streams)
        if not streams:
            sender_is_done = wire is not None and wire.has_news()
        return sender_is_done and idle >= (GRACE_S if case.can_lose else 0)

    return is_over


def _seconds(ends: tuple[End, ...]) -> float:
    return max((end.seconds for end in ends), default=0.0)


def _row(end: BenchEnd, received: int | None) -> Row:
    """What the sending end measured; *received* is what the other end counted, where it counts."""
    case, stream = end.case, end.stream
    assert stream is not None
    half = 2 if case.is_answered else 1
    latencies = [gap / half / 1000 for gap in stream.gaps_ns]
    arrived = stream.completed if received is None or case.kind == "latency" else received
    return Row(
        case=case, messages=arrived, seconds=stream.seconds, lost=max(0, stream.completed - arrived),
        latencies_us=latencies,
    )  # fmt: skip
