"""Events: by hand, by asyncio, and both at once on one channel. None is lost, and each is acknowledged."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from null_side import Side, calls, connected, error_of, rdmaqp, said, side, stub

from rdmaqp import Completions

if TYPE_CHECKING:
    from conftest import Null

PATIENCE = 20


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await coroutine

    return asyncio.run(bounded())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def unacknowledged() -> int:
    """Close everything; how many events the library would have waited for."""
    for context in list(rdmaqp.verbs.device._open_contexts.values()):
        context.close()
    return sum(call["unacknowledged"] for call in calls("ibv_destroy_cq"))


# ---------------------------------------------------------------------- by hand


def by_hand() -> list[Any]:
    one, _ = connected(events=True)
    stub(DROP=1)
    channel, cq = one.channel, one.cq
    assert channel
    one.qp.send(one.mr)
    cq.req_notify()
    none = said(error_of(channel.get_event, timeout=0))["type"]  # it came before the queue was armed
    before = len(cq.poll())
    one.qp.send(one.mr)
    one.qp.send(one.mr)
    whose = channel.get_event(timeout=PATIENCE) is cq
    once = said(error_of(channel.get_event, timeout=0.05))
    return [none, before, whose, once["type"], once["text"], len(cq.poll()), unacknowledged()]


def test_a_queue_is_armed_and_its_event_taken_by_hand(null: Null) -> None:
    *came, text, polled, left = null.run(by_hand)
    assert came == ["DeadlineError", 1, True, "DeadlineError"]
    assert text == "no event within 0.05 s on the completion channel of null0"
    assert (polled, left) == (2, 0)


def solicited() -> list[Any]:
    first, second = connected(events=True)
    channel = second.channel
    assert channel
    for _ in range(2):
        second.qp.recv(second.mr)
    second.cq.req_notify(solicited_only=True)
    first.qp.send(first.mr)
    plain = said(error_of(channel.get_event, timeout=0))["type"]
    first.qp.send(first.mr, solicited=True)
    return [plain, channel.get_event(timeout=PATIENCE) is second.cq, unacknowledged()]


def test_a_queue_armed_for_solicited_ones_says_nothing_of_others(null: Null) -> None:
    assert null.run(solicited) == ["DeadlineError", True, 0]


def shared_by_hand() -> list[Any]:
    context = rdmaqp.open()
    channel = context.create_comp_channel()
    queues = [context.create_cq(8, channel) for _ in range(3)]
    pd = context.alloc_pd()
    mr = pd.alloc_mr(8)
    pairs = [pd.create_qp(cq) for cq in queues]
    here = pairs[0].endpoint(psn=1)
    for qp, cq in zip(pairs, queues, strict=True):
        qp.connect(here, here) if qp is pairs[0] else qp.connect(qp.endpoint(psn=1), qp.endpoint(psn=1))
        cq.req_notify()
    stub(DROP=1)
    for qp in reversed(pairs):
        qp.send(mr)
    return [[queues.index(channel.get_event(timeout=PATIENCE)) for _ in queues], unacknowledged()]


def test_an_event_says_whose_it_is(null: Null) -> None:
    assert null.run(shared_by_hand) == [[2, 1, 0], 0]


def no_channel() -> list[Any]:
    cq = side().cq
    return [said(error_of(cq.req_notify)), said(error_of(lambda: run(one_batch(cq))))]


async def one_batch(cq: rdmaqp.CompletionQueue) -> list[rdmaqp.WorkCompletion]:
    return await cq.completions()


def test_a_queue_without_a_channel_says_how_to_make_one_with(null: Null) -> None:
    for came in null.run(no_channel):
        assert came["type"] == "ValueError"
        assert "device.create_cq(cqe, device.create_comp_channel()), or use wait()" in came["text"]


def broken(verb: str, how: str) -> dict[str, Any]:
    one = side(events=True)
    channel = one.channel
    assert channel
    stub(**{f"{verb.upper()}_ERRNO": 5})
    if verb == "get_cq_event":
        os.write(next_write_end(channel.fd), b"\x01\0\0\0")
    do: dict[str, Callable[[], Any]] = {
        "by hand": lambda: (one.cq.req_notify(), channel.get_event(timeout=PATIENCE)),
        "asyncio": lambda: run(one_batch(one.cq)),
    }
    return said(error_of(do[how])) | {"fds": len(channel._loops)}


def next_write_end(fd: int) -> int:
    """The other end of the null device's pipe: it makes both at once."""
    return fd + 1


