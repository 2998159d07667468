"""A network namespace of one's own: real routes and real neighbours, and nothing of this machine touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

#: A veth pair whose other end has no address: nobody answers there. sysfs shows the namespace that mounted it.
SETUP = """
set -e
mount -t sysfs sysfs /sys
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 192.0.2.6/24 dev v0
ip -6 addr add 2001:db8::6/64 dev v0 nodad
ip link set v0 up
ip link set v1 up
"""
OWN = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net", "--mount"]


def missing() -> str:
    """Why there can be no namespace here; empty where there can."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    done = subprocess.run([*OWN, "sh", "-c", SETUP], capture_output=True, text=True, check=False)
    return f"no network namespace with a veth pair can be made: {done.stderr.strip()}" if done.returncode else ""


@pytest.fixture(scope="session")
def may_have_namespaces() -> None:
    why = missing()
    if why:
        pytest.skip(why)


@pytest.fixture
def namespace(may_have_namespaces: None) -> Callable[..., Any]:
    """Runs shell lines and then Python in a new namespace; gives what ``answer`` is in the end."""

    def run(python: str, shell: str = "") -> Any:
        code = f"import json\n{python}\nprint(json.dumps(answer))"
        done = subprocess.run(
            [*OWN, "sh", "-ec", f'{SETUP}\n{shell}\nexec "$0" -c "$1"', sys.executable, code],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
