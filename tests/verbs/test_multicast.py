"""Multicast on the null device: what is handed to the library, what is refused, what ends when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, error_of, rdmaqp, said, side, stub

if TYPE_CHECKING:
    from conftest import Null

GROUPS = {"MAX_MCAST_GRP": 8}
MGID = "ff12:401b:ffff::1"


def datagrams(bound: bool = True) -> rdmaqp.QueuePair:
    qp = side(qp_type="UD").qp
    if bound:
        qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qkey=1)
    return qp


def members() -> list[Any]:
    qp = datagrams()
    with qp.attach_mcast(MGID, 0xC001) as member:
        shown = str(member)
    again = qp.attach_mcast(MGID, 0xC001)
    qp.detach_mcast(rdmaqp.GID.parse(MGID), 0xC001)
    by_hand = again.closed
    left = qp.attach_mcast("::ffff:239.1.2.3", 0xFFFE)
    stub(DETACH_MCAST_ERRNO=22)
    refused = [said(error_of(left.close))["errno"], left.closed]
    stub(DETACH_MCAST_ERRNO=None)
    qp.close()
    made = calls("ibv_attach_mcast", "ibv_detach_mcast")
    log = [[call[key] for key in ("call", "gid", "lid", "result")] for call in made]
    order = [call["call"] for call in calls("ibv_detach_mcast", "ibv_destroy_qp")][-2:]
    return [shown, by_hand, refused, left.closed, log, order]


def test_a_membership_ends_with_its_block_by_hand_and_with_its_queue_pair(null: Null) -> None:
    shown, by_hand, refused, closed, log, order = null.run(members, **GROUPS)
    first, second = "ff12401bffff00000000000000000001", "00000000000000000000ffffef010203"
    assert shown == "multicast group ff12:401b:ffff::1, LID 0xc001"
    assert (by_hand, refused, closed) == (True, [22, False], True)
    attach, detach = "ibv_attach_mcast", "ibv_detach_mcast"
    assert log == [[attach, first, 0xC001, 0], [detach, first, 0xC001, 0]] * 2 + [
        [attach, second, 0xFFFE, 0], [detach, second, 0xFFFE, 22], [detach, second, 0xFFFE, 0],
    ]  # fmt: skip
    assert order == [detach, "ibv_destroy_qp"]


def wrong(how: str) -> dict[str, Any]:
    qp = side().qp if how == "another type" else datagrams(bound=how != "no port yet")
    if how == "twice":
        qp.attach_mcast(MGID, 0xC001)
    before = len(calls("ibv_attach_mcast"))
    do = {
        "unicast": lambda: qp.attach_mcast("fe80::1", 0xC001), "no LID": lambda: qp.attach_mcast(MGID),
        "LID of a port": lambda: qp.attach_mcast(MGID, 17), "LID too long": lambda: qp.attach_mcast(MGID, 1 << 16),
        "no GID": lambda: qp.attach_mcast("group", 0xC001), "no member": lambda: qp.detach_mcast(MGID, 0xC001),
    }.get(how, lambda: qp.attach_mcast(MGID, 0xC001))  # fmt: skip
    if how == "closed":
        qp.close()
    return said(error_of(do)) | {"native": len(calls("ibv_attach_mcast")) - before}


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("another type", "ValueError", "cannot be in a multicast group: only UD queue pairs can"),
        ("unicast", "ValueError", "fe80::1 is no multicast GID: ff00::/8, or an IPv4-mapped 224.0.0.0/4"),
        ("no LID", "ValueError", "0x0 is no multicast LID, 0xc000…0xfffe"),
        ("LID of a port", "ValueError", "0x11 is no multicast LID"),
        ("LID too long", "ValueError", "lid: 65536 is outside 0…0xffff"),
        ("no GID", "ValueError", "'group'"),
        ("twice", "ValueError", "is in multicast group ff12:401b:ffff::1 already"),
        ("no member", "ValueError", "is not in multicast group ff12:401b:ffff::1"),
        ("closed", "ClosedError", "this queue pair is closed"),
    ],
)
def test_what_cannot_be_attached(null: Null, how: str, error: str, words: str) -> None:
    came = null.run(wrong, how, **GROUPS)
    assert (came["type"], came["native"]) == (error, 0)
    assert words in came["text"]


def test_a_device_without_groups_says_so(null: Null) -> None:
    came = null.run(wrong, "none")
    assert (came["type"], came["native"]) == ("DeviceError", 0)
    assert "device null0 has no multicast groups (max_mcast_grp is 0)" in came["text"]


def test_what_the_driver_refuses_is_its_own_error_and_no_member(null: Null) -> None:
    came = null.run(wrong, "refused", **GROUPS, ATTACH_MCAST_ERRNO=-12)
    assert (came["type"], came["errno"], came["native"]) == ("VerbsError", 12, 1)
    assert "multicast group ff12:401b:ffff::1, LID 0xc001: ibv_attach_mcast failed" in came["text"]


def on_ethernet() -> int:
    datagrams().attach_mcast("ff0e::1")
    return int(calls("ibv_attach_mcast")[-1]["lid"])


def test_on_ethernet_there_are_no_lids(null: Null) -> None:
    assert null.run(on_ethernet, **GROUPS, LINK="ethernet") == 0
