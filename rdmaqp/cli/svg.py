"""The state machine as an SVG: the same picture as in the terminal, with room. It needs nothing but a browser."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rdmaqp.cli.picture import ERR, INIT, MAIN, RESET, RTR, RTS, SQD, SQE, Picture, names
from rdmaqp.guard.lore.states import STATES
from rdmaqp.model.enums import QPState

if TYPE_CHECKING:
    from rdmaqp.guard.lore.machine import Arrow

_W, _H, _X = 240, 68, 130  # a box, and where those in the middle begin
_MID, _RIGHT = _X + _W // 2, _X + _W
_LEFT_RAIL, _RIGHT_RAIL = 64, 876
_TOP = {RESET: 90, INIT: 250, RTR: 440, RTS: 632, SQD: 830, SQE: 830, ERR: 998}
_SQE_X = 520
_WIDTH, _FOOT = 940, 1106
_ROUND = 14
_PILLS = 3  # in a row

_INK, _GREY = "#1f2a37", "#9aa5b1"
_COLOURS = {
    "main": "#15803d", "side": "#2563eb", "reset": "#0e7490", "err": "#a21caf", "hardware": "#b45309",
    "missing": "#dc2626", "grey": _GREY,
}  # fmt: skip
_FILLS = {
    RESET: ("#eef2f6", "#64748b"), INIT: ("#fef9e7", "#ca8a04"), RTR: ("#e8f4fd", "#0284c7"),
    RTS: ("#e9f9ee", "#15803d"), SQD: ("#eef2ff", "#4f46e5"), SQE: ("#fff4e6", "#c2570c"), ERR: ("#fdecec", "#b91c1c"),
}  # fmt: skip
_STYLE = """
    text { font-family: Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif; fill: #1f2a37; }
    .mono { font-family: 'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 12.5px; }
    .name { font-size: 21px; font-weight: 700; text-anchor: middle; }
    .picture { font-size: 13.5px; fill: #52606d; text-anchor: middle; }
    .small { font-size: 13px; fill: #52606d; }
    .arrow path { fill: none; stroke-width: 2; stroke-linejoin: round; }
    .arrow.main path { stroke-width: 3; }
    .arrow .halo { stroke: #fff; stroke-width: 9; }
"""
Point = tuple[float, float]


def svg(picture: Picture) -> str:
    """The whole document."""
    arrows = [_arrow(picture, arrow) for arrow in picture.arrows.values()]
    reasons = _reasons(picture)
    height = _FOOT + 22 * len(reasons) + 58
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(picture.title)}: state machine">',
        f"<style>{_STYLE}</style>", _heads(),
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_X}" y="50" style="font-size:25px;font-weight:700">{escape(picture.title)}</text>',
        *sorted(arrows, key=_order), _hardware(picture), *(_box(picture, state) for state in QPState),
        *_labels(picture), *_foot(reasons), "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _order(drawn: str) -> int:
    """Grey arrows go under the others, and the one that passes over another goes last."""
    return 2 if "halo" in drawn else 0 if _GREY in drawn else 1


def _heads() -> str:
    """An arrow head of each colour."""
    head = (
        '<marker id="{0}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="{2}" markerHeight="{2}" '
        'orient="auto-start-reverse" markerUnits="userSpaceOnUse">'
        '<path d="M0 .8 L10 5 L0 9.2 Q2.5 5 0 .8z" fill="{1}"/></marker>'
    )
    heads = "".join(head.format(name, colour, 15 if name == "main" else 12) for name, colour in _COLOURS.items())
    return f"<defs>{heads}</defs>"


# ---------------------------------------------------------------------- arrows


def _arrow(picture: Picture, arrow: Arrow) -> str:
    """One arrow, with its whole row of the table as a tooltip."""
    kind, points = _route(arrow.start, arrow.goal)
    halo = (arrow.start, arrow.goal) == (SQD, ERR)
    if arrow.missing:
        return _group(arrow, "missing", _path(_missing_part(arrow, points)), cross=_cross(arrow, points), halo=halo)
    colour = kind if picture.reaches(arrow.start) else "grey"
    line = _loop(arrow.start) if arrow.start is arrow.goal else _path(points)
    return _group(arrow, kind, line, colour=colour, halo=halo)


def _group(
    arrow: Arrow, kind: str, line: str, *, colour: str = "", cross: Point | None = None, halo: bool = False
) -> str:  # fmt: skip
    colour = colour or kind
    title = f"{arrow.start.name} → {arrow.goal.name}"
    title += f": {arrow.missing}" if arrow.missing else ""
    title += f"\nrequired: {', '.join(names(arrow.required)) or 'nothing'}"
    title += f"\noptional: {', '.join(names(arrow.optional)) or 'nothing'}"
    dash = ' stroke-dasharray="6 5"' if kind == "missing" else ""
    parts = [f'<g class="arrow {kind}"><title>{escape(title)}</title>']
    if halo:
        parts.append(f'<path class="halo" d="{line}"/>')
    parts.append(f'<path d="{line}" stroke="{_COLOURS[colour]}" marker-end="url(#{colour})"{dash}/>')
    if cross is not None:
        x, y = cross
        parts.append(f'<circle cx="{x}" cy="{y}" r="9" fill="#fff" stroke="{_COLOURS["missing"]}" stroke-width="1.5"/>'
                     f'<path d="M{x - 4} {y - 4} l8 8 m0 -8 l-8 8" stroke="{_COLOURS["missing"]}"/>')
    return "".join([*parts, "</g>"])


def _route(start: QPState, goal: QPState) -> tuple[str, list[Point]]:
    """The kind of an arrow, and the corners that it goes through."""
    top, end = _TOP[start], _TOP[goal]
    if (start, goal) in MAIN:
        return "main", [(_MID, top + _H), (_MID, end - 2)]
    if start is goal:
        return "side", [(_loop_x(start), top), (_loop_x(start) + 26, top)]
    special: dict[tuple[QPState, QPState], tuple[str, list[Point]]] = {
        (RTS, SQD): ("side", [(_X + 40, top + _H), (_X + 40, end - 2)]),
        (SQD, RTS): ("side", [(_X + 84, top), (_X + 84, end + _H + 2)]),
        (SQE, RTS): ("side", [(_SQE_X + 190, top), (_SQE_X + 190, end + 50), (_RIGHT + 2, end + 50)]),
        (SQD, ERR): ("err", [(_MID, top + _H), (_MID, end - 2)]),
        (SQE, RESET): ("reset", [
            (_SQE_X + _W // 2, top + _H), (_SQE_X + _W // 2, top + _H + 46), (_LEFT_RAIL, top + _H + 46),
            (_LEFT_RAIL, _TOP[RESET] + 34), (_X - 2, _TOP[RESET] + 34),
        ]),
    }  # fmt: skip
    if (start, goal) in special:
        return special[start, goal]
    if goal is RESET:
        return "reset", [(_X, top + 34), (_LEFT_RAIL, top + 34), (_LEFT_RAIL, end + 34), (_X - 2, end + 34)]
    edge, row = (_SQE_X + _W, top + 34) if start is SQE else (_RIGHT, top + 20)
    return "err", [(edge, row), (_RIGHT_RAIL, row), (_RIGHT_RAIL, end + 34), (_RIGHT + 2, end + 34)]


def _loop_x(state: QPState) -> float:
    return (_SQE_X if state is SQE else _X) + _W - 60


def _loop(state: QPState) -> str:
    x, y = _loop_x(state), _TOP[state]
    return f"M{x} {y} C{x - 10} {y - 34} {x + 36} {y - 34} {x + 27} {y - 2}"


def _missing_part(arrow: Arrow, points: list[Point]) -> list[Point]:
    """Of an arrow that leads to a rail, what comes before the rail: the rest belongs to others."""
    if arrow.goal in (RESET, ERR) and len(points) > 3:
        return points[:3] if (arrow.start, arrow.goal) == (SQE, RESET) else points[:2]
    return points


def _cross(arrow: Arrow, points: list[Point]) -> Point:
    """Where the sign goes that it is missing."""
    if arrow.start is arrow.goal:
        return points[0][0] + 13, points[0][1] - 22
    (x, y), (to_x, to_y) = points[:2]
    if (arrow.start, arrow.goal) == (SQD, ERR):
        return x, y + 22  # above the line that it crosses
    if (arrow.start, arrow.goal) == (SQE, RESET):
        return to_x - 45, to_y
    return (x + to_x) / 2, (y + to_y) / 2


def _path(points: list[Point]) -> str:
    """A line with rounded corners."""
    if len(points) == 2 and points[0][1] == points[1][1] and abs(points[1][0] - points[0][0]) == 26:
        x, y = points[0]
        return f"M{x} {y} C{x - 10} {y - 34} {x + 36} {y - 34} {x + 27} {y - 2}"
    done = f"M{points[0][0]} {points[0][1]}"
    for before, (x, y), after in zip(points, points[1:], points[2:], strict=False):
        near, far = _towards((x, y), before), _towards((x, y), after)
        done += f" L{near[0]} {near[1]} Q{x} {y} {far[0]} {far[1]}"
    return done + f" L{points[-1][0]} {points[-1][1]}"


def _towards(corner: Point, other: Point) -> Point:
    """The point where the curve of a corner begins or ends."""
    (x, y), (to_x, to_y) = corner, other
    length = max(abs(to_x - x), abs(to_y - y))
    step = min(_ROUND, length / 2) / length if length else 0
    return x + (to_x - x) * step, y + (to_y - y) * step


def _hardware(picture: Picture) -> str:
    for (start, goal), when in picture.by_hardware:
        return _by_itself(start, goal, when)
    return ""


def _by_itself(start: QPState, goal: QPState, when: str) -> str:
    colour, row = _COLOURS["hardware"], _TOP[RTS] + _H
    if goal is SQE:
        x, to_x = _X + 190, _SQE_X + 60
        points: list[Point] = [(x, row), (x, row + 44), (to_x, row + 44), (to_x, _TOP[SQE] - 2)]
        label = f'<text class="small" x="{x + 14}" y="{row + 36}" style="fill:{colour}">{when}</text>'
    else:
        return (f'<text class="small" x="{_RIGHT + 14}" y="{_TOP[RTS] + 12}" style="fill:{colour}">'
                f"also by itself, when {when}</text>")
    return (f'<g class="arrow hardware"><title>{start.name} → {goal.name}: by hardware, when {when}</title>'
            f'<path d="{_path(points)}" stroke="{colour}" stroke-dasharray="2 5" stroke-linecap="round" '
            f'marker-end="url(#hardware)"/></g>{label}')


# ---------------------------------------------------------------------- boxes and words


def _box(picture: Picture, state: QPState) -> str:
    x, y = _SQE_X if state is SQE else _X, _TOP[state]
    fill, stroke = _FILLS[state]
    if not picture.reaches(state):
        fill, stroke = "#fafafa", "#cbd2d9"
    faint = "" if picture.reaches(state) else ' opacity="0.5"'
    middle = x + _W // 2
    return (f'<g><title>{escape(STATES[state].story)}</title>'
            f'<rect x="{x}" y="{y}" width="{_W}" height="{_H}" rx="12" fill="{fill}" stroke="{stroke}" '
            f'stroke-width="1.6"/>'
            f'<text class="name" x="{middle}" y="{y + 31}"{faint}>{state.name}</text>'
            f'<text class="picture" x="{middle}" y="{y + 53}"{faint}>{escape(STATES[state].picture)}</text></g>')


def _labels(picture: Picture) -> list[str]:
    """The required attributes of the way up, as little plates beside their arrow."""
    parts = []
    for start, goal in MAIN:
        middle = (_TOP[start] + _H + _TOP[goal]) / 2
        arrow = picture.arrows.get((start, goal))
        wanted = names(arrow.required) if arrow else []
        if arrow and not wanted:
            parts.append(f'<text class="small" x="{_MID + 24}" y="{middle + 5}">the state alone</text>')
        rows = [wanted[place : place + _PILLS] for place in range(0, len(wanted), _PILLS)]
        for place, row in enumerate(rows):
            parts += _plates(row, middle - 16 * len(rows) + 2 + 31 * place)
    return parts


def _plates(row: list[str], y: float) -> list[str]:
    parts, x = [], float(_MID + 24)
    for name in row:
        width = 7.6 * len(name) + 18
        parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="24" rx="6" fill="#f0fdf4" stroke="#bbe5c8"/>'
            f'<text class="mono" x="{x + 9:.0f}" y="{y + 16.5}">{name}</text>'
        )
        x += width + 8
    return parts


def _reasons(picture: Picture) -> list[str]:
    lines = []
    for reason, arrows in picture.reasons():
        text = f"{', '.join(arrows)}: {reason}"
        while len(text) > 112:
            cut = text.rindex(" ", 0, 112)
            lines.append(text[:cut])
            text = "    " + text[cut + 1 :]
        lines.append(text)
    return lines


def _foot(reasons: list[str]) -> list[str]:
    first = ("Green plates: the attributes that an arrow requires; all others need the state alone. "
             "Loops: attributes change, the state stays.")
    lines = [f'<text class="small" x="{_LEFT_RAIL - 6}" y="{_FOOT + 16}">{first}</text>']
    for place, text in enumerate(reasons):
        mark = "" if text.startswith("    ") else "✗ "
        lines.append(f'<text class="small" x="{_LEFT_RAIL - 6}" y="{_FOOT + 42 + 22 * place}" xml:space="preserve" '
                     f'style="fill:{_COLOURS["missing"]}">{mark}{escape(text)}</text>')
    return lines
