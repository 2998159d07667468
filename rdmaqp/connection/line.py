"""What a :class:`~rdmaqp.Connection` has of the device: a queue pair, memory in slots, a queue to sleep on."""

from __future__ import annotations

import math
import select
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.errors import DeadlineError, DeviceError
from rdmaqp.model.enums import WCOpcode
from rdmaqp.verbs import device
from rdmaqp.verbs.work import Recv, Send

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.connection.sockets import Deadline
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.work_completion import WorkCompletion

_LONGEST_SLEEP_S = 1.0  # what raises no event (a queue pair that fails by itself) is noticed that soon


class Arrival(NamedTuple):
    """A message that has come: the slot that it stands in, and how long it is; or its bytes, once taken out."""

    slot: int
    length: int
    data: bytes | None = None


class Line:
    """The device's part. Closed as a whole.

    Attributes:
        qp: the queue pair; a recovery may replace it.
        size: bytes of a slot. There are *depth* slots to send from, and as many to receive into.
    """

    def __init__(self, context: Context | str | None, port_num: int, *, size: int, depth: int) -> None:
        self.size, self.depth = size, depth
        with ExitStack() as stack:
            if context is None or isinstance(context, str):
                context = stack.enter_context(device.open(context))
            most = min(context.attr.max_qp_wr, context.attr.max_cqe // 2)
            if depth > most:
                raise DeviceError(f"depth: {depth} is above what {context.name} takes, {most} (max_qp_wr, max_cqe)")
            longest = context.port(port_num).query().max_msg_sz
            if size > longest:
                raise DeviceError(f"size: {size} is above what {context.name} sends at once, {longest} (max_msg_sz)")
            self._channel = stack.enter_context(context.create_comp_channel())
            self.cq = stack.enter_context(context.create_cq(2 * depth, self._channel))
            pd = stack.enter_context(context.alloc_pd())
            self._region = stack.enter_context(_memory(pd, size, depth))
            self.qp: QueuePair = pd.create_qp(self.cq, max_send_wr=depth, max_recv_wr=depth)
            self._stack = stack.pop_all()

    def write(self, slot: int, data: memoryview) -> None:
        """Put *data* into a slot to send from."""
        self._region.buffer[slot * self.size : slot * self.size + len(data)] = data

    def read(self, slot: int, length: int, *, received: bool) -> bytes:
        """The bytes in a slot."""
        start = (slot + self.depth * received) * self.size
        return bytes(self._region.buffer[start : start + length])

    def send(self, slot: int, length: int) -> None:
        """Post it. Raises GuardError, VerbsError."""
        start = slot * self.size
        self.qp.post(Send(self._region[start : start + length], wr_id=slot))

    def receive(self, qp: QueuePair, slots: Iterable[int]) -> None:
        """Post receives. Raises GuardError, VerbsError."""
        for slot in slots:
            start = (self.depth + slot) * self.size
            qp.post(Recv(self._region[start : start + self.size], wr_id=slot))

    def wait(self, also: Sequence[int], deadline: Deadline) -> list[WorkCompletion]:
        """What has completed, 64 at most. Where that is nothing, sleeps until something does, one of the descriptors
        in *also* has something, or *deadline* is over.
        """
        found = self.cq.poll(64)
        if found or not deadline.left():
            return found
        self.cq.req_notify()
        found = self.cq.poll(64)  # what came before raises no event
        if found:
            return found
        poller = select.poll()
        for fd in (self._channel.fd, *also):
            poller.register(fd, select.POLLIN)
        poller.poll(math.ceil(min(deadline.left(), _LONGEST_SLEEP_S) * 1000))
        with suppress(DeadlineError):  # nothing to take: it was one of the others
            self._channel.get_event(timeout=0)
        return self.cq.poll(64)

    def close(self) -> None:
        """Close all of it."""
        self._stack.close()


def _memory(pd: ProtectionDomain, size: int, depth: int) -> MemoryRegion:
    """Slots to send from and to receive into. Raises VerbsError; MemoryError where there is not so much."""
    try:
        return pd.alloc_mr(2 * depth * size)
    except MemoryError as error:
        text = f"{error}\na connection takes 2 * depth * size bytes: give a smaller depth ({depth}) or size ({size})"
        raise MemoryError(text) from error


def flat(data: Buffer) -> memoryview:
    """The bytes of *data* in a row. Raises TypeError where it has none."""
    try:
        view = memoryview(data)
    except TypeError:
        given = f"{data!r:.60} ({type(data).__name__})"
        raise TypeError(f"send(): data is {given}; expected a bytes-like object") from None
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def arrival_of(wc: WorkCompletion) -> Arrival | None:
    """The message that a completion, which succeeded, has brought; ``None`` where it was a send's."""
    return Arrival(wc.wr_id, wc.byte_len) if wc.opcode & WCOpcode.RECV else None
