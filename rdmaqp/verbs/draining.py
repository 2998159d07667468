"""Draining: until everything posted has completed, by counting completions.

Never by SQD, in which the send queue finishes what it has begun, and holds what it has not.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rdmaqp.errors import VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.enums import AccessFlag, DeviceCap, QPState, QPType
from rdmaqp.verbs.ledger import RECEIVES, SENDS, Ledger
from rdmaqp.verbs.reaped import Reaped
from rdmaqp.verbs.reaping import Reaping
from rdmaqp.verbs.window import Bind
from rdmaqp.verbs.work import Work

if TYPE_CHECKING:
    from rdmaqp.verbs._resource import Resource

_WINDOWS = DeviceCap.MEM_WINDOW_TYPE_2A | DeviceCap.MEM_WINDOW_TYPE_2B
_BINDS = frozenset({QPType.RC, QPType.UC, QPType.XRC_SEND})
_PAGE = 4096


class Draining(Reaping):
    """How a :class:`~rdmaqp.QueuePair` comes to rest."""

    @checked()
    def drain(self, timeout: float = 10.0, *, flush: bool = False, marker: Work | None = None) -> Reaped:
        """Wait until every send that was posted has completed, and return the completions: ``.completions``.

        Receives stay posted. Completions of receives, and those of other queue pairs, are held for whoever polls the
        queue next. A send that fails moves the queue pair to ERR, which ends all others: ``.cause`` and ``.sends`` say
        so, as of :meth:`reap`. To be called by the owner of the queue pair.

        Where the last send is not signaled, a signaled one goes behind it: *marker*, whose wr_id is not used, or a
        local one that no peer hears of, the bind of a memory window. A WRITE of no bytes does, where the peer allows
        writes.

        Args:
            timeout: seconds.
            flush: at the deadline, go on by ERR, and wait as long again for everything to be flushed, receives too:
                then all is accounted for, as by :meth:`reap`.
            marker: what to post behind a last send that is not signaled.

        Raises:
            ValueError: the last send is not signaled, there is no *marker*, and no memory window could be one.
            UnaccountedError: not all sends had completed in time; ``error.reaped`` is what had, ``error.unaccounted``
                what had not. Drain again to go on waiting.
            ClosedError: it was closed meanwhile, or a completion queue was.
            VerbsError: a completion queue is broken; with *flush*, the move to ERR failed.
        """
        self.require_open()
        if self.type is QPType.XRC_RECV:
            return Reaped()
        ledger = Ledger(self, SENDS)
        if not (flush or marker) and ledger.ends_unsignaled and self._cannot_bind():
            raise ValueError(self._cannot_bind())
        self._marker = marker
        try:
            if not self._collect(ledger, time.monotonic() + timeout):
                if not flush:
                    raise ledger.unaccounted(f"not every send completed within {timeout:g} s, {self._why_not()}")
                self._to_error()
                ledger.kinds |= RECEIVES
                if not self._collect(ledger, time.monotonic() + timeout):
                    raise ledger.unaccounted(f"in ERR, and within {timeout:g} s not everything was flushed")
            return ledger.reaped()
        finally:
            self._end_marker()

    #: What the caller gave as a marker, and what was made for one.
    _marker: Work | None = None
    _marker_parts: tuple[Resource, ...] = ()

    def _mark(self, ledger: Ledger) -> None:
        if self.raw.failures or self.last_state is QPState.ERR:
            super()._mark(ledger)
            return
        wr_id = ledger.new_marker()
        try:
            work = self._window_bind() if self._marker is None else self._marker
            self.chain(replace(work, wr_id=wr_id, signaled=True)).post()
        except (VerbsError, ValueError) as error:  # a GuardError is a ValueError
            ledger.no_marker(f"the last send is not signaled, and no marker could be posted behind it: {error}")

    def _window_bind(self) -> Bind:
        if self._cannot_bind():
            raise ValueError(self._cannot_bind())
        window = self.pd.alloc_mw()
        region = self.pd.alloc_mr(_PAGE, AccessFlag.LOCAL_WRITE | AccessFlag.MW_BIND)
        self._marker_parts = window, region
        return Bind(window, region, AccessFlag.REMOTE_READ)  # its key is told to nobody, its bytes are zeros

    def _end_marker(self) -> None:
        """End what the bind names, once that has ended: one that is still to run would fail, and all behind it."""
        if self.outstanding == 0:
            for part in self._marker_parts:  # the window first: a region with one refuses to end
                part.close()
            self._marker_parts = ()

    def _cannot_bind(self) -> str:
        """Why a memory window is no marker here; empty where it is one."""
        if self.type in _BINDS and self.pd.context.attr.device_cap_flags & _WINDOWS:
            return ""
        lacks = "this device has no memory windows" if self.type in _BINDS else f"{self.type.name} binds none"
        return (
            f"{self}: the last send is not signaled, so nobody hears of its end, and no bind of a memory window can "
            f"tell of it ({lacks}): post the last send signaled, or give drain(marker=…) a harmless one"
        )

    def _why_not(self) -> str:
        """What keeps sends away, as far as the state tells."""
        state = self.where_now()
        held = ": SQD holds what has not been started; to RTS, and it goes on" if self.last_state is QPState.SQD else ""
        return state + held

    def where_now(self) -> str:
        """Where it is, in words."""
        raise NotImplementedError