@pytest.mark.parametrize("how", ["by hand", "asyncio"])
@pytest.mark.parametrize("verb", ["req_notify_cq", "get_cq_event"])
def test_what_is_broken_is_named(null: Null, verb: str, how: str) -> None:
    came = null.run(broken, verb, how)
    assert (came["type"], came["errno"], came["fds"]) == ("VerbsError", 5, 0)
    assert f"ibv_{verb} failed" in came["text"]


def closed_meanwhile(name: str, how: str) -> list[Any]:
    """Another thread closes the channel, or the device, while this one waits for an event."""
    one = side(events=True)
    channel = one.channel
    assert channel
    what: dict[str, Any] = {"channel": channel, "device": one.context, "queue": one.cq}
    closing = threading.Timer(0.2, what[name].close)
    closing.start()
    start = time.monotonic()
    do = {"by hand": lambda: channel.get_event(timeout=PATIENCE), "asyncio": lambda: run(one_batch(one.cq))}[how]
    answer = said(error_of(do))
    closing.join()
    return [answer["type"], time.monotonic() - start < PATIENCE / 2]


@pytest.mark.parametrize(("name", "how"), [
    ("channel", "by hand"), ("device", "by hand"), ("channel", "asyncio"), ("device", "asyncio"), ("queue", "asyncio"),
])  # fmt: skip
def test_a_wait_ends_when_what_it_waits_for_is_closed(null: Null, name: str, how: str) -> None:
    assert null.run(closed_meanwhile, name, how) == ["ClosedError", True]


# ---------------------------------------------------------------------- asyncio


def awaited() -> list[Any]:
    async def main() -> list[Any]:
        first, second = connected(events=True)
        before = descriptors()
        for at in range(5):
            second.qp.recv(second.mr, wr_id=at)
        waiting = asyncio.create_task(one_batch(second.cq))
        await asyncio.sleep(0.01)
        watched = waiting.done()
        first.qp.send(first.mr)
        batch = [wc.wr_id for wc in await waiting]
        for _ in range(3):
            first.qp.send(first.mr)
        there = [wc.wr_id for wc in await second.cq.completions()]  # at once
        first.qp.send(first.mr)
        limited = [wc.wr_id for wc in await second.cq.completions(1)]
        return [watched, batch, there, limited, descriptors() - before]

    came = run(main())
    return [*came, unacknowledged()]


def test_completions_are_awaited(null: Null) -> None:
    assert null.run(awaited) == [False, [0], [1, 2, 3], [4], 0, 0]


def deadline_and_cancelled() -> list[Any]:
    async def main() -> list[Any]:
        first, second = connected(events=True)
        before = descriptors()
        for at in range(3):
            second.qp.recv(second.mr, wr_id=at)
        try:
            async with asyncio.timeout(0.05):
                await second.cq.completions()
        except TimeoutError:
            late = descriptors() - before
        waiting = asyncio.create_task(one_batch(second.cq))
        await asyncio.sleep(0.01)
        first.qp.send(first.mr)
        await asyncio.sleep(0)
        waiting.cancel()  # the event has been raised, and may have been taken
        ended = (await asyncio.gather(waiting, return_exceptions=True))[0]
        first.qp.send(first.mr)
        got = [] if isinstance(ended, BaseException) else [wc.wr_id for wc in ended]
        while len(got) < 2:
            got += [wc.wr_id for wc in await second.cq.completions()]
        return [late, type(ended).__name__, got, descriptors() - before]

    return [*run(main()), unacknowledged()]


