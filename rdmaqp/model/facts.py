"""What the guard is told of the world: device, port, queue pair, process, memory regions.

What is ``None`` is unknown: a check that needs it is not made, and named among what was skipped. Nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rdmaqp.model.brief import brief

if TYPE_CHECKING:
    from rdmaqp.model.enums import (
        AccessFlag,
        AtomicCap,
        DeviceCap,
        DriverType,
        LinkLayer,
        PortState,
        QPState,
        QPType,
        Transport,
    )
    from rdmaqp.model.gid import GID

#: A ``memlock`` without an end, as ``getrlimit`` says it (``RLIM_INFINITY``); ``null`` in JSON.
UNLIMITED: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What is known of the device: its driver and those limits that the guard compares with.

    Attributes:
        driver: the kernel driver's name, such as ``mlx5`` or ``rxe``.
        max_res_rd_atom: responder slots of all queue pairs together; 0 is unknown, some drivers never set it.
        res_rd_atom_in_use: how many of them are taken.
        qp_in_use: how many queue pairs there are now.
    """

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
    res_rd_atom_in_use: int | None = None
    qp_in_use: int | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """What is known of a port. MTUs in bytes."""

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

    __repr__ = brief


@dataclass(frozen=True, slots=True, kw_only=True)
class QPCap:
    """``struct ibv_qp_cap``: the room of a queue pair. Depths in work requests, inline in bytes."""

    max_send_wr: int = 0
    max_recv_wr: int = 0
    max_send_sge: int = 0
    max_recv_sge: int = 0
    max_inline_data: int = 0

    __repr__ = brief


@dataclass(slots=True, kw_only=True)  # made anew for each call, and frozen would take four times as long
class QPFacts:
    """What is known of the queue pair before the call.

    Attributes:
        recv_posted: receives posted and not yet completed.
        outstanding: sends posted and not yet completed.
        signaled: whether one of those is signaled.
        srq: whether it takes its receives from a shared receive queue.
        pkey_index: bound at INIT.
        sgid: the GID that its peer was told.
        cap: the capacities as ``ibv_create_qp`` returned them.
        was: the states gone through before the present one, oldest first, without the RESET that it was made in.
        driver_type: which of its driver's own types, where the type is ``DRIVER``.
        qkey: its own, for datagrams.
        sq_draining: 1 while a send queue in SQD has not finished, as ``ibv_query_qp`` says.
        pd: its protection domain, however the caller names it.
        max_dest_rd_atomic: what it was last set to, also before a RESET.
    """

    type: QPType | None = None
    state: QPState | None = None
    port_num: int | None = None
    qp_num: int | None = None
    access_flags: AccessFlag | int | None = None
    recv_posted: int | None = None
    outstanding: int | None = None
    signaled: bool | None = None
    srq: bool | None = None
    pkey_index: int | None = None
    sgid: GID | None = None
    cap: QPCap | None = None
    was: tuple[QPState, ...] | None = None
    driver_type: DriverType | None = None
    qkey: int | None = None
    sq_draining: int | None = None
    pd: int | str | None = None
    max_dest_rd_atomic: int | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """What the calling process may do.

    Attributes:
        privileged: it has CAP_NET_RAW, or the system's setting lifts the need (``rdma system set privileged-qkey``).
        memlock: ``RLIMIT_MEMLOCK`` in bytes; :data:`UNLIMITED`.
        ipc_lock: it has CAP_IPC_LOCK in the initial user namespace, which lifts that limit.
    """

    privileged: bool | None = None
    memlock: int | None = None
    ipc_lock: bool | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A memory region (``struct ibv_mr``): bytes from *addr*, its two keys, what it allows, its protection domain."""

    addr: int | None = None
    length: int | None = None
    lkey: int | None = None
    rkey: int | None = None
    access: AccessFlag | int | None = None
    pd: int | str | None = None

    __repr__ = brief
