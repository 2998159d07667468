"""The choice among a port's addresses, and the reason given for it."""

from __future__ import annotations

import pytest

from rdmaqp import GID, GidEntry, GidType, pick_gid

V1, V2, IB = GidType.ROCE_V1, GidType.ROCE_V2, GidType.IB
LINK_LOCAL, IPV4, IPV6 = "fe80::1", "192.0.2.1", "2001:db8::1"


def entry(index: int, gid: str, kind: GidType | None, netdev: str | None = "eth0") -> GidEntry:
    return GidEntry(index, GID.parse(gid), kind, netdev)


@pytest.mark.parametrize(("better", "worse"), [
    (entry(9, IPV4, V2), entry(0, LINK_LOCAL, V2)),
    (entry(9, IPV4, V2), entry(0, IPV6, V2)),
    (entry(9, IPV6, V2), entry(0, LINK_LOCAL, V2)),
    (entry(9, LINK_LOCAL, V2), entry(0, IPV4, V1)),
    (entry(9, IPV4, V1), entry(0, IPV4, V2, "")),
    (entry(9, IPV4, V2, ""), entry(0, LINK_LOCAL, V2, "")),
    (entry(1, IPV4, V2), entry(2, IPV4, V2)),
    (entry(9, IPV4, V1), entry(0, IPV4, None)),
])  # fmt: skip
def test_the_better_is_picked_whatever_the_order(better: GidEntry, worse: GidEntry) -> None:
    for table in ([better, worse], [worse, better]):
        choice = pick_gid(table)
        assert choice is not None
        assert choice.entry == better
        assert choice.reason


def test_the_reason_names_what_it_was_preferred_to() -> None:
    choice = pick_gid([entry(0, LINK_LOCAL, V2), entry(1, IPV4, V2)])
    assert choice is not None
    assert choice.reason == "RoCE v2, routable, IPv4; before GID 0 (RoCE v2, link-local)"


def test_link_local_is_as_good_as_any_on_infiniband() -> None:
    choice = pick_gid([entry(0, LINK_LOCAL, IB, None), entry(1, IPV6, IB, None)])
    assert choice is not None
    assert choice.entry.index == 0
    assert "lowest index of 2" in choice.reason


def test_an_empty_table_has_no_pick() -> None:
    assert pick_gid([]) is None
    assert pick_gid([entry(0, "::", None)]) is None
