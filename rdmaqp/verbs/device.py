"""Devices and the contexts that open them."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import DeviceError, RdmaqpError, VerbsError
from rdmaqp.guard.driver_rows import driver_of_provider
from rdmaqp.model.arguments import checked
from rdmaqp.model.brief import brief
from rdmaqp.model.enums import AtomicCap, DeviceCap, PortState, Transport
from rdmaqp.model.request import DeviceFacts
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource, leave_behind
from rdmaqp.verbs.channel import CompletionChannel
from rdmaqp.verbs.completion import CompletionQueue
from rdmaqp.verbs.device_attr import DeviceAttr
from rdmaqp.verbs.domain import ProtectionDomain
from rdmaqp.verbs.events import AsyncEvents
from rdmaqp.verbs.memory import MemoryRegion
from rdmaqp.verbs.port import Port
from rdmaqp.verbs.xrc import XRCDomain

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_DEVICE_NOTES = (
    "Two ways on, neither needs hardware:",
    "  a Soft-RoCE link on a net device of this machine, as root:",
    "      modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0",
    "  the lab, a throw-away guest kernel with Soft-RoCE, as any user:",
    "      rdmaqp lab run -- rdmaqp pingpong --loopback",
)


def no_device(what: str = "") -> DeviceError:
    """The error of a machine without a device, with the ways on; *what* was wanted stands before it."""
    return DeviceError(f"{what}this machine has no RDMA device", NO_DEVICE_NOTES)


@dataclass(frozen=True, slots=True)
class Device:
    """An RDMA device of this machine, opened or not.

    Attributes:
        name: as ``ibv_devinfo`` prints it.
        node_guid: 64 bits.
        transport: InfiniBand (RoCE counts as such), iWARP, …
    """

    name: str
    node_guid: int
    transport: Transport

    __repr__ = brief

    def open(self) -> Context:
        """Open it. Raises :class:`DeviceError` where it has gone, :class:`VerbsError` where it cannot be opened."""
        return _open_named(self.name)


class Context(Resource):
    """An open device (``struct ibv_context``)."""

    kind = "device"
    _rank = 6

    def __init__(self, pointer: Any, device: Device) -> None:
        lib = native().lib
        self.device = device
        self.name = device.name
        self._events: AsyncEvents | None = None
        super().__init__(lambda: check_pointer("ibv_open_device", lib.ibv_open_device(pointer), f"device {self.name}"))
        try:
            self.driver = _driver(self.handle)
            self.attr = self._query()
        except BaseException:
            self.close()
            raise
        _open_contexts[id(self)] = self

    def _query(self) -> DeviceAttr:
        ffi, lib = native()
        raw = ffi.new("struct ibv_device_attr *")
        check("ibv_query_device", lib.ibv_query_device(self.handle, raw), f"device {self.name}")
        values: dict[str, Any] = {field.name: getattr(raw, field.name) for field in fields(DeviceAttr)}
        values["fw_ver"] = ffi.string(raw.fw_ver).decode(errors="replace")
        for guid in ("node_guid", "sys_image_guid"):
            values[guid] = _host_order(values[guid])
        values["device_cap_flags"] = DeviceCap(values["device_cap_flags"])
        values["atomic_cap"] = AtomicCap(values["atomic_cap"])
        return DeviceAttr(**values)

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports, each able to say its state, addresses and keys."""
        return tuple(Port(self, num) for num in range(1, self.attr.phys_port_cnt + 1))

    @checked()
    def port(self, num: int) -> Port:
        """Port *num*, 1…``attr.phys_port_cnt``. Raises :class:`DeviceError` where there is no such port."""
        if not 1 <= num <= self.attr.phys_port_cnt:
            raise DeviceError(
                f"device {self.name} has no port {num}; its ports are 1…{self.attr.phys_port_cnt}"
                if self.attr.phys_port_cnt > 1
                else f"device {self.name} has no port {num}; its only port is 1"
            )
        return Port(self, num)

    @cached_property
    def facts(self) -> DeviceFacts:
        """What the guard compares with: fixed while the device is open, and asked for with each post."""
        attr = self.attr
        return DeviceFacts(
            name=self.name, driver=self.driver, transport=self.device.transport,
            phys_port_cnt=attr.phys_port_cnt, max_qp=attr.max_qp, max_qp_wr=attr.max_qp_wr, max_sge=attr.max_sge,
            max_qp_rd_atom=attr.max_qp_rd_atom, max_qp_init_rd_atom=attr.max_qp_init_rd_atom,
            max_res_rd_atom=attr.max_res_rd_atom, atomic_cap=attr.atomic_cap,
            device_cap_flags=attr.device_cap_flags,
        )

    def regions(self) -> Iterator[MemoryRegion]:
        """All memory that is registered through this opening of the device."""
        for domain in list(self._children.values()):
            for child in list(domain._children.values()):
                if isinstance(child, MemoryRegion):
                    yield child

    @property
    def async_events(self) -> AsyncEvents:
        """What befalls queue pairs, queues, ports and the device itself, one event at a time."""
        if self._events is None or self._events.closed:
            self._events = AsyncEvents(self)
        return self._events

    def alloc_pd(self) -> ProtectionDomain:
        """A protection domain (ibv_alloc_pd(3))."""
        return ProtectionDomain(self)

    def open_xrcd(self) -> XRCDomain:
        """An XRC domain (ibv_open_xrcd(3)). Raises :class:`VerbsError` where the device has no XRC."""
        return XRCDomain(self)

    def create_comp_channel(self) -> CompletionChannel:
        """A completion channel (ibv_create_comp_channel(3)): wait for completions without spinning."""
        return CompletionChannel(self)

    @checked()
    def create_cq(self, cqe: int, channel: CompletionChannel | None = None, comp_vector: int = 0) -> CompletionQueue:
        """A completion queue with room for at least *cqe* completions, 1…``attr.max_cqe`` (ibv_create_cq(3))."""
        return CompletionQueue(self, cqe, channel, comp_vector)

    def _destroy(self, handle: Any) -> None:
        check("ibv_close_device", native().lib.ibv_close_device(handle), f"device {self.name}")
        _open_contexts.pop(id(self), None)

    def __repr__(self) -> str:
        return f"<Context {self.name}, driver {self.driver or 'unknown'}{', closed' if self.closed else ''}>"


