"""The steps of a queue pair to RTS: RESET → INIT → RTR → RTS, for each type, on InfiniBand and on RoCE.

What a step needs, the table says (:mod:`rdmaqp.model.table`). What it gets comes from the two ends' records, from the
caller, or from custom.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.model.arguments import checked
from rdmaqp.model.attributes import FIELDS, QP_ATTR_NAMES, AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import AccessFlag, AttrMask, LinkLayer, QPState, QPType
from rdmaqp.model.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.model.endpoint import Endpoint

#: The attributes for which there is a customary value.
#: *retry_cnt* is 6, not the customary 7: Soft-RoCE takes 7 for "without end" (``rxe_comp.c``, ``rxe_completer``;
#: measured on Linux 6.1), and a peer that is gone would never be noticed. *qkey* is that of ``ibv_ud_pingpong``.
CUSTOMARY: Mapping[str, int] = MappingProxyType({
    "port_num": 1, "pkey_index": 0, "qp_access_flags": int(AccessFlag.LOCAL_WRITE), "qkey": 0x11111111,
    "max_dest_rd_atomic": 1, "min_rnr_timer": 12, "timeout": 14, "retry_cnt": 6, "rnr_retry": 7, "max_rd_atomic": 1,
})  # fmt: skip

_WAY = (QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS)


class BringUp(NamedTuple):
    """The attributes of the three steps to RTS."""

    init: QPAttr
    rtr: QPAttr
    rts: QPAttr


def is_connected(kind: QPType) -> bool:
    """Whether queue pairs of that type have one peer, which RTR names; UD and RAW_PACKET have none."""
    rule = TABLE.get(kind, {}).get((QPState.INIT, QPState.RTR))
    return rule is None or bool(rule.required & AttrMask.DEST_QPN)


def step_to(
    kind: QPType, goal: QPState, given: Mapping[str, Any], otherwise: Mapping[str, Any] = CUSTOMARY
) -> QPAttr:
    """The step to *goal*, INIT, RTR or RTS: what is *given* and not ``None``; of *otherwise*, what the table requires.

    So what is given is always there, for the guard to say that it does not belong.
    """
    values = {name: otherwise[name] for name in _required(kind, goal) if name in otherwise}
    values.update((name, value) for name, value in given.items() if value is not None)
    return QPAttr(qp_state=goal, **values)


@lru_cache(64)
def _required(kind: QPType, goal: QPState) -> tuple[str, ...]:
    """The attributes that the table requires of the step to *goal*, but for the state."""
    rule = TABLE.get(kind, {}).get((QPState(goal - 1), goal))
    return tuple(name for name in QP_ATTR_NAMES if rule and FIELDS[name].mask & rule.required and name != "qp_state")


@checked()
def bring_up(
    local: Endpoint,
    remote: Endpoint | None = None,
    *,
    access: int | None = None,
    sl: int = 0,
    dlid: int | None = None,
    traffic_class: int = 0,
    flow_label: int = 0,
    hop_limit: int = 64,
    static_rate: int = 0,
    timeout: int | None = None,
    retry_cnt: int | None = None,
    rnr_retry: int | None = None,
    min_rnr_timer: int | None = None,
) -> BringUp:
    """The attributes that bring a queue pair at *local*, of ``local.qp_type`` (RC where unknown), to RTS.

    Connected types go towards *remote*: the MTU is the smaller of the two ends'; each initiator depth is held to the
    other end's responder depth. UD and RAW_PACKET have no peer, and need no *remote*.

    *access* are the ``qp_access_flags``; *dlid* replaces the peer's LID: a peer behind an InfiniBand router is reached
    by the router's LID, which only the subnet administrator knows. The other keywords are ``ibv_qp_attr`` fields of the
    same name. Where they are not given, a type that needs them gets LOCAL_WRITE, timeout 14, retry_cnt 6, rnr_retry 7
    and min_rnr_timer 12 (:data:`CUSTOMARY`); given to a type that has no place for them they stay, and the guard says
    so.

    Raises:
        ValueError: a connected type without *remote*; a type whose steps the kernel's table does not have (DRIVER).
    """
    kind = QPType.RC if local.qp_type is None else local.qp_type
    if kind not in TABLE:
        raise ValueError(f"the steps of a {kind.name} queue pair are its driver's own: take them with modify()")
    known: dict[str, Any] = {
        "pkey_index": local.pkey_index, "port_num": local.port_num, "qkey": local.qkey, "sq_psn": local.psn,
    }  # fmt: skip
    if is_connected(kind):
        if remote is None:
            raise ValueError(f"a {kind.name} queue pair has a peer: its record is needed")
        known |= {
            "path_mtu": _smaller(local.path_mtu, remote.path_mtu, 1024),
            "dest_qp_num": remote.qp_num,
            "rq_psn": remote.psn,
            "max_dest_rd_atomic": _smaller(local.max_dest_rd_atomic, remote.max_rd_atomic, 1),
            "max_rd_atomic": _smaller(local.max_rd_atomic, remote.max_dest_rd_atomic, 1),
            "ah_attr": address_vector(
                local, remote, sl=sl, dlid=dlid, traffic_class=traffic_class, flow_label=flow_label,
                hop_limit=hop_limit, static_rate=static_rate,
            ),
        }  # fmt: skip
    otherwise = dict(CUSTOMARY) | {name: value for name, value in known.items() if value is not None}
    given = (
        {"qp_access_flags": access},
        {"min_rnr_timer": min_rnr_timer},
        {"timeout": timeout, "retry_cnt": retry_cnt, "rnr_retry": rnr_retry},
    )
    return BringUp(*(step_to(kind, goal, some, otherwise) for goal, some in zip(_WAY[1:], given, strict=True)))


def address_vector(
    local: Endpoint,
    remote: Endpoint,
    *,
    sl: int = 0,
    dlid: int | None = None,
    traffic_class: int = 0,
    flow_label: int = 0,
    hop_limit: int = 64,
    static_rate: int = 0,
) -> AddressVector:
    """The way from *local* to *remote*: for RTR of a connected queue pair, or for an address handle."""
    return AddressVector(
        port_num=1 if local.port_num is None else local.port_num,
        dlid=_dlid(local, remote) if dlid is None else dlid,
        sl=sl,
        static_rate=static_rate,
        grh=_route(local, remote, traffic_class, flow_label, hop_limit),
    )


def as_agreed(local: Endpoint, remote: Endpoint) -> Endpoint:
    """*remote* as it will be once both ends have brought themselves up by :func:`bring_up`.

    A record says what an end can; what it uses is the smaller of both ends'. That is what the guard compares with.
    """
    mtu, depth = remote.path_mtu, remote.max_rd_atomic
    agreed = (
        None if mtu is None else _smaller(local.path_mtu, mtu, 1024),
        None if depth is None else _smaller(local.max_dest_rd_atomic, depth, 1),
    )
    return remote if agreed == (mtu, depth) else replace(remote, path_mtu=agreed[0], max_rd_atomic=agreed[1])


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
