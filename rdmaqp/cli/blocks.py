"""One request's answer for the eye: whose, the verdict, the report, what was not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from rdmaqp.guard import Report
    from rdmaqp.model.request import Request

_WORDS = {"refuse": "REFUSED", "warn": "WARNING", "pass": "passes"}


def block(number: int, request: Request, report: Report, *, name: str, coloured: bool) -> str:
    """The block, in colours only where asked for: those cost more than the judgement."""
    identity = "" if request.id is None else f"  id {request.id}"
    first = f"{_WORDS[report.verdict]}  {name}:{number}{identity}"
    rows = [f"    {line}" for line in _causes(report)] + [f"    {line}" for line in _skipped(report)]
    if not coloured:
        body = "\n".join(f"  {line}" for line in report.render().split("\n"))
        return "\n".join([first, body, *rows]) + "\n\n"
    return _coloured(first, report, rows)


def _coloured(first: str, report: Report, rows: list[str]) -> str:
    from rich.text import Text

    from rdmaqp.cli.report import COLOURS, report_text

    word, _, rest = first.partition("  ")
    text = Text.assemble((f" {word} ", f"bold reverse {COLOURS[report.verdict]}"), f"  {rest}\n")
    text.append_text(report_text(report, "  ")).append("".join(f"\n{row}" for row in rows), "dim")
    return ansi(text) + "\n\n"


def ansi(text: Text) -> str:
    """*text* with the escape sequences of its colours."""
    from rich.color import ColorSystem

    from rdmaqp.cli.console import out

    parts = text.render(out, end="")
    return "".join(
        part.style.render(part.text, color_system=ColorSystem.STANDARD) if part.style else part.text for part in parts
    )


def _causes(report: Report) -> list[str]:
    causes = report.to_dict().get("causes", ())
    return [f"{cause['standing']:10} {cause['cause']}: {cause['why']}" for cause in causes]


def _skipped(report: Report) -> list[str]:
    """What was not checked, by what it needs."""
    needs: dict[str, list[str]] = {}
    for rule, need in report.skipped:
        if rule not in needs.setdefault(need, []):
            needs[need].append(rule)
    return [f"not checked without {need}: {', '.join(rules)}" for need, rules in needs.items()]
