"""How everything is printed: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from typing import IO, TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rdmaqp.guard import GuardWarning

if TYPE_CHECKING:
    from rich.progress import Progress


class Trimmed:
    """Standard output without blanks at the ends of lines: rich fills cells with them, and a diff or a log shows it.

    A blank may come in one write and the end of its line in the next, as after a prompt: so blanks wait.
    """

    def __init__(self) -> None:
        self._waiting = ""

    def write(self, text: str) -> int:
        """Write *text*, but for the blanks at its end."""
        whole = re.sub(" +\n", "\n", self._waiting + text)
        bare = whole.rstrip(" ")
        self._waiting = whole[len(bare) :]
        sys.stdout.write(bare)
        return len(text)

    def flush(self) -> None:
        """Pass on what is not waiting."""
        sys.stdout.flush()

    def fileno(self) -> int:
        """The descriptor."""
        return sys.stdout.fileno()


def _width(*, terminal: bool) -> int | None:
    """``COLUMNS`` where it says something; else the terminal's own (which rich asks for), and 80 without one."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    return None if terminal else 80


_is_seen = sys.stdout.isatty()
# Without emoji: the digits of a GID, fe80::7:1234:5678, are no picture's name.
out = Console(
    highlight=False, emoji=False, width=_width(terminal=_is_seen),
    file=None if _is_seen else cast("IO[str]", Trimmed()),
)  # fmt: skip
err = Console(stderr=True, highlight=False, emoji=False)


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


def plain_table(*columns: str, whole: str = "") -> Table:
    """A table without frames; what is too long for its column goes on below. *whole* is there to be copied: a line."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name == "index" else "left", overflow="fold", no_wrap=name == whole)
    return table


def progress_bar(title: str, total: int) -> Progress:
    """A bar on standard error with one task, invisible until it is started and updated."""
    # Loaded here: it costs more than all else that a short command prints with.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True)
    bar.add_task("", total=total, visible=False)
    return bar
