"""Memory windows and multicast groups, where Soft-RoCE has them."""

from __future__ import annotations

import pytest

import rdmaqp
from device.rc_ends import EVERYTHING, End, pattern, reap
from rdmaqp import (
    MULTICAST_QPN,
    AccessFlag,
    Bind,
    RemoteMemory,
    Send,
    WCOpcode,
    WCStatus,
    Write,
)

# ---------------------------------------------------------------------- memory windows


def test_a_window_is_bound_used_and_invalidated(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    here, there = ends
    window = pd.alloc_mw()
    keys = {window.rkey}
    for turn in range(3):
        start = 100 * turn
        told = there.qp.bind(window, there.mr[start : start + 50], AccessFlag.REMOTE_WRITE, wr_id=turn)
        (bound,) = there.sent()
        assert (bound.opcode, bound.wr_id) == (WCOpcode.BIND_MW, turn)
        assert window.remote == told == RemoteMemory(there.mr.addr + start, 50, window.rkey)
        keys.add(told.rkey)
        here.qp.write(here.mr[0:50], window.remote)
        here.sent()
        assert bytes(there.mr.buffer[start : start + 51]) == pattern(1)[:50] + pattern(2)[start + 50 : start + 51]
        there.qp.invalidate(window)
        assert there.sent()[0].opcode == WCOpcode.LOCAL_INV
    assert len(keys) == 4
    window.close()


@pytest.mark.parametrize("how", ["invalidated", "not allowed"])
def test_a_window_is_a_limit(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain, how: str) -> None:
    here, there = ends
    with pd.alloc_mw() as window:
        remote = there.qp.bind(window, there.mr[0:64], AccessFlag.REMOTE_READ)
        there.sent()
        here.qp.read(here.mr[0:64], remote)
        here.sent()
        assert bytes(here.mr.buffer[:64]) == pattern(2)[:64]
        if how == "invalidated":
            there.qp.invalidate(window)
            there.sent()
            here.qp.read(here.mr[0:64], remote)
        else:
            here.qp.write(here.mr[0:64], remote)
        assert reap(here.send_cq, 1, good=False)[0].status == WCStatus.REM_ACCESS_ERR
        assert bytes(there.mr.buffer) == pattern(2)


def test_send_with_invalidate_ends_the_receivers_window(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    here, there = ends
    window = pd.alloc_mw()
    remote = there.qp.bind(window, there.mr[0:64], AccessFlag.REMOTE_WRITE)
    there.sent()
    there.qp.recv(there.mr[1024:])
    here.qp.post(Write(here.mr[0:64], remote, signaled=False), Send(here.mr[64:80], invalidate=remote.rkey))
    here.sent()
    (came,) = there.received()
    assert (came.byte_len, came.imm) == (16, None)
    # Soft-RoCE ends the key, and does not say so in the completion (6.1: no WITH_INV).
    assert came.invalidated_rkey == (None if not came.wc_flags & 8 else remote.rkey), came
    assert bytes(there.mr.buffer[:64]) == pattern(1)[:64]
    here.qp.write(here.mr[0:64], remote)
    assert reap(here.send_cq, 1, good=False)[0].status == WCStatus.REM_ACCESS_ERR
    window.close()


def test_the_peer_is_told_by_a_send_behind_the_bind(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    here, there = ends
    window = pd.alloc_mw()
    here.qp.recv(here.mr[0:16])
    bind = Bind(window, there.mr[128:256], AccessFlag.REMOTE_READ, signaled=False)
    there.mr.buffer[:12] = bind.remote.addr.to_bytes(8, "little") + bind.remote.rkey.to_bytes(4, "little")
    there.qp.post(bind, Send(there.mr[:12]))
    there.sent()
    here.received()
    told = bytes(here.mr.buffer[:12])
    remote = RemoteMemory(int.from_bytes(told[:8], "little"), 128, int.from_bytes(told[8:], "little"))
    assert remote == window.remote
    here.qp.read(here.mr[1024:1152], remote)
    here.sent()
    assert bytes(here.mr.buffer[1024:1152]) == pattern(2)[128:256]


def test_what_a_window_is_bound_to_ends_after_it(ends: tuple[End, End], pd: rdmaqp.ProtectionDomain) -> None:
    """A region with a window on it does not end; a queue pair ends after the window that is bound to it."""
    _, there = ends
    region = pd.alloc_mr(64, EVERYTHING)
    window = pd.alloc_mw()
    there.qp.bind(window, region, AccessFlag.REMOTE_READ)
    there.sent()
    with pytest.raises(rdmaqp.VerbsError, match="ibv_dereg_mr"):
        region.close()
    assert not region.closed
    there.qp.close()
    assert window.closed
    region.close()


# ---------------------------------------------------------------------- multicast


def test_multicast(pd: rdmaqp.ProtectionDomain) -> None:
    """To the group of all hosts: Soft-RoCE joins none in the IP stack, which hands back what this machine is in."""
    group, qkey = "224.0.0.1", 0x11111111
    choice = pd.context.port(1).pick_gid()
    assert choice
    cq, mr = pd.context.create_cq(16), pd.alloc_mr(256)
    sender, member, other = (pd.create_qp(cq, qp_type="UD") for _ in range(3))
    for qp in (sender, member, other):
        qp.modify(qp_state="INIT", port_num=1, pkey_index=0, qkey=qkey)
        qp.recv(mr[0:128])
        qp.modify(qp_state="RTR")
        qp.modify(qp_state="RTS", sq_psn=1)
    mr.buffer[128:136] = b"to group"
    route = rdmaqp.GlobalRoute(dgid=group, sgid_index=choice.entry.index)
    to = rdmaqp.Destination(pd.create_ah(rdmaqp.AddressVector(grh=route)), MULTICAST_QPN, qkey)
    with member.attach_mcast(group):
        sender.send(mr[128:136], to=to)
        found = {wc.opcode: wc for wc in reap(cq, 2)}
        came = found[WCOpcode.RECV]
        assert (came.qp_num, came.src_qp, came.byte_len) == (member.qp_num, sender.qp_num, 48)
        assert bytes(mr.buffer[40:48]) == b"to group"
    member.recv(mr[0:128])
    sender.send(mr[128:136], to=to)
    assert [wc.opcode for wc in reap(cq, 1)] == [WCOpcode.SEND]
    with pytest.raises(rdmaqp.DeadlineError):
        cq.wait(timeout=0.5)  # nobody is in it any more


def test_multicast_memberships_end_with_the_block_and_with_the_queue_pair(pd: rdmaqp.ProtectionDomain) -> None:
    cq = pd.context.create_cq(16)
    qp = pd.create_qp(cq, qp_type="UD")
    qp.modify(qp_state="INIT", port_num=1, pkey_index=0, qkey=0x11111111)
    with qp.attach_mcast("ff0e::1:2") as member, pytest.raises(ValueError, match="already"):
        qp.attach_mcast("ff0e::1:2")
    assert member.closed
    qp.attach_mcast("ff0e::1:2")
    qp.detach_mcast("ff0e::1:2")
    left = qp.attach_mcast("239.1.2.3")
    qp.close()
    assert left.closed
