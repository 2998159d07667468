"""The command line itself: what is wrong with it is said in its own words, to whoever reads, and the status tells."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from stub.null_device import NullDevice

from .conftest import Rdmaqp

#: What the null device has, and its net device is this machine's loopback.
ROCE = {"LINK": "ethernet", "GIDS": "3=::ffff:192.0.2.1/ROCE_V2@lo"}


def on_null(null_device: NullDevice, *arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    return null_device.run([sys.executable, "-m", "rdmaqp", *arguments], **settings)


@pytest.mark.parametrize(("arguments", "text"), [
    (("pingpong", "--loopback", "host"), "leave the host out"),
    (("pingpong", "--loopback", "--wire", "ibv"), "leave --wire out"),
    (("pingpong", "-n", "0"), "argument -n/--iters: 0 is outside 1…"),
    (("pingpong", "-n", "9999999999999"), "argument -n/--iters: 9999999999999 is outside 1…"),
    (("pingpong", "-s", "0"), "argument -s/--size: 0 is outside 1…"),
    (("pingpong", "-p", "70000"), "argument -p/--port: 70000 is outside 1…65535"),
    (("pingpong", "--timeout", "0"), "argument --timeout: 0 is outside"),
    (("pingpong", "--timeout", "nan"), "argument --timeout: nan is outside"),
    (("pingpong", "-l", "99"), "argument -l/--sl: 99 is outside 0…15"),
    (("pingpong", "-m", "9999"), "argument -m/--mtu: 9999 is not one of 256, 512, 1024, 2048, 4096"),
    (("pingpong", "-r", "many"), "argument -r/--rx-depth: 'many' is not a number"),
    (("nonsense",), "invalid choice: 'nonsense'"),
])  # fmt: skip
def test_wrong_usage_is_status_2_and_says_why(rdmaqp: Rdmaqp, arguments: tuple[str, ...], text: str) -> None:
    done = rdmaqp(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr.partition("error: ")[2]
    asked = rdmaqp(*arguments, "--json")
    assert (asked.returncode, asked.stderr) == (2, "")
    told = json.loads(asked.stdout)
    assert told["kind"] == "UsageError"
    assert text in told["error"]


@pytest.mark.parametrize(("arguments", "usage"), [
    (("diagram", "UD", "x"), "rdmaqp diagram"), (("devices", "--jsn"), "rdmaqp devices"),
    (("lab", "status", "--frobnicate"), "rdmaqp lab status"), (("explain", "SQD", "--tpye", "UD"), "rdmaqp explain"),
    (("walk", "--decive=x"), "rdmaqp walk"),
])  # fmt: skip
def test_what_is_not_known_shows_the_usage_of_the_command_that_does_not_know_it(
    rdmaqp: Rdmaqp, arguments: tuple[str, ...], usage: str
) -> None:
    done = rdmaqp(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {usage} [")
    assert f"{usage}: error: unrecognized arguments: " in done.stderr
    assert ("did you mean" in done.stderr) == ("UD" not in arguments[1:2] and "lab" not in arguments)


def test_without_a_command_it_says_what_there_is_and_that_is_wrong_usage(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == rdmaqp("--help").stdout


def test_help_lists_every_command(rdmaqp: Rdmaqp) -> None:
    from rdmaqp.cli import COMMANDS

    done = rdmaqp("--help")
    assert done.returncode == 0
    assert all(f"\n    {name} " in done.stdout for name in COMMANDS)
    for name in COMMANDS:
        assert rdmaqp(name, "--help").returncode == 0


# ---------------------------------------------------------------------- failures for a program


@pytest.mark.parametrize(("arguments", "kind", "status"), [
    (("devices", "x"), "DeviceError", 1), (("gids", "x"), "DeviceError", 1),
    (("pingpong", "-d", "x"), "DeviceError", 1),
    (("pingpong", "--loopback", "-i", "7"), "DeviceError", 1), (("explain", "nonsense"), "UnknownWordError", 2),
])  # fmt: skip
def test_a_program_that_asked_for_json_reads_failures_as_json(
    null_device: NullDevice, arguments: tuple[str, ...], kind: str, status: int
) -> None:
    done = on_null(null_device, *arguments, "--json")
    assert (done.returncode, done.stderr) == (status, "")
    told = json.loads(done.stdout)
    assert (told["kind"], "findings" in told) == (kind, False)
    words = on_null(null_device, *arguments)
    assert (words.returncode, words.stdout) == (status, "")
    assert told["error"].splitlines()[0] in words.stderr


def test_a_refusal_in_json_has_its_findings_and_a_failure_its_causes(null_device: NullDevice) -> None:
    done = on_null(null_device, "pingpong", "--loopback", "-m", "4096", "--json", **ROCE)
    told = json.loads(done.stdout)
    assert (done.returncode, told["kind"]) == (1, "GuardError")
    assert ("mtu-over-active", "path_mtu") in {(found["rule"], found["field"]) for found in told["findings"]}
    failed = on_null(null_device, "pingpong", "--loopback", "--json", MODIFY_ERRNO=22)
    assert json.loads(failed.stdout)["kind"] == "VerbsError"
    assert json.loads(failed.stdout)["causes"]


def test_what_the_guard_says_of_an_option_is_said_of_the_option(null_device: NullDevice) -> None:
    done = on_null(null_device, "pingpong", "--loopback", "-m", "4096", **ROCE)
    assert done.returncode == 1
    assert "INIT → RTR: -m (path_mtu): 4096 is above the port's active MTU, 1024" in done.stderr
    assert "→ -m 1024, or less where" in done.stderr
    assert "path_mtu=" not in done.stderr


@pytest.mark.parametrize(("arguments", "closed", "status", "text"), [
    (("explain", "INIT"), ">&-", 1, "cannot write to standard output: Bad file descriptor"),
    (("check", "-"), "<&-", 2, "-: Bad file descriptor"),
    (("diagnose", "-"), ">&- </dev/null", 1, "cannot write to standard output: Bad file descriptor"),
    (("walk", "RC"), "<&-", 0, ""),
    (("nonsense",), "2>&-", 2, ""),
])  # fmt: skip
def test_a_stream_that_is_closed_from_the_start(
    arguments: tuple[str, ...], closed: str, status: int, text: str
) -> None:
    line = f'exec "$@" {closed}'
    words = ["sh", "-c", line, "sh", sys.executable, "-m", "rdmaqp", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "nonsense" not in done.stdout  # what was meant for standard error goes nowhere


@pytest.mark.parametrize("command", ["devices", "gids", "guard"])
def test_help_speaks_in_sentences(rdmaqp: Rdmaqp, command: str) -> None:
    done = rdmaqp(command, "--help")
    usage, _, rest = done.stdout.partition("\n\n")
    assert rest[0].isupper()
    assert "``" not in rest
    assert command != "guard" or usage.endswith("PROGRAM ARGUMENTS...")
