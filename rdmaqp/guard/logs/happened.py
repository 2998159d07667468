"""What an asynchronous event says, and a modify call that failed with a number that nobody tells: data.

Sources: ``ibv_get_async_event(3)``; InfiniBand Architecture Specification, volume 1, 11.6.3 (asynchronous events).
"""

from __future__ import annotations

import errno as e
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
    _E.QP_LAST_WQE_REACHED: (
        likely("flush-consequence", "a queue pair on a shared receive queue went to ERR, or was moved there: its own "
               "completions, or the event before, have the reason"),
    ),
    _E.PATH_MIG_ERR: (likely("peer-unreachable", "the alternate path was refused"),),
})  # fmt: skip

_NOBODY = "nobody listens at that port (service), or not yet"
_NO_ANSWER = "the connection manager's messages were not answered: a firewall on UDP port 4791, or no RDMA there"

#: What the connection manager's events say, and its calls (``None``), by error number; by no number where another came.
#: Sources: ``rdma_get_cm_event(3)``; Linux drivers/infiniband/core/cma.c, addr.c.
CM: Mapping[tuple[str | None, int | None], tuple[Reason, ...]] = MappingProxyType({
    ("ADDR_ERROR", e.ETIMEDOUT): (
        likely("neighbour-unresolved", "nobody answered for the address (ARP, neighbour discovery)"),
    ),
    ("ADDR_ERROR", e.ENODEV): (
        likely("device-missing", "the way to that address leads out of a net device that no RDMA device belongs to: "
               "the wrong address, a bond or bridge above the port, another network namespace"),
    ),
    ("ADDR_ERROR", None): (
        likely("neighbour-unresolved", "nobody answered for the address (error -110)"),
        likely("route-missing", "there is no route to it (-101, -113), or its net device has no RDMA device (-19)"),
    ),
    ("ROUTE_ERROR", None): (
        likely("route-missing", "InfiniBand: the subnet manager knows no path to that port (is it up, and of the same "
               "partition?); RoCE: no GID of the net device can be used"),
        likely("neighbour-unresolved", "or nobody answered for the address"),
    ),
    ("UNREACHABLE", None): (likely("peer-unreachable", _NO_ANSWER),),
    ("CONNECT_ERROR", None): (
        likely("peer-unreachable", _NO_ANSWER),
        likely("driver-refused", "or this end could not bring its own queue pair up: see dmesg"),
    ),
    ("DEVICE_REMOVAL", None): (proved("device-missing", "the RDMA device was removed, or is being reset"),),
    ("MULTICAST_ERROR", None): (likely("peer-unreachable", "the group could not be joined: InfiniBand's subnet manager "
                                       "refused, or the address is none of a group"),),
    (None, e.ENETUNREACH): (likely("route-missing", "there is no route to that address"),),
    (None, e.EHOSTUNREACH): (likely("route-missing", "there is no route to that address"),),
    (None, e.ETIMEDOUT): (
        likely("peer-unreachable", "nothing came back: neither for the address, nor for the connection manager's "
               "messages"),
    ),
    (None, e.ENODEV): (
        likely("device-missing", "no RDMA device belongs to that address: it is on a net device without one, in "
               "another network namespace, or 127.0.0.1"),
    ),
    (None, e.EADDRNOTAVAIL): (
        likely("device-missing", "that address is not this machine's, or on no RDMA device's net device"),
    ),
    (None, e.ENOENT): (likely("device-missing", "no RDMA device, or the module rdma_ucm is not loaded"),),
    (None, e.ECONNREFUSED): (likely("peer-not-ready", _NOBODY),),
    (None, e.EBADMSG): (likely("peer-not-ready", "another event came than was waited for: the line before has it"),),
    (None, e.EADDRINUSE): (likely("driver-refused", "that port is taken by another listener"),),
    (None, e.ENOMEM): (
        likely("memlock-limit", "memory for a queue pair must be locked, and the process may not lock as much"),
        likely("qp-limit", "or no queue pair is left"),
    ),
    # The kernel's users say this of ADDR_ERROR, ROUTE_ERROR, CONNECT_ERROR and UNREACHABLE alike (nvme/host/rdma.c).
    (None, e.ECONNRESET): (
        likely("peer-not-ready", "the other end refused or hung up: a line before, or its own log, says so"),
        likely("peer-unreachable", "or nothing came back from it"),
        likely("neighbour-unresolved", "or nobody answered for its address (ARP, neighbour discovery)"),
        likely("route-missing", "or no route leads to it"),
    ),
    (None, None): (
        likely("driver-refused", "if it failed at once: an argument, or the state of the id"),
        likely("peer-unreachable", "if it took seconds: nothing came back"),
        likely("device-missing", "if nothing can be made at all: no RDMA device; for a program, the module rdma_ucm is "
               "not loaded"),
    ),
})  # fmt: skip

#: Why the other end rejected (``enum ib_cm_rej_reason``); another number says that it did.
REJECTED: Mapping[int | None, tuple[Reason, ...]] = MappingProxyType({
    8: (likely("peer-not-ready", f"8, invalid service ID: {_NOBODY}"),),
    10: (
        likely("peer-stale", "10, stale connection: the other end still has a connection of this queue pair's number, "
               "of a life before. It goes away by itself; try again"),
    ),
    28: (
        likely("peer-not-ready", "28, consumer defined: the program there said no. Its private data, and its own log, "
               "say why (versions, limits, names)"),
    ),
    3: (likely("qp-limit", "3, no resources: the other end could not make a queue pair for it"),),
    1: (likely("qp-limit", "1, no queue pair: the other end has none for it"),),
    4: (likely("peer-unreachable", "4, timeout: an answer to the answer was awaited in vain"),),
    12: (likely("dgid-invalid", "12, invalid GID: the address of the request is none of that port's"),),
    26: (likely("peer-mtu", "26, invalid MTU: the path MTU is above what the other end's port carries"),),
    27: (
        likely("peer-rd-atomic", "27, insufficient responder resources: more reads in flight are asked for than the "
               "other end serves (initiator_depth)"),
    ),
    None: (
        likely("peer-not-ready", "the other end refused: nobody listens at that port (8), or its program said no (28)"),
    ),
})  # fmt: skip

_MEMORY = (
    likely("memlock-limit", "the memory must be locked, and the process may not lock as much (ENOMEM): `ulimit -l`"),
)
#: Calls other than modify whose error number nobody tells -> what usually refuses them.
UNTOLD: Mapping[str, tuple[Reason, ...]] = MappingProxyType(
    {
        "create": (
            *_MEMORY,
            likely(
                "create-over-limit",
                "or more entries, pieces or inline data were asked for than the device has (EINVAL)",
            ),
        ),
        "reg_mr": (
            *_MEMORY,
            likely("memory-not-pinnable", "or it is not mapped, or a GPU's without its peer-memory module (EFAULT)"),
        ),
        "ah": (
            likely("neighbour-unresolved", "if the call took a second (RoCE): nobody answered for the peer's address"),
            likely("sgid-empty", "if it failed at once: the slot of the GID table that was named is empty"),
            likely("grh-missing", "or, on RoCE, no GID index was given"),
        ),
    }
)

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
