"""Completion channels and completion queues."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from socket import ntohl
from typing import TYPE_CHECKING, Any, cast

from rdmaqp.errors import ClosedError, DeadlineError, RdmaqpError, VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.enums import WCOpcode, WCStatus
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource, emptied

if TYPE_CHECKING:
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.records import Completions

#: How long C may wait before Python looks at signals and at close() again, ns.
SLICE_NS = 20_000_000

_WITH_IMM = 2  # enum ibv_wc_flags

#: What a completion prints only where there is something in it.
_SELDOM = ("src_qp", "wc_flags", "imm")

#: Completions taken by one call.
_MOST = 64


@dataclass(frozen=True)
class WorkCompletion:
    """``struct ibv_wc``: the end of one work request. *opcode* and *byte_len* count only where *status* is SUCCESS.

    *imm* is the sender's immediate data, in host byte order; ``None`` where it sent none. *src_qp*, *slid*, *sl* and
    *dlid_path_bits* tell of whom a datagram came (``QueuePair.reply_to``).
    """

    # Written out, since one of them is no field: the queue that it came from is nobody's business but an error's.
    __slots__ = (
        "_queue", "byte_len", "dlid_path_bits", "imm", "opcode", "qp_num", "sl", "slid", "src_qp", "status",
        "vendor_err", "wc_flags", "wr_id",
    )  # fmt: skip

    wr_id: int
    status: int
    opcode: int
    byte_len: int
    qp_num: int
    src_qp: int
    vendor_err: int
    wc_flags: int
    imm: int | None
    slid: int
    sl: int
    dlid_path_bits: int

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
        """Raise :class:`~rdmaqp.errors.CompletionError` where the work request failed; it says why."""
        if not self.ok:
            from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

            queue = getattr(self, "_queue", None)
            raise completion_error(self, None if queue is None else queue.queue_pair(self.qp_num))

    @classmethod
    def from_c(cls, wc: Any, queue: CompletionQueue | None = None) -> WorkCompletion:
        """Copy one ``struct ibv_wc``, which came from *queue*."""
        flags = wc.wc_flags
        made = cls(
            wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num, wc.src_qp, wc.vendor_err, flags,
            ntohl(wc.imm_data) if flags & _WITH_IMM else None, wc.slid, wc.sl, wc.dlid_path_bits,
        )  # fmt: skip
        object.__setattr__(made, "_queue", queue)
        return made

    def __repr__(self) -> str:
        """What counts, by name: a failed one has no opcode and no length, but the vendor's word."""
        status = WCStatus(self.status).name if self.status in WCStatus._value2member_map_ else str(self.status)
        parts = [f"wr_id={self.wr_id:#x}", f"status={status}", f"qp_num={self.qp_num:#x}"]
        if not self.ok:
            return f"WorkCompletion({', '.join(parts)}, vendor_err={self.vendor_err:#x})"
        parts += [f"opcode={self.opcode_name}", f"byte_len={self.byte_len}"]
        parts += [f"{name}={value:#x}" for name in _SELDOM if (value := getattr(self, name) or 0)]
        return f"WorkCompletion({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkCompletion, tuple(getattr(self, field.name) for field in fields(self))


def wc_status_name(status: int) -> str:
    """The name of a completion status; libibverbs' text where it is newer than we are."""
    if status in WCStatus._value2member_map_:
        return WCStatus(status).name
    ffi, lib = native()
    return str(ffi.string(lib.ibv_wc_status_str(status)).decode())


