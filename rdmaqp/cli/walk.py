"""``rdmaqp walk``: a queue pair to operate by hand."""

from __future__ import annotations

import shlex
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp.cli import walk_show as show
from rdmaqp.cli.arguments import TYPES, add_driver, add_type, kind_and_driver
from rdmaqp.cli.console import out, show_guard_warnings
from rdmaqp.cli.walk_machine import Imagined, Machine
from rdmaqp.cli.walk_sheet import WordError, change, sheet
from rdmaqp.errors import RdmaqpError
from rdmaqp.guard.lore.machine import Kind, has_type, owner, types_of
from rdmaqp.guard.lore.words import UnknownWordError, explain
from rdmaqp.model.enums import DriverType, QPState

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """A queue pair to operate by hand: type a state to go there, leave attributes out or change them, and
read what the guard says of it. Without --device it is imagined, and needs no RDMA device."""

COMMANDS = ("send", "recv", "fail", "undo", "history", "look", "map", "sheet", "explain", "new", "help", "quit")
_SHORT = {"?": "help", "h": "help", "q": "quit", "exit": "quit", "u": "undo", "back": "undo", "receive": "recv",
          "why": "explain", "ls": "look", "diagram": "map"}  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser("walk", description=DESCRIPTION)
    add_type(parser, alone=True)
    add_driver(parser)
    parser.add_argument("-d", "--device", metavar="NAME", help="a real queue pair on this device, connected to itself")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Walk until the walker has enough."""
    if args.device and args.driver:
        raise RdmaqpError("--device brings its own driver: leave --driver out")
    machine = _machine(args)
    try:
        Walk(machine).loop()
    finally:
        machine.close()
    return 0


def _machine(args: argparse.Namespace) -> Machine:
    kind, driver = kind_and_driver(args)
    if not args.device:
        return Imagined(kind, driver)
    if isinstance(kind, DriverType):
        raise RdmaqpError(f"{kind.name} is made by {driver}'s own library, not by ibv_create_qp: leave --device out")
    from rdmaqp.cli.walk_real import Real

    show_guard_warnings()
    return Real(args.device, kind)


class Walk:
    """One walk: lines in, what they did out."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.is_typed = sys.stdin.isatty()

    def loop(self) -> None:
        """Read and do, until the end of input or ``quit``."""
        if self.is_typed:
            _complete()
        show.welcome(self.machine)
        show.look(self.machine)
        while True:
            try:
                line = self._read()
                if line is None or not self.do(line):
                    return
            except (WordError, UnknownWordError, RdmaqpError, ValueError) as error:
                show.trouble(str(error))
            except KeyboardInterrupt:
                out.print()

    def _read(self) -> str | None:
        """The next line; ``None`` at the end. What comes from a file is shown as if typed."""
        prompt = show.prompt(self.machine)
        if not self.is_typed:
            out.print(prompt, end="")
        try:
            line = input(show.editable(prompt) if self.is_typed else "")
        except (EOFError, OSError):  # its end, or it cannot be read: closed, or a terminal that has gone
            out.print()
            return None
        except UnicodeDecodeError:
            raise WordError("this line is not text") from None
        line = line.encode(errors="surrogateescape").decode(errors="replace")  # as it may come from a file
        if not self.is_typed:
            out.print(Text(line, "bold"))
        return line

    def do(self, line: str) -> bool:
        """One line; whether there is more to come."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise WordError(f"cannot read that: {error}") from None
        if words and words[0].lower() in ("go", "modify", "post") and len(words) > 1:
            words = words[1:]
        if not words:
            return True
        first = words[0].upper().removeprefix("IBV_QPS_")
        if first in QPState.__members__:
            self._move(QPState[first], words[1:], line)
        else:
            return self._command(words, line)
        return True

    def _command(self, words: list[str], line: str) -> bool:
        name = _SHORT.get(words[0].lower(), words[0].lower())
        if name not in COMMANDS:
            raise WordError(_unknown(words[0]))
        if name == "quit":
            return False
        if name in ("send", "recv"):
            self._post(name, words[1:])
        elif name == "explain":
            self._explain(words[1:])
        elif name == "sheet":
            self._sheet(words[1:])
        elif name == "new":
            self._new(words[1:])
        elif name == "fail":
            show.happened(self.machine.fail(line))
            show.look(self.machine)
        elif name == "undo":
            self._undo()
        else:
            {"history": show.history, "look": show.look, "map": show.map_of, "help": show.help_of}[name](self.machine)
        return True

    # ------------------------------------------------------------------ what can be done

    def _move(self, goal: QPState, words: list[str], line: str) -> None:
        start, custom = self.machine.state, self.machine.custom
        attr = sheet(start, goal, self.machine.type, custom)
        change(attr, words, start, custom)
        show.call(start, goal, attr)
        report, said = self.machine.modify(attr, line)
        show.answer(report)
        if not report.refused:
            show.happened(said)
            show.look(self.machine)

    def _post(self, queue: str, words: list[str]) -> None:
        count = int(words[0]) if words and words[0].isdecimal() and len(words[0]) < 5 else 1
        for _ in range(count):
            report, said = self.machine.post(queue, queue)
            if report.findings:
                show.answer(report)
            show.happened(said)
            if report.refused:
                return

    def _sheet(self, words: list[str]) -> None:
        if not words or words[0].upper() not in QPState.__members__:
            raise WordError("sheet of which state? Such as: sheet RTR")
        goal, custom = QPState[words[0].upper()], self.machine.custom
        attr = sheet(self.machine.state, goal, self.machine.type, custom)
        change(attr, words[1:], self.machine.state, custom)
        show.call(self.machine.state, goal, attr)

    def _explain(self, words: list[str]) -> None:
        from rdmaqp.cli.explain import show as print_topics

        print_topics(explain(words or [self.machine.state.name], self.machine.type, self.machine.driver))

    def _new(self, words: list[str]) -> None:
        if not isinstance(self.machine, Imagined):
            raise WordError("this one is real: start again with another --type")
        name = words[0].upper() if words else self.machine.type.name
        known: dict[str, Kind] = {kind.name: kind for kind in types_of(None)}
        if name not in known:
            raise WordError(f"there is no type {name}: {TYPES}")
        driver = self.machine.driver or owner(known[name])
        if not has_type(known[name], driver):
            raise WordError(f"{driver} has no {name} queue pairs")
        self.machine = Imagined(known[name], driver)
        show.look(self.machine)

    def _undo(self) -> None:
        if not self.machine.history:
            raise WordError("there is nothing to undo")
        step = self.machine.undo()
        show.happened(f"undone: {step.words}")
        show.look(self.machine)


def _unknown(word: str) -> str:
    every = {name.lower(): name for name in (*COMMANDS, *QPState.__members__)}
    near = get_close_matches(word.lower(), every, 1, 0.5)
    hint = f"did you mean {every[near[0]]}?" if near else "help says what can be typed"
    return f"{word!r} is neither a state nor a command; {hint}"


def _complete() -> None:
    """Line editing, and Tab for states, commands and attributes."""
    try:
        import readline
    except ImportError:
        return
    from rdmaqp.model.attributes import FIELDS

    words = [*QPState.__members__, *COMMANDS, *(f"-{name}" for name in FIELDS), *(f"{name}=" for name in FIELDS)]

    def complete(text: str, place: int) -> str | None:
        found = [word for word in words if word.lower().startswith(text.lower())]
        return found[place] if place < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t")
    readline.parse_and_bind("tab: complete")
