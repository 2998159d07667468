"""What goes wrong in practice: a clear error, nothing lost, no hang."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import rdmaqp
from device.conftest import RDMAQP, finish, pingpong, until
from forked import Forked
from rdmaqp.connection.pingpong import Options, run_loopback


def test_unknown_device(device_name: str) -> None:
    _, err = finish(pingpong("--loopback", "-d", "mlx9_9"), 1)
    assert f"no device 'mlx9_9'; there are: {device_name}" in err


@pytest.mark.parametrize("port", [0, 2, 300])
def test_port_that_is_not_there(device_name: str, port: int) -> None:
    with pytest.raises(rdmaqp.DeviceError, match=f"no port {port}"):
        run_loopback(Options(device=device_name, port_num=port))


def test_gid_index_that_is_empty_or_past_the_end(device_name: str) -> None:
    for index in (200, 100_000, -1):
        with pytest.raises(rdmaqp.DeviceError, match=f"GID index {index} .* in use: 0"):
            run_loopback(Options(device=device_name, gid_index=index))


def test_sgid_index_of_an_empty_slot_is_refused_with_the_right_one(
    pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue
) -> None:
    qp = pd.create_qp(cq)
    here = qp.endpoint(psn=0)
    qp.to_init()
    route = rdmaqp.GlobalRoute(dgid=here.gid, sgid_index=77)
    with pytest.raises(rdmaqp.GuardError, match=rf"slot 77 .* is empty(.|\n)*sgid_index={here.gid_index}"):
        qp.to_rtr(dest_qp_num=5, rq_psn=0, path_mtu=256, ah_attr=rdmaqp.AddressVector(grh=route))


def test_mtu_above_the_active_one(context: rdmaqp.Context) -> None:
    active = context.port(1).query().active_mtu
    if active == 4096:
        pytest.fail("the port carries the largest MTU; run on one that does not")
    with pytest.raises(rdmaqp.GuardError, match=f"above the port's active MTU, {active}"):
        run_loopback(Options(device=context.name, mtu=4096))


def test_message_larger_than_the_region(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    qp, region = pd.create_qp(cq), pd.alloc_mr(64)
    qp.to_init()
    for offset, length in ((0, 65), (60, 5), (-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="not inside this region of 64 bytes"):
            qp.post_recv(region, offset, length)


def test_message_larger_than_the_port_carries(device_name: str) -> None:
    with pytest.raises(rdmaqp.RdmaqpError, match=r"above what port 1 of .* can carry"):
        run_loopback(Options(device=device_name, size=1 << 40))


def test_depth_above_the_device(context: rdmaqp.Context) -> None:
    depth = context.attr.max_qp_wr + 1
    with pytest.raises(rdmaqp.RdmaqpError, match=r"rx_depth: .* is above what .* takes"):
        run_loopback(Options(device=context.name, rx_depth=depth))


def test_locked_memory_limit(device_name: str) -> None:
    """Root has CAP_IPC_LOCK, which lifts the limit: take it away, and set the limit low."""
    command = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=65536",
               *RDMAQP, "pingpong", "--loopback", "-d", device_name, "-s", "4194304", "-n", "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert "ibv_reg_mr failed" in run.stderr
    assert "RLIMIT_MEMLOCK" in run.stderr
    assert "ulimit -l unlimited" in run.stderr


def test_port_taken(device_name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        _, err = finish(pingpong("-d", device_name, "-p", port), 1)
    assert f"TCP port {port} is taken" in err


def start_long(device_name: str, port: int, *more: str) -> tuple[Forked, Forked]:
    """Server and client of a ping-pong that would take minutes, both in RTS."""
    options = ["-d", device_name, "-p", port, "-n", 10_000_000, *more]
    server = pingpong(*options)
    client = pingpong("127.0.0.1", *options)
    for process in (server, client):
        until(process, "RTR → RTS")
    time.sleep(0.5)
    return server, client


@pytest.mark.parametrize("victim", ["server", "client"])
@pytest.mark.parametrize("events", [(), ("-e",)])
def test_peer_killed_in_the_middle(device_name: str, free_port: int, victim: str, events: tuple[str, ...]) -> None:
    server, client = start_long(device_name, free_port, *events)
    killed, left = (server, client) if victim == "server" else (client, server)
    killed.kill()
    began = time.monotonic()
    _, err = finish(left, 1)
    assert time.monotonic() - began < 5
    assert "queue pair 0x" in err
    assert "round trips" in err
    finish(killed, -signal.SIGKILL)


def test_stock_peer_killed_in_the_middle(device_name: str, free_port: int, context: rdmaqp.Context) -> None:
    """That wire's socket is closed by then: the deadline tells."""
    choice = context.port(1).pick_gid()
    assert choice is not None
    server = subprocess.Popen(
        ["ibv_rc_pingpong", "-d", device_name, "-g", str(choice.entry.index), "-p", str(free_port), "-n", "100000000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    options = ["--wire", "ibv", "-d", device_name, "-p", free_port, "-n", 100_000_000, "--timeout", 3]
    client = pingpong("127.0.0.1", *options)
    until(client, "RTR → RTS")
    time.sleep(1)
    server.kill()
    began = time.monotonic()
    _, err = finish(client, 1)
    assert time.monotonic() - began < 12
    assert "queue pair 0x" in err
    server.wait()


def test_ctrl_c_in_the_middle(device_name: str, free_port: int) -> None:
    server, client = start_long(device_name, free_port)
    began = time.monotonic()
    client.send_signal(signal.SIGINT)
    _, err = finish(client, 130)
    assert time.monotonic() - began < 5
    assert "interrupted" in err
    _, err = finish(server, 1)
    assert "interrupted (Ctrl-C)" in err


@pytest.mark.parametrize("stage", ["waiting", "loopback"])
def test_ctrl_c_while(device_name: str, free_port: int, stage: str) -> None:
    arguments = ["-d", device_name, "-p", free_port] if stage == "waiting" else ["--loopback", "-n", 10_000_000]
    process = pingpong(*arguments)
    until(process, "waiting for a client" if stage == "waiting" else "RTR → RTS")
    process.send_signal(signal.SIGINT)
    _, err = finish(process, 130)
    assert "interrupted" in err


def test_peer_that_never_answers(device_name: str) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        began = time.monotonic()
        arguments = ["127.0.0.1", "-d", device_name, "-p", mute.getsockname()[1], "--timeout", 2]
        _, err = finish(pingpong(*arguments), 1)
    assert time.monotonic() - began < 60
    assert "127.0.0.1" in err


def test_settings_that_differ(device_name: str, free_port: int) -> None:
    server = pingpong("-d", device_name, "-p", free_port, "-s", 64)
    _, err = finish(pingpong("127.0.0.1", "-d", device_name, "-p", free_port, "-s", 128), 1)
    assert "size" in err
    assert "size" in finish(server, 1)[1]


def test_nothing_is_left_behind(context: rdmaqp.Context) -> None:
    """After a refused bring-up, the kernel has no queue pair of this process."""
    with pytest.raises(rdmaqp.GuardError):
        run_loopback(Options(device=context.name, mtu=4096))
    shown = subprocess.run(["rdma", "res", "show", "qp"], capture_output=True, text=True, check=True).stdout
    assert f"pid {os.getpid()} " not in shown


def test_port_down(context: rdmaqp.Context) -> None:
    netdev = next(entry.netdev for entry in context.port(1).gids() if entry.netdev)
    if not context.name.startswith("rxe"):
        pytest.fail(f"taking {netdev} down would cut {context.name} off; run this test in the lab")
    subprocess.run(["ip", "link", "set", netdev, "down"], check=True)
    try:
        wait_for_state(context, rdmaqp.PortState.DOWN)
        _, err = finish(pingpong("--loopback", "-d", context.name), 1)
        assert "DOWN" in err
    finally:
        subprocess.run(["ip", "link", "set", netdev, "up"], check=True)
        wait_for_state(context, rdmaqp.PortState.ACTIVE)


def wait_for_state(context: rdmaqp.Context, state: rdmaqp.PortState) -> None:
    end = time.monotonic() + 20
    while context.port(1).query().state is not state:
        assert time.monotonic() < end, f"the port did not become {state.name}"
        time.sleep(0.1)


def test_python_runs_this_very_build() -> None:
    run = subprocess.run([*RDMAQP, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"rdmaqp {rdmaqp.__version__}"
    assert sys.executable == RDMAQP[0]
