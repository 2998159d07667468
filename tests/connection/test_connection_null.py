"""recover() and Connection on the null device, both ends in one process: what has no need of a kernel."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_connection import FLUSHES, meanwhile, pair
from null_side import QPState, error_of, rdmaqp, side, stub

if TYPE_CHECKING:
    from verbs.conftest import Null


def talk() -> Any:
    said: list[str] = []
    # The null device loses what finds no receive posted: as many as there are messages.
    client, server = pair(on_event=lambda happening: said.append(happening.kind), size=64, depth=160)
    got = meanwhile(lambda: list(server))
    sent = [bytes([number]) * (number % 65) for number in range(150)]
    numbers = [client.send(message) for message in sent]
    client.flush(5)
    client.close()
    client.close()
    assert got() == sent
    assert numbers == list(range(1, 151))
    assert (client.account.acknowledged, server.account.received) == (150, 150)
    late = error_of(server.send, b"late")
    again = error_of(client.send, b"closed")
    too_long = error_of(server.send, bytes(65))
    server.close()
    return said, [f"{type(error).__name__}: {error}" for error in (late, again, too_long)]


def test_messages_of_every_size_come_in_order(null: Null) -> None:
    said, errors = null.run(talk)
    assert said == ["connected", "connected", "ended", "lost"]
    assert errors[0].startswith("ConnectionLostError: connection with 127.0.0.1:")
    assert "is lost: the peer has closed the connection" in errors[0]
    assert errors[1].startswith("ClosedError: this connection with")
    assert errors[2] == "ValueError: a message of 65 bytes: this connection takes up to 64"


def the_smaller_size_counts() -> list[int]:
    stub(**FLUSHES)
    context, made = rdmaqp.open(), []
    with rdmaqp.Listener(0) as listener:
        finish = meanwhile(lambda: made.append(rdmaqp.Connection(listener.accept(10), context, size=100)))
        client = rdmaqp.Connection.connect("127.0.0.1", listener.port, device=context, size=300)
        finish()
    return [client.size, made[0].size]


def test_the_smaller_size_counts(null: Null) -> None:
    assert null.run(the_smaller_size_counts) == [100, 100]


def failing(who: str, held: bool) -> Any:
    happenings: list[Any] = []
    client, server = pair(on_event=happenings.append)
    got = meanwhile(lambda: [server.recv(20) for _ in range(6)])
    first = [client.send(bytes([number])) for number in range(3)]
    if held:
        stub(HOLD=1)  # what follows does not leave
        first += [client.send(bytes([number])) for number in range(3, 6)]
        stub(HOLD=None)
    if who == "sender":
        client.qp.error()
    else:
        while server.account.received < 3:
            time.sleep(0.01)
        # The peer asks for a recovery: this end's queue pair is well.
        server.qp.error()
    if not held:
        [client.send(bytes([number])) for number in range(3, 6)]
    client.flush(20)
    result = got()
    kinds = sorted(happening.kind for happening in happenings)
    again = sum(happening.again for happening in happenings)
    psns = [client.agreed.local.psn, client.agreed.remote.sees_psn]
    assert psns[0] == psns[1]
    numbers = [client.recoveries, server.recoveries]
    client.close()
    server.close()
    return [list(message) for message in result], kinds, again, numbers


@pytest.mark.parametrize(("who", "held"), [("sender", False), ("sender", True), ("receiver", True)])
def test_nothing_is_lost_and_nothing_twice(null: Null, who: str, held: bool) -> None:
    result, kinds, again, numbers = null.run(failing, who, held)
    assert result == [[number] for number in range(6)]
    assert numbers == [1, 1]
    assert kinds == ["connected", "connected", "failed", "failed", "recovered", "recovered"]
    if held:
        assert again >= 3


def retrying() -> Any:
    happenings: list[Any] = []
    client, server = pair(on_event=happenings.append, backoff=0.05)
    got = meanwhile(lambda: server.recv(20))
    stub(MODIFY_ERRNO="RTR=110")
    client.qp.error()
    mend = threading.Timer(0.4, lambda: stub(MODIFY_ERRNO=None))
    mend.start()
    client.send(b"at last")
    client.flush(20)
    retries = [happening for happening in happenings if happening.kind == "retrying"]
    client.close()
    return got().decode(), len(retries), str(retries[0]), max(one.stalled for one in happenings)


def test_a_recovery_tries_again_with_a_pause(null: Null) -> None:
    got, retries, text, stalled = null.run(retrying)
    assert got == "at last"
    assert 2 <= retries <= 20
    assert "attempt 1: " in text
    assert "ETIMEDOUT" in text or "could not bring its queue pair up" in text
    assert stalled >= 0.3


def impatient() -> Any:
    client, server = pair(patience=0.5)
    other = meanwhile(lambda: server.recv(20))
    assert client.send(b"one") == 1
    assert other() == b"one"
    client.flush(5)
    stub(HOLD=1)
    other = meanwhile(lambda: server.recv(20))
    client.send(b"two")
    client.send(b"three")
    stub(HOLD=None, MODIFY_ERRNO="RTR=110")
    client.qp.error()
    error = error_of(client.flush, 20)
    assert error is error_of(client.send, b"four")
    there = other()
    numbers = [[number, data.decode()] for number, data in error.unknown]
    client.close()
    server.close()
    return type(error).__name__, str(error), numbers, type(there).__name__


def test_patience_ends_and_the_messages_are_handed_back(null: Null) -> None:
    kind, text, unknown, there = null.run(impatient)
    assert kind == there == "ConnectionLostError"
    assert unknown == [[2, "two"], [3, "three"]]
    assert "2 messages may have arrived (unknown); 0 were received" in text


def peer_of_another_kind() -> Any:
    stub(**FLUSHES)
    one = side()
    with rdmaqp.Listener(0) as listener:
        other = meanwhile(lambda: listener.accept(10).agree(one.qp, timeout=10))
        error = error_of(rdmaqp.Connection.connect, "127.0.0.1", listener.port, device=one.context)
        other()
    return str(error)


def test_a_peer_without_a_connection_is_told_apart(null: Null) -> None:
    assert "has no Connection at its end: it did not tell size" in null.run(peer_of_another_kind)


# ---------------------------------------------------------------------- recover()


ONE_AT_A_TIME = threading.Lock()  # the setting is the process's


def fault(one: Any) -> None:
    """Two sends that do not leave."""
    with ONE_AT_A_TIME:
        stub(HOLD=1)
        one.qp.send(one.mr[0:8], wr_id=7)
        one.qp.send(one.mr[0:8], wr_id=8)
        stub(HOLD=None)


def receives(one: Any) -> Any:
    return lambda *_: [one.qp.recv(one.mr[0:8], wr_id=wr_id) for wr_id in (1, 2)]


def again(one: Any, keeps: bool) -> Any:
    return None if keeps else lambda qp: [qp.recv(one.mr[0:8], wr_id=wr_id) for wr_id in (1, 2)]


ACCESS = 1  # LOCAL_WRITE


def recover(one: Any, exchange: Any, keeps: bool) -> Any:
    agreed = exchange.agree(one.qp, timeout=10, prepare=receives(one), access=ACCESS)
    exchange.barrier("traffic", 10)
    fault(one)
    exchange.barrier("fault", 10)
    return agreed, exchange.recover(one.qp, agreed, timeout=20, told={"x": 1}, prepare=again(one, keeps))


async def recover_async(one: Any, exchange: Any, keeps: bool) -> Any:
    agreed = await exchange.agree(one.qp, timeout=10, prepare=receives(one), access=ACCESS)
    await exchange.barrier("traffic", 10)
    fault(one)
    await exchange.barrier("fault", 10)
    return agreed, await exchange.recover(one.qp, agreed, timeout=20, told={"x": 1}, prepare=again(one, keeps))


async def both_recover(ends: Any, keeps: bool) -> Any:
    async with rdmaqp.listen(0) as server:
        exchanges = await asyncio.gather(
            rdmaqp.AsyncExchange.connect("127.0.0.1", server.port, 10), server.accept(10)
        )
        async with exchanges[0], exchanges[1]:
            return await asyncio.gather(*map(recover_async, ends, exchanges, (keeps, keeps)))


def recovered(way: str, successor: bool, keeps: bool) -> Any:
    stub(**FLUSHES)
    ends = [side(), side()]
    numbers = [one.qp.qp_num for one in ends]
    for one in ends:
        if successor:
            one.context.facts = rdmaqp.DeviceFacts(name="null0", driver="irdma", phys_port_cnt=1)
        if keeps:
            one.qp.keep_work()
    if way == "asyncio":
        results = asyncio.run(both_recover(ends, keeps))
    else:
        with rdmaqp.Listener(0) as listener:
            other = meanwhile(lambda: recover(ends[1], listener.accept(10), keeps))
            with rdmaqp.Exchange.connect("127.0.0.1", listener.port, 10) as exchange:
                results = [recover(ends[0], exchange, keeps), other()]
    for before, found in results:
        assert (found.qp.state, found.qp.recv_posted) == (QPState.RTS, 2)
        assert found.agreed.local.psn != before.local.psn
        assert (found.agreed.told, found.agreed.receives) == ({"x": 1}, 2)
        assert found.cause is None
    return [
        [[one.wr_id for one in found.unknown] for _, found in results],
        [found.qp.qp_num == number for (_, found), number in zip(results, numbers, strict=True)],
    ]


@pytest.mark.parametrize("way", ["threads", "asyncio"])
@pytest.mark.parametrize("keeps", [False, True])
def test_recover_says_what_is_unknown_and_posts_receives(null: Null, way: str, keeps: bool) -> None:
    unknown, same = null.run(recovered, way, False, keeps)
    assert unknown == [[7, 8], [7, 8]]
    assert same == [True, True]


def test_where_error_is_the_end_a_successor_takes_over(null: Null) -> None:
    unknown, same = null.run(recovered, "threads", True, False)
    assert unknown == [[7, 8], [7, 8]]
    assert same == [False, False]


def without_receives() -> Any:
    stub(**FLUSHES)
    one, two = side(), side()
    with rdmaqp.Listener(0) as listener:
        other = meanwhile(lambda: listener.accept(10).agree(two.qp, timeout=10))
        exchange = rdmaqp.Exchange.connect("127.0.0.1", listener.port, 10)
        agreed = exchange.agree(one.qp, timeout=10, prepare=lambda: one.qp.recv(one.mr[0:8]))
        other()
    none = error_of(exchange.recover, one.qp, timeout=1)
    return [str(none), str(error_of(exchange.recover, one.qp, agreed, timeout=5))]


def test_receives_that_nobody_knows_are_not_forgotten(null: Null) -> None:
    none, unknown = null.run(without_receives)
    assert none == "agreed: what agree() returned for this queue pair is needed"
    assert unknown.startswith("1 receives were flushed, and nobody knows into which memory they went: give prepare=")


def test_psns_of_a_new_life_are_ahead_of_the_old() -> None:
    from rdmaqp.connection.recovery import fresh_psn

    class Silent:
        def query(self, _: int) -> Any:
            raise rdmaqp.VerbsError("ibv_query_qp", 95)

    class Telling:
        def query(self, _: int) -> Any:
            return rdmaqp.QPAttr(sq_psn=0xFFFFF0)

    for qp, start in ((Silent(), 5), (Telling(), 0xFFFFF0)):
        for _ in range(50):
            ahead = (fresh_psn(qp, 5) - start) % (1 << 24)  # type: ignore[arg-type]
            assert 1 << 22 <= ahead < 1 << 23
