"""A ping-pong over a real connection: two ends in this process, or one of them and a peer found over TCP."""

from __future__ import annotations

import math
import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.connection.agreement import Agreement, follow_gid
from rdmaqp.connection.wire import Setting, Wire
from rdmaqp.connection.wire_ibv import IbvWire
from rdmaqp.errors import DeadlineError, PeerError, RdmaqpError
from rdmaqp.model.enums import LinkLayer, QPState
from rdmaqp.model.gid import GidChoice, pick_gid
from rdmaqp.verbs import device
from rdmaqp.verbs.loop import PingPongEnd, Verify, run_slice

if TYPE_CHECKING:
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.modify import Transition
    from rdmaqp.verbs.port import Port, PortAttr
    from rdmaqp.verbs.queue_pair import QueuePair


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a ping-pong is to be like. ``None`` is chosen by itself.

    Attributes:
        size: bytes of a message, 1 or more.
        iterations: round trips.
        mtu: path MTU, bytes; by itself the port's active one (1024 towards a stock ``ibv_rc_pingpong``).
        rx_depth: receives kept posted.
        sl: service level.
        events: sleep on completion events instead of spinning.
        validate: compare every byte of each message, not only its head and tail.
        timeout: seconds to wait for the peer, and the longest without progress.
    """

    device: str | None = None
    port_num: int = 1
    gid_index: int | None = None
    size: int = 4096
    iterations: int = 1000
    mtu: int | None = None
    rx_depth: int = 500
    sl: int = 0
    events: bool = False
    validate: bool = False
    timeout: float = 10.0


class Observer:
    """Is told what happens. These methods do nothing; a program overrides those it wants."""

    def chose(self, context: Context, port: Port, attr: PortAttr, gid: GidChoice | None) -> None:
        """The device, the port and the source address that are used."""

    def met(self, local: Endpoint, remote: Endpoint) -> None:
        """Both ends know each other."""

    def moved(self, qp: QueuePair, transition: Transition) -> None:
        """A queue pair has changed state."""

    def progress(self, done: int, total: int) -> None:
        """So many round trips are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a ping-pong came to. Times in microseconds."""

    device: str
    driver: str | None
    qp_type: str
    bytes: int
    iterations: int
    verified: int
    seconds: float
    path_mtu: int
    latencies_us: list[float] = field(repr=False)
    local: Endpoint
    remote: Endpoint
    transitions: list[tuple[int, Transition]]

    @property
    def latency_us(self) -> dict[str, float | None]:
        """``p50``, ``p99``, ``min`` and ``max`` by nearest rank; ``None`` where nothing was measured."""
        ordered = sorted(self.latencies_us)
        if not ordered:
            return dict.fromkeys(("p50", "p99", "min", "max"))
        return {
            "p50": ordered[math.ceil(0.50 * len(ordered)) - 1],
            "p99": ordered[math.ceil(0.99 * len(ordered)) - 1],
            "min": ordered[0],
            "max": ordered[-1],
        }

    def to_dict(self) -> dict[str, Any]:
        """The result in plain types, for JSON."""
        return {
            "device": self.device, "driver": self.driver, "qp_type": self.qp_type, "bytes": self.bytes,
            "iterations": self.iterations, "verified": self.verified, "seconds": round(self.seconds, 6),
            "path_mtu": self.path_mtu,
            "latency_us": {k: v if v is None else round(v, 3) for k, v in self.latency_us.items()},
            "local": {"qp_num": self.local.qp_num, "gid": str(self.local.gid), "lid": self.local.lid},
            "remote": {"qp_num": self.remote.qp_num, "gid": str(self.remote.gid), "lid": self.remote.lid},
            "transitions": [
                {"qp_num": number, "from": t.start.name, "to": t.goal.name, "mask": list(t.mask), "time_ns": t.time_ns}
                for number, t in self.transitions
            ],
        }  # fmt: skip


class End:
    """One end: its queue pair with all that it needs, in INIT, its receives posted."""

    def __init__(
        self, options: Options, observer: Observer, context: Context, stack: ExitStack, *,
        initiator: bool, verify: Verify, default_mtu: int | None = None,
    ) -> None:
        self.options = options
        self._observer = observer
        port = context.port(options.port_num)
        _require_room(options, context)
        most = port.query().max_msg_sz
        if most and options.size > most:
            raise RdmaqpError(f"size: {options.size} bytes are above what {port} can carry in one message, {most}")
        channel = stack.enter_context(context.create_comp_channel()) if options.events else None
        cq = stack.enter_context(context.create_cq(options.rx_depth + 2, channel))
        pd = stack.enter_context(context.alloc_pd())
        send = stack.enter_context(pd.alloc_mr(options.size))
        recv = stack.enter_context(pd.alloc_mr(options.size))
        self.qp = stack.enter_context(pd.create_qp(cq, max_send_wr=1, max_recv_wr=options.rx_depth))
        self._seen = 0
        self.local = self.qp.endpoint(
            options.port_num, psn=secrets.randbits(24), gid_index=options.gid_index, rx_depth=options.rx_depth,
            **_mtu(options, default_mtu),
        )
        self.loop = PingPongEnd(
            self.qp, send, recv, size=options.size, iterations=options.iterations, initiator=initiator,
            verify=verify, rx_depth=options.rx_depth,
        )
        self.qp.to_init(port_num=options.port_num)
        self._tell()
        self.loop.post_receives()

    def connect(self, remote: Endpoint) -> None:
        """INIT → RTR → RTS towards *remote*."""
        self.remote = remote
        self.loop.peer = str(remote)
        self._observer.met(self.local, remote)
        try:
            steps = self.qp.connect(self.local, remote, sl=self.options.sl)
        finally:
            self._tell()
        self.path_mtu = int(steps.rtr.path_mtu or 0)

    def _tell(self) -> None:
        for transition in self.qp.transitions[self._seen :]:
            self._observer.moved(self.qp, transition)
        self._seen = len(self.qp.transitions)

    def result(self, seconds: float, others: tuple[Self, ...] = ()) -> Result:
        """What this end saw, with the transitions of *others* as well."""
        moves = [(end.qp.qp_num, move) for end in (self, *others) for move in end.qp.transitions]
        return Result(
            device=self.qp.pd.context.name, driver=self.qp.pd.context.driver, qp_type=self.qp.type.name,
            bytes=self.options.size, iterations=self.options.iterations, verified=self.loop.received,
            seconds=seconds, path_mtu=self.path_mtu, latencies_us=[ns / 1000 for ns in self.loop.latencies_ns],
            local=self.local, remote=self.remote, transitions=sorted(moves, key=lambda move: move[1].time_ns),
        )


def _require_room(options: Options, context: Context) -> None:
    """What the options need of the device, in the options' own words."""
    most = min(context.attr.max_qp_wr, context.attr.max_cqe - 2)
    if options.rx_depth > most:
        limits = f"{most} (max_qp_wr, max_cqe)"
        raise RdmaqpError(f"rx_depth: {options.rx_depth} is above what {context.name} takes, {limits}")


