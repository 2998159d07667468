"""What was asked of a queue pair is kept, logged, and traced so that ``rdmaqp check`` can replay it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from null_side import connected, error_of, rdmaqp, ready, said, side, stub

if TYPE_CHECKING:
    from conftest import Null


def story() -> dict[str, Any]:
    lines: list[str] = []
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    logging.getLogger("rdmaqp").addHandler(handler)
    logging.getLogger("rdmaqp").setLevel(logging.DEBUG)
    with rdmaqp.trace(lines.append):
        one = ready("INIT")
        refused = error_of(one.qp.modify, qp_state="RTS")
        stub(MODIFY_ERRNO="ERR=5")
        failed = error_of(one.qp.error)
        stub(MODIFY_ERRNO=None)
    one.qp.reset()
    history = one.qp.history
    return {
        "raised": [said(refused)["type"], said(failed)["type"]],
        "history": [[at.start.name, at.goal.name, at.result, at.errno, list(at.mask)] for at in history],
        "errors": [at.error for at in history],
        "times": [at.time_ns > 10**18 and 0 < at.duration_ns < 10**11 for at in history],
        "attr": history[0].attr.port_num,
        "lines": [json.loads(line) for line in lines], "logged": logged, "text": str(history[1]),
    }  # fmt: skip


def test_calls_that_were_taken_refused_and_failed_are_kept_logged_and_traced(null: Null) -> None:
    came = null.run(story)
    assert came["raised"] == ["InvalidStateTransition", "VerbsError"]
    init = ["STATE", "ACCESS_FLAGS", "PKEY_INDEX", "PORT"]
    assert came["history"] == [
        ["RESET", "INIT", "taken", None, init], ["INIT", "RTS", "refused", None, ["STATE"]],
        ["INIT", "ERR", "failed", 5, ["STATE"]], ["INIT", "RESET", "taken", None, ["STATE"]],
    ]  # fmt: skip
    assert [bool(text) for text in came["errors"]] == [False, True, True, False]
    assert all(came["times"])
    assert came["attr"] == 1
    assert " INIT → RTS refused in " in came["text"]
    assert [line["qp"]["state"] for line in came["lines"]] == ["RESET", "INIT", "INIT"]  # the last was after the trace
    assert [line.get("failed") for line in came["lines"]] == [None, None, {"errno": 5}]
    assert [line.split(" ")[0] for line in came["logged"]] == ["DEBUG", "INFO", "INFO", "DEBUG"]


def replayed(ethernet: bool) -> list[str]:
    """A whole bring-up with both records, and a call that is refused for its values."""
    lines: list[str] = []
    if ethernet:
        stub(LINK="ethernet", GIDS="3=::ffff:192.0.2.1/ROCE_V2@lo")
    with rdmaqp.trace(lines.append):
        first, _ = connected()
        error_of(first.qp.modify, qp_state="RTS", min_rnr_timer=77)
    return lines


def check(lines: list[str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "rdmaqp", "check", "-", "--json"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_trace_is_replayed_with_the_same_verdicts(null: Null) -> None:
    for ethernet in (False, True):
        answers = check(null.run(replayed, ethernet))
        verdicts = [answer["verdict"] for answer in answers]
        assert len(verdicts) == 7
        assert "refuse" not in verdicts[:6]
        assert verdicts[6] == "refuse"
        assert [finding["rule"] for finding in answers[6]["findings"] if finding["severity"] == "error"] == [
            "value-range"
        ]


def bad_targets() -> dict[str, Any]:
    def broken(_: str) -> None:
        raise OSError(28, "no space")

    good: list[str] = []
    with rdmaqp.trace(broken), rdmaqp.trace(good.append):
        one = side()
        one.qp.to_init()
        one.qp.reset()
    errors = [said(error_of(rdmaqp.trace, what))["type"] for what in (7, "/nowhere/at/all")]
    for _ in range(200):
        one.qp.to_init()
        one.qp.reset()
    return {"state": one.qp.state.name, "good": len(good), "errors": errors, "kept": len(one.qp.history)}


def test_a_trace_that_breaks_stops_and_the_call_goes_on(null: Null) -> None:
    came = null.run(bad_targets)
    assert came == {"state": "RESET", "good": 2, "errors": ["TypeError", "FileNotFoundError"], "kept": 128}


def by_environment() -> str:
    side().qp.to_init()
    return "done"


def test_the_environment_names_a_file(null: Null, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    environment = null.device.environment() | {"RDMAQP_TRACE": str(file)}
    for _ in range(2):
        subprocess.run(null.command(by_environment), env=environment, check=True, timeout=60, capture_output=True)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["attr"]["qp_state"] for line in lines] == ["INIT", "INIT"]
    assert file.stat().st_mode & 0o777 == 0o644
