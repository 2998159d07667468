"""Pausing: RTS → SQD, a change of the path, → RTS. Work posted meanwhile is held, and then runs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rdmaqp.errors import DeadlineError, GuardError, RdmaqpError
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.host.process import kernel_release
from rdmaqp.model.arguments import checked
from rdmaqp.model.enums import QPState, Transport
from rdmaqp.verbs._native import check, native
from rdmaqp.verbs.draining import Draining

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSTEAD = "Count completions instead (qp.drain()), or go to ERR and bring the queue pair up again (qp.reap())."


class Pausing(Draining):
    """How a :class:`~rdmaqp.QueuePair` stops sending for a while."""

    sq_draining: int | None

    @contextmanager
    @checked()
    def paused(self, timeout: float = 10.0) -> Iterator[Self]:
        """Within the block the queue pair is in SQD, its send queue drained: change its path there.

            with qp.paused():
                qp.modify(qp_state="SQD", ah_attr=other_path)

        What was under way has completed, as far as the device had begun it; its completions wait to be polled. Receives
        go on. Sends posted in the block are held, and run when it ends, which leads back to RTS, also where the block
        raises. A failed send moves the queue pair to ERR: then the end of the block says so, by the guard.

        Where SQD cannot be left, or means something else, it is not entered: mlx5 and hns have none; irdma flushes both
        queues there; on iWARP it closes the connection; Soft-RoCE of later kernels than 6.1 never finishes draining
        once more sends have been posted since RESET than the queue holds (measured on 6.12).

        Args:
            timeout: seconds for the send queue to drain.

        Raises:
            ValueError: it is one of these places; nothing has changed.
            GuardError: it is not in RTS; the driver has no SQD; nothing has changed.
            DeadlineError: sends were still under way at the deadline. It is back in RTS, unless the message says that
                the driver does not let it: then it is in SQD, and goes to RTS (or ERR) later.
            VerbsError: the driver refused.
        """
        why = self._cannot_pause()
        if why:
            raise ValueError(f"{self} cannot pause: {why}. {_INSTEAD}")
        self.modify(qp_state=QPState.SQD)
        if not self._has_drained(time.monotonic() + timeout):
            raise DeadlineError(f"{self}: sends were still under way {timeout:g} s after the move to SQD; "
                                + self._go_back())
        try:
            yield self
        except BaseException as error:
            if self.ask_state() is QPState.SQD:
                error.add_note(self._go_back())
            raise
        self._resume()

    def _resume(self) -> None:
        self.modify(qp_state=QPState.RTS)
        if driver_of(self.pd.context.facts.driver).looks_when_told:
            check("write (POST_SEND)", native().lib.rdmaqp_ring_doorbell(self.raw), str(self))

    def _cannot_pause(self) -> str:
        """Why SQD is no place to go to; empty where it is one."""
        driver = driver_of(self.pd.context.facts.driver)
        if driver.iwarp or self.pd.context.facts.transport is Transport.IWARP:
            return "on iWARP, SQD closes the connection (RFC 5044)"
        if driver.flushes_in_sqd:
            return f"{driver.name} flushes both queues on the way to SQD ({driver.source})"
        if any(QPState.SQD in arrow for arrow in driver.missing_arrows):
            return f"{driver.name} has no way to SQD and back ({driver.source})"
        since, kernel, raw = driver.sticks_in_sqd_since, kernel_release(), self.raw
        sent = int(raw.sq.head - raw.begun)
        if since is not None and kernel is not None and kernel >= since and sent > self.cap.max_send_wr:
            return (
                f"{sent} sends have been posted since RESET, more than its queue holds ({self.cap.max_send_wr}), and "
                f"from then on {driver.name} of this kernel may never finish draining ({driver.source})"
            )
        return ""

    def _has_drained(self, end: float) -> bool:
        """Wait until the driver says ``sq_draining`` 0; ``False`` at *end*."""
        closings, pause = self.closings, 0.0005
        while True:
            self._require_not_closed_since(closings)
            if self.ask_state() is not QPState.SQD or not self.sq_draining:
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _go_back(self) -> str:
        """Back to RTS; in words, where that led."""
        try:
            self._resume()
        except RdmaqpError as error:
            why = error.report.errors[0].message if isinstance(error, GuardError) else error.headline()
            return f"it stays in {self.last_state.name}: {why}"
        return "it is back in RTS"
