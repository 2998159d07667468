"""Connections by rdma_cm on a real kernel: librdmacm, rdma_ucm, and the two ends' connection managers.

Both ends are in one process, the server in a thread of its own; what has to be two processes is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rdmaqp
from device.rc_ends import PATIENCE, pattern, reap
from rdmaqp import CMError, CMEventType, CMLink, CMListener, QPState

ADDRESS = "192.0.2.1"
SIZE = 4096
UP = [("RESET", "INIT"), ("INIT", "INIT"), ("INIT", "RTR"), ("RTR", "RTS")]


class Buffers:
    """What a test's ``prepare`` makes of a link: a region with a slot for each receive, all posted."""

    def __init__(self, count: int = 4) -> None:
        self.count = count

    def __call__(self, link: CMLink) -> None:
        assert link.qp.state is QPState.INIT
        self.mr = link.pd.alloc_mr(SIZE * (self.count + 1))
        for slot in range(self.count):
            link.qp.recv(self.mr[slot * SIZE : (slot + 1) * SIZE], wr_id=slot)

    def send(self, link: CMLink, message: bytes) -> None:
        at = self.count * SIZE
        self.mr.buffer[at : at + len(message)] = message
        link.qp.send(self.mr[at : at + len(message)])

    def received(self, wc: rdmaqp.WorkCompletion) -> bytes:
        return bytes(self.mr.buffer[wc.wr_id * SIZE : wc.wr_id * SIZE + wc.byte_len])


@pytest.fixture(scope="module", autouse=True)
def has_rdma_cm() -> None:
    assert Path("/dev/infiniband/rdma_cm").exists(), "the guest did not load rdma_ucm, which its kernel has"


@pytest.fixture
def listener() -> Iterator[CMListener]:
    with rdmaqp.cm_listen(0, ADDRESS) as listener:
        yield listener


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def both(
    listener: CMListener, beside: Callable[..., Future[Any]], server: dict[str, Any], client: dict[str, Any]
) -> tuple[CMLink, CMLink]:
    accepted = beside(listener.accept, PATIENCE, patience=PATIENCE, **server)
    link = rdmaqp.cm_connect(ADDRESS, listener.port, timeout=PATIENCE, **client)
    return accepted.result(PATIENCE), link


def steps(link: CMLink) -> list[tuple[str, str]]:
    return [(one.start.name, one.goal.name) for one in link.qp.transitions]


def kinds(link: CMLink, count: int) -> dict[str, rdmaqp.WorkCompletion]:
    return {wc.opcode_name: wc for wc in reap(link.cq, count)}