def test_a_deadline_or_a_cancellation_takes_nothing_along(null: Null) -> None:
    assert null.run(deadline_and_cancelled) == [0, "CancelledError", [0, 1], 0, 0]


def iterated() -> list[Any]:
    async def main() -> list[Any]:
        first, second = connected(events=True)
        for at in range(6):
            second.qp.recv(second.mr, wr_id=at)
        for _ in range(4):
            first.qp.send(first.mr)
        seen = []
        async for wc in second.cq.completions():
            seen.append(wc.wr_id)
            if len(seen) == 2:
                break
        rest = [wc.wr_id for wc in await second.cq.completions()]

        async def forever() -> list[int]:
            found = []
            try:
                async for wc in second.cq.completions():
                    found.append(wc.wr_id)
            except rdmaqp.ClosedError:
                return found
            raise AssertionError("it has an end")

        task = asyncio.create_task(forever())
        for _ in range(2):
            first.qp.send(first.mr)
            await asyncio.sleep(0.01)
        second.qp.close()
        second.cq.close()
        return [seen, rest, await task]

    return [*run(main()), unacknowledged()]


def test_iterating_leaves_what_it_has_not_come_to(null: Null) -> None:
    assert null.run(iterated) == [[0, 1], [2, 3], [4, 5], 0]


def pairs_on_one_channel(n: int) -> tuple[list[Side], rdmaqp.CompletionChannel]:
    context = rdmaqp.open()
    channel = context.create_comp_channel()
    pd = context.alloc_pd()
    mr = pd.alloc_mr(64)
    sides = []
    for _ in range(n):
        cq = context.create_cq(256, channel)
        qp = pd.create_qp(cq, max_send_wr=64, max_recv_wr=64)
        sides.append(Side(context, channel, cq, pd, mr, qp))
    for one in sides:
        one.qp.connect(one.qp.endpoint(psn=1), one.qp.endpoint(psn=1))  # each to itself
    return sides, channel


def many_tasks() -> list[Any]:
    """Two tasks on each of four queues of one channel; each queue pair sends to itself, from time to time."""

    async def main() -> list[Any]:
        sides, _ = pairs_on_one_channel(4)
        before = descriptors()
        seen: dict[int, int] = dict.fromkeys(range(4), 0)

        async def take(number: int) -> None:
            while seen[number] < 100:
                batch = await sides[number].cq.completions(3)
                seen[number] += len(batch)

        async def feed(one: Side, number: int) -> None:
            for turn in range(50):  # two completions each
                one.qp.recv(one.mr)
                one.qp.send(one.mr)
                if turn % (number + 2) == 0:
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            takers = [group.create_task(take(at)) for at in range(4) for _ in range(2)]
            for at, one in enumerate(sides):
                group.create_task(feed(one, at))
            while any(count < 100 for count in seen.values()):
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            for task in takers:
                task.cancel()
        return [list(seen.values()), descriptors() - before]

    return [*run(main()), unacknowledged()]


def test_tasks_that_share_a_channel_or_a_queue_lose_nothing(null: Null) -> None:
    assert null.run(many_tasks) == [[100] * 4, 0, 0]


def with_a_thread() -> list[Any]:
    """A thread waits for one queue, a task for another of the same channel: each takes the other's events too."""
    sides, _ = pairs_on_one_channel(2)
    stop = threading.Event()
    by_thread = 0

    def wait() -> None:
        nonlocal by_thread
        while not stop.is_set():
            try:
                by_thread += len(sides[0].cq.wait(timeout=0.05))
            except rdmaqp.DeadlineError:
                continue

    async def main() -> int:
        seen = 0
        for _ in range(100):
            for one in sides:
                one.qp.recv(one.mr)
                one.qp.send(one.mr)
            before = seen
            while seen < before + 2:
                seen += len(await sides[1].cq.completions())
                await asyncio.sleep(0)
            while sides[0].qp.recv_posted > 8:  # on a busy machine the thread falls behind, and its queue has an end
                await asyncio.sleep(0.001)
        return seen

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        by_task = run(main())
        end = time.monotonic() + PATIENCE
        while by_thread < 200 and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
    return [by_task, by_thread, unacknowledged()]


