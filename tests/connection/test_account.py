"""Numbers and counts, through any order of arrivals, acknowledgements and failures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmaqp.connection.account import Account

STEPS = st.lists(st.sampled_from(["post", "arrive", "acknowledge", "fail"]), max_size=200)


@given(STEPS)
def test_each_message_arrives_once_and_in_order(steps: list[str]) -> None:
    """A wire that delivers in order, and a receiver that counts: whatever happens, nothing is lost or there twice."""
    account = Account(4)
    wire: list[int] = []  # posted, and not arrived
    unheard: list[int] = []  # arrived, and not acknowledged
    received: list[int] = []
    for step in steps:
        if step == "post" and account.free:
            wire.append(account.post(10).number)
        elif step == "arrive" and wire:
            received.append(wire.pop(0))
            unheard.append(received[-1])
        elif step == "acknowledge" and unheard:
            unheard.pop(0)
            account.acknowledge()
        elif step == "fail":
            unheard.clear()
            wire = [parcel.number for parcel in account.settle(len(received))]
        slots = [parcel.slot for parcel in account.under_way]
        assert sorted([*slots, *account.free]) == [0, 1, 2, 3]
    received += wire
    assert received == list(range(1, account.sent + 1))


@pytest.mark.parametrize("count", [1, 4])
def test_a_count_that_cannot_be(count: int) -> None:
    account = Account(4)
    for _ in range(3):
        account.post(1)
    account.acknowledge()
    account.acknowledge()
    with pytest.raises(ValueError, match=f"the peer counts {count} messages received; 2 were acknowledged, and 3 sent"):
        account.settle(count)
