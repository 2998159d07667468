"""Lines to failures: which message each is, which lines tell of one failure, what nobody here knows.

Programs tell of one failure in several lines, and many processes write into one log. So a failure stays open for some
lines, by program and by who speaks (host, process, thread): what does not contradict it is added to it. What a program
says before anything fails (its device, its addresses) is remembered, and fills what the failure leaves open.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.guard.logs.patterns import PATTERNS, is_suspect, may_matter
from rdmaqp.guard.logs.words import read
from rdmaqp.model.enums import WCStatus

if TYPE_CHECKING:
    from rdmaqp.guard.logs.pattern import Pattern

#: So many lines after its last one a failure is told: what comes later is another.
_NEAR = 8
#: Another message of the same failure follows at once; and no failure is told in more lines than this.
_NEXT, _MOST = 2, 200
#: Speakers and facts that are remembered: a log of many thousand processes must not fill the memory.
_MANY = 256
#: Characters of a line that are looked at: no message is longer.
_LONGEST = 4096
_SHOWN = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

#: Who speaks: NCCL's and UCX's host:pid:tid, glog's thread, Open MPI's rank.
_SPEAKER = re.compile(
    r"\b(?P<nccl>[\w.-]{1,64}:\d{1,9}:\d{1,9}) \[\d+\]|\[(?P<ucx>[\w.-]{1,64}:\d{1,9}:\d{1,9})[:\]]|"
    r"^[EWIF]\d{4,8} [\d:.]+\s+(?P<glog>\d+) "
)


@dataclass
class Failure:
    """One failure as a log tells of it.

    Attributes:
        first, last: its lines, from 1.
        pattern: the message that began it.
        names: all messages that are in it.
        text: the line that began it, without what is left of its end after 300 characters.
        told: what the lines hold, by field: ``errno``, ``status``, ``device``, …
        facts: what the program had said before.
        earlier: where this failure is a flush, the line of an earlier failure that may be its reason.
    """

    first: int
    last: int
    pattern: Pattern
    names: list[str]
    text: str
    told: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    earlier: int | None = None

    @property
    def known(self) -> dict[str, Any]:
        """What is known, of the lines themselves first."""
        return self.facts | self.told

    def add(self, number: int, pattern: Pattern, told: dict[str, Any]) -> bool:
        """Take one more line in; ``False`` where it contradicts."""
        if any(self.told.get(name, value) != value for name, value in told.items()):
            return False
        self.last = number
        self.names.append(pattern.name)
        self.told.update(told)
        return True


class Stranger(NamedTuple):
    """A line that speaks of a failure of RDMA, and that nobody here knows."""

    first: int
    text: str


class Reader:
    """Reads lines in their order; gives each failure once it is complete."""

    def __init__(self) -> None:
        self._number = 0
        self._open: OrderedDict[tuple[str, str], Failure] = OrderedDict()
        self._facts: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
        self._broken: int | None = None  # the first failure that was no flush
        self._ready: list[Failure | Stranger] = []

    def feed(self, line: str) -> list[Failure | Stranger]:
        """Take the next line; what is complete by now, in the order of the lines."""
        self._number += 1
        line = line[:_LONGEST].rstrip()
        if not may_matter(line):
            return []
        line = _COLOURS.sub("", line)
        self._done(self._number - _NEAR)
        for pattern in PATTERNS:
            found = pattern.match(line)
            if found is not None:
                self._take(pattern, read(found), line)
                break
        else:
            if is_suspect(line):
                self._ready.append(Stranger(self._number, line.strip()[:_SHOWN]))
        return self._in_order()

    def skip(self) -> None:
        """The next line was not read: it counts all the same."""
        self._number += 1

    def close(self) -> list[Failure | Stranger]:
        """What is still open: nothing more comes, or not soon."""
        self._done(self._number + 1)
        return self._in_order()

    def _done(self, before: int) -> None:
        """Close what had its last line *before*."""
        late = [key for key, each in self._open.items() if each.last < before or each.first < before - _MOST]
        self._ready += [self._open.pop(key) for key in late]

    def _in_order(self) -> list[Failure | Stranger]:
        """What no open failure is before."""
        if not self._ready:
            return []
        first = min((failure.first for failure in self._open.values()), default=self._number + 1)
        given = sorted((each for each in self._ready if each.first < first), key=lambda each: each.first)
        self._ready = [each for each in self._ready if each.first >= first]
        return given

    def _take(self, pattern: Pattern, told: dict[str, Any], line: str) -> None:
        who = _SPEAKER.search(line)
        key = (pattern.program, next(filter(None, who.groups()), "") if who else "")
        if pattern.what == "facts":
            self._remember(key, told)
            return
        there = self._open.get(key)
        joins = there is not None and (pattern.what == "more" or self._goes_with(there, pattern))
        if there is not None and joins and there.add(self._number, pattern, told):
            return
        if pattern.what == "more":
            return
        if there is not None:
            self._ready.append(self._open.pop(key))
        self._open[key] = self._new(pattern, told, line, key)
        if len(self._open) > _MANY:
            self._ready.append(self._open.popitem(last=False)[1])

    def _goes_with(self, there: Failure, pattern: Pattern) -> bool:
        """Whether another message of the same failure follows, and not the same one of another."""
        is_one = pattern.what in ("modify", "completion") and pattern.what == there.pattern.what
        return is_one and pattern.name not in there.names and self._number - there.last <= _NEXT

    def _new(self, pattern: Pattern, told: dict[str, Any], line: str, key: tuple[str, str]) -> Failure:
        flushed = told.get("status") == WCStatus.WR_FLUSH_ERR
        made = Failure(self._number, self._number, pattern, [pattern.name], line.strip()[:_SHOWN], told,
                       dict(self._facts.get(key, ())), self._broken if flushed else None)  # fmt: skip
        if not flushed and self._broken is None and pattern.what in ("completion", "event", "modify"):
            self._broken = self._number
        return made

    def _remember(self, key: tuple[str, str], told: dict[str, Any]) -> None:
        facts = self._facts.setdefault(key, {})
        if told.pop("fresh", None):
            facts.clear()
        late, there = told.pop("late", None), self._open.get(key)
        if late and there is not None:
            there.facts = told | there.facts
        self._facts.move_to_end(key)
        if "side_gid" in told:  # perftest's line of a GID belongs to the address above it
            gid = read({"gid": told.pop("side_gid")}).get("gid")
            told = {"gid" if facts.get("side") == "local" else "peer_gid": gid}
        facts.update(told)
        if len(self._facts) > _MANY:
            self._facts.popitem(last=False)
