"""What the binding itself costs: post, poll and loops, on a null device whose posts and polls cost nothing.

    python tests/bench/data_path.py [--rounds 30] [--pyverbs PATH] [--python /usr/bin/python3]

Side by side with what is there of pyverbs (Debian: python3-pyverbs, of the Python that --python names; --pyverbs is
where it has been unpacked, if it is not installed), PyPI ``ibverbs`` (pip install ibverbs) and plain C. One process a
side; they take turns, work by work, in each round. A figure is the least of all rounds; a ratio is the median of the
rounds' ratios, with its 95 % interval. Where the machine is busy the intervals are wide: run it again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.pairs import median_interval
from stub import build, compile_program

HERE = Path(__file__).parent

#: What is compared: the work of ours, what it is called, the peer's work, by which side, and the ratio to be reached.
GOALS = [
    ("round", "post + poll + status, one round", "round", ("ibverbs", "pyverbs"), 0.5),
    ("records of ours", "new requests, 64 of SendRecords, each", "chain", ("ibverbs",), 0.5),
    ("records", "new requests, 64 of a NumPy array, each", "chain", ("ibverbs",), 0.5),
    ("records of ours", "the same against new ones of theirs", "new", ("ibverbs",), 0.5),
    ("chain", "prebuilt chain of 64, each", "chain", ("pyverbs",), 3.0),
    ("completions", "64 completions into an array, each", "completions", ("ibverbs",), 0.3),
    ("pingpong", "ping-pong in C, a message", "pingpong", ("plain C",), 1.1),
]


class Side:
    """A process that measures one work when told its name."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.works = {name.replace("_", " ") for name in self._line().split()}
        self.times: dict[str, list[float]] = {name: [] for name in self.works}

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def measure(self, work: str) -> None:
        assert self.process.stdin
        print(work.replace(" ", "_"), file=self.process.stdin, flush=True)
        self.times[work].append(float(self._line()))

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def sides(place: Path, python: str, pyverbs: str | None) -> dict[str, Side]:
    """Those that can be had here; which cannot is said."""
    library = build(place)
    plain = compile_program(HERE / "data_path_plain.c", place, "-O2", "-Wno-unused-result")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RDMAQP_STUB_")}
    environment |= {"LD_LIBRARY_PATH": str(library), "RDMAQP_STUB_HOT": "free"}
    script = str(HERE / "data_path_sides.py")
    there = environment | ({"PYTHONPATH": pyverbs} if pyverbs else {})
    found = {
        "rdmaqp": Side([sys.executable, script, "rdmaqp"], environment),
        "pyverbs": Side([python, script, "pyverbs"], there),
        "ibverbs": Side([sys.executable, script, "ibverbs"], environment),
        "plain C": Side([str(plain)], environment),
    }
    for name, side in found.items():
        if not side.works:
            print(f"{name} cannot be measured here")
    return {name: side for name, side in found.items() if side.works}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--pyverbs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rdmaqp-bench-") as place:
        found = sides(Path(place), args.python, args.pyverbs)
        names = list(found)
        for number in range(args.rounds):
            turn = names[number % len(names) :] + names[: number % len(names)]
            for work in sorted(set().union(*(side.works for side in found.values()))):
                for name in turn:
                    if work in found[name].works:
                        found[name].measure(work)
            print(f"\r{number + 1} of {args.rounds} rounds", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        for side in found.values():
            side.end()
    report(found)


def report(found: dict[str, Side]) -> None:
    ours = found["rdmaqp"].times
    print(f"{'ns, the least of all rounds':42} {'rdmaqp':>8} {'peer':>8}  {'ratio, 95 % interval':24} of least  goal")
    for work, title, theirs, peers, goal in GOALS:
        there = [name for name in peers if name in found]
        if not there:
            print(f"{title:42} {min(ours[work]):8.1f}  (nobody to compare with)")
            continue
        peer = min(there, key=lambda name: min(found[name].times[theirs]))
        times = found[peer].times[theirs]
        ratio, low, high = median_interval([mine / other for mine, other in zip(ours[work], times, strict=True)])
        least = min(ours[work]) / min(times)
        print(f"{title:42} {min(ours[work]):8.1f} {min(times):8.1f}  {ratio:.3f} ({low:.3f} … {high:.3f}) {peer:8} "
              f"{least:.3f}  ≤ {goal}")


if __name__ == "__main__":
    main()
