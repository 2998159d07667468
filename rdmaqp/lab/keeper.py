"""Keeps the guest's processes together, and ends all of them when the process that asked for them is gone.

Run as a program of its own (``keeper.py LIFELINE RUN_DIR COMMAND...``), with the standard library alone. The
lifeline is the read end of a pipe whose only write end the asking process holds: it closes when that process
lets go of it, and just as well when it is killed with SIGKILL, because the kernel closes a dead process's
files. That is what "leaves nothing behind" relies on; only a SIGKILL to the keeper itself gets past it.

virtme-run starts QEMU (and virtiofsd, where it uses one) in its own process group and does not end them when
it is itself ended by a signal, hence the group is signalled as a whole.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time

PATIENCE = 2.0  # seconds between SIGTERM and SIGKILL: QEMU needs milliseconds
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def _reap() -> None:
    """Collect every child that has ended, also QEMU, which falls to us when virtme-run has gone before it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return  # no child is left


def _group_is_alive(group: int) -> bool:
    _reap()
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def end_group(group: int) -> None:
    """SIGTERM to the whole group, then, to what remains after :data:`PATIENCE`, SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _group_is_alive(group):
            return
        os.killpg(group, number)
        limit = time.monotonic() + PATIENCE
        while _group_is_alive(group) and time.monotonic() < limit:
            time.sleep(0.02)


def main(lifeline: int, run_dir: str, command: list[str]) -> int:
    """Run the command until it ends or the lifeline closes; end what is left; remove the run directory.

    Returns:
        The command's exit status, 128 + n if a signal ended it.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    fcntl.fcntl(lifeline, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    # Orphans come to this process instead of to process 1, which in many containers does not collect them.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, process_group=0, close_fds=False, restore_signals=True,
            preexec_fn=_default_signals,  # safe: this program has one thread
        )
        while child.poll() is None and not select.select([lifeline], [], [], 0.05)[0]:
            continue
        ended = child.poll()
        end_group(child.pid)
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)
    if ended is None:
        return 128 + signal.SIGTERM  # the lifeline closed first
    return ended if ended >= 0 else 128 - ended


def _default_signals() -> None:
    # An ignored signal stays ignored across exec; QEMU and virtme-run are to hear theirs.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
