"""The kernel's list of queue pairs: as the tool prints it, and what changes from one look to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rdmaqp.host import resources
from rdmaqp.host.answers import Refused, Unknown
from rdmaqp.host.resources import Change, QueuePairView, changes, queue_pairs

#: As iproute2 6.1 printed it in the lab, and entries that are none.
PRINTED: list[Any] = [
    {"ifindex": 0, "ifname": "rxe0", "port": 1, "lqpn": 18, "rqpn": 17, "type": "RC", "state": "RTS", "rq-psn": 1,
     "sq-psn": 2, "path-mig-state": "MIGRATED", "pdn": 2, "pid": 41, "comm": "python"},
    {"ifindex": 0, "ifname": "rxe0", "lqpn": 1, "type": "GSI", "state": "RTS", "sq-psn": 0, "comm": "ib_core"},
    {}, "odd", {"ifname": "rxe0"}, {"lqpn": 3}, {"ifname": 7, "lqpn": 3},
]  # fmt: skip


def view(number: int, state: str, pid: int | None = 41) -> QueuePairView:
    return QueuePairView("rxe0", 1, number, "RC", state, pid=pid)


def test_as_the_tool_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "ask_json", lambda *_: PRINTED)
    assert queue_pairs() == (
        QueuePairView("rxe0", None, 1, "GSI", "RTS", sq_psn=0, process="ib_core"),
        QueuePairView("rxe0", 1, 18, "RC", "RTS", 17, 1, 2, 41, "python"),
    )


@pytest.mark.parametrize("answer", [Refused("no"), Unknown("rdma is not installed"), {"an": "object"}])
def test_what_cannot_be_asked(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(resources, "ask_json", lambda *_: answer)
    assert isinstance(queue_pairs(), (Refused, Unknown))


def test_changes() -> None:
    before = [view(17, "INIT"), view(18, "RTS"), view(19, "RTS")]
    after = [view(17, "RTS"), view(18, "RTS"), view(20, "RESET")]
    assert list(changes(before, after)) == [
        Change("moved", after[0], "INIT"), Change("new", after[2]), Change("gone", before[2], "RTS"),
    ]  # fmt: skip
    assert list(changes(before, before)) == []


def test_a_number_given_again_is_another_queue_pair() -> None:
    there, again = view(17, "ERR"), replace(view(17, "RESET"), pid=42)
    assert [change.what for change in changes([there], [again])] == ["new", "gone"]
