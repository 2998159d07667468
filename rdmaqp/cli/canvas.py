"""A sheet of characters on which lines join by themselves: crossing strokes become the right box-drawing glyph."""

from __future__ import annotations

from itertools import pairwise

from rich.text import Text

_NORTH, _EAST, _SOUTH, _WEST = 1, 2, 4, 8
#: By the sum of the directions in which strokes leave a cell.
_GLYPHS = " │─╰││╭├─╯─┴╮┤┬┼"
_DASHED = {"─": "╌", "│": "╎"}


class Canvas:
    """Strokes below, characters above; each cell has one style, the last that was put there."""

    def __init__(self) -> None:
        self._strokes: dict[tuple[int, int], int] = {}
        self._dashed: set[tuple[int, int]] = set()
        self._texts: dict[tuple[int, int], str] = {}
        self._styles: dict[tuple[int, int], str] = {}

    def stroke(self, *points: tuple[int, int], style: str = "", dashed: bool = False) -> None:
        """A line through *points* (x, y), each level with or right above or below the one before."""
        for (x, y), (to_x, to_y) in pairwise(points):
            step_x, step_y = _sign(to_x - x), _sign(to_y - y)
            ahead = {(1, 0): _EAST, (-1, 0): _WEST, (0, 1): _SOUTH, (0, -1): _NORTH}[step_x, step_y]
            back = {_EAST: _WEST, _WEST: _EAST, _NORTH: _SOUTH, _SOUTH: _NORTH}[ahead]
            while (x, y) != (to_x, to_y):
                self._leave(x, y, ahead, style, dashed=dashed)
                x, y = x + step_x, y + step_y
                self._leave(x, y, back, style, dashed=dashed)

    def _leave(self, x: int, y: int, way: int, style: str, *, dashed: bool) -> None:
        self._strokes[x, y] = self._strokes.get((x, y), 0) | way
        self._styles[x, y] = style
        if dashed:
            self._dashed.add((x, y))
        else:
            self._dashed.discard((x, y))

    def text(self, x: int, y: int, text: str, style: str = "") -> None:
        """Characters from (x, y) to the right, over whatever is there."""
        for place, character in enumerate(text):
            self._texts[x + place, y] = character
            self._styles[x + place, y] = style

    def box(self, x: int, y: int, width: int, height: int, style: str = "") -> None:
        """A rounded frame with nothing in it; strokes that end on it do not join."""
        flat = "─" * (width - 2)
        self.text(x, y, f"╭{flat}╮", style)
        for row in range(y + 1, y + height - 1):
            self.text(x, row, f"│{' ' * (width - 2)}│", style)
        self.text(x, y + height - 1, f"╰{flat}╯", style)

    def render(self) -> Text:
        """The sheet as lines, without blanks at their ends."""
        cells = self._texts.keys() | self._strokes.keys()
        sheet = Text(no_wrap=True)
        for y in range(max(y for _, y in cells) + 1):
            last = max((x for x, row in cells if row == y), default=-1)
            for x in range(last + 1):
                sheet.append(self._glyph(x, y), self._styles.get((x, y)) or None)
            sheet.append("\n")
        sheet.rstrip()
        return sheet

    def _glyph(self, x: int, y: int) -> str:
        if (x, y) in self._texts:
            return self._texts[x, y]
        glyph = _GLYPHS[self._strokes.get((x, y), 0)]
        return _DASHED.get(glyph, glyph) if (x, y) in self._dashed else glyph


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
