"""rdma_cm on iWARP, whose connection manager takes RTR and RTS by itself: the null device, and a stub librdmacm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from build_module import load_build_ffi
from null_side import QPState, calls, error_of, rdmaqp, said

from rdmaqp.verbs import cm

if TYPE_CHECKING:
    from conftest import Null

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "stub" / "cm" / "librdmacm.c"


@pytest.fixture(scope="module")
def librdmacm(tmp_path_factory: pytest.TempPathFactory, stub_library: Path) -> Path:
    into = tmp_path_factory.mktemp("cm") / "librdmacm.so"
    command = ["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(into), str(SOURCE)]
    command.append(str(stub_library / "libibverbs.so.1"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into


def begin(library: str) -> None:
    cm.LIBRARY = library


def log() -> list[str]:
    return Path(os.environ["RDMAQP_STUB_CM_LOG"]).read_text().splitlines()


def client(library: str) -> dict[str, Any]:
    begin(library)
    seen = []
    with rdmaqp.cm_connect("192.0.2.1", 7, private_data=b"moin", prepare=lambda it: seen.append(it.qp.state)) as link:
        hand = error_of(link.qp.modify, qp_state="RTR")
        came = {
            "peer": link.peer, "told": link.private_data.decode(), "seen": [state.name for state in seen],
            "qp_num": link.qp.qp_num, "steps": [[one.start.name, one.goal.name] for one in link.qp.transitions],
            "by hand": said(hand), "before": log(),
        }  # fmt: skip
    return {**came, "after": log()[len(came["before"]) :], "modified": len(calls("ibv_modify_qp"))}


def server(library: str) -> dict[str, Any]:
    begin(library)
    with rdmaqp.cm_listen(7, "192.0.2.1") as listener:
        with listener.accept(5, private_data=b"tach", responder_resources=9, initiator_depth=9) as link:
            assert link.qp.transitions[-1].goal is QPState.INIT
            came = {"peer": link.peer, "told": link.private_data.decode(), "qp_num": link.qp.qp_num}
        came["port"] = listener.port
    return {**came, "log": log()}


def fails(library: str) -> dict[str, Any]:
    begin(library)

    def prepare(_: rdmaqp.CMLink) -> None:
        raise LookupError("no memory today\nand more")

    with rdmaqp.cm_listen(7, "192.0.2.1") as listener:
        error = said(error_of(listener.accept, 5, prepare=prepare))
    return {"error": error, "log": log()}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    return {"TRANSPORT": 1, "LINK": "ethernet", "CM_LOG": tmp_path / "cm.log"}


def opened(lines: list[str]) -> tuple[int, int]:
    """How many channels and ids are open at the end of *lines*."""
    return tuple(lines.count(f"open {kind}") - lines.count(f"close {kind}") for kind in ("channel", "id"))  # type: ignore[return-value]


def test_a_client(null: Null, librdmacm: Path, settings: dict[str, Any]) -> None:
    came = null.run(client, str(librdmacm), **settings)
    assert (came["peer"], came["told"], came["seen"]) == ("192.0.2.1:7", "hello", ["INIT"])
    assert came["steps"] == [["RESET", "INIT"]]
    assert came["modified"] == 1
    assert came["by hand"]["errors"][0][0] == "transition-needs-cm"
    assert "rdmaqp.cm_connect(host, port)" in came["by hand"]["text"]
    assert came["before"] == ["open channel", "open id", "attributes 1", f"connect qp_num {came['qp_num']} data moin"]
    assert came["after"] == ["disconnect", "close id", "close channel"]


def test_a_server(null: Null, librdmacm: Path, settings: dict[str, Any]) -> None:
    came = null.run(server, str(librdmacm), **settings)
    assert (came["peer"], came["told"], came["port"]) == ("192.0.2.9:4242", "hello", 7)
    assert f"accept qp_num {came['qp_num']} data tach depth 2 1" in came["log"]
    assert opened(came["log"]) == (0, 0)


def test_who_fails_says_why_to_the_peer(null: Null, librdmacm: Path, settings: dict[str, Any]) -> None:
    came = null.run(fails, str(librdmacm), **settings)
    assert came["error"]["type"] == "LookupError"
    assert "reject no memory today" in came["log"]
    assert opened(came["log"]) == (0, 0)


def test_without_the_header_it_compiles_too() -> None:
    build_ffi = load_build_ffi()
    text = "".join((ROOT / build_ffi.FOLDER / name).read_text() for name in build_ffi.C_FILES)
    assert "rdma_get_cm_event" in text
    good, output = build_ffi.compiles(f'#define RDMAQP_WITHOUT_CM\n#define RDMAQP_VERSION "0"\n{text}')
    assert good, output
