"""What a walker sees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rdmaqp.cli.blocks import ansi
from rdmaqp.cli.console import out
from rdmaqp.cli.picture import Picture, names
from rdmaqp.cli.report import COLOURS, SIGNS, fitted, report_text
from rdmaqp.cli.walk_sheet import shown
from rdmaqp.guard.lore.states import STATES
from rdmaqp.guard.lore.topics import posting
from rdmaqp.model.enums import QPState

if TYPE_CHECKING:
    from rdmaqp.cli.walk_machine import Machine
    from rdmaqp.guard import Report
    from rdmaqp.model.attributes import QPAttr

_DOT = {
    QPState.RESET: "white", QPState.INIT: "yellow", QPState.RTR: "cyan", QPState.RTS: "green", QPState.SQD: "blue",
    QPState.SQE: "magenta", QPState.ERR: "red",
}  # fmt: skip
_TAKEN = {"yes": "green", "no": "red", "flushed": "yellow"}

HELP = (
    ("RTR", "go there, with the attributes that the arrow requires, each as most programs give it"),
    ("RTR -min_rnr_timer", "the same, and leave one out"),
    ("RTR path_mtu=4096 sgid_index=0", "change values: attributes, or parts of the address"),
    ("RTR +sq_psn  ·  RTR +sq_psn=7", "add an attribute, whether it belongs there or not"),
    ("RTS min_rnr_timer=3", "in RTS: change an attribute and stay"),
    ("sheet RTR …", "show what such a call would carry, and do not make it"),
    ("send  ·  recv 4", "post work, and see what becomes of it"),
    ("fail", "let a send fail, as only the hardware can"),
    ("undo  ·  history", "take the last step back · what was done"),
    ("look  ·  map", "where it is, and the ways out · the whole machine"),
    ("explain …", "a state, an arrow (explain INIT RTR), an attribute, an error: as `rdmaqp explain`"),
    ("new UD", "another queue pair, of this or another type"),
    ("quit", "or Ctrl-D"),
)


def welcome(machine: Machine) -> None:
    """The first lines."""
    driver = f", driver {machine.driver}" if machine.driver else ""
    out.print(Text.assemble((f"{machine.type.name} queue pair", "bold"), f", {machine.where}{driver}. ",
                            ("Type a state to go there; help says what else.", "dim")))  # fmt: skip


def prompt(machine: Machine) -> Text:
    """Where one types."""
    state = machine.state
    return Text.assemble((state.name, f"bold {_DOT[state]}"), (" ▸ ", "dim"))


def editable(text: Text) -> str:
    """A prompt that line editing can measure: what takes no room is marked so."""
    if out.no_color or not out.is_terminal:
        return text.plain
    return re.sub("(\x1b\\[[0-9;]*m)", "\x01\\1\x02", ansi(text))


def look(machine: Machine) -> None:
    """The state, what may be posted, the ways out."""
    state = machine.state
    lore = STATES[state]
    out.print()
    out.print(Text.assemble(("  ● ", _DOT[state]), (f"{state.name}  ", "bold"), (lore.picture, "italic")))
    for queue in ("send", "recv"):
        answer = posting(state, queue, machine.type, machine.driver)
        text = Text.assemble((f"    post {queue}     ", "dim"), (answer["taken"], _TAKEN[answer["taken"]]))
        out.print(text.append(f": {answer['why']}" if answer["why"] else "", "dim"))
    _ways(machine, state)
    out.print()


def _ways(machine: Machine, state: QPState) -> None:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=17, style="dim")
    table.add_column(width=7)
    table.add_column()
    label = "    ways out"
    picture = Picture.of(machine.type, machine.driver)
    for (start, goal), arrow in picture.arrows.items():
        if start is not state:
            continue
        what = Text(" ".join(names(arrow.required)) or "the state alone")
        if goal is state:
            takes = " ".join(names(arrow.optional))
            what = Text(f"stay, and change {takes}" if takes else "stay", "dim")
        if arrow.missing:
            what = Text(f"✗ {arrow.missing}", "red")
        table.add_row(label, Text(goal.name, "strike red" if arrow.missing else f"bold {_DOT[goal]}"), what)
        label = ""
    out.print(table)
    for (start, goal), when in picture.by_hardware:
        if start is state:
            out.print(Text(f"    by itself     {goal.name}     when {when} (type: fail)", "dim"))


def call(start: QPState, goal: QPState, attr: QPAttr) -> None:
    """The call that is made."""
    text = Text.assemble(("  modify ", "dim"), f"{start.name} → {goal.name}")
    if attr.qp_state is None:
        text.append(" without STATE", "dim")
    column = len(text.plain)
    for name, value in shown(attr):
        if column + len(name) + len(value) + 3 > out.width:
            text.append("\n" + " " * 9)
            column = 9
        text.append(f"  {name}=", "dim").append(value)
        column += len(name) + len(value) + 3
    out.print(text, soft_wrap=True)


def answer(report: Report) -> None:
    """What the guard says of it."""
    if not report.findings:
        out.print(Text("  ✓ the guard finds nothing wrong", "green"))
        return
    verdict = report.verdict
    text = fitted(report_text(report), out.width - 4)
    for place, line in enumerate(text.split("\n")):
        lead = Text(f"  {SIGNS[verdict]} ", f"bold {COLOURS[verdict]}") if place == 0 else Text("    ")
        out.print(lead.append_text(line), soft_wrap=True)


def happened(said: str) -> None:
    """What became of it."""
    if said:
        _signed("⇢", "bold cyan", said)


def trouble(said: str) -> None:
    """What could not be understood or done."""
    _signed("?", "bold yellow", said)


def _signed(sign: str, style: str, said: str) -> None:
    """A paragraph beside its sign."""
    table = Table.grid(padding=(0, 1))
    table.add_row(Text(f"  {sign}", style), Text(said))
    out.print(table)


def history(machine: Machine) -> None:
    """What was done."""
    if not machine.history:
        out.print(Text("  nothing yet", "dim"))
    for number, step in enumerate(machine.history, 1):
        moved = f"{step.start.name} → {step.goal.name}" if step.start is not step.goal else step.start.name
        out.print(Text.assemble((f"  {number:3}  ", "dim"), f"{moved:14}", (step.words, "dim")))


def map_of(machine: Machine) -> None:
    """The whole machine, with the place where it is."""
    from rdmaqp.cli.drawing import draw

    out.print(draw(Picture.of(machine.type, machine.driver), machine.state), soft_wrap=True)


def help_of(_: Machine) -> None:
    """What can be typed."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for words, what in HELP:
        table.add_row(f"  {words}", what)
    out.print(table)
