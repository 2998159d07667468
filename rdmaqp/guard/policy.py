"""What to do about a report: refuse, warn or look away, and which rules not to mention.

The nearest word counts: the call's own argument, then the innermost :func:`policy` block, then the environment
variable ``RDMAQP_GUARD`` (``strict``, ``warn`` or ``off``, and rules to ignore: ``"warn -port-inactive"``).
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rdmaqp.errors import GuardError, InvalidStateTransition
from rdmaqp.guard.report import GuardWarning, Report
from rdmaqp.guard.rules import RULES
from rdmaqp.model.arguments import wrong_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARIABLE = "RDMAQP_GUARD"
Mode = Literal["strict", "warn", "off"]
_MODES: tuple[Mode, ...] = ("strict", "warn", "off")
_NO_ARROW = frozenset({"transition-illegal", "transition-driver", "transition-needs-cm"})


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of findings.

    Attributes:
        mode: ``strict`` refuses what has an error, ``warn`` only warns of it, ``off`` does not ask at all.
        ignore: rules whose findings are dropped.
    """

    mode: Mode = "strict"
    ignore: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Read ``"warn -port-inactive -timeout-infinite"``: a mode, and rules to ignore, in any order.

        Raises:
            ValueError: neither a mode nor a rule; the nearest known one is named.
        """
        mode: Mode = "strict"
        ignore = set()
        for word in re.split(r"[\s,]+", text.strip()):
            if word.startswith("-"):
                ignore.add(word[1:])
            elif word:
                mode = _mode(word)
        return cls(mode, _rules(ignore))

    def without_ignored(self, report: Report) -> Report:
        """Drop what is ignored of *report*, which is returned."""
        if self.ignore:
            report.findings[:] = [finding for finding in report.findings if finding.rule not in self.ignore]
        return report

    def settle(self, report: Report) -> None:
        """Drop what is ignored; then raise, warn, or do nothing. A warning points at the line outside of rdmaqp.

        Raises:
            GuardError: the mode is ``strict`` and the report has an error; :class:`InvalidStateTransition` where one
                of them is that there is no such arrow.
        """
        self.without_ignored(report)
        if not report.findings or self.mode == "off":
            return
        errors = report.errors
        if errors and self.mode == "strict":
            wrong = any(finding.rule in _NO_ARROW for finding in errors)
            raise (InvalidStateTransition if wrong else GuardError)(report)
        found = [*errors, *report.warnings]
        if found:
            level = _level_outside()
            for finding in found:
                warnings.warn(finding.one_line(), GuardWarning, stacklevel=level)


def _level_outside() -> int:
    """The ``stacklevel``, for whoever calls this, of the nearest line that is not rdmaqp's: the user's own."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_current: ContextVar[Policy | None] = ContextVar("rdmaqp_guard_policy", default=None)


def current(given: Policy | str | None = None) -> Policy:
    """The policy that counts here and now; *given* is the call's own word.

    Raises:
        ValueError: *given* or the environment variable cannot be read.
        TypeError: *given* is neither text nor a Policy.
    """
    if given is not None:
        return _parsed(given) if isinstance(given, str) else _policy(given)
    block = _current.get()
    if block is not None:
        return block
    text = os.environ.get(VARIABLE, "")
    try:
        return _parsed(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}={text!r}: {error}") from None


#: The same few texts are read with each call.
_parsed = lru_cache(64)(Policy.parse)


@contextmanager
def policy(mode: Policy | str = "strict", *, ignore: Iterable[str] = ()) -> Iterator[Policy]:
    """Within the block, treat findings by *mode* and drop those of the rules in *ignore*.

    >>> with rdmaqp.policy("warn", ignore=["port-inactive"]):
    ...     qp.modify(...)

    It holds for this thread, or this asyncio task, only. Raises ValueError for an unknown mode or rule, TypeError
    for what is neither text nor a Policy.
    """
    base = Policy.parse(mode) if isinstance(mode, str) else _policy(mode)
    chosen = Policy(base.mode, base.ignore | _rules(ignore))
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def _policy(given: Policy) -> Policy:
    if not isinstance(given, Policy):
        raise wrong_type("policy", "mode", given, 'a Policy, or text such as "warn"')
    return given


def _mode(word: str) -> Mode:
    for mode in _MODES:
        if word == mode:
            return mode
    near = get_close_matches(word, [*_MODES, *RULES], 1)
    hint = f"; did you mean {'-' if near[0] in RULES else ''}{near[0]}?" if near else ""
    raise ValueError(f"{word!r} is not a mode: strict, warn, off{hint}")


def _rules(names: Iterable[str]) -> frozenset[str]:
    found = frozenset([names] if isinstance(names, str) else names)
    for name in found:
        if name not in RULES:
            near = get_close_matches(name, RULES, 1)
            raise ValueError(f"there is no rule {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found
