"""``rdmaqp doctor`` where there is nothing: it says so, and what there is instead. (With a device: tests/device.)"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from rdmaqp.host import sysfs

Rdmaqp = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.skipif(bool(sysfs.names()), reason="this machine has RDMA devices")


def test_a_machine_without_rdma_is_told_of_the_lab(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("doctor", COLUMNS="200")
    assert done.returncode == 1
    assert "ERROR   devices      this machine has no RDMA device" in done.stdout
    assert "rdmaqp lab run -- rdmaqp doctor" in done.stdout
    assert " error" in done.stdout


def test_for_programs(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("doctor", "--json", "--peer", "192.0.2.7")
    lines = json.loads(done.stdout)["lines"]
    assert {line["check"] for line in lines} >= {"system", "modules", "memlock", "libraries", "devices", "peer"}
    assert all(line["level"] in ("ok", "warning", "error", "unknown") for line in lines)
    assert all(line["mend"] for line in lines if line["level"] == "error")
    assert next(line for line in lines if line["check"] == "devices")["level"] == "error"


def test_a_device_that_is_not_there(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("doctor", "mlx5_7")
    assert done.returncode == 1
    assert "the kernel has no RDMA device 'mlx5_7' here; it has: none at all" in done.stderr


def test_lines_fit(rdmaqp: Rdmaqp) -> None:
    lines = rdmaqp("doctor", COLUMNS="70").stdout.splitlines()
    assert max(len(line) for line in lines if "rdmaqp lab run" not in line) <= 80
