"""A histogram in plain text, for latencies: most of them close together, a few far away."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def histogram(values: Sequence[float], *, bins: int = 12, width: int = 80, unit: str = "µs") -> list[str]:
    """One line a bin: from, to, a bar, the count.

    Where the 99th percentile is near the lowest value, the bins are equally wide up to it and what is above goes into
    one last bin. Where it is far away, the bins grow by a constant factor, so that neither the crowd nor the
    stragglers are lost.
    """
    ordered = sorted(values)
    if not ordered:
        return []
    edges = _edges(ordered, bins)
    counts = _count(ordered, edges)
    texts = [f"{start:10.2f} – {end:10.2f} {unit} " for start, end in pairwise(edges)]
    room = max(10, width - len(texts[0]) - len(str(max(counts))) - 2)
    return [f"{text}{_bar(count / max(counts), room)} {count}" for text, count in zip(texts, counts, strict=True)]


def _edges(ordered: Sequence[float], bins: int) -> list[float]:
    low, high = ordered[0], ordered[-1]
    knee = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
    if high <= low:
        return [low, high]
    if low > 0 and knee > 3 * low:
        return [low * (high / low) ** (step / bins) for step in range(bins)] + [high]
    if knee <= low:
        knee = high
    edges = [low + (knee - low) * step / bins for step in range(bins)] + [knee]
    return [*edges, high] if high > knee else edges


def _count(ordered: Sequence[float], edges: Sequence[float]) -> list[int]:
    """How many fall into each bin; a value on an edge belongs to the lower one, the lowest of all to the first."""
    marks = [0, *(bisect_right(ordered, edge) for edge in edges[1:])]
    return [after - before for before, after in pairwise(marks)]


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(room)
