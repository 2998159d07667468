"""``rdmaqp explain``: what an arrow, a state, an attribute, a rule, an error number, a status or a driver is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rdmaqp.cli import failing
from rdmaqp.cli.arguments import add_driver, add_type
from rdmaqp.cli.console import out, print_json
from rdmaqp.guard.lore.words import UnknownWordError, explain, known

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rich.console import RenderableType

    from rdmaqp.guard.lore.topics import Topic

DESCRIPTION = """Says what WORDS are about: an arrow (INIT RTR, INIT-RTR), a way (INIT RTR RTS), a state, a queue
pair type, an attribute (with a code: timeout 14), a rule of the guard's, an error number or name, a completion status,
a driver; or all folklore. Without words it lists what there is."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("explain", description=DESCRIPTION)
    parser.add_argument("words", nargs="*", metavar="WORDS", help="INIT RTR, SQD, timeout 14, EINVAL, mlx5, …")
    add_type(parser)
    add_driver(parser)
    parser.add_argument("--json", action="store_true", help="the same, for a program to read")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain, or list what can be explained."""
    if not args.words:
        print_json(known()) if args.json else _list()
        return 0
    try:
        topics = explain(args.words, args.type, args.driver)
    except UnknownWordError as error:
        failing.show(error, as_json=args.json)
        return 2
    if args.json:
        print_json(topics)
    else:
        show(topics)
    return 0


def show(topics: list[Topic]) -> None:
    """Print each, the folklore last."""
    for place, topic in enumerate(topics):
        if place:
            out.print()
        SHOWN[topic["kind"]](topic)
        _folklore(topic)


def _list() -> None:
    for kind, names in known().items():
        line("", kind, "bold")
        out.print(_indented(Text("  ".join(names)), 2))
    line("", "and: two states for an arrow (INIT RTR), an attribute with a code (timeout 14), folklore", "dim")


# ---------------------------------------------------------------------- pieces


def title(text: str, more: str = "") -> None:
    """The first line of a topic."""
    out.print(_beside(Text(text, "bold"), Text(more, "cyan"), 3) if more else Text(text, "bold"))


def _beside(left: Text, right: Text, gap: int = 1) -> Table:
    """*right* beside *left*, and wrapped there."""
    table = Table.grid(padding=(0, gap))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row(left, right)
    return table


def _indented(what: RenderableType, by: int) -> Padding:
    return Padding(what, (0, 0, 0, by), expand=False)


def line(label: str, text: str, style: str = "") -> None:
    """A labelled paragraph, wrapped beside its label."""
    if not label:
        bare = text.lstrip()
        out.print(_indented(Text(bare, style), len(text) - len(bare)))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(width=12, style="dim")
    table.add_column()
    table.add_row(label, Text(text, style))
    out.print(_indented(table, 2))


def _of(topic: Topic) -> str:
    """Whose type it is, where a driver's own."""
    return f" on {topic['owner']}" if topic["owner"] else ""


def _attributes(label: str, rows: list[Topic], style: str) -> None:
    if not rows:
        line(label, "nothing" if label == "required" else "nothing else")
        return
    out.print(Text(f"  {label}", style))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        said = row["allowed"] + (f"; custom: {row['custom']}" if row["custom"] else "")
        table.add_row(Text(row["mask"], "bold" if label == "required" else ""), Text.assemble(
            row["why"], (f"\n{row['attribute']}: {row['meaning']}; {said}", "dim")
        ))
    out.print(_indented(table, 4))


def _folklore(topic: Topic) -> None:
    for claim in topic.get("folklore", ()):
        out.print()
        out.print(_indented(_beside(Text("They say:", "bold yellow"), Text(f"“{claim['said']}”", "italic")), 2))
        verdict = claim["verdict"]
        style = "bold red" if verdict.startswith(("false", "not", "half")) else "bold green"
        truth = Text.assemble((f"{verdict[0].upper()}{verdict[1:]}. ", style), f"{claim['truth']}.")
        out.print(_indented(truth, 4))
        out.print(_indented(Text(f"known from: {claim['known']}", "dim"), 4))


# ---------------------------------------------------------------------- kinds


def _arrow(topic: Topic) -> None:
    title(f"{topic['type']}{_of(topic)}: {topic['from']} → {topic['to']}")
    if not topic["exists"]:
        line("", f"  There is no such arrow: {topic['why'] or 'it is not in the table'}.", "red")
        line("next", ", ".join(topic["next"]) or "nothing: destroy it")
        if topic["way"] and len(topic["way"]) > 1:
            line("the way", " → ".join(topic["way"]), "green")
    else:
        _attributes("required", topic["required"], "bold green")
        _attributes("optional", topic["optional"], "cyan")
        line("happens", topic["happens"])
        reasons: dict[str, list[str]] = {}
        for name, reason in topic["drivers"].items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            line("not on", f"{', '.join(names)}: {reason}", "red")
    line("source", topic["source"], "dim")


