"""The shape of a request in JSON, part by part: which keys there are, and what reads each of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import RequestError
from rdmaqp.model import codec_words as words
from rdmaqp.model.acts import Completion, Failure, Piece, Post, Registration, WROpcode
from rdmaqp.model.attributes import FIELDS, AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.codec_words import Reader, fields
from rdmaqp.model.endpoint import PeerRecord
from rdmaqp.model.enums import (
    AccessFlag,
    AtomicCap,
    DeviceCap,
    DriverType,
    GidType,
    LinkLayer,
    PortState,
    QPType,
    Transport,
    WCStatus,
)
from rdmaqp.model.facts import UNLIMITED, DeviceFacts, PortFacts, ProcessFacts, QPCap, QPFacts, Region
from rdmaqp.model.gid import GidEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

# ---------------------------------------------------------------------- facts


def _made(kind: type[Any], readers: Mapping[str, Reader]) -> Reader:
    return lambda value: kind(**fields(value, readers))


def _as_given(kind: type[Any], readers: Mapping[str, Reader]) -> Reader:
    """The same for what an act holds: a number is right or wrong in the guard's eyes only."""
    return lambda value: kind(**fields(value, readers, int))


def _kernel(value: object) -> tuple[int, int]:
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?!\d)", value) if isinstance(value, str) else None
    if match is None:
        raise RequestError(f"{words.shown(value)} is not a kernel release such as \"6.12\"")
    return int(match[1]), int(match[2])


def _gids(value: object) -> dict[int, GidEntry]:
    entries = {}
    for place, item in enumerate(words.listed(value)):
        try:
            found = fields(item, _GID)
            if "index" not in found or "gid" not in found:
                raise RequestError("an entry has an index and a gid")
            if found["index"] in entries:
                raise RequestError(f"index {found['index']} is there twice")
        except RequestError as error:
            raise error.within(f"[{place}]") from None
        if item.get("netdev", 0) is None:
            found["netdev"] = ""  # known to have none
        entries[found["index"]] = GidEntry(**found)
    return entries


def _pkeys(value: object) -> dict[int, int]:
    if not isinstance(value, dict):
        raise RequestError(f"{words.shown(value)} is not an object of index and key")
    keys = {}
    for index, key in value.items():
        try:
            keys[words.number(int(index) if index.isascii() and index.isdecimal() and len(index) < 6 else index)] = (
                words.number(key)
            )
        except RequestError as error:
            raise error.within(words.shown(index)) from None
    return keys


def _process(value: object) -> ProcessFacts:
    found = fields(value, _PROCESS)
    if isinstance(value, dict) and value.get("memlock", 0) is None:
        found["memlock"] = UNLIMITED
    return ProcessFacts(**found)


def _errno(value: object) -> Failure:
    found = fields(value, {"errno": words.error_number})
    if "errno" not in found:
        raise RequestError('it says how: {"errno": 22}')
    return Failure(abs(found["errno"]))


def _completion(value: object) -> Completion:
    found = fields(value, {"status": words.status(WCStatus), "vendor_err": words.number, "wr_id": words.number})
    if "status" not in found:
        raise RequestError('it says how: {"status": 12}')
    return Completion(**found)


# ---------------------------------------------------------------------- acts: the structure is strict, values are not


def _route(value: object) -> Any:
    return GlobalRoute(**_ROUTE_UNKNOWN | fields(value, _ROUTE, int)) if isinstance(value, dict) else value


def _address(value: object) -> Any:
    return AddressVector(**_ADDRESS_UNKNOWN | fields(value, _ADDRESS, int)) if isinstance(value, dict) else value


def _post(value: object) -> Post:
    found = fields(value, _POST)
    if "queue" not in found:
        raise RequestError('it says which queue: "send", "recv" or "srq"')
    return Post(**found)


def _pieces(value: object) -> tuple[Piece, ...]:
    return words.each(value, _PIECE)


# ---------------------------------------------------------------------- the shape, as data

_n, _t, _loose = words.number, words.text, words.loose
_STATE = words.state
_FLAGS = words.flags(AccessFlag)
_FLAGS_LOOSE = words.flags_loose(AccessFlag)

