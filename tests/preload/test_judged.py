"""What is said of a program's calls, and what becomes of them."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import pytest

from preload.mistakes import GID, NAMED, ROCE, results
from preload.watching import Watched, watch
from rdmaqp.guard import check
from rdmaqp.model import codec
from rdmaqp.preload.ends import disagreements, peer_of
from stub import NullDevice


def run(programs: Path, device: NullDevice, *names: str, **options: object) -> Watched:
    own = device.environment(**ROCE)
    return watch([programs / "mistakes", GID, *names], own, **options)


def errors_by_pair(seen: Watched) -> dict[int, set[tuple[str, str]]]:
    return {
        judged.pair.number: {(finding.rule, finding.field) for finding in judged.report.errors}
        for judged in seen.found if judged.report.errors
    }  # fmt: skip


def test_every_mistake_is_named_and_with_enforce_none_is_made(programs: Path, null_device: NullDevice) -> None:
    seen = run(programs, null_device, enforce=True)
    assert (seen.status, seen.err) == (0, "")
    told, errors = results(seen.out), errors_by_pair(seen)
    assert told.keys() == {*NAMED, "none", "peers"}
    for name, finding in NAMED.items():
        number, error = told[name]
        assert finding in errors[number], name
        assert error == errno.EINVAL, name
    assert told["none"][1] == told["peers"][1] == 0
    assert told["none"][0] not in errors
    assert seen.judge.refused == len(NAMED)
    # What reached the library is what was not refused.
    assert len(null_device.calls("ibv_modify_qp")) == sum(len(path) for path in seen.paths)


def test_with_report_everything_is_let_through(programs: Path, null_device: NullDevice) -> None:
    bare = null_device.run([programs / "mistakes", GID], **ROCE)
    seen = run(programs, null_device)
    assert (seen.status, seen.out, seen.err) == (bare.returncode, bare.stdout, bare.stderr)
    assert {rule for rule, _ in NAMED.values()} <= seen.rules
    assert seen.judge.refused == 0


def test_a_finding_is_told_once_a_kind_and_counted(programs: Path, null_device: NullDevice) -> None:
    line = f"for i in 1 2 3; do {programs / 'mistakes'} {GID} no_grh; done"
    seen = watch(["sh", "-c", line], null_device.environment(**ROCE))
    (judged,) = seen.found
    assert seen.judge.findings["grh-missing", "ah_attr", "error"] == 3
    assert re.fullmatch(r"make_call \(mistakes\.c:\d+\)", str(judged.caller))
    assert judged.pair.process.program == "mistakes"
    assert judged.tid == judged.pair.process.pid


def test_the_same_finding_on_another_arrow_is_told_too(programs: Path, null_device: NullDevice) -> None:
    """All calls come from one function, as with programs that have one of their own for it."""
    seen = run(programs, null_device, "init_left_out", "rtr_left_out")
    assert [str(judged.report.subject).rpartition(", ")[2] for judged in seen.found if judged.report.errors] == [
        "RESET → RTR", "INIT → RTS",
    ]  # fmt: skip
    assert seen.judge.findings["transition-illegal", "qp_state", "error"] == 2


def test_ends_that_were_both_seen_and_do_not_agree(programs: Path, null_device: NullDevice) -> None:
    seen = run(programs, null_device, "none", "peers")
    (one,) = disagreements(seen.judge.pairs)
    assert {(finding.rule, finding.field) for finding in one.findings} == {
        ("peer-psn", "rq_psn"), ("peer-mtu", "path_mtu"),
    }  # fmt: skip
    assert [pair.destroyed for pair in seen.judge.pairs] == [True, False, False]


def test_a_peer_on_infiniband_is_found_by_its_lid(programs: Path, null_device: NullDevice) -> None:
    seen = watch([programs / "linked", "threads", "3"], null_device.environment())  # each leads to itself
    for pair in seen.judge.pairs:
        assert peer_of(pair, {pair.number: [pair]}) is pair
    assert disagreements(seen.judge.pairs) == []
    elsewhere = watch([programs / "linked", "threads", "3"], null_device.environment(LID=18))
    assert [peer_of(pair, {pair.number: [pair]}) for pair in elsewhere.judge.pairs] == [None] * 3


def test_a_failed_call_is_explained(programs: Path, null_device: NullDevice) -> None:
    own = null_device.environment(**ROCE, MODIFY_ERRNO="RTR=110")
    seen = watch([programs / "mistakes", GID, "none", "none"], own)
    assert results(seen.out)["none"][1] == errno.ETIMEDOUT
    (error,) = seen.failures
    assert "RC queue pair" in error.headline()
    assert "ETIMEDOUT" in error.headline()
    assert "neighbour-unresolved" in {cause.cause for cause in error.causes if cause.standing != "ruled-out"}
    assert seen.paths == [["INIT", "RTR"]]
    assert seen.judge.pairs[0].steps[1].error == errno.ETIMEDOUT


def test_rules_to_ignore(programs: Path, null_device: NullDevice) -> None:
    seen = run(programs, null_device, "no_grh", enforce=True, ignore=frozenset({"grh-missing"}))
    assert "grh-missing" not in seen.rules
    assert results(seen.out)["no_grh"][1] == 0


# ---------------------------------------------------------------------- the trace


def test_the_trace_is_what_check_reads_and_judges_the_same(programs: Path, null_device: NullDevice) -> None:
    seen = run(programs, null_device)
    assert len(seen.lines) == sum(process.calls for process in seen.judge.processes)
    found = set()
    for line in seen.lines:
        assert line["units"] == "abi"
        assert "mistakes[" in line["id"]
        found |= {(finding.rule, finding.field) for finding in check(codec.loads(json.dumps(line))).errors}
    assert found == {(rule, field) for rule, field, severity in seen.judge.findings if severity == "error"}


def test_a_failure_is_in_the_trace(programs: Path, null_device: NullDevice) -> None:
    own = null_device.environment(**ROCE, MODIFY_ERRNO="RTR=101")
    seen = watch([programs / "mistakes", GID, "none"], own)
    assert [line.get("failed") for line in seen.lines] == [None, {"errno": 101}]


def test_redacted_it_says_nothing_of_the_place_and_is_judged_the_same(programs: Path, null_device: NullDevice) -> None:
    plain, redacted = (run(programs, null_device, redact=redact) for redact in (False, True))
    text = "\n".join(map(json.dumps, redacted.lines))
    assert "fe80::ff:fe00:1" in json.dumps(plain.lines)
    assert "fe80::ff:fe00:1" not in text
    assert "mistakes" not in text
    for one, other in zip(plain.lines, redacted.lines, strict=True):
        answers = [check(codec.loads(json.dumps(line))) for line in (one, other)]
        rules = [[(finding.rule, finding.severity) for finding in answer.findings] for answer in answers]
        assert rules[0] == rules[1]


@pytest.mark.parametrize("verb", ["QUERY_QP", "QUERY_DEVICE", "QUERY_PORT", "QUERY_GID_TABLE", "QUERY_PKEY"])
def test_a_question_that_is_not_answered_leaves_the_program_alone(
    verb: str, programs: Path, null_device: NullDevice
) -> None:
    own = null_device.environment(**ROCE, **{f"{verb}_ERRNO": errno.EOPNOTSUPP})
    seen = watch([programs / "mistakes", GID, "none"], own, enforce=True)
    assert (seen.status, results(seen.out)["none"][1]) == (0, 0)
    assert seen.paths == [["INIT", "RTR", "RTS"]]
    assert not seen.rules
