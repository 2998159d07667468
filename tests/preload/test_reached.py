"""Whose calls reach the judge, and by which of the two ways that lead there: LD_PRELOAD, LD_AUDIT.

The table is the measurement that the choice was made by (``_c/shim.c``): what LD_PRELOAD alone misses, LD_AUDIT leads
to it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from preload.watching import watch
from rdmaqp.preload import launch
from stub import NullDevice

UP = ["INIT", "RTR", "RTS"]

#: Program and arguments -> whether LD_PRELOAD alone reaches it, and whether both together do.
WAYS = {
    "linked": (["linked"], True, True),
    "linked, bound at once": (["linked_now"], True, True),
    "linked, bound late": (["linked_lazy"], True, True),
    "loaded with local scope by who is not linked": (["loads_plugin", "plugin.so"], True, True),
    "the same, by the function's address": (["loads_plugin", "takes_address.so"], True, True),
    "the same with RTLD_DEEPBIND": (["loads_plugin", "plugin.so", "deepbind"], False, True),
    "with RTLD_DEEPBIND, by the function's address": (["loads_plugin", "takes_address.so", "deepbind"], False, False),
    "with RTLD_DEEPBIND, compiled without a PLT": (["loads_plugin", "without_plt.so", "deepbind"], False, False),
    "dlsym on a handle": (["asks_handle", "dlsym"], False, True),
    "dlvsym on a handle": (["asks_handle", "dlvsym"], False, True),
}


def command(programs: Path, words: list[str]) -> list[str]:
    return [str(programs / word) if (programs / word).exists() else word for word in words]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("audit", [False, True], ids=["preload", "preload and audit"])
def test_ways_to_the_function(way: str, audit: bool, programs: Path, null_device: NullDevice) -> None:
    if audit and not launch.audits():
        pytest.skip(f"this libc's auditing is of no use: {launch.libc()}")
    words, is_reached_by_preload, is_reached_by_both = WAYS[way]
    seen = watch(command(programs, words), null_device.environment(), audit=audit)
    assert (seen.status, seen.out, seen.err) == (0, "", "")
    assert seen.paths == ([UP] if (is_reached_by_both if audit else is_reached_by_preload) else [])
    assert len(null_device.calls("ibv_modify_qp")) == 3  # each call once, whoever saw it


def test_another_preloaded_library_still_has_its_turn(programs: Path, null_device: NullDevice) -> None:
    for audit in {False, launch.audits()}:
        own = null_device.environment() | {"LD_PRELOAD": str(programs / "interposer.so")}
        seen = watch([programs / "linked"], own, audit=audit)
        assert (seen.status, seen.out, seen.err) == (0, "interposer saw 3\n", "")
        assert seen.paths == [UP]


@pytest.mark.parametrize("how", ["fork", "clone", "exec"])
def test_each_process_is_one_of_its_own(how: str, programs: Path, null_device: NullDevice) -> None:
    seen = watch([programs / "linked", how], null_device.environment())
    assert seen.status == 0
    assert seen.paths == [UP] * (2 if how == "exec" else 3)
    owners = [pair.process for pair in seen.judge.pairs]
    assert len(set(owners)) == 2
    assert len({process.pid for process in owners}) == (1 if how == "exec" else 2)


def test_sixty_four_threads_at_once(programs: Path, null_device: NullDevice) -> None:
    seen = watch([programs / "linked", "threads", "64"], null_device.environment())
    assert (seen.status, seen.err) == (0, "")
    assert seen.paths == [UP] * 64
    assert len({step.tid for pair in seen.judge.pairs for step in pair.steps}) == 64
    assert not seen.judge.findings


def test_a_program_that_closes_all_descriptors_and_opens_its_own_in_their_place(
    programs: Path, null_device: NullDevice
) -> None:
    seen = watch([programs / "linked", "closes"], null_device.environment())
    assert (seen.status, seen.out, seen.err) == (0, "", "")  # nothing of ours went where the socket had been
    assert seen.paths == [UP] * 2


def test_many_processes_of_one_launcher(programs: Path, null_device: NullDevice) -> None:
    line = f"for i in 1 2 3 4 5 6 7 8; do {programs / 'linked'} threads 2 & done; wait"
    seen = watch(["sh", "-c", line], null_device.environment())
    assert (seen.status, seen.out, seen.err) == (0, "", "")
    assert seen.paths == [UP] * 16
    assert len({pair.process for pair in seen.judge.pairs}) == 8


def test_processes_of_other_pid_namespaces_are_told_apart(programs: Path, null_device: NullDevice) -> None:
    """Each is process 1 there; what is said of it names it as it is numbered here."""
    unshare = ["unshare", "--pid", "--fork"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace may be made here")
    both = f"{' '.join(unshare)} {programs / 'linked'} & {' '.join(unshare)} {programs / 'linked'} threads 2; wait"
    seen = watch(["sh", "-c", both], null_device.environment())
    assert (seen.status, seen.err) == (0, "")
    assert seen.paths == [UP] * 3
    numbers = {pair.process.pid for pair in seen.judge.pairs}
    assert len(numbers) == 2
    assert 1 not in numbers
