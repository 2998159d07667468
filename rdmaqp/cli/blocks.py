"""One request's answer for the eye: whose, the verdict, the report, what was not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

    from rdmaqp.guard import Cause, Report
    from rdmaqp.model.request import Request

_WORDS = {"refuse": "REFUSED", "warn": "WARNING", "pass": "passes"}


def block(number: int, request: Request, report: Report, *, name: str, coloured: bool) -> str:
    """The block, in colours only where asked for: those cost more than the judgement."""
    identity = "" if request.id is None else f"  id {request.id}"
    first = f"{_WORDS[report.verdict]}  {name}:{number}{identity}"
    rows = [*cause_rows(report.causes or ()), *_skipped(report)]
    if not coloured:
        body = "\n".join(f"  {line}" for line in report.render().split("\n"))
        return "\n".join([first, body, *(f"    {row}" for row, _ in rows)]) + "\n\n"
    return _coloured(first, report, rows)


def _coloured(first: str, report: Report, rows: list[tuple[str, str]]) -> str:
    from rich.text import Text

    from rdmaqp.cli.console import out
    from rdmaqp.cli.report import COLOURS, fitted, report_text

    word, _, rest = first.partition("  ")
    text = report_text(report, "  ")
    for row, style in rows:
        text.append(f"\n    {row}", style)
    head = Text.assemble((f" {word} ", f"bold reverse {COLOURS[report.verdict]}"), f"  {rest}\n")
    return ansi(head.append_text(fitted(text, out.width - 1))) + "\n\n"


def ansi(text: Text) -> str:
    """*text* with the escape sequences of its colours."""
    from rich.color import ColorSystem

    from rdmaqp.cli.console import out

    parts = text.render(out, end="")
    return "".join(
        part.style.render(part.text, color_system=ColorSystem.STANDARD) if part.style else part.text for part in parts
    )


_STANDINGS = {"proved": "bold", "likely": "", "ruled-out": "dim"}


def cause_rows(causes: Iterable[Cause]) -> list[tuple[str, str]]:
    """Why it failed, each reason once with all that it speaks of, and how the row looks."""
    found: dict[tuple[str, str], list[str]] = {}
    for cause in causes:
        found.setdefault((cause.standing, cause.why), []).append(cause.cause)
    return [(f"{how:10} {', '.join(names)}: {why}", _STANDINGS[how]) for (how, why), names in found.items()]


def _skipped(report: Report) -> list[tuple[str, str]]:
    """What was not checked, by what it needs."""
    needs: dict[str, list[str]] = {}
    for rule, need in report.skipped:
        if rule not in needs.setdefault(need, []):
            needs[need].append(rule)
    return [(f"not checked without {need}: {', '.join(rules)}", "dim") for need, rules in needs.items()]
