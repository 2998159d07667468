"""Do both ends agree? Only where the other end's record is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard.case import STATE
from rdmaqp.guard.report import Skipped, shown
from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.enums import LinkLayer, PortState, QPState, QPType
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case
    from rdmaqp.model.endpoint import PeerRecord

_PAIRS = {QPType.XRC_SEND: QPType.XRC_RECV, QPType.XRC_RECV: QPType.XRC_SEND}
_LIMITED = 0x8000
_UD, _DRIVER, _INFINIBAND = QPType.UD, QPType.DRIVER, LinkLayer.INFINIBAND
_UNKNOWN_LAYER = (None, LinkLayer.UNSPECIFIED)
_FINE = (None, PortState.ACTIVE, PortState.NOP)

#: What cannot be compared without a record, by the state that the call leads to.
_NEEDS_PEER = {
    QPState.RTR: tuple(Skipped(f"peer-{what}", "peer") for what in (
        "qp-type", "link-layer", "pkey", "port-inactive", "stale", "mtu", "qpn", "psn", "rd-atomic", "gid", "lid",
    )),
    QPState.RTS: tuple(Skipped(f"peer-{what}", "peer") for what in ("qp-type", "stale", "psn", "rd-atomic")),
}  # fmt: skip


def check(case: Case) -> None:
    """What the record says against what the call says."""
    peer = case.request.peer
    if peer is None:
        if case.goal is not None and case.mask & STATE:
            case.report.skipped += _NEEDS_PEER.get(case.goal, ())
        return
    if case.mask & STATE and case.goal in _NEEDS_PEER:
        _kind(case, peer)
        _pkeys(case, peer)
    _numbers(case, peer)
    _depths(case, peer)
    address = case.given.get("ah_attr")
    if isinstance(address, AddressVector) and not case.iwarp:
        _address(case, peer, address)


def _kind(case: Case, peer: PeerRecord) -> None:
    report, own = case.report, case.type
    if own is not None and own is not _DRIVER and peer.qp_type not in (None, _PAIRS.get(own, own)):
        report.find("peer-qp-type", "qp_type", f"ours is {own.name}, the peer's {peer.qp_type.name}",
                    given=own.name, allowed=_PAIRS.get(peer.qp_type, peer.qp_type).name,
                    fix="make the two ends of one type; XRC_SEND pairs with XRC_RECV")
    layer = case.port.link_layer
    if layer not in _UNKNOWN_LAYER and peer.link_layer not in _UNKNOWN_LAYER and layer is not peer.link_layer:
        report.find("peer-link-layer", "link_layer", f"ours is {layer.name if layer else '?'}, the peer's "
                    f"{peer.link_layer.name if peer.link_layer else '?'}", fix="choose ports of one kind at both ends")
    if peer.port_state not in _FINE:
        report.find("peer-port-inactive", "port_state", f"the peer's port is {peer.port_state.name}",
                    given=peer.port_state.name, allowed="ACTIVE", fix="bring the link up there")
    number = case.request.qp.qp_num
    if peer.sees_qp_num is not None and number is not None and peer.sees_qp_num != number:
        report.find("peer-stale", "qp_num", f"the peer expects QP {peer.sees_qp_num:#x}, and this is {number:#x}",
                    given=number, allowed=f"{peer.sees_qp_num:#x}", fix="exchange the records again")


def _pkeys(case: Case, peer: PeerRecord) -> None:
    request = case.request
    index = case.numbers.get("pkey_index", request.qp.pkey_index)
    if index is None and (case.ethernet or case.driver.first_pkey_only):
        index = 0
    if peer.pkey is None or case.iwarp:
        return
    ours = None if index is None else request.pkeys.get(index)
    if ours is None:
        case.report.skip("peer-pkey", "qp.pkey_index" if index is None else f"pkeys[{index}]")
    elif (peer.pkey ^ ours) & 0x7FFF:
        case.report.find("peer-pkey", "pkey_index", f"our key is {ours:#06x}, the peer's {peer.pkey:#06x}: another "
                         "partition", given=index, fix="choose the same partition at both ends")
    elif not (peer.pkey | ours) & _LIMITED:
        case.report.find("peer-pkey", "pkey_index", f"both ends are limited members ({ours:#06x})", given=index,
                         fix="one of them has to be a full member")


def _numbers(case: Case, peer: PeerRecord) -> None:
    numbers, report = case.numbers, case.report
    mtu = numbers.get("path_mtu")
    if mtu is not None and peer.path_mtu is not None and mtu != peer.path_mtu:
        least = min(mtu, peer.path_mtu)
        report.find("peer-mtu", "path_mtu", f"{mtu} here, {peer.path_mtu} at the peer", given=mtu,
                    allowed=str(peer.path_mtu), fix=f"path_mtu={least} at both ends")
    for rule, name, theirs in (
        ("peer-qpn", "dest_qp_num", peer.qp_num),
        ("peer-psn", "rq_psn", peer.psn),
        ("peer-psn", "sq_psn", peer.sees_psn),
    ):
        value = numbers.get(name)
        if value is not None and theirs is not None and value != theirs:
            fits = theirs >> 24 == 0
            report.find(rule, name, f"{value:#x} is not what the peer says, {theirs:#x}", given=value,
                        allowed=f"{theirs:#x}" if fits else None,
                        fix=f"{name}={theirs:#x}" if fits else "exchange the records again: such numbers have 24 bits")
    if case.type is _UD and peer.qkey is not None:
        key = numbers.get("qkey", case.request.qp.qkey)
        if key is not None and key != peer.qkey:
            report.find("peer-qkey", "qkey", f"{key:#x} here, {peer.qkey:#x} at the peer", given=f"{key:#x}",
                        allowed=f"{peer.qkey:#x}", fix=f"qkey={peer.qkey:#x} at both ends")


def _depths(case: Case, peer: PeerRecord) -> None:
    """Each initiator depth against the other end's responder depth."""
    depth, serves = case.numbers.get("max_rd_atomic"), peer.max_dest_rd_atomic
    if depth is not None and serves is not None and depth > serves:
        case.report.find("peer-rd-atomic", "max_rd_atomic", f"{depth} is above what the peer serves, {serves}",
                         given=depth, allowed=f"0…{serves}", fix=f"max_rd_atomic={serves}")
    served, wants = case.numbers.get("max_dest_rd_atomic"), peer.max_rd_atomic
    if served is not None and wants is not None and wants > served:
        case.report.find("peer-rd-atomic", "max_dest_rd_atomic", f"{served} serves less than the peer keeps in "
                         f"flight, {wants}", given=served, allowed=f"{wants}…255",
                         fix=f"max_dest_rd_atomic={wants}, or a max_rd_atomic of {served} at the peer")


