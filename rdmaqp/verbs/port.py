"""A device's port: its state, its addresses, its keys. Asked anew each time, since all of them change at run time."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.brief import brief
from rdmaqp.model.enums import GidType, LinkLayer, PortState, mtu_bytes
from rdmaqp.model.gid import GID, GidChoice, GidEntry, pick_gid
from rdmaqp.model.request import PortFacts
from rdmaqp.verbs._native import check, native

if TYPE_CHECKING:
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
        ffi, lib = native()
        raw = ffi.new("struct ibv_port_attr *")
        check("ibv_query_port", lib.rdmaqp_query_port(self.context.handle, self.num, raw), str(self))
        plain: dict[str, Any] = {name: getattr(raw, name) for name in _PLAIN}
        return PortAttr(
            state=PortState(raw.state),
            max_mtu=mtu_bytes(raw.max_mtu) or 0,
            active_mtu=mtu_bytes(raw.active_mtu) or 0,
            link_layer=LinkLayer(raw.link_layer),
            grh_required=bool(raw.flags & lib.IBV_QPF_GRH_REQUIRED),
            **plain,
        )

    @property
    def facts(self) -> PortFacts:
        """What the guard compares with."""
        attr = self.query()
        return PortFacts(
            num=self.num, state=attr.state, link_layer=attr.link_layer,
            active_mtu=attr.active_mtu or None, max_mtu=attr.max_mtu or None,
            lid=attr.lid, lmc=attr.lmc, gid_tbl_len=attr.gid_tbl_len, pkey_tbl_len=attr.pkey_tbl_len,
            grh_required=attr.grh_required,
        )

    def gids(self) -> tuple[GidEntry, ...]:
        """The slots of the GID table that are in use, lowest index first (``ibv_query_gid_table``).

        Raises:
            VerbsError: the table cannot be read.
        """
        ffi, lib = native()
        # One table for all ports. The kernel refuses an array that is too short, and one of no length at all.
        room = max(1, sum(port.query().gid_tbl_len for port in self.context.ports))
        raw = ffi.new("struct ibv_gid_entry[]", room)
        count = lib.ibv_query_gid_table(self.context.handle, raw, room, 0)
        if count < 0:
            raise VerbsError("ibv_query_gid_table", count, str(self))
        mine = (raw[slot] for slot in range(count) if raw[slot].port_num == self.num)
        return tuple(sorted((_entry(slot) for slot in mine), key=lambda entry: entry.index))

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


def _entry(raw: Any) -> GidEntry:
    kind = GidType(raw.gid_type)
    return GidEntry(
        index=raw.gid_index,
        gid=GID(bytes(native().ffi.buffer(raw.gid.raw)[:])),
        type=kind,
        netdev=_netdev(raw.ndev_ifindex, kind),
    )


def _netdev(ifindex: int, kind: GidType) -> str | None:
    """The net device's name; ``""`` where a RoCE entry has none here, ``None`` for InfiniBand, which needs none."""
    if ifindex == 0:
        return None if kind is GidType.IB else ""
    try:
        return socket.if_indextoname(ifindex)
    except OSError:
        return ""  # it lives in another network namespace
