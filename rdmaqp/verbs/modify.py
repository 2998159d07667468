"""Between the model and C: attributes in and out of ``struct ibv_qp_attr``, and what the guard is told of a call."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import DeviceError
from rdmaqp.host import process
from rdmaqp.model.attributes import FIELDS, QP_ATTR_NAMES, QPAttr, as_int, enum_value
from rdmaqp.model.brief import brief
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.enums import AttrMask, LinkLayer, QPState, QPType, mtu_code
from rdmaqp.model.gid import GidEntry, pick_gid
from rdmaqp.model.request import PortFacts, ProcessFacts, QPCap, QPFacts, Request
from rdmaqp.model.steps import CUSTOMARY
from rdmaqp.verbs import address
from rdmaqp.verbs._native import native

if TYPE_CHECKING:
    from rdmaqp.verbs.port import Port
    from rdmaqp.verbs.queue_pair import QueuePair

_CAPACITIES = ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data")


@dataclass(frozen=True, slots=True)
class Transition:
    """One modify call that took effect: from where to where, with which attributes, when (``time.time_ns``)."""

    start: QPState
    goal: QPState
    mask: tuple[str, ...]
    time_ns: int

    __repr__ = brief


def init_attr(kind: QPType, cap: QPCap) -> dict[str, Any]:
    """The initialiser of ``struct ibv_qp_init_attr``."""
    return {"qp_type": int(kind), "cap": {name: getattr(cap, name) for name in _CAPACITIES}}


def read_cap(raw: Any) -> QPCap:
    """Copy a ``struct ibv_qp_cap``."""
    return QPCap(**{name: int(getattr(raw, name)) for name in _CAPACITIES})


def fill_attr(attr: QPAttr, mask: int) -> Any:
    """A ``struct ibv_qp_attr *`` with those attributes that *mask* carries; all else is zero.

    The guard has seen the values: cffi raises OverflowError for what does not fit rather than cutting it.
    """
    raw = native().ffi.new("struct ibv_qp_attr *")
    for name, value in attr.given():
        field = FIELDS[name]
        if not field.mask & mask or name == "cap":
            continue
        if name in ("ah_attr", "alt_ah_attr"):
            address.fill(getattr(raw, name), value)
        elif name == "path_mtu" and not isinstance(value, str):
            raw.path_mtu = mtu_code(int(value))
        elif field.enum is not None:
            setattr(raw, name, enum_value(field.enum, value))
        else:
            setattr(raw, name, int(value))
    return raw


def read_attr(raw: Any, mask: int) -> QPAttr:
    """The attributes of *mask* as ``ibv_query_qp`` filled them."""
    values: dict[str, Any] = {}
    for name in QP_ATTR_NAMES:
        if not FIELDS[name].mask & mask:
            continue
        value = getattr(raw, name)
        if name in ("ah_attr", "alt_ah_attr"):
            value = address.read(value)
        elif name == "cap":
            value = read_cap(value)
        elif name == "qp_state":
            value = QPState(value)
        values[name] = value
    return QPAttr(**values)


def request(qp: QueuePair, attr: QPAttr, mask: int | None, state: QPState, peer: Endpoint | None) -> Request:
    """What the guard is asked of this call: the device's, the port's and the tables' facts as they are now.

    Tables are read only where the call touches them.
    """
    context = qp.pd.context
    bits = attr.mask | (mask or 0)
    port = _port(qp, attr)
    reads_gids = port is not None and bool(bits & (AttrMask.AV | AttrMask.ALT_PATH))
    facts = PortFacts() if port is None else port.facts
    return Request(
        qp=QPFacts(
            type=qp.type, state=state, port_num=qp.port_num, qp_num=qp.qp_num, pkey_index=qp.pkey_index, cap=qp.cap,
            was=_was(qp, state), sq_draining=qp.sq_draining,
        ),
        attr=attr,
        mask=None if mask is None else int(mask),
        device=context.facts,
        port=facts,
        gids={entry.index: entry for entry in port.gids()} if port is not None and reads_gids else {},
        gids_complete=reads_gids,
        pkeys={} if port is None else _pkeys(port, facts.pkey_tbl_len or 0, qp, attr, bits, peer),
        peer=peer,
        process=process.facts() if bits & AttrMask.QKEY else ProcessFacts(),
        kernel=kernel_release(),
    )


def _was(qp: QueuePair, state: QPState) -> tuple[QPState, ...]:
    """The states before the present one, as far as our own calls led there."""
    goals = [step.goal for step in qp.transitions]
    return tuple(goals[:-1] if goals and goals[-1] is state else goals)


def _pkeys(
    port: Port, length: int, qp: QueuePair, attr: QPAttr, bits: int, peer: Endpoint | None
) -> dict[int, int]:
    """The key that the call names; else, where it has to match the peer's, the one bound at INIT."""
    if bits & AttrMask.PKEY_INDEX:
        index = as_int(attr.pkey_index)
    else:
        index = None if peer is None or peer.pkey is None else qp.pkey_index
    return {index: port.pkey(index)} if index is not None and 0 <= index < length else {}


