"""Our ping-pong against ``ibv_rc_pingpong``: mean time an iteration, two processes each, alternated.

    rdmaqp lab run -- python tests/bench/pingpong_vs_stock.py [--pairs 30] [--iters 1000] [--size 4096] [--events]
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import rdmaqp
from bench.pairs import alternate, report
from forked import Forked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--iters", type=int, default=1000)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--events", action="store_true")
    args = parser.parse_args()
    with rdmaqp.open() as context:
        name, choice = context.name, context.port(1).pick_gid()
    assert choice is not None
    ports = itertools.count(20000)
    flags = ["-e"] if args.events else []
    common = ["-d", name, "-g", choice.entry.index, "-n", args.iters, "-s", args.size, *flags]

    def ours() -> float:
        options = ["pingpong", *map(str, common), "-p", str(next(ports)), "--json"]
        server = Forked(options)
        client = Forked([*options, "127.0.0.1"])
        out, err = client.communicate(60)
        server.communicate(60)
        assert client.returncode == server.returncode == 0, err
        said = json.loads(out)
        assert said["verified"] == args.iters
        return float(said["seconds"] / said["iterations"] * 1e6)

    def theirs() -> float:
        command = ["ibv_rc_pingpong", *map(str, common), "-p", str(next(ports))]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(50):  # it does not wait for its server, as ours does
            client = subprocess.run([*command, "127.0.0.1"], capture_output=True, text=True, check=False)
            if client.returncode == 0:
                break
        server.communicate(timeout=60)
        match = re.search(r"([\d.]+) usec/iter", client.stdout)
        assert match is not None, client.stderr
        return float(match[1])

    report(f"RC ping-pong, {args.size} bytes, {args.iters} iterations", alternate(ours, theirs, args.pairs), "µs")


if __name__ == "__main__":
    main()
