"""``rdmaqp diagram``: the state machine, drawn from the kernel's table and from what the driver makes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.cli.arguments import add_driver, add_type, kind_and_driver
from rdmaqp.cli.picture import MAIN, SIDE, Picture, names
from rdmaqp.errors import RdmaqpError
from rdmaqp.guard.lore.states import STATES
from rdmaqp.model.enums import QPState

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Draws the state machine of a queue pair type: in the terminal, or to FILE (- is standard output) for a
document. Arrows that the driver has not are dashed, in red, each with its reason."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("diagram", description=DESCRIPTION)
    add_type(parser, alone=True)
    add_driver(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--svg", metavar="FILE", help="a picture for a page")
    form.add_argument("--dot", metavar="FILE", help="for Graphviz")
    form.add_argument("--mermaid", metavar="FILE", help="for Markdown that draws it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draw it."""
    picture = Picture.of(*kind_and_driver(args))
    if args.svg:
        from rdmaqp.cli.svg import svg

        return _write(args.svg, svg(picture))
    if args.dot:
        return _write(args.dot, dot(picture))
    if args.mermaid:
        return _write(args.mermaid, mermaid(picture))
    from rdmaqp.cli.console import out
    from rdmaqp.cli.drawing import draw

    out.print(draw(picture), soft_wrap=True)
    return 0


def _write(name: str, text: str) -> int:
    if name == "-":
        sys.stdout.write(text)
        return 0
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RdmaqpError(f"{name}: {error.strerror}") from None
    return 0


def dot(picture: Picture) -> str:
    """For Graphviz."""
    lines = [
        f'digraph "{picture.title}" {{', f'    label="{picture.title}"; labelloc=t; rankdir=TB; fontname="sans-serif";',
        '    node [shape=box, style="rounded,filled", fillcolor="#f4f7fb", fontname="sans-serif"];',
        '    edge [fontname="monospace", fontsize=9];',
    ]  # fmt: skip
    for state in QPState:
        grey = "" if picture.reaches(state) else ', fontcolor="#999999", color="#bbbbbb"'
        lines.append(f'    {state.name} [label="{state.name}\\n{STATES[state].picture}"{grey}];')
    for (start, goal), arrow in picture.arrows.items():
        look = [f'label="{_broken(names(arrow.required), chr(92) + "n")}"'] if arrow.required else []
        look += ["penwidth=2", "weight=10"] if (start, goal) in MAIN else ['color="#667788"']
        if arrow.missing:
            look = [f'label="{arrow.missing}"', 'color="#cc2222", fontcolor="#cc2222", style=dashed']
        if goal is QPState.RESET or (start, goal) in SIDE[1:]:
            look.append("constraint=false")  # a way back does not lift its end above its beginning
        lines.append(f"    {start.name} -> {goal.name} [{', '.join(look)}];")
    lines.append("    RTS -> SQE [style=invis];")
    for (start, goal), when in picture.by_hardware:
        look = [f'label="{when}"', 'style=dotted, color="#b07000", fontcolor="#b07000"']
        lines.append(f"    {start.name} -> {goal.name} [{', '.join(look)}];")
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(picture: Picture) -> str:
    """For Markdown."""
    lines, styles = ["flowchart TD"], []
    for state in QPState:
        lines.append(f'    {state.name}(["<b>{state.name}</b><br/>{STATES[state].picture}"])')
        if not picture.reaches(state):
            styles.append(f"    style {state.name} fill:#eee,stroke:#bbb,color:#999")
    for number, ((start, goal), arrow) in enumerate(picture.arrows.items()):
        text = f'|"{_broken(names(arrow.required), "<br/>")}"|' if names(arrow.required) else ""
        stroke = "-->" if (start, goal) not in MAIN else "==>"
        if arrow.missing:
            stroke, text = "-.->", f'|"{arrow.missing}"|'
            styles.append(f"    linkStyle {number} stroke:#c22,color:#c22")
        lines.append(f"    {start.name} {stroke}{text} {goal.name}")
    for (start, goal), when in picture.by_hardware:
        lines.append(f'    {start.name} -.->|"{when}"| {goal.name}')
        styles.append(f"    linkStyle {len(picture.arrows)} stroke:#b07000,color:#b07000")
    return "\n".join([*lines, *styles]) + "\n"


def _broken(words: list[str], end: str) -> str:
    """Two to a line."""
    return end.join(", ".join(words[place : place + 2]) for place in range(0, len(words), 2))
