"""Connect by rdma_cm: an IP address is all that is told, and the connection managers exchange the rest.

librdmacm brings no queue pair up here: what it would do, ``rdma_init_qp_attr`` tells, the guard judges, and
``ibv_modify_qp`` does. So each transition is explained where it is wrong, and stands in ``qp.history``.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, NamedTuple

from rdmaqp.connection.cm_link import CMLink, worded
from rdmaqp.connection.cm_options import LinkOptions
from rdmaqp.connection.dialing import resolve
from rdmaqp.connection.sockets import AddressError, Deadline, address_text, check_port
from rdmaqp.errors import RdmaqpError, VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.cm import MAX_CONNECT_DATA, MAX_REJECT_DATA, CMEventType
from rdmaqp.verbs.cm import ConnectionId, EventChannel

_ANSWERED = frozenset({CMEventType.CONNECT_RESPONSE, CMEventType.ESTABLISHED})
#: The part of what is left of a deadline that the kernel gets, so that its own answer, which says more, comes first.
_KERNELS_SHARE = 900


class Place(NamedTuple):
    """An address as librdmacm takes it."""

    host: str
    port: int
    scope: int

    def __str__(self) -> str:
        return address_text((self.host, self.port))


def place_of(host: str, port: int, deadline: Deadline, flags: int = 0) -> Place:
    """The first address of *host*. Raises :class:`AddressError`, :class:`DeadlineError`, ValueError."""
    check_port(port)
    try:
        return Place(str(ipaddress.ip_address(host)).partition("%")[0], port, _scope(host))
    except ValueError:  # a name
        family, *_, address = resolve(host, port, deadline, flags)[0]
        return Place(address[0].partition("%")[0], port, address[3] if family == socket.AF_INET6 else 0)


def _scope(host: str) -> int:
    zone = host.partition("%")[2]
    if not zone or zone.isdecimal():
        return int(zone or 0)
    try:
        return socket.if_nametoindex(zone)
    except OSError as error:
        text = f"{host}: this machine has no net device {zone!r}\nthose that it has: ip link"
        raise AddressError(text, error.errno) from error


@checked(LinkOptions)
def cm_connect(host: str, port: int, *, timeout: float | None = 10.0, **options: Any) -> CMLink:
    """Connect to *host* by rdma_cm: ``with rdmaqp.cm_connect("192.0.2.1", 7471, prepare=receive) as link: …``

    The queue pair is made on the device that the route to *host* leaves by, and is in RTS when this returns. On iWARP
    there is no other way; there the connection manager takes RTR and RTS by itself.

    Args:
        host: the address of an RDMA device's net device, or a name that has one.
        port: rdma_cm's own, 1…65535; TCP's are not taken by it (on iWARP they are the same).
        timeout: seconds for all of it; ``None`` waits as long as the kernel does.
        options: those of :class:`~rdmaqp.connection.cm_options.LinkOptions`: ``prepare``, ``create``, ``private_data``,
            ``qp_access_flags``, ``responder_resources``, ``initiator_depth``, ``retry_count``, ``rnr_retry_count``,
            ``min_rnr_timer``.

    Raises:
        CMError: there is no way to *host*, nobody listens there, or the program there refused; it says why.
        DeadlineError: it took too long.
        GuardError, VerbsError: a transition was refused; the peer is told so.
        AddressError: *host* cannot be resolved.
        DeviceError: librdmacm, its kernel module or an RDMA device is missing.
        ValueError: an option is outside its range.
    """
    chosen = LinkOptions(**options).within(MAX_CONNECT_DATA)
    deadline = Deadline(timeout)
    place = place_of(host, port, deadline)
    channel = EventChannel()
    try:
        link = CMLink(channel, ConnectionId(channel), str(place))
    except BaseException:
        channel.close()
        raise
    try:
        return _connected(link, place, chosen, deadline)
    except VerbsError as error:
        link.close()
        raise worded(error, str(place)) from error.__cause__
    except BaseException:
        link.close()
        raise


def _connected(link: CMLink, place: Place, options: LinkOptions, deadline: Deadline) -> CMLink:
    ident, about = link._id, str(place)
    ident.resolve_addr(*place, deadline.left() * _KERNELS_SHARE, about)
    link._await(frozenset({CMEventType.ADDR_RESOLVED}), deadline, "its address was not resolved")
    ident.resolve_route(deadline.left() * _KERNELS_SHARE, about)
    link._await(frozenset({CMEventType.ROUTE_RESOLVED}), deadline, "no route to it was found")
    link._make(options)
    link._init(options)
    ident.connect(link._param(options), options.private_data, about)
    event = link._await(_ANSWERED, deadline, "its connection manager did not answer the connection request")
    if event.type is CMEventType.CONNECT_RESPONSE:
        _answer(link, options)
    return link._is_up(event)


def _answer(link: CMLink, options: LinkOptions) -> None:
    """The peer has accepted: bring our queue pair up, and say so; where that fails, say why not."""
    try:
        link._to_rts(options, None, None)
    except RdmaqpError as error:
        link._reject(told(error))
        raise
    link._id.establish(link.peer)


def told(error: Exception) -> bytes:
    """What the peer is told of *error*: its first line, as far as a rejection has room."""
    return fitting(str(error).partition("\n")[0])


def fitting(reason: str) -> bytes:
    """*reason* in UTF-8, cut between characters where a rejection has no room for it."""
    return reason.encode()[:MAX_REJECT_DATA].decode(errors="ignore").encode()

