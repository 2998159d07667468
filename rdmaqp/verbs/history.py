"""What was asked of a queue pair: its modify calls, those too that were refused or failed. Kept, logged, traced."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

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
    from rdmaqp.verbs.following import Story
    from rdmaqp.verbs.modify import Transition

#: Calls that a queue pair remembers. Longer stories are for a trace.
REMEMBERED = 128


def is_told() -> bool:
    """Whether somebody wants to hear of each call: a log, or a trace."""
    return log.isEnabledFor(logging.INFO) or bool(trace.targets)


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
    #: The way that it went in C as one of many: what follows is told by it when somebody asks.
    _story: Story | None = None

    @cached_property
    def _attempts(self) -> deque[Attempt]:
        return deque(() if self._story is None else self._story.attempts(), REMEMBERED)

    @cached_property
    def transitions(self) -> list[Transition]:
        """The last 128 modify calls that took effect, oldest first; ``history`` has the others too."""
        return [] if self._story is None else self._story.transitions()

    @cached_property
    def calls(self) -> dict[QPState, Request]:
        """The requests that led to RTR and to RTS: what a failed completion is explained by."""
        return {} if self._story is None else self._story.calls()

    @cached_property
    def report(self) -> Report | None:
        """The guard's answer to the last call."""
        return None if self._story is None else self._story.report()

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

    def _follow(self, story: Story) -> None:
        """Take over what was done in C, to the queue pair as one of many."""
        self._story = story
        for name in ("_attempts", "transitions", "calls", "report"):
            vars(self).pop(name, None)
        for first in story.way.steps[: story.taken]:
            self._note(first.attr, first.bits)
            self._last_state = first.goal  # C has noted it, and perhaps that something failed since
        self.sq_draining = 0
        if story.is_up:
            self.local = story.local()

    def _failed_step(self, story: Story, number: int) -> VerbsError:
        """The error of the story's last step, which was answered with *number*; it is remembered."""
        first, attr = story.way.steps[story.taken], story.attr(story.taken)
        asked = self._asked = self._request(attr, story.peer(), first.start)
        self.report = story.report_of(story.taken)
        error = self._failure(number, first.start, first.goal, lambda: asked)
        self._remember(story.times[story.taken], time.perf_counter_ns(), attr, None, error)
        return error

    @abstractmethod
    def _request(self, attr: QPAttr, peer: Endpoint | None, state: QPState) -> Request: ...

    @abstractmethod
    def _note(self, attr: QPAttr, mask: int) -> None: ...

    @abstractmethod
    def _failure(self, result: int, state: QPState, goal: QPState, asked: Callable[[], Request]) -> VerbsError: ...

    @abstractmethod
    def _judged_modify(
        self, attr: QPAttr, mask: int | None = None, peer: Endpoint | None = None, policy: Policy | str | None = None
    ) -> Report:
        """Ask, judge, and make the native call."""
