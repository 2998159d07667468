"""A guard's report for the eye: the same words as its plain text, in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
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
