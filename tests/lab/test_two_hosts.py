"""Two guests as two hosts, joined by a network link whose faults bite: exchange, ping-pong, Connection."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rdmaqp import lab

from .helpers import lab_command

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent
PATIENCE = 400  # seconds for all of it: three boots, emulated, on a busy machine


class Host:
    """A guest that runs a program of this directory, and its lines as they come."""

    def __init__(self, network: Path, number: int, program: str) -> None:
        command = [
            *lab_command("run", "--quiet", "--cpus", "1", "--network", str(network), "--host", str(number)), "--",
            sys.executable, str(HERE / program),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            print(line, end="", flush=True)

    def until(self, pattern: str, end: float) -> re.Match[str]:
        """Wait for a line with *pattern*."""
        while time.monotonic() < end:
            ended = self.process.poll() is not None and not self._reader.is_alive()
            for line in self.lines:
                if found := re.search(pattern, line):
                    return found
            assert not ended, f"it ended before it said {pattern!r}:\n" + "\n".join(self.lines)
            time.sleep(0.2)
        raise AssertionError(f"it did not say {pattern!r} in time:\n" + "\n".join(self.lines))

    def kill(self) -> None:
        """As if its power were cut: the lab's keeper ends QEMU when this process is gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def network() -> Iterator[Path]:
    """Where the two meet. Not pytest's: its long path is no place for a socket."""
    lab.setup()
    with tempfile.TemporaryDirectory(prefix="lab-test-") as name:
        yield Path(name)


@pytest.mark.timeout(PATIENCE + 60)
def test_two_hosts_and_a_wire_between_them(network: Path) -> None:
    end = time.monotonic() + PATIENCE
    first = Host(network, 1, "two_hosts_client.py")
    second = Host(network, 2, "two_hosts_server.py")
    try:
        first.until("^there", end)
        for name in ("pingpong", "plain", "5:", "30:", "down", "100"):
            first.until(f"^done {name}", end)
        for percent in ("5", "30", "100"):  # the fault has bitten
            assert int(first.until(rf"^dropped {percent}: (\d+)", end)[1]) > 0
        assert int(first.until(r"^done 100: (\d+) recoveries", end)[1]) >= 1
        first.until("^kill it", end)
        received = [line for line in second.lines if line.startswith("received")]
        assert [line for line in received if "in order: True" not in line] == []
        counts = [int(line.split()[1]) for line in received]
        assert counts == [0, 100, 200, 60, 100, 9]
        second.kill()
        second = Host(network, 2, "two_hosts_server.py")
        lost = first.until(r"^lost: (\d+) acknowledged, (\d+) unknown, (\d+) given", end)
        first.until("^done killed", end)
        assert int(lost[1]) + int(lost[2]) in (int(lost[3]), int(lost[3]) - 1)
        second.until(f"^received {int(lost[2]) + 1} in order: ", end)
        assert first.process.wait(60) == 0
    finally:
        for host in (first, second):
            host.kill()
