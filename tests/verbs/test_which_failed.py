"""Errors name the request that is to blame by its place, as a number."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from null_side import error_of, ready, said, side, stub

from rdmaqp import AddressVector, Destination, RemoteMemory, Send, SendRecords, Stream, Write, policy

if TYPE_CHECKING:
    from conftest import Null

FAR = RemoteMemory(1 << 32, 1 << 20, 7)


def refused(how: str) -> list[Any]:
    one = ready("RTS", max_send_wr=16)
    works = [Write(one.mr[0:8], FAR, wr_id=at) for at in range(10)]
    if how == "records":
        records = SendRecords(10)
        for at, work in enumerate(works):
            records[at] = work
        records.array["length"][7] = 1000
        error = error_of(one.qp.post_sends, records)
    elif how == "several":
        elsewhere = one.context.alloc_pd().alloc_mr(8)
        works[7] = Write(elsewhere, FAR)
        error = error_of(one.qp.post, *works)
    elif how == "one":
        error = error_of(one.qp.send, one.context.alloc_pd().alloc_mr(8))
    else:
        one.qp.post(*works)
        error = error_of(one.qp.post, *works)
    return [type(error).__name__, getattr(error, "index", ""), getattr(pickle.loads(pickle.dumps(error)), "index", "")]


@pytest.mark.parametrize(("how", "index"), [("records", 7), ("several", 7), ("one", 0), ("full", 6)])
def test_a_refusal_has_the_index_of_the_request(null: Null, how: str, index: int) -> None:
    assert null.run(refused, how) == ["GuardError", index, index]


def failed() -> list[Any]:
    """Of the chain number 2 fails: the device reaches no such memory. Of the stream all do."""
    one = ready("RTS", max_send_wr=16)
    works = [Write(one.mr[0:8], FAR, wr_id=40 + at) for at in range(4)]
    works[2].local.addr += 1 << 20
    with policy("off"):
        first = error_of(one.qp.chain(*works).run, 5)
    two = ready("RTS", max_send_wr=16)
    stream = Stream(two.qp, Write(two.mr[0:8], FAR, wr_id=500), count=100, window=4)
    stub(WC_STATUS="REM_ACCESS_ERR")
    second = error_of(stream.run, 5)
    stub(WC_STATUS=None)
    third = ready("RTS", max_send_wr=16)
    stub(WC_STATUS="REM_ACCESS_ERR")
    third.qp.write(third.mr[0:8], FAR)
    alone = error_of(third.cq.poll()[0].raise_for_status)
    stub(WC_STATUS=None)
    return [[getattr(error, name, "") for name in ("index", "wr_id", "status_name")] for error in
            (first, second, alone)]  # fmt: skip


def test_a_failed_run_has_the_index_of_the_request(null: Null) -> None:
    assert null.run(failed) == [
        [2, 42, "LOC_PROT_ERR"], [0, 500, "REM_ACCESS_ERR"], [None, 0, "REM_ACCESS_ERR"],
    ]  # fmt: skip


def under_one_key() -> list[Any]:
    """One buffer, registered in two domains, which call it by the same key: as two devices do."""
    one = ready("RTS")
    ours = one.pd.reg_mr(bytearray(64))
    theirs = one.context.alloc_pd().reg_mr(ours.buffer)
    key, theirs.lkey = theirs.lkey, ours.lkey
    errors = [error_of(one.qp.send, theirs), error_of(one.qp.recv, theirs[0:8]),
              error_of(one.qp.post, Send(one.mr), Send(theirs))]  # fmt: skip
    theirs.lkey = key
    return [[rule for rule, _ in said(error)["errors"]] for error in errors] + [one.qp.outstanding, one.qp.recv_posted]


def test_a_foreign_region_is_known_by_more_than_its_key(null: Null) -> None:
    assert null.run(under_one_key) == [["post-pd"], ["post-pd"], ["post-pd"], 0, 0]


def to_another_domain(mode: str) -> list[Any]:
    """Both domains have one handle, which both call number 1."""
    one = side(qp_type="UD")
    one.qp.activate(one.qp.endpoint(psn=1, qkey=5))
    own = Destination(one.pd.create_ah(AddressVector(dlid=3)), 7, 5)
    foreign = Destination(one.context.alloc_pd().create_ah(AddressVector(dlid=9)), 7, 5)
    assert own.ah.number == foreign.ah.number
    with policy(mode):
        errors = [
            error_of(one.qp.send, one.mr[0:8], to=foreign),
            error_of(one.qp.post, Send(one.mr[0:8], to=own), Send(one.mr[0:8], to=foreign)),
        ]
    outstanding = one.qp.outstanding
    one.qp.send(one.mr[0:8], to=own)
    return [[[said(error)["errors"], error.index] for error in errors], outstanding, one.qp.outstanding]


@pytest.mark.parametrize("mode", ["strict", "warn", "off"])
def test_a_destination_of_another_domain_is_refused_and_not_taken_for_one_of_ours(null: Null, mode: str) -> None:
    rules = [["post-pd", "to.ah"]]
    assert null.run(to_another_domain, mode) == [[[rules, 0], [rules, 1]], 0, 1]