_open_contexts: dict[int, Context] = {}


def _in_child() -> None:
    """After fork: no context of the parent's works here (ibv_fork_init(3))."""
    for context in list(_open_contexts.values()):
        leave_behind(context)
    _open_contexts.clear()


os.register_at_fork(after_in_child=_in_child)


def devices() -> tuple[Device, ...]:
    """The RDMA devices of this machine, in libibverbs' order; empty where there are none.

    Raises:
        DeviceError: libibverbs is missing.
        VerbsError: the list cannot be had.
    """
    with _DeviceList() as found:
        return tuple(_describe(pointer) for pointer in found)


@checked()
def open(name: str | None = None) -> Context:  # noqa: A001 - rdmaqp.open() reads as what it is
    """Open device *name*; without a name, the first that has an ACTIVE port, else the first of all.

    Raises:
        DeviceError: there is no device, or none of that name; the message lists those there are, and the ways on.
        VerbsError: it cannot be opened; without a name, none can.
    """
    if name is not None:
        return _open_named(name)
    known = devices()
    if not known:
        raise no_device()
    spare: Context | None = None
    refused: RdmaqpError | None = None
    for device in known:
        try:
            context = device.open()
        except (DeviceError, VerbsError) as error:  # perhaps another serves
            refused = refused or error
            continue
        if _has_active_port(context):
            if spare is not None:
                spare.close()
            return context
        if spare is None:
            spare = context
        else:
            context.close()
    if spare is None:
        assert refused is not None
        raise refused
    return spare


def _has_active_port(context: Context) -> bool:
    """Whether one of its ports is ACTIVE; a device that cannot say is none to choose."""
    try:
        return any(port.query().state is PortState.ACTIVE for port in context.ports)
    except VerbsError:
        return False


def _open_named(name: str) -> Context:
    with _DeviceList() as found:
        known = [_describe(pointer) for pointer in found]
        for device, pointer in zip(known, found, strict=True):
            if device.name == name:
                return Context(pointer, device)
    if not known:
        raise no_device(f"there is no device {name!r}: ")
    raise DeviceError(f"there is no device {name!r}; there are: {', '.join(device.name for device in known)}")


class _DeviceList:
    """libibverbs' device list, freed in the end; an opened device outlives it."""

    def __enter__(self) -> list[Any]:
        ffi, lib = native()
        count = ffi.new("int *")
        self._list = lib.ibv_get_device_list(count)
        if self._list == ffi.NULL and ffi.errno == _ENOSYS:
            return []  # no uverbs in this kernel, so no device: libibverbs' way of saying it
        check_pointer("ibv_get_device_list", self._list)
        return [self._list[index] for index in range(count[0])]

    def __exit__(self, *error: object) -> None:
        ffi, lib = native()
        if self._list != ffi.NULL:
            lib.ibv_free_device_list(self._list)


_ENOSYS = 38


def _describe(pointer: Any) -> Device:
    ffi, lib = native()
    kind = pointer.transport_type
    return Device(
        name=ffi.string(lib.ibv_get_device_name(pointer)).decode(),
        node_guid=_host_order(lib.ibv_get_device_guid(pointer)),
        # One device that is newer than we are must not hide the others.
        transport=Transport(kind) if kind in Transport._value2member_map_ else Transport.UNKNOWN,
    )


def _host_order(big_endian: int) -> int:
    return int.from_bytes(native().ffi.buffer(native().ffi.new("uint64_t *", big_endian))[:], "big")


def _driver(handle: Any) -> str | None:
    ffi, lib = native()
    file = lib.rdmaqp_provider_file(handle)
    return None if file == ffi.NULL else driver_of_provider(ffi.string(file).decode())
