"""After ERR: everything that was posted comes out, and is told apart.

    reaped = qp.reap(timeout=5)
    reaped.cause                # the first completion that failed and was not only flushed
    reaped.completions          # what had succeeded before
    reaped.sends                # what had not, and which of it the peer may have taken: reaped.unknown
    qp.reset(); …               # bring it up again, then post reaped.sends and reaped.receives again
"""

from __future__ import annotations

import time
from typing import Any

from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.model.arguments import checked
from rdmaqp.model.attributes import QPAttr
from rdmaqp.model.enums import AttrMask, QPState, QPType
from rdmaqp.verbs._native import native
from rdmaqp.verbs.completion import SLICE_NS
from rdmaqp.verbs.keeping import Keeping
from rdmaqp.verbs.ledger import RECEIVES, SENDS, Ledger
from rdmaqp.verbs.reaped import Reaped
from rdmaqp.verbs.work import Send, pack
from rdmaqp.verbs.work_completion import WorkCompletion

_STATE = int(AttrMask.STATE)


class Reaping(Keeping):
    """How a :class:`~rdmaqp.QueuePair` gets back what it had posted."""

    @property
    def cause(self) -> WorkCompletion | None:
        """The first completion since the last RESET that failed and was not only flushed, whoever has polled it."""
        return WorkCompletion.from_c(self.raw.cause, self.send_cq) if self.raw.has_cause else None

    @checked()
    def reap(self, timeout: float = 10.0) -> Reaped:
        """Take out everything that was posted: the queue pair goes to ERR, if it is not there, and all of it ends.

        What succeeded and what did not is told apart; see :class:`~rdmaqp.verbs.reaped.Reaped`. Completions of other
        queue pairs on the same completion queues are held for whoever polls those next. To be called by the owner of
        the queue pair. It stays in ERR: RESET and on is the next step. In RESET nothing is posted, and nothing is done.

        Called again, it returns the same sends, until RESET; completions that succeeded come once.

        Behind a last send that is not signaled, it posts one that is (flushed at once, it never leaves): where a driver
        takes no posts in ERR (efa, mana, erdma), such sends stay unaccounted for.

        Raises:
            UnaccountedError: not all had ended within *timeout* seconds; ``error.reaped`` is what had.
            ClosedError: it was closed meanwhile, or a completion queue was.
            GuardError, VerbsError: the move to ERR failed, or a completion queue is broken.
        """
        self.require_open()
        if self.type is QPType.XRC_RECV or self.ask_state() is QPState.RESET:
            return Reaped()
        end = time.monotonic() + timeout
        self._to_error()
        ledger = Ledger(self, SENDS | RECEIVES)
        if not self._collect(ledger, end):
            raise ledger.unaccounted(f"in ERR, and within {timeout:g} s not everything was flushed")
        return ledger.reaped()

    def _to_error(self) -> None:
        """To ERR. Soft-RoCE does not look at receives posted in ERR until it is told once more (measured)."""
        if self.last_state is not QPState.ERR:
            self.modify(qp_state=QPState.ERR)
        elif self.recv_posted and driver_of(self.pd.context.facts.driver).looks_when_told:
            self._apply(QPAttr(qp_state=QPState.ERR), _STATE, QPState.ERR)

    def _collect(self, ledger: Ledger, end: float) -> bool:
        """Take completions until everything is through, in slices of time; ``False`` at *end*."""
        while ledger.take(0):  # also what is accounted for, and was held while others took theirs
            pass
        while not ledger.is_through:
            self._require_not_closed_since(ledger.closings)
            if ledger.needs_marker:
                self._mark(ledger)
            left = end - time.monotonic()
            if not ledger.take(int(max(0, min(left * 1e9, SLICE_NS)))) and left <= 0:
                break
        self._require_not_closed_since(ledger.closings)  # whose end forgets what was under way
        while self.srq is not None and ledger.take(0):  # what it took from the shared queue is not counted
            pass
        return ledger.is_through

    def _mark(self, ledger: Ledger) -> None:
        """Post a signaled send behind the last one, in ERR: it is flushed after everything before it."""
        if ("send", QPState.ERR) in driver_of(self.pd.context.facts.driver).post_refused:
            ledger.no_marker("the last send is not signaled, and this driver takes no further one in ERR")
            return
        send = Send(wr_id=ledger.new_marker())
        if self.type is QPType.UD:
            send.to = self.destination(self.local or self.endpoint(self.port_num or 1, psn=0))
        record = native().ffi.new("struct rdmaqp_send_record[]", 1)
        pack(memoryview(native().ffi.buffer(record)), 0, send.as_record())
        result = self._native_sends(self.raw, record, 1, 0)
        if send.to is not None:
            send.to.close()
        if result:
            ledger.no_marker(f"the last send is not signaled, and none could be posted behind it ({self.raw.error})")

    def _apply(self, attr: QPAttr, mask: int, state: QPState, asked: Any = None) -> None:
        """The native modify call."""
        raise NotImplementedError
