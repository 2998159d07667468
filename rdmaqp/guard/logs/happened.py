"""What an asynchronous event says, and a modify call that failed with a number that nobody tells: data.

Sources: ``ibv_get_async_event(3)``; InfiniBand Architecture Specification, volume 1, 11.6.3 (asynchronous events).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.guard.logs.pattern import Reason, likely, proved
from rdmaqp.model.enums import AsyncEventType, QPState

if TYPE_CHECKING:
    from collections.abc import Mapping

_E = AsyncEventType
_IN_ERR = "No completion can tell of it on this side; the queue pair is in ERR, and the peer's completion has a status"
_DMESG = "see dmesg"

EVENTS: Mapping[AsyncEventType, tuple[Reason, ...]] = MappingProxyType({
    _E.QP_ACCESS_ERR: (
        likely("access-denied", "the peer read or changed memory here in a way that the region or the queue pair does "
               f"not allow. {_IN_ERR}"),
        likely("remote-key", "or its rkey or address is not that of a region here: stale, closed too early, past the "
               "end"),
    ),
    _E.QP_REQ_ERR: (
        likely("peer-mtu", "a request that the transport does not allow: packets longer than this end's path_mtu. "
               f"{_IN_ERR}"),
        likely("peer-rd-atomic", "or more reads and atomics in flight than this end serves (max_dest_rd_atomic)"),
        likely("access-denied", "or an operation that is not in this end's qp_access_flags"),
    ),
    _E.QP_FATAL: (
        likely("firmware-refused", f"the device could not read its work queue, or not write the completion: {_DMESG}"),
        likely("local-key", "or the queue's memory was freed while in use"),
    ),
    _E.CQ_ERR: (
        likely("create-over-limit", "the completion queue has overrun: it is smaller than the completions of all "
               "queues that share it, or is not polled in time"),
        likely("firmware-refused", "or its memory could not be written"),
    ),
    _E.SRQ_ERR: (
        likely("firmware-refused", "the shared receive queue broke: all queue pairs on it are to be made anew"),
    ),
    _E.WQ_FATAL: (likely("firmware-refused", "a work queue broke"),),
    _E.DEVICE_FATAL: (
        proved("firmware-refused", f"the device has failed: nothing works until it is closed and reset; {_DMESG}"),
        likely("device-missing", "or it is being reset or removed"),
    ),
    _E.PORT_ERR: (
        proved("port-inactive", "the port's link went down: a cable, the switch, or `ip link set … down`. Connected "
               "queue pairs retry, and end in RETRY_EXC_ERR where it stays down"),
    ),
    _E.GID_CHANGE: (
        likely("sgid-moved", "the GID table changed (an address came or went, a link flapped): indices may have moved. "
               "Read the table anew before each RTR; queue pairs that are up keep the address they have"),
    ),
    _E.LID_CHANGE: (
        likely("peer-lid", "the subnet manager gave this port another LID: connected queue pairs of others lead to "
               "the old one"),
    ),
    _E.PKEY_CHANGE: (likely("pkey-range", "the partition keys changed: pkey_index may name another key"),),
    _E.PATH_MIG_ERR: (likely("peer-unreachable", "the alternate path was refused"),),
})  # fmt: skip

_AT_ONCE = "if it failed at once"
#: Where the call led -> what usually refuses it.
UNNUMBERED: Mapping[QPState | None, tuple[Reason, ...]] = MappingProxyType({
    QPState.INIT: (
        likely("port-range", "a port that the device does not have (-i)"),
        likely("mask-missing", "an attribute too few or too many for this type of queue pair"),
    ),
    QPState.RTR: (
        likely("neighbour-unresolved", "if the call took a second (RoCE): nobody answered for the peer's address "
               "(ETIMEDOUT)"),
        likely("sgid-empty", f"{_AT_ONCE}: the slot of the GID table that was named is empty, or of the other address "
               "family"),
        likely("grh-missing", f"{_AT_ONCE} on RoCE: no GID index was given, and so no global route (-g, -x)"),
        likely("mtu-over-active", f"{_AT_ONCE}: a path MTU above the port's (some drivers)"),
        likely("route-missing", f"{_AT_ONCE}: there is no route to the peer's address"),
    ),
    QPState.RTS: (
        likely("rd-atomic-over-device", "more reads in flight than the device has"),
        likely("transition-illegal", "the call before this one had failed already: the queue pair is not in RTR"),
    ),
})  # fmt: skip
