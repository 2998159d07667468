"""How many requests a second ``rdmaqp check --json`` answers, and where the time goes.

    python tests/bench/check_stream.py [REQUESTS]

The requests are the 315 public and made-up cases, over and over, each with an id of its own. Wall time is that of the
whole command, its start included; processor time is that of all its processes, which other programs change less.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rdmaqp.cli.check import _as_json
from rdmaqp.guard import check
from rdmaqp.model import codec

CASES = Path(__file__).parent.parent / "cases"
ROUNDS = 5


def requests() -> list[dict[str, Any]]:
    text = "".join((CASES / f"{name}.jsonl").read_text() for name in ("reports", "synthetic"))
    return [json.loads(line)["request"] for line in text.splitlines()]


def microseconds(step: Callable[[Any], object], inputs: Sequence[Any]) -> float:
    """The best of a few rounds: what is slower was disturbed."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for value in inputs:
            step(value)
        best = min(best, time.process_time() - start)
    return best / len(inputs) * 1e6


def steps(lines: list[str]) -> None:
    read = [codec.loads(line) for line in lines]
    judged = [(request, check(request)) for request in read]
    print("a request, µs of one processor:")
    for name, step, inputs in (
        ("text to a Request", codec.loads, lines), ("the guard", check, read),
        ("answer to text", lambda pair: _as_json(0, *pair), judged),
    ):  # fmt: skip
        print(f"  {name:22} {microseconds(step, inputs):6.1f}")


def command(file: Path, count: int, jobs: int) -> None:
    arguments = [sys.executable, "-m", "rdmaqp", "check", "--json", "-j", str(jobs), str(file)]
    walls, cpus = [], []
    for _ in range(ROUNDS):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - start)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    wall, cpu = sorted(walls), sorted(cpus)
    print(f"  -j {jobs}: {count / wall[ROUNDS // 2]:8,.0f} a second (best {count / wall[0]:,.0f}); "
          f"{count / cpu[ROUNDS // 2]:,.0f} a second of one processor")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    known = requests()
    lines = [json.dumps({"id": number, **known[number % len(known)]}) for number in range(count)]
    print(f"{count} requests of {sum(map(len, lines)) // count} bytes; load {os.getloadavg()[0]:.1f} on "
          f"{len(os.sched_getaffinity(0))} processors")
    steps(lines[: 4 * len(known)])
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "requests.jsonl"
        file.write_text("\n".join(lines))
        print(f"the command, median of {ROUNDS}:")
        for jobs in sorted({1, len(os.sched_getaffinity(0))}):
            command(file, count, jobs)


if __name__ == "__main__":
    main()
