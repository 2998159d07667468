"""The guard against the running kernel: what it refuses the kernel refuses, and what it takes the kernel carries out.

Soft-RoCE only: what a kernel and a guard may disagree about (``oracle/kinds.py``) was written down for this driver.
``RDMAQP_ORACLE=whole`` makes all of the calls (``oracle/run.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import rdmaqp
from oracle import masks, run, values
from oracle.bench import Bench
from oracle.calls import STATES, TYPES
from oracle.kinds import KINDS, Kind
from rdmaqp.guard import Report, check
from rdmaqp.model.enums import QPState, QPType

if TYPE_CHECKING:
    from oracle.tally import Tally
    from rdmaqp.model.request import Request

pytestmark = pytest.mark.timeout(7200 if run.is_whole() else 900)


@pytest.fixture(scope="module")
def bench(device_name: str) -> Iterator[Bench]:
    with rdmaqp.open(device_name) as context:
        if context.driver != "rxe":
            pytest.skip(f"the oracle knows Soft-RoCE's ways alone, and {device_name} is {context.driver}: use the lab")
        yield Bench(context)


@pytest.fixture(scope="module")
def tally(bench: Bench) -> Tally:
    return run.compare(bench, run.all_calls(bench, whole=run.is_whole()))


def test_guard_and_kernel_disagree_about_nothing_that_is_not_explained(
    tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{tally.render()}")
    assert tally.unexplained == []


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_each_kind_of_disagreement_does_occur(kind: Kind, tally: Tally) -> None:
    assert tally.occurred(kind.name), f"nothing needs it any more: {kind.reason}"


def test_each_arrow_was_tried(tally: Tally) -> None:
    expected = {(kind, state, goal) for kind in TYPES for state in STATES for goal in (*map(int, QPState), None)}
    assert expected - tally.goals == set()
    assert tally.by_group["random", "agreed"] > 0.9 * run.MASKS[run.is_whole()]


def never(request: Request) -> Report:
    """A guard that finds nothing."""
    report = check(request)
    report.findings.clear()
    return report


def always(request: Request) -> Report:
    """A guard that refuses whatever it is asked."""
    report = check(request)
    report.find("mask-missing", "timeout", "always")
    return report


def careless(request: Request) -> Report:
    """A guard that does not see a missing bit."""
    report = check(request)
    report.findings[:] = [finding for finding in report.findings if finding.rule != "mask-missing"]
    return report


def test_a_guard_that_errs_is_found(bench: Bench) -> None:
    lists = (call for call in masks.systematic(bench.scene) if call.kind is QPType.RC)
    calls = [call for call in lists if call.group in ("arrow", "dropped")]
    missed = run.compare(bench, calls, never).unexplained
    assert any("the kernel refuses it" in line for line in missed)
    alarms = run.compare(bench, calls, always).unexplained
    assert len(alarms) > 15
    assert all("the kernel takes it, the guard refuses it" in line for line in alarms)
    dropped = sum(call.group == "dropped" for call in calls)
    assert len(run.compare(bench, calls, careless).unexplained) == dropped
    cut = (call for call in values.boundaries(bench.scene, 1, whole=False) if call.group == "rq_psn")
    assert any("the kernel makes" in line for line in run.compare(bench, islice(cut, 40), never).unexplained)
