"""The shell code that sets a bare machine up: what it does when packages, root or the network are missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / ".ci/setup.sh"

# Stand-ins for what would change this machine; each says in ./calls that it was called.
PRETEND = """
as_root() {
    echo "$*" >>calls
    case "$*" in
        *"apt-get install"*) eval "$INSTALL" ;;
        *"apt-get update"*) eval "$UPDATE" ;;
    esac
}
can_be_root() { eval "$ROOT"; }
is_installed() { [[ $1 != "$LACKING" ]]; }
python_packages() { :; }
"""


def bash(script: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a script that has sourced the set-up, in an empty directory."""
    env = {**os.environ, "INSTALL": "true", "UPDATE": "true", "ROOT": "true", "LACKING": "", **settings}
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\nsource {SETUP}\n{PRETEND}\n{script}\necho went on"],
        cwd=cwd, env=env, capture_output=True, text=True, check=False,
    )


def calls(cwd: Path) -> list[str]:
    path = cwd / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_nothing_is_installed_where_nothing_is_missing(tmp_path: Path) -> None:
    done = bash("setup_packages", tmp_path)
    assert (done.stdout, done.stderr, calls(tmp_path)) == ("went on\n", "", [])


def test_only_what_is_missing_is_installed(tmp_path: Path) -> None:
    done = bash("setup_packages", tmp_path, LACKING="busybox-static")
    assert done.stdout == "went on\n"
    assert "installing by apt: busybox-static\n" in done.stderr
    assert len(calls(tmp_path)) == 1
    assert calls(tmp_path)[0].endswith("--no-install-recommends busybox-static")


def test_old_package_lists_are_fetched_anew(tmp_path: Path) -> None:
    done = bash("setup_packages", tmp_path, LACKING="kmod", INSTALL="[[ $(grep -c . calls) == 3 ]]")
    assert done.stdout == "went on\n"
    assert [call.split()[-1] for call in calls(tmp_path)] == ["kmod", "-q", "kmod"]


@pytest.mark.parametrize("settings", [{"INSTALL": "false"}, {"INSTALL": "false", "UPDATE": "false"}])
def test_without_a_network_the_package_is_named(tmp_path: Path, settings: dict[str, str]) -> None:
    done = bash("setup_packages", tmp_path, LACKING="libibverbs-dev", **settings)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "apt could not install: libibverbs-dev" in done.stderr
    assert "What to do" in done.stderr


def test_without_root_the_command_to_run_is_given(tmp_path: Path) -> None:
    done = bash("setup_packages", tmp_path, LACKING="kmod", ROOT="false")
    assert done.returncode == 1
    assert "apt-get install --no-install-recommends kmod" in done.stderr
    assert calls(tmp_path) == []


def test_a_machine_without_dpkg_is_told_the_other_names(tmp_path: Path) -> None:
    done = bash("command() { [[ $2 != dpkg-query ]]; }; setup_packages", tmp_path)
    assert done.stdout == "went on\n"
    assert "dnf install gcc python3-devel rdma-core-devel" in done.stderr


def test_no_python_that_is_new_enough(tmp_path: Path) -> None:
    done = bash("find_python() { return 1; }; setup_packages", tmp_path)
    assert done.returncode == 1
    assert "no Python 3.11 or later here" in done.stderr


ENVIRONMENT = r"""
find_python() { echo "$PWD/python"; }
mkdir -p rdmaqp/verbs/_c
touch pyproject.toml setup.py build_ffi.py rdmaqp/verbs/_c/cdef.h
# Makes an environment whose pip succeeds or fails, and leaves an extension behind.
cat >python <<'EOF'
#!/bin/bash
[[ $1 == -VV ]] && { echo Python 3; exit; }
echo "$*" >>calls
[[ $2 == pip ]] && { eval "$PIP" && touch rdmaqp/_verbs.abi3.so; exit; }
mkdir -p .venv/bin && cp "$0" .venv/bin/python
EOF
chmod +x python
"""


def test_the_environment_is_made_once_and_rebuilt_when_what_is_compiled_changes(tmp_path: Path) -> None:
    again = "setup_environment lab; setup_environment lab; setup_environment lab,test; setup_environment lab"
    change = "echo >>rdmaqp/verbs/_c/cdef.h; setup_environment lab"
    done = bash(f"{ENVIRONMENT}\n{again}\n{change}", tmp_path, PIP="true")
    assert done.stdout == "went on\n", done.stderr
    assert [call.split()[1] for call in calls(tmp_path)] == ["venv", "pip", "pip", "pip"]
    assert [call.split()[-1] for call in calls(tmp_path)[1:]] == [".[lab]", ".[lab,test]", ".[lab]"]


def test_a_pip_that_fails_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    done = bash(f"{ENVIRONMENT}\nsetup_environment lab", tmp_path, PIP="echo no route to index >&2; false")
    assert done.returncode == 1
    assert "no route to index" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert not (tmp_path / ".venv/built-from").exists()
