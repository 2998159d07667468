"""Completion queues."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from rdmaqp.errors import ClosedError, DeadlineError, RdmaqpError, VerbsError
from rdmaqp.model.arguments import checked, wrong_type
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource, emptied
from rdmaqp.verbs.arrivals import Arrivals
from rdmaqp.verbs.work_completion import WorkCompletion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.verbs.channel import CompletionChannel
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.group import QueuePairs
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.records import Completions

#: How long C may wait before Python looks at signals and at close() again, ns. Where another thread keeps the GIL busy,
#: each slice waits for it up to 5 ms (``sys.getswitchinterval``): half as long would cost a stream a third of its rate
#: there; alone it costs nothing.
SLICE_NS = 10_000_000

#: Completions taken by one call.
_MOST = 64

#: Queue pairs that a message names.
_SHOWN = 8


def deadline(title: str, timeout: float | None) -> float | None:
    """When *timeout* seconds from now are over; ``None``: never. Raises TypeError, in words, where it is no number."""
    try:
        return None if timeout is None else time.monotonic() + timeout
    except TypeError:
        raise wrong_type(title, "timeout", timeout, "a number or None") from None


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
        found = (group.numbered(qp_num) for group in self._groups())
        return next((one for one in found if one is not None), None)

    def _groups(self) -> list[QueuePairs]:
        return [cast("QueuePairs", child) for child in list(self._children.values())
                if child.kind == "group of queue pairs"]  # fmt: skip

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
                raise self._poll_failed("ibv_poll_cq", native().ffi.errno)
            return [WorkCompletion.from_c(self._wc[index], self) for index in range(count)]

    def poll_into(self, completions: Completions) -> int:
        """Fill *completions* with those that wait now, and say how many there are: no object is made of any.

        Raises :class:`VerbsError` where the queue is broken, :class:`ClosedError`.
        """
        try:
            room, into, completions.queue = completions.size, completions.raw, self
        except AttributeError:
            raise wrong_type("poll_into", "completions", completions, "Completions, such as Completions(64)") from None
        count = self._poll(self.raw, room, into)
        if count < 0:
            completions.count = 0
            raise self._poll_failed("ibv_poll_cq", native().ffi.errno)
        completions.count = count
        return int(count)

    def _poll_failed(self, verb: str, number: int) -> RdmaqpError:
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
        for slice_ns in self._slices(timeout):
            with self._lock:
                count = self._wait_slice(min(num_entries, _MOST), self._wc, slice_ns)
                if count:
                    return [WorkCompletion.from_c(self._wc[index], self) for index in range(count)]
        raise DeadlineError(self._nothing_came(timeout))

    def wait_into(self, completions: Completions, at_least: int = 1, *, timeout: float | None = None) -> int:
        """Fill *completions* with *at_least* so many, and say how many came: :meth:`wait` without an object of any.

        Raises:
            DeadlineError: there were less in time; ``completions.count`` of them did come, and are there.
            ClosedError, VerbsError: as :meth:`wait`; what had come is there too.
        """
        if not 1 <= at_least <= completions.size:
            raise ValueError(f"at_least: {at_least} is outside 1…{completions.size}, the room for completions")
        completions.queue, completions.count = self, 0
        for slice_ns in self._slices(timeout):
            with self._lock:
                room, free = completions.size - completions.count, completions.raw + completions.count
                completions.count += self._wait_slice(room, free, slice_ns)
            if completions.count >= at_least:
                return completions.count
        came = f"{completions.count} of {at_least} completions came; then " if completions.count else ""
        raise DeadlineError(came + self._nothing_came(timeout))

    def _take(self, qp_num: int, kinds: int, slice_ns: int = 0) -> list[WorkCompletion]:
        """Completions of queue pair *qp_num* alone, within a slice of time, 64 at most; others' are held for who polls.

        *kinds*: 1 of sends, 2 of receives, 3 both. The opcode of one that failed is
        SEND or RECV. Raises :class:`ClosedError`, :class:`VerbsError`.
        """
        ffi, lib = native()
        with self._lock:
            self.require_open()
            count = int(lib.rdmaqp_take(self.raw, qp_num, kinds, _MOST, self._wc, slice_ns, self._verb))
            return self._taken(count, ffi.errno)

    def _taken(self, count: int, number: int) -> list[WorkCompletion]:
        if self.raw.events and self.channel is not None:
            self.raw.events = 0
            self.channel._wake()  # a task may have waited for an event that was taken here
        if count < 0:
            raise self._poll_failed(native().ffi.string(self._verb[0]).decode() if number else "", number)
        return [WorkCompletion.from_c(self._wc[index], self) for index in range(count)]

    def _slices(self, timeout: float | None) -> Iterator[int]:
        """The time to wait, in ns, in slices; the last is 0. Raises ClosedError where there was a close() meanwhile."""
        end = deadline("wait", timeout)
        closings, left = self.closings, 1.0
        while left > 0:
            self._require_not_closed_since(closings)
            left = SLICE_NS if end is None else max(0, min((end - time.monotonic()) * 1e9, SLICE_NS))
            yield int(left)

    def _wait_slice(self, num_entries: int, wc: Any, slice_ns: int) -> int:
        ffi, lib = native()
        self.require_open()
        count = int(lib.rdmaqp_wait(self.raw, num_entries, wc, slice_ns, self._verb))
        number = ffi.errno
        if self.raw.events and self.channel is not None:
            self.raw.events = 0
            self.channel._wake()  # a task may have waited for an event that was taken here
        if count < 0:
            raise self._poll_failed(ffi.string(self._verb[0]).decode() if number else "", number)
        return count

    # ------------------------------------------------------------------ events

    def require_channel(self) -> CompletionChannel:
        """Its completion channel. Raises :class:`ValueError` where it has none."""
        if self.channel is None:
            raise ValueError(
                f"this {self.kind} has no completion channel, so nothing can tell of its completions: make it with "
                "device.create_cq(cqe, device.create_comp_channel()), or use wait()"
            )
        return self.channel

    @checked()
    def req_notify(self, *, solicited_only: bool = False) -> None:
        """Have the next completion raise an event, once (ibv_req_notify_cq(3)): then poll, before you sleep.

        With *solicited_only*, only a receive whose sender said ``solicited=True``, or one that failed, does.

        Raises:
            ValueError: the queue has no channel.
            ClosedError, VerbsError: it is closed, or the driver refused.
        """
        self.require_channel()
        with self._lock:
            check("ibv_req_notify_cq", native().lib.rdmaqp_req_notify_cq(self.handle, int(solicited_only)), str(self))

    @checked()
    def completions(self, num_entries: int = 16) -> Arrivals:
        """For asyncio: ``await`` it for a list of at least one completion, or iterate over it with ``async for``.

        See :class:`~rdmaqp.verbs.arrivals.Arrivals`. The queue needs a channel. Raises what :meth:`wait` raises.
        """
        if num_entries < 1:
            raise ValueError(f"num_entries: {num_entries} completions cannot be waited for")
        return Arrivals(self, num_entries)

    def _nothing_came(self, timeout: float | None) -> str:
        """What a wait in vain says: whose completions they would have been, and what keeps one away for ever."""
        pairs = [child for child in list(self._children.values()) if child.kind == "queue pair"]
        lines = [f"no completion within {timeout} s on {self.context.name}"]
        lines += [f"  {pair}: {pair.where_now()}" for pair in pairs[:_SHOWN]]  # type: ignore[attr-defined]
        if len(pairs) > _SHOWN:
            lines.append(f"  and {len(pairs) - _SHOWN} more")
        lines += [f"  {group}: {group.where_now()}, as last known" for group in self._groups()]
        if pairs:
            lines.append(
                "A receive completes when a message comes. A send is tried again without end while the peer has no "
                "receive posted (rnr_retry 7), and on Soft-RoCE also while nobody answers (retry_cnt 7)."
            )
        return "\n".join(lines)

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        try:
            with emptied(self.raw):
                check("ibv_destroy_cq", lib.ibv_destroy_cq(handle), self.kind)
        finally:
            if self.channel is not None:
                self.channel._wake()
        lib.rdmaqp_end_cq(self.raw)
