"""Completion channels: how a thread, or an event loop, sleeps until a completion queue has something."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any, cast

from rdmaqp.errors import ClosedError, DeadlineError, VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs.completion import deadline
from rdmaqp.verbs.watching import Watched

if TYPE_CHECKING:
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.device import Context

#: How long a wait sleeps before it looks whether another thread has closed the channel, ms.
_LOOK_AGAIN_MS = 20


class CompletionChannel(Watched):
    """``struct ibv_comp_channel``: tells when a completion queue has something, through a file descriptor.

    Several queues may share one. By hand::

        cq.req_notify()
        if not cq.poll():                    # what was there before raises no event
            channel.get_event(timeout=1)     # that of any of its queues: poll and req_notify again
    """

    kind = "completion channel"
    _rank = 5

    def __init__(self, context: Context) -> None:
        def make() -> Any:
            pointer = native().lib.ibv_create_comp_channel(context.handle)
            return check_pointer("ibv_create_comp_channel", pointer, f"device {context.name}")

        self._loops = {}
        super().__init__(make, context)
        self.context = context
        # The loops in C take an event only where there is one, and must not block on a stolen one.
        os.set_blocking(self.fd, False)

    @property
    def fd(self) -> int:
        """The descriptor, readable when an event waits; not blocking."""
        return int(self.handle.fd)

    @checked()
    def get_event(self, timeout: float | None = None) -> CompletionQueue:
        """Sleep until one of its queues, armed by ``req_notify``, has an event; take and acknowledge it; say whose.

        See ibv_get_cq_event(3). *timeout* is in seconds; ``None`` waits for ever. Ctrl-C works.

        Raises:
            DeadlineError: there was none in time.
            ClosedError: the channel was closed meanwhile.
            VerbsError: the channel is broken.
        """
        end = deadline("get_event", timeout)
        waiter = select.poll()
        waiter.register(self.fd, select.POLLIN)
        while True:
            queue = self._take()
            if queue is not None:
                return queue
            left = _LOOK_AGAIN_MS if end is None else (end - time.monotonic()) * 1000
            if left <= 0:
                raise DeadlineError(f"no event within {timeout} s on the {self.kind} of {self.context.name}")
            waiter.poll(min(left, _LOOK_AGAIN_MS))

    def _take(self) -> CompletionQueue | None:
        """Take an event off: whose it is, ``None`` where there is none."""
        ffi, lib = native()
        whose = ffi.new("struct ibv_cq **")
        with self._lock:
            taken = lib.rdmaqp_take_event(self.handle, whose)
            if taken < 0:
                check("ibv_get_cq_event", -1, f"{self.kind} of {self.context.name}")
            queues = list(self._children.values()) if taken else []
            return next((cast("CompletionQueue", cq) for cq in queues if cq._handle_or_none == whose[0]), None)

    # ------------------------------------------------------------------ asyncio

    def _readable(self) -> None:
        """Take what events there are, of whatever queue, and have every task look at its own."""
        try:
            while self._take() is not None:
                pass
        except (ClosedError, VerbsError) as error:
            self._wake(error)
        else:
            self._wake()

    def _destroy(self, handle: Any) -> None:
        check("ibv_destroy_comp_channel", native().lib.ibv_destroy_comp_channel(handle), self.kind)
        self._wake()
