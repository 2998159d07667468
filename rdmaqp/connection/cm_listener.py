"""Listen by rdma_cm, and accept or reject who comes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.connection.cm import Place, fitting, place_of, told
from rdmaqp.connection.cm_link import CMLink, worded
from rdmaqp.connection.cm_options import LinkOptions
from rdmaqp.connection.cm_words import failure
from rdmaqp.connection.sockets import Deadline, address_text
from rdmaqp.errors import ClosedError, DeadlineError, VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.cm import MAX_ACCEPT_DATA, CMEventType
from rdmaqp.verbs.cm import ConnectionId, EventChannel
from rdmaqp.verbs.completion import SLICE_NS

if TYPE_CHECKING:
    from rdmaqp.verbs.cm import CMEvent

BACKLOG = 128
"""Requests that may wait to be taken."""


class CMRequest:
    """Somebody who wants to connect: :meth:`accept` or :meth:`reject` him. A context manager, which rejects in the end.

    Attributes:
        peer: his address and port, as text.
        private_data: what he told, filled up with zeros by InfiniBand and RoCE.
        responder_resources: the RDMA reads and atomics that he wants to have served at a time.
        initiator_depth: those of ours that he serves.
        qp_num: his queue pair's number.
    """

    def __init__(self, link: CMLink, event: CMEvent) -> None:
        self._link: CMLink | None = link
        self.peer = link.peer
        self.private_data = link.private_data = event.private_data
        self.responder_resources = event.responder_resources
        self.initiator_depth = event.initiator_depth
        self.qp_num = event.qp_num

    def _taken(self) -> CMLink:
        link, self._link = self._link, None
        if link is None:
            raise ClosedError(f"the request of {self.peer} is answered already")
        return link

    @checked(LinkOptions)
    def accept(self, *, timeout: float | None = 10.0, **options: Any) -> CMLink:
        """Bring a queue pair up and accept: it is in RTS when this returns, and the peer's is too.

        *options* are those of :func:`~rdmaqp.cm_connect`; *retry_count* is the peer's, and depths are held to his.

        Raises as :func:`~rdmaqp.cm_connect`. Where our end fails, the peer is rejected with the reason.
        """
        chosen = LinkOptions(**options).within(MAX_ACCEPT_DATA)
        deadline = Deadline(timeout)
        link = self._taken()
        try:
            return self._accepted(link, chosen, deadline)
        except VerbsError as error:
            link.close()
            raise worded(error, self.peer) from error.__cause__
        except BaseException:
            link.close()
            raise

    def _accepted(self, link: CMLink, options: LinkOptions, deadline: Deadline) -> CMLink:
        served = min(options.responder_resources, self.responder_resources)
        asked = min(options.initiator_depth, self.initiator_depth)
        try:
            link._make(options)
            link._init(options)
            link._to_rts(options, served, asked)
        except Exception as error:
            link._reject(told(error))
            raise
        param = link._param(options) | {"responder_resources": served, "initiator_depth": asked}
        link._id.accept(param, options.private_data, self.peer)
        link._await(frozenset({CMEventType.ESTABLISHED}), deadline, "it was accepted, and did not say that it is up")
        return link._is_up()

    @checked()
    def reject(self, reason: str = "") -> None:
        """Refuse: the peer's :class:`CMError` says *reason*, of which 148 bytes of UTF-8 arrive. Raises VerbsError."""
        link = self._taken()
        try:
            link._id.reject(fitting(reason), self.peer)
        finally:
            link.close()

    def close(self) -> None:
        """Reject, where it is not answered yet."""
        if self._link is not None:
            with suppress(VerbsError):  # he has given up meanwhile
                self.reject()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rdma_cm request of {self.peer}{'' if self._link else ', answered'}>"


class CMListener:
    """A port of rdma_cm on which a server waits; a context manager. Made by :func:`cm_listen`."""

    def __init__(self, place: Place, backlog: int) -> None:
        self._place = place
        self._channel = EventChannel()
        try:
            self._id = ConnectionId(self._channel)
            self._id.bind(*place, str(place))
            self._id.listen(backlog, str(place))
        except VerbsError as error:
            self._channel.close()
            raise worded(error, str(place)) from error.__cause__
        except BaseException:
            self._channel.close()
            raise

    @property
    def port(self) -> int:
        """The port it listens on."""
        address = self._id.address(of_peer=False)
        return self._place.port if address is None else address[1]

    @property
    def fd(self) -> int:
        """A descriptor that is readable when somebody waits."""
        return self._channel.fd

    @checked()
    def get_request(self, timeout: float | None = None) -> CMRequest:
        """Wait for somebody who wants to connect, at most *timeout* seconds; ``None`` waits for ever. Ctrl-C works.

        Raises:
            DeadlineError: nobody came.
            CMError: the device was removed.
            ClosedError: it is closed.
        """
        deadline = Deadline(timeout)
        while True:
            event = self._channel.next(int(min(deadline.left() * 1e9, SLICE_NS)))
            if event is not None:
                request = self._request(event)
                if request is not None:
                    return request
            elif not deadline.left():
                raise DeadlineError(f"no client connected to rdma_cm port {self.port} within {deadline}")

    def _request(self, event: CMEvent) -> CMRequest | None:
        """Who comes, on an event channel of his own; of a listener that has lost its device an error."""
        if event.type is CMEventType.DEVICE_REMOVAL:
            raise failure(event, str(self._place))
        if event.type is not CMEventType.CONNECT_REQUEST:
            return None
        channel = EventChannel()
        try:
            ident = ConnectionId(channel, event.id)
        except BaseException:
            channel.close()
            raise
        address = ident.address(of_peer=True)
        return CMRequest(CMLink(channel, ident, "?" if address is None else address_text(address)), event)

    @checked(LinkOptions)
    def accept(self, timeout: float | None = None, *, patience: float = 10.0, **options: Any) -> CMLink:
        """Wait for the next client, and accept it: :meth:`get_request` and :meth:`CMRequest.accept` in one.

        Args:
            timeout: seconds until one comes; ``None`` waits for ever.
            patience: seconds that one who has come has until the connection is up.
            options: those of :func:`~rdmaqp.cm_connect`.

        Raises as both.
        """
        LinkOptions(**options).within(MAX_ACCEPT_DATA)  # before anybody comes
        return self.get_request(timeout).accept(timeout=patience, **options)

    def close(self) -> None:
        """Stop listening, and leave those that are accepted alone; again is harmless."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rdma_cm listener on {self._place}{', closed' if self._channel.closed else ''}>"


@checked()
def cm_listen(port: int, host: str, *, backlog: int = BACKLOG) -> CMListener:
    """Listen by rdma_cm: ``with rdmaqp.cm_listen(7471, "192.0.2.1") as listener: link = listener.accept()``

    Args:
        port: rdma_cm's own, 0…65535; 0 takes a free one, see :attr:`CMListener.port`.
        host: which of this machine's addresses; ``""`` is all of them, IPv4 and IPv6. 127.0.0.1 can be bound, and no
            peer reaches it.
        backlog: requests that may wait to be taken.

    Raises:
        VerbsError: the port is taken, or no RDMA device has this address (rdma_bind_addr(3), rdma_listen(3)).
        AddressError: *host* cannot be resolved.
        DeviceError: librdmacm, its kernel module or an RDMA device is missing.
    """
    place = place_of(host, port, Deadline(None)) if host else Place("::", port, 0)
    return CMListener(place, backlog)

