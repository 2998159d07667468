"""``rdmaqp bench`` on the null device, both ends in one process and as two: what it tries, what it says, its forms."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stub.null_device import NullDevice

BENCH = [sys.executable, "-m", "rdmaqp", "bench"]


def bench(null_device: NullDevice, *arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    done = null_device.run([*BENCH, *map(str, arguments)], **settings)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def rows(null_device: NullDevice, *arguments: object, **settings: Any) -> dict[str, Any]:
    done = bench(null_device, *arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return dict(json.loads(done.stdout))


def test_both_ends_here_every_operation_and_size(null_device: NullDevice) -> None:
    said = rows(null_device, "--loopback", "-n", 200, "--op", "send,read,atomic", "-s", "2,1K")
    assert (said["device"], said["mode"], said["path_mtu"], said["skipped"]) == ("null0", "loopback", 4096, [])
    found = [(row["operation"], row["kind"], row["bytes"]) for row in said["rows"]]
    assert found == [
        (op, kind, size)
        for op, sizes in (("send", (2, 1024)), ("read", (2, 1024)), ("atomic", (8,)))
        for size in sizes
        for kind in ("latency", "bandwidth")
    ]
    for row in said["rows"]:
        assert (row["messages"], row["lost"], row["qp_type"]) == (200, 0, "RC")
        if row["kind"] == "latency":
            latency = row["latency_us"]
            assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
            assert row["mb_per_s"] is None
        else:
            assert row["latency_us"] is None
            assert row["mb_per_s"] == pytest.approx(row["messages_per_s"] * row["bytes"] / 1e6, rel=0.01)


@pytest.mark.parametrize(("kind", "op"), [("UC", "send,write"), ("UD", "send")])
def test_the_types_that_may_lose_messages(null_device: NullDevice, kind: str, op: str) -> None:
    said = rows(null_device, "bandwidth", "--loopback", "-n", 700, "-c", kind, "--op", op, "-s", "64,4096")
    assert [row["messages"] for row in said["rows"]] == [700] * 2 * (op.count(",") + 1)
    assert not said["skipped"]


def test_lost_messages_are_counted_not_waited_for(null_device: NullDevice) -> None:
    said = rows(null_device, "bandwidth", "--loopback", "-n", 60, "-c", "UD", "--op", "send", "-s", 64, DROP=1)
    (row,) = said["rows"]
    assert (row["messages"], row["lost"]) == (0, 60)


def test_what_cannot_be_is_said_before_by_the_guard_s_words(null_device: NullDevice) -> None:
    said = rows(null_device, "--loopback", "-n", 9, "-c", "ud", "-s", "64,8K")
    why = {(one["operation"], one["bytes"]): one["why"] for one in said["skipped"]}
    assert set(why) == {("send", 8192), ("write", None), ("read", None), ("atomic", None)}
    assert why["send", 8192] == "a datagram has at most 4,096 bytes, the path MTU"
    assert why["read", None] == "UD queue pairs do not send RDMA_READ"
    assert {row["bytes"] for row in said["rows"]} == {64}


@pytest.mark.parametrize(
    ("arguments", "settings", "why"),
    [
        (("--op", "atomic"), {"ATOMIC_CAP": 0}, "null0 has no atomics (atomic_cap NONE)"),
        (("--op", "read", "-c", "UC"), {}, "UC queue pairs do not send RDMA_READ"),
        (("--op", "send", "-s", "64K"), {"MAX_MSG_SZ": 1024}, "at most 1,024 bytes here (max_msg_sz)"),
        (("--op", "send", "-t", "99999"), {}, "99999 is above the device's max_qp_wr"),
    ],
)
def test_where_nothing_is_left_to_try_it_fails_and_says_why(
    null_device: NullDevice, arguments: tuple[str, ...], settings: dict[str, Any], why: str
) -> None:
    done = bench(null_device, "--loopback", *arguments, **settings)
    assert done.returncode == 1
    assert "nothing of what is asked for can be measured" in done.stderr
    assert why in done.stderr


def test_a_failed_request_ends_it_with_its_number_and_cause(null_device: NullDevice) -> None:
    done = bench(null_device, "--loopback", "--op", "read", WC_STATUS="REM_ACCESS_ERR")
    assert done.returncode == 1
    assert "REM_ACCESS_ERR" in done.stderr
    assert "It was request 0" in done.stderr


def test_what_had_been_measured_is_shown_where_a_later_case_fails(null_device: NullDevice) -> None:
    """The null device moves no WRITE, so that its latency waits in vain."""
    done = bench(null_device, "--loopback", "-n", 9, "--op", "send,write", "-s", 64, "--timeout", 0.5)
    assert done.returncode == 1
    assert "nothing has moved" in done.stderr
    assert re.search(r"^SEND +64 ", done.stdout, re.MULTILINE)
    assert "WRITE" not in done.stdout


def test_a_program_is_told_of_them_too(null_device: NullDevice) -> None:
    arguments = ("--loopback", "-n", 9, "--op", "send,write", "-s", 64, "--timeout", 0.5, "--json")
    done = bench(null_device, *arguments)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert "nothing has moved" in told["error"]
    assert {row["operation"] for row in told["rows"]} == {"send"}


def test_a_picture_that_cannot_be_written_takes_no_figures_along(null_device: NullDevice, tmp_path: Path) -> None:
    arguments = ("--loopback", "-n", 9, "--op", "send", "-s", 64, "--svg", tmp_path / "nowhere" / "bench.svg")
    done = bench(null_device, *arguments)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert re.search(r"^SEND +64 ", done.stdout, re.MULTILINE)


def test_the_table_and_the_plots(null_device: NullDevice, tmp_path: Path) -> None:
    file = tmp_path / "bench.svg"
    done = bench(null_device, "--loopback", "-n", 50, "--op", "send,read", "-s", "64,4K", "--svg", file)
    assert done.returncode == 0, done.stderr
    assert "RC on null0, MTU 4096; latency of SEND is half a round trip" in done.stdout
    for op in ("SEND", "READ"):
        assert re.search(rf"^{op} +64 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d,.]+ +[\d,]+$", done.stdout, re.MULTILINE)
    assert done.stdout.count("└") == 2
    assert "latency, µs (p50)   S SEND   R READ" in done.stdout
    text = file.read_text()
    assert text.startswith("<svg")
    assert text.endswith("</svg>\n")
    assert text.count("<circle") == 8


def test_a_rate_has_its_own_plot(null_device: NullDevice) -> None:
    done = bench(null_device, "rate", "--loopback", "-n", 50, "--op", "write", "-s", "64,4K", "-l", 8, "-I", 64)
    assert "messages a second   W WRITE" in done.stdout
    assert "latency" not in done.stdout


def test_a_duration_instead_of_a_count(null_device: NullDevice) -> None:
    said = rows(null_device, "bandwidth", "--loopback", "-D", 0.1, "--op", "send,write", "-s", 64)
    for row in said["rows"]:
        assert row["messages"] > 0
        assert row["lost"] == 0
        assert 0.1 <= row["seconds"] < 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--loopback", "host"), "leave the host out"),
        (("rate", "latency"), "one of latency, bandwidth, rate, all"),
        (("-s", "0"), "'0' is no size"),
        (("-s", "4X"), "'4X' is no size"),
        (("--op", "sned"), "'sned' is none of send, write, read, atomic"),
        (("-n", "0"), "--iters: 0 is below 1"),
        (("-D", "0"), "--duration: 0.0 is not above 0"),
        (("-a", "-s", "4"), "exclude each other"),
        (("-c", "XRC"), "invalid choice"),
    ],
)
def test_wrong_usage(null_device: NullDevice, arguments: tuple[str, ...], words: str) -> None:
    done = bench(null_device, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_server_needs_no_options_and_serves_what_the_client_asks(null_device: NullDevice) -> None:
    """Between processes the null device moves nothing: what only the client's side does, and messages that are lost."""
    for arguments, count in (
        (("bandwidth", "--op", "write,read,atomic", "-s", "64,1K", "-n", 300), [300] * 5),
        (("bandwidth", "--op", "send", "-c", "UC", "-s", 64, "-n", 300), [0]),
        (("--op", "read", "-s", 64, "latency", "-n", 30), [30]),
    ):
        port = str(free_port())
        server = subprocess.Popen(
            [*BENCH, "-p", port], env=null_device.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        said = rows(null_device, "127.0.0.1", "-p", port, *arguments)
        assert said["mode"] == "client"
        assert [row["messages"] for row in said["rows"]] == count
        assert all(row["lost"] == 300 for row in said["rows"] if not row["messages"])
        out, err = server.communicate(timeout=60)
        assert server.returncode == 0, err
        assert f"served {len(count)} measurements" in out


def test_each_end_hears_why_the_other_gave_up(null_device: NullDevice) -> None:
    port = str(free_port())
    server = subprocess.Popen(
        [*BENCH, "-p", port], env=null_device.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    client = bench(null_device, "127.0.0.1", "-p", port, "--op", "read", "-s", 64, WC_STATUS="REM_ACCESS_ERR")
    assert client.returncode == 1
    _, err = server.communicate(timeout=60)
    assert server.returncode == 1
    assert "gave up" in err
    assert "REM_ACCESS_ERR" in err
