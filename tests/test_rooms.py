"""The house's order: a room imports only from rooms below it. Read from the sources, nothing is imported.

Imports inside functions count, relative ones count, ``import_module("…")`` counts. Only ``if TYPE_CHECKING:`` is
exempt, since it does not run: ``errors.py``, the lowest room, names ``guard.report`` there for its types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rdmaqp"

#: Top to bottom, as CONTRIBUTING.md has them.
ROOMS = ("cli", "lab", "preload", "connection", "verbs", "guard", "host", "model", "errors")
#: The front door and the door bell: what users import, what ``python -m`` runs. They are above all rooms.
DOORS = {"", "__main__"}


class Import(NamedTuple):
    """One import: in which module, at which line, of what, and whether for types alone."""

    module: str
    line: int
    target: str
    for_types: bool

    def __str__(self) -> str:
        return f"{self.module} line {self.line}: {self.target}"


class Reader(ast.NodeVisitor):
    """The imports of one file, wherever they stand."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.module = module
        self.package = module if is_package else module.rpartition(".")[0]
        self.for_types = False
        self.found: list[Import] = []

    def note(self, node: ast.AST, target: str) -> None:
        self.found.append(Import(self.module, node.lineno, target, self.for_types))  # type: ignore[attr-defined]

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.note(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            above = parts[: len(parts) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            self.note(node, f"{base}.{alias.name}")

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("import_module", "__import__") and node.args:
            target = node.args[0]
            start = target.values[0] if isinstance(target, ast.JoinedStr) else target
            # What cannot be read here cannot be judged, so it is not allowed; f"rdmaqp.cli.{…}" can.
            is_known = isinstance(start, ast.Constant) and (start is target or str(start.value).endswith("."))
            assert is_known, f"{self.module} line {node.lineno}: an import that only runs"
            assert isinstance(start, ast.Constant)
            self.note(node, str(start.value) + ("" if start is target else "*"))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        is_types = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        before, self.for_types = self.for_types, self.for_types or is_types
        for child in node.body:
            self.visit(child)
        self.for_types = before
        for child in node.orelse:
            self.visit(child)


def read(source: str, module: str, is_package: bool = False) -> list[Import]:
    reader = Reader(module, is_package)
    reader.visit(ast.parse(source))
    return reader.found


def everything() -> Iterator[Import]:
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        yield from read(file.read_text(), ".".join(parts[:-1] if is_package else parts), is_package)


def room_of(name: str) -> str | None:
    """The room that a dotted name lives in; ``""`` for the front door; ``None`` for what is not ours."""
    parts = name.split(".")
    if parts[0] != "rdmaqp":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in (*ROOMS, "__main__", "_verbs") else ""


def wrong(found: Import) -> str | None:
    """What is wrong with an import, if anything."""
    own, other = room_of(found.module), room_of(found.target)
    if _is(found.target, "rdmaqp._verbs"):
        return None if found.module == "rdmaqp.verbs._native" else "only verbs/_native.py touches the extension"
    if (_is(found.target, "rich") or _is(found.target, "argparse")) and own != "cli" and not found.for_types:
        return "only cli/ knows rich and argparse"
    if other is None or own in DOORS or own == other or found.for_types:
        return None
    if found.target == "rdmaqp.__version__":  # a datum, which has no room
        return None
    if other in DOORS:
        return "a room does not go out of the front door"
    assert own is not None
    return None if ROOMS.index(own) < ROOMS.index(other) else f"{other} is above {own}"


def _is(target: str, module: str) -> bool:
    return target == module or target.startswith(module + ".")


def test_a_room_imports_only_from_rooms_below_it() -> None:
    imports = list(everything())
    assert len(imports) > 300
    assert {f"{found}: {problem}" for found in imports if (problem := wrong(found))} == set()


def test_the_order_is_that_of_the_contributors_guide() -> None:
    table = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert tuple(table) == ROOMS


def test_no_two_test_files_outside_of_packages_have_one_name() -> None:
    """pytest takes the second for the first, and stops: `tests/run.sh` then runs none of those without a device."""
    files = [path for path in Path(__file__).parent.rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    assert len(files) > 50
    assert sorted(path.name for path in files) == sorted({path.name for path in files})


def test_every_module_is_in_a_room() -> None:
    names = {entry.stem for entry in PACKAGE.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()}
    assert names - {"__init__", "__main__"} == set(ROOMS)


def test_each_room_is_seen() -> None:
    assert {room_of(found.module) for found in everything()} >= set(ROOMS) - {"host"}


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("rdmaqp.guard.mask", "from rdmaqp.verbs import device", "verbs is above guard"),
        ("rdmaqp.guard.mask", "import rdmaqp.verbs.device", "verbs is above guard"),
        ("rdmaqp.guard.mask", "from rdmaqp import verbs", "verbs is above guard"),
        ("rdmaqp.guard.mask", "from ..verbs.device import Device", "verbs is above guard"),
        ("rdmaqp.guard.mask", "from .. import verbs", "verbs is above guard"),
        ("rdmaqp.guard.mask", "def f():\n    from rdmaqp.connection import exchange", "connection is above guard"),
        ("rdmaqp.guard.mask", "import importlib\nimportlib.import_module('rdmaqp.verbs')", "verbs is above guard"),
        ("rdmaqp.guard.mask", "from rdmaqp import QueuePair", "a room does not go out of the front door"),
        ("rdmaqp.guard.mask", "import rdmaqp", "a room does not go out of the front door"),
        ("rdmaqp.errors", "from rdmaqp.guard.report import Report", "guard is above errors"),
        ("rdmaqp.errors", "if TYPE_CHECKING:\n    from rdmaqp.guard.report import Report", None),
        ("rdmaqp.errors", "if TYPE_CHECKING:\n    pass\nelse:\n    import rdmaqp.guard", "guard is above errors"),
        ("rdmaqp.verbs._native", "from rdmaqp import __version__", None),
        ("rdmaqp.guard.mask", "from rdmaqp.model.table import TABLE", None),
        ("rdmaqp.guard.mask", "from . import report\nfrom .report import Report", None),
        ("rdmaqp.verbs.loop", "import rdmaqp._verbs", "only verbs/_native.py touches the extension"),
        ("rdmaqp.verbs.loop", "from rdmaqp import _verbs", "only verbs/_native.py touches the extension"),
        ("rdmaqp.verbs.loop", "from rdmaqp._verbs import ffi", "only verbs/_native.py touches the extension"),
        ("rdmaqp.verbs.loop", "from .._verbs import lib", "only verbs/_native.py touches the extension"),
        ("rdmaqp.verbs.loop", "import_module('rdmaqp._verbs')", "only verbs/_native.py touches the extension"),
        ("rdmaqp.verbs._native", "import_module('rdmaqp._verbs')", None),
        ("rdmaqp.guard.mask", "import_module(f'rdmaqp.verbs.{name}')", "verbs is above guard"),
        ("rdmaqp.cli", "import_module(f'rdmaqp.cli.{name}')", None),
        ("rdmaqp.lab.status", "import rich", "only cli/ knows rich and argparse"),
        ("rdmaqp.lab.status", "from rich.table import Table", "only cli/ knows rich and argparse"),
        ("rdmaqp.lab.status", "def f():\n    import argparse", "only cli/ knows rich and argparse"),
        ("rdmaqp.cli.lab", "import argparse\nfrom rich.table import Table", None),
        ("rdmaqp.lab.status", "import richer", None),
        ("rdmaqp.__main__", "from rdmaqp.cli import main", None),
        ("rdmaqp.lab.status", "from rdmaqp.__main__ import main", "a room does not go out of the front door"),
    ],
)
def test_the_reader_sees_each_kind_of_import(module: str, source: str, problem: str | None) -> None:
    problems = {wrong(found) for found in read(source, module)} - {None}
    assert problems == ({problem} if problem else set())


def test_a_package_resolves_its_own_relative_imports() -> None:
    assert [found.target for found in read("from . import a\nfrom .b import c", "rdmaqp.guard", is_package=True)] == [
        "rdmaqp.guard.a", "rdmaqp.guard.b.c"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["name", "f'{name}'", "f'rdmaqp{name}'", "'rdmaqp.' + name"])
def test_an_import_that_only_runs_is_refused(name: str) -> None:
    with pytest.raises(AssertionError, match="an import that only runs"):
        read(f"import_module({name})", "rdmaqp.guard.mask")
