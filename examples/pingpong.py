"""A real RC connection and a verified ping-pong, by the API: two queue pairs of this process on one RDMA device.

    python examples/pingpong.py [DEVICE]

On a machine without an RDMA device:  rdmaqp lab run -- python examples/pingpong.py
"""

from __future__ import annotations

import sys

import rdmaqp

MESSAGES = 100


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else None
    with rdmaqp.open(name) as device, device.alloc_pd() as pd:
        cq = device.create_cq(16)
        ping, pong = pd.create_qp(cq), pd.create_qp(cq)

        # What each end tells the other. Between two machines this travels over TCP: see rdmaqp.Exchange.
        here, there = ping.endpoint(psn=0x123456), pong.endpoint(psn=0xABCDEF)
        print(f"ping: {here}\npong: {there}")

        # RESET → INIT → RTR → RTS. The guard judges each step before the kernel is asked.
        ping.connect(here, there)
        pong.connect(there, here)
        for qp in (ping, pong):
            print(f"{qp}: {' → '.join([qp.transitions[0].start.name, *(move.goal.name for move in qp.transitions)])}")

        outgoing, incoming = pd.alloc_mr(64), pd.alloc_mr(64)
        for number in range(MESSAGES):
            sender, receiver = (ping, pong) if number % 2 == 0 else (pong, ping)
            text = f"message {number} of {MESSAGES}".encode().ljust(64)
            outgoing.buffer[:] = text
            receiver.post_recv(incoming)
            sender.post_send(outgoing)
            done = 0
            while done < 2:  # the send's completion and the receive's
                for completion in cq.wait(timeout=5):
                    completion.raise_for_status()
                    done += 1
            assert bytes(incoming.buffer) == text, f"message {number} arrived as {bytes(incoming.buffer)!r}"
        print(f"{MESSAGES} messages bounced and verified; both queue pairs are in {ping.state.name}, {pong.state.name}")


if __name__ == "__main__":
    try:
        main()
    except rdmaqp.RdmaqpError as error:
        sys.exit(f"pingpong: {error}")
