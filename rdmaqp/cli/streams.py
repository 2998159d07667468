"""Standard streams that were closed before we began (``>&-``), or whose reader has gone."""

from __future__ import annotations

import os
import sys


def reopen_closed() -> None:
    """Put the null device where a standard stream is closed; its wrong way round, so that use fails as on a closed one.

    Otherwise the next file or socket gets its number, and ``sys.stdout`` is ``None``. What is said on standard error is
    heard by nobody then, and is no failure. A program that we start finds them closed: they do not outlive exec.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free, which is this one
    # Python leaves them None, where its annotations promise that they are there.
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115


def leave_nothing_unwritten() -> None:
    """What could not be written is still in its buffer: Python would try once more at exit, and change the status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
