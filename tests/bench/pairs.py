"""Two ways in turn, and the ratio pair by pair: what a drifting machine leaves comparable."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence


def alternate(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Run both *pairs* times, the order turned round each time, after one pair that does not count."""
    ours()
    theirs()
    times = []
    for number in range(pairs):
        if number % 2:
            other = theirs()
            times.append((ours(), other))
        else:
            times.append((ours(), theirs()))
        print(f"  pair {number + 1:3} of {pairs}: ours {times[-1][0]:10.2f}, theirs {times[-1][1]:10.2f}", flush=True)
    return times


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The median and its interval by order statistics: no assumption about the distribution.

    The interval runs from the k-th smallest to the k-th largest value, k the largest for which a fair coin thrown
    len(values) times shows fewer than k heads with at most half of what *confidence* leaves.
    """
    ordered, count = sorted(values), len(values)
    tail, k = 0.0, 0
    while k < count // 2:
        tail += math.comb(count, k) / 2**count
        if tail > (1 - confidence) / 2:
            break
        k += 1
    low = max(k - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[count - 1 - low]


def report(title: str, times: Sequence[tuple[float, float]], unit: str) -> None:
    """Both medians, and the ratio with its interval."""
    ratio, low, high = median_interval([ours / theirs for ours, theirs in times])
    print(f"{title}: {len(times)} alternated pairs")
    print(f"  ours    median {statistics.median(ours for ours, _ in times):.2f} {unit}")
    print(f"  theirs  median {statistics.median(theirs for _, theirs in times):.2f} {unit}")
    print(f"  ratio   median {ratio:.3f}, 95 % interval {low:.3f} … {high:.3f}")
