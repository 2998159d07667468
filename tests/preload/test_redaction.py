"""Stand-ins for addresses: the same for the same, and all that the rules ask of an address is kept."""

from __future__ import annotations

from itertools import product

from rdmaqp.model.gid import GID
from rdmaqp.preload.trace import Redaction

GIDS = [
    GID.parse(text) for text in (
        "::", "10.1.2.3", "10.1.2.4", "224.0.0.5", "fe80::1234:5678:9abc:def0", "fe80::1", "ff0e::17",
        "2a01:4f8:1::17", "2a01:4f8:1::18", "2a01:4f8:2::17", "fd00::1",
    )
]  # fmt: skip


def test_stand_ins_keep_what_the_rules_ask() -> None:
    redaction = Redaction()
    hidden = {gid: redaction.gid(gid) for gid in GIDS}
    assert {gid: redaction.gid(gid) for gid in reversed(GIDS)} == hidden
    assert len(set(hidden.values())) == len(GIDS)
    for gid, other in hidden.items():
        for name in ("is_zero", "is_ipv4_mapped", "is_link_local", "is_multicast"):
            assert getattr(gid, name) == getattr(other, name), (gid, name)
        assert other == gid or gid[10:] not in other
    for (one, hides), (two, hides_too) in product(hidden.items(), repeat=2):
        if not (one.is_multicast or two.is_multicast):
            assert (one.subnet_prefix == two.subnet_prefix) == (hides.subnet_prefix == hides_too.subnet_prefix)


def test_three_hundred_of_ipv4_are_three_hundred() -> None:
    redaction = Redaction()
    many = {redaction.gid(GID.parse(f"10.0.{number // 200}.{number % 200}")) for number in range(300)}
    assert len(many) == 300
