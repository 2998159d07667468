"""Real guests: what passes through, what stays inside, and how they end. Each boots a kernel (20 to 45 s emulated)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rdmaqp import lab
from rdmaqp.lab import kernel

from .helpers import lab_command, run_lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", autouse=True)
def prepared() -> kernel.Kernel:
    """The kernel is there before anything is timed."""
    found = lab.setup().kernel
    assert found is not None
    return found


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary directory that the lab uses in this test; empty, and nothing may stay in it or run from it.

    Not pytest's: its long path is no place for a socket.
    """
    with tempfile.TemporaryDirectory(prefix="lab-test-") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)
        assert processes_of(name) == []
        assert list(Path(name).iterdir()) == []


def processes_of(word: str) -> list[str]:
    """The command lines that hold this word: the keeper, virtme-run and QEMU all name the run's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return [line for line in found if word in line]


def test_output_status_and_files(scratch: Path, tmp_path: Path) -> None:
    """One guest for all that one guest can show."""
    shared = tmp_path / "shared"
    shared.mkdir()
    before = Path(tmp_path / "given")
    payload = os.urandom(3_000_000)
    before.write_bytes(payload)
    script = f"""
        cat {before}
        echo 'on stderr' >&2
        echo 'by name' >/dev/stderr
        echo lost >{tmp_path}/lost && cat {tmp_path}/lost >&2
        echo kept >{shared}/kept
        ulimit -l >&2
        cat /sys/class/infiniband/rxe0/ports/1/state >&2
        ip -br neigh >&2; rdma link show >&2; pwd >&2
        sleep 1000 &
        exit 37"""
    done = run_lab("--quiet", "--rwdir", str(shared), "--", "bash", "-c", script)
    assert done.returncode == 37, done.stderr.decode()
    assert done.stdout == payload, "every byte, and nothing else"
    lines = done.stderr.decode().splitlines()
    assert lines[:5] == ["on stderr", "by name", "lost", "unlimited", "4: ACTIVE"], lines
    assert any("rxe0/1 state ACTIVE" in line for line in lines)
    assert lines[-1] == str(Path.cwd())
    assert not (tmp_path / "lost").exists(), "the guest changes nothing here"
    assert (shared / "kept").read_text() == "kept\n", "except what is shared"


@contextmanager
def running_lab(*words: str, options: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """`rdmaqp lab run` in the background; killed at the end if a test left it running."""
    with subprocess.Popen(
        lab_command("run", "--quiet", *options, "--", *words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_qemu(scratch: Path) -> None:
    limit = time.monotonic() + 30
    while not any("qemu-system" in line for line in processes_of(str(scratch))):
        assert time.monotonic() < limit, processes_of(str(scratch))
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_boot_ends_the_guest_within_seconds(scratch: Path, number: signal.Signals) -> None:
    with running_lab("sleep", "600") as process:
        wait_for_qemu(scratch)
        time.sleep(2)
        begun = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 128 + number
        assert time.monotonic() - begun < 5


def test_a_signal_while_the_command_runs(scratch: Path) -> None:
    with running_lab("bash", "-c", "ulimit -l; sleep 600", options=("--memlock", "64")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"64\n", "output comes as it is written, not at the end"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM


def test_nothing_is_left_even_after_sigkill(scratch: Path) -> None:
    with running_lab("sleep", "600") as process:
        wait_for_qemu(scratch)
        process.kill()
    limit = time.monotonic() + 5
    while processes_of(str(scratch)) and time.monotonic() < limit:
        time.sleep(0.1)


def test_a_reader_that_goes_away_ends_the_guest(scratch: Path) -> None:
    with running_lab("yes") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(10) == 128 + signal.SIGPIPE


def test_a_panic_at_boot_shows_the_end_of_the_console(scratch: Path) -> None:
    done = run_lab("--append", "rdinit=/nonexistent", "--", "true")
    assert done.returncode not in (0, 37)
    text = done.stderr.decode()
    assert "the guest ended before it could start the command" in text
    assert "Kernel panic - not syncing: VFS: Unable to mount root fs" in text


def test_an_init_that_never_comes_up_is_ended_at_the_deadline(scratch: Path) -> None:
    begun = time.monotonic()
    done = run_lab("--boot-timeout", "15", "--append", "rdinit=/bin/cat", "--", "true")
    assert time.monotonic() - begun < 25
    assert done.returncode != 0
    text = done.stderr.decode()
    assert "did not start the command within 15 s" in text
    assert "it had come to: the kernel is booting" in text
    assert "end of the guest's console:\n  | [" in text


def test_a_damaged_kernel_image_is_said(scratch: Path, prepared: kernel.Kernel, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "boot").mkdir(parents=True)
    (tree / "lib").mkdir()
    (tree / "lib/modules").symlink_to(prepared.modules.parent)
    image = tree / "boot" / prepared.image.name
    with prepared.image.open("rb") as whole, image.open("wb") as half:
        shutil.copyfileobj(whole, half)
        half.truncate(3_000_000)
    done = run_lab("--boot-timeout", "30", "--kernel", str(image), "--", "true")
    assert done.returncode != 0
    assert str(image) in done.stderr.decode()
    assert "the kernel image may be damaged" in done.stderr.decode()


def test_a_guest_that_dies_while_the_command_runs_is_no_success(scratch: Path) -> None:
    done = run_lab("--", "bash", "-c", "echo so far; sleep 1; echo c >/proc/sysrq-trigger; sleep 60")
    assert done.returncode not in (0, 37)
    assert done.stdout == b"so far\n"
    assert "the guest ended before the command did" in done.stderr.decode()
    assert "sysrq triggered crash" in done.stderr.decode()
