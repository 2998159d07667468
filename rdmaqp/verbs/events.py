"""Asynchronous events: what befalls a queue pair, a queue, a port or the device, and is nobody's completion."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rdmaqp.errors import ClosedError, DeadlineError, VerbsError
from rdmaqp.model.enums import AsyncEventType
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.completion import SLICE_NS, deadline
from rdmaqp.verbs.event_thread import EventThread
from rdmaqp.verbs.watching import Watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.group import QueuePairs


@dataclass(frozen=True, slots=True)
class AsyncEvent:
    """``struct ibv_async_event``.

    Attributes:
        type: what has happened: an :class:`~rdmaqp.AsyncEventType`, or the number of one that is newer than we are.
        source: the queue pair, completion queue or shared receive queue that it is about; ``None`` of a port's and the
            device's, and of one that rdmaqp did not make or that is closed.
        port_num: the port that it is about; ``None`` of others.
    """

    type: AsyncEventType | int
    source: Resource | None
    port_num: int | None

    def __str__(self) -> str:
        name = self.type.name if isinstance(self.type, AsyncEventType) else f"event {self.type}"
        return f"{name}, port {self.port_num}" if self.port_num else f"{name}, {self.source}" if self.source else name


class AsyncEvents(Watched):
    """The events of one opening of a device, in the order in which they came: ``context.async_events``.

    Each is given out once, and acknowledged before that, so that nothing it is about waits to be closed. Whoever reads
    takes it from every other reader: have one.

        for event in context.async_events: …            # until it is closed, or the device
        async for event in context.async_events: …      # the same for asyncio; or: await events.next()
        context.async_events.listen(callback)           # each event handed to a function, in a thread
    """

    kind = "event reader"
    _rank = 5

    def __init__(self, context: Context) -> None:
        self.context = context
        self._loops = {}
        self._found = native().ffi.new("struct rdmaqp_event *")
        self._verb = native().ffi.new("const char **")
        super().__init__(lambda: context.handle, context)
        os.set_blocking(self.fd, False)  # another reader may have been faster

    @property
    def fd(self) -> int:
        """The descriptor, readable when an event waits; not blocking."""
        return int(self.handle.async_fd)

    def poll(self) -> AsyncEvent | None:
        """The next event, if one waits. Raises :class:`ClosedError`, :class:`VerbsError`."""
        return self._next(0)

    def wait(self, timeout: float | None = None) -> AsyncEvent:
        """The next event, within *timeout* seconds; ``None`` waits for ever.

        Sleeps without the GIL. Ctrl-C works, and :meth:`close` from another thread ends the wait.

        Raises:
            DeadlineError: none came in time.
            ClosedError: it was closed meanwhile, or the device was.
            VerbsError: the device cannot be read from.
        """
        end = deadline("wait", timeout)
        closings = self.closings
        while self.closings == closings:
            left = SLICE_NS if end is None else max(0, min(int((end - time.monotonic()) * 1e9), SLICE_NS))
            event = self._next(left)
            if event is not None:
                return event
            if end is not None and time.monotonic() >= end:
                raise DeadlineError(f"no event within {timeout} s on {self.context.name}")
        raise ClosedError(f"this {self.kind} was closed by another thread")

    def __iter__(self) -> Iterator[AsyncEvent]:
        """Wait for one event after the other; ends when it is closed, here or by another thread.

        Raises :class:`ClosedError` where it is closed already, :class:`VerbsError` where the device cannot be read.
        """
        self.require_open()
        return self._until_closed()

    def _until_closed(self) -> Iterator[AsyncEvent]:
        with suppress(ClosedError):
            while True:
                yield self.wait()

    def listen(self, callback: Callable[[AsyncEvent], object]) -> EventThread:
        """Have a thread call *callback* with each event, until ``close()`` of what is returned, or of the device.

        See :class:`~rdmaqp.verbs.event_thread.EventThread`. Raises :class:`ClosedError`; TypeError for no callable.
        """
        return EventThread(self, callback)

    async def next(self) -> AsyncEvent:
        """For asyncio: the next event. For a deadline, ``async with asyncio.timeout(1):``.

        Raises :class:`ClosedError` where it is closed, or is meanwhile; :class:`VerbsError`.
        """
        closings = self.closings
        with self.listening() as waiter:
            while True:
                waiter.clear()
                event = self.poll()
                if event is not None:
                    return event
                await waiter.wait()
                self._require_not_closed_since(closings)

    def __aiter__(self) -> AsyncIterator[AsyncEvent]:
        """Wait for one event after the other; ends when it is closed. Raises as :meth:`next`."""
        self.require_open()
        return self._until_closed_async()

    async def _until_closed_async(self) -> AsyncIterator[AsyncEvent]:
        while True:
            try:
                event = await self.next()
            except ClosedError:
                return
            yield event

    def _next(self, slice_ns: int) -> AsyncEvent | None:
        ffi, lib = native()
        with self._lock:
            count = lib.rdmaqp_next_event(self.handle, slice_ns, self._found, self._verb)
            if count < 0:
                verb = ffi.string(self._verb[0]).decode()
                raise VerbsError(verb, ffi.errno, f"events of {self.context.name}")
            return self._event() if count else None

    def _event(self) -> AsyncEvent:
        raw = self._found
        known = raw.type in AsyncEventType._value2member_map_
        return AsyncEvent(
            AsyncEventType(raw.type) if known else int(raw.type),
            _at_address(self.context, raw.element) if raw.element else None,
            int(raw.port_num) or None,
        )

    def _destroy(self, handle: Any) -> None:  # noqa: ARG002 - the descriptor is the device's
        self._wake()


def _at_address(context: Context, address: int) -> Resource | None:
    below = list(_below(context))
    found = next((one for one in below if _address(one) == address), None)
    if found is None:  # one of many, perhaps, that nobody has looked at
        inside = (cast("QueuePairs", one)._at_address(address) for one in below if one.kind == "group of queue pairs")
        found = next((one for one in inside if one is not None), None)
    return found


def _below(parent: Resource) -> Iterator[Resource]:
    for child in list(parent._children.values()):
        yield child
        yield from _below(child)


def _address(one: Resource) -> int:
    handle = one._handle_or_none
    return 0 if handle is None else int(native().ffi.cast("uintptr_t", handle))
