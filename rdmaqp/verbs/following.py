"""The way of one queue pair to RTS, which others that are alike can follow in C.

What the guard says of a call follows from its request. The requests of queue pairs that are alike differ in
``dest_qp_num``, ``rq_psn`` and ``sq_psn`` alone, which two rules look at: that they have 24 bits, and that the first is
above 1. C compares that; all else was judged with the first, and stands while C finds the same state, port, GID slot
and partition key.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rdmaqp.guard import check, unasked
from rdmaqp.guard.policy import current
from rdmaqp.model.enums import QPState
from rdmaqp.model.steps import as_agreed
from rdmaqp.verbs import modify
from rdmaqp.verbs._native import native
from rdmaqp.verbs.history import Attempt
from rdmaqp.verbs.modify import Transition
from rdmaqp.verbs.port import entry_of, facts_of

if TYPE_CHECKING:
    from rdmaqp.guard import Report
    from rdmaqp.model.attributes import QPAttr
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.request import Request
    from rdmaqp.verbs.queue_pair import QueuePair

#: How long what was asked of port and tables counts before it is asked again, ns.
HOLDS_NS = 10_000_000
_WAY = (QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS)


class Way:
    """What a queue pair did to reach RTS, and what it was judged by.

    Attributes:
        steps: its three calls.
        local: its record.
        peer: the other end's, as the guard was told.
        number: by which C knows it.
        raw: ``struct rdmaqp_way``.
    """

    def __init__(self, steps: tuple[Attempt, ...], local: Endpoint, peer: Endpoint, number: int, raw: Any) -> None:
        self.steps = steps
        self.local = local
        self.peer = peer
        self.number = number
        self.raw = raw
        self.policy = current()

    @classmethod
    def of(cls, qp: QueuePair, remote: Endpoint, number: int) -> Way | None:
        """The way that *qp* has gone towards *remote*, to be known as *number*.

        ``None`` where it has not come from RESET, or what it was judged by is no more.
        """
        steps = tuple(qp.history[-3:])
        if qp.local is None or not _is_whole(steps):
            return None
        ffi, lib = native()
        init, rtr = steps[0].attr, steps[1].attr
        grh = getattr(rtr.ah_attr, "grh", None)
        raw = ffi.new("struct rdmaqp_way *", {
            "steps": [{"attr": modify.fill_attr(step.attr, step.bits)[0], "mask": step.bits} for step in steps],
            "number": number, "port_num": init.port_num, "sgid_index": -1 if grh is None else grh.sgid_index,
            "pkey_index": init.pkey_index, "holds_ns": HOLDS_NS,
        })  # fmt: skip
        with qp._lock:
            raw.asked_ns = time.monotonic_ns()
            raw.there = lib.rdmaqp_ask(qp.handle, raw.port_num, raw.sgid_index, raw.pkey_index,
                                       ffi.addressof(raw, "answers"))
        return cls(steps, qp.local, as_agreed(qp.local, remote), number, raw) if _holds(steps, raw) else None


def _is_whole(steps: tuple[Attempt, ...]) -> bool:
    """Whether they are the three steps, each taken, and judged by a state that the driver had said."""
    return len(steps) == len(_WAY) - 1 and all(
        step.result == "taken" and step.request is not None and (step.start, step.goal) == arrow
        for step, arrow in zip(steps, pairwise(_WAY), strict=True)
    )


def _holds(steps: tuple[Attempt, ...], raw: Any) -> bool:
    """Whether the answers in *raw* are those that the steps were judged by."""
    ffi, lib = native()
    requests = [step.request for step in steps if step.request is not None]
    if not raw.there & lib.RDMAQP_HAS_STATE or not raw.there & lib.RDMAQP_HAS_PORT:
        return False
    facts = facts_of(raw.port_num, ffi.buffer(ffi.addressof(raw.answers, "port"))[:])
    if any(request.port != facts for request in requests):
        return False
    key = raw.answers.pkey if raw.there & lib.RDMAQP_HAS_PKEY else None
    if requests[0].pkeys.get(raw.pkey_index) != key:
        return False
    if raw.sgid_index < 0:
        return True
    entry = None
    if raw.there & lib.RDMAQP_HAS_GID:
        entry = entry_of(ffi.buffer(ffi.addressof(raw.answers, "gid"))[:],
                         ffi.buffer(ffi.addressof(raw.answers, "netdev"))[:])
    return entry is not None and requests[1].gids.get(raw.sgid_index) == entry


class Story:
    """How one queue pair went a way: told as if it had gone alone, when somebody asks.

    Attributes:
        taken: how many of the steps took effect.
        times: ``time.time_ns`` when it began, and after each step.
    """

    def __init__(self, way: Way, raw: Any, qp_num: int) -> None:
        self.way = way
        self.qp_num = qp_num
        self.taken = int(raw.taken)
        self.times = tuple(raw.times)
        self._numbers = {"dest_qp_num": raw.dest_qp_num, "rq_psn": raw.rq_psn, "sq_psn": raw.sq_psn}

    @property
    def is_up(self) -> bool:
        """Whether it has come to RTS."""
        return self.taken == len(self.way.steps)

    def attr(self, step: int) -> QPAttr:
        """The attributes of that step."""
        first = self.way.steps[step].attr
        return first.copied(**{name: own for name, own in self._numbers.items() if getattr(first, name) is not None})

    def peer(self) -> Endpoint:
        """The other end's record, as the guard was told."""
        return replace(self.way.peer, qp_num=self._numbers["dest_qp_num"], psn=self._numbers["rq_psn"])

    def local(self) -> Endpoint:
        """Its own record."""
        return replace(self.way.local, qp_num=self.qp_num, psn=self._numbers["sq_psn"])

    def attempts(self) -> list[Attempt]:
        """The steps taken, as calls."""
        return [
            first._replace(time_ns=began, duration_ns=ended - began, attr=self.attr(step), request=self._request(step))
            for step, (first, began, ended) in enumerate(zip(self.way.steps, self.times, self.times[1:], strict=False))
        ][: self.taken]

    def transitions(self) -> list[Transition]:
        """The same, as they took effect."""
        return [Transition(at.start, at.goal, at.bits, at.time_ns + at.duration_ns) for at in self.attempts()]

    def calls(self) -> dict[QPState, Request]:
        """The requests that led to RTR and to RTS."""
        return {
            at.goal: at.request for at in self.attempts() if at.goal is not QPState.INIT and at.request is not None
        }

    def report(self) -> Report | None:
        """What the guard says of the last step."""
        return self.report_of(self.taken - 1) if self.taken else None

    def report_of(self, step: int) -> Report:
        """What it says of that step."""
        request = self._request(step)
        rules = self.way.policy
        return rules.without_ignored(check(request)) if rules.mode != "off" else unasked(request)

    def _request(self, step: int) -> Request:
        first = self.way.steps[step].request
        assert first is not None  # _is_whole() has looked
        return replace(first, qp=replace(first.qp, qp_num=self.qp_num), attr=self.attr(step), peer=self.peer())
