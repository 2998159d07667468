"""One end of a connection, and what two ends make of each other.

An :class:`Endpoint` is what one side tells the other before they can talk. :func:`bring_up` is a pure function of two
of them: the attributes of RESET → INIT → RTR → RTS, for InfiniBand and for RoCE.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from rdmaqp.model.attributes import AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import AccessFlag, GidType, LinkLayer, PortState, QPState, QPType
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(PeerRecord):
    """What one end says of itself: a :class:`PeerRecord` that at least has a number to send to, and a first PSN."""

    qp_num: int
    psn: int

    def __str__(self) -> str:
        parts = [f"QP {self.qp_num:#08x}", f"PSN {self.psn:#08x}"]
        if self.lid:
            parts.append(f"LID {self.lid:#x}")
        if self.gid is not None and not self.gid.is_zero:
            parts.append(f"GID {self.gid}")
        return ", ".join(parts)


class BringUp(NamedTuple):
    """The attributes of the three steps to RTS."""

    init: QPAttr
    rtr: QPAttr
    rts: QPAttr


def bring_up(
    local: Endpoint,
    remote: Endpoint,
    *,
    access: int = AccessFlag.LOCAL_WRITE,
    sl: int = 0,
    dlid: int | None = None,
    traffic_class: int = 0,
    flow_label: int = 0,
    hop_limit: int = 64,
    static_rate: int = 0,
    timeout: int = 14,
    retry_cnt: int = 6,
    rnr_retry: int = 7,
    min_rnr_timer: int = 12,
) -> BringUp:
    """The attributes that bring an RC queue pair at *local* to RTS towards *remote*.

    The MTU is the smaller of the two ends'; each initiator depth is held to the other end's responder depth.
    *dlid* replaces the peer's LID: a peer behind an InfiniBand router is reached by the router's LID, which only the
    subnet administrator knows. The other keywords are ``ibv_qp_attr`` fields of the same name.

    *retry_cnt* is 6, not the customary 7: Soft-RoCE takes 7 for "without end" (``rxe_comp.c``, ``rxe_completer``;
    measured on Linux 6.1), and a peer that is gone would never be noticed.
    """
    depth = _smaller(local.max_dest_rd_atomic, remote.max_rd_atomic, 1)
    port_num = 1 if local.port_num is None else local.port_num
    return BringUp(
        init=QPAttr(
            qp_state=QPState.INIT,
            pkey_index=local.pkey_index or 0,
            port_num=port_num,
            qp_access_flags=access,
        ),
        rtr=QPAttr(
            qp_state=QPState.RTR,
            path_mtu=_smaller(local.path_mtu, remote.path_mtu, 1024),
            dest_qp_num=remote.qp_num,
            rq_psn=remote.psn,
            max_dest_rd_atomic=depth,
            min_rnr_timer=min_rnr_timer,
            ah_attr=AddressVector(
                port_num=port_num,
                dlid=_dlid(local, remote) if dlid is None else dlid,
                sl=sl,
                static_rate=static_rate,
                grh=_route(local, remote, traffic_class, flow_label, hop_limit),
            ),
        ),
        rts=QPAttr(
            qp_state=QPState.RTS,
            timeout=timeout,
            retry_cnt=retry_cnt,
            rnr_retry=rnr_retry,
            sq_psn=local.psn,
            max_rd_atomic=_smaller(local.max_rd_atomic, remote.max_dest_rd_atomic, 1),
        ),
    )


def as_agreed(local: Endpoint, remote: Endpoint) -> Endpoint:
    """*remote* as it will be once both ends have brought themselves up by :func:`bring_up`.

    A record says what an end can; what it uses is the smaller of both ends'. That is what the guard compares with.
    """
    return replace(
        remote,
        path_mtu=None if remote.path_mtu is None else _smaller(local.path_mtu, remote.path_mtu, 1024),
        max_rd_atomic=None if remote.max_rd_atomic is None else _smaller(
            local.max_dest_rd_atomic, remote.max_rd_atomic, 1
        ),
    )


def _smaller(ours: int | None, theirs: int | None, default: int) -> int:
    known = [value for value in (ours, theirs) if value is not None]
    return min(known, default=default)


def _dlid(local: Endpoint, remote: Endpoint) -> int:
    # RoCE does not look at the LID, and one vendor's Ethernet ports report one: do not pass it on.
    return 0 if local.link_layer is LinkLayer.ETHERNET else remote.lid or 0


def _route(
    local: Endpoint, remote: Endpoint, traffic_class: int, flow_label: int, hop_limit: int
) -> GlobalRoute | None:
    """The global route, or ``None`` where the LID alone is enough: InfiniBand, same subnet, not required."""
    if remote.gid is None or remote.gid.is_zero:
        return None
    if local.link_layer is not LinkLayer.ETHERNET:
        other_subnet = local.gid is not None and local.gid.subnet_prefix != remote.gid.subnet_prefix
        if not (other_subnet or local.grh_required or not remote.lid):
            return None
    return GlobalRoute(
        dgid=remote.gid,
        sgid_index=local.gid_index or 0,
        flow_label=flow_label,
        hop_limit=hop_limit,
        traffic_class=traffic_class,
    )
