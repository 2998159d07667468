"""``rdmaqp watch`` on what an ``rdma`` tool prints that stands in for iproute2's; the real one is in tests/device."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rdmaqp import cli
from rdmaqp.cli import watch, watch_show
from rdmaqp.host.resources import QueuePairView

Rdmaqp = Callable[..., subprocess.CompletedProcess[str]]
Tool = Callable[..., dict[str, str]]


def pair(number: int, state: str, pid: int = 41, **more: Any) -> dict[str, Any]:
    return {"ifname": "rxe0", "port": 1, "lqpn": number, "rqpn": 7, "type": "RC", "state": state, "rq-psn": 1,
            "sq-psn": 2, "pid": pid, "comm": "python"} | more  # fmt: skip


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """An ``rdma`` that prints one look after the other, and then the last for ever; gives the environment for it."""

    def make(*looks: list[dict[str, Any]], status: int = 0, says: str = "") -> dict[str, str]:
        for number, look in enumerate(looks):
            (tmp_path / f"{number}.json").write_text(json.dumps(look))
        script = tmp_path / "rdma"
        script.write_text(f"""#!/bin/sh
cd {tmp_path}
n=$(cat count 2>/dev/null || echo 0)
[ -f $((n + 1)).json ] && echo $((n + 1)) > count
[ -n "{says}" ] && echo "{says}" >&2
[ {status} = 0 ] && cat $n.json
exit {status}
""")
        script.chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    return make


def test_once(rdmaqp: Rdmaqp, tool: Tool) -> None:
    own = {"ifname": "rxe0", "lqpn": 1, "type": "GSI", "state": "RTS", "comm": "ib_core"}
    looks = [pair(17, "RTS"), pair(18, "ERR", 42, comm="nccl"), own]
    done = rdmaqp("watch", "--once", **tool(looks))
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["device", "QP", "type", "state", "peer", "RQ", "PSN", "SQ", "PSN", "process"]
    assert ["rxe0/1", "0x11", "RC", "RTS", "0x7", "0x1", "0x2", "python", "(41)"] in rows
    assert ["rxe0", "0x1", "GSI", "RTS", "–", "–", "–", "ib_core"] in rows
    assert done.stdout.splitlines()[-1] == "3 queue pairs: 2 RTS, 1 ERR"


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ((), [17, 18, 19]), (("--pid", "42"), [18]), (("--process", "nc"), [18]), (("--state", "rts"), [17, 19]),
        (("--state", "ERR", "--state", "RTS"), [17, 18, 19]), (("--type", "UD"), [19]), (("--type", "UC"), []),
        (("--pid", "41", "--type", "RC"), [17]),
    ],
)  # fmt: skip
def test_filters(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...],
    numbers: list[int],
) -> None:  # fmt: skip
    looks = [pair(17, "RTS"), pair(18, "ERR", 42, comm="nccl"), pair(19, "RTS", type="UD")]
    for name, value in tool(looks).items():
        monkeypatch.setenv(name, value)
    assert cli.run(["watch", "--once", "--json", *arguments]) == 0
    assert [each["number"] for each in json.loads(capsys.readouterr().out)] == numbers


@pytest.fixture
def lines(tool: Tool) -> Iterator[Callable[..., list[str]]]:
    started = []

    def start(count: int, *arguments: str, looks: list[list[dict[str, Any]]]) -> list[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "rdmaqp", "watch", "--interval", "0.1", *arguments], stdout=subprocess.PIPE,
            env=os.environ | tool(*looks), text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        found = [process.stdout.readline() for _ in range(count)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        return found

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


LOOKS = [
    [pair(17, "INIT")], [pair(17, "RTR"), pair(18, "RESET")], [pair(17, "RTS"), pair(18, "RESET")], [pair(17, "ERR")],
]  # fmt: skip


def test_each_change_is_a_line(lines: Callable[..., list[str]]) -> None:
    found = [json.loads(line) for line in lines(6, "--json", looks=LOOKS)]
    assert [(each["what"], each["number"], each.get("was"), each["state"]) for each in found] == [
        ("there", 17, None, "INIT"), ("moved", 17, "INIT", "RTR"), ("new", 18, None, "RESET"),
        ("moved", 17, "RTR", "RTS"), ("moved", 17, "RTS", "ERR"), ("gone", 18, "RESET", "RESET"),
    ]  # fmt: skip


def test_only_what_enters_or_leaves_a_state(lines: Callable[..., list[str]]) -> None:
    found = lines(2, "--state", "RTS", looks=LOOKS)
    assert "rxe0 QP 0x11 RC RTR → RTS  python (41)" in found[0]
    assert "rxe0 QP 0x11 RC RTS → ERR  python (41)" in found[1]


def test_the_screen_marks_what_has_changed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    asked = argparse.Namespace(device=[], pid=[], process=[], state=[], type=[])
    screen = watch.Screen(watch.Chosen(asked), watch.DeviceEvents())
    before = [QueuePairView("rxe0", 1, 17, "RC", "INIT", pid=41, process="python")]
    after = [QueuePairView("rxe0", 1, 17, "RC", "RTR", pid=41, process="python"),
             QueuePairView("rxe0", 1, 18, "RC", "RESET", pid=41, process="python")]  # fmt: skip
    screen.note(before, after)
    Console(width=120, force_terminal=False).print(screen._picture(after))
    shown = capsys.readouterr().out
    assert "INIT → RTR" in shown.splitlines()[1]
    assert "+ RESET" in shown.splitlines()[2]
    assert "rxe0 QP 0x12 RC new, RESET  python (41)" in shown
    monkeypatch.setattr(watch, "_FRESH", -1.0)
    screen.note(after, after)
    Console(width=120, force_terminal=False).print(screen._picture(after))
    assert "INIT → RTR" not in capsys.readouterr().out.splitlines()[1]


def test_what_does_not_fit_on_the_screen_is_what_matters_least() -> None:
    pairs = [QueuePairView("rxe0", 1, number, "RC", "ERR" if number == 70 else "RTS") for number in range(100)]
    assert watch_show.fitting(pairs, set(), 100) == pairs
    fit = watch_show.fitting(pairs, {pairs[90].key}, 4)
    assert [each.number for each in fit] == [0, 1, 70, 90]
    assert [each.number for each in watch_show.fitting(pairs, {pairs[90].key}, -5)] == [90]


@pytest.mark.parametrize(("how", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_a_terminal_is_left_as_it_was_found(tool: Tool, how: int, status: int) -> None:
    """With its cursor, and with the sum of all in sight: 200 queue pairs are more than it has lines."""
    environment = os.environ | tool([pair(number, "RTS") for number in range(200)]) | {"TERM": "xterm", "COLUMNS": "80"}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = [sys.executable, "-m", "rdmaqp", "watch", "--interval", "0.1"]
    process = subprocess.Popen(words, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    seen, is_told = b"", False
    with suppress(OSError):  # EIO: nobody has it open any more
        while data := os.read(ours, 65536):
            seen += data
            if not is_told and seen.count(b"200 queue pairs: 200 RTS; ") >= 2:  # drawn anew
                process.send_signal(how)
                is_told = True
    os.close(ours)
    assert process.wait(60) == status
    assert seen.count(b"\x1b[?25l") == seen.count(b"\x1b[?25h") == 1


def test_ports_that_change() -> None:
    before, now = {"a/1": "ACTIVE", "b/1": "ACTIVE", "c/1": "DOWN"}, {"a/1": "DOWN", "c/1": "DOWN", "d/1": "INIT"}
    assert watch.moved_ports(before, now) == [
        ("a/1", "ACTIVE", "DOWN"), ("b/1", "ACTIVE", "gone"), ("d/1", "absent", "INIT"),
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "says"), [(1, "Failed to open NETLINK_RDMA socket"), (0, "")])
def test_no_devices(rdmaqp: Rdmaqp, tool: Tool, status: int, says: str) -> None:
    if Path("/sys/class/infiniband").is_dir() and list(Path("/sys/class/infiniband").iterdir()):
        pytest.skip("this machine has RDMA devices")
    done = rdmaqp("watch", "--once", **tool([], status=status, says=says))
    assert done.returncode == 1
    assert "this machine has no RDMA device: `rdmaqp doctor`" in done.stderr


WRONG = [("--state", "UP"), ("--type", "RCC"), ("--interval", "0"), ("--pid", "x"), ("more",)]


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.run(["watch", *arguments])
