"""Device tests: each runs on a real kernel's RDMA stack, one at a time. Times are generous: the lab may be emulated."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import rdmaqp
from device.rc_ends import End, connected_ends
from forked import Forked

RDMAQP = [sys.executable, "-m", "rdmaqp"]
PATIENCE = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/device/" in item.nodeid:
            item.add_marker(pytest.mark.device)


@pytest.fixture
def context(device_name: str) -> Iterator[rdmaqp.Context]:
    with rdmaqp.open(device_name) as context:
        yield context


@pytest.fixture
def pd(context: rdmaqp.Context) -> rdmaqp.ProtectionDomain:
    return context.alloc_pd()


@pytest.fixture
def cq(context: rdmaqp.Context) -> rdmaqp.CompletionQueue:
    return context.create_cq(16)


@pytest.fixture
def ends(pd: rdmaqp.ProtectionDomain) -> Iterator[tuple[End, End]]:
    yield from connected_ends(pd)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def pingpong(*arguments: object) -> Forked:
    """Start ``rdmaqp pingpong``; the caller waits for it."""
    return Forked(["pingpong", *map(str, arguments)])


def finish(process: Forked, status: int = 0) -> tuple[str, str]:
    """What *process* printed; it must end with *status*."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, f"status {process.returncode}\n{out}\n{err}"
    return out, err


def result(process: Forked) -> dict[str, Any]:
    """The JSON that a successful *process* printed."""
    return dict(json.loads(finish(process)[0]))


def until(process: Forked, text: str) -> str:
    """Read *process*' standard error until a line holds *text*; returns what was read."""
    read = ""
    while text not in read:
        line = process.stderr.readline()
        assert line, f"it ended before it said {text!r}:\n{read}"
        read += line
    return read