def _mtu(options: Options, default: int | None) -> dict[str, int]:
    mtu = options.mtu or default
    return {} if mtu is None else {"path_mtu": mtu}


def _open(options: Options, observer: Observer, stack: ExitStack) -> Context:
    context = stack.enter_context(device.open(options.device))
    port = context.port(options.port_num)
    table = port.gids()
    chosen = next((GidChoice(e, "as asked") for e in table if e.index == options.gid_index), None)
    observer.chose(context, port, port.query(), chosen if options.gid_index is not None else pick_gid(table))
    return context


def run_loopback(options: Options, observer: Observer | None = None) -> Result:
    """Both ends in this process, on one device. Raises :class:`RdmaqpError` of whichever kind went wrong."""
    observer = observer or Observer()
    with ExitStack() as stack:
        context = _open(options, observer, stack)
        verify = Verify.WHOLE if options.validate else Verify.STAMP
        first, second = (
            End(options, observer, context, stack, initiator=initiator, verify=verify) for initiator in (True, False)
        )
        first.connect(second.local)
        second.connect(first.local)
        seconds = _run(first, second, options, observer, None)
        return first.result(seconds, (second,))


def run_with_peer(options: Options, wire: Wire, observer: Observer | None = None) -> Result:
    """This end here, the other at the end of *wire*, which says whether we are server or client.

    Raises:
        PeerError, DeadlineError: the peer went away, or does not move.
        RdmaqpError: whatever else went wrong; the peer is told, where the wire can.
    """
    observer = observer or Observer()
    stock = isinstance(wire, IbvWire)
    with ExitStack() as stack:
        context = _open(options, observer, stack)
        end = End(
            options, observer, context, stack, initiator=wire.role == "client", verify=_verify(options, wire),
            default_mtu=1024 if stock else None,
        )

        def bring_up(remote: Endpoint) -> None:
            if stock and end.local.link_layer is LinkLayer.ETHERNET and (remote.gid is None or remote.gid.is_zero):
                text = "the peer sent no GID, and RoCE needs one: start ibv_rc_pingpong with -g INDEX"
                raise PeerError(text, wire.peer)
            end.local = follow_gid(end.qp, end.local)
            end.connect(remote)

        judge = Agreement(end.qp, end.local, None, {"sl": options.sl}).judge
        wire.exchange_records(end.local, _settings(options), bring_up, options.timeout, judge)
        seconds = _run(end, None, options, observer, wire)
        wire.barrier("done", options.timeout)
        return end.result(seconds)


def _settings(options: Options) -> dict[str, Setting]:
    """What both ends must have alike."""
    return {"size": options.size, "iters": options.iterations, "validate": options.validate}


def _verify(options: Options, wire: Wire) -> Verify:
    if isinstance(wire, IbvWire):
        return Verify.ECHO if wire.role == "client" else Verify.STOCK
    return Verify.WHOLE if options.validate else Verify.STAMP


def _run(end: End, other: End | None, options: Options, observer: Observer, wire: Wire | None) -> float:
    """The traffic: slices in C, and between them a look at the peer, the progress, the clock. Seconds it took."""
    start = last = time.monotonic()
    seen = 0
    while not run_slice(end.loop, other.loop if other else None):
        now = time.monotonic()
        done = end.loop.received
        observer.progress(done, options.iterations)
        if done > seen:
            seen, last = done, now
        elif now - last > options.timeout:
            raise DeadlineError(
                f"{end.qp}: no message from the peer ({end.remote}) for {options.timeout:g} s, "
                f"after {done} of {options.iterations} round trips; the queue pair is in {_state(end)}"
            )
        if wire is not None:
            _watch(wire, end, done)
    observer.progress(end.loop.received, options.iterations)
    return time.monotonic() - start


def _watch(wire: Wire, end: End, done: int) -> None:
    try:
        wire.check_peer()
    except PeerError as error:
        raise PeerError(
            f"{end.qp}: its peer ({end.remote}) is gone after {done} of {end.options.iterations} round trips: {error}",
            error.peer,
        ) from error


def _state(end: End) -> str:
    state = end.qp.state
    return state.name if state is not QPState.RTS else "RTS, as it should be"
