"""A device's port: its state, its addresses, its keys. Asked anew each time, since all of them change at run time."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.brief import brief
from rdmaqp.model.enums import GidType, LinkLayer, PortState, mtu_bytes
from rdmaqp.model.gid import GID, GidChoice, GidEntry, pick_gid
from rdmaqp.model.request import PortFacts
from rdmaqp.verbs._native import check, native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.verbs.device import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAttr:
    """``struct ibv_port_attr`` (ibv_query_port(3)), with MTUs in bytes.

    ``active_width``, ``active_speed`` and ``phys_state`` are the specification's codes.
    """

    state: PortState
    max_mtu: int
    active_mtu: int
    gid_tbl_len: int
    port_cap_flags: int
    max_msg_sz: int
    bad_pkey_cntr: int
    qkey_viol_cntr: int
    pkey_tbl_len: int
    lid: int
    sm_lid: int
    lmc: int
    max_vl_num: int
    sm_sl: int
    subnet_timeout: int
    init_type_reply: int
    active_width: int
    active_speed: int
    phys_state: int
    link_layer: LinkLayer
    flags: int
    port_cap_flags2: int
    grh_required: bool

    __repr__ = brief


_PLAIN = (
    "gid_tbl_len", "port_cap_flags", "max_msg_sz", "bad_pkey_cntr", "qkey_viol_cntr", "pkey_tbl_len", "lid",
    "sm_lid", "lmc", "max_vl_num", "sm_sl", "subnet_timeout", "init_type_reply", "active_width", "active_speed",
    "phys_state", "flags", "port_cap_flags2",
)  # fmt: skip


class Port:
    """Port *num* of an open device."""

    def __init__(self, context: Context, num: int) -> None:
        self.context = context
        self.num = num

    def __str__(self) -> str:
        return f"port {self.num} of {self.context.name}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def query(self) -> PortAttr:
        """The port's attributes now. Raises :class:`VerbsError`."""
        lib = native().lib
        raw = self._query()
        plain: dict[str, Any] = {name: getattr(raw, name) for name in _PLAIN}
        return PortAttr(
            state=PortState(raw.state),
            max_mtu=mtu_bytes(raw.max_mtu) or 0,
            active_mtu=mtu_bytes(raw.active_mtu) or 0,
            link_layer=LinkLayer(raw.link_layer),
            grh_required=bool(raw.flags & lib.IBV_QPF_GRH_REQUIRED),
            **plain,
        )

    def _query(self) -> Any:
        ffi, lib = native()
        raw = ffi.new("struct ibv_port_attr *")
        error = lib.rdmaqp_query_port(self.context.handle, self.num, raw)
        if error:
            raise VerbsError("ibv_query_port", error, str(self))
        return raw

    @property
    def facts(self) -> PortFacts:
        """What the guard compares with."""
        return facts_of(self.num, native().ffi.buffer(self._query())[:])

    def gids(self) -> tuple[GidEntry, ...]:
        """The slots of the GID table that are in use, lowest index first (``ibv_query_gid_table``).

        Raises:
            VerbsError: the table cannot be read.
        """
        ffi, lib = native()
        # One table for all ports. The kernel refuses an array that is too short, and one of no length at all.
        room = max(1, sum(port._query().gid_tbl_len for port in self.context.ports))
        raw = ffi.new("struct ibv_gid_entry[]", room)
        count = lib.ibv_query_gid_table(self.context.handle, raw, room, 0)
        if count < 0:
            raise VerbsError("ibv_query_gid_table", count, str(self))
        mine = (raw + slot for slot in range(count) if raw[slot].port_num == self.num)
        entries = [entry_of(ffi.buffer(slot)[:], _netdev(slot.ndev_ifindex)) for slot in mine]
        return tuple(sorted(entries, key=lambda entry: entry.index))

    def pick_gid(self) -> GidChoice | None:
        """The best source address, and why; ``None`` where the table is empty."""
        return pick_gid(self.gids())

    def pkeys(self) -> dict[int, int]:
        """The partition keys in use, by index; empty slots (0) are left out (ibv_query_pkey(3))."""
        table = {}
        for index in range(self.query().pkey_tbl_len):
            key = self.pkey(index)
            if key:
                table[index] = key
        return table

    @checked()
    def pkey(self, index: int) -> int:
        """The partition key at *index*, 0…``pkey_tbl_len`` − 1. Raises :class:`VerbsError`."""
        ffi, lib = native()
        raw = ffi.new("__be16 *")
        check("ibv_query_pkey", lib.ibv_query_pkey(self.context.handle, self.num, index, raw), str(self))
        return int.from_bytes(ffi.buffer(raw)[:], "big")


