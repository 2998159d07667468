"""What is missing is said before anything starts, with the package that supplies it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from rdmaqp import lab
from rdmaqp.lab import LabError, accel, fetch, kernel, tools

from .helpers import lab_command, make_kernel

BY_NAME = [tool for tool in tools.TOOLS if not tool.names[0].startswith("/")]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH: every program the lab needs is in it, as a script that does nothing."""
    place = tmp_path / "bin"
    place.mkdir()
    for tool in BY_NAME:
        write_program(place / tool.names[0], "exit 0")
    monkeypatch.setattr(tools, "search_path", lambda: str(place))
    monkeypatch.setenv("PATH", str(place))
    return place


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def nothing_installed(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = kernel.choose
    monkeypatch.setattr(kernel, "choose", lambda: real(tmp_path / "empty"))


@pytest.mark.parametrize("tool", BY_NAME, ids=lambda tool: tool.names[0])
def test_each_missing_program_is_named_with_its_package(
    programs: Path, cache: Path, tool: tools.Tool
) -> None:
    (programs / tool.names[0]).unlink()
    with pytest.raises(LabError) as caught:
        lab.run(["true"])
    text = str(caught.value)
    assert f"missing on this machine: {tool.names[0]}" in text
    assert (tool.debian or "pip install 'rdmaqp[lab]'") in text
    assert tool.fedora in text


def test_all_missing_programs_are_said_at_once(programs: Path, cache: Path) -> None:
    for tool in BY_NAME[:3]:
        (programs / tool.names[0]).unlink()
    with pytest.raises(LabError) as caught:
        lab.setup()
    assert all(tool.names[0] in str(caught.value) for tool in BY_NAME[:3])


def test_a_missing_program_shows_in_the_status(programs: Path, nothing_installed: None) -> None:
    (programs / BY_NAME[0].names[0]).unlink()
    found = lab.status()
    assert found.qemu is None
    assert not found.ready
    assert [missing.what for missing in found.missing] == [BY_NAME[0].names[0]]
    assert found.kernel is None
    assert "lab setup" in found.why


def test_a_cache_that_cannot_be_made(
    programs: Path, nothing_installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write everywhere: a file stands where a directory would have to be.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LabError, match="not writable: Not a directory") as caught:
        lab.setup()
    assert str(tmp_path / "file" / "rdmaqp") in str(caught.value)
    assert "XDG_CACHE_HOME" in str(caught.value)


def test_a_cache_the_guest_cannot_see(
    programs: Path, nothing_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/shm/rdmaqp-test-cache")
    try:
        with pytest.raises(LabError, match="below /dev, which the guest replaces"):
            lab.setup()
    finally:
        Path("/dev/shm/rdmaqp-test-cache/rdmaqp").rmdir()
        Path("/dev/shm/rdmaqp-test-cache").rmdir()


def test_no_apt_and_no_kernel(programs: Path, nothing_installed: None) -> None:
    with pytest.raises(LabError, match="no apt-get to fetch one with") as caught:
        lab.setup()
    assert "dnf install" in str(caught.value)
    assert "looked at" in str(caught.value)


@pytest.fixture
def apt(programs: Path, nothing_installed: None) -> Path:
    """An apt that knows linux-image-6.1.0-50-amd64 and cannot download it."""
    write_program(programs / "dpkg", "exit 0")
    write_program(programs / "apt-cache", "echo linux-image-amd64; echo ' Depends: linux-image-6.1.0-50-amd64'")
    write_program(programs / "apt-get", "echo 'Err:1 Could not resolve deb.example' >&2; exit 100")
    return programs


def test_a_download_that_fails(apt: Path, cache: Path) -> None:
    with pytest.raises(LabError) as caught:
        lab.setup()
    text = str(caught.value)
    assert "downloading linux-image-6.1.0-50-amd64 failed" in text
    assert "Could not resolve deb.example" in text
    assert "status 100" in text
    assert "apt-get update" in text
    assert list((cache / "kernels").iterdir()) == [], "a failed download leaves nothing behind"


def test_empty_package_lists(apt: Path) -> None:
    write_program(apt / "apt-cache", "echo 'E: No packages found' >&2; exit 0")
    with pytest.raises(LabError, match="the package lists know no kernel") as caught:
        lab.setup()
    assert "apt-get update" in str(caught.value)


def test_a_fetched_package_that_has_no_rxe(apt: Path, cache: Path) -> None:
    write_program(apt / "apt-get", ": > linux-image.deb")
    write_program(apt / "dpkg", '/bin/mkdir -p "$3/boot" "$3/lib/modules/6.1.0-50-amd64"')
    with pytest.raises(LabError, match="was fetched and cannot serve"):
        lab.setup()


def test_ubuntu_keeps_rxe_in_a_package_of_its_own(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(apt / "apt-cache", "echo '  Depends: linux-image-6.8.0-50-generic'; "
                                     "echo '  Depends: linux-modules-extra-6.8.0-50-generic'")
    version = "6.8.0-50-generic"
    names = [f"linux-image-{version}", f"linux-modules-{version}", f"linux-modules-extra-{version}"]
    assert fetch._packages() == (names, version)


class TestAcceleration:
    """KVM is used only where a trial has shown that it works."""

    @pytest.fixture
    def device(self, tmp_path: Path, cache: Path, programs: Path) -> Path:
        path = tmp_path / "kvm"
        path.write_text("")
        return path

    @pytest.fixture
    def some_kernel(self, tmp_path: Path) -> kernel.Kernel:
        return kernel.explicit(str(make_kernel(tmp_path / "tree", "6.1.0")))

    def test_no_device(self, tmp_path: Path) -> None:
        assert accel.known(tmp_path / "kvm").kvm is False

    def test_untried(self, device: Path) -> None:
        assert accel.known(device).name == "not tried yet"

    def test_a_trial_that_boots(self, device: Path, programs: Path, some_kernel: kernel.Kernel) -> None:
        write_program(programs / BY_NAME[0].names[0], "echo 'panic: VFS: Unable to mount root fs on x'")
        assert accel.trial(some_kernel).kvm is True

    def test_a_trial_that_aborts(self, device: Path, programs: Path, some_kernel: kernel.Kernel) -> None:
        write_program(programs / BY_NAME[0].names[0], "echo 'error: failed to set MSR 0x10a' >&2; exit 134")
        found = accel.trial(some_kernel)
        assert found.kvm is False
        assert found.why == "QEMU under KVM ended with status 134: error: failed to set MSR 0x10a"

    def test_a_trial_that_hangs(
        self, device: Path, programs: Path, some_kernel: kernel.Kernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(accel, "TRIAL_SECONDS", 0.2)
        write_program(programs / BY_NAME[0].names[0], "exec /bin/sleep 60")
        begun = time.monotonic()
        assert "hung" in accel.trial(some_kernel).why
        assert time.monotonic() - begun < 5

    def test_the_answer_is_remembered_until_qemu_or_the_boot_changes(
        self, device: Path, cache: Path, programs: Path, some_kernel: kernel.Kernel,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        real = accel.known
        monkeypatch.setattr(accel, "known", lambda: real(device))
        said: list[str] = []
        assert accel.decide(some_kernel, said.append).kvm is False
        assert accel.decide(some_kernel, said.append).kvm is False
        assert len(said) == 1, "one trial"
        write_program(programs / BY_NAME[0].names[0], "echo another QEMU, Unable to mount root fs")
        assert accel.decide(some_kernel, said.append).kvm is True
        assert len(said) == 2

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 1}', "null"])
    def test_a_damaged_memory_is_no_memory(self, device: Path, cache: Path, text: str) -> None:
        cache.mkdir(parents=True)
        (cache / "accel.json").write_text(text)
        assert accel.known(device).kvm is None


def test_qemu_missing_end_to_end(cache: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        lab_command("status", "--json"), capture_output=True, check=False,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["ready"] is False
    assert any("qemu" in missing["what"] for missing in found["missing"])
