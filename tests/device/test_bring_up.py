"""RESET → INIT → RTR → RTS on a real kernel, and what is refused before it is asked."""

from __future__ import annotations

from typing import Any

import pytest

import rdmaqp
from rdmaqp import AccessFlag, AttrMask, QPState, QPType
from rdmaqp.verbs import modify
from rdmaqp.verbs._native import native


@pytest.fixture
def pair(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> tuple[rdmaqp.QueuePair, rdmaqp.QueuePair]:
    return pd.create_qp(cq), pd.create_qp(cq)


def connect(pair: tuple[rdmaqp.QueuePair, rdmaqp.QueuePair]) -> None:
    first, second = pair
    here, there = first.endpoint(psn=0x123456), second.endpoint(psn=0xABCDEF)
    first.connect(here, there)
    second.connect(there, here)


def test_connect_reaches_rts_with_the_attributes_given(pair: tuple[rdmaqp.QueuePair, rdmaqp.QueuePair]) -> None:
    connect(pair)
    for qp, other, psn in zip(pair, reversed(pair), (0xABCDEF, 0x123456), strict=True):
        assert qp.state is QPState.RTS
        assert [(move.start, move.goal) for move in qp.transitions] == [
            (QPState.RESET, QPState.INIT), (QPState.INIT, QPState.RTR), (QPState.RTR, QPState.RTS),
        ]
        seen = qp.query(
            AttrMask.STATE | AttrMask.PATH_MTU | AttrMask.DEST_QPN | AttrMask.RQ_PSN | AttrMask.AV | AttrMask.TIMEOUT
            | AttrMask.RETRY_CNT | AttrMask.MIN_RNR_TIMER
        )
        assert seen.dest_qp_num == other.qp_num
        assert seen.rq_psn == psn
        assert (seen.timeout, seen.retry_cnt, seen.min_rnr_timer) == (14, 6, 12)
        assert seen.ah_attr is not None
        assert seen.ah_attr.uses_grh


def test_a_message_arrives_both_ways(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    pair = (pd.create_qp(cq), pd.create_qp(cq))
    connect(pair)
    outgoing, incoming = pd.reg_mr(bytearray(b"what was sent" * 9)), pd.reg_mr(bytearray(117))
    for sender, receiver in (pair, pair[::-1]):
        incoming.buffer[:] = bytes(117)
        receiver.post_recv(incoming, wr_id=7)
        sender.post_send(outgoing, wr_id=8)
        ended: dict[int, rdmaqp.WorkCompletion] = {}
        while len(ended) < 2:
            for completion in cq.wait(timeout=20):
                completion.raise_for_status()
                ended[completion.wr_id] = completion
        assert ended[7].byte_len == 117
        assert ended[7].qp_num == receiver.qp_num
        assert bytes(incoming.buffer) == bytes(outgoing.buffer)


def test_reset_and_error_and_back(pair: tuple[rdmaqp.QueuePair, rdmaqp.QueuePair]) -> None:
    connect(pair)
    first = pair[0]
    first.error()
    assert first.state is QPState.ERR
    first.reset()
    assert first.state is QPState.RESET
    pair[1].reset()
    connect(pair)  # ERR is no dead end on this driver
    assert first.state is QPState.RTS


def test_hardware_moves_are_seen(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    """A send into the void ends in ERR without a modify; the guard must judge by that, not by what it remembers."""
    first, second = pd.create_qp(cq), pd.create_qp(cq)
    here, there = first.endpoint(psn=1), second.endpoint(psn=2)
    first.connect(here, there, timeout=1, retry_cnt=1)  # the other end stays in RESET: nobody acknowledges
    first.post_send(pd.alloc_mr(8))
    completion = cq.wait(timeout=60)[0]
    assert completion.status_name == "RETRY_EXC_ERR"
    assert first.state is QPState.ERR
    with pytest.raises(rdmaqp.InvalidStateTransition, match="ERR → RTS"):
        first.modify(qp_state=QPState.RTS)


def test_a_peer_that_has_gone_is_noticed_with_the_defaults(
    pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue
) -> None:
    """Soft-RoCE never gives up with a retry_cnt of 7; ours is another."""
    first, second = pd.create_qp(cq), pd.create_qp(cq)
    connect((first, second))
    second.close()
    first.post_send(pd.alloc_mr(8))
    completion = cq.wait(timeout=60)[0]
    assert completion.status_name == "RETRY_EXC_ERR"
    with pytest.raises(rdmaqp.CompletionError, match="RETRY_EXC_ERR"):
        completion.raise_for_status()


class CountedLib:
    """The native library, with each ibv_modify_qp counted on its way."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.modifies = 0

    def __getattr__(self, name: str) -> Any:
        if name == "ibv_modify_qp":
            self.modifies += 1
        return getattr(self._lib, name)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> CountedLib:
    lib = CountedLib(native().lib)
    replaced = native()._replace(lib=lib)
    monkeypatch.setattr("rdmaqp.verbs.queue_pair.native", lambda: replaced)
    return lib


MISTAKES = {
    "missing": ({"qp_state": "INIT", "pkey_index": 0, "port_num": 1}, "ACCESS_FLAGS"),
    "excess": ({"qp_state": "INIT", "pkey_index": 0, "port_num": 1, "qp_access_flags": 0, "sq_psn": 1}, "SQ_PSN"),
    "transition": ({"qp_state": "RTS"}, "RESET → INIT"),
    "port": ({"qp_state": "INIT", "pkey_index": 0, "port_num": 9, "qp_access_flags": 0}, "no port 9"),
    "range": ({"qp_state": "INIT", "pkey_index": 1 << 16, "port_num": 1, "qp_access_flags": 0}, "pkey_index"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_before_the_kernel_is_asked(
    name: str, counted: CountedLib, pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue
) -> None:
    attributes, words = MISTAKES[name]
    qp = pd.create_qp(cq)
    with pytest.raises(rdmaqp.GuardError, match=words):
        qp.modify(**attributes)
    assert counted.modifies == 0
    assert qp.state is QPState.RESET
    qp.to_init()  # and the count does count
    assert counted.modifies == 1
    assert qp.state is QPState.INIT


@pytest.mark.parametrize("name", ["missing", "excess", "transition", "port"])
def test_the_kernel_refuses_the_same(name: str, pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    """With no guard before it: EINVAL, and not a word why."""
    attr = rdmaqp.QPAttr(**MISTAKES[name][0])
    qp = pd.create_qp(cq)
    assert native().lib.ibv_modify_qp(qp.handle, modify.fill_attr(attr, attr.mask), attr.mask) == 22


def test_what_the_kernel_refuses_and_the_guard_cannot_know(pair: tuple[rdmaqp.QueuePair, rdmaqp.QueuePair]) -> None:
    """A destination on this link that nobody has: ETIMEDOUT after a second, from the kernel."""
    first, second = pair
    here = first.endpoint(psn=1)
    if here.gid is None or not here.gid.is_ipv4_mapped:
        pytest.fail("this test is for RoCE over IPv4; give the device's net device an IPv4 address")
    silent = rdmaqp.GID(bytes(here.gid[:15]) + b"\xfd")
    there = rdmaqp.Endpoint(qp_num=second.qp_num, psn=2, gid=silent, path_mtu=1024)
    with pytest.raises(rdmaqp.VerbsError) as caught:
        first.connect(here, there)
    assert caught.value.errno == 110
    assert caught.value.causes[0][:2] == ("neighbour-unresolved", "proved")
    assert "INIT" in str(caught.value)
    assert first.state is QPState.INIT


def test_each_type_can_be_created(pd: rdmaqp.ProtectionDomain, cq: rdmaqp.CompletionQueue) -> None:
    for kind in (QPType.RC, QPType.UC, QPType.UD):
        with pd.create_qp(cq, qp_type=kind) as qp:
            assert qp.state is QPState.RESET
            key = {"qkey": 0x11111111} if kind is QPType.UD else {"qp_access_flags": AccessFlag.LOCAL_WRITE}
            qp.modify(qp_state="INIT", pkey_index=0, port_num=1, **key)
            assert qp.state is QPState.INIT


def test_address_handle(pd: rdmaqp.ProtectionDomain) -> None:
    choice = pd.context.port(1).pick_gid()
    assert choice is not None
    route = rdmaqp.GlobalRoute(dgid=choice.entry.gid, sgid_index=choice.entry.index)
    with pd.create_ah(rdmaqp.AddressVector(grh=route)) as handle:
        assert not handle.closed
    assert handle.closed
