"""The first host: talks to the second, makes faults on the wire, and says what came of them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import rdmaqp

HOST = "192.0.2.2"
LINK = "roce0"
PATIENCE = 90.0


def say(*words: object) -> None:
    print(*words, flush=True)


def shell(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def dropped() -> int:
    return int(re.findall(r"dropped (\d+)", shell("tc", "-s", "qdisc", "show", "dev", LINK))[0])


class Figures:
    """What the connection tells."""

    def __init__(self) -> None:
        self.stall, self.arrived, self.again, self.recoveries = 0.0, 0, 0, 0

    def __call__(self, happening: Any) -> None:
        if happening.kind in ("retrying", "lost"):
            say("note", str(happening).replace("\n", " | "))
        if happening.kind == "recovered":
            self.recoveries += 1
            self.arrived += happening.arrived
            self.again += happening.again
            self.stall = max(self.stall, happening.stalled)

    def __str__(self) -> str:
        return (f"{self.recoveries} recoveries, {self.arrived} had arrived, {self.again} sent again, "
                f"longest stall {self.stall:.1f} s")


def connect(figures: Figures) -> rdmaqp.Connection:
    """Until the other host is there."""
    end = time.monotonic() + 240
    while True:
        try:
            return rdmaqp.Connection.connect(
                HOST, 18600, timeout=60, patience=PATIENCE, on_event=figures, size=1024, depth=16, retry_cnt=3
            )
        except (rdmaqp.PeerError, rdmaqp.DeadlineError):
            if time.monotonic() > end:
                raise
            time.sleep(1)


def run(name: str, count: int, fault: Callable[[int], None]) -> None:
    """Send *count* numbered messages; *fault* is told of each number before it goes."""
    figures = Figures()
    began = time.monotonic()
    with connect(figures) as connection:
        for number in range(1, count + 1):
            fault(number)
            connection.send(number.to_bytes(8, "big") * 100, timeout=PATIENCE)
        connection.flush(PATIENCE)
    say(f"done {name}: {count} messages in {time.monotonic() - began:.1f} s, {figures}")


def lossy(percent: int) -> Callable[[int], None]:
    def fault(number: int) -> None:
        if number == 10:
            shell("tc", "qdisc", "replace", "dev", LINK, "root", "netem", "loss", f"{percent}%")

    return fault


def mend(name: str) -> None:
    lost = dropped()
    shell("tc", "qdisc", "del", "dev", LINK, "root")
    say(f"dropped {name}: {lost}")


def link_down(number: int) -> None:
    if number == 50:
        shell("ip", "link", "set", LINK, "down")
        threading.Timer(4, lambda: shell("ip", "link", "set", LINK, "up")).start()


def dead_wire() -> None:
    """100 % loss ends in RETRY_EXC, and the connection goes on when it is over."""
    figures = Figures()
    with connect(figures) as connection:
        connection.send(bytes(8))
        connection.flush(PATIENCE)
        shell("tc", "qdisc", "replace", "dev", LINK, "root", "netem", "loss", "100%")
        threading.Timer(5, lambda: mend("100")).start()
        for number in range(1, 9):
            connection.send(number.to_bytes(8, "big"), timeout=PATIENCE)
        connection.flush(PATIENCE)
    say(f"done 100: {figures}")


def killed() -> None:
    figures = Figures()
    connection = connect(figures)
    number = 0
    say("kill it")
    try:
        while True:
            number += 1
            connection.send(number.to_bytes(8, "big") * 100, timeout=PATIENCE)
            time.sleep(0.05)
    except rdmaqp.ConnectionLostError as error:
        unknown = error.unknown
    connection.close()
    say(f"lost: {connection.account.acknowledged} acknowledged, {len(unknown)} unknown, {number} given")
    with connect(Figures()) as again:
        for _, message in unknown:
            again.send(message)
        again.send((number + 1).to_bytes(8, "big"))
        again.flush(PATIENCE)
    say(f"done killed: {len(unknown)} sent again to its successor")


def pingpong() -> None:
    """The command; once more where a guest stood still for half a second, which is when the other gives up."""
    words = [sys.executable, "-m", "rdmaqp", "pingpong", HOST, "-n", "20", "--timeout", "60", "--json"]
    for left in (2, 1, 0):
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            say("done pingpong")
            return
        said = done.stdout + done.stderr
        assert left, said
        assert "RETRY_EXC_ERR" in said or '"PeerError"' in said, said
        say(f"ping-pong once more: {said[:200]}")


def main() -> None:
    shell("modprobe", "sch_netem")
    with connect(Figures()):
        pass
    say("there")
    pingpong()
    run("plain", 100, lambda _: None)
    run("5", 200, lossy(5))
    mend("5")
    run("30", 60, lossy(30))
    mend("30")
    run("down", 100, link_down)
    dead_wire()
    killed()


if __name__ == "__main__":
    main()
