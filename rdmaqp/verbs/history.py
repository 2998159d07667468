"""What was asked of a queue pair: its modify calls, those too that were refused or failed. Kept, logged, traced."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rdmaqp.errors import GuardError, RdmaqpError, VerbsError
from rdmaqp.model.attributes import enum_value
from rdmaqp.model.enums import AttrMask, QPState, mask_names
from rdmaqp.verbs import trace
from rdmaqp.verbs.pausing import Pausing
from rdmaqp.verbs.trace import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.guard import Policy, Report
    from rdmaqp.model.attributes import QPAttr
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.request import Request
    from rdmaqp.verbs._resource import Resource
    from rdmaqp.verbs.modify import Transition

#: Calls that a queue pair remembers. Longer stories are for a trace.
REMEMBERED = 128


class Attempt(NamedTuple):
    """One modify call, whatever came of it.

    Attributes:
        time_ns: when it began (``time.time_ns``).
        duration_ns: how long it took, asking and judging too.
        start: the state that the queue pair was in.
        attr: the attributes given.
        given_mask: the mask, where one was given.
        result: ``"taken"``; ``"refused"`` by the guard; ``"failed"`` in libibverbs, the kernel or the driver.
        error: the first line of what was raised; empty of one that was taken.
        errno: the error number of one that failed.
        request: what the guard was asked; ``None`` where the driver could not be asked that much.
    """

    time_ns: int
    duration_ns: int
    start: QPState
    attr: QPAttr
    given_mask: int | None
    result: Literal["taken", "refused", "failed"]
    error: str
    errno: int | None
    request: Request | None

    @property
    def bits(self) -> int:
        """The mask: as it was given, or as it follows from the attributes."""
        return self.attr.mask if self.given_mask is None else int(self.given_mask)

    @property
    def goal(self) -> QPState:
        """The state that it was to lead to; *start* where it names none that there is."""
        asked = enum_value(QPState, self.attr.qp_state) if self.bits & AttrMask.STATE else None
        return self.start if asked is None or asked not in QPState._value2member_map_ else QPState(asked)

    @property
    def mask(self) -> tuple[str, ...]:
        """The names of the bits, lowest first."""
        return mask_names(self.bits)

    def __str__(self) -> str:
        seconds, rest = divmod(self.time_ns, 1_000_000_000)
        when = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:06}Z"
        why = f": {self.error}" if self.error else ""
        return f"{when} {self.start.name} → {self.goal.name} {self.result} in {self.duration_ns // 1000} µs{why}"


class Historian(Pausing):
    """How a :class:`~rdmaqp.QueuePair` remembers what was asked of it."""

    #: What the guard was asked in the call that is under way.
    _asked: Request | None = None
    transitions: list[Transition]

    def __init__(self, make: Callable[[], Any], *parents: Resource) -> None:
        self._attempts: deque[Attempt] = deque(maxlen=REMEMBERED)
        super().__init__(make, *parents)

    @property
    def history(self) -> tuple[Attempt, ...]:
        """The last 128 modify calls, oldest first: taken, refused and failed (:class:`Attempt`)."""
        return tuple(self._attempts)

    def _modify(
        self, attr: QPAttr, mask: int | None = None, peer: Endpoint | None = None, policy: Policy | str | None = None
    ) -> Report:
        self._asked = None
        began, clock = time.time_ns(), time.perf_counter_ns()
        try:
            report = self._judged_modify(attr, mask, peer, policy)
        except RdmaqpError as error:
            self._remember(began, clock, attr, mask, error)
            raise
        self._remember(began, clock, attr, mask, None)
        return report

    def _remember(self, began: int, clock: int, attr: QPAttr, mask: int | None, error: RdmaqpError | None) -> None:
        """Keep the objects, and make text of them only where somebody wants it: this is on every call's way."""
        took, asked = time.perf_counter_ns() - clock, self._asked
        start = self.last_state if asked is None or asked.qp.state is None else asked.qp.state
        if error is None:
            attempt = Attempt(began, took, start, attr, mask, "taken", "", None, asked)
        else:  # the error itself would keep its frames
            number = error.errno if isinstance(error, VerbsError) else None
            result: Literal["refused", "failed"] = "refused" if isinstance(error, GuardError) else "failed"
            attempt = Attempt(began, took, start, attr, mask, result, error.headline(), number, asked)
        self._attempts.append(attempt)
        if len(self.transitions) > REMEMBERED:  # of a life of many recoveries
            del self.transitions[0]
        if log.isEnabledFor(logging.INFO):
            log.log(logging.DEBUG if error is None else logging.INFO, "%s: %s", self, attempt)
        if trace.targets and asked is not None:
            trace.emit(asked, f"{self}: {attempt}", attempt.errno)

    @abstractmethod
    def _judged_modify(
        self, attr: QPAttr, mask: int | None = None, peer: Endpoint | None = None, policy: Policy | str | None = None
    ) -> Report:
        """Ask, judge, and make the native call."""
