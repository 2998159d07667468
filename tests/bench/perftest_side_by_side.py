"""``rdmaqp bench`` against perftest with the same settings, two processes each, alternated.

    rdmaqp lab run -- python tests/bench/perftest_side_by_side.py rate [--op send] [--size 64] [--pairs 30]
    rdmaqp lab run -- python tests/bench/perftest_side_by_side.py latency [--op send] [--size 64]

Message rate and bandwidth against ib_send_bw, ib_write_bw, ib_read_bw, ib_atomic_bw; typical latency (ours: the median)
against ib_send_lat and so on. Needs perftest (Debian: apt-get install perftest). Several operations and sizes by comma.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import rdmaqp
import rdmaqp.cli.bench
import rdmaqp.cli.chart_svg
from bench.pairs import alternate, report
from forked import Forked

PATIENCE = 60
PORTS = itertools.count(20000)


@dataclass(frozen=True)
class Setting:
    """One comparison: the same for both."""

    kind: str
    op: str
    size: int
    iters: int
    device: str
    gid_index: int
    mtu: int

    def ours(self) -> float:
        """µs a message, or half a round trip."""
        port = str(next(PORTS))
        common = ["-d", self.device, "-x", str(self.gid_index), "-p", port]
        server = Forked(["bench", *common])
        client = Forked([
            "bench", self.kind, "127.0.0.1", *common, "--op", self.op, "-s", str(self.size), "-n", str(self.iters),
            "-m", str(self.mtu), "-t", "128", "-r", "512", "-Q", "100", "--json",
        ])  # fmt: skip
        out, err = client.communicate(PATIENCE)
        server.communicate(PATIENCE)
        assert client.returncode == server.returncode == 0, err
        (row,) = json.loads(out)["rows"]
        assert row["messages"] == self.iters
        return float(row["latency_us"]["p50"]) if self.kind == "latency" else 1e6 / row["messages_per_s"]

    def theirs(self) -> float:
        """The same of perftest, which says 0 where it could not measure the processor's frequency: then once more."""
        for _ in range(10):
            figure = self._perftest()
            if 0 < figure < math.inf:
                break
        return figure

    def _perftest(self) -> float:
        name = f"ib_{self.op}_{'lat' if self.kind == 'latency' else 'bw'}"
        command = [
            name, "-F", "-d", self.device, "-x", str(self.gid_index), "-p", str(next(PORTS)), "-s", str(self.size),
            "-n", str(self.iters), "-m", str(self.mtu),
        ]  # fmt: skip
        if self.op == "atomic":
            command = [word for at, word in enumerate(command) if word not in ("-s",) and command[at - 1] != "-s"]
        if self.kind != "latency":
            command += ["-t", "128", "-Q", "100", *(["-r", "512"] if self.op == "send" else [])]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(100):  # it does not wait for its server, as ours does
            client = subprocess.run([*command, "127.0.0.1"], capture_output=True, text=True, check=False)
            if client.returncode == 0:
                break
            time.sleep(0.05)
        server.communicate(timeout=PATIENCE)
        rows = re.findall(rf"^ *{self.size} +{self.iters} +(.*)$", client.stdout, re.MULTILINE)
        assert rows, client.stdout + client.stderr
        figures = [float(word) for word in rows[-1].split()]
        # latency: min, max, typical, …; bandwidth: peak, average, million messages a second
        figure = figures[2]
        return figure if self.kind == "latency" or not figure else 1 / figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("rate", "latency"))
    parser.add_argument("--op", default="send,write")
    parser.add_argument("--size", default="64,4096,65536")
    parser.add_argument("--iters", type=int)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--mtu", type=int, default=1024)
    args = parser.parse_args()
    with rdmaqp.open() as context:
        name, choice = context.name, context.port(1).pick_gid()
    assert choice is not None
    for op in args.op.split(","):
        for size in map(int, args.size.split(",")):
            iters = args.iters or {64: 500, 4096: 200}.get(size, 60)
            one = Setting(args.kind, op, 8 if op == "atomic" else size, iters, name, choice.entry.index, args.mtu)
            what = "half a round trip" if args.kind == "latency" else "time a message; rate and bandwidth are 1/ratio"
            start = time.monotonic()
            title = f"{args.kind} of {op}, {one.size} bytes, {iters} messages, {what}"
            report(title, alternate(one.ours, one.theirs, args.pairs), "µs")
            print(f"  {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
