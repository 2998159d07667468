"""Two connected RC queue pairs of one device, each with memory and completion queues of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import rdmaqp
from rdmaqp import AccessFlag

SIZE = 4096
REMOTE = AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_READ | AccessFlag.REMOTE_ATOMIC
EVERYTHING = AccessFlag.LOCAL_WRITE | REMOTE | AccessFlag.MW_BIND
PATIENCE = 20


@dataclass
class End:
    """One end of the connection: its own memory, its own completion queues with a channel."""

    qp: rdmaqp.QueuePair
    send_cq: rdmaqp.CompletionQueue
    recv_cq: rdmaqp.CompletionQueue
    mr: rdmaqp.MemoryRegion

    def sent(self, n: int = 1) -> list[rdmaqp.WorkCompletion]:
        return reap(self.send_cq, n)

    def received(self, n: int = 1) -> list[rdmaqp.WorkCompletion]:
        return reap(self.recv_cq, n)


def reap(cq: rdmaqp.CompletionQueue, n: int, *, good: bool = True) -> list[rdmaqp.WorkCompletion]:
    found: list[rdmaqp.WorkCompletion] = []
    while len(found) < n:
        found += cq.wait(n - len(found), timeout=PATIENCE)
    if good:
        for wc in found:
            wc.raise_for_status()
    return found


def pattern(seed: int, length: int = SIZE) -> bytes:
    return bytes((seed * 31 + at * 7 + (at >> 8)) % 251 for at in range(length))


def words_of(end: End) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(end.mr.buffer, "u8")


def connected_ends(pd: rdmaqp.ProtectionDomain) -> Iterator[tuple[End, End]]:
    made = []
    for seed in (1, 2):
        channel = pd.context.create_comp_channel()
        send_cq, recv_cq = pd.context.create_cq(256, channel), pd.context.create_cq(256, channel)
        qp = pd.create_qp(
            send_cq, recv_cq, max_send_wr=64, max_recv_wr=64, max_send_sge=4, max_recv_sge=4, max_inline_data=64
        )
        mr = pd.alloc_mr(SIZE, EVERYTHING)
        mr.buffer[:] = pattern(seed)
        made.append(End(qp, send_cq, recv_cq, mr))
    here, there = made
    records = [here.qp.endpoint(psn=0x111, max_rd_atomic=4, max_dest_rd_atomic=4),
               there.qp.endpoint(psn=0x222, max_rd_atomic=4, max_dest_rd_atomic=4)]  # fmt: skip
    here.qp.connect(*records, access=AccessFlag.LOCAL_WRITE | REMOTE)
    there.qp.connect(*reversed(records), access=AccessFlag.LOCAL_WRITE | REMOTE)
    yield here, there
    for end in made:
        assert end.send_cq.poll() == end.recv_cq.poll() == []  # nobody left anything behind
