"""One side of ``data_path.py``, in a process of its own: ours, pyverbs or PyPI ``ibverbs``. Started by that script.

A line ``WORK`` on standard input is answered with the nanoseconds of one unit of it: the least of a few short runs.
What is signaled is reaped outside of the time, but for the round, which is to post, to poll and to look at the status.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

BATCH = 64
DEPTH = 16384  # the null device's max_qp_wr
CALLS = 200  # a run: of batches, what fits the queue
RUNS = 7

Work = tuple[Callable[[], object], int, Callable[[], object] | None, Callable[[], object] | None]


def nanoseconds(work: Work) -> float:
    """Of one unit: *call* makes *units* of them; *before* and *after* are what a run needs."""
    call, units, before, after = work
    calls = CALLS if units > 1 else CALLS * 10
    best = float("inf")
    for _ in range(RUNS):
        if before:
            before()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter_ns() - start)
        if after:
            after()
    return best / calls / units


def of_rdmaqp() -> dict[str, Work]:  # noqa: C901 - a list of small functions
    import numpy as np

    import rdmaqp
    from rdmaqp.verbs.loop import PingPongEnd, run_slice

    context = rdmaqp.open()
    cq, pd = context.create_cq(2 * DEPTH), context.alloc_pd()
    mr, there = pd.alloc_mr(4096), rdmaqp.RemoteMemory(0, 64, 1)
    qp = pd.create_qp(cq, max_send_wr=DEPTH)
    here = qp.endpoint(psn=1)
    qp.connect(here, here)
    one = qp.chain(rdmaqp.Write(mr[0:64], there))
    works = [rdmaqp.Write(mr[0:64], there, signaled=at == BATCH - 1, wr_id=at) for at in range(BATCH)]
    chain = qp.chain(*works)
    ours = rdmaqp.SendRecords(BATCH)
    for at, work in enumerate(works):
        ours[at] = work
    array = np.array(ours.array)
    all_signaled = qp.chain(*(rdmaqp.Write(mr[0:64], there) for _ in range(BATCH)))
    completions = rdmaqp.Completions(BATCH)

    def drain() -> None:
        while cq.poll_into(completions):
            pass

    def fill() -> None:
        for _ in range(CALLS):
            all_signaled.post()

    # Both ends are one process, and send from where the other receives: nothing is copied on the free device.
    sides = []
    for _ in range(2):
        queue = context.create_cq(64)
        sides.append(pd.create_qp(queue, max_send_wr=16, max_recv_wr=32))
    ends = [side.endpoint(psn=1) for side in sides]
    sides[0].connect(*ends)
    sides[1].connect(*reversed(ends))
    memory = [pd.alloc_mr(64), pd.alloc_mr(64)]
    messages = 5000  # so many that the call itself does not count

    def pingpong() -> None:
        a = PingPongEnd(sides[0], memory[0], memory[1], size=64, iterations=messages, initiator=True)
        b = PingPongEnd(sides[1], memory[1], memory[0], size=64, iterations=messages, initiator=False)
        a.post_receives()
        b.post_receives()
        start = time.perf_counter_ns()
        while not run_slice(a, b, 10**9):
            pass
        pingpong.took = time.perf_counter_ns() - start  # type: ignore[attr-defined]

    def pingpong_ns() -> float:
        best = float("inf")
        for _ in range(RUNS):
            pingpong()
            best = min(best, pingpong.took)  # type: ignore[attr-defined]
        return best / messages / 2

    return {
        "round": (one.run, 1, None, None),
        "records": (lambda: qp.post_sends(array), BATCH, None, drain),
        "records of ours": (lambda: qp.post_sends(ours), BATCH, None, drain),
        "chain": (chain.post, BATCH, None, drain),
        "completions": (lambda: cq.poll_into(completions), BATCH, fill, drain),
        "pingpong": pingpong_ns,  # type: ignore[dict-item]
    }


def of_pyverbs() -> dict[str, Work]:
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPCap, QPInitAttr
    from pyverbs.wr import SGE, SendWR

    context = Context(name="null0")
    cq, pd = CQ(context, 2 * DEPTH), PD(context)
    mr = MR(pd, 4096, 1)
    qp = QP(pd, QPInitAttr(qp_type=2, scq=cq, rcq=cq, cap=QPCap(max_send_wr=DEPTH)))
    keep: list[Any] = []

    def chain_of(n: int, *, all_signaled: bool = False) -> Any:
        following = None
        for at in reversed(range(n)):
            sges = [SGE(mr.buf, 64, mr.lkey)]
            flags = 2 if all_signaled or at == n - 1 else 0
            wr = SendWR(wr_id=at, opcode=0, num_sge=1, sg=sges, send_flags=flags, next_wr=following)
            wr.set_wr_rdma(1, 0)
            keep.extend((sges, wr))
            following = wr
        return following

    one, chain, signaled = chain_of(1), chain_of(BATCH), chain_of(BATCH, all_signaled=True)

    def drain() -> None:
        while cq.poll(BATCH)[0]:
            pass

    def fill() -> None:
        for _ in range(CALLS):
            qp.post_send(signaled)

    def round_of_one() -> None:
        qp.post_send(one)
        _, (wc,) = cq.poll(1)
        if wc.status:
            raise RuntimeError(wc.status)

    return {
        "round": (round_of_one, 1, None, None),
        "chain": (lambda keep=keep: qp.post_send(chain), BATCH, None, drain),
        "completions": (lambda: cq.poll(BATCH), BATCH, fill, drain),
    }


def of_ibverbs() -> dict[str, Work]:
    import ibverbs

    memory = ctypes.create_string_buffer(4096)
    context = ibverbs.get_device_list()[0].open()
    cq, pd = context.create_cq(2 * DEPTH), context.alloc_pd()
    mr = pd.reg_mr(ctypes.addressof(memory), 4096, 1)
    qp = pd.create_qp(ibverbs.QPInitAttr(send_cq=cq, recv_cq=cq, max_send_wr=DEPTH))

    def request(at: int, *, signaled: bool) -> Any:
        flags = 2 if signaled else 0
        return ibverbs.SendWR(wr_id=at, sg_list=[ibverbs.SGE(mr, 64)], opcode=0, send_flags=flags, rkey=1)

    one = [request(0, signaled=True)]
    made = [request(at, signaled=at == BATCH - 1) for at in range(BATCH)]
    signaled = [request(at, signaled=True) for at in range(BATCH)]

    def drain() -> None:
        while cq.poll(BATCH):
            pass

    def fill() -> None:
        for _ in range(CALLS):
            qp.post_send(signaled)

    def round_of_one() -> None:
        qp.post_send(one)
        (wc,) = cq.poll(1)
        if wc.status:
            raise RuntimeError(wc.status)

    def new() -> None:
        qp.post_send([request(at, signaled=at == BATCH - 1) for at in range(BATCH)])

    keep = (context, pd, mr, memory)
    return {
        "round": (round_of_one, 1, None, None),
        "chain": (lambda keep=keep: qp.post_send(made), BATCH, None, drain),
        "new": (new, BATCH, None, drain),
        "completions": (lambda: cq.poll(BATCH), BATCH, fill, drain),
    }


def main() -> None:
    works = {"rdmaqp": of_rdmaqp, "pyverbs": of_pyverbs, "ibverbs": of_ibverbs}[sys.argv[1]]()
    print(" ".join(name.replace(" ", "_") for name in works), flush=True)
    for line in sys.stdin:
        work: Any = works[line.strip().replace("_", " ")]
        print(work() if callable(work) else nanoseconds(work), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
