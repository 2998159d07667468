"""A stream in our loop against plain C on the same null device: processor time a message, two processes in turn.

    python tests/bench/stream_vs_c.py [--pairs 30] [--count 500000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.pairs import alternate, report
from stub import NullDevice, build, compile_program

OURS = """
import time, rdmaqp
device = rdmaqp.open()
pd, cq = device.alloc_pd(), device.create_cq(128)
qp = pd.create_qp(cq, max_send_wr=64)
here = qp.endpoint(psn=1)
qp.connect(here, here)
region = pd.alloc_mr(64)
work = rdmaqp.Write(region[0:64], region.remote)
stream = rdmaqp.Stream(qp, work, count={count}, window=64, signal_every=16)
start = time.process_time_ns()
stream.run()
print(time.process_time_ns() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--count", type=int, default=500_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        device = NullDevice(library=build(Path(place)), log=Path(place, "log"))
        program = compile_program(Path(__file__).with_name("plain_stream.c"), Path(place), "-O2")

        def once(done: subprocess.CompletedProcess[str]) -> float:
            assert done.returncode == 0, done.stderr
            return int(done.stdout) / args.count

        times = alternate(
            lambda: once(device.python(OURS.format(count=args.count))),
            lambda: once(device.run([program, str(args.count)])), args.pairs,
        )  # fmt: skip
    report(f"a stream of {args.count} RDMA WRITEs on the null device", times, "ns a message")


if __name__ == "__main__":
    main()
