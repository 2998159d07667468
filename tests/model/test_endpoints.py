"""Records in columns: a sequence like any other, which says what does not belong."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from rdmaqp import GID, Endpoint, Endpoints
from rdmaqp.model.endpoints import alike

LIKE = Endpoint(qp_num=9, psn=9, lid=4, gid=GID.parse("fe80::1"), path_mtu=1024)
FIVE = Endpoints(LIKE, range(10, 15), range(20, 25))


def test_it_is_a_sequence_of_records() -> None:
    assert len(FIVE) == 5
    assert FIVE[1] == replace(LIKE, qp_num=11, psn=21)
    assert FIVE[-1] == replace(LIKE, qp_num=14, psn=24)
    assert FIVE[1:3] == Endpoints(LIKE, [11, 12], [21, 22])
    assert list(FIVE)[4] is not None
    assert FIVE[3] in FIVE
    with pytest.raises(IndexError):
        FIVE[5]


def test_what_they_have_in_common_has_no_numbers_of_its_own() -> None:
    assert (FIVE.like.qp_num, FIVE.like.psn, FIVE.like.lid) == (0, 0, 4)
    assert repr(FIVE).startswith("<5 records like Endpoint(")


def test_it_travels() -> None:
    there = pickle.loads(pickle.dumps(FIVE))
    assert there == FIVE
    assert there != FIVE[:4]
    assert there != list(FIVE)


def test_records_become_columns() -> None:
    assert Endpoints.of(list(FIVE)) == FIVE
    assert Endpoints.of(iter(FIVE)) == FIVE
    assert Endpoints.of(FIVE) is FIVE


def test_the_first_that_differs_is_named() -> None:
    with pytest.raises(ValueError, match=r"^record 2 differs from record 0 in lid, path_mtu$"):
        Endpoints.of([FIVE[0], FIVE[1], replace(FIVE[2], lid=5, path_mtu=256), FIVE[3]])
    with pytest.raises(ValueError, match="no record"):
        Endpoints.of([])
    with pytest.raises(TypeError, match=r"Endpoints.of\(\): record 1 is 5, an int; expected an Endpoint"):
        Endpoints.of([FIVE[0], 5])  # type: ignore[list-item]


def test_runs_of_what_is_alike() -> None:
    others = [replace(record, lid=7) for record in FIVE]
    runs = list(alike([*FIVE, *others[:2], FIVE[0]]))
    assert [len(run) for run in runs] == [5, 2, 1]
    assert [record for run in runs for record in run] == [*FIVE, *others[:2], FIVE[0]]


def test_a_reply_to_one_peer_is_alone() -> None:
    replies = [replace(record, sees_qp_num=5) for record in FIVE[:3]]
    assert [len(run) for run in alike(replies)] == [1, 1, 1]
    with pytest.raises(ValueError, match=r"record 1 .*sees_qp_num"):
        Endpoints.of(replies)


@pytest.mark.parametrize(("numbers", "psns", "words"), [
    ([1, 1 << 24], [0, 0], r"qp_nums\[1\]: 0x1000000 does not fit 24 bits"),
    ([1], [1 << 40], "psns: .*24 bits"),
    ([-1], [0], "qp_nums: .*24 bits"),
    (["1"], [0], "qp_nums: .*24 bits"),
    ([1, 2], [0], "2 qp_nums and 1 psns"),
])  # fmt: skip
def test_numbers_that_are_none(numbers: list[int], psns: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Endpoints(LIKE, numbers, psns)
