"""The wire of a stock ``ibv_rc_pingpong``, so that one end can be that program.

Each end sends one record, ``lid:qp_num:psn:gid`` in hexadecimal text with a NUL behind it: 52 bytes. The
client sends first. The server answers only when its queue pair is up, so that the client may send at
once; the client then writes ``done`` and a NUL, and both close. There is no version, no GID type, link
layer, MTU or depth, no way to say that something failed, and afterwards none to notice that the peer is
gone: who waits needs a deadline.
"""

from __future__ import annotations

import re
import select
from typing import TYPE_CHECKING, NoReturn, TypeVar

from rdmaqp.connection import frames
from rdmaqp.connection.sockets import Deadline, Need
from rdmaqp.connection.wire import Wire
from rdmaqp.errors import ClosedError, PeerError
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from rdmaqp.connection.sockets import Channel
    from rdmaqp.connection.wire import Role, Setting

T = TypeVar("T")

RECORD_SIZE = 52
DONE = b"done\0"
_RECORD = re.compile(rb"([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\0", re.IGNORECASE)
_NO_GID = GID(bytes(16))


def encode_record(local: Endpoint) -> bytes:
    """What the wire carries of *local*: LID, QP number, PSN, GID; what is unknown is written as 0.

    Raises:
        ValueError: one of the numbers does not fit.
    """
    lid = local.lid or 0
    for name, value, bits in (("lid", lid, 16), ("qp_num", local.qp_num, 24), ("psn", local.psn, 24)):
        if value < 0 or value >> bits:
            raise ValueError(f"{name} has {bits} bits, {value:#x} does not fit")
    return f"{lid:04x}:{local.qp_num:06x}:{local.psn:06x}:{(local.gid or _NO_GID).hex()}\0".encode()


def decode_record(data: bytes) -> Endpoint:
    """The record in 52 bytes. A GID of zeros stays one: the peer has none to offer and is reached by its LID.

    Raises:
        ValueError: they are no record.
    """
    match = _RECORD.fullmatch(data)
    if match is None:
        raise ValueError(f"{data!r} is not of the form 'lid:qp_num:psn:gid'")
    lid, qp_num, psn = (int(part, 16) for part in match.groups()[:3])
    return Endpoint(qp_num=qp_num, psn=psn, lid=lid, gid=GID(bytes.fromhex(match[4].decode())))


class IbvWire(Wire):
    """One end of the stock wire; made like an :class:`~rdmaqp.connection.exchange.Exchange`.

    Its barriers and :meth:`check_peer` do nothing, since the stock program closes before traffic begins, and
    settings are not told.
    """

    def __init__(self, channel: Channel, role: Role) -> None:
        super().__init__(channel, role)
        self._remote: Endpoint | None = None

    def exchange_records(
        self,
        local: Endpoint,
        settings: Mapping[str, Setting],  # noqa: ARG002 - the wire has no room for them
        bring_up: Callable[[Endpoint], None],
        timeout: float,
        judge: Callable[[Endpoint], str | None] | None = None,  # noqa: ARG002 - nor for a verdict
    ) -> Endpoint:
        """Swap records, *bring_up* at its place in between, and close; see :meth:`Wire.exchange_records`."""
        deadline = Deadline(timeout)
        record = encode_record(local)
        if self.role == "server":
            remote, self._remote = self._remote, None
            if remote is None:
                raise ClosedError(f"the record of peer {self.peer} was used already; this wire carries one")
            bring_up(remote)
            self._channel.send(record, deadline, "our record")
            self._wait(self._reading(len(DONE), "its 'done'", DONE.startswith), deadline)
        else:
            self._channel.send(record, deadline, "our record")
            remote = self._wait(self._record(), deadline)
            # Before "done", unlike the stock client: if it fails, the server hears of it by our closing.
            bring_up(remote)
            self._channel.send(DONE, deadline, "'done'")
        self.close()
        return remote

    def barrier(self, name: str, timeout: float) -> None:
        """Do nothing: there is no connection any more."""

    def check_peer(self) -> None:
        """Do nothing: there is no connection any more."""

    def fail(self, reason: str) -> bool:  # noqa: ARG002 - the wire has no room for it
        """Do nothing and say so: the peer only sees this end close."""
        return False

    def greeting(self) -> Generator[Need, None, None]:
        """As server read the client's record; a client says nothing yet."""
        if self.role == "server":
            self._remote = yield from self._record()

    def _record(self) -> Generator[Need, None, Endpoint]:
        buffer = yield from self._reading(RECORD_SIZE, "its record", _begins_record)
        try:
            return decode_record(buffer)
        except ValueError:
            self._refuse(buffer, "its record")

    def _wait(self, steps: Generator[Need, None, T], deadline: Deadline) -> T:
        while True:
            try:
                need = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            self._channel.settle(need, deadline)

    def _reading(
        self, size: int, awaiting: str, plausible: Callable[[bytes], bool]
    ) -> Generator[Need, None, bytes]:
        """Read *size* bytes; garbage is refused from its first byte on, and so is one byte too many."""
        buffer = self._channel.buffer
        while len(buffer) < size:
            yield Need(select.POLLIN, awaiting, size + 1 - len(buffer))
            if not plausible(bytes(buffer[:size])):
                self._refuse(bytes(buffer), awaiting)
        if len(buffer) > size:
            self._refuse(bytes(buffer), f"{awaiting} and no more")
        data = bytes(buffer)
        buffer.clear()
        return data

    def _refuse(self, came: bytes, expected: str) -> NoReturn:
        if came.startswith(frames.MAGIC):
            advice = "it speaks rdmaqp's own exchange: leave out --wire ibv at this end"
        else:
            advice = "check that host and port are those of an ibv_rc_pingpong of rdma-core"
        raise PeerError(
            f"peer {self.peer} does not speak the wire of ibv_rc_pingpong: it sent {came!r} where {expected} "
            f"was expected\n{advice}",
            self.peer,
        )


_FULL = b"0000:000000:000000:" + b"0" * 32 + b"\0"


def _begins_record(begin: bytes) -> bool:
    """Whether *begin* can become a record: filled up with zeros it is one."""
    return _RECORD.fullmatch(begin + _FULL[len(begin) :]) is not None
