"""INIT → RTR with the guard before it against the native call alone, alternated; asking the kernel and judging apart.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    args = parser.parse_args()
    with rdmaqp.open() as context, context.alloc_pd() as pd:
        cq = context.create_cq(16)
        rows: list[tuple[float, float, float, float]] = []
        for number in range(args.pairs + 5):
            with pd.create_qp(cq) as first, pd.create_qp(cq) as second:
                attr = rdmaqp.bring_up(first.endpoint(psn=1), second.endpoint(psn=2)).rtr
                first.to_init()
                second.to_init()

                def guarded(qp: rdmaqp.QueuePair = first, attr: rdmaqp.QPAttr = attr) -> None:
                    qp.modify(attr)

                def bare(qp: rdmaqp.QueuePair = second, attr: rdmaqp.QPAttr = attr) -> None:
                    raw = modify.fill_attr(attr, attr.mask)
                    assert native().lib.ibv_modify_qp(qp.handle, raw, attr.mask) == 0

                state = first.state
                asking = timed(lambda qp=first, attr=attr, state=state: modify.request(qp, attr, None, state, None))
                request = modify.request(first, attr, None, state, None)
                judging = timed(lambda request=request: check(request))
                times = [timed(call) for call in ((guarded, bare) if number % 2 else (bare, guarded))]
                ours, theirs = times if number % 2 else reversed(times)
            if number >= 5:  # the first few warm the caches
                rows.append((ours, theirs, asking, judging))
    ratio, low, high = median_interval([row[0] / row[1] for row in rows])
    names = ("guarded INIT → RTR", "native alone", "of which asking the kernel", "of which judging")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        print(f"{name:28} median {statistics.median(column):9.1f} µs")
    print(f"ratio {ratio:.2f}, 95 % interval {low:.2f} … {high:.2f}, {len(rows)} alternated pairs")


if __name__ == "__main__":
    main()
