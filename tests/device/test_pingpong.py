"""The ping-pong: in one process, in two, and with a stock ibv_rc_pingpong at the other end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rdmaqp
from device.conftest import finish, pingpong, result, until
from rdmaqp.connection.pingpong import Options, run_loopback

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1023, 1024, 1025, 4096, 65536])
@pytest.mark.parametrize("validate", [False, True])
def test_loopback_sizes(device_name: str, size: int, validate: bool) -> None:
    done = run_loopback(Options(device=device_name, size=size, iterations=60, validate=validate))
    assert done.verified == 60
    assert len(done.latencies_us) == 60
    assert 0 < done.latency_us["min"] <= done.latency_us["p50"] <= done.latency_us["p99"] <= done.latency_us["max"]


@pytest.mark.parametrize("rx_depth", [1, 2, 3, 500])
def test_loopback_depths(device_name: str, rx_depth: int) -> None:
    assert run_loopback(Options(device=device_name, iterations=50, rx_depth=rx_depth)).verified == 50


def test_loopback_with_events(device_name: str) -> None:
    assert run_loopback(Options(device=device_name, iterations=50, events=True)).verified == 50


def test_command_says_what_it_picked_and_what_it_did(device_name: str) -> None:
    out, err = finish(pingpong("--loopback", "-d", device_name, "-n", 200))
    assert "200 of 200 round trips verified" in out
    assert "p50" in out
    assert "█" in out
    assert f"device  {device_name}" in err
    assert "source  GID" in err
    for arrow in ("RESET → INIT", "INIT → RTR", "RTR → RTS"):
        assert err.count(arrow) == 2


def test_json(device_name: str) -> None:
    said = result(pingpong("--loopback", "-d", device_name, "-n", 100, "-s", 64, "-c", "--json"))
    assert said["device"] == device_name
    assert said["qp_type"] == "RC"
    assert (said["bytes"], said["iterations"], said["verified"]) == (64, 100, 100)
    assert set(said["latency_us"]) == {"p50", "p99", "min", "max"}
    moves = [(move["from"], move["to"]) for move in said["transitions"]]
    assert moves.count(("RTR", "RTS")) == 2
    assert len(moves) == 6


@pytest.mark.parametrize("events", [False, True])
def test_two_processes(device_name: str, free_port: int, events: bool) -> None:
    options = ["-d", device_name, "-p", free_port, "-n", 300, "--json", *(["-e"] if events else [])]
    server = pingpong(*options)
    client = pingpong("127.0.0.1", *options)
    ours, theirs = result(client), result(server)
    assert ours["verified"] == theirs["verified"] == 300
    assert ours["local"]["qp_num"] == theirs["remote"]["qp_num"]
    assert theirs["local"]["qp_num"] == ours["remote"]["qp_num"]


def stock(device_name: str, gid_index: int, port: int, *more: str) -> subprocess.Popen[str]:
    command = ["ibv_rc_pingpong", "-d", device_name, "-g", str(gid_index), "-p", str(port), "-n", "200", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def gid_index(context: rdmaqp.Context) -> int:
    choice = context.port(1).pick_gid()
    assert choice is not None
    return choice.entry.index


@pytest.mark.parametrize("check", [(), ("-c",)])
def test_server_of_a_stock_client(device_name: str, gid_index: int, free_port: int, check: tuple[str, ...]) -> None:
    server = pingpong("--wire", "ibv", "-d", device_name, "-p", free_port, "-n", 200)
    until(server, "waiting for a client")
    client = stock(device_name, gid_index, free_port, *check, "127.0.0.1")
    said, _ = client.communicate(timeout=60)
    assert client.returncode == 0, said
    assert "200 of 200 round trips verified" in finish(server)[0]


@pytest.mark.parametrize("check", [(), ("-c",)])
def test_client_of_a_stock_server(device_name: str, gid_index: int, free_port: int, check: tuple[str, ...]) -> None:
    server = stock(device_name, gid_index, free_port, *check)
    said = result(pingpong("127.0.0.1", "--wire", "ibv", "-d", device_name, "-p", free_port, "-n", 200, "--json"))
    assert said["verified"] == 200
    printed, _ = server.communicate(timeout=60)
    assert server.returncode == 0, printed
    assert "invalid data" not in printed


def test_example_by_the_api(device_name: str) -> None:
    command = [sys.executable, EXAMPLES / "pingpong.py", device_name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "100 messages bounced and verified" in run.stdout
    assert run.stdout.count("RESET → INIT → RTR → RTS") == 2
