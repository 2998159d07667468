"""Fixtures: a conftest imports them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from .build import build, missing
from .null_device import NullDevice


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the null device's libibverbs.so.1, compiled once a session."""
    lacking = missing()
    if lacking:
        pytest.skip(f"the null device has to be compiled, and this machine has no {lacking}")
    return build(tmp_path_factory.getbasetemp() / "null-device")


@pytest.fixture
def null_device(stub_library: Path, tmp_path: Path) -> NullDevice:
    """A null device with a log of its own."""
    return NullDevice(library=stub_library, log=tmp_path / "null-device.jsonl")
