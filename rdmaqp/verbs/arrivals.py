"""Completions for asyncio: awaited a batch at a time, or iterated over. The event loop watches; there is no thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Generator

    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.work_completion import WorkCompletion


class Arrivals:
    """What ``cq.completions()`` gives::

        batch = await cq.completions()            # a list of at least one
        async for wc in cq.completions(): …       # one after the other, until the queue is closed

    A task that is cancelled takes none along, and neither does a loop that is left: what has not been handed out stays
    in the queue. For a deadline, ``async with asyncio.timeout(1):`` (``asyncio.wait_for`` before Python 3.12 may drop
    what it has got when it is cancelled).
    """

    def __init__(self, queue: CompletionQueue, num_entries: int) -> None:
        self._queue = queue
        self._num_entries = num_entries

    def __await__(self) -> Generator[object, None, list[WorkCompletion]]:
        return self._batch(self._num_entries).__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WorkCompletion:
        return (await self._batch(1))[0]  # one only: a batch would be lost where the loop is left

    async def _batch(self, num_entries: int) -> list[WorkCompletion]:
        queue, closings = self._queue, self._queue.closings
        found = queue.poll(num_entries)
        if found:
            return found
        channel = queue.require_channel()
        with channel.listening() as waiter:
            while True:
                waiter.clear()  # before the queue is armed: whoever takes its event from here on is noticed
                queue.req_notify()
                found = queue.poll(num_entries)  # what came before it was armed raises no event
                if found:
                    return found
                await waiter.wait()
                if waiter.error is not None:
                    raise waiter.error
                queue._require_not_closed_since(closings)
