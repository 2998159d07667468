"""The native half on the null device, each test in a process of its own."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stub import NullDevice

CHILD = Path(__file__).with_name("null_side.py")


class Null:
    """Runs functions of the test module on the null device."""

    def __init__(self, device: NullDevice, server: subprocess.Popen[str]) -> None:
        self.device = device
        self.calls = device.calls
        self.fields = device.fields
        self._server = server

    def command(self, function: Callable[..., Any], *args: Any) -> list[str]:
        """The command line that runs *function* there, in a process that the test starts by itself."""
        return [sys.executable, str(CHILD), json.dumps(_call(function, args))]

    def run(self, function: Callable[..., Any], *args: Any, **settings: object) -> Any:
        """What *function* returns there; its traceback where it fails. *settings* are the null device's."""
        everything = self.device.environment(**settings)
        output = self.device.log.with_name("output")
        request = {
            "run": _call(function, args),
            "environment": {name: value for name, value in everything.items() if name.startswith("RDMAQP_STUB_")},
            "output": str(output),
        }
        assert self._server.stdin
        assert self._server.stdout
        print(json.dumps(request), file=self._server.stdin, flush=True)
        status = int(self._server.stdout.readline())
        said = output.read_text()
        if status:
            pytest.fail(f"{function.__name__} ended with {status}\n{said}", pytrace=False)
        return json.loads(said.splitlines()[-1])["returned"]


def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    return [inspect.getsourcefile(function), function.__name__, args]


@pytest.fixture(scope="session")
def null_server(stub_library: Path) -> Iterator[subprocess.Popen[str]]:
    environment = NullDevice(library=stub_library, log=Path("/dev/null")).environment()
    with subprocess.Popen(
        [sys.executable, str(CHILD)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield server


@pytest.fixture
def null(null_device: NullDevice, null_server: subprocess.Popen[str]) -> Null:
    return Null(null_device, null_server)


@pytest.fixture(scope="module")
def null_for_all(
    stub_library: Path, null_server: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory
) -> Null:
    """For one run whose answers all tests of a module look at."""
    log = tmp_path_factory.mktemp("null") / "null-device.jsonl"
    return Null(NullDevice(library=stub_library, log=log), null_server)
