"""What the guard is asked: "this queue pair, on this port of this device, is about to be modified like this".

What is ``None`` is unknown: a check that needs it is not made, and named among what was skipped. Nothing is guessed.
The fields are those of the check contract, which are those of ``<infiniband/verbs.h>``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rdmaqp.model.attributes import QPAttr
from rdmaqp.model.enums import (
    AccessFlag,
    AtomicCap,
    DeviceCap,
    LinkLayer,
    PortState,
    QPState,
    QPType,
    Transport,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.gid import GID, GidEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What is known of the device: its driver and those limits that the guard compares with."""

    name: str | None = None
    driver: str | None = None
    transport: Transport | None = None
    phys_port_cnt: int | None = None
    max_qp: int | None = None
    max_qp_wr: int | None = None
    max_sge: int | None = None
    max_qp_rd_atom: int | None = None
    max_qp_init_rd_atom: int | None = None
    max_res_rd_atom: int | None = None
    atomic_cap: AtomicCap | None = None
    device_cap_flags: DeviceCap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """What is known of the port in question. MTUs in bytes."""

    num: int | None = None
    state: PortState | None = None
    link_layer: LinkLayer | None = None
    active_mtu: int | None = None
    max_mtu: int | None = None
    lid: int | None = None
    lmc: int | None = None
    gid_tbl_len: int | None = None
    pkey_tbl_len: int | None = None
    grh_required: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QPFacts:
    """What is known of the queue pair before the call.

    Attributes:
        sgid: the GID that its peer was told.
        outstanding: sends posted and not yet completed.
        recv_posted: receives posted and not yet completed.
        srq: whether it takes its receives from a shared receive queue.
    """

    type: QPType | None = None
    state: QPState | None = None
    port_num: int | None = None
    qp_num: int | None = None
    access_flags: AccessFlag | None = None
    recv_posted: int | None = None
    outstanding: int | None = None
    srq: bool | None = None
    pkey_index: int | None = None
    sgid: GID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QPCap:
    """``struct ibv_qp_cap``: the room of a queue pair. Depths in work requests, inline in bytes."""

    max_send_wr: int = 0
    max_recv_wr: int = 0
    max_send_sge: int = 0
    max_recv_sge: int = 0
    max_inline_data: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One act to judge: a modify call (*attr*) or a creation (*create*).

    Attributes:
        qp: the queue pair before the call.
        attr: the attributes of a modify call.
        create: the capacities asked of a new queue pair.
        mask: the ``ibv_qp_attr_mask`` bits; ``None`` derives them from *attr*.
        device, port: where it happens.
        gids: the known slots of the port's GID table, by index.
        gids_complete: whether *gids* holds every slot in use, so that one not listed is empty.
        pkeys: the known partition keys, by index.
        peer: the other end's record.
        kernel: its (major, minor); unknown is read as the more permissive.
    """

    qp: QPFacts
    attr: QPAttr | None = None
    create: QPCap | None = None
    mask: int | None = None
    device: DeviceFacts = field(default_factory=DeviceFacts)
    port: PortFacts = field(default_factory=PortFacts)
    gids: Mapping[int, GidEntry] = field(default_factory=dict)
    gids_complete: bool = False
    pkeys: Mapping[int, int] = field(default_factory=dict)
    peer: Endpoint | None = None
    kernel: tuple[int, int] | None = None
    id: str | int | None = None
