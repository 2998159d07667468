"""Public failures, and cases made up at the edges of each rule: the guard's answer to each is the right one."""

from __future__ import annotations

import json

import pytest
from public_cases import ALL, Case

from rdmaqp.guard import check
from rdmaqp.guard.report import Report
from rdmaqp.guard.rules import RULES
from rdmaqp.model import codec


def test_all_cases_are_here() -> None:
    assert len(ALL) == len({case.id for case in ALL}) == 399


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_verdict_and_the_rules(case: Case) -> None:
    report = check(codec.decode(case.request))
    expect = case.expect
    found = {finding.rule for finding in report.findings}
    errors = {finding.rule for finding in report.errors}
    text = f"{case.story}\n{case.source}\n{report.render()}"
    if expect.get("verdict"):
        assert report.verdict in expect["verdict"].split("|"), text
    assert set(expect.get("rules") or ()) <= found, text
    assert not expect.get("rules_any") or found & set(expect["rules_any"]), text
    assert not errors & set(expect.get("not_rules") or ()), text


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_answer_is_json_and_text(case: Case) -> None:
    report = check(codec.decode(case.request))
    answer = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert answer["verdict"] == report.verdict
    for finding in answer["findings"]:
        assert finding["rule"] in RULES
        assert finding["severity"] in ("error", "warning", "note")
        assert {"field", "message", "source"} <= set(finding)
    assert report.headline() in report.render()


def test_a_mended_twin_has_no_error() -> None:
    twins: list[tuple[str, Report]] = [
        (case.id, check(codec.decode(case.request))) for case in ALL if case.id.endswith("-ok")
    ]
    assert [name for name, report in twins if report.refused] == []
