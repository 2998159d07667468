"""rdma_cm: event channels and ids, as librdmacm has them. No id has a queue pair, so librdmacm moves none."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import DeviceError, VerbsError
from rdmaqp.model.cm import CMEventType
from rdmaqp.model.enums import QPState
from rdmaqp.verbs import modify
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import Resource, leave_behind
from rdmaqp.verbs.device import devices, no_device

if TYPE_CHECKING:
    from rdmaqp.model.attributes import QPAttr

LIBRARY = "librdmacm.so.1"
_NO_HEADER = (
    "Install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel (RHEL, Fedora), then install rdmaqp again.",
)
_NO_LIBRARY = (
    "Debian, Ubuntu:  apt-get install librdmacm1",
    "RHEL, Fedora:    dnf install librdmacm",
)
_NO_MODULE = (
    "librdmacm speaks to the kernel's rdma_ucm through /dev/infiniband/rdma_cm. As root:  modprobe rdma_ucm",
    "`rdmaqp doctor` says whether it is there, and whether this user may open it.",
)
_LONGEST_MS = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class CMEvent:
    """``struct rdma_cm_event``, acknowledged.

    Attributes:
        type: what has happened, or the number of an event that is newer than we are.
        status: 0; of a failure a negative error number, or a positive reason that the transport gives.
        private_data: what the peer sent with it. InfiniBand and RoCE fill it up with zeros to its full length.
        qp_num, responder_resources, initiator_depth: the peer's, of a request and a response.
        id: of a request the pointer to its new id; nothing else needs it.
    """

    type: CMEventType | int
    status: int
    private_data: bytes
    qp_num: int
    responder_resources: int
    initiator_depth: int
    id: Any

    @property
    def name(self) -> str:
        """Its name, without the prefix."""
        return self.type.name if isinstance(self.type, CMEventType) else f"event {self.type}"


@cache
def _load(library: str) -> None:
    ffi, lib = native()
    if not lib.rdmaqp_cm_built():
        raise DeviceError("rdmaqp was built without <rdma/rdma_cma.h>, so it cannot connect by rdma_cm", _NO_HEADER)
    why = lib.rdmaqp_cm_load(library.encode())
    if why != ffi.NULL:
        text = ffi.string(why).decode(errors="replace")
        raise DeviceError(f"librdmacm is not installed on this machine, or is too old: {text}", _NO_LIBRARY)


def _check(verb: str, result: int, about: str) -> None:
    """Raise where a call of librdmacm's, which all return −1 and set errno, has failed."""
    if result != 0:
        raise VerbsError(verb, native().ffi.errno, about)


class EventChannel(Resource):
    """``struct rdma_event_channel``: where the events of its ids come.

    Raises:
        DeviceError: librdmacm is missing, or has no device or no kernel module to work with.
    """

    kind = "event channel of rdma_cm"
    _rank = 8

    def __init__(self) -> None:
        _load(LIBRARY)
        self._found = native().ffi.new("struct rdmaqp_cm_event *")
        self._verb = native().ffi.new("const char **")
        super().__init__(self._make)
        _open_channels[id(self)] = self

    @staticmethod
    def _make() -> Any:
        ffi, lib = native()
        pointer = lib.rdmaqp_cm_create_channel()
        if pointer == ffi.NULL:
            raise _no_channel(ffi.errno)
        return pointer

    @property
    def fd(self) -> int:
        """The descriptor, readable when an event waits; not blocking."""
        return int(native().lib.rdmaqp_cm_fd(self.handle))

    def next(self, slice_ns: int = 0) -> CMEvent | None:
        """The next event, where one comes within *slice_ns*. Raises :class:`ClosedError`, :class:`VerbsError`."""
        ffi, lib = native()
        raw = self._found
        with self._lock:
            came = lib.rdmaqp_cm_next_event(self.handle, slice_ns, raw, self._verb)
            if came < 0:
                raise VerbsError(ffi.string(self._verb[0]).decode(), ffi.errno, self.kind)
            if not came:
                return None
            known = raw.event in CMEventType._value2member_map_
            return CMEvent(
                CMEventType(raw.event) if known else int(raw.event), int(raw.status),
                bytes(ffi.buffer(raw.private_data, raw.length)), int(raw.qp_num), int(raw.responder_resources),
                int(raw.initiator_depth), raw.id,
            )  # fmt: skip

    def _destroy(self, handle: Any) -> None:
        native().lib.rdmaqp_cm_destroy_channel(handle)
        _open_channels.pop(id(self), None)


_open_channels: dict[int, EventChannel] = {}


def _in_child() -> None:
    """After fork: the kernel knows the ids as the parent's."""
    for channel in list(_open_channels.values()):
        leave_behind(channel)
    _open_channels.clear()


os.register_at_fork(after_in_child=_in_child)


def _no_channel(number: int) -> DeviceError:
    """Why there is no event channel: librdmacm's ucma_init() looks for devices, then opens its character device."""
    if number in (errno.ENODEV, errno.ENOSYS):
        if devices():
            return DeviceError("librdmacm finds no way to the kernel's rdma_cm (No such device)", _NO_MODULE)
        return no_device("rdma_cm has nothing to connect with: ")
    return DeviceError(f"rdma_create_event_channel failed: {os.strerror(number)} ({number})", _NO_MODULE)


