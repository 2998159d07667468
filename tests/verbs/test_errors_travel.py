"""Errors go from a process to another, and can be copied: with their type, their text and their data."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import rdmaqp
from rdmaqp.connection.sockets import AddressError
from rdmaqp.errors import RdmaqpError, RequestError


def refused() -> rdmaqp.GuardError:
    facts = rdmaqp.QPFacts(type=rdmaqp.QPType.RC, state=rdmaqp.QPState.INIT)
    return rdmaqp.GuardError(rdmaqp.check(rdmaqp.Request(qp=facts, attr=rdmaqp.QPAttr(qp_state="RTS"))))


def explained() -> rdmaqp.VerbsError:
    error = rdmaqp.VerbsError("ibv_modify_qp", 22, "RC queue pair 0x11", ("a note",))
    error.given = {"set": "port_num 1"}
    error.causes = (rdmaqp.Cause("sgid-empty", "proved", "slot 9 is empty"),)
    return error


ERRORS = [
    refused(), explained(), rdmaqp.PeerError("gone", "192.0.2.1:1"), AddressError("taken", 98),
    rdmaqp.CompletionError(12, "RETRY_EXC_ERR", wr_id=1, vendor_err=2, qp_num=3, peer="0x12", notes=["a note"]),
    rdmaqp.ConnectionLostError("lost", "192.0.2.1:1", [(1, b"x")], 3), rdmaqp.SecretError("192.0.2.1:1"),
    rdmaqp.RefusedError("192.0.2.1:1", {"client": "no"}), rdmaqp.NotUpError("192.0.2.1:1", "why"),
    rdmaqp.SettingsError("192.0.2.1:1", {"mtu": (1, 2)}), rdmaqp.DeviceError("none", ["a note"]),
    rdmaqp.DeadlineError("late"), rdmaqp.ClosedError("closed"), RequestError("unknown", "attr"),
    rdmaqp.BusyError("busy"),
]  # fmt: skip


@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_same_error(error: RdmaqpError, again: Callable[[Any], Any]) -> None:
    there = again(error)
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert there.args == error.args or isinstance(error, rdmaqp.GuardError)  # a report is another one
    assert vars(there).keys() == vars(error).keys()
    if isinstance(error, OSError):
        assert there.errno == error.errno
    if not isinstance(error, rdmaqp.GuardError):
        assert vars(there) == vars(error)


def test_what_belongs_to_a_device_stays_there() -> None:
    nobody_else_s: Any = memoryview(b"a device's")
    there = pickle.loads(pickle.dumps(rdmaqp.UnaccountedError("short", nobody_else_s, ())))
    assert (str(there), there.reaped, there.unaccounted) == ("short", None, ())
