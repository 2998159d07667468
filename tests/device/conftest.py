"""Device tests: each runs on a real kernel's RDMA stack, one at a time. Times are generous: the lab may be emulated."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rdmaqp
import rdmaqp.cli
import rdmaqp.cli.pingpong  # before any fork, so that no child has to

RDMAQP = [sys.executable, "-m", "rdmaqp"]
PATIENCE = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/device/" in item.nodeid:
            item.add_marker(pytest.mark.device)


@pytest.fixture
def context(device_name: str) -> Iterator[rdmaqp.Context]:
    with rdmaqp.open(device_name) as context:
        yield context


@pytest.fixture
def pd(context: rdmaqp.Context) -> rdmaqp.ProtectionDomain:
    return context.alloc_pd()


@pytest.fixture
def cq(context: rdmaqp.Context) -> rdmaqp.CompletionQueue:
    return context.create_cq(16)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


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


def pingpong(*arguments: object) -> Forked:
    """Start ``rdmaqp pingpong``; the caller waits for it."""
    return Forked(["pingpong", *map(str, arguments)])


def finish(process: Forked, status: int = 0) -> tuple[str, str]:
    """What *process* printed; it must end with *status*."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, f"status {process.returncode}\n{out}\n{err}"
    return out, err


def result(process: Forked) -> dict[str, Any]:
    """The JSON that a successful *process* printed."""
    return dict(json.loads(finish(process)[0]))


def until(process: Forked, text: str) -> str:
    """Read *process*' standard error until a line holds *text*; returns what was read."""
    read = ""
    while text not in read:
        line = process.stderr.readline()
        assert line, f"it ended before it said {text!r}:\n{read}"
        read += line
    return read