class ConnectionId(Resource):
    """``struct rdma_cm_id`` for connected queue pairs (RDMA_PS_TCP): what a socket is for TCP.

    Every method but the plain questions raises :class:`VerbsError` where librdmacm or the kernel refuses, and
    :class:`ClosedError`.
    """

    kind = "rdma_cm id"
    _rank = 7

    def __init__(self, channel: EventChannel, pointer: Any = None) -> None:
        """A new one, or that of a request, which *channel* takes over from the listener's."""

        def make() -> Any:
            ffi, lib = native()
            if pointer is not None:
                if lib.rdmaqp_cm_migrate_id(pointer, channel.handle):
                    number = ffi.errno
                    lib.rdmaqp_cm_destroy_id(pointer)
                    raise VerbsError("rdma_migrate_id", number, self.kind)
                return pointer
            made = lib.rdmaqp_cm_create_id(channel.handle)
            if made == ffi.NULL:
                raise VerbsError("rdma_create_id", ffi.errno, self.kind)
            return made

        self.channel = channel
        super().__init__(make, channel)

    @property
    def device_name(self) -> str | None:
        """The device that it is bound to; ``None`` where it is not, or to all."""
        ffi, lib = native()
        context = lib.rdmaqp_cm_verbs(self.handle)
        return None if context == ffi.NULL else ffi.string(lib.ibv_get_device_name(context.device)).decode()

    def address(self, *, of_peer: bool) -> tuple[str, int] | None:
        """This end's address and port, or the other end's; ``None`` where there is none yet."""
        ffi, lib = native()
        text = ffi.new("char[64]")
        port = lib.rdmaqp_cm_address(self.handle, int(of_peer), text, 64)
        return None if port < 0 else (ffi.string(text).decode(), int(port))

    def bind(self, host: str, port: int, scope: int, about: str) -> None:
        """rdma_bind_addr(3)."""
        _check("rdma_bind_addr", native().lib.rdmaqp_cm_bind(self.handle, host.encode(), port, scope), about)

    def listen(self, backlog: int, about: str) -> None:
        """rdma_listen(3)."""
        _check("rdma_listen", native().lib.rdmaqp_cm_listen(self.handle, backlog), about)

    def resolve_addr(self, host: str, port: int, scope: int, ms: float, about: str) -> None:
        """rdma_resolve_addr(3): ADDR_RESOLVED or ADDR_ERROR comes of it, within *ms*."""
        result = native().lib.rdmaqp_cm_resolve_addr(self.handle, host.encode(), port, scope, _whole(ms))
        _check("rdma_resolve_addr", result, about)

    def resolve_route(self, ms: float, about: str) -> None:
        """rdma_resolve_route(3): ROUTE_RESOLVED or ROUTE_ERROR comes of it, within *ms*."""
        _check("rdma_resolve_route", native().lib.rdmaqp_cm_resolve_route(self.handle, _whole(ms)), about)

    def attributes(self, goal: QPState) -> QPAttr:
        """What the connection manager says that a queue pair needs on its way to *goal* (rdma_init_qp_attr(3))."""
        ffi, lib = native()
        raw, mask = ffi.new("struct ibv_qp_attr *", {"qp_state": int(goal)}), ffi.new("int *")
        _check("rdma_init_qp_attr", lib.rdmaqp_cm_init_qp_attr(self.handle, raw, mask), f"on the way to {goal.name}")
        return modify.read_attr(raw, int(mask[0]))

    def connect(self, param: dict[str, int], data: bytes, about: str) -> None:
        """rdma_connect(3). *param* are fields of ``struct rdma_conn_param``."""
        _check("rdma_connect", native().lib.rdmaqp_cm_connect(self.handle, _param(param, data)), about)

    def accept(self, param: dict[str, int], data: bytes, about: str) -> None:
        """rdma_accept(3)."""
        _check("rdma_accept", native().lib.rdmaqp_cm_accept(self.handle, _param(param, data)), about)

    def reject(self, data: bytes, about: str) -> None:
        """rdma_reject(3)."""
        _check("rdma_reject", native().lib.rdmaqp_cm_reject(self.handle, data, len(data)), about)

    def establish(self, about: str) -> None:
        """rdma_establish(3): tell the peer that our queue pair is ready."""
        _check("rdma_establish", native().lib.rdmaqp_cm_establish(self.handle), about)

    def disconnect(self, about: str) -> None:
        """rdma_disconnect(3), which also answers the peer's."""
        _check("rdma_disconnect", native().lib.rdmaqp_cm_disconnect(self.handle), about)

    def _destroy(self, handle: Any) -> None:
        _check("rdma_destroy_id", native().lib.rdmaqp_cm_destroy_id(handle), self.kind)


def _whole(ms: float) -> int:
    return int(max(1, min(ms, _LONGEST_MS)))


def _param(values: dict[str, int], data: bytes) -> Any:
    return native().ffi.new("struct rdmaqp_cm_param *", {**values, "length": len(data), "private_data": data})