def test_messages_private_data_and_history(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    here, there = Buffers(), Buffers()
    server, client = both(
        listener, beside, {"prepare": here, "private_data": b"from the server" * 13},
        {"prepare": there, "private_data": bytes(range(1, 57))},
    )  # fmt: skip
    with server, client:
        assert server.private_data == bytes(range(1, 57))
        assert client.private_data.rstrip(b"\0") == b"from the server" * 13
        assert client.peer == server.local == f"{ADDRESS}:{listener.port}"
        assert server.peer == client.local
        for link in (server, client):
            assert link.qp.state is QPState.RTS
            assert steps(link) == UP
            assert [one.result for one in link.qp.history] == ["taken"] * 4
            assert link.connected
        for number in range(4):
            there.send(client, pattern(number))
            (got,) = reap(server.cq, 1)
            assert here.received(got) == pattern(number)
            here.send(server, pattern(100 + number))
            came = kinds(client, 2)
            assert there.received(came["RECV"]) == pattern(100 + number)
            reap(server.cq, 1)
        client.disconnect()
        assert client.qp.state is QPState.ERR
        assert server.wait_disconnected(PATIENCE).type is CMEventType.DISCONNECTED
        assert server.qp.state is QPState.ERR
        with pytest.raises(CMError, match=f"peer {server.peer}: it disconnected") as caught:
            server.check_peer()
        assert caught.value.event is CMEventType.DISCONNECTED
        assert not server.connected
    assert server.closed
    server.close()


def test_depths_are_the_smaller_and_reads_run(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    server, client = both(
        listener, beside, {"responder_resources": 8, "initiator_depth": 1},
        {"responder_resources": 2, "initiator_depth": 4},
    )  # fmt: skip - powers of two: rxe rounds others up
    with server, client:
        mask = rdmaqp.AttrMask.MAX_QP_RD_ATOMIC | rdmaqp.AttrMask.MAX_DEST_RD_ATOMIC
        asked = [link.qp.query(mask) for link in (server, client)]
        assert [(attr.max_dest_rd_atomic, attr.max_rd_atomic) for attr in asked] == [(4, 1), (1, 4)]
        remote = server.pd.alloc_mr(SIZE, rdmaqp.AccessFlag.LOCAL_WRITE | rdmaqp.AccessFlag.REMOTE_READ)
        remote.buffer[:] = pattern(5)
        local = client.pd.alloc_mr(SIZE)
        client.qp.read(local, remote.remote)
        reap(client.cq, 1)
        assert bytes(local.buffer) == pattern(5)


def test_nobody_listens() -> None:
    with pytest.raises(CMError) as caught:
        rdmaqp.cm_connect(ADDRESS, 7999, timeout=PATIENCE)
    assert str(caught.value).splitlines()[0] == (
        f"peer {ADDRESS}:7999: it rejected the connection: nobody listens on this port there"
    )
    assert (caught.value.event, caught.value.status, caught.value.peer) == (CMEventType.REJECTED, 8, f"{ADDRESS}:7999")


def test_a_rejection_carries_its_reason(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    def refuse() -> bytes:
        with listener.get_request(PATIENCE) as request:
            request.reject("version 3 is too old, use 4 – danke")
            return request.private_data

    asked = beside(refuse)
    with pytest.raises(CMError, match="the program there says: version 3 is too old, use 4 – danke") as caught:
        rdmaqp.cm_connect(ADDRESS, listener.port, timeout=PATIENCE, private_data=b"v3")
    assert caught.value.status == 28
    assert asked.result(PATIENCE).rstrip(b"\0") == b"v3"


def test_what_our_guard_refuses_the_peer_hears(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    """A transition that is wrong never reaches the kernel, and the other end is told why."""

    def wrong(link: CMLink) -> None:
        link.qp.modify(qp_state="RTS", sq_psn=1)

    failed = beside(listener.accept, PATIENCE, prepare=wrong)
    with pytest.raises(CMError, match=r"the program there says: RC queue pair .*INIT → RTS"):
        rdmaqp.cm_connect(ADDRESS, listener.port, timeout=PATIENCE)
    with pytest.raises(rdmaqp.GuardError, match="queue pairs have no INIT → RTS"):
        failed.result(PATIENCE)


def test_a_flag_that_the_guard_refuses(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    request = beside(listener.get_request, 1)
    with pytest.raises(rdmaqp.GuardError, match="qp_access_flags"):
        rdmaqp.cm_connect(ADDRESS, listener.port, timeout=PATIENCE, qp_access_flags=1 << 30)
    with pytest.raises(rdmaqp.DeadlineError, match="no client connected"):
        request.result(PATIENCE)


def test_ends_of_ones_own_making(
    listener: CMListener, beside: Callable[..., Future[Any]], pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue
) -> None:
    """A queue pair of a context that is open already, with queues of its own; left in ERR, and usable elsewhere."""
    own = pd.create_qp(cq, max_send_wr=3)
    accepted = beside(listener.accept, PATIENCE)
    with rdmaqp.cm_connect(ADDRESS, listener.port, timeout=PATIENCE, create=lambda _: own) as client:
        assert client.qp is own
        assert own.state is QPState.RTS
        server = accepted.result(PATIENCE)
    assert not own.closed
    assert own.state is QPState.ERR
    server.wait_disconnected(PATIENCE)
    server.close()


def test_an_address_that_nobody_has() -> None:
    with pytest.raises((CMError, rdmaqp.DeadlineError)) as caught:
        rdmaqp.cm_connect("192.0.2.77", 7471, timeout=4)
    assert "the next hop does not answer" in str(caught.value) or "no route" in str(caught.value), str(caught.value)


def test_a_host_without_a_connection_manager() -> None:
    """192.0.2.2 answers ARP and has no RDMA."""
    with pytest.raises((CMError, rdmaqp.DeadlineError), match=r"192\.0\.2\.2:7471.*(not answer|cannot be reached)"):
        rdmaqp.cm_connect("192.0.2.2", 7471, timeout=2)


def test_listening_where_it_cannot(listener: CMListener) -> None:
    with pytest.raises(rdmaqp.VerbsError, match="is taken by another program") as caught:
        rdmaqp.cm_listen(listener.port, ADDRESS)
    assert caught.value.verb in ("rdma_bind_addr", "rdma_listen")
    with pytest.raises(rdmaqp.VerbsError, match="no RDMA device of this machine has this address"):
        rdmaqp.cm_listen(0, "198.51.100.1")
    with rdmaqp.cm_listen(0, "") as everywhere:
        assert everywhere.port


def test_a_peer_that_is_killed_is_noticed(listener: CMListener) -> None:
    port = listener.port
    child = os.fork()
    if child == 0:
        try:
            rdmaqp.cm_connect(ADDRESS, port, timeout=PATIENCE)
            signal.pause()
        finally:
            os._exit(1)
    try:
        with listener.accept(PATIENCE) as server:
            server.check_peer()
            os.kill(child, signal.SIGKILL)
            assert server.wait_disconnected(PATIENCE).type is CMEventType.DISCONNECTED
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_listener_is_dead_in_a_forked_child(listener: CMListener) -> None:
    child = os.fork()
    if child == 0:
        try:
            listener.get_request(0)
        except rdmaqp.ClosedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert listener.port


def test_ctrl_c_ends_a_wait(listener: CMListener) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        listener.get_request(PATIENCE)
    timer.join()


def test_closed_by_another_thread(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    waiting = beside(listener.get_request)
    time.sleep(0.1)
    listener.close()
    with pytest.raises(rdmaqp.ClosedError):
        waiting.result(PATIENCE)


def test_nothing_is_left_open(listener: CMListener, beside: Callable[..., Future[Any]]) -> None:
    def once() -> None:
        server, client = both(listener, beside, {"prepare": Buffers()}, {"prepare": Buffers()})
        client.close()
        server.close()
        with pytest.raises(CMError):
            rdmaqp.cm_connect(ADDRESS, 7999, timeout=PATIENCE)

    once()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        once()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
