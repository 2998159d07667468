"""What a benchmark is about: its options, its cases, what cannot be tried, what each case came to. Plain data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rdmaqp.guard import check
from rdmaqp.model.acts import Post, WROpcode
from rdmaqp.model.enums import AtomicCap, QPType
from rdmaqp.model.request import QPCap, QPFacts, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.verbs.device import Context

#: Each operation by the work request that it posts.
OPERATIONS = {
    "send": WROpcode.SEND, "write": WROpcode.RDMA_WRITE, "read": WROpcode.RDMA_READ,
    "atomic": WROpcode.ATOMIC_FETCH_AND_ADD,
}  # fmt: skip
KINDS = ("latency", "bandwidth")
ATOMIC_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a benchmark is to be like. ``None`` is chosen by itself.

    Attributes:
        kinds: ``"latency"`` (one message under way), ``"bandwidth"`` (a window of them: bytes and messages a second).
        operations: of :data:`OPERATIONS`.
        sizes: bytes of a message; atomics always have 8.
        iterations: messages of each case.
        seconds: for bandwidth, instead of *iterations*.
        mtu: path MTU, bytes; by itself the port's active one.
        tx_depth: sends under way at most.
        rx_depth: receives kept posted.
        post_list: requests handed to the driver in one call.
        cq_mod: each of so many sends is signaled.
        inline_size: messages up to it are copied while posting; by itself 188 bytes for latency where the device
            can, none for bandwidth.
        timeout: seconds to wait for the peer, and the longest without progress.
    """

    device: str | None = None
    port_num: int = 1
    gid_index: int | None = None
    qp_type: QPType = QPType.RC
    kinds: tuple[str, ...] = KINDS
    operations: tuple[str, ...] = tuple(OPERATIONS)
    sizes: tuple[int, ...] = (64, 4096, 65536)
    iterations: int = 1000
    seconds: float | None = None
    mtu: int | None = None
    tx_depth: int = 128
    rx_depth: int = 512
    post_list: int = 1
    cq_mod: int = 100
    inline_size: int | None = None
    sl: int = 0
    timeout: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement, the same at both ends: these fields travel to the server."""

    kind: str
    operation: str
    qp_type: str
    size: int
    iterations: int
    seconds: float | None
    tx_depth: int
    rx_depth: int
    post_list: int
    cq_mod: int
    inline_size: int | None

    @property
    def type(self) -> QPType:
        """The kind of queue pair."""
        return QPType[self.qp_type]

    @property
    def is_answered(self) -> bool:
        """Whether both ends send, in turn: latency of SEND and of WRITE is half a round trip."""
        return self.kind == "latency" and self.operation in ("send", "write")

    @property
    def receives(self) -> bool:
        """Whether messages take receives."""
        return self.operation == "send"

    @property
    def can_lose(self) -> bool:
        """Whether a message may be lost without anybody being told."""
        return self.type is not QPType.RC

    def __str__(self) -> str:
        return f"{self.kind} of {self.operation.upper()}, {self.qp_type}, {self.size:,} bytes"

    def to_text(self) -> str:
        """For the other end."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Case:
        """What :meth:`to_text` wrote. Raises ValueError, TypeError: something else did."""
        case = cls(**json.loads(text))
        if case.kind not in KINDS or case.operation not in OPERATIONS or case.qp_type not in QPType.__members__:
            raise ValueError(f"no such case: {text[:200]}")
        numbers = (case.size, case.iterations, case.tx_depth, case.rx_depth, case.post_list, case.cq_mod)
        if any(type(number) is not int or not 1 <= number < 1 << 62 for number in numbers):
            raise ValueError(f"a number of this case cannot be: {text[:200]}")
        return case


