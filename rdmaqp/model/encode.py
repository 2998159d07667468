"""A request back to the JSON of the check contract: what :mod:`rdmaqp.model.codec` reads, with nothing lost."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum, IntFlag
from typing import TYPE_CHECKING, Any

from rdmaqp.model.enums import AccessFlag, DeviceCap, mask_names
from rdmaqp.model.facts import UNLIMITED
from rdmaqp.model.gid import GID, GidEntry

if TYPE_CHECKING:
    from rdmaqp.model.request import Request

#: The fields that hold flags, which travel as lists of names.
_FLAGS: dict[str, type[IntFlag]] = {
    "access_flags": AccessFlag, "qp_access_flags": AccessFlag, "access": AccessFlag, "device_cap_flags": DeviceCap,
}  # fmt: skip


def encode(request: Request) -> dict[str, Any]:
    """The request as a JSON object: facts that are unknown are left out, numbers stay numbers."""
    done: dict[str, Any] = {}
    for name in ("id", "device", "port", "ports", "qp", "attr", "post", "create", "reg_mr", "ah", "units", "mrs",
                 "peer", "failed", "completion"):  # fmt: skip
        value = getattr(request, name)
        if name == "qp" or value not in (None, ()):
            written = _value(name, value)
            if written != {} or name not in ("device", "port"):
                done[name] = written
    gids = [*request.gids.values(), *_empty_slots(request)]
    if gids:
        done["gids"] = [_gid(entry) for entry in gids]
    if request.pkeys:
        done["pkeys"] = {str(index): f"{key:#06x}" for index, key in request.pkeys.items()}
    if request.mask is not None:
        done["mask"] = list(mask_names(request.mask))
    if request.kernel is not None:
        done["kernel"] = ".".join(map(str, request.kernel))
    process = _value("process", request.process)
    if request.process.memlock == UNLIMITED:
        process["memlock"] = None
    return done | ({"process": process} if process else {})


def _empty_slots(request: Request) -> list[GidEntry]:
    """The empty slots that the request names: in JSON a slot that is not listed is unknown, also of a whole table."""
    if not request.gids_complete:
        return []
    attr = request.attr
    vectors = (request.ah, attr and attr.ah_attr, attr and attr.alt_ah_attr)
    named = {getattr(getattr(vector, "grh", None), "sgid_index", None) for vector in vectors}
    end = request.port.gid_tbl_len or 0
    missing = [index for index in named if type(index) is int and 0 <= index < end and index not in request.gids]
    return [GidEntry(index=index, gid=GID(bytes(16))) for index in sorted(missing)]


def _gid(entry: GidEntry) -> dict[str, Any]:
    return _value("gids", entry) | ({"netdev": None} if entry.netdev == "" else {})  # type: ignore[no-any-return]


def _value(name: str, value: Any) -> Any:
    if name in _FLAGS and isinstance(value, int) and not isinstance(value, bool):
        return _flags(_FLAGS[name], value)
    if isinstance(value, Enum):
        return value.name if value.name in type(value).__members__ else value.value
    if isinstance(value, GID):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {part: _value(part, inner) for part, inner in parts if inner is not None}
    if isinstance(value, (tuple, list)):
        return [_value("", item) for item in value]
    return value


def _flags(kind: type[IntFlag], value: int) -> Any:
    if value < 0:
        return value
    names = {flag.value: str(flag.name) for flag in kind}
    bits = (1 << place for place in range(value.bit_length()) if value >> place & 1)
    return [names.get(bit, f"{bit:#x}") for bit in bits]
