"""Starts a program under the keeper (``keeper.py``), so that it ends with this process, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.lab import tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KEEPER = Path(__file__).with_name("keeper.py")
_ENDING_SECONDS = 10.0  # the keeper needs at most twice its PATIENCE


@contextmanager
def kept(
    words: Sequence[str], run_dir: Path, *, stdout: int, stderr: int, pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own; on the way out, all of that group is ended.

    Args:
        words: the program and its arguments.
        run_dir: its temporary directory, which the keeper removes at the end.
        stdout: a file descriptor, or ``subprocess.PIPE``.
        stderr: the same.
        pass_fds: further file descriptors that it inherits.
    """
    lifeline, ours = os.pipe()
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_KEEPER), str(lifeline), str(run_dir), *words],
        stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd="/", start_new_session=True,
        env={**os.environ, "PATH": tools.search_path(), "TMPDIR": str(run_dir)},
        pass_fds=[lifeline, *pass_fds],
    )
    os.close(lifeline)
    try:
        yield keeper
    finally:
        os.close(ours)
        _wait(keeper)
        for pipe in (keeper.stdout, keeper.stderr):
            if pipe is not None:
                pipe.close()


def _wait(keeper: subprocess.Popen[bytes]) -> None:
    try:
        keeper.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
