"""What a chart of figures over message sizes shows, whatever draws it: series, and logarithmic axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.connection.bench_plan import Row


@dataclass(frozen=True)
class Series:
    """A line: its name, and its points (bytes, figure), by bytes."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from *low* to *high*, with the places that are labeled."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where *value* stands, 0…1."""
        return math.log(value / self.low) / math.log(self.high / self.low)


@dataclass(frozen=True)
class Chart:
    """One figure over the sizes."""

    title: str
    series: tuple[Series, ...]

    @property
    def x(self) -> Axis:
        """Sizes, by powers of two; a single one stands in the middle."""
        sizes = sorted({x for one in self.series for x, _ in one.points})
        low, high = sizes[0], sizes[-1]
        ticks = sizes if len(sizes) <= _MOST_TICKS else sizes[:: -(-len(sizes) // _MOST_TICKS)]
        return Axis(low / 2, high * 2, tuple(ticks)) if low == high else Axis(low, high, tuple(ticks))

    @property
    def y(self) -> Axis:
        """Figures, by tens, with 2 and 5 between where the axis is short."""
        values = [y for one in self.series for _, y in one.points]
        low, high = min(values), max(values)
        for steps in ((1,), (1, 2, 5), tuple(range(1, 10))):
            start, end = _floor(low, steps), _ceiling(high, steps)
            if end == start:
                end = _ceiling(high * 1.01, steps)
            ticks = [tick for tick in _ladder(start, end, steps) if start <= tick <= end]
            if len(ticks) >= _FEWEST_TICKS:
                break
        while len(ticks) > _MOST_TICKS:
            ticks = ticks[::2]
        return Axis(start, end, tuple(ticks))


_FEWEST_TICKS, _MOST_TICKS = 3, 9


def _ladder(low: float, high: float, steps: Sequence[int]) -> list[float]:
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    return [float(f"{step}e{decade}") for decade in decades for step in steps]


def _floor(value: float, steps: Sequence[int]) -> float:
    return max(tick for tick in _ladder(value, value, steps) if tick <= value)


def _ceiling(value: float, steps: Sequence[int]) -> float:
    return min(tick for tick in _ladder(value, value, steps) if tick >= value)


def charts(rows: Sequence[Row], kind: str) -> list[Chart]:
    """The charts of a benchmark: of "rate" the message rate, else latency and bandwidth, where there are any."""
    figures: list[tuple[str, Callable[[Row], float | None]]] = [
        ("latency, µs (p50)", lambda row: (row.latency_us or {}).get("p50")),
        ("bandwidth, MB/s", lambda row: None if kind == "rate" else row.mb_per_s),
        ("messages a second", lambda row: row.messages_per_s if kind == "rate" else None),
    ]
    made = []
    for title, figure in figures:
        found: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            value = figure(row)
            if value:
                found.setdefault(row.case.operation.upper(), []).append((row.case.size, value))
        if found:
            made.append(Chart(title, tuple(Series(name, tuple(sorted(points))) for name, points in found.items())))
    return made


def size_text(size: float) -> str:
    """Bytes, short: 64, 4K, 8M."""
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size / unit:g}{name}"
    return f"{size:g}"


def figure_text(value: float) -> str:
    """A figure at an axis, short: 0.5, 20, 5k, 2M."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
