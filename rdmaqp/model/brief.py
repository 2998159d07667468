"""How data prints: only what it says, in the field's words."""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from rdmaqp.model.enums import AccessFlag

#: Numbers that are compared digit by digit.
_HEX = frozenset({
    "wr_id", "qp_num", "dest_qp_num", "src_qp", "sees_qp_num", "qkey", "psn", "rq_psn", "sq_psn", "sees_psn", "pkey",
    "lid", "sm_lid", "addr", "lkey", "rkey", "mask", "vendor_err", "vendor_id", "wc_flags", "page_size_cap",
    "node_guid", "sys_image_guid", "port_cap_flags", "port_cap_flags2", "flags",
})  # fmt: skip
_ACCESS = frozenset({"qp_access_flags", "access_flags", "access"})


def brief(self: Any) -> str:
    """For ``__repr__`` of a dataclass: the fields whose value is not their default's."""
    given = ((field, getattr(self, field.name)) for field in fields(self) if field.repr)
    said = [f"{field.name}={told(field.name, value)}" for field, value in given if value != _default(field)]
    return f"{type(self).__name__}({', '.join(said)})"


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def told(name: str, value: Any) -> str:
    """A value in the field's words: names of enumerations and flags, hexadecimal where that is the custom."""
    if isinstance(value, Enum):
        return str(value)
    if name in _ACCESS and type(value) is int:
        return str(AccessFlag(value))
    return f"{value:#x}" if name in _HEX and type(value) is int else repr(value)
