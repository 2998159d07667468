"""A chart in the terminal: lines of braille dots, two by four in each character, with a letter at each point."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp.cli.chart import figure_text, size_text

if TYPE_CHECKING:
    from rdmaqp.cli.chart import Chart, Series

#: The bit of each dot of a braille character, by column and row.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800
COLOURS = ("green", "blue", "magenta", "yellow")
_MARGIN = 7


def plot(chart: Chart, *, width: int = 72, height: int = 12) -> Text:
    """The chart with its axes, *width* characters wide; *height* is that of the lines alone."""
    room = width - _MARGIN - 2
    cells: dict[tuple[int, int], int] = {}
    styles: dict[tuple[int, int], str] = {}
    letters: dict[tuple[int, int], str] = {}
    for number, series in enumerate(chart.series):
        colour = COLOURS[number % len(COLOURS)]
        places = _places(chart, series, room, height)
        for x, y in _line(places):
            cell = x // 2, y // 4
            cells[cell] = cells.get(cell, 0) | _DOTS[x % 2][y % 4]
            styles[cell] = colour
        for x, y in places:
            cell = next(
                cell for shift in range(2 * room) for cell in ((x // 2 - shift, y // 4), (x // 2 + shift, y // 4))
                if cell not in letters and 0 <= cell[0] < room
            )  # fmt: skip - beside those of other lines that are as high here
            letters[cell] = series.name[0]
            styles[cell] = f"bold {colour}"
    labels = {_row(chart.y.share(tick), height): figure_text(tick) for tick in reversed(chart.y.ticks)}
    text = _head(chart)
    for row in range(height):
        text.append(f"{labels.get(row, ''):>{_MARGIN}} ", "dim").append("┤" if row in labels else "│", "dim")
        for column in range(room):
            shown = letters.get((column, row)) or chr(_BLANK + cells.get((column, row), 0))
            text.append(" " if shown == chr(_BLANK) else shown, styles.get((column, row)))
        text.append("\n")
    text.append_text(_foot(chart, room))
    return text


def _head(chart: Chart) -> Text:
    text = Text(" " * (_MARGIN + 1)).append(chart.title, "bold")
    for number, series in enumerate(chart.series):
        text.append(f"   {series.name[0]} {series.name}", COLOURS[number % len(COLOURS)])
    return text.append("\n")


def _foot(chart: Chart, room: int) -> Text:
    """The axis of sizes; a label that would touch the one before it is left out."""
    axis, labels = ["─"] * room, [" "] * (room + 1)
    free = 0
    for tick in chart.x.ticks:
        place, label = round(chart.x.share(tick) * (room - 1)), size_text(tick)
        start = min(max(place - len(label) // 2, 0), room - len(label))
        if start < free:
            continue
        axis[place] = "┴"
        labels[start : start + len(label)] = label
        free = start + len(label) + 1
    indent = " " * (_MARGIN + 1)
    return Text(f"{indent}└{''.join(axis)}\n{indent} {''.join(labels).rstrip()} bytes", "dim")


def _places(chart: Chart, series: Series, room: int, height: int) -> list[tuple[int, int]]:
    """The dots of the points; row 0 is the top."""
    return [
        (round(chart.x.share(x) * (room - 1)) * 2, _row(chart.y.share(y), height) * 4 + 1) for x, y in series.points
    ]


def _row(share: float, height: int) -> int:
    return round((1 - share) * (height - 1))


def _line(places: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """All dots on the straight ways between *places*."""
    dots = set(places)
    for (x, y), (to_x, to_y) in pairwise(places):
        steps = max(abs(to_x - x), abs(to_y - y), 1)
        dots |= {(x + round((to_x - x) * n / steps), y + round((to_y - y) * n / steps)) for n in range(steps)}
    return dots
