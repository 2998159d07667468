"""A connection that rdma_cm made: its queue pair is ours, and each of its transitions passes the guard."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from rdmaqp.connection.cm_options import LinkOptions
from rdmaqp.connection.cm_words import CMError, explained, failure
from rdmaqp.connection.sockets import Deadline, address_text
from rdmaqp.errors import ClosedError, DeadlineError, DeviceError, VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.cm import CMEventType
from rdmaqp.model.enums import QPState, Transport
from rdmaqp.verbs.completion import SLICE_NS
from rdmaqp.verbs.device import open as open_device

if TYPE_CHECKING:
    from rdmaqp.model.attributes import QPAttr
    from rdmaqp.verbs.cm import CMEvent, ConnectionId, EventChannel
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.queue_pair import QueuePair

_OVER = frozenset({CMEventType.DISCONNECTED, CMEventType.DEVICE_REMOVAL, CMEventType.TIMEWAIT_EXIT})



class CMLink:
    """One end of a connection by rdma_cm; a context manager. It belongs to one thread.

    Attributes:
        context, pd, cq, qp: the opened device, and what was made on it; ``cq`` is the queue of receives.
        peer, local: the two ends' addresses, as text.
        private_data: what the peer told, filled up with zeros by InfiniBand and RoCE.
        event: how the connection ended; ``None`` while it is up.
    """

    def __init__(self, channel: EventChannel, ident: ConnectionId, peer: str) -> None:
        self._channel, self._id = channel, ident
        self._context: Context | None = None
        self._qp: QueuePair | None = None
        self._up = False
        self.peer = peer
        self.private_data = b""
        self.event: CMEvent | None = None

    # ------------------------------------------------------------------ what it is made of

    @property
    def context(self) -> Context:
        """The device, opened for this link."""
        if self._context is None:
            raise ClosedError("this rdma_cm link is closed")
        return self._context

    @property
    def qp(self) -> QueuePair:
        """The queue pair."""
        if self._qp is None:
            raise ClosedError("this rdma_cm link is closed")
        return self._qp

    @property
    def pd(self) -> Any:
        """The queue pair's protection domain."""
        return self.qp.pd

    @property
    def cq(self) -> Any:
        """The completion queue of its receives, and of its sends where ``create`` did not part them."""
        return self.qp.recv_cq

    @property
    def local(self) -> str:
        """This end's address and port."""
        return _text(self._id.address(of_peer=False))

    @property
    def fd(self) -> int:
        """A descriptor that is readable when there is news of the connection: call :meth:`check_peer` then."""
        return self._channel.fd

    def _make(self, options: LinkOptions) -> None:
        """Open the device that the id is bound to, and make the queue pair."""
        name = self._id.device_name
        if name is None:
            raise DeviceError(f"rdma_cm bound the connection with {self.peer} to no device")
        context = self._context = open_device(name)
        attr = context.attr
        depths = {"responder_resources": attr.max_qp_rd_atom, "initiator_depth": attr.max_qp_init_rd_atom}
        for field, most in depths.items():
            if getattr(options, field) > most:
                raise ValueError(f"{field} is at most {most} on {name}, not {getattr(options, field)}")
        qp = self._qp = (options.create or _plain)(context)
        own = qp.pd.context.name
        if own != name:
            raise DeviceError(f"the way to {self.peer} is {name}'s, and `create` made a queue pair on {own}")
        if qp.type.name != "RC":
            raise ValueError(f"rdma_cm connects RC queue pairs here, and `create` made a {qp.type.name} one")

    # ------------------------------------------------------------------ up

    @property
    def _is_iwarp(self) -> bool:
        return self.context.device.transport is Transport.IWARP

    def _init(self, options: LinkOptions) -> None:
        self._step(QPState.INIT, qp_access_flags=options.qp_access_flags)
        if options.prepare is not None:
            options.prepare(self)

    def _to_rts(self, options: LinkOptions, served: int | None, asked: int | None) -> None:
        """INIT → RTR → RTS; on iWARP these are the connection manager's own, and it takes them by itself.

        What rdma_cm grants the peer is known only now: INIT → INIT, as librdmacm does.
        """
        if self._is_iwarp:
            return
        if options.qp_access_flags is None:
            self._step(QPState.INIT)
        self._step(QPState.RTR, max_dest_rd_atomic=served, min_rnr_timer=options.min_rnr_timer)
        self._step(QPState.RTS, max_rd_atomic=asked)

    def _step(self, goal: QPState, **other: int | None) -> QPAttr:
        """One step by the attributes that rdma_cm gives, with *other* ones where they are not ``None``."""
        attr = self._id.attributes(goal).copied(**{name: value for name, value in other.items() if value is not None})
        self.qp.modify(attr)
        return attr

    def _reject(self, reason: bytes) -> None:
        """Tell the peer why this end failed; that it does not wait for it any more is no news to add to that."""
        with suppress(VerbsError):
            self._id.reject(reason, self.peer)

    def _param(self, options: LinkOptions) -> dict[str, int]:
        return {
            "qp_num": self.qp.qp_num, "srq": int(self.qp.srq is not None),
            "responder_resources": options.responder_resources, "initiator_depth": options.initiator_depth,
            "retry_count": options.retry_count, "rnr_retry_count": options.rnr_retry_count,
        }  # fmt: skip

    def _await(self, wanted: frozenset[CMEventType], deadline: Deadline, awaiting: str) -> CMEvent:
        """The next event, which has to be one of *wanted*. Raises :class:`CMError`, :class:`DeadlineError`."""
        while True:
            event = self._channel.next(int(min(deadline.left() * 1e9, SLICE_NS)))
            if event is None:
                if not deadline.left():
                    raise DeadlineError(f"peer {self.peer}: {awaiting} within {deadline}")
            elif event.type in wanted and not event.status:
                return event
            elif event.type is not CMEventType.ADDR_CHANGE:
                raise failure(event, self.peer)

    def _is_up(self, event: CMEvent | None = None) -> Self:
        self._up = True
        if event is not None:
            self.private_data = event.private_data
        if self._is_iwarp:
            self.qp.ask_state()  # the connection manager has moved it
        return self

    # ------------------------------------------------------------------ while it is up

    @property
    def connected(self) -> bool:
        """Whether it is up, as far as has been heard until now."""
        return self._up and not self._hear(0)

    def check_peer(self) -> None:
        """Raise :class:`CMError` where the peer has disconnected, or its process ended. Does not wait."""
        self.qp.require_open()
        if self._hear(0) and self.event is not None:
            raise failure(self.event, self.peer)

    @checked()
    def wait_disconnected(self, timeout: float | None = None) -> CMEvent:
        """Wait until the peer disconnects, at most *timeout* seconds; ``None`` waits for ever. Ctrl-C works.

        The queue pair is in ERR then, and what was posted comes out of it as WR_FLUSH_ERR.

        Raises :class:`DeadlineError`; :class:`ClosedError`.
        """
        deadline = Deadline(timeout)
        while not self._hear(int(min(deadline.left() * 1e9, SLICE_NS))):
            if not deadline.left():
                raise DeadlineError(f"peer {self.peer} did not disconnect within {deadline}")
        assert self.event is not None
        return self.event

    def _hear(self, slice_ns: int) -> bool:
        """Whether it is over; waits for the news of that for a slice of time."""
        if self.event is None:
            event = self._channel.next(slice_ns)
            if event is not None and event.type in _OVER:
                self.event = event
                self._leave()
        return self.event is not None

    def disconnect(self) -> None:
        """End the connection: our queue pair goes to ERR, and the peer is told. Again is harmless.

        Wait for the completions of what has to arrive before. Raises :class:`GuardError`, :class:`VerbsError`.
        """
        if self._up:
            self._leave()

    def _leave(self) -> None:
        self._up = False
        qp, removed = self.qp, self.event is not None and self.event.type is CMEventType.DEVICE_REMOVAL
        # On iWARP it is the connection manager that closes the stream.
        to_err = not (removed or self._is_iwarp or qp.closed) and qp.ask_state() not in (QPState.ERR, QPState.RESET)
        if to_err:
            qp.modify(qp_state=QPState.ERR)
        with suppress(VerbsError):  # EINVAL: the connection has ended by itself meanwhile
            self._id.disconnect(self.peer)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Disconnect, and close everything that was made for it; again is harmless.

        A queue pair that ``create`` made on a context of its own is left in ERR.
        """
        try:
            if self._up and not self._id.closed:
                self._leave()
        finally:
            self._up = False
            if self._context is not None:
                self._context.close()
            self._channel.close()  # the id with it

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._channel.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "up" if self._up else "not up"
        return f"<rdma_cm link with {self.peer}, {state}>"


def _plain(context: Context) -> QueuePair:
    return context.alloc_pd().create_qp(context.create_cq(32))


def _text(address: tuple[str, int] | None) -> str:
    return "?" if address is None else address_text(address)


def worded(error: VerbsError | CMError, place: str) -> VerbsError | CMError:
    """*error* with what it means at *place*."""
    if isinstance(error, VerbsError) and error.verb.startswith("rdma_"):
        return explained(error, place)
    return error
