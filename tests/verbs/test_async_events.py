"""Asynchronous events: an iterator, a callback, a stream of asyncio. Each comes once, and is acknowledged once."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, error_of, rdmaqp, said, side

if TYPE_CHECKING:
    from conftest import Null

PATIENCE = 20


def taker(context: rdmaqp.Context) -> rdmaqp.QueuePair:
    """A queue pair with a shared receive queue: each move to ERR raises QP_LAST_WQE_REACHED."""
    pd, cq = context.alloc_pd(), context.create_cq(16)
    qp = pd.create_qp(cq, srq=pd.create_srq(4))
    qp.to_init()
    return qp


def acknowledged() -> int:
    return len(calls("ibv_ack_async_event"))


def iterated() -> list[Any]:
    context = rdmaqp.open()
    qps = [taker(context) for _ in range(3)]
    for qp in qps:
        qp.error()
    came = [event.source is qp for qp, event in zip(qps, context.async_events, strict=False)]
    events = context.async_events
    threading.Timer(0.2, events.close).start()
    rest = list(events)
    return [came, rest, acknowledged(), said(error_of(iter, events))["type"]]


def test_an_iterator_ends_when_another_thread_closes_it(null: Null) -> None:
    assert null.run(iterated) == [[True] * 3, [], 3, "ClosedError"]


def called() -> dict[str, Any]:
    context = rdmaqp.open()
    seen: list[Any] = []
    enough = threading.Event()

    def note(event: rdmaqp.AsyncEvent) -> None:
        seen.append(event)
        if len(seen) == 2:
            raise LookupError("a user's mistake")
        if len(seen) == 3:
            enough.set()

    wrong = said(error_of(context.async_events.listen, "me"))
    qps = [taker(context) for _ in range(4)]
    with context.async_events.listen(note) as thread:
        for qp in qps[:3]:
            qp.error()
        assert enough.wait(PATIENCE)
        ticks, end = 0, time.monotonic() + 0.1
        while time.monotonic() < end:
            ticks += 1  # which it could not, were the GIL held
    qps[3].error()
    left = context.async_events.wait(PATIENCE)
    other = context.async_events.listen(note)
    context.close()
    other._thread.join(PATIENCE)
    return {
        "seen": [event.source is qp for event, qp in zip(seen, qps, strict=False)], "left": left.source is qps[3],
        "ticks": ticks, "running": [thread.running, other.running], "acknowledged": acknowledged(), "wrong": wrong,
    }  # fmt: skip


def test_a_callback_gets_each_and_one_that_raises_ends_nothing(null: Null) -> None:
    came = null.run(called)
    assert came["seen"] == [True] * 3
    assert came["left"]
    assert came["running"] == [False, False]
    assert came["acknowledged"] == 4
    assert came["ticks"] > 100
    assert came["wrong"]["text"] == "each event is handed to a callable, not to str"


def streamed(how: str) -> dict[str, Any]:
    context = rdmaqp.open()
    qps = [taker(context) for _ in range(4)]
    events = context.async_events

    async def main() -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            qps[0].error()
            first = await events.next()
            pending = asyncio.create_task(events.next())
            await asyncio.sleep(0.05)
            quiet = not pending.done()
            qps[1].error()
            second = await pending
            gone = asyncio.create_task(events.next())
            await asyncio.sleep(0)
            gone.cancel()
            qps[2].error()
            threading.Timer(0.3, (context if how == "device" else events).close).start()
            rest = [event.source async for event in events]
            error = error_of(events.__aiter__)
        return {
            "sources": [first.source is qps[0], second.source is qps[1], rest == [qps[2]]], "quiet": quiet,
            "error": said(error)["type"], "watched": len(events._loops),
        }  # fmt: skip

    return asyncio.run(main()) | {"acknowledged": acknowledged()}


@pytest.mark.parametrize("how", ["events", "device"])
def test_asyncio_waits_for_events_and_a_close_ends_it(null: Null, how: str) -> None:
    assert null.run(streamed, how) == {
        "sources": [True] * 3, "quiet": True, "error": "ClosedError", "watched": 0, "acknowledged": 3,
    }  # fmt: skip


def left_alive() -> str:
    """The interpreter ends with everything open, a thread that waits for events, and one that waits for completions."""
    one = side(events=True)
    one.context.async_events.listen(print)
    threading.Thread(target=one.cq.wait, daemon=True).start()
    threading.Thread(target=lambda: list(one.context.async_events), daemon=True).start()
    time.sleep(0.2)
    return "done"


def test_the_interpreter_ends_cleanly_with_live_objects_and_blocked_readers(null: Null) -> None:
    done = null.device.run(null.command(left_alive))
    assert (done.returncode, done.stderr) == (0, "")
    assert "done" in done.stdout
