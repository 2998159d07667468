"""Queue pairs by the hundred on a real kernel: what they carry, what the kernel says of each, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from rc_ends import PATIENCE

import rdmaqp
from rdmaqp import AttrMask, QPState

MANY = 64
ASKED = AttrMask.STATE | AttrMask.DEST_QPN | AttrMask.RQ_PSN | AttrMask.SQ_PSN | AttrMask.TIMEOUT | AttrMask.PATH_MTU


def test_each_is_connected_to_its_own_peer_and_carries_its_own_bytes(context: rdmaqp.Context) -> None:
    with context.alloc_pd() as pd, context.create_cq(4 * MANY) as cq:
        ours, theirs = pd.create_qps(MANY, cq), pd.create_qps(MANY, cq, max_recv_wr=4)
        here, there = ours.endpoints(psn=range(MANY)), theirs.endpoints(psn=range(MANY, 2 * MANY))
        ours.connect(here, there)
        theirs.connect(there, here)
        assert ours.where_now() == theirs.where_now() == f"{MANY} in RTS"
        for at in (0, 1, MANY - 1):
            seen = theirs[at].query(ASKED)
            assert (seen.qp_state, seen.dest_qp_num) == (QPState.RTS, ours.qp_nums[at])
            assert (seen.rq_psn, seen.timeout) == (at, 14)
        incoming, outgoing = pd.alloc_mr(8 * MANY), pd.alloc_mr(8 * MANY)
        for at in range(MANY):
            outgoing.buffer[8 * at : 8 * at + 8] = (at + 7).to_bytes(8)
            theirs[at].recv(incoming[8 * at : 8 * at + 8], wr_id=at)
            ours[at].send(outgoing[8 * at : 8 * at + 8], wr_id=at)
        came: list[rdmaqp.WorkCompletion] = []
        while len(came) < 2 * MANY:
            came += cq.wait(64, timeout=PATIENCE)
        for wc in came:
            wc.raise_for_status()
        assert bytes(incoming.buffer) == bytes(outgoing.buffer)
        assert {wc.qp_num for wc in came} == {*ours.qp_nums, *theirs.qp_nums}


def test_each_is_as_the_kernel_has_one_that_went_alone(context: rdmaqp.Context) -> None:
    with context.alloc_pd() as pd, context.create_cq(16) as cq:
        qps, alone = pd.create_qps(4, cq), pd.create_qp(cq)
        here = qps.endpoints(psn=5)
        qps.connect(here, here)
        own = alone.endpoint(psn=5)
        alone.connect(own, own)
        seen = [replace(qp.query(ASKED), dest_qp_num=None) for qp in (*qps, alone)]
        assert seen == [seen[0]] * 5
        assert [qp.query(ASKED).dest_qp_num for qp in qps] == list(qps.qp_nums)
        assert [[move.bits for move in qp.transitions] for qp in qps] == [[move.bits for move in alone.transitions]] * 4


def test_two_ends_agree_on_all_of_them_in_one_conversation(context: rdmaqp.Context) -> None:
    with context.alloc_pd() as pd, context.create_cq(4 * MANY) as cq, pd.create_srq(MANY) as srq:
        groups = [pd.create_qps(MANY, cq, srq=srq) for _ in range(2)]
        incoming, outgoing = pd.alloc_mr(8 * MANY), pd.reg_mr(bytes(range(8)), 0)
        srq.post(*(rdmaqp.Recv(incoming[8 * at : 8 * at + 8]) for at in range(MANY)))
        with rdmaqp.Listener(0) as listener, ThreadPoolExecutor(1) as other:

            def accept() -> rdmaqp.AgreedMany:
                with listener.accept(PATIENCE) as peer:
                    return peer.agree_all(groups[0], timeout=PATIENCE)

            told = other.submit(accept)
            with rdmaqp.Exchange.connect("127.0.0.1", listener.port) as peer:
                ours = peer.agree_all(groups[1], timeout=PATIENCE)
            theirs = told.result(PATIENCE)
        assert (ours.local, ours.remote) == (theirs.remote, theirs.local)
        for qp in groups[1]:
            qp.send(outgoing, signaled=True)
        came: list[rdmaqp.WorkCompletion] = []
        while len(came) < 2 * MANY:
            came += cq.wait(64, timeout=PATIENCE)
        assert {wc.status for wc in came} == {rdmaqp.WCStatus.SUCCESS}
        assert bytes(incoming.buffer) == bytes(range(8)) * MANY


def test_one_that_the_kernel_would_refuse_is_refused_before_it(context: rdmaqp.Context) -> None:
    with context.alloc_pd() as pd, context.create_cq(16) as cq:
        qps = pd.create_qps(4, cq)
        here = qps.endpoints(psn=5)
        with pytest.raises(rdmaqp.GuardError, match="min_rnr_timer") as refused:
            qps.connect(here, here, min_rnr_timer=32)
        assert "queue pair 0 of 4" in refused.value.__notes__[0]
        assert [qp.state for qp in qps] == [QPState.INIT, *[QPState.RESET] * 3]