@dataclass(frozen=True, slots=True)
class Skipped:
    """A case that is not tried, and why."""

    operation: str
    qp_type: str
    size: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a case came to. *latencies_us* are those of messages, in µs; *lost* messages did not arrive."""

    case: Case
    messages: int
    seconds: float
    lost: int = 0
    latencies_us: list[float] = field(default_factory=list, repr=False)

    @property
    def latency_us(self) -> dict[str, float] | None:
        """``p50``, ``p99``, ``min`` and ``max`` by nearest rank; ``None`` of a bandwidth, and where nothing came."""
        ordered = sorted(self.latencies_us)
        if not ordered:
            return None
        at = {name: ordered[math.ceil(share * len(ordered)) - 1] for name, share in (("p50", 0.5), ("p99", 0.99))}
        return {**at, "min": ordered[0], "max": ordered[-1]}

    @property
    def messages_per_s(self) -> float | None:
        """Messages a second; ``None`` of a latency."""
        return self.messages / self.seconds if self.case.kind == "bandwidth" and self.seconds else None

    @property
    def mb_per_s(self) -> float | None:
        """Megabytes (10**6) a second."""
        rate = self.messages_per_s
        return None if rate is None else rate * self.case.size / 1e6

    def to_dict(self) -> dict[str, Any]:
        """In plain types, for JSON."""
        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 3)

        latency = self.latency_us
        return {
            "kind": self.case.kind, "operation": self.case.operation, "qp_type": self.case.qp_type,
            "bytes": self.case.size, "messages": self.messages, "seconds": round(self.seconds, 6), "lost": self.lost,
            "latency_us": latency and {name: rounded(value) for name, value in latency.items()},
            "mb_per_s": rounded(self.mb_per_s), "messages_per_s": rounded(self.messages_per_s),
        }  # fmt: skip


def plan(options: Options, context: Context, abilities: Mapping[str, Any]) -> tuple[list[Case], list[Skipped]]:
    """The cases, and what is not tried with why; *abilities* are those of the weaker end (:func:`abilities_of`)."""
    cases, skipped = [], []
    for operation in options.operations:
        sizes = (ATOMIC_BYTES,) if operation == "atomic" else options.sizes
        why = _why_never(options, operation, context, abilities)
        if why is not None:
            skipped.append(Skipped(operation, options.qp_type.name, None, why))
            continue
        for size in sizes:
            why = _why_not_of(options, size, abilities)
            if why is not None:
                skipped.append(Skipped(operation, options.qp_type.name, size, why))
                continue
            cases += [_case(options, kind, operation, size) for kind in options.kinds]
    return cases, skipped


def _case(options: Options, kind: str, operation: str, size: int) -> Case:
    latency = kind == "latency"
    return Case(
        kind=kind, operation=operation, qp_type=options.qp_type.name, size=size, iterations=options.iterations,
        seconds=None if latency else options.seconds, tx_depth=min(options.tx_depth, options.iterations),
        rx_depth=options.rx_depth, post_list=1 if latency else options.post_list,
        cq_mod=1 if latency else options.cq_mod,
        inline_size=options.inline_size if latency or options.inline_size is not None else 0,
    )  # fmt: skip


def abilities_of(context: Context, port_num: int) -> dict[str, int | str]:
    """What the other end has to know of this one before it plans."""
    port = context.port(port_num).query()
    return {
        "device": context.name, "atomic_cap": context.attr.atomic_cap.name, "max_msg_sz": port.max_msg_sz,
        "path_mtu": port.active_mtu, "max_qp_wr": context.attr.max_qp_wr, "max_cqe": context.attr.max_cqe,
    }  # fmt: skip


def weaker(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """What both can."""
    both = {name: min(value, theirs.get(name) or value) for name, value in ours.items() if isinstance(value, int)}
    without = next((end for end in (ours, theirs) if end.get("atomic_cap") == AtomicCap.NONE.name), ours)
    return {**both, "atomic_cap": without["atomic_cap"], "device": without["device"]}


def _why_never(options: Options, operation: str, context: Context, abilities: Mapping[str, Any]) -> str | None:
    """Why an operation cannot be tried at any size, by the guard's table."""
    qp = QPFacts(type=options.qp_type)
    cap = QPCap(max_send_wr=options.tx_depth, max_recv_wr=options.rx_depth, max_send_sge=1, max_recv_sge=1,
                max_inline_data=0)  # fmt: skip
    posting = Post(queue="send", opcode=OPERATIONS[operation], num_sge=1)
    for request in (
        Request(qp=qp, create=cap, device=context.facts), Request(qp=qp, post=posting, device=context.facts)
    ):  # fmt: skip
        errors = check(request).errors
        if errors:
            return errors[0].message
    if operation == "atomic" and abilities["atomic_cap"] == AtomicCap.NONE.name:
        return f"{abilities['device']} has no atomics (atomic_cap NONE)"
    return None


def _why_not_of(options: Options, size: int, abilities: Mapping[str, Any]) -> str | None:
    most = abilities["max_msg_sz"]
    if most and size > most:
        return f"a message has at most {most:,} bytes here (max_msg_sz)"
    mtu = min(options.mtu or abilities["path_mtu"], abilities["path_mtu"])
    if options.qp_type is QPType.UD and mtu and size > mtu:
        return f"a datagram has at most {mtu:,} bytes, the path MTU"
    return None