_DEVICE: dict[str, Reader] = {
    "name": _t, "driver": _t, "transport": words.member(Transport), "phys_port_cnt": _n, "max_qp": _n,
    "max_qp_wr": _n, "max_sge": _n, "max_qp_rd_atom": _n, "max_qp_init_rd_atom": _n, "max_res_rd_atom": _n,
    "atomic_cap": words.member(AtomicCap), "device_cap_flags": words.flags(DeviceCap), "res_rd_atom_in_use": _n,
    "qp_in_use": _n,
}  # fmt: skip
_PORT: dict[str, Reader] = {
    "num": _n, "state": words.member(PortState), "link_layer": words.member(LinkLayer), "active_mtu": words.mtu,
    "max_mtu": words.mtu, "lid": _n, "lmc": words.lmc, "gid_tbl_len": _n, "pkey_tbl_len": _n,
    "grh_required": words.switch,
}  # fmt: skip
_GID: dict[str, Reader] = {"index": _n, "gid": words.gid, "type": words.member(GidType), "netdev": _t}
_CAP: dict[str, Reader] = dict.fromkeys(QPCap.__slots__, _n)
_QP: dict[str, Reader] = {
    "type": words.member(QPType), "state": _STATE, "port_num": _n, "qp_num": _n, "access_flags": _FLAGS,
    "recv_posted": _n, "outstanding": _n, "signaled": words.switch, "srq": words.switch, "pkey_index": _n,
    "sgid": words.gid,
    "cap": _made(QPCap, _CAP), "was": lambda value: tuple(words.each(value, _STATE)),
    "driver_type": words.named(DriverType), "qkey": _n, "sq_draining": _n, "pd": words.tag,
    "max_dest_rd_atomic": _n,
}  # fmt: skip
_PROCESS: dict[str, Reader] = {"privileged": words.switch, "memlock": _n, "ipc_lock": words.switch}
_REGION: dict[str, Reader] = {
    "addr": _n, "length": _n, "lkey": _n, "rkey": _n, "access": _FLAGS, "pd": words.tag,
}  # fmt: skip
_PEER: dict[str, Reader] = {
    "qp_num": _n, "psn": _n, "qp_type": words.member(QPType), "link_layer": words.member(LinkLayer), "lid": _n,
    "gid": words.gid, "gid_index": _n, "gid_type": words.member(GidType), "path_mtu": words.mtu,
    "max_rd_atomic": _n, "max_dest_rd_atomic": _n, "pkey": _n, "pkey_index": _n, "port_num": _n,
    "port_state": words.member(PortState), "grh_required": words.switch, "lmc": words.lmc, "qkey": _n, "rx_depth": _n,
    "sees_qp_num": _n, "sees_psn": _n,
}  # fmt: skip
_ROUTE: dict[str, Reader] = dict.fromkeys(GlobalRoute.__slots__, _loose) | {"dgid": lambda value: value}
_ROUTE_UNKNOWN: dict[str, Any] = dict.fromkeys(_ROUTE)
_ADDRESS: dict[str, Reader] = dict.fromkeys(AddressVector.__slots__, _loose) | {"grh": _route}
_ADDRESS_UNKNOWN: dict[str, Any] = dict.fromkeys(_ADDRESS)
_ATTR: dict[str, Reader] = dict.fromkeys(FIELDS, _loose) | {
    "ah_attr": _address, "alt_ah_attr": _address, "qp_access_flags": _FLAGS_LOOSE, "cap": lambda value: value,
}  # fmt: skip
_PIECE = _as_given(Piece, {"addr": _loose, "length": _loose, "lkey": _loose})
_POST: dict[str, Reader] = {
    "queue": words.one_of("send", "recv", "srq"), "opcode": words.opcode(WROpcode), "num_sge": _loose, "length": _loose,
    "inline": _loose, "signaled": _loose, "sge": _pieces, "access": _FLAGS_LOOSE,
}  # fmt: skip
REQUEST: dict[str, Reader] = {
    "id": words.identity,
    "device": _made(DeviceFacts, _DEVICE),
    "port": _made(PortFacts, _PORT),
    "ports": lambda value: words.each(value, _made(PortFacts, _PORT)),
    "gids": _gids,
    "pkeys": _pkeys,
    "qp": _made(QPFacts, _QP),
    "attr": _as_given(QPAttr, _ATTR),
    "post": _post,
    "create": _as_given(QPCap, dict.fromkeys(QPCap.__slots__, _loose)),
    "reg_mr": _as_given(Registration, {"access": _FLAGS_LOOSE, "length": _loose}),
    "ah": _address,
    "mask": words.mask,
    "units": words.one_of("abi"),
    "mrs": lambda value: words.each(value, _made(Region, _REGION)),
    "peer": _made(PeerRecord, _PEER),
    "process": _process,
    "kernel": _kernel,
    "failed": _errno,
    "completion": _completion,
}