def test_a_thread_and_a_task_on_one_channel_lose_nothing(null: Null) -> None:
    assert null.run(with_a_thread) == [200, 200, 0]


def stolen() -> list[Any]:
    """A wait in another thread takes the only event that a task waits for: the task is told."""
    sides, _ = pairs_on_one_channel(2)

    async def main() -> int:
        task = asyncio.create_task(one_batch(sides[1].cq))
        await asyncio.sleep(0.05)  # it is asleep, its queue armed
        loop = asyncio.get_running_loop()

        def steal() -> None:
            """With the loop stopped: it cannot come first."""
            sides[1].qp.recv(sides[1].mr)
            sides[1].qp.send(sides[1].mr)
            assert isinstance(error_of(sides[0].cq.wait, timeout=0.1), rdmaqp.DeadlineError)

        loop.call_soon(steal)
        return len(await task)

    return [run(main()), unacknowledged()]


def test_an_event_that_a_wait_has_taken_for_another_queue_is_passed_on(null: Null) -> None:
    assert null.run(stolen) == [2, 0]


# ---------------------------------------------------------------------- into an array


def filled(events: bool) -> list[Any]:
    one, _ = connected(events=events)
    stub(DROP=1)
    done = Completions(8)
    for at in range(3):
        one.qp.send(one.mr, wr_id=at)
    later = threading.Timer(0.1, lambda: [one.qp.send(one.mr, wr_id=at) for at in range(3, 10)])
    later.start()
    first = one.cq.wait_into(done, 5, timeout=PATIENCE)
    later.join()
    ids = done.array["wr_id"][: done.count].tolist()
    rest = one.cq.wait_into(done, timeout=PATIENCE)
    ids += [wc.wr_id for wc in done]
    late = said(error_of(one.cq.wait_into, done, 2, timeout=0.05))
    one.qp.send(one.mr)
    part = said(error_of(one.cq.wait_into, done, 2, timeout=0.05))
    return [first >= 5, first + rest == 10 or ids, ids[:first], late["text"].splitlines()[0], done.count,
            part["text"].splitlines()[0], part["type"]]  # fmt: skip


@pytest.mark.parametrize("events", [False, True])
def test_an_array_is_filled_until_enough_have_come(null: Null, events: bool) -> None:
    enough, _, ids, late, count, part, kind = null.run(filled, events)
    assert enough is True
    assert ids == list(range(len(ids)))
    assert late == "no completion within 0.05 s on null0"
    assert (count, part, kind) == (
        1, "1 of 2 completions came; then no completion within 0.05 s on null0", "DeadlineError"
    )  # fmt: skip


def no_room() -> list[Any]:
    cq = side().cq
    return [said(error_of(cq.wait_into, Completions(4), n))["text"] for n in (0, 5)]


def test_no_more_can_be_waited_for_than_there_is_room(null: Null) -> None:
    assert null.run(no_room) == [f"at_least: {n} is outside 1…4, the room for completions" for n in (0, 5)]


def explained() -> list[str]:
    one, _ = connected()
    stub(WC_STATUS="RETRY_EXC_ERR")
    one.qp.send(one.mr)
    done = Completions(1)
    one.cq.wait_into(done, timeout=PATIENCE)
    return [str(error_of(wc.raise_for_status)) for wc in done]


def test_a_failed_completion_of_an_array_says_why(null: Null) -> None:
    (text,) = null.run(explained)
    assert "RETRY_EXC_ERR" in text
    assert "likely" in text
