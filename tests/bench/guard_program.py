"""What `rdmaqp guard` costs a C program: each modify call, and its messages. Bare and guarded in turn.

    python tests/bench/guard_program.py                          # on the null device: at most 0.5 ms a call
    rdmaqp lab run --memory 2G -- python tests/bench/guard_program.py --device rxe0     # in the lab: at most 6 ms
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.pairs import alternate, median_interval
from preload.conftest import compiled
from preload.watching import PATIENCE
from stub import build, compile_program

GUARD = [sys.executable, "-m", "rdmaqp", "guard", "--quiet", "--"]
HERE = Path(__file__).parent


def output(words: list[str], environment: Mapping[str, str], given: str = "") -> str:
    """What a program prints; it has to end well."""
    return subprocess.run(
        words, env=dict(environment), input=given, capture_output=True, text=True, timeout=PATIENCE, check=True
    ).stdout  # fmt: skip


def calls(words: list[str], environment: Mapping[str, str]) -> list[float]:
    """Microseconds of each call but the first, which looks the library up."""
    return [int(line) / 1000 for line in output(words, environment).splitlines()[1:]]


def modify(place: Path, environment: Mapping[str, str], limit_ms: float, count: int) -> bool:
    """The cost of a modify call; whether it keeps the limit."""
    program = [str(compiled("linked", place, "-O2", "-libverbs", "-pthread")), "loop", str(count)]
    bare, guarded = [], []
    for _ in range(3):
        bare += calls(program, environment)
        guarded += calls([*GUARD, *program], environment)
    middle, low, high = median_interval(guarded)
    added = (middle - statistics.median(bare)) / 1000
    print(f"ibv_modify_qp: bare {statistics.median(bare):.1f} µs, guarded {middle:.1f} µs ({low:.1f}…{high:.1f}), "
          f"99 of 100 within {sorted(guarded)[len(guarded) * 99 // 100]:.1f} µs: {added:.3f} ms more "
          f"(at most {limit_ms} ms)")  # fmt: skip
    return added <= limit_ms


def messages(what: str, run: Callable[[list[str]], float], pairs: int) -> None:
    """The ratio of what messages cost, guarded to bare."""
    ratios = [ours / theirs for ours, theirs in alternate(lambda: run(GUARD), lambda: run([]), pairs)]
    middle, low, high = median_interval(ratios)
    print(f"{what}: {middle:.3f} times as long guarded as bare ({low:.3f}…{high:.3f})")


def on_the_null_device(place: Path, pairs: int) -> bool:
    """Where posts and polls cost nothing, and whatever the guard cost would show."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("RDMAQP_STUB_")}
    own |= {"LD_LIBRARY_PATH": str(build(place)), "RDMAQP_STUB_HOT": "free"}
    good = modify(place, own, 0.5, 500)
    plain = compile_program(HERE / "data_path_plain.c", place, "-O2", "-Wno-unused-result")

    def nanoseconds(before: list[str]) -> float:
        # Where the stack begins hangs on the length of the environment, and loops of 15 ns hang on that.
        padding = {} if before else {"PADDING": "x" * 300}
        return float(output([*before, str(plain)], own | padding, "round\n").split()[-1])

    messages("post, poll and check", nanoseconds, pairs)
    return good


def in_the_lab(place: Path, device: str, pairs: int) -> bool:
    """On a real kernel."""
    good = modify(place, os.environ, 6, 100)

    def round_trip(before: list[str]) -> float:
        words = ["ibv_rc_pingpong", "-d", device, "-g", "1", "-n", "2000"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        subprocess.run(["sh", "-c", "until grep -q ':4853 [0-9A-F:]* 0A' /proc/net/tcp*; do sleep 0.1; done"],
                       check=True, timeout=PATIENCE)  # fmt: skip
        said = output([*before, *words, "127.0.0.1"], os.environ)
        server.communicate(timeout=PATIENCE)
        match = re.search(r"= ([\d.]+) usec/iter", said)
        assert match is not None, said
        return float(match[1])

    messages("ibv_rc_pingpong, a round trip", round_trip, pairs)
    return good


def main() -> int:
    """Measure; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="a real one; without it, the null device")
    parser.add_argument("--pairs", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        good = in_the_lab(place, args.device, args.pairs) if args.device else on_the_null_device(place, args.pairs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