def _address(case: Case, peer: PeerRecord, address: AddressVector) -> None:
    route, gid = address.grh, peer.gid
    entry = None
    if route is not None and address.uses_grh and gid is not None and not gid.is_zero and route.dgid is not None:
        entry = case.request.gids.get(route.sgid_index) if type(route.sgid_index) is int else None
        try:
            destination = GID.parse(route.dgid)
        except ValueError:
            return  # addressing.py says so
        if destination != gid:
            case.report.find("peer-gid", "ah_attr.grh.dgid", f"{destination} is not the peer's GID, {gid}",
                             given=str(destination), allowed=str(gid), fix=f"dgid={str(gid)!r}")
        _gid_type(case, peer, gid, route.sgid_index)
    same_subnet = entry is None or gid is None or entry.gid.subnet_prefix == gid.subnet_prefix
    if case.port.link_layer is _INFINIBAND and peer.lid and type(address.dlid) is int and (
        not address.uses_grh or (entry is not None and same_subnet and address.dlid)
    ):  # fmt: skip
        last = peer.lid + (1 << min(peer.lmc or 0, 7)) - 1
        if not peer.lid <= address.dlid <= last:
            case.report.find("peer-lid", "ah_attr.dlid", f"{shown(address.dlid)} is not the peer's LID, {peer.lid:#x}",
                             given=address.dlid, fix=f"dlid={peer.lid:#x}",
                             allowed=f"{peer.lid:#x}" + (f"…{last:#x}" if last > peer.lid else ""))


def _gid_type(case: Case, peer: PeerRecord, gid: GID, sgid_index: int) -> None:
    entry = case.request.gids.get(sgid_index) if type(sgid_index) is int else None
    if entry is None or not case.ethernet or entry.is_empty:
        return
    if entry.type is not None and peer.gid_type not in (None, entry.type):
        case.report.find("peer-gid-type", "ah_attr.grh.sgid_index", f"our {entry} speaks another RoCE than the peer's "
                         f"{gid} ({peer.gid_type.name})", given=sgid_index,
                         fix="choose entries of one type at both ends")
    if entry.gid.is_ipv4_mapped != gid.is_ipv4_mapped:
        case.report.find("peer-gid-family", "ah_attr.grh.sgid_index", f"our {entry} and the peer's {gid} are of "
                         "different families", given=sgid_index, fix="choose entries of one family at both ends")
