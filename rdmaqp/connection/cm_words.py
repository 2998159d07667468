"""What went wrong between two connection managers, in words: an event and its status, or a call's error number."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from rdmaqp.connection.frames import printable
from rdmaqp.errors import PeerError, VerbsError, errno_name
from rdmaqp.model.cm import NOBODY_LISTENS, REFUSED_BY_PROGRAM, REJECTIONS, CMEventType

if TYPE_CHECKING:
    from rdmaqp.verbs.cm import CMEvent

_LONGEST_REASON = 148


class CMError(PeerError):
    """rdma_cm could not connect, or a connection of its ended.

    Attributes:
        event: what came: a :class:`~rdmaqp.CMEventType`, or the number of one that is newer than we are.
        status: a negative error number, or the positive reason that the transport gave (RoCE and InfiniBand: enum
            ib_cm_rej_reason of Linux include/rdma/ib_cm.h).
        private_data: what the peer sent with it; of a rejection that a program made, its reason.
        peer: the other end's address and port.
    """

    def __init__(
        self, message: str, peer: str, event: CMEventType | int, status: int = 0, private_data: bytes = b""
    ) -> None:
        super().__init__(message, peer)
        self.event = event
        self.status = status
        self.private_data = private_data


#: Event and error number -> why, and what to do.
_WHY: dict[tuple[CMEventType, int], tuple[str, str]] = {
    (CMEventType.ADDR_ERROR, errno.ETIMEDOUT): (
        "the next hop does not answer (ARP or neighbour discovery)",
        "see whether the host is up, and `ip neighbour`; rdmaqp doctor --peer HOST says more",
    ),
    (CMEventType.ADDR_ERROR, errno.ENODEV): (
        "the route there leaves by a net device without an RDMA device",
        "see `ip route get ADDRESS`, and `rdma link` for the net devices that have one",
    ),
    (CMEventType.ROUTE_ERROR, errno.ETIMEDOUT): (
        "the subnet manager does not answer",
        "on InfiniBand see whether one runs: sminfo",
    ),
    (CMEventType.UNREACHABLE, errno.ETIMEDOUT): (
        "its connection manager does not answer",
        "there the port has to be ACTIVE and rdma_cm loaded; on RoCE v2 a firewall has to let UDP port 4791 through",
    ),
}
_ANY = {
    errno.EHOSTUNREACH: ("there is no route to that host", "see `ip route get ADDRESS`"),
    errno.ENETUNREACH: ("there is no route to that network", "see `ip route get ADDRESS`"),
    errno.ECONNREFUSED: ("nobody listens on this port there", "start the server first, or choose its port"),
    errno.ECONNRESET: ("it closed the connection before it was up", "see what the program there says"),
}
_DOING = {
    CMEventType.ADDR_ERROR: "its address cannot be resolved to an RDMA address",
    CMEventType.ROUTE_ERROR: "there is no RDMA path to it",
    CMEventType.UNREACHABLE: "it cannot be reached",
    CMEventType.REJECTED: "it rejected the connection",
    CMEventType.CONNECT_ERROR: "the connection could not be set up",
    CMEventType.DISCONNECTED: "it disconnected",
    CMEventType.DEVICE_REMOVAL: "the RDMA device here was removed",
    CMEventType.TIMEWAIT_EXIT: "the connection is over",
}


def failure(event: CMEvent, peer: str) -> CMError:
    """The error that *event*, of the connection with *peer*, amounts to."""
    kind = CMEventType(event.type) if event.type in CMEventType._value2member_map_ else None
    doing = _DOING.get(kind) if kind is not None else None
    why, fix = _reason(kind, event)
    lines = [f"peer {peer}: {doing or f'rdma_cm says {event.name}'}" + (f": {why}" if why else "")]
    number = f", {errno_name(-event.status)}" if event.status < 0 else ""
    lines += [fix] if fix else []
    lines.append(f"(RDMA_CM_EVENT_{event.name}, status {event.status}{number})")
    return CMError("\n".join(lines), peer, event.type, event.status, event.private_data)


def _reason(kind: CMEventType | None, event: CMEvent) -> tuple[str, str]:
    if event.status < 0:
        known = _WHY.get((kind, -event.status)) if kind is not None else None
        return known or _ANY.get(-event.status) or (os.strerror(-event.status), "")
    if kind is not CMEventType.REJECTED:
        return "", ""
    if event.status == REFUSED_BY_PROGRAM:
        told = spoken(event.private_data)
        return (f"the program there says: {told}" if told else f"{REJECTIONS[event.status]}, without a reason"), ""
    fix = "start the server first, or choose its port" if event.status == NOBODY_LISTENS else ""
    return REJECTIONS.get(event.status, f"reason {event.status}"), fix


def spoken(data: bytes) -> str:
    """The text in the private data of a rejection, without what fills it up; safe to print."""
    return printable(data.rstrip(b"\0").decode(errors="replace"), _LONGEST_REASON)


def explained(error: VerbsError, place: str) -> VerbsError:
    """*error*, of a call of librdmacm's, with what its number means at *place*."""
    number = error.errno or 0
    notes: tuple[str, ...]
    if error.verb in ("rdma_bind_addr", "rdma_listen"):
        notes = _of_listening(number, place)
    elif error.verb in ("rdma_resolve_addr", "rdma_resolve_route") and number in (errno.ENODEV, errno.EADDRNOTAVAIL):
        notes = _WHY[CMEventType.ADDR_ERROR, errno.ENODEV]
    elif error.verb == "rdma_accept" and number == errno.EINVAL:
        notes = ("the client may have given up meanwhile",)
    else:
        notes = _ANY.get(number, ())
    error.notes = (*error.notes, *notes)
    return error


def _of_listening(number: int, place: str) -> tuple[str, ...]:
    if number == errno.EADDRINUSE:
        return (f"{place} is taken by another program; who has it: rdma resource show cm_id", "choose another port")
    if number in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return (
            f"{place}: no RDMA device of this machine has this address",
            "`rdmaqp gids` lists the addresses that they have; \"\" listens on all of them",
        )
    return (f"{place} needs privileges: choose a port from 1024 on",) if number == errno.EACCES else ()
