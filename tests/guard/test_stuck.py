"""A send queue that nothing will ever free: when it is said, and when it is not."""

from __future__ import annotations

from typing import Any

import pytest
from guard_requests import post, with_
from rule_triggers import judge


def answer(ours: bool | None, qp: dict[str, Any]) -> str:
    """What is said of ``post-stuck``; the queue pair has room for 16 sends."""
    act = {} if ours is None else {"signaled": ours}
    report = judge(with_(post(**act), qp=qp))
    if any(finding.rule == "post-stuck" for finding in report.findings):
        return "warned"
    skipped = next((one.needs for one in report.skipped if one.rule == "post-stuck"), None)
    return "nothing" if skipped is None else f"needs {skipped}"


@pytest.mark.parametrize(("signaled", "outstanding", "under_way", "says"), [
    (False, 15, False, "warned"),
    (False, 15, True, "nothing"),
    (True, 15, False, "nothing"),
    (True, 15, None, "nothing"),
    (False, 14, False, "nothing"),
    (False, 16, False, "nothing"),  # full already: post-full says that
    (None, 15, False, "needs post.signaled"),
    (False, 15, None, "needs qp.signaled"),
    (None, 3, None, "nothing"),
])  # fmt: skip
def test_the_send_that_fills_the_queue(
    signaled: bool | None, outstanding: int, under_way: bool | None, says: str
) -> None:
    known = {} if under_way is None else {"signaled": under_way}
    assert answer(signaled, {"outstanding": outstanding, **known}) == says


def test_the_only_send_of_a_queue_of_one() -> None:
    """None is under way, so none that is signaled: nothing needs to be told."""
    one = {"cap": {"max_send_wr": 1, "max_recv_wr": 1, "max_send_sge": 1, "max_recv_sge": 1, "max_inline_data": 0}}
    assert answer(False, {"outstanding": 0, **one}) == "warned"
    assert answer(True, {"outstanding": 0, **one}) == "nothing"


def test_receives_always_complete() -> None:
    report = judge(with_(post("recv", signaled=False), qp={"recv_posted": 15, "signaled": False}))
    assert not any(finding.rule == "post-stuck" for finding in report.findings)
