"""A million messages leave nothing behind: no memory, no file descriptor."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from null_side import rdmaqp, side

if TYPE_CHECKING:
    from conftest import Null

BATCH = 64
THERE = rdmaqp.RemoteMemory(0, 64, 1)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def a_million() -> dict[str, int]:
    one = side(max_send_wr=2 * BATCH)
    here = one.qp.endpoint(psn=1)
    one.qp.connect(here, here)
    records, completions = rdmaqp.SendRecords(BATCH), rdmaqp.Completions(BATCH)
    work = rdmaqp.Write(one.mr[0:8], THERE)
    for at in range(BATCH):
        records[at] = work
    chain = one.qp.chain(*[work] * BATCH)

    def messages(n: int) -> int:
        """*n* batches each way, and a few one by one."""
        done = 0
        for _ in range(n):
            one.qp.post_sends(records)
            done += one.cq.poll_into(completions)
            chain.run()
            done += BATCH
            one.qp.post(work)
            done += len(one.cq.poll())
        return done

    messages(200)  # what is kept for good is there now
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    tracemalloc.start()
    traced, before = tracemalloc.get_traced_memory()[0], resident()
    messages(100)
    traced = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    done = messages(1_000_000 // (2 * BATCH + 1) + 1)
    return {
        "messages": done, "grown": resident() - before, "traced": traced,
        "descriptors": len(os.listdir("/proc/self/fd")) - descriptors,  # noqa: PTH208
    }  # fmt: skip


def test_a_million_messages_leave_nothing_behind(null: Null) -> None:
    came = null.run(a_million)
    assert came["messages"] >= 1_000_000
    assert came["descriptors"] == 0
    assert came["traced"] < 20_000, "Python's objects, of 12,900 messages"
    assert came["grown"] < 4 << 20, "at one byte a message it were a quarter of that"


def opened_and_closed() -> list[int]:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    def once() -> None:
        one = side(events=True)
        here = one.qp.endpoint(psn=1)
        one.qp.connect(here, here)
        one.qp.chain(rdmaqp.Write(one.mr[0:8], THERE)).run()
        one.context.close()

    once()
    before = descriptors()
    for _ in range(20):
        once()
    return [before, descriptors()]


def test_what_is_opened_and_closed_leaves_no_descriptor(null: Null) -> None:
    before, after = null.run(opened_and_closed)
    assert before == after
