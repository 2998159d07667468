"""Processes that run one ``rdmaqp`` command each, without the wait for an interpreter."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import rdmaqp.cli
import rdmaqp.cli.pingpong


class Forked:
    """A process of its own that runs one ``rdmaqp`` command: forked, not started, for in an emulated guest a Python
    interpreter takes six seconds to get going. It opens the device by itself and shares nothing with its parent.
    """

    def __init__(self, arguments: list[str]) -> None:
        (self._out, out), (err_read, err) = os.pipe(), os.pipe()
        self.stderr = os.fdopen(err_read)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(out, 1)
            os.dup2(err, 2)
            status = 99
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
                status = rdmaqp.cli.run(arguments)
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(out)
        os.close(err)
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """All output, once it has ended; one that does not is killed, and said to hang."""
        alarm = threading.Timer(timeout, self.kill)
        alarm.start()
        with os.fdopen(self._out) as out, self.stderr as err, ThreadPoolExecutor(1) as reader:
            other = reader.submit(out.read)
            said = (err.read(), other.result())
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert alarm.is_alive(), f"it hung for {timeout} s and was killed; it had said:\n{said}"
        alarm.cancel()
        return said[1], said[0]
