"""The command line that is built, the job in the guest, and what is refused before anything starts."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from pathlib import Path

import pytest

from rdmaqp import lab
from rdmaqp.cli import lab as cli
from rdmaqp.lab import LabError, command
from rdmaqp.lab.kernel import Kernel

KERNEL = Kernel("6.1.0", Path("/k/boot/vmlinuz-6.1.0"), Path("/k/lib/modules/6.1.0"), "given", has_9p=True)
PORTS = {"stdout": 7, "stderr": 8, "status": 9}


@pytest.fixture
def guest(tmp_path: Path) -> command.Guest:
    return command.Guest(["ibv_devinfo", "-d", "a b"], KERNEL, kvm=False, cpus=3, memory="2G", cwd=tmp_path)


def test_virtme_run_gets_the_kernel_the_sizes_and_the_ports(guest: command.Guest) -> None:
    words = command.virtme_run(guest, Path("/v/virtme-run"), Path("/t/a job"), PORTS)
    assert words[:3] == ["/v/virtme-run", "--kimg", "/k/boot/vmlinuz-6.1.0"]
    for pair in (["--cpus", "3"], ["--memory", "2G"], ["--overlay-rwdir", "/tmp"]):
        assert " ".join(pair) in " ".join(words)
    assert "--qemu-opt=file,id=rdmaqp.status,path=/proc/self/fd/9" in words
    assert "--qemu-opt=virtserialport,name=rdmaqp.status,chardev=rdmaqp.status" in words
    assert words[-2:] == ["--script-sh", "/bin/bash '/t/a job'"]


def test_kvm_and_9p_only_where_they_work(guest: command.Guest) -> None:
    emulated = command.virtme_run(guest, Path("v"), Path("j"), PORTS)
    assert "--disable-kvm" in emulated
    assert "--force-9p" in emulated
    assert f"--qemu-opt=virtio-9p-pci,fsdev={command.CACHED_ROOT},mount_tag={command.CACHED_ROOT}" in emulated
    rhel = dataclasses.replace(guest, kvm=True, kernel=dataclasses.replace(KERNEL, has_9p=False))
    words = command.virtme_run(rhel, Path("v"), Path("j"), PORTS)
    assert "--disable-kvm" not in words
    assert "--force-9p" not in words
    assert not any(command.CACHED_ROOT in word for word in words)


def test_the_job_quotes_what_it_was_given(guest: command.Guest) -> None:
    text = command.job(guest, "token", {"PATH": "/a b:/c", "NO_COLOR": ""})
    assert "export PATH='/a b:/c'\n" in text
    words = shlex.split(text.splitlines()[-1])
    assert words[:2] == ["exec", "/bin/bash"]
    assert words[3:] == ["token", "unlimited", "alone", str(guest.cwd), "ibv_devinfo", "-d", "a b"]


def test_two_guests_meet_at_each_others_sockets(guest: command.Guest) -> None:
    network = Path("/t/meet")
    for host, other in ((1, 2), (2, 1)):
        one = dataclasses.replace(guest, network=network, host=host)
        (netdev,) = [word for word in command.virtme_run(one, Path("v"), Path("j"), PORTS) if "dgram" in word]
        assert f"local.type=unix,local.path=/t/meet/host{host}" in netdev
        assert f"remote.type=unix,remote.path=/t/meet/host{other}" in netdev
        assert shlex.split(command.job(one, "token", {}).splitlines()[-1])[5] == str(host)
    assert not any("netdev" in word for word in command.virtme_run(guest, Path("v"), Path("j"), PORTS))


def test_the_environment_is_passed_on_in_part() -> None:
    given = {"PATH": "/x", "HOME": "/h", "TERM": "t", "RDMAQP_X": "1", "PYTHONPATH": "p", "CI": "1",
             "SECRET": "s", "LC_ALL": "C", "SSH_AUTH_SOCK": "s", "PWD": "/", "PATHOLOGY": "no"}
    kept = command.environment(given, "/venv/bin:/x")
    assert kept.keys() == {"PATH", "HOME", "TERM", "RDMAQP_X", "PYTHONPATH", "CI", "LC_ALL", "RDMAQP_LAB"}
    assert kept["PATH"] == "/venv/bin:/x"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": []}, "no command given"),
        ({"cpus": 0}, "--cpus 0"),
        ({"memory": "lots"}, "--memory 'lots'"),
        ({"memory": "0G"}, "--memory '0G'"),
        ({"memlock": "-1"}, "memlock '-1'"),
        ({"rwdirs": [Path("/no/such")]}, "--rwdir /no/such: there is no such directory"),
        ({"host": 3}, "--host 3: a network of guests has the hosts 1 and 2"),
        ({"network": Path("/no/such")}, "--network /no/such: there is no such directory"),
        ({"cwd": Path("/proc")}, "cannot see the current directory /proc"),
    ],
)
def test_what_cannot_work_is_refused(guest: command.Guest, change: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        command.check(dataclasses.replace(guest, **change))  # type: ignore[arg-type]


def test_a_directory_that_virtme_ng_cannot_share(guest: command.Guest, tmp_path: Path) -> None:
    odd = tmp_path / "größe"
    odd.mkdir()
    with pytest.raises(LabError, match="virtme-ng shares only"):
        command.check(dataclasses.replace(guest, rwdirs=[odd]))


def test_a_network_whose_sockets_have_too_long_a_path(guest: command.Guest, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 107)
    deep.mkdir()
    with pytest.raises(LabError, match="at most 101 bytes"):
        command.check(dataclasses.replace(guest, network=deep))


def test_what_works_is_not_refused(guest: command.Guest, tmp_path: Path) -> None:
    command.check(guest)
    command.check(dataclasses.replace(guest, rwdirs=[tmp_path], memory="512M", memlock="64"))


def test_a_hidden_temporary_directory_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert command.run_dir_parent(Path("/var/tmp"), cache) == cache
    assert command.run_dir_parent(tmp_path, cache) == tmp_path


def test_the_guest_script_is_installed_with_the_package() -> None:
    assert os.access(command.GUEST_SCRIPT, os.R_OK)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--", "ibv_devinfo"], ["ibv_devinfo"]),
        (["--cpus", "2", "--", "prog", "--json", "-q"], ["prog", "--json", "-q"]),
        (["prog", "--cpus", "9"], ["prog", "--cpus", "9"]),
        (["--", "git", "log", "--", "x"], ["git", "log", "--", "x"]),
        (["--"], []),
        ([], []),
    ],
)
def test_all_behind_the_dashes_is_the_command(
    words: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(lab, "run", lambda words, **_: given.append(words) or 0)
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    args = parser.parse_args(["lab", "run", *words])
    assert args.run(args) == 0
    assert given == [expected]
