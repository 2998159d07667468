"""A thread that reads asynchronous events, and calls a function with each."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Self

from rdmaqp.errors import ClosedError, DeadlineError, RdmaqpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.verbs.events import AsyncEvent, AsyncEvents

log = logging.getLogger("rdmaqp")

#: How long it sleeps before it looks whether it is to end, seconds. close() of the device ends it at once.
_LOOK_AGAIN = 0.5


class EventThread:
    """Calls *callback* with each event, in a thread of its own, until ``close()`` here or of the device.

    A callback that raises is logged (logger ``rdmaqp``), and the next event comes all the same. The thread does not
    keep the interpreter from ending.

    Attributes:
        error: what ended it, where the device could no longer be read from; else ``None``.
    """

    def __init__(self, events: AsyncEvents, callback: Callable[[AsyncEvent], object]) -> None:
        if not callable(callback):
            raise TypeError(f"each event is handed to a callable, not to {type(callback).__name__}")
        events.require_open()
        self._events, self._callback = events, callback
        self._ending = False
        self.error: RdmaqpError | None = None
        self._thread = threading.Thread(target=self._run, name=f"events of {events.context.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending:
            try:
                event = self._events.wait(_LOOK_AGAIN)
            except DeadlineError:
                continue
            except ClosedError:
                return
            except RdmaqpError as error:
                self.error = error
                log.warning("events of %s are no longer read: %s", self._events.context.name, error)
                return
            try:
                self._callback(event)
            except Exception:  # a user's callback may raise anything
                log.exception("the callback of event %s raised", event)

    @property
    def running(self) -> bool:
        """Whether events are still being read."""
        return self._thread.is_alive()

    def close(self, timeout: float = 10.0) -> None:
        """Read no more events; returns once the callback that is under way has, or after *timeout* seconds.

        A callback may call it, and goes on then.
        """
        self._ending = True
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
