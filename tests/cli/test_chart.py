"""Charts: every point is drawn where it belongs, whatever the spread; axes hold all of it, with labels that fit."""

from __future__ import annotations

import math
import re

import pytest

from rdmaqp.cli.chart import Chart, Series, figure_text, size_text
from rdmaqp.cli.chart_svg import svg
from rdmaqp.cli.plot import plot

SIZES = [1 << power for power in range(1, 24)]
CHARTS = {
    "one point": Chart("t", (Series("SEND", ((64, 3.0),)),)),
    "two alike": Chart("t", (Series("SEND", ((64, 3.0), (128, 3.0))),)),
    "all sizes": Chart("t", (Series("SEND", tuple((x, 0.5 + x / 1e5) for x in SIZES)),)),
    "four": Chart("t", tuple(Series(name, ((64, n + 1.0), (4096, 1000.0 * (n + 1)))) for n, name in enumerate("ABCD"))),
    "far": Chart("t", (Series("SEND", ((2, 1e-3), (1 << 23, 9.9e8))),)),
}


@pytest.mark.parametrize("name", CHARTS)
def test_axes_hold_every_point(name: str) -> None:
    chart = CHARTS[name]
    for series in chart.series:
        for x, y in series.points:
            assert 0 <= chart.x.share(x) <= 1
            assert -1e-9 <= chart.y.share(y) <= 1 + 1e-9
    for axis in (chart.x, chart.y):
        assert axis.low < axis.high
        assert 1 <= len(axis.ticks) <= 9
        assert list(axis.ticks) == sorted(axis.ticks)


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("width", [40, 78])
def test_each_line_of_the_plot_fits_and_each_series_is_there(name: str, width: int) -> None:
    chart = CHARTS[name]
    lines = plot(chart, width=width, height=10).plain.splitlines()
    assert len(lines) == 13
    assert all(len(line) <= width for line in lines[1:-2])
    body = "".join(line[8:] for line in lines[1:-2])
    for series in chart.series:
        assert series.name[0] in body


def test_a_rising_line_rises() -> None:
    lines = plot(CHARTS["all sizes"], width=60, height=12).plain.splitlines()[1:-2]
    columns = {line.index("S", 9): row for row, line in enumerate(lines) if "S" in line[9:]}
    rows = [columns[column] for column in sorted(columns)]
    assert rows == sorted(rows, reverse=True)
    assert len(rows) > 3


def test_points_in_the_svg_stand_by_their_logarithms() -> None:
    text = svg("title <&>", [CHARTS["far"], CHARTS["four"]])
    assert "title &lt;&amp;&gt;" in text
    places = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)]
    assert len(places) == 2 + 8
    assert places[0][0] < places[1][0]
    assert places[0][1] > places[1][1]


def test_numbers_are_short() -> None:
    assert [size_text(size) for size in (2, 64, 1024, 1536, 65536, 8 << 20)] == ["2", "64", "1K", "1536", "64K", "8M"]
    assert [figure_text(value) for value in (0.05, 2, 5000, 2e6, 1e9)] == ["0.05", "2", "5k", "2M", "1G"]
    assert math.isclose(CHARTS["far"].y.high, 1e9)
