"""What goes wrong with the lab: one exception, whose text says what, where, what was given and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.errors import RdmaqpError

if TYPE_CHECKING:
    from collections.abc import Sequence


class LabError(RdmaqpError):
    """The lab cannot be prepared, the guest did not come up, or it died before its command ended.

    Attributes:
        notes: further lines: what was found, what to do.
        console: the end of the guest's console, where there was one.
    """

    def __init__(self, message: str, notes: Sequence[str] = (), console: str = "") -> None:
        super().__init__(message)
        self.notes = tuple(notes)
        self.console = console

    def __str__(self) -> str:
        lines = [str(self.args[0]), *(f"  {note}" for note in self.notes)]
        if self.console:
            lines += ["  end of the guest's console:", *(f"  | {line}" for line in self.console.splitlines())]
        return "\n".join(lines)


class EmulatorError(LabError):
    """QEMU itself died before the command was started: nothing has happened, and it may be tried once more."""