def _port(qp: QueuePair, attr: QPAttr) -> Port | None:
    """The port that the call is about: the one it names, else the one bound at INIT."""
    for value in (attr.port_num, getattr(attr.ah_attr, "port_num", None), qp.port_num):
        num = as_int(value)
        if num is not None and 1 <= num <= qp.pd.context.attr.phys_port_cnt:
            return qp.pd.context.port(num)
    return None


@cache
def kernel_release() -> tuple[int, int] | None:
    """The running kernel's (major, minor)."""
    match = re.match(r"(\d+)\.(\d+)", platform.release())
    return None if match is None else (int(match[1]), int(match[2]))


def describe(qp: QueuePair, port_num: int, psn: int, gid_index: int | None, more: dict[str, Any]) -> Endpoint:
    """The record of *qp* on *port_num*: see :meth:`QueuePair.endpoint`."""
    context = qp.pd.context
    port = context.port(port_num)
    attr = port.query()
    entry = _choose(port, gid_index, attr.link_layer)
    pkey_index = more.get("pkey_index", 0)
    values: dict[str, Any] = {
        "qp_num": qp.qp_num, "psn": psn, "qp_type": qp.type, "port_num": port_num,
        "link_layer": attr.link_layer, "lid": attr.lid, "lmc": attr.lmc, "port_state": attr.state,
        "grh_required": attr.grh_required, "path_mtu": attr.active_mtu or None,
        "gid": entry and entry.gid, "gid_index": entry and entry.index, "gid_type": entry and entry.type,
        "pkey": port.pkey(pkey_index) or None if pkey_index < attr.pkey_tbl_len else None, "pkey_index": pkey_index,
        "max_rd_atomic": min(context.attr.max_qp_init_rd_atom, 1),
        "max_dest_rd_atomic": min(context.attr.max_qp_rd_atom, 1),
        "qkey": CUSTOMARY["qkey"] if qp.type is QPType.UD else None, "rx_depth": qp.cap.max_recv_wr,
    }  # fmt: skip
    return Endpoint(**(values | more))


def _choose(port: Port, gid_index: int | None, link_layer: LinkLayer) -> GidEntry | None:
    table = port.gids()
    if gid_index is None:
        choice = pick_gid(table)
        if choice is None and link_layer is LinkLayer.ETHERNET:
            raise DeviceError(
                f"{port} has an empty GID table, so RoCE has no address to send from",
                ("Bring its net device up and give it an IP address.",),
            )
        return None if choice is None else choice.entry
    for entry in table:
        if entry.index == gid_index:
            return entry
    used = ", ".join(str(entry.index) for entry in table) or "none"
    raise DeviceError(f"GID index {gid_index} of {port} is empty or past its end; in use: {used}")
