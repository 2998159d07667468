"""INIT → RTR with the guard before it against the native call alone, alternated; asking the kernel and judging apart.

The native call is what a program without the guard makes: fill ``struct ibv_qp_attr`` from the attributes, then
``ibv_modify_qp``. The same with a struct that was filled before, as no program that has a peer can have, is the floor.

    rdmaqp lab run -- python tests/bench/guarded_modify.py [--pairs 200]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import rdmaqp
from bench.pairs import median_interval
from rdmaqp.guard import check
from rdmaqp.verbs import modify
from rdmaqp.verbs._native import native


def timed(call: Callable[[], object]) -> float:
    """Microseconds of one call."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1000


class Round:
    """Three queue pairs of one device in INIT, and the ways of one of each to RTR."""

    def __init__(self, pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
        self.qps = [pd.create_qp(cq) for _ in range(3)]
        first, second, _ = self.qps
        self.attr = rdmaqp.bring_up(first.endpoint(psn=1), second.endpoint(psn=2)).rtr
        for qp in self.qps:
            qp.to_init()

    def guarded(self, qp: rdmaqp.QueuePair) -> None:
        """The call as the library makes it."""
        qp.modify(self.attr)

    def bare(self, qp: rdmaqp.QueuePair) -> None:
        """Fill, and call."""
        mask = self.attr.mask
        assert native().lib.ibv_modify_qp(qp.handle, modify.fill_attr(self.attr, mask), mask) == 0

    def times(self, number: int) -> list[float]:
        """Microseconds of: guarded, bare, prefilled; asking, judging."""
        qp, attr, mask = self.qps[0], self.attr, self.attr.mask
        asking = timed(lambda: modify.request(qp, attr, None, None))
        request = modify.request(qp, attr, None, None)
        judging = timed(lambda: check(request))
        raw, handle, lib = modify.fill_attr(attr, mask), self.qps[2].handle, native().lib
        ways = [
            lambda: self.guarded(self.qps[0]), lambda: self.bare(self.qps[1]),
            lambda: lib.ibv_modify_qp(handle, raw, mask),
        ]  # fmt: skip
        done = [0.0] * 3
        for place in range(number, number + 3):  # each goes first in its turn
            done[place % 3] = timed(ways[place % 3])
        assert all(qp.state is rdmaqp.QPState.RTR for qp in self.qps)
        return [*done, asking, judging]

    def close(self) -> None:
        """Destroy them."""
        for qp in self.qps:
            qp.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    args = parser.parse_args()
    with rdmaqp.open() as context, context.alloc_pd() as pd, context.create_cq(16) as cq:
        rows = []
        for number in range(args.pairs + 5):
            one = Round(pd, cq)
            rows.append(one.times(number))
            one.close()
    rows = rows[5:]  # the first few warm the caches
    names = ("guarded INIT → RTR", "native alone: fill, call", "the call alone, prefilled",
             "of guarded: asking the kernel", "of guarded: judging")  # fmt: skip
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        print(f"{name:30} median {statistics.median(column):9.1f} µs, least {min(column):9.1f} µs")
    for place, name in ((1, "guarded / native"), (2, "guarded / prefilled")):
        ratio, low, high = median_interval([row[0] / row[place] for row in rows])
        print(f"{name:22} {ratio:.2f}, 95 % interval {low:.2f} … {high:.2f}, {len(rows)} alternated pairs")


if __name__ == "__main__":
    main()
