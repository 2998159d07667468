"""How long a guest is waited for: while it boots, as long as it shows signs of life."""

from __future__ import annotations

import os
import selectors
import threading
import time
from pathlib import Path

import pytest

from rdmaqp.lab import guest
from rdmaqp.lab.command import Guest
from rdmaqp.lab.errors import LabError
from rdmaqp.lab.guest import _Session
from rdmaqp.lab.kernel import Kernel
from rdmaqp.lab.streams import Console, Status


def booting() -> tuple[_Session, int]:
    """A session of a guest that is a pipe to its console."""
    session = _Session.__new__(_Session)
    kernel = Kernel("6.1", Path("vmlinuz"), Path("modules"), "given", has_9p=True)
    session._guest = Guest(["true"], kernel, kvm=False)
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