def _state(topic: Topic) -> None:
    title(topic["state"], topic["picture"])
    line("", f"  {topic['story']}")
    for label, key in (("post send", "post_send"), ("post recv", "post_recv")):
        answer = topic[key]
        style = {"yes": "green", "no": "red", "flushed": "yellow"}[answer["taken"]]
        line(label, answer["taken"] + (f": {answer['why']}" if answer["why"] else ""), style)
    line("sends", topic["sends"])
    line("receives", topic["receives"])
    line("way in", topic["entered"])
    if topic["by_hardware"]:
        moved = topic["by_hardware"]
        line("by itself", f"{moved['from']} → {moved['to']} ({topic['type']}): {moved['when']}", "yellow")
    out.print(Text(f"  ways out, {topic['type']}{_of(topic)}", "dim"))
    for way in topic["ways_out"]:
        refused = way["refused_by_driver"]
        to = Text.assemble(("→ ", "dim"), (f"{way['to']:6}", "strike red" if refused else "bold"))
        text = Text(refused or "", "red")
        if not refused:
            wanted = [name for name in way["required"] if name != "STATE"]
            text = Text("  ".join(wanted) or "the state alone")
            text.append(f"   ({len(way['optional'])} optional)" if way["optional"] else "", "dim")
        out.print(_indented(_beside(to, text), 4))
    line("source", topic["source"], "dim")


def _type(topic: Topic) -> None:
    title(topic["type"], topic["meaning"])
    for step in topic["way"]:
        line(f"{step['from']} → {step['to']}", "  ".join(step["required"]) or "the state alone")
    line("sends", ", ".join(topic["sends"]) or "nothing" if topic["type"] != "DRIVER" else "the driver says")
    line("drivers", ", ".join(topic["drivers"]) or "none known")


def _attribute(topic: Topic) -> None:
    title(topic["attribute"], f"{topic['of']}, mask bit {topic['mask']}")
    line("what", topic["meaning"])
    if topic["why"]:
        line("why", topic["why"])
    line("range", topic["allowed"])
    if topic["custom"]:
        line("custom", topic["custom"])
    if topic["codes"]:
        _codes(topic)
    if topic["said"]:
        line("given", topic["said"], "bold")
    if topic["remark"]:
        line("mind", topic["remark"], "yellow")
    for label in ("required", "optional"):
        _where(f"{label} in", topic[label])
    never = [kind for kind in topic["required"] if not topic["required"][kind] and not topic["optional"][kind]]
    if never:
        line("never", ", ".join(never))


def _where(label: str, arrows: dict[str, list[str]]) -> None:
    """On which arrows, types that agree together."""
    groups: dict[str, list[str]] = {}
    for kind, ways in arrows.items():
        groups.setdefault(", ".join(ways), []).append(kind)
    for ways_of, kinds in groups.items():
        if ways_of:
            line(label, f"{ways_of}  ({', '.join(kinds)})")


def _codes(topic: Topic) -> None:
    """The conversion table, in columns; the code asked for stands out."""
    codes = list(topic["codes"].items())
    width = max(len(text) for _, text in codes)
    columns = max(1, min(4, (out.width - 17) // (width + 8)))
    rows = -(-len(codes) // columns)
    label = "codes"
    for row in range(rows):
        text = Text(f"  {label:11}  ", "dim")
        for code, said in codes[row::rows]:
            text.append(f"{code:>3} ", "bold reverse" if code == topic["value"] else "bold")
            text.append(f"{said:{width}}    ", "reverse" if code == topic["value"] else "")
        out.print(text)
        label = ""


def _rule(topic: Topic) -> None:
    title(topic["rule"], f"usually {'an' if topic['severity'] == 'error' else 'a'} {topic['severity']}")
    line("says", topic["says"])
    if topic["answered_with"]:
        line("unheeded", f"the call may be answered with {', '.join(topic['answered_with'])}")
    line("source", topic["source"], "dim")


def _errno(topic: Topic) -> None:
    title(f"{topic['name']} ({topic['errno']})", topic["text"])
    for call, text in topic["calls"].items():
        line(call.removeprefix("ibv_"), text)
    if not topic["calls"]:
        line("", "  No call of libibverbs is known to answer with it.")
    for said in topic["drivers"]:
        line(said["driver"], said["why"])
    for act, rules in topic["rules"].items():
        line("rules", f"{act}: {', '.join(rules)}", "dim")


def _status(topic: Topic) -> None:
    title(f"{topic['name']} ({topic['status']})", "completion status")
    for said in topic["causes"]:
        line(said["standing"], said["why"], "bold" if said["standing"] == "proved" else "")
    if not topic["causes"]:
        line("", "  The work was carried out.")
    if topic["ruled_out"]:
        line("it is not", f"{', '.join(topic['ruled_out'])}: {topic['because']}")
    if topic["rules"]:
        line("rules", ", ".join(topic["rules"]), "dim")


def _driver(topic: Topic) -> None:
    title(topic["driver"], f"also {', '.join(topic['also'])}" if topic["also"] else "")
    line("types", ", ".join(topic["types"]))
    missing: dict[tuple[str, str], list[str]] = {}
    for row in topic["missing"]:
        why = row["why"].removeprefix(f"{topic['driver']} has no {row['arrow']}: ")
        missing.setdefault((why, ", ".join(row["types"])), []).append(row["arrow"])
    for (why, types), arrows in missing.items():
        line("has not", f"{', '.join(arrows)}  ({types}): {why}", "red")
    for place, said in enumerate(topic["differs"].values()):
        line("differs" if not place else " ", said)
    for row in topic["errnos"]:
        line(row["errno"], row["why"])
    line("source", topic["source"], "dim")


def _nothing(_: Topic) -> None:
    title("Folklore", "what is said, and what is so")


SHOWN: dict[str, Callable[[Topic], None]] = {
    "arrow": _arrow, "state": _state, "type": _type, "attribute": _attribute, "rule": _rule, "errno": _errno,
    "status": _status, "driver": _driver, "folklore": _nothing,
}  # fmt: skip
