"""Lines to failures: which message each is, which lines tell of one failure, what nobody here knows.

Programs tell of one failure in several lines, and many processes write into one log. So a failure stays open for some
lines, by program and by who speaks (host, process, thread): what does not contradict it is added to it. What a program
says before anything fails (its device, its addresses) is remembered, and fills what the failure leaves open.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.guard.logs.dumps import Dump
from rdmaqp.guard.logs.patterns import SPECIAL, all_in, is_suspect, may_matter
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
#: A line that a terminal or a mail broke is at least so long, and no message is broken into more pieces.
_NARROW, _PIECES = 60, 4
#: A mail's mark of what another wrote.
_QUOTED = re.compile(r"^(?:> ?)+")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

#: Who speaks: NCCL's and UCX's host:pid:tid, glog's thread, Open MPI's rank.
_SPEAKER = re.compile(
    r"\b(?P<nccl>[\w.-]{1,64}:\d{1,9}:\d{1,9}) \[\d+\]|\[(?P<ucx>[\w.-]{1,64}:\d{1,9}:\d{1,9})[:\]]|"
    r"^[EWIF]\d{4,8} [\d:.]+\s+(?P<glog>\d+) "
)


def _is_wrapped(pieces: list[str]) -> bool:
    """Whether *pieces* are one text, broken at a width: as wide each, or so wide that the next word had no room."""
    if all(abs(len(each) - len(pieces[0])) <= 1 for each in pieces):
        return True
    width = max(map(len, pieces))
    return all(
        len(this) >= _NARROW and len(this) + 1 + len(following.split(" ", 1)[0]) > width
        for this, following in itertools.pairwise(pieces)
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


class _Whole(NamedTuple):
    """A message as far as it has come: a terminal or a mail may have broken it."""

    text: str
    width: int
    pattern: Pattern
    failure: Failure


class Reader:
    """Reads lines in their order; gives each failure once it is complete."""

    def __init__(self) -> None:
        self._number = 0
        self._open: OrderedDict[tuple[str, str], Failure] = OrderedDict()
        self._facts: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
        self._broken: int | None = None  # the first failure that was no flush
        self._ready: list[Failure | Stranger] = []
        self._pieces: list[str] = []  # lines that may be the beginning of one that was broken
        self._held: list[Stranger] = []  # of them: told once no next line makes a message of them
        self._weak: Failure | None = None  # what the first of them told by itself
        self._dump = Dump()
        self._whole: _Whole | None = None  # a message that may go on in the next line

    def feed(self, line: str) -> list[Failure | Stranger]:
        """Take the next line; what is complete by now, in the order of the lines."""
        self._number += 1
        raw = line[:_LONGEST].rstrip("\r\n")
        if raw.startswith(">"):
            raw = _QUOTED.sub("", raw)
        if self._dump.is_open:
            self._dumped(raw)
        if not self._pieces and self._whole is None and not may_matter(raw):
            return []
        raw = _COLOURS.sub("", raw)
        line = raw.rstrip()
        self._done(self._number - _NEAR)
        if may_matter(line) and self._known(line, raw=raw):
            self._let_go()
            if self._whole is not None and self._whole.pattern not in SPECIAL:
                self._pieces, self._weak = [raw], self._whole.failure  # with the next line it may be a program's own
        elif self._goes_on(raw):
            self._let_go()
        elif not self._mended(raw):
            self._let_go()
            if may_matter(line):
                self._unknown(raw, line)
        return self._in_order()

    def _known(self, line: str, *, raw: str = "", of_programs: bool = False) -> bool:
        """Take *line* where it is one of the messages, or one of a program's own."""
        for pattern in all_in(line, of_programs=of_programs):
            found = pattern.match(line)
            if found is not None:
                failure = self._take(pattern, read(found), line)
                self._dump.begin(pattern.name)
                text = raw or line
                broken = failure is not None and len(text) >= _NARROW
                self._whole = _Whole(text, len(text), pattern, failure) if broken and failure is not None else None
                return True
        return False

    def _goes_on(self, raw: str) -> bool:
        """Whether *raw* is what was broken off the end of the message before: it tells more then."""
        before, self._whole = self._whole, None
        if before is None:
            return False
        less = read(before.pattern.match(before.text.rstrip()) or {})
        for glue in ("", " "):
            text = (before.text + glue + raw)[:_LONGEST]
            more = read(before.pattern.match(text.rstrip()) or {})
            if less.items() < more.items():
                before.failure.told = more | before.failure.told
                before.failure.last = self._number
            elif not less or abs(len(raw) - before.width) > 1 or may_matter(raw):
                continue
            self._whole = before._replace(text=text)
            return True
        return False

    def _unknown(self, raw: str, line: str) -> None:
        """A line that is no message by itself: it may be the first piece of one."""
        if is_suspect(line):
            self._held = [Stranger(self._number, line.strip()[:_SHOWN])]
        if len(raw) >= _NARROW:
            self._pieces = [raw]
        else:
            self._let_go()

    def _mended(self, raw: str) -> bool:
        """Whether *raw* goes on with a line that a terminal or a mail broke: to a whole message, or not yet.

        Pieces between the first and the last are as wide as a break allows. Only a program's own message is looked
        for: two lines that happen to follow each other make none.
        """
        if not self._pieces or len(self._pieces) >= _PIECES or not raw.strip():
            return False
        if any(pattern.match(part) for part in self._pieces[1:] for pattern in all_in(part, of_programs=True)):
            return False
        weak = next((key for key, each in self._open.items() if each is self._weak), None)
        for glue in ("", " "):
            whole = glue.join([*self._pieces, raw])[:_LONGEST]
            if self._known(whole.rstrip(), of_programs=True):
                if weak is not None and self._open.get(weak) is self._weak:
                    del self._open[weak]
                self._pieces, self._held = [], []
                return True
        if not _is_wrapped([*self._pieces, raw]):
            return False
        self._pieces.append(raw)
        if not self._held and is_suspect(raw):
            self._held = [Stranger(self._number, raw.strip()[:_SHOWN])]
        return True

    def _let_go(self) -> None:
        self._ready += self._held
        self._pieces, self._held = [], []

    def _dumped(self, raw: str) -> None:
        """One more line of an error completion's dump: what it says belongs to the failure that it is of."""
        told = self._dump.read(raw)
        there = next((each for each in reversed(self._open.values()) if self._dump.opened in each.names), None)
        if told and there is not None:
            there.last = self._number
            there.told = read(told) | there.told

    def skip(self) -> None:
        """The next line was not read: it counts all the same."""
        self._number += 1

    def close(self) -> list[Failure | Stranger]:
        """What is still open: nothing more comes, or not soon."""
        self._let_go()
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

    def _take(self, pattern: Pattern, told: dict[str, Any], line: str) -> Failure | None:
        """Note what *line* says; the failure that it belongs to, where it belongs to one."""
        who = _SPEAKER.search(line)
        key = (pattern.program, next(filter(None, who.groups()), "") if who else "")
        if pattern.what == "facts":
            self._remember(key, told)
            return None
        there = self._open.get(key)
        joins = there is not None and (pattern.what == "more" or self._goes_with(there, pattern))
        if there is not None and joins and there.add(self._number, pattern, told):
            return there
        if pattern.what == "more":
            return None
        if there is not None:
            self._ready.append(self._open.pop(key))
        made = self._open[key] = self._new(pattern, told, line, key)
        if len(self._open) > _MANY:
            self._ready.append(self._open.popitem(last=False)[1])
        return made

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
