"""Completion channels and completion queues."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import ClosedError, CompletionError, DeadlineError, VerbsError
from rdmaqp.model.enums import WCOpcode, WCStatus
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource

if TYPE_CHECKING:
    from rdmaqp.verbs.device import Context

#: How long C may wait before Python looks at signals and at close() again, ns.
SLICE_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class WorkCompletion:
    """``struct ibv_wc``: the end of one work request. *opcode* and *byte_len* count only where *status* is SUCCESS."""

    wr_id: int
    status: int
    opcode: int
    byte_len: int
    qp_num: int
    src_qp: int
    vendor_err: int
    wc_flags: int

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == WCStatus.SUCCESS

    @property
    def status_name(self) -> str:
        """The status' name, without the prefix."""
        return wc_status_name(self.status)

    @property
    def opcode_name(self) -> str:
        """What has completed, in the field's words."""
        known = self.opcode in WCOpcode._value2member_map_
        return WCOpcode(self.opcode).name if known else str(self.opcode)

    def raise_for_status(self) -> None:
        """Raise :class:`CompletionError` where the work request failed."""
        if not self.ok:
            raise CompletionError(
                self.status, self.status_name, wr_id=self.wr_id, vendor_err=self.vendor_err, qp_num=self.qp_num
            )

    @classmethod
    def from_c(cls, wc: Any) -> WorkCompletion:
        """Copy one ``struct ibv_wc``."""
        return cls(
            wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num, wc.src_qp, wc.vendor_err, wc.wc_flags
        )


def wc_status_name(status: int) -> str:
    """The name of a completion status; libibverbs' text where it is newer than we are."""
    if status in WCStatus._value2member_map_:
        return WCStatus(status).name
    ffi, lib = native()
    return str(ffi.string(lib.ibv_wc_status_str(status)).decode())


class CompletionChannel(Resource):
    """``struct ibv_comp_channel``: tells when a completion queue has something, through a file descriptor."""

    kind = "completion channel"
    _rank = 4

    def __init__(self, context: Context) -> None:
        lib = native().lib
        pointer = lib.ibv_create_comp_channel(context.handle)
        super().__init__(check_pointer("ibv_create_comp_channel", pointer, f"device {context.name}"), context)
        # The loops in C take an event only where there is one, and must not block on a stolen one.
        os.set_blocking(self.fd, False)

    @property
    def fd(self) -> int:
        """The descriptor, readable when an event waits; not blocking."""
        return int(self.handle.fd)

    def _destroy(self, handle: Any) -> None:
        check("ibv_destroy_comp_channel", native().lib.ibv_destroy_comp_channel(handle), self.kind)


class CompletionQueue(Resource):
    """``struct ibv_cq``: where work requests end.

    Attributes:
        cqe: the room that the driver gave, at least what was asked for.
    """

    kind = "completion queue"
    _rank = 3

    def __init__(
        self, context: Context, cqe: int, channel: CompletionChannel | None = None, comp_vector: int = 0
    ) -> None:
        ffi, lib = native()
        if not 1 <= cqe <= context.attr.max_cqe:
            raise ValueError(f"cqe: {cqe} is outside 1…{context.attr.max_cqe} (max_cqe of {context.name})")
        if not 0 <= comp_vector < context.handle.num_comp_vectors:
            raise ValueError(
                f"comp_vector: {comp_vector} is outside 0…{context.handle.num_comp_vectors - 1} "
                f"(num_comp_vectors of {context.name})"
            )
        raw_channel = ffi.NULL if channel is None else channel.handle
        pointer = lib.ibv_create_cq(context.handle, cqe, ffi.NULL, raw_channel, comp_vector)
        handle = check_pointer("ibv_create_cq", pointer, f"{cqe} entries on {context.name}")
        super().__init__(handle, context, *(() if channel is None else (channel,)))
        self.context = context
        self.channel = channel
        self.cqe = int(handle.cqe)
        self._wc = ffi.new("struct ibv_wc[]", 64)
        self._events = ffi.new("unsigned int *")

    def poll(self, num_entries: int = 16) -> list[WorkCompletion]:
        """The completions that wait now, 64 at most a call; an empty list where there are none (ibv_poll_cq(3)).

        Raises:
            VerbsError: the queue itself is broken. A failed work request is not an error here: see
                :meth:`WorkCompletion.raise_for_status`.
        """
        count = native().lib.ibv_poll_cq(self.handle, min(num_entries, 64), self._wc)
        if count < 0:
            check("ibv_poll_cq", count, f"completion queue on {self.context.name}")
        return [WorkCompletion.from_c(self._wc[index]) for index in range(count)]

    def wait(self, num_entries: int = 16, *, timeout: float | None = None) -> list[WorkCompletion]:
        """At least one completion, 64 at most, within *timeout* seconds; ``None`` waits for ever.

        Sleeps on the completion channel where there is one, else spins, in C, without the GIL. Ctrl-C works, and
        :meth:`close` from another thread ends the wait.

        Raises:
            DeadlineError: nothing completed in time.
            ClosedError: the queue was closed meanwhile.
        """
        lib = native().lib
        channel = native().ffi.NULL if self.channel is None else self.channel.handle
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = SLICE_NS if end is None else int((end - time.monotonic()) * 1e9)
            with self._lock:
                if self._closing or self.closed:
                    raise ClosedError(f"this {self.kind} was closed during a wait")
                count = lib.rdmaqp_wait_cq(
                    self.handle, channel, min(num_entries, 64), self._wc, min(max(left, 0), SLICE_NS), self._events
                )
                if count > 0:
                    return [WorkCompletion.from_c(self._wc[index]) for index in range(count)]
            if count < 0:
                raise VerbsError("ibv_poll_cq", native().ffi.errno, f"completion queue on {self.context.name}")
            if left <= 0:
                raise DeadlineError(f"no completion within {timeout} s on {self.context.name}")

    def count_events(self, events: int) -> None:
        """Note *events* taken from the channel by a loop in C; they are acknowledged before the queue ends."""
        self._events[0] += events

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        # ibv_destroy_cq() waits for ever for events that were taken and not acknowledged.
        if self._events[0]:
            lib.ibv_ack_cq_events(handle, self._events[0])
            self._events[0] = 0
        check("ibv_destroy_cq", lib.ibv_destroy_cq(handle), self.kind)
