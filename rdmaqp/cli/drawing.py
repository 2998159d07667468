"""The state machine in the terminal, in 78 columns: the way up in the middle, RESET's rail left, ERR's rail right."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp.cli.canvas import Canvas
from rdmaqp.cli.picture import ERR, INIT, MAIN, RESET, RTR, RTS, SQD, SQE, Picture, names
from rdmaqp.guard.lore.states import STATES
from rdmaqp.model.enums import QPState

if TYPE_CHECKING:
    from rdmaqp.model.table import Arrow as Pair

_LEFT, _RIGHT = 1, 74  # the rails
_BOX, _WIDE, _HEIGHT = 4, 27, 4
_MIDDLE, _EDGE = _BOX + _WIDE // 2, _BOX + _WIDE - 1
_SQE, _SQE_WIDE = 39, 30
_DOWN, _UP, _AWAY = _BOX + 4, _BOX + 9, _BOX + 21  # RTS to SQD and back, RTS to SQE
_LABELS = 50

_STYLE = {"main": "green", "side": "blue", "reset": "cyan", "err": "magenta", "hardware": "yellow", "missing": "red"}


class Drawing:
    """One picture on one canvas; ``drawn`` are the arrows that are on it."""

    def __init__(self, picture: Picture, here: QPState | None = None) -> None:
        self.picture = picture
        self.here = here
        self.canvas = Canvas()
        self.drawn: set[Pair] = set()
        self.top: dict[QPState, int] = {}
        self._rows()
        self._rails()
        self._main()
        self._side()
        self._hardware()
        for state in QPState:
            self._state(state)

    def _rows(self) -> None:
        """Where each box begins: below the one before, and as far as the labels between them need."""
        row = 0
        for start, goal in MAIN:
            self.top[start] = row
            row += _HEIGHT + len(self._labels(start, goal)) + 1
            self.top[goal] = row
        self.top[SQD] = self.top[SQE] = row + _HEIGHT + 3
        self.top[ERR] = row + 2 * _HEIGHT + 5

    def _labels(self, start: QPState, goal: QPState) -> list[str]:
        arrow = self.picture.arrows.get((start, goal))
        text = "\0".join(names(arrow.required)) if arrow else ""
        lines = textwrap.wrap(text.replace("\0", "  "), _LABELS, break_long_words=False)
        return lines or [""]

    def _stroke(
        self, pair: Pair, kind: str, *points: tuple[int, int], head: str = "", cross: tuple[int, int] | None = None
    ) -> None:
        """An arrow, if there is one: in its colour, or dashed in red with a cross where the driver has it not."""
        arrow = self.picture.arrows.get(pair)
        if arrow is None:
            return
        self.drawn.add(pair)
        style = _STYLE["missing" if arrow.missing else kind]
        if not self.picture.reaches(pair[0]) and not arrow.missing:
            style = f"dim {style}"
        self.canvas.stroke(*points, style=style, dashed=bool(arrow.missing))
        if head:
            self.canvas.text(*points[-1], head, style)
        if arrow.missing:
            (x, y), (to_x, to_y) = points[0], points[1]
            self.canvas.text(*(cross or ((x + to_x + 1) // 2, (y + to_y) // 2)), "✗", "bold red")

    # ------------------------------------------------------------------ strokes

    def _rails(self) -> None:
        """All ways to RESET on the left, all ways to ERR on the right."""
        for goal, rail, style in ((RESET, _LEFT, "reset"), (ERR, _RIGHT, "err")):
            users = [start for start, end in self.picture.arrows if end is goal and start is not goal]
            direct = [
                start for start in users
                if not self.picture.arrows[start, goal].missing and (start, goal) != (SQD, ERR)
            ]
            if direct:
                rows = [self._exit(start, goal) for start in direct] + [self.top[goal] + 1]
                self.canvas.stroke((rail, min(rows)), (rail, max(rows)), style=_STYLE[style])
                edge = _BOX - 1 if goal is RESET else _EDGE + 1
                self.canvas.stroke((rail, self.top[goal] + 1), (edge, self.top[goal] + 1), style=_STYLE[style])
                self.canvas.text(edge, self.top[goal] + 1, "▶" if goal is RESET else "◀", _STYLE[style])
            for start in users:
                self._to_rail(start, goal, rail, style)

    def _exit(self, start: QPState, goal: QPState) -> int:
        """The row in which *start* joins the rail of *goal*."""
        return self.top[start] + (_HEIGHT if (start, goal) == (SQE, RESET) else 1)

    def _to_rail(self, start: QPState, goal: QPState, rail: int, style: str) -> None:
        row = self._exit(start, goal)
        if (start, goal) == (SQD, ERR):
            self._stroke((start, goal), style, (_MIDDLE, row + 2), (_MIDDLE, self.top[ERR] - 1), head="▼")
        elif (start, goal) == (SQE, RESET):
            x = _SQE + _SQE_WIDE // 2
            self._stroke((start, goal), style, (x, row - 1), (x, row), (rail, row), cross=(x - 6, row))
            if (SQD, ERR) in self.picture.arrows:  # one crossing cannot be avoided: the upright stroke passes over
                is_missing = self.picture.arrows[SQD, ERR].missing
                self.canvas.text(_MIDDLE, row, "╎" if is_missing else "│", _STYLE["missing" if is_missing else "err"])
        else:
            edge = _BOX if goal is RESET else (_SQE + _SQE_WIDE - 1 if start is SQE else _EDGE)
            self._stroke((start, goal), style, (edge, row), (rail, row))

    def _main(self) -> None:
        for start, goal in MAIN:
            bottom = self.top[start] + _HEIGHT
            self._stroke((start, goal), "main", (_MIDDLE, bottom - 1), (_MIDDLE, self.top[goal] - 1), head="▼")
            for place, label in enumerate(self._labels(start, goal)):
                self.canvas.text(_MIDDLE + 3, bottom + place, label, "bold")
            if (start, goal) in self.picture.arrows and self._labels(start, goal) == [""]:
                self.canvas.text(_MIDDLE + 3, bottom, "the state alone", "dim")

    def _side(self) -> None:
        bottom, side = self.top[RTS] + _HEIGHT - 1, self.top[SQD]
        self._stroke((RTS, SQD), "side", (_DOWN, bottom), (_DOWN, side - 1), head="▼")
        self._stroke((SQD, RTS), "side", (_UP, side), (_UP, bottom + 1), head="▲")
        x, row = _SQE + _SQE_WIDE - 8, self.top[RTS] + 2
        self._stroke((SQE, RTS), "side", (x, side), (x, row), (_EDGE + 1, row), head="◀")

    def _hardware(self) -> None:
        row, style = self.top[RTS] + _HEIGHT, _STYLE["hardware"]
        for pair, when in self.picture.by_hardware:
            if pair[1] is SQE:
                x = _SQE + 6
                bent = (_AWAY, row - 1), (_AWAY, row + 1), (x, row + 1), (x, row + 2)
                self.canvas.stroke(*bent, style=style, dashed=True)
                self.canvas.text(x, row + 2, "▼", style)
                self.canvas.text(_AWAY + 2, row, when, style)
            else:
                self.canvas.text(_EDGE + 3, self.top[RTS], f"also by itself, when {when}", style)
            self.drawn.add(pair)

    # ------------------------------------------------------------------ boxes

    def _state(self, state: QPState) -> None:
        x, width = (_SQE, _SQE_WIDE) if state is SQE else (_BOX, _WIDE)
        y, is_here = self.top[state], state is self.here
        faint = "" if self.picture.reaches(state) else "dim"
        frame = "bold yellow" if is_here else faint
        self.canvas.box(x, y, width, _HEIGHT, frame)
        self.canvas.text(x + 1, y + 1, state.name.center(width - 2), frame or "bold")
        self.canvas.text(x + 1, y + 2, STATES[state].picture.center(width - 2), frame or "dim")
        loop = self.picture.arrows.get((state, state))
        if loop is not None:
            self.drawn.add((state, state))
            self.canvas.text(x + width - 4, y + 1, "✗↺" if loop.missing else " ↺", "red" if loop.missing else "blue")
        for (start, goal), arrow in self.picture.arrows.items():
            self._joint(state, start, goal, missing=bool(arrow.missing))

    def _joint(self, state: QPState, start: QPState, goal: QPState, *, missing: bool) -> None:
        """Where an arrow leaves a box, the frame shows it."""
        if start is not state or goal is start or missing:
            return
        row, bottom = self.top[start] + 1, self.top[start] + _HEIGHT - 1
        sideways = (_SQE + _SQE_WIDE - 1 if start is SQE else _EDGE, row, "├", "err")
        x, y, glyph, kind = _JOINTS.get((start, goal)) or (
            (_BOX, row, "┤", "reset") if goal is RESET else sideways if goal is ERR else (_MIDDLE, bottom, "┬", "main")
        )
        style = _STYLE[kind] if self.picture.reaches(start) else f"dim {_STYLE[kind]}"
        self.canvas.text(x, bottom if y == _BOTTOM else self.top[start] if y == _TOP else y, glyph, style)


_TOP, _BOTTOM = -1, -2
#: Where those arrows leave that do not go straight to a rail or down the middle.
_JOINTS = {
    (RTS, SQD): (_DOWN, _BOTTOM, "┬", "side"), (SQD, RTS): (_UP, _TOP, "┴", "side"),
    (SQE, RTS): (_SQE + _SQE_WIDE - 8, _TOP, "┴", "side"), (SQD, ERR): (_MIDDLE, _BOTTOM, "┬", "err"),
    (SQE, RESET): (_SQE + _SQE_WIDE // 2, _BOTTOM, "┬", "reset"),
}  # fmt: skip


def draw(picture: Picture, here: QPState | None = None) -> Text:
    """The drawing, with its legend; *here* stands out."""
    drawing = Drawing(picture, here)
    text = Text.assemble((f"  {picture.title}", "bold"), "\n\n")
    text.append_text(drawing.canvas.render())
    text.append_text(legend(picture))
    return text


def legend(picture: Picture) -> Text:
    """What the signs mean, and why arrows are missing."""
    text = Text("\n\n")
    text.append("  Names at an arrow: what it requires. The others need the state alone.\n", "dim")
    text.append("  ↺ ", "blue").append("attributes change, the state stays", "dim")
    unreached = [state.name for state in (INIT, RTR, RTS, SQD, SQE, ERR) if not picture.reaches(state)]
    if unreached:
        text.append(f"   Grey: none ever gets to {', '.join(unreached)}.", "dim")
    for reason, arrows in picture.reasons():
        said = textwrap.fill(f"{', '.join(arrows)}: {reason}", 76, subsequent_indent="    ", break_on_hyphens=False)
        text.append("\n  ✗ ", "bold red").append(said, "red")
    return text


