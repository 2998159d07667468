"""Traces: each modify call as a line of JSON in the check contract's format, for ``rdmaqp check`` to replay.

    RDMAQP_TRACE=calls.jsonl python program.py; rdmaqp check calls.jsonl

    with rdmaqp.trace("calls.jsonl"):     # or a callable, which gets each line
        …
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.errors import RdmaqpError
from rdmaqp.model.encode import encode
from rdmaqp.model.request import Failure

if TYPE_CHECKING:
    from rdmaqp.model.request import Request

VARIABLE = "RDMAQP_TRACE"

#: The one logger: modify calls that were taken are DEBUG, those refused or failed INFO, a trace that breaks a WARNING.
log = logging.getLogger("rdmaqp")

#: Where lines go now. Empty nearly always, which is what a modify call looks at.
targets: list[Trace] = []


class Trace:
    """Where the lines of modify calls go, from its making to ``close()``, for all queue pairs of this process.

    *to* is a file's path, to whose end each line is written at once, or a callable, which is given each line without
    its end. A line is the request as the guard was asked it; its ``id`` says when, on what, what came of it and in how
    long; ``failed`` has the error number of a call that the driver refused.

    Raises:
        OSError: the file cannot be opened.
        TypeError: *to* is neither.
    """

    def __init__(self, to: str | os.PathLike[str] | Callable[[str], object]) -> None:
        self._fd: int | None = None
        if callable(to):
            self._write: Callable[[str], object] = to
        elif isinstance(to, (str, os.PathLike)):
            self._fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._write = self._append
        else:
            raise TypeError(f"trace() takes a file's path or a callable, not {type(to).__name__}")
        targets.append(self)

    def _append(self, line: str) -> None:
        assert self._fd is not None
        os.write(self._fd, f"{line}\n".encode())  # one call: other processes may write to the same file

    def write(self, line: str) -> None:
        """Hand over one line. A target that fails is dropped, with a warning: the call that is traced goes on."""
        try:
            self._write(line)
        except Exception:  # whatever a user's callable raises
            log.warning("the trace of modify calls ends here, since a line could not be written", exc_info=True)
            self.close()

    def close(self) -> None:
        """No more lines."""
        if self in targets:
            targets.remove(self)
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def trace(to: str | os.PathLike[str] | Callable[[str], object]) -> Trace:
    """Write each modify call of this process, as a line that ``rdmaqp check`` reads: ``with rdmaqp.trace(file):``

    See :class:`Trace`. The environment variable ``RDMAQP_TRACE``, a file's path, does the same for a whole process.
    """
    return Trace(to)


def emit(request: Request, title: str, errno: int | None = None) -> None:
    """Write *request* to all targets, with *title* for its id."""
    failed = Failure(errno) if errno else None
    line = json.dumps(_encoded(replace(request, id=title, failed=failed)), ensure_ascii=False)
    for target in list(targets):
        target.write(line)


def _encoded(request: Request) -> dict[str, Any]:
    """As JSON; without the GID table where nobody can read that any more."""
    try:
        return encode(request)
    except RdmaqpError:
        return encode(replace(request, gids={}, gids_complete=False))


def from_environment() -> None:
    """What RDMAQP_TRACE says; a file that cannot be opened is a warning, and no more."""
    path = os.environ.get(VARIABLE)
    if path:
        try:
            Trace(path)
        except OSError as error:
            log.warning("%s=%s: modify calls are not traced: %s", VARIABLE, path, error.strerror)


from_environment()
