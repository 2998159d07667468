"""How everything is printed: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from rdmaqp.guard import GuardWarning

if TYPE_CHECKING:
    from rich.progress import Progress

#: Without a terminal (a pipe, a file, a log) lines need not fit a screen.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False)


def show_error(error: Exception) -> None:
    """An error's text: its first line in bold red, the rest as it is."""
    first, _, rest = str(error).partition("\n")
    err.print(Text.assemble(("rdmaqp: ", "bold red"), (first, "bold")), soft_wrap=True)
    if rest:
        err.print(Text(rest), soft_wrap=True)


def show_guard_warnings() -> None:
    """From now on, print the guard's warnings as one line each, without Python's source line."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, GuardWarning):
            err.print(Text.assemble(("warning: ", "bold yellow"), str(message)), soft_wrap=True)
        else:
            usual(message, category, *rest, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", GuardWarning)


def print_json(value: Any) -> None:
    """*value* as JSON on standard output, for a program to read."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def progress_bar(title: str, total: int) -> Progress:
    """A bar on standard error with one task, invisible until it is started and updated."""
    # Loaded here: it costs more than all else that a short command prints with.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True)
    bar.add_task("", total=total, visible=False)
    return bar
