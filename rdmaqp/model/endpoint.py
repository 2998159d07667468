"""One end of a connection: an :class:`Endpoint` is what one side tells the other before they can talk.

:mod:`rdmaqp.model.steps` has what two of them make of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rdmaqp.model.brief import brief

if TYPE_CHECKING:
    from rdmaqp.model.enums import GidType, LinkLayer, PortState, QPType
    from rdmaqp.model.gid import GID


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRecord:
    """What is known of one end, as the guard compares it with the other. ``None`` is unknown.

    Attributes:
        qp_num: its queue pair's number, 24 bits.
        psn: the first packet number that it sends, 24 bits.
        qp_type: the kind of queue pair.
        link_layer: InfiniBand or Ethernet (RoCE).
        lid: its port's LID; 0 on RoCE.
        gid: its address; needed on RoCE.
        gid_index: where *gid* stands in its own table. Only its owner uses it.
        gid_type: what that entry speaks; both ends must speak the same.
        path_mtu: the MTU that it uses, bytes; in an :class:`Endpoint` the largest that it can take.
        max_rd_atomic: reads and atomics that it wants in flight (initiator depth).
        max_dest_rd_atomic: reads and atomics that it serves at once (responder depth).
        pkey: the partition key at *pkey_index*.
        pkey_index: only its owner uses it.
        port_num: its own port. Only its owner uses it.
        port_state: the state of that port.
        grh_required: whether its InfiniBand port wants a global route always (``IBV_QPF_GRH_REQUIRED``).
        lmc: how many low bits of *lid* are free: it answers to 2**lmc LIDs.
        qkey: for datagrams.
        rx_depth: receives that it keeps posted.
        sees_qp_num, sees_psn: the QP number and PSN that this end expects of its peer.
    """

    qp_num: int | None = None
    psn: int | None = None
    qp_type: QPType | None = None
    link_layer: LinkLayer | None = None
    lid: int | None = None
    gid: GID | None = None
    gid_index: int | None = None
    gid_type: GidType | None = None
    path_mtu: int | None = None
    max_rd_atomic: int | None = None
    max_dest_rd_atomic: int | None = None
    pkey: int | None = None
    pkey_index: int | None = None
    port_num: int | None = None
    port_state: PortState | None = None
    grh_required: bool | None = None
    lmc: int | None = None
    qkey: int | None = None
    rx_depth: int | None = None
    sees_qp_num: int | None = None
    sees_psn: int | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(PeerRecord):
    """What one end says of itself: a :class:`PeerRecord` that at least has a number to send to, and a first PSN."""

    qp_num: int
    psn: int

    __repr__ = brief

    def __str__(self) -> str:
        parts = [f"QP {self.qp_num:#08x}", f"PSN {self.psn:#08x}"]
        if self.lid:
            parts.append(f"LID {self.lid:#x}")
        if self.gid is not None and not self.gid.is_zero:
            parts.append(f"GID {self.gid}")
        return ", ".join(parts)
