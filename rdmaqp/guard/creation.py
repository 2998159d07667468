"""Has the device what a new queue pair, or a new memory region, asks for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard import values
from rdmaqp.guard.case import is_iwarp, kind_of
from rdmaqp.guard.depths import atomics
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.drivers import UNKNOWN
from rdmaqp.guard.report import Report, shown
from rdmaqp.guard.transition import unsupported
from rdmaqp.model.attributes import as_int
from rdmaqp.model.enums import AccessFlag, QPType
from rdmaqp.model.facts import UNLIMITED

if TYPE_CHECKING:
    from rdmaqp.model.acts import Registration
    from rdmaqp.model.facts import QPCap
    from rdmaqp.model.request import Request

#: Each capacity and the ``ibv_device_attr`` field that bounds it; inline data has none that can be asked.
_LIMITS = {
    "max_send_wr": "max_qp_wr", "max_recv_wr": "max_qp_wr",
    "max_send_sge": "max_sge", "max_recv_sge": "max_sge",
    "max_inline_data": None,
}  # fmt: skip
_32_BITS = 0xFFFFFFFF
_REMOTE_WRITE = int(AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_ATOMIC)
_PAGE = 4096


class About:
    """The words of a report about something that is about to be made."""

    def __init__(self, what: str, request: Request, verb: str) -> None:
        self.what, self.request, self.verb = what, request, verb

    def subject(self) -> str:
        """What is made, and where."""
        return f"{self.what} on {self.request.device.name or 'an unknown device'}, creation"

    def present(self) -> tuple[str, ...]:
        """Nothing that would help."""
        return ()

    def tail(self) -> str:
        """That it was not made."""
        return f"{self.verb} was not called."


def queue_pair(request: Request, cap: QPCap) -> Report:
    """Judge the type and the capacities of ``ibv_create_qp``."""
    report = Report(About(f"{kind_of(request)} queue pair", request, "ibv_create_qp"))
    _type(report, request)
    for name, limit in _LIMITS.items():
        _capacity(report, request, name, getattr(cap, name), limit)
    device = request.device
    if device.max_qp and device.qp_in_use is not None and device.qp_in_use >= device.max_qp:
        report.find("qp-limit", "max_qp", f"{device.qp_in_use} queue pairs are in use, and the device has "
                    f"{device.max_qp}", given=device.qp_in_use, allowed=f"0…{device.max_qp - 1}",
                    fix="destroy some: `rdma resource show qp` says whose they are")
    return report


def _type(report: Report, request: Request) -> None:
    driver, kind, own = driver_of(request.device.driver), request.qp.type, request.qp.driver_type
    types = driver.creates or driver.types
    if kind is not None and types is not None and kind not in types:
        unsupported(report, request, driver, types)
    elif kind is not None and kind is not QPType.RC and is_iwarp(request, driver):
        report.find("qp-type-unsupported", "qp_type", f"iWARP has no {kind_of(request)} queue pairs", given=kind.name,
                    allowed="RC", source="RFC 5040")
    elif own is not None and driver is not UNKNOWN and own not in driver.driver_types:
        report.find("qp-type-unsupported", "qp_type", f"{driver.name} has no {own.name} queue pairs", given=own.name,
                    source=driver.source)


def _capacity(report: Report, request: Request, name: str, value: object, limit: str | None) -> None:
    number = as_int(value)
    most = _32_BITS if limit is None else getattr(request.device, limit)
    receives = name.startswith("max_recv") and (
        request.qp.srq or request.qp.type in (QPType.XRC_SEND, QPType.XRC_RECV)
    )
    if value is None:
        return
    if number is None:
        values.wrong_type(report, name, value, f"0…{most or _32_BITS}")
    elif number < 0:
        values.out_of_range(report, name, number, 0, _32_BITS)
    elif receives and number <= _32_BITS:
        return  # they are the shared receive queue's: nobody looks at these
    elif not most and number <= _32_BITS:  # 0 is what drivers say that never set it
        report.skip("create-over-limit", f"device.{limit}")
    elif number > (most or _32_BITS):
        what = f"the device's {limit}, {most}" if limit and most else "what 32 bits hold"
        report.find("create-over-limit", name, f"{shown(number)} is above {what}", given=number,
                    allowed=f"0…{most or _32_BITS}", fix=f"{name}={most or _32_BITS}")


def region(request: Request, act: Registration) -> Report:
    """Judge ``ibv_reg_mr``: what the region shall allow, and whether so much may be locked."""
    report = Report(About("memory region", request, "ibv_reg_mr"))
    flags = None if act.access is None else values.access(report, "access", act.access)
    if flags is not None:
        atomics(report, request, "access", flags)
        if flags & _REMOTE_WRITE and not flags & AccessFlag.LOCAL_WRITE:
            names = ", ".join(str(flag.name) for flag in AccessFlag if flag & flags & _REMOTE_WRITE)
            report.find("access-needs-local-write", "access", f"{names} without LOCAL_WRITE", given=f"{flags:#x}",
                        allowed="LOCAL_WRITE with each remote write or atomic", fix="add LOCAL_WRITE")
    length = as_int(act.length)
    if act.length is not None and length is None:
        values.wrong_type(report, "length", act.length, "a number of bytes")
    elif length is not None and not 0 <= length < 1 << 64:
        values.out_of_range(report, "length", length, 0, (1 << 64) - 1)
    elif length is not None and not (flags or 0) & AccessFlag.ON_DEMAND:  # those pages are never pinned
        _locked(report, request, length)
    return report


def _locked(report: Report, request: Request, length: int) -> None:
    process = request.process
    if process.memlock is None:
        report.skip("memlock-limit", "process.memlock")
    elif process.memlock == UNLIMITED or process.ipc_lock or length <= process.memlock:
        return
    elif process.ipc_lock is None:
        report.skip("memlock-limit", "process.ipc_lock")
    else:
        report.find("memlock-limit", "length", f"{length} bytes are to be locked, and RLIMIT_MEMLOCK is "
                    f"{process.memlock}", given=length, allowed=f"0…{process.memlock // _PAGE * _PAGE}",
                    fix="`ulimit -l unlimited` (in a container: --ulimit memlock=-1), or CAP_IPC_LOCK")
