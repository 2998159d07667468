"""One end of one benchmark case: a queue pair with its memory, and what it sends, receives or watches."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.bench_plan import Case, Options
from rdmaqp.errors import VerbsError
from rdmaqp.model.acts import GRH_BYTES
from rdmaqp.model.enums import AccessFlag, AtomicCap, QPType
from rdmaqp.verbs.slices import RemoteMemory
from rdmaqp.verbs.stream import Sink, Stream, Watch
from rdmaqp.verbs.work import Destination, FetchAdd, Read, Send, Work, Write

if TYPE_CHECKING:
    from contextlib import ExitStack

    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.queue_pair import QueuePair

_PAGE = 4096
_QKEY = 0x11111111
_LATENCY_INLINE = 188  # what perftest takes for datagrams, the least of its values
_MOST_RD_ATOMIC = 128  # above, rxe keeps 0 (eight bits, rounded up to a power of two)

End = Stream | Sink | Watch


class BenchEnd:
    """One end, in INIT; :meth:`connect` brings it to RTS, its receives posted.

    Attributes:
        sends: whether it is the end that measures.
        stream: what it sends; ``None`` of the end that only receives, or is written to or read.
        sink: what it receives or watches.
    """

    def __init__(self, case: Case, options: Options, context: Context, stack: ExitStack, *, sends: bool) -> None:
        self.case, self.sends, self.context, self._stack, self._options = case, sends, context, stack, options
        self.stream: Stream | None = None
        self.sink: Sink | Watch | None = None
        depth = min(case.tx_depth + case.rx_depth, context.attr.max_cqe)
        cq = stack.enter_context(context.create_cq(depth))
        pd = stack.enter_context(context.alloc_pd())
        self.qp, self._inline = _queue_pair(pd, cq, case)
        stack.enter_context(self.qp)
        room = -(-(case.size + GRH_BYTES) // _PAGE) * _PAGE
        region = stack.enter_context(pd.alloc_mr(2 * room, _access(case.type, context)))
        self._out = region[0 : case.size]
        self._in = region[room : room + case.size + (GRH_BYTES if case.type is QPType.UD else 0)]
        depths = {"max_rd_atomic": context.attr.max_qp_init_rd_atom, "max_dest_rd_atomic": context.attr.max_qp_rd_atom}
        more: dict[str, Any] = {name: min(value, _MOST_RD_ATOMIC) for name, value in depths.items()}
        if options.mtu is not None:
            more["path_mtu"] = options.mtu
        if case.type is QPType.UD:
            more["qkey"] = _QKEY
        self.local = self.qp.endpoint(
            options.port_num, psn=secrets.randbits(24), gid_index=options.gid_index, **more
        )

    @property
    def memory(self) -> RemoteMemory:
        """What the other end writes to, reads from, adds to."""
        return self._in.remote

    def connect(self, remote: Endpoint, memory: RemoteMemory) -> None:
        """To RTS, towards *remote*, whose memory is *memory*; receives are posted on the way."""
        port_num, sl, to = self._options.port_num, self._options.sl, None
        if self.case.type is QPType.UD:
            self.qp.to_init(port_num=port_num, qkey=self.local.qkey)
            self._make_sink()
            self.qp.activate(self.local)
            to = self.qp.destination(remote, sl=sl)
        else:
            self.qp.to_init(port_num=port_num, qp_access_flags=_access(self.case.type, self.context))
            self._make_sink()
            self.qp.connect(self.local, remote, sl=sl)
        self.path_mtu = min(mtu for mtu in (self.local.path_mtu, remote.path_mtu) if mtu)
        if self.sends or self.case.is_answered:
            self._make_stream(self._work(to, memory))

    def _make_sink(self) -> None:
        case = self.case
        if case.receives and (case.is_answered or not self.sends):
            count = None if case.seconds is not None else case.iterations
            self.sink = Sink(self.qp, self._in, count=count, depth=case.rx_depth)
            self.sink.post()
        elif case.is_answered:
            self.sink = Watch(self._in[case.size - 1 : case.size], count=case.iterations)

    def _make_stream(self, work: Work) -> None:
        case, latency = self.case, self.case.kind == "latency"
        self.stream = Stream(
            self.qp, work, count=None if case.seconds is not None else case.iterations, seconds=case.seconds,
            window=1 if latency and not case.is_answered else case.tx_depth, batch=case.post_list,
            signal_every=case.cq_mod, stamped=latency,
        )  # fmt: skip
        if self.sink is not None:
            self.stream.answers(self.sink, first=self.sends)
        if isinstance(self.sink, Watch):
            self.stream.marks(self._out[case.size - 1 : case.size])

    def _work(self, to: Destination | None, memory: RemoteMemory) -> Work:
        case, out = self.case, self._out
        inline = case.size <= self._inline
        if case.operation == "send":
            return Send(out, to=to, inline=inline)
        if case.operation == "write":
            return Write(out, memory[0 : case.size], inline=inline)
        if case.operation == "read":
            return Read(out, memory[0 : case.size])
        return FetchAdd(out, memory[0 : case.size], 1)

    @property
    def ends(self) -> tuple[End, ...]:
        """What runs here."""
        return tuple(end for end in (self.stream, self.sink) if end is not None)


def _access(kind: QPType, context: Context) -> int:
    """What the other end may do with the memory here."""
    access = AccessFlag.LOCAL_WRITE
    if kind is not QPType.UD:
        access |= AccessFlag.REMOTE_WRITE
    if kind is QPType.RC:
        access |= AccessFlag.REMOTE_READ
        if context.attr.atomic_cap is not AtomicCap.NONE:
            access |= AccessFlag.REMOTE_ATOMIC
    return int(access)


def _queue_pair(pd: ProtectionDomain, cq: CompletionQueue, case: Case) -> tuple[QueuePair, int]:
    """A queue pair, and how many bytes go inline: where nothing was asked for, as many as perftest, or none."""

    def make(inline: int) -> QueuePair:
        return pd.create_qp(
            cq, qp_type=case.type, max_send_wr=case.tx_depth, max_recv_wr=case.rx_depth, max_inline_data=inline
        )  # fmt: skip

    if case.inline_size is not None:
        return make(case.inline_size), case.inline_size
    with suppress(VerbsError):
        return make(_LATENCY_INLINE), _LATENCY_INLINE
    return make(0), 0

