"""Do both ends agree? Only where the other end's record is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.model.attributes import AddressVector, as_int
from rdmaqp.model.enums import AttrMask, PortState, QPState, QPType, mtu_bytes
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case
    from rdmaqp.model.endpoint import PeerRecord

_PAIRS = {QPType.XRC_SEND: QPType.XRC_RECV, QPType.XRC_RECV: QPType.XRC_SEND}


def check(case: Case) -> None:
    """What the record says against what the call says."""
    peer = case.request.peer
    if peer is None:
        case.skip("peer-*", "peer")
        return
    if case.goal is QPState.RTR:
        _kind(case, peer)
    _numbers(case, peer)
    address = case.value("ah_attr", AttrMask.AV)
    if isinstance(address, AddressVector):
        _address(case, peer, address)


def _kind(case: Case, peer: PeerRecord) -> None:
    if case.type is not None and peer.qp_type not in (None, _PAIRS.get(case.type, case.type)):
        case.find("peer-qp-type", "qp_type", f"ours is {case.type.name}, the peer's {peer.qp_type.name}")
    layer = case.request.port.link_layer
    if layer is not None and peer.link_layer not in (None, layer):
        case.find("peer-link-layer", "link_layer", f"ours is {layer.name}, the peer's {peer.link_layer.name}")
    if peer.port_state not in (None, PortState.ACTIVE):
        case.find("peer-port-inactive", "port_state", f"the peer's port is {peer.port_state.name}")
    number = case.request.qp.qp_num
    if peer.sees_qp_num is not None and number is not None and peer.sees_qp_num != number:
        case.find("peer-stale", "qp_num", f"the peer expects QP {peer.sees_qp_num:#x}, and this is {number:#x}",
                  fix="exchange the records again")
    index = case.request.qp.pkey_index
    ours = case.request.pkeys.get(0 if index is None else index)
    if peer.pkey is not None and ours is not None:
        if peer.pkey & 0x7FFF != ours & 0x7FFF:
            case.find("peer-pkey", "pkey_index", f"our key is {ours:#06x}, the peer's {peer.pkey:#06x}")
        elif not (peer.pkey | ours) & 0x8000:
            case.find("peer-pkey", "pkey_index", f"both ends are limited members ({ours:#06x})")


def _numbers(case: Case, peer: PeerRecord) -> None:
    mtu = as_int(case.value("path_mtu", AttrMask.PATH_MTU))
    asked = None if mtu is None else mtu_bytes(mtu)
    if asked is not None and peer.path_mtu is not None and asked > peer.path_mtu:
        case.find("peer-mtu", "path_mtu", f"{asked} is above the peer's {peer.path_mtu}", given=asked,
                  allowed=str(peer.path_mtu), fix=f"path_mtu={peer.path_mtu} at both ends")
    for rule, name, bit, theirs in (
        ("peer-qpn", "dest_qp_num", AttrMask.DEST_QPN, peer.qp_num),
        ("peer-psn", "rq_psn", AttrMask.RQ_PSN, peer.psn),
        ("peer-psn", "sq_psn", AttrMask.SQ_PSN, peer.sees_psn),
    ):
        value = as_int(case.value(name, bit))
        if value is not None and theirs is not None and value != theirs:
            case.find(rule, name, f"{value:#x} is not what the peer says, {theirs:#x}", given=value,
                      allowed=f"{theirs:#x}", fix=f"{name}={theirs:#x}")
    depth = as_int(case.value("max_rd_atomic", AttrMask.MAX_QP_RD_ATOMIC))
    if depth is not None and peer.max_dest_rd_atomic is not None and depth > peer.max_dest_rd_atomic:
        case.find("peer-rd-atomic", "max_rd_atomic", f"{depth} is above what the peer serves, "
                  f"{peer.max_dest_rd_atomic}", given=depth, allowed=f"0…{peer.max_dest_rd_atomic}",
                  fix=f"max_rd_atomic={peer.max_dest_rd_atomic}")


def _address(case: Case, peer: PeerRecord, address: AddressVector) -> None:
    if address.grh is not None and address.uses_grh and peer.gid is not None and not peer.gid.is_zero:
        try:
            destination = GID.parse(address.grh.dgid)
        except ValueError:
            return  # addressing.py says so
        if destination != peer.gid:
            case.find("peer-gid", "ah_attr.grh.dgid", f"{destination} is not the peer's GID, {peer.gid}",
                      given=str(destination), allowed=str(peer.gid))
        _gid_type(case, peer, address.grh.sgid_index)
    if case.is_infiniband and not address.uses_grh and peer.lid and as_int(address.dlid) is not None:
        last = peer.lid + (1 << (peer.lmc or 0)) - 1
        if not peer.lid <= address.dlid <= last:
            case.find("peer-lid", "ah_attr.dlid", f"{address.dlid:#x} is not the peer's LID, {peer.lid:#x}",
                      given=address.dlid, allowed=f"{peer.lid:#x}" + (f"…{last:#x}" if last > peer.lid else ""))


def _gid_type(case: Case, peer: PeerRecord, sgid_index: int) -> None:
    entry = case.request.gids.get(sgid_index)
    if entry is None or peer.gid is None or not case.is_ethernet:
        return
    if entry.type is not None and peer.gid_type not in (None, entry.type):
        case.find("peer-gid-type", "ah_attr.grh.sgid_index", f"our {entry} speaks another RoCE than the peer's "
                  f"{peer.gid} ({peer.gid_type.name})", given=sgid_index, fix="choose entries of one type at both ends")
    if entry.gid.is_ipv4_mapped != peer.gid.is_ipv4_mapped:
        case.find("peer-gid-family", "ah_attr.grh.sgid_index", f"our {entry} and the peer's {peer.gid} are of "
                  "different families", given=sgid_index)
