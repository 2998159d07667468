"""Boots a guest, runs one command in it, passes its output and exit status through, and ends it.

Four pipes lead here: the command's stdout and stderr, the guest's status lines (``streams.Status``), and the
console. The keeper (``keeper.py``) is the parent of the guest's processes and ends them when the lifeline,
a fifth pipe, closes: on return, on an error, on a signal, and when this process is killed.
"""

from __future__ import annotations

import os
import re
import secrets
import selectors
import signal
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.lab import command, tools
from rdmaqp.lab.cache import writable_cache_dir
from rdmaqp.lab.errors import EmulatorError, LabError
from rdmaqp.lab.processes import kept
from rdmaqp.lab.streams import Console, Output, Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rdmaqp.lab.command import Guest

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _SignalledError(BaseException):
    """A signal asks this process to end; no Exception, so that nothing on the way takes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


#: Seconds until the command must have started: in all, and without a word from the guest.
_SLOWEST_BOOT, _SILENCE = 900.0, 180.0
#: Seen of QEMU 10.0 (Debian 13) in software emulation now and then: hw/pci/msix.c, msix_table_mmio_write().
_QEMU_DIED = re.compile(r"qemu-system-\w+: \S+: .*Assertion .* failed")


def run(guest: Guest, boot_timeout: float | None, stdout: int = 1, stderr: int = 2) -> int:
    """Boot the guest and run its command.

    Args:
        guest: what to boot and run.
        boot_timeout: seconds until the command must have started; the command itself may take any time. ``None``: as
            long as the guest shows signs of life (a busy machine boots it in minutes), 900 at most.
        stdout: file descriptor that the command's standard output goes to.
        stderr: the same for its standard error.

    Returns:
        The command's exit status; 128 + n when signal n ended this (141: nobody reads the output any more).

    Raises:
        LabError: the guest did not come up in time, its set-up failed, or it died before the command ended.
    """
    try:
        with _signals_raise(), ExitStack() as stack:
            session = _Session(guest, stack, stdout, stderr)
            return session.follow(boot_timeout)
    except _SignalledError as signalled:
        return 128 + signalled.number
    except BrokenPipeError:
        return 128 + signal.SIGPIPE


@contextmanager
def _signals_raise() -> Iterator[None]:
    """The first signal raises; any further one is ignored, since the guest is being ended already."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise _SignalledError(number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Session:
    """One running guest: its processes, its pipes, and what is known about it."""

    def __init__(self, guest: Guest, stack: ExitStack, stdout: int, stderr: int) -> None:
        token = secrets.token_hex(16)
        self._guest = guest
        self._status = Status()
        self._console = Console()
        self._outputs = [Output(token.encode(), stdout), Output(token.encode(), stderr)]
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._start(token, stack)

    def _start(self, token: str, stack: ExitStack) -> None:
        parent = command.run_dir_parent(Path(tempfile.gettempdir()), writable_cache_dir())
        run_dir = Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="rdmaqp-lab-", dir=parent, ignore_cleanup_errors=True)
        ))
        job_file = run_dir / "job"
        env = command.environment(os.environ, tools.search_path())
        job_file.write_text(command.job(self._guest, token, env))
        sinks = [self._outputs[0].feed, self._outputs[1].feed, self._status.feed, self._console.feed]
        writers = []
        for sink in sinks:
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            self._selector.register(reader, selectors.EVENT_READ, sink)
            writers.append(writer)
        if self._guest.network is not None:  # one that another guest left behind: QEMU makes it anew
            command.cable_end(self._guest.network, self._guest.host).unlink(missing_ok=True)
        virtme_run = tools.find("virtme-run")
        assert virtme_run is not None  # lab.run has looked
        words = command.virtme_run(
            self._guest, virtme_run, job_file, dict(zip(command.PORTS, writers[:3], strict=True))
        )
        stack.enter_context(
            kept(words, run_dir, stdout=writers[3], stderr=writers[3], pass_fds=writers[:3])
        )
        for writer in writers:
            os.close(writer)  # so that the pipes end with the guest

    def follow(self, boot_timeout: float | None) -> int:
        """Copy output until the command has ended and nothing is missing; return its exit status."""
        self._boot(boot_timeout)
        while self._selector.get_map() and not self._is_complete():
            self._take(None)
        if self._status.exit_status is not None and self._is_complete():
            return self._status.exit_status
        for output in self._outputs:
            output.flush()
        if self._status.started:
            raise self._error("the guest ended before the command did (it crashed, or was powered off)")
        error = self._error("the guest ended before it could start the command")
        if _QEMU_DIED.search(error.console):
            raise EmulatorError("lab: QEMU itself died while the guest was booting", error.notes, error.console)
        raise error

    def _is_complete(self) -> bool:
        return self._status.exit_status is not None and all(output.ended for output in self._outputs)

    def _boot(self, boot_timeout: float | None) -> None:
        """Follow it until it has started the command, or ended."""
        patience, silence = (_SLOWEST_BOOT, _SILENCE) if boot_timeout is None else (boot_timeout, boot_timeout)
        limit = time.monotonic() + patience
        while self._selector.get_map() and not self._status.started:
            left = limit - time.monotonic()
            if left <= 0:
                raise self._error(f"the guest did not start the command within {patience:g} s")
            if not self._take(min(left, silence)) and silence < left:
                raise self._error(f"the guest gave no sign of life for {silence:g} s")
            if self._status.failed is not None:
                raise self._error(f"the guest's set-up failed: {self._status.failed}")

    def _take(self, timeout: float | None) -> bool:
        """Take what comes within *timeout* seconds; whether anything has."""
        ready = self._selector.select(timeout)
        for key, _ in ready:
            data = os.read(key.fd, 65536)
            if data:
                key.data(data)
            else:
                self._selector.unregister(key.fd)
        return bool(ready)

    def _error(self, what: str) -> LabError:
        guest = self._guest
        how = "KVM" if guest.kvm else "software emulation"
        console = self._console.tail()
        notes = [f"kernel {guest.kernel.image}, {how}, {guest.cpus} CPUs, {guest.memory}"]
        if not self._status.started:
            notes += [
                f"it had come to: {self._status.stage}",
                "What to do: read the console below; on a slow or busy machine give --boot-timeout more seconds;"
                " --kernel chooses another kernel, `rdmaqp lab status` shows what there is."
                if console else
                "Nothing came out of its console: the kernel image may be damaged. What to do: choose another with"
                " --kernel, or remove this one if it is in the cache and run `rdmaqp lab setup`.",
            ]
        return LabError(f"lab: {what}", notes, console)
