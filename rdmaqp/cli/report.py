"""A guard's report for the eye: the same words as its plain text, in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from rdmaqp.guard import Report

#: How a row begins -> its colour.
_ROWS = {
    "  - missing": "red", "  + excess": "red", "  × wrong": "red", "  ! warning": "yellow", "  · note": "cyan",
    "    set": "dim",
}  # fmt: skip
COLOURS = {"refuse": "red", "warn": "yellow", "pass": "green"}
SIGNS = {"refuse": "✗", "warn": "!", "pass": "✓"}


def report_text(report: Report, indent: str = "") -> Text:
    """The report, coloured; without a newline at the end."""
    text = Text()
    tail = report.tail if report.refused else ""
    for place, line in enumerate(report.render().split("\n")):
        if place:
            text.append("\n")
        style = next((colour for start, colour in _ROWS.items() if line.startswith(start)), "")
        if place == 0:
            text.append(indent + line, "bold")
        elif line.lstrip().startswith("→ "):
            text.append(indent + line, "green")
        elif line == tail:
            text.append(indent + line, "dim")
        elif style and style != "dim":
            text.append(indent + line[:12], f"bold {style}").append(line[12:])
        else:
            text.append(indent + line, style)
    return text


def fitted(text: Text, width: int) -> Text:
    """*text* with lines of at most *width*: what goes on is below where it began, not at the edge."""
    lines = []
    for line in text.split("\n"):
        plain = line.plain
        bare = plain.lstrip()
        column = len(plain) - len(bare) + next((size for start, size in _HANGS.items() if bare.startswith(start)), 2)
        if len(plain) > width > column + 24:
            head, rest = line.divide([column])[:2] if column else (Text(), line)
            wrapped = rest.wrap(_console(), width - column)
            for part in wrapped:
                part.rstrip()
            line = head.append_text(Text("\n" + " " * column).join(wrapped))
        lines.append(line)
    return Text("\n").join(lines)


#: How a row begins -> how far in its message does.
_HANGS = {start.lstrip(): 30 for start in _ROWS if start != "    set"} | {"set": 9} | dict.fromkeys(
    ("proved ", "likely ", "ruled-out "), 11
)


def _console() -> Console:
    from rdmaqp.cli.console import out

    return out
