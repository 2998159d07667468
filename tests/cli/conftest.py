"""The command as a user starts it: a process, its two streams, its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Rdmaqp = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def rdmaqp() -> Rdmaqp:
    """``rdmaqp(*arguments, text="for its standard input")``."""

    def start(*arguments: object, text: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
        given = text.encode() if isinstance(text, str) else text
        done = subprocess.run(
            [sys.executable, "-m", "rdmaqp", *map(str, arguments)], input=given, capture_output=True, timeout=120,
            check=False, env=os.environ | environment,
        )  # fmt: skip
        output, errors = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in errors, errors
        return subprocess.CompletedProcess(done.args, done.returncode, output, errors)

    return start
