"""A request in a few rows of words: what was set, both ends, the limits, the place. For errors and bug reports."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rdmaqp.guard.report import shown
from rdmaqp.guard.scene import Scene
from rdmaqp.model.attributes import AddressVector, GlobalRoute, enum_value
from rdmaqp.model.enums import AccessFlag, MigState, QPState, mask_names
from rdmaqp.model.facts import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.guard.report import Report
    from rdmaqp.model.request import Request

#: Numbers that people know in hexadecimal.
_HEX = frozenset({"dest_qp_num", "rq_psn", "sq_psn", "qkey", "rate_limit"})
_STATES: dict[str, Any] = {"qp_state": QPState, "cur_qp_state": QPState, "path_mig_state": MigState}
_LIMITS_OF = {
    "modify": ("max_qp_rd_atom", "max_qp_init_rd_atom"), "create": ("max_qp_wr", "max_sge", "max_qp"),
    "post": ("max_qp_wr", "max_sge"),
}  # fmt: skip


def rows(request: Request, report: Report) -> dict[str, str]:
    """The rows that are not empty: ``set``, ``mask``, ``ours``, ``theirs``, ``limits``, ``where``."""
    scene = Scene(request, report)
    made = {
        "set": ", ".join(_values(request)), "mask": _mask(request), "ours": ", ".join(_ours(scene)),
        "theirs": ", ".join(_theirs(scene)), "limits": ", ".join(_limits(scene)), "where": ", ".join(_where(request)),
    }  # fmt: skip
    return {name: text for name, text in made.items() if text}


def _values(request: Request) -> Iterator[str]:
    if request.attr is not None:
        for name, value in request.attr.given():
            if isinstance(value, AddressVector):
                yield f"{name} ({', '.join(_address(value))})"
            else:
                yield f"{name} {_value(name, value)}"
    for act in (request.create, request.reg_mr, request.post):
        for name in getattr(type(act), "__slots__", ()):
            value = getattr(act, name)
            if value is not None and name != "sge":
                yield f"{name} {_value(name, value)}"
    if isinstance(request.ah, AddressVector):
        yield from _address(request.ah)


def _value(name: str, value: Any) -> str:
    if name in _STATES:
        known = enum_value(_STATES[name], value)
        return str(shown(value)) if known is None else str(_STATES[name](known).name)
    if name in ("qp_access_flags", "access") and type(value) in (int, AccessFlag) and value >= 0:
        return "|".join(_flag_names(value)) or "0"
    if isinstance(value, IntEnum):
        return value.name
    if name in _HEX and isinstance(value, int) and 0 <= value < 1 << 64:
        return f"{value:#x}"
    return str(shown(value))


def _flag_names(value: int) -> Iterator[str]:
    names = {flag.value: str(flag.name) for flag in AccessFlag}
    for place in range(min(value.bit_length(), 64)):
        if value >> place & 1:
            yield names.get(1 << place, f"{1 << place:#x}")


def _address(address: AddressVector) -> Iterator[str]:
    """An address vector; of what stays 0 nothing is said."""
    yield f"port_num {shown(address.port_num)}"
    for name in ("dlid", "sl", "src_path_bits", "static_rate"):
        value = getattr(address, name)
        if value:
            yield f"{name} {shown(value)}"
    route = address.grh
    if not isinstance(route, GlobalRoute) or not address.uses_grh:
        yield "is_global 0"
        return
    yield f"dgid {shown(str(route.dgid))}"
    yield f"sgid_index {shown(route.sgid_index)}"
    for name in ("flow_label", "traffic_class", "hop_limit"):
        value = getattr(route, name)
        if value:
            yield f"{name} {shown(value)}"


def _mask(request: Request) -> str:
    """The mask, where it is not the one that follows from what was set."""
    if request.mask is None or request.attr is None or request.mask == request.attr.mask:
        return ""
    return ", ".join(mask_names(request.mask & 0xFFFFFFFF)) or "empty"


def _ours(scene: Scene) -> Iterator[str]:
    request, port = scene.request, scene.request.port
    if request.qp.qp_num is not None:
        yield f"QP {request.qp.qp_num:#x}"
    if request.qp.state is not None and scene.act == "post":  # of a modify call the arrow says it
        yield f"state {request.qp.state.name}"
    if scene.source is not None:
        yield str(scene.source) + (f", {scene.source.netdev}" if scene.source.netdev else "")
    elif scene.address is not None and isinstance(scene.address.grh, GlobalRoute):
        yield f"GID {shown(scene.address.grh.sgid_index)} (not in the table that was read)"
    if port.lid:
        yield f"LID {port.lid:#x}"
    if port.num is not None:
        words = [part.name for part in (port.link_layer, port.state) if part is not None]
        yield f"port {port.num} ({', '.join(words)})" if words else f"port {port.num}"


def _theirs(scene: Scene) -> Iterator[str]:
    request, peer = scene.request, scene.request.peer
    number = request.attr.dest_qp_num if request.attr is not None else None
    number = number if number is not None else peer.qp_num if peer is not None else None
    if isinstance(number, int):
        yield f"QP {number:#x}" if 0 <= number < 1 << 64 else f"QP {shown(number)}"
    target = scene.target if scene.target is not None else peer.gid if peer is not None else None
    if target is not None:
        yield f"GID {target}"
    dlid = scene.address.dlid if scene.address is not None else peer.lid if peer is not None else None
    if isinstance(dlid, int) and 0 < dlid < 1 << 32:
        yield f"LID {dlid:#x}"


def _limits(scene: Scene) -> Iterator[str]:
    request = scene.request
    if scene.act == "modify" and request.port.active_mtu is not None:
        yield f"active_mtu {request.port.active_mtu}"
    for name in _LIMITS_OF.get(scene.act, ()):
        value = getattr(request.device, name)
        if value is not None:
            yield f"{name} {value}"
    if scene.act in ("modify", "ah"):
        for name in ("gid_tbl_len", "pkey_tbl_len"):
            value = getattr(request.port, name)
            if value is not None:
                yield f"{name} {value}"
    locked = request.process.memlock
    if locked is not None:
        yield f"memlock {'unlimited' if locked == UNLIMITED else locked}"


def _where(request: Request) -> Iterator[str]:
    if request.device.name is not None:
        yield request.device.name
    yield f"driver {request.device.driver or 'unknown'}"
    if request.kernel is not None:
        yield f"kernel {request.kernel[0]}.{request.kernel[1]}"
