"""One line of what the doctor says: what was looked at, how it is, and the command that mends it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "error", "unknown"]


class Line(NamedTuple):
    """One finding.

    Attributes:
        check: its stable name, such as ``memlock``.
        level: ``error`` keeps RDMA from working here, ``warning`` may, ``unknown`` could not be asked.
        about: what it is about: a device, a port, a file; empty where the check says it.
        says: how it is, in words.
        mend: the command, or the setting, that mends it; empty where there is nothing to mend.
    """

    check: str
    level: Level
    about: str
    says: str
    mend: str = ""


def ok(check: str, says: str, about: str = "") -> Line:
    """All is well."""
    return Line(check, "ok", about, says)


def warning(check: str, says: str, mend: str = "", about: str = "") -> Line:
    """It may stand in the way."""
    return Line(check, "warning", about, says, mend)


def error(check: str, says: str, mend: str, about: str = "") -> Line:
    """It stands in the way."""
    return Line(check, "error", about, says, mend)


def unknown(check: str, why: str, mend: str = "", about: str = "") -> Line:
    """It could not be asked."""
    return Line(check, "unknown", about, why, mend)
