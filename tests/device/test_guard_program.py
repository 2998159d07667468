"""Programs that nobody wrote for us, under the guard on a real kernel: the same results, and their mistakes named."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import rdmaqp
from device.conftest import PATIENCE, finish
from forked import Forked
from preload.conftest import compiled
from preload.mistakes import NAMED, results
from preload.watching import serving, watch
from rdmaqp.preload.ends import disagreements

PINGPONGS = {
    "ibv_rc_pingpong": (2, ["INIT", "RTR", "RTS"]), "ibv_uc_pingpong": (2, ["INIT", "RTR", "RTS"]),
    "ibv_ud_pingpong": (2, ["INIT", "RTR", "RTS"]), "ibv_srq_pingpong": (8, ["INIT", "RTR", "RTS"]),
}  # fmt: skip


@pytest.fixture(scope="session")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("mistakes", tmp_path_factory.mktemp("programs"), "-libverbs", "-pthread")


@pytest.fixture
def gid_index(context: rdmaqp.Context) -> int:
    choice = context.port(1).pick_gid()
    assert choice is not None
    return choice.entry.index


def listens(port: int) -> bool:
    tables = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return re.search(rf":{port:04X} [0-9A-F:]+ 0A ", tables) is not None


def both_ends(
    words: list[str], port: int, environment: Mapping[str, str], client: list[str] | None = None
) -> list[tuple[int, str, str]]:
    """Status and output of the server and of the client of a program of two ends; *client*'s words where others."""
    pipes = {"env": dict(environment), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ends = [subprocess.Popen([*words, "-p", str(port)], **pipes)]  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + PATIENCE
        while not listens(port) and ends[0].poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        ends.append(subprocess.Popen([*(client or words), "-p", str(port), "127.0.0.1"], **pipes))  # type: ignore[call-overload]
        said = [end.communicate(timeout=PATIENCE) for end in reversed(ends)]
    finally:
        for end in ends:
            end.kill()
    return [(end.returncode, *one) for end, one in zip(ends, reversed(said), strict=True)]


def shape(ends: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """The same without numbers: addresses and times differ from run to run."""
    return [(status, re.sub(r"[0-9a-fx.:]+", "#", out), err) for status, out, err in ends]


@pytest.mark.parametrize("program", PINGPONGS)
def test_stock_programs_run_as_without_us_and_are_not_blamed(
    program: str, device_name: str, gid_index: int, free_port: int
) -> None:
    words = [program, "-d", device_name, "-g", str(gid_index), "-n", "20", "-s", "512"]
    words += ["-q", "4"] if program == "ibv_srq_pingpong" else []
    pairs, path = PINGPONGS[program]
    bare = both_ends(words, free_port, os.environ)
    assert [status for status, _, _ in bare] == [0, 0], bare
    for enforce in (False, True):
        with serving(enforce=enforce) as (seen, led, _):
            ends = both_ends(words, free_port, led(os.environ))
        assert shape(ends) == shape(bare)
        assert seen.paths == [path] * pairs
        assert not seen.rules
        assert not seen.failures
        assert not seen.unwatched
        assert disagreements(seen.judge.pairs) == []
        assert all(pair.destroyed for pair in seen.judge.pairs)


def test_a_wrong_gid_index_is_explained_with_the_right_one(
    device_name: str, gid_index: int, free_port: int
) -> None:
    words = ["ibv_rc_pingpong", "-d", device_name, "-n", "5", "-g"]
    with serving() as (seen, led, _):
        ends = both_ends([*words, "99"], free_port, led(os.environ), client=[*words, str(gid_index)])
    assert "Failed to modify QP to RTR" in ends[0][2]  # which is all that it says by itself
    findings = [finding for judged in seen.found for finding in judged.report.errors]
    (empty,) = [finding for finding in findings if finding.rule == "sgid-empty"]
    assert empty.given == 99
    assert f"sgid_index={gid_index}" in str(empty.fix)
    (error,) = seen.failures
    assert "sgid-empty" in {cause.cause for cause in error.causes if cause.standing != "ruled-out"}


def test_every_mistake_is_named(mistakes: Path, gid_index: int) -> None:
    seen = watch([mistakes, str(gid_index)], enforce=True)
    assert (seen.status, seen.err) == (0, "")
    told = results(seen.out)
    errors = {
        judged.pair.number: {(finding.rule, finding.field) for finding in judged.report.errors} for judged in seen.found
    }
    for name, finding in NAMED.items():
        number, error = told[name]
        assert finding in errors[number], name
        assert error == errno.EINVAL, name
    assert told["none"][1] == told["peers"][1] == 0
    (one,) = disagreements(seen.judge.pairs)
    assert {finding.rule for finding in one.findings} == {"peer-psn", "peer-mtu"}


def test_what_the_kernel_refuses_is_explained_by_what_was_found(mistakes: Path, gid_index: int) -> None:
    names = ["no_min_rnr_timer", "no_grh", "empty_gid", "init_left_out", "other_port", "no_timeout"]
    bare = results(subprocess.run([mistakes, str(gid_index), *names], capture_output=True, text=True).stdout)
    seen = watch([mistakes, str(gid_index), *names])
    assert {name: error for name, (_, error) in results(seen.out).items()} == {
        name: error for name, (_, error) in bare.items()
    }
    assert all(error for _, error in bare.values())
    proved = {cause.cause for error in seen.failures for cause in error.causes if cause.standing == "proved"}
    assert proved >= {NAMED[name][0] for name in names} - {"sgid-empty"}  # its number differs from kernel to kernel


def test_sixty_four_threads_at_once(mistakes: Path, gid_index: int) -> None:
    seen = watch([mistakes, str(gid_index), "threads"], enforce=True)
    assert (seen.status, seen.out, seen.err) == (0, "threads 0 0\n", "")
    assert seen.paths == [["INIT", "RTR", "RTS"]] * 64
    assert not seen.rules
    assert not seen.unwatched


@pytest.mark.parametrize("how", ["crowded", "jailed"])
def test_who_can_open_nothing_any_more_is_judged_all_the_same(how: str, mistakes: Path, gid_index: int) -> None:
    """To ask for a net device's name takes a socket, and to reach the judge a path: neither can be had any more."""
    seen = watch([mistakes, str(gid_index), how, "none", "no_grh"], enforce=True)
    assert (seen.status, seen.err) == (0, "")
    assert results(seen.out)["none"][1] == 0
    assert seen.rules == {"grh-missing"}
    assert {entry.netdev for judged in seen.found for entry in judged.request.gids.values()} - {None, ""}


def test_the_judge_is_killed_in_the_middle(device_name: str, gid_index: int, free_port: int) -> None:
    words = ["ibv_rc_pingpong", "-d", device_name, "-g", str(gid_index), "-n", "20", "-p", str(free_port)]
    server = Forked(["guard", "--deadline", "60", "--", *words])
    while not listens(free_port):
        time.sleep(0.1)
    server.send_signal(signal.SIGKILL)  # it has gone to INIT, and is to go to RTR and RTS
    client = subprocess.run([*words, "127.0.0.1"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert client.returncode == 0, client.stderr
    finish(server, -signal.SIGKILL)


def test_the_command(device_name: str, gid_index: int, free_port: int) -> None:
    words = ["ibv_rc_pingpong", "-d", device_name, "-g", str(gid_index), "-n", "5", "-p", str(free_port)]
    server = Forked(["guard", "--deadline", "60", "--", *words])
    while not listens(free_port):
        time.sleep(0.1)
    finish(Forked(["guard", "--quiet", "--deadline", "60", "--", *words, "127.0.0.1"]))
    out, err = finish(server)
    assert "local address" in out
    assert "rdmaqp guard: 1 queue pair in 1 process, 3 modify calls: 0 failed, 0 refused" in err
    assert "local address" not in err
