"""How long a guest is waited for, and how often it is tried: while it boots, as long as it shows signs of life."""

from __future__ import annotations

import os
import selectors
import threading
import time
from pathlib import Path

import pytest

from rdmaqp import lab
from rdmaqp.lab import accel, guest
from rdmaqp.lab.command import Guest
from rdmaqp.lab.errors import EmulatorError, LabError
from rdmaqp.lab.guest import _Session
from rdmaqp.lab.kernel import Kernel
from rdmaqp.lab.streams import Console, Status

KERNEL = Kernel("6.1", Path("vmlinuz"), Path("modules"), "given", has_9p=True)


def booting() -> tuple[_Session, int]:
    """A session of a guest that is a pipe to its console."""
    session = _Session.__new__(_Session)
    session._guest = Guest(["true"], KERNEL, kvm=False)
    session._status, session._console, session._outputs = Status(), Console(), []
    session._selector = selectors.DefaultSelector()
    reader, writer = os.pipe()
    session._selector.register(reader, selectors.EVENT_READ, session._console.feed)
    return session, writer


def test_a_slow_boot_goes_on_while_it_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "_SILENCE", 2.0)
    session, console = booting()

    def speak() -> None:
        for number in range(12):
            os.write(console, b"[ %d] still here\n" % number)
            time.sleep(0.3)

    threading.Thread(target=speak).start()
    begun = time.monotonic()
    with pytest.raises(LabError, match="gave no sign of life for 2 s") as caught:
        session.follow(None)
    assert time.monotonic() - begun > 4
    assert "11] still here" in str(caught.value)


def test_it_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "_SLOWEST_BOOT", 1.0)
    with pytest.raises(LabError, match="did not start the command within 1 s"):
        booting()[0].follow(None)


def test_a_limit_that_is_given_is_one_of_all() -> None:
    with pytest.raises(LabError, match=r"did not start the command within 0\.5 s"):
        booting()[0].follow(0.5)


DEAD = b"[ 1.69] BAR 0qemu-system-x86_64: hw/pci/msix.c:228: msix_table_mmio_write: Assertion `a <= b' failed.\n"


@pytest.mark.parametrize(("said", "kind"), [(DEAD, EmulatorError), (b"Kernel panic - not syncing\n", LabError)])
def test_an_emulator_that_died_is_told_apart(said: bytes, kind: type[LabError]) -> None:
    session, console = booting()
    os.write(console, said)
    os.close(console)
    with pytest.raises(LabError) as caught:
        session.follow(None)
    assert type(caught.value) is kind


@pytest.mark.parametrize("deaths", [0, 2, 3])
def test_it_is_tried_twice_more(monkeypatch: pytest.MonkeyPatch, deaths: int) -> None:
    tries: list[str] = []

    def run(wanted: Guest, boot_timeout: float | None) -> int:
        tries.append(wanted.kernel.version)
        if len(tries) <= deaths:
            raise EmulatorError("lab: QEMU itself died")
        return 5

    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(lab, "_require_tools", lambda: None)
    monkeypatch.setattr(lab, "_kernel", lambda say: KERNEL)
    monkeypatch.setattr(accel, "decide", lambda kernel, say: accel.Acceleration(kvm=False, why=""))
    said: list[str] = []
    if deaths > 2:
        with pytest.raises(EmulatorError):
            lab.run(["true"], say=said.append)
    else:
        assert lab.run(["true"], say=said.append) == 5
    assert len(tries) == min(deaths + 1, 3)
    assert said.count("QEMU itself died; booting once more") == min(deaths, 2)
