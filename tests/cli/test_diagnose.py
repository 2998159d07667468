"""``rdmaqp diagnose``: a log in, why out; for the eye and for programs, whatever bytes are in it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rdmaqp = Callable[..., subprocess.CompletedProcess[str]]

NCCL = (
    "gpu1:57:58 [0] misc/ibvwrap.cc:376 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
    "mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.0.2.6, remote GID "
    "::ffff:192.0.2.7\n"
)
STRANGE = "foo.c:7: the RDMA thing failed somehow\n"


def objects(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_for_the_eye(rdmaqp: Rdmaqp, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("all well\n" + NCCL + STRANGE)
    done = rdmaqp("diagnose", log, COLUMNS="200")
    assert done.returncode == 0
    assert f"{log}:2  NCCL: ibv_modify_qp INIT → RTR failed: ETIMEDOUT (110)" in done.stdout
    assert "likely     neighbour-unresolved: nobody answered for ::ffff:192.0.2.7" in done.stdout
    assert "ask next   rdmaqp doctor --peer 192.0.2.7" in done.stdout
    assert "known by   nccl-modify: NVIDIA/nccl src/misc/ibvwrap.cc" in done.stdout
    assert f"{log}:3  not known here: foo.c:7" in done.stdout
    assert "1 failure recognised, 1 line that may tell of one is not known here" in done.stdout


def test_for_programs(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("diagnose", "--json", "-", text=NCCL + STRANGE + NCCL)
    failure, strange, summary = sorted(objects(done), key=lambda each: "lines" not in each and 1 + ("summary" in each))
    assert failure["lines"] == [1, 1]
    assert failure["told"]["errno"] == 110
    assert failure["told"]["goal"] == "RTR"
    assert {cause["cause"] for cause in failure["causes"] if cause["standing"] == "likely"} >= {"neighbour-unresolved"}
    assert strange == {"file": "stdin", "line": 2, "not_known": STRANGE.strip()}
    assert summary["summary"] == {"failures": 2, "kinds": 1, "not_known": 1, "repeated": {"stdin:1": 2}}
    assert rdmaqp("check", "-", text=json.dumps(failure["request"])).returncode in (0, 1)


def test_each_failure_where_all_are_asked_for(rdmaqp: Rdmaqp) -> None:
    assert len(objects(rdmaqp("diagnose", "--json", "--all", "-", text=NCCL * 3))) == 4


def test_nothing_that_is_known(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("diagnose", "-", text="all is well\n")
    assert done.returncode == 1
    assert "0 failures recognised" in done.stdout
    assert "NCCL_DEBUG=INFO" in done.stdout
    assert rdmaqp("diagnose", "-", text="").returncode == 1


def test_a_file_that_is_not_there(rdmaqp: Rdmaqp, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(NCCL)
    done = rdmaqp("diagnose", tmp_path / "none.log", log)
    assert done.returncode == 2
    assert "none.log: No such file or directory" in done.stderr
    assert "neighbour-unresolved" in done.stdout


def test_bad_bytes_and_a_line_without_end(rdmaqp: Rdmaqp) -> None:
    noise = bytes(range(256)) + b"\xff\xfe\n" + b"QP failed " + b"\xc3\x28\n"
    text = noise + NCCL.encode() + b"x" * (3 << 20) + b"\n" + NCCL.replace("mlx5_0", "mlx5_9").encode()
    told = objects(rdmaqp("diagnose", "--json", "-", text=text))
    assert [each["lines"][0] for each in told if "lines" in each] == [NCCL_LINE, NCCL_LINE + 2]
    assert any("not read: a line of 3,145,728 bytes" in each.get("not_known", "") for each in told)


NCCL_LINE = 4  # the noise has a newline of its own


def test_a_long_log_in_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    with log.open("w") as file:
        for number in range(24_000):
            file.write(f"12:00:00 host INFO step {number} loss 0.25 of a model that trains well and long enough\n" * 5)
        file.write(NCCL)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(
        [sys.executable, "-m", "rdmaqp", "diagnose", "--json", str(log)], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert log.stat().st_size > 8 << 20
    assert json.loads(done.stdout.splitlines()[0])["lines"] == [120_001, 120_001]
    assert after - before < 60 << 10  # KiB; the largest child before may have been larger


def test_a_writer_that_pauses_is_answered() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "rdmaqp", "diagnose", "--json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(NCCL.encode())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["told"]["errno"] == 110  # and the pipe is still open
        process.stdin.close()
        assert "summary" in json.loads(process.stdout.readline())


@pytest.mark.parametrize("arguments", [(), ("--jsonn", "-")])
def test_wrong_usage(rdmaqp: Rdmaqp, arguments: tuple[str, ...]) -> None:
    assert rdmaqp("diagnose", *arguments).returncode == 2
