"""RDMA writes, reads and atomics, by the API: two queue pairs of this process on one RDMA device. One end is passive.

    python examples/rdma_write_read.py [DEVICE]

On a machine without an RDMA device:  rdmaqp lab run -- python examples/rdma_write_read.py
"""

from __future__ import annotations

import sys

import rdmaqp
from rdmaqp import AccessFlag, FetchAdd, Read, Write

PAGE = 4096
ADDITIONS = 100


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else None
    with rdmaqp.open(name) as device, device.alloc_pd() as pd:
        cq = device.create_cq(64)
        active, passive = pd.create_qp(cq), pd.create_qp(cq)

        # How many reads and atomics may be under way: the initiator's depth, and the responder's.
        here = active.endpoint(psn=0x123456, max_rd_atomic=4, max_dest_rd_atomic=4)
        there = passive.endpoint(psn=0xABCDEF, max_rd_atomic=4, max_dest_rd_atomic=4)

        # What the peer may do is said twice: of the queue pair, and of the memory.
        remote_access = AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_READ | AccessFlag.REMOTE_ATOMIC
        active.connect(here, there)
        passive.connect(there, here, access=AccessFlag.LOCAL_WRITE | remote_access)

        ours = pd.alloc_mr(PAGE)
        theirs = pd.alloc_mr(PAGE, AccessFlag.LOCAL_WRITE | remote_access)
        remote = theirs.remote  # address, length and key: between two machines, this travels to the peer

        # Write: their processor has no part in it, and sees nothing but the memory.
        ours.buffer[:16] = b"written from far"
        active.write(ours[0:16], remote[0:16])
        for completion in cq.wait(timeout=5):
            completion.raise_for_status()
        print("there:", bytes(theirs.buffer[:16]))

        # Read it back, elsewhere. And three at once, of which only the last tells of its end.
        active.read(ours[64:80], remote[0:16])
        cq.wait(timeout=5)[0].raise_for_status()
        assert ours.buffer[64:80] == theirs.buffer[:16]
        active.post(
            Write(ours[0:4], remote[100:104], signaled=False),
            Write(ours[4:8], remote[104:108], signaled=False),
            Read(ours[128:136], remote[100:108]),
        )
        cq.wait(timeout=5)[0].raise_for_status()
        print("here: ", bytes(ours.buffer[128:136]))

        # Atomics: 8 bytes at a time, and what was there before comes back. A chain is made once and runs often, in C.
        add = active.chain(FetchAdd(ours[256:264], remote[1024:1032], 7))
        for _ in range(ADDITIONS):
            add.run(timeout=5)
        total = int.from_bytes(theirs.buffer[1024:1032], sys.byteorder)
        active.compare_swap(ours[264:272], remote[1024:1032], compare=total, swap=1)
        cq.wait(timeout=5)[0].raise_for_status()
        before, now = (int.from_bytes(part, sys.byteorder) for part in (ours.buffer[264:272], theirs.buffer[1024:1032]))
        print(f"{ADDITIONS} additions of 7 make {before}; the swap leaves {now}")
        assert (before, now) == (7 * ADDITIONS, 1)


if __name__ == "__main__":
    try:
        main()
    except rdmaqp.RdmaqpError as error:
        sys.exit(f"rdma_write_read: {error}")
