"""``struct ibv_qp_attr`` as a C program fills it: what does not fit is cut, and nobody says a word."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from rdmaqp.model.attributes import FIELDS, QP_ATTR_NAMES, AddressVector, QPAttr
from rdmaqp.model.gid import GID
from rdmaqp.verbs._native import native

if TYPE_CHECKING:
    from collections.abc import Iterator

_VECTORS = ("ah_attr", "alt_ah_attr")
_AV_PARTS = ("port_num", "dlid", "sl", "src_path_bits", "static_rate", "is_global")
_GRH_PARTS = ("sgid_index", "flow_label", "hop_limit", "traffic_class")
#: Everything that rxe shows.
_ALL = 0x1FFFFF


class Struct:
    """Two structs to be used again and again: one to be given, one to be shown."""

    def __init__(self) -> None:
        ffi = native().ffi
        self.given = ffi.new("struct ibv_qp_attr *")
        self.shown = ffi.new("struct ibv_qp_attr *")
        self._init = ffi.new("struct ibv_qp_init_attr *")
        self._bytes = ffi.buffer(self.given)
        self._shown_bytes = ffi.buffer(self.shown)
        self._zero = bytes(len(self._bytes))

    def cut(self, attr: QPAttr, mask: int) -> Any:
        """The struct with the attributes of *mask*, each cut to its field."""
        self._bytes[:] = self._zero
        for name in QP_ATTR_NAMES:
            value = getattr(attr, name)
            if value is None or not FIELDS[name].mask & mask:
                continue
            if name in _VECTORS:
                _cut_vector(getattr(self.given, name), value)
            elif name == "cap":
                self.given.cap.max_send_wr = value.max_send_wr
            else:
                setattr(self.given, name, value & _most("struct ibv_qp_attr", name))
        return self.given

    def query(self, handle: Any) -> bytes:
        """Everything that the kernel shows, as bytes; ``shown`` holds it as a struct."""
        self._shown_bytes[:] = self._zero
        result = native().lib.ibv_query_qp(handle, self.shown, _ALL, self._init)
        assert result == 0, f"ibv_query_qp: {result}"
        return bytes(self._shown_bytes)


def _cut_vector(raw: Any, vector: AddressVector) -> None:
    for name in _AV_PARTS:
        value = int(vector.uses_grh) if name == "is_global" and vector.is_global is None else getattr(vector, name)
        setattr(raw, name, value & _most("struct ibv_ah_attr", name))
    if vector.grh is not None:
        raw.grh.dgid.raw = bytes(GID.parse(vector.grh.dgid))
        for name in _GRH_PARTS:
            setattr(raw.grh, name, getattr(vector.grh, name) & _most("struct ibv_global_route", name))


@cache
def _most(struct: str, field: str) -> int:
    """The largest number that a field of a C struct holds."""
    ffi = native().ffi
    kinds = dict(ffi.typeof(struct).fields)
    return int((1 << 8 * ffi.sizeof(kinds[field].type)) - 1)


def as_seen(raw: Any, mask: int) -> dict[str, Any]:
    """The attributes of *mask* in a struct that ``ibv_query_qp`` filled, those of address vectors by their path."""
    seen: dict[str, Any] = {}
    for name in QP_ATTR_NAMES:
        if not FIELDS[name].mask & mask or name == "rate_limit":
            continue
        value = getattr(raw, name)
        if name in _VECTORS:
            seen |= {f"{name}.{part}": int(getattr(value, part)) for part in _AV_PARTS}
            seen |= {f"{name}.grh.{part}": int(getattr(value.grh, part)) for part in _GRH_PARTS}
            seen[f"{name}.grh.dgid"] = GID(bytes(native().ffi.buffer(value.grh.dgid.raw)[:]))
        elif name == "cap":
            seen["cap"] = int(value.max_send_wr)
        else:
            seen[name] = int(value)
    return seen


def as_given(attr: QPAttr, mask: int) -> dict[str, Any]:
    """The attributes of *mask* as the caller gave them, under the names of :func:`as_seen`."""
    given: dict[str, Any] = {}
    for name in QP_ATTR_NAMES:
        value = getattr(attr, name)
        if value is None or not FIELDS[name].mask & mask or name == "rate_limit":
            continue
        if name in _VECTORS:
            given |= {f"{name}.{part}": getattr(value, part) for part in _AV_PARTS}
            given[f"{name}.is_global"] = int(value.uses_grh) if value.is_global is None else value.is_global
            if value.grh is not None:
                given |= {f"{name}.grh.{part}": getattr(value.grh, part) for part in _GRH_PARTS}
                given[f"{name}.grh.dgid"] = GID.parse(value.grh.dgid)
        else:
            given[name] = value.max_send_wr if name == "cap" else value
    return given


_CAP_NET_RAW = 1 << 13
_VERSION_3 = 0x20080522


@contextmanager
def unprivileged() -> Iterator[None]:
    """Without CAP_NET_RAW, in this thread, for the length of the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    _capability(libc.capget, header, data)
    before = data[0]
    data[0] = before & ~_CAP_NET_RAW
    _capability(libc.capset, header, data)
    try:
        yield
    finally:
        data[0] = before
        _capability(libc.capset, header, data)


def _capability(function: Any, header: Any, data: Any) -> None:
    if function(ctypes.byref(header), ctypes.byref(data)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