class GidTable(Mapping[int, GidEntry]):
    """A port's GID table by index, of which one slot may be known. The others are read when somebody looks at them.

    A call starts from one slot, and only who is told that it will not do needs to know of better ones. Looking at
    others raises :class:`VerbsError` where the table cannot be read.
    """

    __slots__ = ("_known", "_port", "_whole")

    def __init__(self, port: Port, known: GidEntry | None) -> None:
        self._port = port
        self._known = known
        self._whole: dict[int, GidEntry] | None = None

    def _all(self) -> dict[int, GidEntry]:
        if self._whole is None:
            self._whole = {entry.index: entry for entry in self._port.gids()}
            if self._known is not None:  # the call was judged by it
                self._whole[self._known.index] = self._known
        return self._whole

    def __getitem__(self, index: int) -> GidEntry:
        known = self._known
        return known if known is not None and known.index == index else self._all()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


@lru_cache(64)
def facts_of(num: int, raw: bytes) -> PortFacts:
    """The facts of port *num* in the bytes of its ``struct ibv_port_attr``: the same object while nothing changes."""
    ffi, lib = native()
    attr = ffi.new("struct ibv_port_attr *")
    ffi.buffer(attr)[:] = raw
    return PortFacts(
        num=num, state=PortState(attr.state), link_layer=LinkLayer(attr.link_layer),
        active_mtu=mtu_bytes(attr.active_mtu), max_mtu=mtu_bytes(attr.max_mtu), lid=attr.lid, lmc=attr.lmc,
        gid_tbl_len=attr.gid_tbl_len, pkey_tbl_len=attr.pkey_tbl_len,
        grh_required=bool(attr.flags & lib.IBV_QPF_GRH_REQUIRED),
    )  # fmt: skip


_UNASKED = "/"


@lru_cache(4096)  # a table changes rarely, and one of its slots is looked at with each call
def entry_of(raw: bytes, name: bytes) -> GidEntry:
    """The entry in the bytes of a ``struct ibv_gid_entry``; *name* is its net device's here, ended by a NUL.

    An empty one is none here; ``/``, which no net device is called, could not be asked (it takes a descriptor).
    """
    ffi = native().ffi
    slot = ffi.new("struct ibv_gid_entry *")
    ffi.buffer(slot)[:] = raw
    kind = GidType(slot.gid_type)
    netdev = os.fsdecode(name.partition(b"\0")[0])
    return GidEntry(
        index=slot.gid_index, gid=GID(ffi.buffer(slot.gid.raw)[:]), type=kind,
        # No net device: RoCE has one elsewhere, or has lost it; InfiniBand needs none.
        netdev=None if netdev == _UNASKED or (kind is GidType.IB and not slot.ndev_ifindex) else netdev,
    )  # fmt: skip


def _netdev(ifindex: int) -> bytes:
    """The net device's name, as :func:`entry_of` takes it."""
    try:
        return os.fsencode(socket.if_indextoname(ifindex))
    except OSError as error:
        return b"" if error.errno == errno.ENXIO or not ifindex else _UNASKED.encode()
