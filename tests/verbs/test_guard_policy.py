"""A queue pair under another policy, on the null device: what is called, what is said, and where it points."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from null_side import QPAttr, calls, rdmaqp, ready

if TYPE_CHECKING:
    from conftest import Null


def attempt(mode: str | None, block: str | None, variable: str | None, how: str) -> dict[str, Any]:
    """RTR → RTS with a retry count of 0 and an RNR retry of 9: one warning, one error."""
    qp = ready("RTR").qp
    os.environ["RDMAQP_GUARD"] = variable or ""
    fields = {"qp_state": "RTS", "timeout": 14, "retry_cnt": 0, "rnr_retry": 9, "sq_psn": 0, "max_rd_atomic": 1}
    before = len(calls("ibv_modify_qp"))
    with warnings.catch_warnings(record=True) as caught, rdmaqp.policy(block or rdmaqp.Policy.parse(variable or "")):
        warnings.simplefilter("always")
        try:
            if how == "safe":
                rdmaqp.safe_modify_qp(qp, QPAttr(**fields), policy=mode)
            else:
                qp.modify(**fields, policy=mode)
            raised = ""
        except rdmaqp.GuardError as error:
            raised = ", ".join(finding.rule for finding in error.report.errors)
    return {
        "raised": raised,
        "warned": [str(entry.message).rsplit("[", 1)[1].rstrip("]") for entry in caught],
        "from": sorted({Path(entry.filename).name for entry in caught}),
        "native": len(calls("ibv_modify_qp")) - before,
        "state": qp.state.name,
        "findings": len(qp.report.findings),
    }


@pytest.mark.parametrize("how", ["modify", "safe"])
@pytest.mark.parametrize(
    ("mode", "block", "variable", "raised", "warned"),
    [
        (None, None, None, "value-range", []),
        ("strict", "off", "off", "value-range", []),
        ("warn", None, None, "", ["value-range", "retry-none"]),
        (None, "warn", None, "", ["value-range", "retry-none"]),
        (None, None, "warn -retry-none", "", ["value-range"]),
        ("-value-range", None, None, "", ["retry-none"]),
        ("off", None, None, "", []),
        (None, "off", "strict", "", []),
    ],
)
def test_what_becomes_of_an_error_and_a_warning(
    null: Null, mode: str | None, block: str | None, variable: str | None, raised: str, warned: list[str], how: str
) -> None:
    came = null.run(attempt, mode, block, variable, how)
    assert came["raised"] == raised
    assert came["warned"] == warned
    assert came["native"] == (0 if raised else 1)
    assert came["state"] == ("RTR" if raised else "RTS")
    if warned and how == "modify":
        assert came["from"] == [Path(__file__).name]  # the caller's line, not ours


def creation(mode: str) -> list[Any]:
    one = ready("RESET")
    with rdmaqp.policy(mode):
        try:
            one.pd.create_qp(one.cq, max_send_wr=1 << 20)
        except rdmaqp.GuardError as error:
            return ["refused", [finding.rule for finding in error.report.errors]]
        except rdmaqp.VerbsError as error:
            return ["called", error.verb]
        return ["called", ""]


def test_a_creation_is_judged_by_the_policy_too(null: Null) -> None:
    assert null.run(creation, "strict") == ["refused", ["create-over-limit"]]
    assert null.run(creation, "off")[0] == "called"


def where_from() -> dict[str, list[Any]]:
    """Each way to a warning, and the line that it points at: one of this function's."""
    first, second = ready("RTR"), ready("RESET")
    here = second.qp.endpoint(psn=1)
    sends = {"timeout": 14, "rnr_retry": 7, "sq_psn": 0, "max_rd_atomic": 1, "retry_cnt": 0}
    ways: dict[str, Any] = {
        "to_rts": lambda: first.qp.to_rts(sq_psn=0, retry_cnt=0),
        "modify": lambda: first.qp.modify(qp_state="RTS", **sends),
        "safe": lambda: rdmaqp.safe_modify_qp(first.qp, QPAttr(qp_state="RTS", **sends)),
        "connect": lambda: second.qp.connect(here, here, retry_cnt=0),
        "policy": lambda: rdmaqp.Policy("warn").settle(rdmaqp.check(rdmaqp.Request(
            qp=rdmaqp.QPFacts(type=rdmaqp.QPType.RC, state=rdmaqp.QPState.RTR), attr=QPAttr(qp_state="RTS", **sends)
        ))),
    }  # fmt: skip
    came = {}
    for name, way in ways.items():
        if first.qp.state.name == "RTS":
            first = ready("RTR")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            way()
        code = way.__code__
        lines = {line for *_, line in code.co_lines() if line}
        came[name] = [len(caught), [entry.filename == code.co_filename and entry.lineno in lines for entry in caught]]
    return came


def test_a_warning_points_at_the_users_own_line(null: Null) -> None:
    for name, (count, is_there) in null.run(where_from).items():
        assert count, name
        assert all(is_there), name
