"""How ``rdmaqp watch`` shows queue pairs and their changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp.cli.console import plain_table
from rdmaqp.host import resources

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import RenderableType

    from rdmaqp.host.resources import QueuePairView

COLOURS = {
    "RESET": "white", "INIT": "yellow", "RTR": "cyan", "RTS": "green", "SQD": "blue", "SQE": "magenta",
    "ERR": "bold red",
}  # fmt: skip


def fitting(
    shown: Sequence[QueuePairView], fresh: Collection[tuple[str, int, int | None]], room: int
) -> Sequence[QueuePairView]:  # fmt: skip
    """Those of *shown* that there is room for, in their order: what has changed first, then the rarest states."""
    if len(shown) <= room:
        return shown
    often = {state: sum(each.state == state for each in shown) for state in {each.state for each in shown}}
    ranked = sorted(range(len(shown)), key=lambda at: (shown[at].key not in fresh, often[shown[at].state], at))
    return [shown[at] for at in sorted(ranked[: max(room, 1)])]


def stamped(text: Text) -> Text:
    """*text*, with the time before it."""
    return Text.assemble((time.strftime("%H:%M:%S "), "dim"), text)


def port_told(port: str, was: str, state: str) -> Text:
    """A port's change in words."""
    return Text.assemble(f"{port} port {was} → ", (state, "green" if state == "ACTIVE" else "bold red"))


def pair_told(what: str, each: QueuePairView, was: str | None) -> Text:
    """A change in words."""
    text = Text.assemble(f"{each.device} QP {each.number:#x} {each.type} ")
    if what == "moved":
        text.append_text(_state(was or "?")).append(" → ").append_text(_state(each.state))
    elif what == "gone":
        text.append("gone, was ").append_text(_state(each.state))
    else:
        text.append(f"{what}, ").append_text(_state(each.state))
    return text.append(f"  {_owner(each)}", "dim")


def table(shown: Sequence[QueuePairView], marks: dict[tuple[str, int, int | None], str]) -> RenderableType:
    """The queue pairs, those in *marks* with what they were."""
    made = plain_table("device", "QP", "type", "state", "peer", "RQ PSN", "SQ PSN", "process")
    for each in shown:
        state, was = _state(each.state), marks.get(each.key)
        if was is not None:
            state = Text.assemble((f"{was} → " if was != "new" else "+ ", "reverse"), state)
        name = each.device if each.port is None else f"{each.device}/{each.port}"
        made.add_row(Text(name), f"{each.number:#x}", each.type, state, _hex(each.peer), _hex(each.rq_psn),
                      _hex(each.sq_psn), Text(_owner(each)), style="bold" if was is not None else None)  # fmt: skip
    return made


def _state(name: str) -> Text:
    return Text(name, COLOURS.get(name, ""))


def _hex(value: int | None) -> str:
    return "–" if value is None else f"{value:#x}"


def _owner(each: QueuePairView) -> str:
    return f"{each.process or '?'} ({each.pid})" if each.pid is not None else each.process or "kernel"


def count(shown: Sequence[QueuePairView]) -> str:
    """How many there are, and of which states."""
    states = {state: sum(each.state == state for each in shown) for state in resources.STATES}
    parts = [f"{count} {state}" for state, count in states.items() if count]
    return f"{len(shown)} queue pair{'' if len(shown) == 1 else 's'}" + (f": {', '.join(parts)}" if parts else "")
