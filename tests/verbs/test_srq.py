"""Shared receive queues on the null device: accounts, refusals, the order of ends, the limit's event."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, connected, error_of, rdmaqp, said, side, stub

if TYPE_CHECKING:
    from conftest import Null


def shared(room: int = 4, **options: Any) -> tuple[Any, Any, list[Any]]:
    """A queue for *room* receives, whose two queue pairs are connected to one sender each."""
    one = side(size=256)
    srq = one.pd.create_srq(room, **options)
    pairs = []
    for psn in (1, 2):
        sender, taker = one.pd.create_qp(one.cq), one.pd.create_qp(one.context.create_cq(16), srq=srq)
        ends = [sender.endpoint(psn=psn), taker.endpoint(psn=psn + 8)]
        sender.connect(*ends)
        taker.connect(*reversed(ends))
        pairs.append((sender, taker))
    return one, srq, pairs


def received() -> dict[str, Any]:
    one, srq, pairs = shared()
    one.mr[128:136].buffer[:] = b"the same"
    for at in range(4):
        srq.recv(one.mr[at * 16 : at * 16 + 16], wr_id=at)
    told = [srq.recv_posted]
    came = []
    for sender, taker in (*pairs, pairs[0]):
        sender.send(one.mr[128:136])
        (wc,) = taker.recv_cq.poll()
        came.append([wc.wr_id, wc.qp_num == taker.qp_num, bytes(one.mr[wc.wr_id * 16 :].buffer[:8]).decode()])
        told.append(srq.recv_posted)
    srq.post(rdmaqp.Recv(one.mr[0:8]), rdmaqp.Recv([one.mr[8:12]]))  # its room is free again
    told.append(srq.recv_posted)
    records = rdmaqp.RecvRecords(1)
    records[0] = rdmaqp.Recv(one.mr[0:16])
    srq.post_recvs(records)
    told.append(srq.recv_posted)
    return {"came": came, "told": told, "cap": [pairs[0][1].cap.max_recv_wr, srq.max_wr, srq.max_sge]}


def test_receives_go_to_whoever_has_a_message(null: Null) -> None:
    came = null.run(received)
    assert came["came"] == [[0, True, "the same"], [1, True, "the same"], [2, True, "the same"]]
    assert came["told"] == [4, 3, 2, 1, 3, 4]
    assert came["cap"] == [0, 4, 1]
    made = null.calls("ibv_create_qp")
    assert [(call["srq"], call["max_recv_wr"]) for call in made] == [(0, 16), (0, 16), (1, 0), (0, 16), (1, 0)]


def wrong() -> dict[str, Any]:
    one, srq, ((_, taker), _) = shared()
    foreign = one.context.alloc_pd().alloc_mr(8)
    other = rdmaqp.open()
    failures = {
        "to the queue pair": error_of(taker.recv, one.mr),
        "too many pieces": error_of(srq.recv, [one.mr[0:8], one.mr[8:16]]),
        "foreign": error_of(srq.recv, foreign),
        "outside": error_of(srq.post_recvs, bytes(8) + one.mr.addr.to_bytes(8, "little") + bytes([0, 2, 0, 0])
                            + one.mr.lkey.to_bytes(4, "little")),
        "a send": error_of(srq.post, rdmaqp.Send(one.mr)),
        "five": error_of(srq.post, *[rdmaqp.Recv(one.mr)] * 5),
        "no room asked for": error_of(one.pd.create_srq, 0),
        "too much": error_of(one.pd.create_srq, 16385),
        "too wide": error_of(one.pd.create_srq, 1, 31),
        "limit": error_of(srq.modify, srq_limit=5),
        "another opening": error_of(other.alloc_pd().create_qp, other.create_cq(1), srq=srq),
    }  # fmt: skip
    chain = srq.chain(rdmaqp.Recv(one.mr[0:8]), rdmaqp.Recv(one.mr[8:16]))
    chain.post()
    chain.post()
    failures["full"] = error_of(chain.post)
    stub(POST_RECV_ERRNO=12)
    _, empty, _ = shared()
    failures["driver"] = error_of(empty.recv)
    stub(POST_RECV_ERRNO=None)
    posted = [srq.recv_posted, empty.recv_posted]
    srq.close()
    failures["closed"] = error_of(chain.post)
    return {name: said(error) for name, error in failures.items()} | {"posted": posted}


def test_what_is_refused(null: Null) -> None:
    came = null.run(wrong)
    assert came.pop("posted") == [4, 0]
    rules = {name: [rule for rule, _ in error["errors"]] for name, error in came.items() if error["errors"]}
    assert rules == {
        "to the queue pair": ["post-srq"], "too many pieces": ["post-sge"], "foreign": ["post-pd"],
        "outside": ["post-sge"], "full": ["post-full"], "five": ["post-full"],
    }  # fmt: skip
    assert came["full"]["text"].splitlines()[0] == (
        "shared receive queue on null0, post_srq_recv: queue: 4 are posted, and max_wr is 4: the queue is full"
    )
    assert "ibv_post_srq_recv was not called; nothing was posted." in came["full"]["text"]
    assert came["too many pieces"]["text"].startswith(
        "shared receive queue on null0, post_srq_recv: num_sge: 2 pieces, and the shared receive queue was made for 1"
    )
    assert came["a send"]["type"] == "TypeError"
    assert came["no room asked for"]["text"] == "max_wr: 0 is outside 1…16384 (max_srq_wr of null0)"
    assert came["too much"]["type"] == came["too wide"]["type"] == came["limit"]["type"] == "ValueError"
    assert came["another opening"]["type"] == "ValueError"
    assert (came["driver"]["type"], came["driver"]["errno"]) == ("VerbsError", 12)
    assert "ibv_post_srq_recv failed" in came["driver"]["text"]
    assert came["closed"]["type"] == "ClosedError"


def lost() -> list[Any]:
    """A queue pair ends with completions that nobody has polled: their receives are gone, the room is not guessed."""
    one, srq, ((sender, taker), _) = shared(room=2)
    srq.post(rdmaqp.Recv(one.mr), rdmaqp.Recv(one.mr))
    sender.send(one.mr[0:8])
    taker.close()
    before = srq.recv_posted
    srq.recv(one.mr)  # there is room for one, whatever the account says
    return [before, srq.recv_posted, said(error_of(srq.recv, one.mr))["type"]]


def test_a_queue_pairs_end_does_not_leave_the_queue_stuck(null: Null) -> None:
    assert null.run(lost) == [2, 3, "VerbsError"]  # the driver knows better, and says so


def ended() -> None:
    one, srq, _ = shared()
    srq.recv(one.mr)
    one.context.close()


def test_queue_pairs_end_first_then_the_queue_then_its_memory(null: Null) -> None:
    null.run(ended)
    order = [call["call"] for call in null.calls() if call["call"].startswith(("ibv_destroy", "ibv_de"))]
    assert order.index("ibv_destroy_srq") > max(at for at, name in enumerate(order) if name == "ibv_destroy_qp")
    assert order.index("ibv_destroy_srq") < order.index("ibv_dereg_mr") < order.index("ibv_dealloc_pd")
    assert null.calls("ibv_close_device")[-1]["alive"] == 0


def limit() -> dict[str, Any]:
    one, srq, ((sender, taker), _) = shared(srq_limit=3)
    events = one.context.async_events
    for _ in range(4):
        srq.recv(one.mr[0:16])
    told: list[Any] = [srq.query().srq_limit, events.poll() is None]
    for _ in range(2):
        sender.send(one.mr[0:8])
    event = events.wait(timeout=5)
    told += [event.type.name, event.source is srq, event.port_num, srq.query().srq_limit, events.poll() is None]
    srq.modify(srq_limit=1)
    taker.error()
    last = events.wait(timeout=5)
    told += [last.type.name, last.source is taker, str(event), srq.query().srq_limit]
    return {"told": told, "acknowledged": [call["event_type"] for call in calls("ibv_ack_async_event")]}


def test_the_limits_event_comes_once(null: Null) -> None:
    came = null.run(limit)
    assert came["told"] == [
        3, True, "SRQ_LIMIT_REACHED", True, None, 0, True, "QP_LAST_WQE_REACHED", True,
        "SRQ_LIMIT_REACHED, shared receive queue on null0", 1,
    ]  # fmt: skip
    assert came["acknowledged"] == [15, 16]
    assert [(call["mask"], call["srq_limit"]) for call in null.calls("ibv_modify_srq")] == [(2, 3), (2, 1)]


def waited(who: str) -> dict[str, Any]:
    context = rdmaqp.open()
    events = context.async_events
    late = said(error_of(events.wait, timeout=0.05))
    failures: list[BaseException] = []
    waiter = threading.Thread(target=lambda: failures.append(error_of(events.wait)))
    waiter.start()
    ticks = 0
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        ticks += 1  # which it could not, were the GIL held
    (context if who == "context" else events).close()
    waiter.join(10)
    again = None if who == "context" else context.async_events.poll()
    return {"late": late, "error": said(failures[0]), "ticks": ticks, "again": again, "alive": waiter.is_alive()}


@pytest.mark.parametrize("who", ["context", "events"])
def test_a_wait_for_events_ends(null: Null, who: str) -> None:
    came = null.run(waited, who)
    assert came["late"]["type"] == "DeadlineError"
    assert came["late"]["text"] == "no event within 0.05 s on null0"
    assert came["error"]["type"] == "ClosedError"
    assert not came["alive"]
    assert came["ticks"] > 100


def unshared() -> list[Any]:
    """Closing a queue pair with a queue of its own says nothing of others."""
    first, second = connected()
    srq = first.pd.create_srq(2)
    srq.recv(first.mr)
    second.qp.recv(second.mr)
    first.qp.close()
    srq.recv(first.mr)
    return said(error_of(srq.recv, first.mr))["errors"]


def test_the_account_holds_where_nothing_was_lost(null: Null) -> None:
    assert null.run(unshared) == [["post-full", "queue"]]


def at_random(seed: int) -> dict[str, int]:
    """Posts, sends and polls in any order, on two queues of completions: the account is never above nor below."""
    choice = random.Random(seed)
    one, srq, pairs = shared(room=7)
    inside, ready, refusals = 0, [0, 0], 0
    waiting = 0  # receives that no message has come for
    for rounds in range(1, 601):
        act = choice.randrange(3)
        if act == 0:
            count = choice.randrange(1, 4)
            if inside + count > 7:
                error = said(error_of(srq.post, *[rdmaqp.Recv(one.mr)] * count))
                refusals += error["errors"] == [["post-full", "queue"]]
            else:
                srq.post(*[rdmaqp.Recv(one.mr)] * count)
                inside, waiting = inside + count, waiting + count
        elif act == 1 and waiting:
            to = choice.randrange(2)
            pairs[to][0].send(one.mr[0:4])
            one.cq.poll()
            waiting, ready[to] = waiting - 1, ready[to] + 1
        else:
            of = choice.randrange(2)
            came = len(pairs[of][1].recv_cq.poll(choice.randrange(1, 3)))
            assert came <= ready[of]
            ready[of], inside = ready[of] - came, inside - came
        assert srq.recv_posted == inside, (rounds, srq.recv_posted, inside)
    return {"rounds": rounds, "refusals": refusals}


@pytest.mark.parametrize("seed", range(4))
def test_the_account_holds_whatever_is_done(null: Null, seed: int) -> None:
    came = null.run(at_random, seed)
    assert came["rounds"] == 600
    assert came["refusals"] > 10