class CompletionChannel(Resource):
    """``struct ibv_comp_channel``: tells when a completion queue has something, through a file descriptor."""

    kind = "completion channel"
    _rank = 5

    def __init__(self, context: Context) -> None:
        def make() -> Any:
            pointer = native().lib.ibv_create_comp_channel(context.handle)
            return check_pointer("ibv_create_comp_channel", pointer, f"device {context.name}")

        super().__init__(make, context)
        self.context = context
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
    _rank = 4

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
        if channel is not None and channel.context is not context:
            raise ValueError(f"the channel belongs to another opening of a device than this one of {context.name}")

        def make() -> Any:
            raw_channel = ffi.NULL if channel is None else channel.handle
            pointer = lib.ibv_create_cq(context.handle, cqe, ffi.NULL, raw_channel, comp_vector)
            handle = check_pointer("ibv_create_cq", pointer, f"{cqe} entries on {context.name}")
            self.cqe, self.raw.cq, self.raw.channel = int(handle.cqe), handle, raw_channel
            return handle

        #: What C knows of it: whose completions come here.
        self.raw = ffi.new("struct rdmaqp_cq *")
        self.context = context
        self.channel = channel
        self._wc = ffi.new("struct ibv_wc[]", _MOST)
        self._verb = ffi.new("const char **")
        self._poll = lib.rdmaqp_poll
        super().__init__(make, context, *(() if channel is None else (channel,)))

    def __str__(self) -> str:
        return f"completion queue on {self.context.name}"

    def queue_pair(self, qp_num: int) -> QueuePair | None:
        """The open queue pair of that number whose work ends here; ``None`` where there is none."""
        for child in list(self._children.values()):
            if child.kind == "queue pair" and getattr(child, "qp_num", None) == qp_num:
                return cast("QueuePair", child)
        return None

    def poll(self, num_entries: int = 16) -> list[WorkCompletion]:
        """The completions that wait now, 64 at most a call; an empty list where there are none (ibv_poll_cq(3)).

        Raises:
            VerbsError: the queue itself is broken. A failed work request is not an error here: see
                :meth:`WorkCompletion.raise_for_status`.
        """
        if num_entries < 0:
            raise ValueError(f"num_entries: {num_entries} is below 0")
        with self._lock:
            count = self._poll(self.raw, min(num_entries, _MOST), self._wc)
            if count < 0:
                raise self._poll_failed("ibv_poll_cq")
            return [WorkCompletion.from_c(self._wc[index], self) for index in range(count)]

    def poll_into(self, completions: Completions) -> int:
        """Fill *completions* with those that wait now, and say how many there are: no object is made of any.

        Raises :class:`VerbsError` where the queue is broken, :class:`ClosedError`.
        """
        count = self._poll(self.raw, completions.size, completions.raw)
        if count < 0:
            completions.count = 0
            raise self._poll_failed("ibv_poll_cq")
        completions.count = count
        return int(count)

    def _poll_failed(self, verb: str) -> RdmaqpError:
        number = native().ffi.errno
        if number:
            return VerbsError(verb, number, str(self))
        return ClosedError(f"this {self.kind} is closed{self._because()}")

    @checked()
    def wait(self, num_entries: int = 16, *, timeout: float | None = None) -> list[WorkCompletion]:
        """At least one completion, 64 at most, within *timeout* seconds; ``None`` waits for ever.

        Sleeps on the completion channel where there is one, else spins, in C, without the GIL. Ctrl-C works, and
        :meth:`close` from another thread ends the wait.

        Raises:
            DeadlineError: nothing completed in time.
            ClosedError: the queue was closed meanwhile, or was to be, and the driver refused.
            VerbsError: the queue or the channel is broken.
        """
        if num_entries < 1:
            raise ValueError(f"num_entries: {num_entries} completions cannot be waited for")
        end = None if timeout is None else time.monotonic() + timeout
        closings = self._closings
        while True:
            if self._closings != closings:
                self.require_open()
                raise ClosedError(f"this {self.kind} was to be closed by another thread, and the driver refused")
            left = SLICE_NS if end is None else max(0, min((end - time.monotonic()) * 1e9, SLICE_NS))
            found = self._wait_slice(min(num_entries, _MOST), int(left))
            if found:
                return found
            if left <= 0:
                raise DeadlineError(self._nothing_came(timeout))

    def _wait_slice(self, num_entries: int, slice_ns: int) -> list[WorkCompletion]:
        ffi, lib = native()
        with self._lock:
            self.require_open()
            count = lib.rdmaqp_wait(self.raw, num_entries, self._wc, slice_ns, self._verb)
            if count < 0:
                raise self._poll_failed(ffi.string(self._verb[0]).decode() if ffi.errno else "")
            return [WorkCompletion.from_c(self._wc[index], self) for index in range(count)]

    def _nothing_came(self, timeout: float | None) -> str:
        """What a wait in vain says: whose completions they would have been, and what keeps one away for ever."""
        pairs = [child for child in self._children.values() if child.kind == "queue pair"]
        lines = [f"no completion within {timeout} s on {self.context.name}"]
        lines += [f"  {pair}: {pair.where_now()}" for pair in pairs]  # type: ignore[attr-defined]
        if pairs:
            lines.append(
                "A receive completes when a message comes. A send is tried again without end while the peer has no "
                "receive posted (rnr_retry 7), and on Soft-RoCE also while nobody answers (retry_cnt 7)."
            )
        return "\n".join(lines)

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        with emptied(self.raw):
            check("ibv_destroy_cq", lib.ibv_destroy_cq(handle), self.kind)
        lib.rdmaqp_end_cq(self.raw)
