"""The ping-pong loop in C, seen from Python: one end of it, or both ends within this process."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import RdmaqpError, VerbsError
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import holding
from rdmaqp.verbs.completion import SLICE_NS
from rdmaqp.verbs.work_completion import WorkCompletion

if TYPE_CHECKING:
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.queue_pair import QueuePair


class Verify(StrEnum):
    """How each received message is checked."""

    #: a number at its head and its tail, other for each message and direction
    STAMP = "stamp"
    #: every byte
    WHOLE = "whole"
    #: as client of a stock ``ibv_rc_pingpong``: every byte is what we sent
    ECHO = "echo"
    #: as server of one: every byte is the constant that it sends
    STOCK = "stock"


class DataError(RdmaqpError):
    """A message arrived with other bytes, or another length, than were sent."""


class PingPongEnd:
    """One end of a ping-pong: the queue pair, its memory, and how far it has come.

    *iterations* messages go each way; the *initiator* sends first. Its start and each message's arrival are stamped
    (``CLOCK_MONOTONIC``, ns) into a preallocated array. The queue pair, and the one completion queue that it must
    have to itself, belong to the loop while it runs. *rx_depth* is held to the queue pair's.

    Raises:
        ValueError: a size or a number that cannot be, a message larger than its region, two completion queues.
        ClosedError: something of it is closed.
    """

    def __init__(
        self,
        qp: QueuePair,
        send: MemoryRegion,
        recv: MemoryRegion,
        *,
        size: int,
        iterations: int,
        initiator: bool,
        verify: Verify = Verify.STAMP,
        rx_depth: int | None = None,
        peer: str = "",
    ) -> None:
        if size < 1 or iterations < 1:
            raise ValueError(f"a ping-pong has at least 1 byte and 1 iteration, not {size} and {iterations}")
        if rx_depth is not None and rx_depth < 1:
            raise ValueError(f"rx_depth: {rx_depth} is below 1")
        if qp.send_cq is not qp.recv_cq:
            raise ValueError(f"{qp} has two completion queues; the ping-pong looks at one")
        for name, region in (("send", send), ("receive", recv)):
            if size > region.length:
                raise ValueError(f"size: {size} bytes do not fit the {name} region of {region.length} bytes")
        ffi, lib = native()
        self.qp = qp
        self.peer = peer
        self.uses = (qp.send_cq, qp, send, recv)
        for resource in self.uses:
            resource.require_open()
        self._stamps = ffi.new("int64_t[]", iterations + 1)
        self._raw = ffi.new("struct rdmaqp_end *", {
            "pair": qp.raw, "queue": qp.send_cq.raw,
            "send_buffer": ffi.cast("uint8_t *", send.span(0, size)),
            "recv_buffer": ffi.cast("uint8_t *", recv.span(0, size)),
            "send_lkey": send.lkey, "recv_lkey": recv.lkey, "size": size,
            "rx_depth": min(rx_depth or qp.cap.max_recv_wr, qp.cap.max_recv_wr),
            "send_flags": lib.IBV_SEND_INLINE if size <= qp.cap.max_inline_data else 0,
            "verify": getattr(lib, f"RDMAQP_VERIFY_{verify.name}"), "initiator": int(initiator),
            "iterations": iterations, "stamps": self._stamps,
        })  # fmt: skip

    def post_receives(self) -> None:
        """Fill the receive queue; to be done in INIT, before the peer may send."""
        with holding(*self.uses):
            if native().lib.rdmaqp_end_post_receives(self._raw):
                self.raise_failure()

    @property
    def received(self) -> int:
        """Messages received and found right."""
        return int(self._raw.verified)

    @property
    def latencies_ns(self) -> list[int]:
        """Each round trip's time as far as it has come; the end that answers has no start, and so one less."""
        first = 0 if self._raw.initiator else 1
        stamps = self._stamps[first : self._raw.received + 1]
        return [after - before for before, after in pairwise(stamps)]

    def raise_failure(self) -> None:
        """Raise what the loop noted: a refused post, a failed completion, wrong bytes."""
        (ffi, lib), raw = native(), self._raw
        if raw.failed == lib.RDMAQP_FAILED_STATUS:
            wc = WorkCompletion.from_c(raw.wc)
            from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

            done = f"after {raw.received} of {raw.iterations} messages"
            raise completion_error(wc, self.qp, peer=self.peer, notes=(done,))
        if raw.failed == lib.RDMAQP_FAILED_DATA:
            raise DataError(
                f"{self.qp}: message {raw.received} arrived with wrong bytes, or with {raw.wc.byte_len} of {raw.size}"
            )
        if raw.failed == lib.RDMAQP_FAILED_VERB:
            raise VerbsError(ffi.string(raw.verb).decode(), raw.error, str(self.qp))

    @property
    def raw(self) -> Any:
        """The C struct."""
        return self._raw


def run_slice(end: PingPongEnd, other: PingPongEnd | None = None, slice_ns: int = SLICE_NS) -> bool:
    """Run one end, or both ends of a connection within this process, for *slice_ns* at most. Whether it is done.

    Raises:
        CompletionError, DataError, VerbsError: what stopped it.
        ClosedError: something that an end uses is closed.
        ValueError: both ends have one completion queue.
    """
    ffi, lib = native()
    ends = [end] if other is None else [end, other]
    if other is not None and end.qp.send_cq is other.qp.send_cq:
        raise ValueError(f"{end.qp} and {other.qp} have one completion queue, and would take each other's completions")
    # Closing any of it while C runs would free what C writes to.
    with holding(*(resource for side in ends for resource in side.uses)):
        result = lib.rdmaqp_pingpong_run(end.raw, ffi.NULL if other is None else other.raw, slice_ns)
    if result < 0:
        for side in ends:
            side.raise_failure()
    return bool(result == 1)
