"""Two ends agree, talk, fail and recover, on a real kernel. Figures are printed at the end."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import rdmaqp
from device.connection_ends import PATIENCE, Figures, Peer, Reader, number_in, numbered, two
from rdmaqp import AccessFlag, Connection, ConnectionLostError, Exchange, Listener, QPState, RefusedError


@pytest.fixture(scope="module")
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    found = Figures()
    yield found
    capture: Any = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(
            f"\nconnection: {found.faults} faults tried, {found.recovered} recoveries of an end, {found.sent} "
            f"messages, {found.lost} lost, {found.twice} twice; without acknowledgement {found.settled} had "
            f"arrived and {found.again} were sent again; longest stall {found.longest_stall:.2f} s"
        )


def agree_both(
    one: rdmaqp.QueuePair, other: rdmaqp.QueuePair, records: tuple[rdmaqp.Endpoint, rdmaqp.Endpoint], **more: Any
) -> list[Any]:
    """What each end's ``agree`` returns or raises, the client's first."""
    results: list[Any] = [None, None]
    with Listener(0) as listener:
        def serve() -> None:
            try:
                with listener.accept(PATIENCE) as exchange:
                    results[1] = exchange.agree(other, records[1], timeout=PATIENCE, **more)
            except Exception as error:
                results[1] = error

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with Exchange.connect("127.0.0.1", listener.port, PATIENCE) as exchange:
                results[0] = exchange.agree(one, records[0], timeout=PATIENCE, **more)
        except Exception as error:
            results[0] = error
        thread.join()
    return results


def test_mtu_and_depths_are_negotiated_down(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    one, other = pd.create_qp(cq), pd.create_qp(cq)
    records = (
        one.endpoint(psn=1, path_mtu=1024, max_rd_atomic=8, max_dest_rd_atomic=2),
        other.endpoint(psn=2, path_mtu=512, max_rd_atomic=4, max_dest_rd_atomic=3),
    )
    region = pd.alloc_mr(64)
    here, there = agree_both(one, other, records, prepare=lambda: (one if one.state == 1 else other).recv(region))
    assert (here.path_mtu, here.max_rd_atomic, here.max_dest_rd_atomic) == (512, 3, 2)
    assert (there.path_mtu, there.max_rd_atomic, there.max_dest_rd_atomic) == (512, 2, 3)
    assert one.state == other.state == QPState.RTS
    mask = rdmaqp.AttrMask.PATH_MTU | rdmaqp.AttrMask.MAX_QP_RD_ATOMIC | rdmaqp.AttrMask.MAX_DEST_RD_ATOMIC
    asked = one.query(mask)
    assert (rdmaqp.model.enums.mtu_bytes(asked.path_mtu), asked.max_rd_atomic) == (512, 4)  # rxe rounds up


def test_a_refusal_reaches_both_in_the_same_words(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    one, other = pd.create_qp(cq), pd.create_qp(cq)
    wrong = other.endpoint(psn=2, link_layer=rdmaqp.LinkLayer.INFINIBAND, lid=7)
    errors = agree_both(one, other, (one.endpoint(psn=1), wrong))
    assert [type(error) for error in errors] == [RefusedError, RefusedError]
    assert errors[0].reasons == errors[1].reasons
    assert "link_layer" in errors[0].reasons["client"]
    assert one.state == other.state == QPState.INIT


@pytest.mark.parametrize("successor", [False, True])
def test_recover_by_hand(
    context: rdmaqp.Context, pd: rdmaqp.ProtectionDomain, figures: Figures, successor: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A wrong rkey; what may have arrived is said; the receives and the options are there again."""
    if successor:  # as where ERR is the end
        monkeypatch.setattr("rdmaqp.guard.drivers.Driver.must_recreate", lambda *_: True)
    region = pd.alloc_mr(256)
    ends = [pd.create_qp(context.create_cq(64)) for _ in range(2)]

    def receives(qp: rdmaqp.QueuePair) -> None:
        qp.post(*(rdmaqp.Recv(region[64:128], wr_id=number) for number in range(8)))

    def work(exchange: Exchange, qp: rdmaqp.QueuePair) -> rdmaqp.Recovered:
        access = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE  # else it is REM_INV_REQ_ERR, whatever the key
        agreed = exchange.agree(qp, timeout=PATIENCE, prepare=lambda: receives(qp), retry_cnt=5, access=access)
        if qp is ends[0]:
            wrong = rdmaqp.RemoteMemory(region.addr, 8, region.rkey ^ 0xFFFF00)
            qp.post(rdmaqp.Send(region[0:8], wr_id=11), rdmaqp.Write(region[0:8], wrong, wr_id=12),
                    rdmaqp.Send(region[0:8], wr_id=13))  # fmt: skip
            while qp.state is not QPState.ERR:
                time.sleep(0.01)
        exchange.barrier("fault", PATIENCE)
        return exchange.recover(qp, agreed, timeout=PATIENCE, prepare=receives)

    results: list[Any] = [None, None]
    with Listener(0) as listener:
        def serve() -> None:
            with listener.accept(PATIENCE) as exchange:
                results[1] = work(exchange, ends[1])

        thread = threading.Thread(target=serve)
        thread.start()
        with Exchange.connect("127.0.0.1", listener.port, PATIENCE) as exchange:
            results[0] = work(exchange, ends[0])
        thread.join()
    figures.faults += 1
    here, there = results
    assert here.cause.status_name == "REM_ACCESS_ERR"
    assert [one.wr_id for one in here.reaped.sends] == [12, 13]
    assert here.unknown == ()  # the peer itself said no
    assert [wc.wr_id for wc in here.reaped.completions if wc.opcode_name == "SEND"] == [11]
    assert len(there.reaped.completions) == 1  # message 11
    assert [(one.qp is qp) is not successor for one, qp in zip(results, ends, strict=True)] == [True, True]
    assert here.qp.query(rdmaqp.AttrMask.RETRY_CNT).retry_cnt == 5
    here.qp.send(region[0:8], wr_id=21)
    assert here.qp.send_cq.wait(timeout=PATIENCE)[0].ok
    assert there.qp.recv_cq.wait(timeout=PATIENCE)[0].ok


