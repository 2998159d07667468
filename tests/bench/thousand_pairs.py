"""RC queue pairs by the hundred created, brought to RTS and closed, the guard strict, against plain C and pyverbs.

    rdmaqp lab run -- python tests/bench/thousand_pairs.py [--pairs 200] [--rounds 5] [--python /usr/bin/python3]

Each queue pair is connected to itself. Ours are made twice: as a group (pd.create_qps), and one by one. Soft-RoCE has
room for a thousand at a time on 6.12; --pairs is how many there are at once, and as many rounds alternate as make up
what is wanted. Then the memory of a queue pair on Python's side.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import rdmaqp
from bench.pairs import median_interval
from stub import compile_program

#: Gives after each of the three parts.
Way = Callable[[rdmaqp.ProtectionDomain, rdmaqp.CompletionQueue, int, int], Iterator[object]]

PYVERBS = '''
import sys, time
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
n, index = int(sys.argv[1]), int(sys.argv[2])
context = Context(name=sys.argv[3])
pd, cq = PD(context), CQ(context, 1000)
gid = context.query_gid(1, index)
start = time.perf_counter()
made = [QP(pd, QPInitAttr(qp_type=2, scq=cq, rcq=cq, cap=QPCap(max_send_wr=16, max_recv_wr=16))) for _ in range(n)]
done = time.perf_counter()
for qp in made:
    attr = QPAttr(port_num=1)
    attr.dest_qp_num, attr.path_mtu, attr.rq_psn, attr.sq_psn = qp.qp_num, 3, 1, 1
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 6, 7
    attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=index, hop_limit=64))
    qp.to_rts(attr)
up = time.perf_counter()
for qp in made:
    qp.close()
print(*(int(1e6 * part) for part in (done - start, up - done, time.perf_counter() - up)))
'''


def as_group(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue, n: int, index: int) -> Iterator[object]:
    """Make, bring up and close *n* at once."""
    yield (qps := pd.create_qps(n, cq))
    here = qps.endpoints(psn=1, gid_index=index)
    yield qps.connect(here, here)
    yield qps.close()


def one_by_one(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue, n: int, index: int) -> Iterator[object]:
    """The same, each by itself."""
    yield (qps := [pd.create_qp(cq) for _ in range(n)])
    for qp in qps:
        here = qp.endpoint(psn=1, gid_index=index)
        qp.connect(here, here)
    yield None
    for qp in qps:
        qp.close()
    yield None


def timed(way: Way, context: rdmaqp.Context, n: int, index: int) -> list[float]:
    """Microseconds of each part."""
    with context.alloc_pd() as pd, context.create_cq(1000) as cq:
        times = [time.perf_counter()]
        for _ in way(pd, cq, n, index):
            times.append(time.perf_counter())
    return [1e6 * (after - before) for before, after in pairwise(times)]


def memory(way: Way, context: rdmaqp.Context, n: int, index: int) -> tuple[float, float]:
    """Python's bytes, and the process's, of a queue pair in RTS."""
    with context.alloc_pd() as pd, context.create_cq(1000) as cq:
        tracemalloc.start()
        before, peak = tracemalloc.get_traced_memory()[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        steps = way(pd, cq, n, index)
        made = [next(steps), next(steps)]
        python = (tracemalloc.get_traced_memory()[0] - before) / n
        tracemalloc.stop()
        del made
        return python, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 / n


def other(command: list[str]) -> list[float]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{command[0]} is left out: {done.stderr.strip() or done.returncode}", flush=True)
        return []
    return [float(part) for part in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default="/usr/bin/python3")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place, rdmaqp.open() as context:
        choice = context.port(1).pick_gid()
        assert choice is not None
        index, n = choice.entry.index, args.pairs
        plain = str(compile_program(Path(__file__).with_suffix(".c"), Path(place), "-O2"))
        timed(as_group, context, n, index)
        rounds = []
        for _ in range(args.rounds):
            rounds.append({
                "plain C": other([plain, str(n), str(index)]),
                "group": timed(as_group, context, n, index),
                "one by one": timed(one_by_one, context, n, index),
            })
        theirs = other([args.python, "-c", PYVERBS, str(n), str(index), context.name])
        sizes = {way.__name__: memory(way, context, n, index) for way in (as_group, one_by_one)}
    for name, part in (("create", 0), ("to RTS", 1), ("close", 2)):
        figures = {side: statistics.median(row[side][part] / n for row in rounds) for side in rounds[0]}
        more = f", pyverbs {theirs[part] / n:.0f}" if theirs else ""
        print(f"{name:8} a queue pair, µs: " + ", ".join(f"{side} {mean:.0f}" for side, mean in figures.items()) + more)
    for side in ("group", "one by one"):
        ratio, low, high = median_interval([sum(row[side]) / sum(row["plain C"]) for row in rounds])
        print(f"{side}: {ratio:.2f} × plain C ({low:.2f} … {high:.2f}), {len(rounds)} rounds of {n} queue pairs")
    if theirs:
        least = min(sum(row["plain C"]) for row in rounds)
        print(f"pyverbs, which checks nothing: {sum(theirs) / least:.2f} × plain C")
    for way, (python, whole) in sizes.items():
        print(f"memory of a queue pair, {way}: {python:,.0f} bytes of Python's, {whole:,.0f} of the process")


if __name__ == "__main__":
    main()
