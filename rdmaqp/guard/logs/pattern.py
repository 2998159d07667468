"""One message that somebody prints, as a row of a table; and the small language that its text is written in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rdmaqp.guard.logs.linux import TEXTS
from rdmaqp.guard.logs.vocabulary import CM_FAILURES, CQE_TEXTS, DOUBTFUL, EVENTS, REJECTS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.guard.cause import Standing

#: What a message tells of: a call that failed (``cm``: one of the connection manager's, or its event), work that did,
#: an asynchronous event; ``told``: the row itself says why;
#: ``more``: it belongs to the failure beside it; ``facts``: nothing has failed, and it names device or address.
What = Literal["modify", "create", "reg_mr", "post", "ah", "cm", "completion", "event", "told", "more", "facts"]


class Reason(NamedTuple):
    """A cause that the message itself gives away."""

    cause: str
    standing: Standing
    why: str


def _any(texts: object) -> str:
    """A pattern for one of *texts*, longest first, so that none is cut short."""
    return "|".join(sorted(map(re.escape, texts), key=len, reverse=True))  # type: ignore[call-overload]


_NUMBER = r"0x[0-9a-fA-F]+|\d+"
_STATES = "RESET|RST|INIT|RTR|RTS|SQD|SQE|ERR(?:OR)?|init"
#: ``{name}`` in a row's text stands for a group of that name, with this pattern; ``{name2}`` is the same in another
#: branch of the text, where a regular expression takes no name twice.
TOKENS: Mapping[str, str] = {
    "device": r"[A-Za-z][\w.-]{0,63}", "port": r"\d{1,3}", "errno": r"-?\d{1,3}", "error": _any(TEXTS),
    "status": r"0x[0-9a-fA-F]{1,2}|\d{1,2}", "status_text": _any((*STATUSES, *CQE_TEXTS)), "vendor": _NUMBER,
    "syndrome": r"(?:0x)?[0-9a-fA-F]+",
    "cqe": r"0x[0-9a-fA-F]{1,2}", "gid": r"[0-9a-fA-F:.]{2,64}|N/A", "peer_gid": r"[0-9a-fA-F:.]{2,64}|N/A",
    "state": _STATES, "goal": _STATES, "qpn": _NUMBER, "dest_qpn": _NUMBER, "index": r"-?\d{1,3}",
    "type": "RC|UC|UD|XRC|DCI|DCT|SRD|DC", "peer": r"\[?[\w.:-]{1,80}\]?", "event": _any(EVENTS), "length": r"\d+",
    "link": "RoCE|ROCE|IB|Ethernet|InfiniBand", "side_gid": r"(?:[0-9a-fA-F]{1,3}:){15}[0-9a-fA-F]{1,3}",
    "op": r"[A-Za-z0-9]*_?(?:2|TO|to)_?[A-Za-z0-9]+",
    "cm": "|".join(CM_FAILURES), "reject": r"\d{1,2}", "reject_text": _any(REJECTS), "doubtful": "|".join(DOUBTFUL),
    "hex_op": "50[0-9a-fA-F]",
    "hex_status": "[0-9a-fA-F]{2}", "hex_vendor": "[0-9a-fA-F]{2}", "hex_qpn": "[0-9a-fA-F]{6,8}",
}  # fmt: skip


class Pattern:
    """One message.

    Attributes:
        name: stable, for programs that read the answer.
        program: who prints it.
        what: what it tells of.
        has: a text that each such line has: lines without it are passed over cheaply.
        text: the pattern, with ``{tokens}``.
        source: where it is printed: project and file, or the public report that has it.
        sets: what is known whenever it is printed, besides what it holds; ``fresh``: facts of before are another run's;
            ``late``: in a file it may stand behind the failure, since standard output is written at the end.
        reasons: what it gives away by itself.
        innocent: what it rules out, and why (:attr:`because`).
        note: a word for the reader.
    """

    __slots__ = (
        "_regex", "because", "has", "innocent", "name", "note", "program", "reasons", "sets", "source", "text", "what",
    )  # fmt: skip

    def __init__(
        self, name: str, program: str, what: What, has: str, text: str, source: str, *,
        reasons: tuple[Reason, ...] = (), innocent: tuple[str, ...] = (), because: str = "", note: str = "",
        **sets: Any,
    ) -> None:  # fmt: skip
        self.name, self.program, self.what, self.has, self.text, self.source = name, program, what, has, text, source
        self.reasons, self.innocent, self.because, self.note, self.sets = reasons, innocent, because, note, sets
        self._regex: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<Pattern {self.name}>"

    def match(self, line: str) -> dict[str, Any] | None:
        """What *line* holds, as text; ``None`` where it is not this message."""
        if self.has not in line:
            return None
        if self._regex is None:  # a log tells of few of the hundreds of messages: only theirs are compiled
            self._regex = re.compile(re.sub(r"\{(\w+)\}", _group, self.text))
        found = self._regex.search(line)
        if found is None:
            return None
        return self.sets | {
            name.partition("__")[0]: text for name, text in found.groupdict().items() if text is not None
        }


def _group(token: re.Match[str]) -> str:
    name = token[1]
    base = name.rstrip("23")
    if base not in TOKENS:
        return token[0]
    if base == "doubtful":
        return TOKENS[base]
    group = base if base == name else f"{base}__{name[len(base) :]}"
    return f"(?P<{group}>{TOKENS[base]})"


def likely(cause: str, why: str) -> Reason:
    """A cause that may be it."""
    return Reason(cause, "likely", why)


def proved(cause: str, why: str) -> Reason:
    """The cause."""
    return Reason(cause, "proved", why)