def test_messages_both_ways(device_name: str) -> None:
    with two(device_name, depth=8, size=256) as (client, server), client, server:
        reader = Reader(server)
        for number in range(1, 201):
            client.send(numbered(number, 8 + number % 200))
        client.close()
        assert reader.finish() == list(range(1, 201))
        with pytest.raises(ConnectionLostError, match="closed"):
            server.send(b"late")


def fault_error(connection: Connection) -> None:
    connection.qp.error()


def fault_rkey(connection: Connection) -> None:
    region = connection._line._region
    connection.qp.write(region[0:8], rdmaqp.RemoteMemory(region.addr, 8, region.rkey ^ 0xFFFF00), wr_id=0)


FAULTS = {"moved to ERR": fault_error, "a write that is refused": fault_rkey}


@pytest.mark.parametrize("who", ["sender", "receiver"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_loses_nothing(device_name: str, figures: Figures, fault: str, who: str) -> None:
    with two(device_name, depth=8, on_event=figures, patience=PATIENCE) as (client, server), client, server:
        reader = Reader(server, faults={30: FAULTS[fault]} if who == "receiver" else None)
        for number in range(1, 101):
            client.send(numbered(number))
            if number == 50 and who == "sender":
                while len(client.account.under_way) > 4:  # there is room for the fault, and more is under way
                    client.poll()
                FAULTS[fault](client)
        client.close()
        figures.faults += 1
        figures.check(reader.finish(), 100)
        assert server.recoveries >= 1


def test_a_receiver_that_is_not_ready(device_name: str, figures: Figures) -> None:
    """A finite rnr_retry, which a slow receiver breaks: the connection goes on."""
    options = {"rnr_retry": 1, "min_rnr_timer": 1}
    with two(device_name, depth=2, on_event=figures, patience=PATIENCE, **options) as (client, server), client, server:
        reader = Reader(server, slow=0.05)
        for number in range(1, 31):
            client.send(numbered(number))
        client.close()
        figures.faults += client.recoveries
        figures.check(reader.finish(), 30)
        assert client.recoveries >= 1


def test_faults_at_both_ends_with_traffic_both_ways(device_name: str, figures: Figures) -> None:
    with two(device_name, depth=8, on_event=figures, patience=PATIENCE) as (client, server), client, server:
        got: dict[str, list[int]] = {"client": [], "server": []}

        def talk(connection: Connection, name: str, every: int) -> None:
            for number in range(1, 101):
                connection.send(numbered(number))
                got[name].append(number_in(connection.recv(PATIENCE)))
                if number % every == 0:
                    fault_error(connection)
            connection.flush(PATIENCE)

        thread = threading.Thread(target=talk, args=(server, "server", 17))
        thread.start()
        talk(client, "client", 13)
        thread.join(PATIENCE)
        figures.faults += 100 // 17 + 100 // 13
        for numbers in got.values():
            figures.check(numbers, 100)


def measured() -> tuple[int, int, int]:
    """Open files, threads, resident pages."""
    gc.collect()
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        pages = int(statm.read().split()[1])
    return len(os.listdir("/proc/self/fd")), threading.active_count(), pages  # noqa: PTH208


def test_a_hundred_recoveries_in_a_row(device_name: str, figures: Figures) -> None:
    with two(device_name, depth=8, on_event=figures, patience=PATIENCE) as (client, server), client, server:
        reader = Reader(server)
        number = 0
        for fault in range(100):
            for at in range(5):
                if at == 4:  # before the last: there is work that finds the fault, whatever has arrived by then
                    fault_error(client)
                number += 1
                client.send(numbered(number))
            client.flush(PATIENCE)
            if fault == 50:  # by then the history of 128 calls is full
                before = measured()
        after = measured()
        client.close()
        figures.faults += 100
        figures.check(reader.finish(), number)
        assert client.recoveries == server.recoveries == 100
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 1500  # 6 MB: two huge pages that an allocator may get meanwhile are 1024 pages


def receive_for_ever(port: int) -> None:
    with Connection.connect("127.0.0.1", port, timeout=PATIENCE) as connection:
        for _ in connection:
            pass


def test_a_peer_killed_in_mid_traffic(device_name: str, figures: Figures) -> None:
    with Listener(0) as listener:
        peer = Peer(receive_for_ever, listener.port)
        connection = Connection(listener.accept(PATIENCE), device_name, timeout=PATIENCE, on_event=figures)

    def send_for_ever() -> None:
        for number in count(201):
            connection.send(numbered(number), timeout=PATIENCE)

    for number in range(1, 201):
        connection.send(numbered(number), timeout=PATIENCE)
    peer.kill()
    killed = time.monotonic()
    with pytest.raises(ConnectionLostError) as caught:
        send_for_ever()
    figures.faults += 1
    assert time.monotonic() - killed < 20
    assert "closed the connection" in str(caught.value) or "reset the connection" in str(caught.value)
    unknown = [one for one, _ in caught.value.unknown]
    assert unknown == list(range(connection.account.acknowledged + 1, connection.account.sent + 1))
    assert all(number_in(data) == one for one, data in caught.value.unknown)
    connection.close()
