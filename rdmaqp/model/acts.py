"""The acts besides a modify call that the guard judges, and how an act may have ended.

Values stand here as the caller gave them: the guard says what is wrong with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from rdmaqp.model.enums import Named, NamedFlag

#: The first bytes of every receive of a datagram are the global route header's (ibv_post_recv(3)), whether the packet
#: had one or not: a receive has room for these and for the message.
GRH_BYTES: Final = 40


class WROpcode(Named):
    """``enum ibv_wr_opcode``: what a posted send does."""

    RDMA_WRITE = 0
    RDMA_WRITE_WITH_IMM = 1
    SEND = 2
    SEND_WITH_IMM = 3
    RDMA_READ = 4
    ATOMIC_CMP_AND_SWP = 5
    ATOMIC_FETCH_AND_ADD = 6
    LOCAL_INV = 7
    BIND_MW = 8
    SEND_WITH_INV = 9
    TSO = 10
    DRIVER1 = 11
    FLUSH = 14
    ATOMIC_WRITE = 15


class SendFlag(NamedFlag):
    """``enum ibv_send_flags``: what a record of a send says besides its opcode."""

    FENCE = 1 << 0
    SIGNALED = 1 << 1
    SOLICITED = 1 << 2
    INLINE = 1 << 3
    IP_CSUM = 1 << 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One scatter/gather element (``struct ibv_sge``)."""

    addr: Any = None
    length: Any = None
    lkey: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A work request about to be posted.

    Attributes:
        queue: ``"send"`` or ``"recv"``; ``"srq"``, a receive to a shared receive queue: ``cap`` and ``recv_posted`` of
            the request's ``qp`` are then that queue's.
        opcode: a :class:`WROpcode`, its name or its number; sends only.
        num_sge: how many pieces.
        length: the bytes of all pieces together.
        inline: whether the bytes are copied into the request (``IBV_SEND_INLINE``).
        signaled: whether it completes where it succeeds (``IBV_SEND_SIGNALED``, or ``sq_sig_all``); sends only.
        sge: the pieces, where known; of BIND_MW, the one that the window is bound to.
        access: of BIND_MW, what the window shall allow.
    """

    queue: Literal["send", "recv", "srq"] = "send"
    opcode: Any = None
    num_sge: Any = None
    length: Any = None
    inline: Any = None
    signaled: Any = None
    sge: tuple[Piece, ...] | None = None
    access: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A memory region about to be registered (``ibv_reg_mr``): what it shall allow, how many bytes."""

    access: Any = None
    length: Any = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The call was made, and answered with this error number, given as a positive one."""

    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The work completed with this status (``enum ibv_wc_status``), now or much later."""

    status: int
    vendor_err: int | None = None
    wr_id: int | None = None
