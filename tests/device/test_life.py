"""The life of a connection on a real kernel: reap, drain, pause, events, history."""

from __future__ import annotations

import rdmaqp
from device.rc_ends import End
from rdmaqp import QPState, Send


def test_a_wrong_rkey_is_the_cause_and_everything_behind_it_comes_back(ends: tuple[End, End]) -> None:
    here, there = ends
    there.qp.post(*(rdmaqp.Recv(there.mr[64 * at : 64 * at + 64], wr_id=0x100 + at) for at in range(8)))
    here.qp.post(rdmaqp.Recv(here.mr[0:64], wr_id=0x200), rdmaqp.Recv(here.mr[64:128], wr_id=0x201))
    here.qp.send(here.mr[0:64], wr_id=1)
    there.received()
    wrong = rdmaqp.RemoteMemory(there.mr.addr, 64, there.mr.rkey ^ 0xFFFF00)
    here.qp.post(
        Send(here.mr[64:128], wr_id=2, signaled=False), rdmaqp.Write(here.mr[0:64], wrong, wr_id=3),
        Send(here.mr[0:64], wr_id=4), Send(here.mr[0:64], wr_id=5, signaled=False),
    )  # fmt: skip
    there.received()  # so the one before it has arrived
    while here.qp.state is not QPState.ERR:
        pass
    reaped = here.qp.reap(timeout=20)
    print(reaped)
    assert reaped.cause is not None
    assert (reaped.cause.wr_id, reaped.cause.status_name) == (3, "REM_ACCESS_ERR")
    assert [wc.wr_id for wc in reaped.completions] == [1]
    assert [one.wr_id for one in reaped.sends] == [3, 4, 5]
    assert reaped.unknown == ()
    assert [one.wr_id for one in reaped.receives] == [0x200, 0x201]
    other = there.qp.reap(timeout=20)
    print(other)
    assert [one.wr_id for one in other.receives] == [0x102 + at for at in range(6)]
