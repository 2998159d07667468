"""How tasks of event loops wait for something native that has a file descriptor."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rdmaqp.verbs._resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator


class Waiter(asyncio.Event):
    """What a task waits for.

    Attributes:
        error: why there will be nothing.
    """

    error: Exception | None = None


class Watched(Resource):
    """Something whose descriptor becomes readable when there is news."""

    #: Of each event loop with tasks that wait here: its own descriptor, and what its tasks wait for.
    _loops: dict[asyncio.AbstractEventLoop, tuple[int, set[Waiter]]]

    @property
    def fd(self) -> int:
        """The descriptor, readable when an event waits; not blocking."""
        raise NotImplementedError

    @contextmanager
    def listening(self) -> Iterator[Waiter]:
        """Within the block, have the running event loop watch the descriptor: what is yielded is set at each event.

        It is set whatever the event is about, and at close(): look, clear it, look again, wait.
        """
        loop = asyncio.get_running_loop()
        waiter = Waiter()
        if loop not in self._loops:
            # Its own descriptor: another thread may close ours, whose number is then another file's.
            fd = os.dup(self.fd)
            self._loops[loop] = (fd, set())
            loop.add_reader(fd, self._readable)
        fd, waiters = self._loops[loop]
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                del self._loops[loop]
                loop.remove_reader(fd)
                os.close(fd)

    def _readable(self) -> None:
        """There is news: in the event loop's own thread."""
        self._wake()

    def _wake(self, error: Exception | None = None) -> None:
        """Have every task that waits here look again; any thread may call this, who took an event or closed it."""
        for loop, (_, waiters) in list(self._loops.items()):
            with suppress(RuntimeError):  # that loop has ended, and its tasks with it
                loop.call_soon_threadsafe(_set, list(waiters), error)


def _set(waiters: list[Waiter], error: Exception | None) -> None:
    for waiter in waiters:
        waiter.error = waiter.error or error
        waiter.set()
