"""``rdmaqp diagram``: whatever it is drawn with, each arrow of the table is there, and no other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rdmaqp.cli.canvas import Canvas
from rdmaqp.cli.diagram import dot, mermaid
from rdmaqp.cli.drawing import Drawing, draw
from rdmaqp.cli.picture import Picture, names
from rdmaqp.cli.svg import svg
from rdmaqp.guard.driver_rows import DRIVERS
from rdmaqp.guard.lore.machine import Kind, has_type, rules_of
from rdmaqp.model.enums import QPState, QPType
from rdmaqp.model.table import DRIVER_TABLE, TABLE

from .conftest import Rdmaqp

DRAWN = [(kind, driver) for kind in (*TABLE, *DRIVER_TABLE) for driver in (None, *DRIVERS) if has_type(kind, driver)]
FEW = [(kind, driver) for kind, driver in DRAWN if driver in (None, "mlx5", "hns", "siw", "qedr")]
SVG = "{http://www.w3.org/2000/svg}"


def pairs(found: list[tuple[str, str]]) -> set[tuple[QPState, QPState]]:
    assert len(found) == len(set(found))
    return {(QPState[start], QPState[goal]) for start, goal in found}


@pytest.mark.parametrize(("kind", "driver"), DRAWN)
def test_each_arrow_of_the_table_is_drawn(kind: Kind, driver: str | None) -> None:
    picture = Picture.of(kind, driver)
    table = set(rules_of(kind))
    assert set(picture.arrows) == table
    by_itself = {pair for pair, _ in picture.by_hardware}
    assert Drawing(picture).drawn == table | by_itself
    titles = [title.text or "" for group in ElementTree.fromstring(svg(picture)).iter(f"{SVG}g")
              if "arrow" in group.get("class", "") for title in group.findall(f"{SVG}title")]  # fmt: skip
    assert pairs([tuple(re.findall("[A-Z]{3,5}", title.split(":")[0])[:2]) for title in titles  # type: ignore[misc]
                  if "by hardware" not in title]) == table  # fmt: skip
    in_dot = re.findall(r"^    ([A-Z]+) -> ([A-Z]+) \[(?!.*(?:dotted|invis))", dot(picture), re.MULTILINE)
    assert pairs(in_dot) == table
    in_mermaid = re.findall(r"^    ([A-Z]+) \S*[-=.]+>(?:\|.*\|)? ([A-Z]+)$", mermaid(picture), re.MULTILINE)
    assert pairs(in_mermaid[: len(in_mermaid) - len(by_itself)]) == table


@pytest.mark.parametrize(("kind", "driver"), DRAWN)
def test_what_a_driver_lacks_is_marked_with_its_reason(kind: Kind, driver: str | None) -> None:
    picture = Picture.of(kind, driver)
    text = draw(picture).plain
    missing = picture.missing
    assert bool(missing) == ("✗" in text)
    marks = text.split("Names at an arrow")[0].count("✗")
    assert marks == len(missing)
    for form in (svg(picture), dot(picture), mermaid(picture)):
        for arrow in missing:
            assert arrow.missing
            assert (arrow.missing.split(": ")[-1].split(",")[0]) in form
    assert svg(picture).count('class="arrow missing"') == len(missing)
    assert mermaid(picture).count("stroke:#c22") == len(missing)


@pytest.mark.parametrize("kind", TABLE)
def test_what_the_way_up_requires_is_written_on_it(kind: QPType) -> None:
    picture = Picture.of(kind)
    words = set(re.findall(r"[A-Z_]{2,}", draw(picture).plain))
    for arrow in picture.arrows.values():
        assert set(names(arrow.required)) <= words
        for name in names(arrow.required):
            assert f">{name}</text>" in svg(picture)


@pytest.mark.parametrize(("kind", "driver"), FEW)
def test_it_fits_a_terminal_and_no_line_is_in_a_box(kind: Kind, driver: str | None) -> None:
    text = draw(Picture.of(kind, driver)).plain
    assert max(map(len, text.splitlines())) <= 86
    assert max(len(line) for line in text.split("Names at")[0].splitlines()) <= 78
    for state in QPState:
        assert re.search(rf"[│├┤]\s+{state.name}\s+[✗ ]?↺? *[│├┤]", text), state
    assert "┼" not in text


def test_what_nobody_reaches_is_grey() -> None:
    assert [state.name for state in QPState if not Picture.of(QPType.RC).reaches(state)] == ["SQE"]
    assert [state.name for state in QPState if not Picture.of(QPType.UD, "mlx5").reaches(state)] == ["SQD"]
    assert Picture.of(QPType.RC, "siw").reaches(QPState.RTS), "the connection manager leads there"


def test_strokes_join() -> None:
    canvas = Canvas()
    canvas.stroke((0, 0), (2, 0), (2, 2), (0, 2), (0, 0))
    canvas.stroke((1, 0), (1, 2))
    canvas.stroke((0, 1), (2, 1))
    assert canvas.render().plain == "╭┬╮\n├┼┤\n╰┴╯"
    canvas.stroke((4, 1), (8, 1), dashed=True)
    assert canvas.render().plain.splitlines()[1] == "├┼┤ ╌╌╌╌╌"


def test_the_command(rdmaqp: Rdmaqp, tmp_path: Path) -> None:
    assert "emergency brake" in rdmaqp("diagram").stdout
    for arguments in (("UD",), ("-t", "UD"), ("ud",), ("IBV_QPT_UD",)):
        assert rdmaqp("diagram", *arguments).stdout.startswith("  UD queue pair\n")
    assert rdmaqp("diagram", "DCT").stdout.startswith("  DCT queue pair on mlx5\n")
    file = tmp_path / "rc.svg"
    assert rdmaqp("diagram", "--type", "UD", "--driver", "mlx5_ib", "--svg", file).returncode == 0
    assert "UD queue pair on mlx5" in file.read_text()
    assert rdmaqp("diagram", "--dot", "-").stdout.startswith('digraph "RC queue pair"')
    assert rdmaqp("diagram", "--mermaid", "-").stdout.startswith("flowchart TD\n")


def test_what_cannot_be_drawn_is_said(rdmaqp: Rdmaqp, tmp_path: Path) -> None:
    done = rdmaqp("diagram", "--type", "XRC_SEND", "--driver", "rxe")
    assert (done.returncode, done.stderr) == (1, "rdmaqp: rxe has no XRC_SEND queue pairs; it has: RC, UC, UD\n")
    done = rdmaqp("diagram", "DCI", "--driver", "rxe")
    assert (done.returncode, done.stderr) == (1, "rdmaqp: rxe has no DCI queue pairs; it has: RC, UC, UD\n")
    done = rdmaqp("diagram", "--svg", tmp_path / "no" / "such")
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize(("kind", "driver"), [(QPType.RC, None), (QPType.UD, "hns")])
def test_graphviz_takes_it(kind: Kind, driver: str | None) -> None:
    text = dot(Picture.of(kind, driver))
    done = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
