"""Charts as an SVG, one below the other; it needs nothing but a browser."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rdmaqp.cli.chart import figure_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rdmaqp.cli.chart import Chart

_WIDTH, _LEFT, _RIGHT = 760, 76, 24
_HEAD, _PLOT, _PANEL = 72, 220, 320
_COLOURS = ("#15803d", "#2563eb", "#a21caf", "#b45309")
_STYLE = """
    text { font-family: Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif; font-size: 13px;
           fill: #52606d; }
    .title { font-size: 21px; font-weight: 700; fill: #1f2a37; }
    .figure { font-size: 15px; font-weight: 600; fill: #1f2a37; }
    .grid { stroke: #e2e8f0; } .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
"""


def svg(title: str, charts: Sequence[Chart]) -> str:
    """The whole document."""
    height = _HEAD + _PANEL * len(charts)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>", f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="{_LEFT}" y="40">{escape(title)}</text>',
        *(part for place, chart in enumerate(charts) for part in _panel(chart, _HEAD + _PANEL * place)), "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _panel(chart: Chart, top: int) -> list[str]:
    floor = top + 34 + _PLOT

    def at(x: float, y: float) -> tuple[float, float]:
        return (_LEFT + chart.x.share(x) * (_WIDTH - _LEFT - _RIGHT), floor - chart.y.share(y) * _PLOT)

    parts = [f'<text class="figure" x="{_LEFT}" y="{top + 14}">{escape(chart.title)}</text>']
    for tick in chart.y.ticks:
        _, y = at(chart.x.low, tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f} H{_WIDTH - _RIGHT}"/>'
                     f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{figure_text(tick)}</text>')
    for tick in chart.x.ticks:
        x, _ = at(tick, chart.y.low)
        parts.append(f'<path class="grid" d="M{x:.1f} {floor} v6"/>'
                     f'<text x="{x:.1f}" y="{floor + 20}" text-anchor="middle">{size_text(tick)}</text>')
    for number, series in enumerate(chart.series):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [at(x, y) for x, y in series.points]
        line = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path class="line" stroke="{colour}" d="M{line}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{escape(series.name)}, '
            f"{size_text(size)} bytes: {figure:.6g}</title></circle>"
            for (x, y), (size, figure) in zip(places, series.points, strict=True)
        ]
        parts.append(f'<text x="{_WIDTH - _RIGHT - 90 * (len(chart.series) - number) + 20}" y="{top + 14}" '
                     f'style="fill:{colour};font-weight:600">● {escape(series.name)}</text>')
    return parts
