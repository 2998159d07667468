"""What an end of a connection by rdma_cm may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.connection.cm_link import CMLink
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.queue_pair import QueuePair

_RANGES = {"responder_resources": 255, "initiator_depth": 255, "retry_count": 7, "rnr_retry_count": 7,
           "min_rnr_timer": 31}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """What one end of a connection by rdma_cm may choose.

    Attributes:
        prepare: called with the link once its queue pair is in INIT: to register memory and post receives. The peer
            may send only after that.
        create: makes the queue pair, RC and in RESET, for the context that it is given; 16 sends and 16 receives deep
            with one completion queue where not given.
        private_data: told to the peer: up to 56 bytes with a request, 196 with an acceptance.
        qp_access_flags: what the peer may do with our memory; what rdma_cm grants where not given: REMOTE_WRITE, and
            REMOTE_READ and REMOTE_ATOMIC where there are *responder_resources*.
        responder_resources: the peer's RDMA reads and atomics that we serve at a time, 0…255.
        initiator_depth: our RDMA reads and atomics under way at a time, 0…255.
        retry_count: 0…7: how often a send is repeated, at both ends; the client chooses. Soft-RoCE takes 7 for
            "without end".
        rnr_retry_count: 0…7, how often where the other end has no receive posted; 7 is without end.
        min_rnr_timer: 0…31, how long the peer waits then; rdma_cm's own 0 is 655 ms, 12 is 0.64 ms.
    """

    prepare: Callable[[CMLink], object] | None = None
    create: Callable[[Context], QueuePair] | None = None
    private_data: bytes = b""
    qp_access_flags: int | None = None
    responder_resources: int = 1
    initiator_depth: int = 1
    retry_count: int = 6
    rnr_retry_count: int = 7
    min_rnr_timer: int = 12

    def within(self, most: int) -> LinkOptions:
        """The same, where private data has *most* bytes at most. Raises ValueError, and TypeError for no callable."""
        for name in ("prepare", "create"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name} is {given!r}; expected something to call, or None")
        for name, last in _RANGES.items():
            if not 0 <= getattr(self, name) <= last:
                raise ValueError(f"{name} is 0…{last}, not {getattr(self, name)}")
        if len(self.private_data) > most:
            raise ValueError(f"private_data has room for {most} bytes here, not for {len(self.private_data)}")
        return self
