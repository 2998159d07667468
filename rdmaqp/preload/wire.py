"""The shim's records, as ``_c/record.h`` lays them out: the same fields in the same order, and the bytes of each."""

from __future__ import annotations

import sys
from ctypes import Structure, c_char, c_int32, c_int64, c_ubyte, c_uint32, c_uint64, sizeof
from enum import IntEnum, IntFlag
from typing import Any

from rdmaqp.errors import RdmaqpError

#: The longest record: a call with 256 slots of a GID table. Longer ones are nobody's.
LONGEST = 1 << 16
NO_STATE = 255


class Kind(IntEnum):
    """``enum rdmaqp_kind``: what a record tells."""

    HELLO = 1
    CALL = 2
    RESULT = 3
    DESTROY = 4


class Answer(IntFlag):
    """``enum rdmaqp_answer``: what the shim could ask."""

    STATE = 1 << 0
    DEVICE = 1 << 1
    PORT = 1 << 2
    GIDS = 1 << 3
    PKEY = 1 << 4


def _numbers(names: str, kind: Any = c_uint32) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class _Record(Structure):
    """Fields are numbers, bytes and records; ctypes gives them no types that a checker could know."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")


class Head(_Record):
    """Who tells, and when."""

    _fields_ = [
        ("kind", c_uint32), ("pid", c_int32), ("tid", c_int32), ("number", c_uint32), ("time_ns", c_int64),
    ]  # fmt: skip


class Hello(_Record):
    """A process has loaded the shim; where it *stays*, its calls follow."""

    _fields_ = [
        ("head", Head), *_numbers("call_size gid_size stays"), ("program", c_char * 68),
    ]  # fmt: skip


class Vector(_Record):
    """``struct ibv_ah_attr``."""

    _fields_ = [
        *_numbers("is_global dlid sl src_path_bits static_rate port_num"),
        *_numbers("sgid_index flow_label hop_limit traffic_class"), ("dgid", c_ubyte * 16),
    ]  # fmt: skip


class Attr(_Record):
    """``struct ibv_qp_attr``: what the mask names, raw; the rest is 0."""

    _fields_ = [
        *_numbers("qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags"),
        *_numbers("pkey_index alt_pkey_index en_sqd_async_notify max_rd_atomic max_dest_rd_atomic min_rnr_timer"),
        *_numbers("port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout rate_limit"),
        ("ah_attr", Vector), ("alt_ah_attr", Vector),
    ]  # fmt: skip


class Call(_Record):
    """A modify call that is about to be made, with all that the shim could ask."""

    _fields_ = [
        ("head", Head), *_numbers("qp caller module_base symbol_at", c_uint64), *_numbers("qp_num qp_type mask"),
        *_numbers("state cached_state sq_draining has_srq answers"),
        *_numbers("max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data"), ("transport", c_int32),
        *_numbers("phys_port_cnt max_qp max_qp_wr max_sge max_qp_rd_atom max_qp_init_rd_atom max_res_rd_atom"),
        *_numbers("atomic_cap device_cap_flags"),
        *_numbers("port_num port_state link_layer active_mtu max_mtu lid lmc gid_tbl_len pkey_tbl_len grh_required"),
        *_numbers("pkey_index pkey gid_count"), ("attr", Attr),
        ("device", c_char * 64), ("provider", c_char * 64), ("module", c_char * 256), ("symbol", c_char * 128),
    ]  # fmt: skip


#: For the name of a net device, where it could not be asked (``RDMAQP_NOT_ASKED``).
NOT_ASKED = b"/"


class Gid(_Record):
    """``struct ibv_gid_entry``, with the name of its net device in the program's network namespace."""

    _fields_ = [("gid", c_ubyte * 16), *_numbers("index type ifindex"), ("netdev", c_char * 16)]


class Result(_Record):
    """A modify call has returned."""

    _fields_ = [("head", Head), ("qp", c_uint64), ("took_ns", c_int64), ("error", c_int32), ("state", c_uint32)]


class Destroy(_Record):
    """A queue pair is about to be destroyed; with an *error*: it was not."""

    _fields_ = [("head", Head), ("qp", c_uint64), ("qp_num", c_uint32), ("error", c_int32)]


class Verdict(_Record):
    """The answer to a call."""

    _fields_ = [("number", c_uint32), ("refused", c_uint32)]


_OF_KIND: dict[int, type[_Record]] = {
    Kind.HELLO: Hello, Kind.CALL: Call, Kind.RESULT: Result, Kind.DESTROY: Destroy,
}  # fmt: skip


class WireError(RdmaqpError, ValueError):
    """A record that no shim of this version sends."""


def read(data: bytes) -> Hello | Call | Result | Destroy:
    """The record in *data*. The slots behind a call are read by :func:`gids`.

    Raises:
        WireError: of no known kind, or too short.
    """
    kind = _OF_KIND.get(int.from_bytes(data[:4], sys.byteorder))
    if kind is None or len(data) < sizeof(kind):
        raise WireError(f"{len(data)} bytes, beginning with {data[:4].hex() or 'nothing'}, are no record of the shim's")
    record: Any = kind.from_buffer_copy(data)
    if isinstance(record, Hello) and (record.call_size, record.gid_size) != (sizeof(Call), sizeof(Gid)):
        raise WireError(
            f"the shim's records have {record.call_size} and {record.gid_size} bytes, and {sizeof(Call)} and "
            f"{sizeof(Gid)} are expected: the build is stale, install rdmaqp again"
        )
    return record  # type: ignore[no-any-return]


def slots_behind(call: Call, data: bytes) -> bytes:
    """The bytes of the GID table behind *call*. Raises :class:`WireError` where there are fewer than it says."""
    start, size = sizeof(Call), call.gid_count * sizeof(Gid)
    if len(data) < start + size:
        raise WireError(f"a call with {call.gid_count} GIDs, and {len(data)} bytes")
    return data[start : start + size]


def gids(slots: bytes) -> list[Gid]:
    """The slots in the bytes of a table."""
    return [Gid.from_buffer_copy(slots, at) for at in range(0, len(slots), sizeof(Gid))]


