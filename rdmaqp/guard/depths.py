"""Remote reads and atomics: how many of them, under way and served, and whether the device has atomics at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.model.enums import AccessFlag, AtomicCap, QPState

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case
    from rdmaqp.guard.report import Report
    from rdmaqp.model.request import Request

_REMOTE_READ = int(AccessFlag.REMOTE_READ | AccessFlag.REMOTE_ATOMIC)
REMOTE_ATOMIC = int(AccessFlag.REMOTE_ATOMIC)


def _depth(case: Case, name: str, limit: str, value: int) -> None:
    driver, report = case.driver, case.report
    most = getattr(case.request.device, limit)
    if case.iwarp:
        return
    if value > driver.depth_most:
        report.find("rd-atomic-over-device", name, f"{driver.name} rounds {value} up to 256, which is stored in eight "
                    "bits as 0", given=value, allowed=f"0…{min(most or 255, driver.depth_most)}",
                    fix=f"{name}={min(most or 255, driver.depth_most)}", source=driver.source)
    elif most is None:
        report.skip("rd-atomic-over-device", f"device.{limit}")
    elif value > most:
        unchecked = name in driver.unchecked_depths
        report.find("rd-atomic-over-device", name, f"{value} is above the device's {limit}, {most}"
                    + (f"; {driver.name} does not check it" if unchecked else ""),
                    severity="warning" if unchecked else "error", given=value, allowed=f"0…{most}",
                    fix=f"{name}={most}", source=driver.source or None)
    elif driver.rounds_depths and value & (value - 1):
        report.find("value-rounded", name, f"{driver.name} rounds {value} up to {1 << value.bit_length()}",
                    given=value, source=driver.source)


def max_rd_atomic(case: Case, value: int) -> None:
    """Reads and atomics that we keep under way."""
    _depth(case, "max_rd_atomic", case.driver.initiator_limit, value)


def max_dest_rd_atomic(case: Case, value: int) -> None:
    """Those that we serve at a time."""
    _depth(case, "max_dest_rd_atomic", case.driver.responder_limit, value)
    device = case.request.device
    if value and case.driver.atomics_with_depth and "qp_access_flags" not in case.given:
        atomics(case.report, case.request, "qp_access_flags", int(case.request.qp.access_flags or 0))
    if case.driver.overruns_raised_depth:
        _raised(case, value)
    if value == 0:
        _serves_none(case)
    elif device.max_res_rd_atom and device.res_rd_atom_in_use is not None:
        left = max(device.max_res_rd_atom - device.res_rd_atom_in_use, 0)
        if value > left:
            case.report.find("rd-atomic-budget", "max_dest_rd_atomic", f"{value} is more than what is left of the "
                             f"device's max_res_rd_atom: {left} of {device.max_res_rd_atom}", given=value,
                             allowed=f"0…{left}" if left else "0",
                             fix=f"max_dest_rd_atomic={left}, or less at the other queue pairs" if left
                             else "less at the other queue pairs, or fewer of them")


def _raised(case: Case, value: int) -> None:
    """More responder resources than it had, also before a RESET, which keeps them."""
    had = case.request.qp.max_dest_rd_atomic
    if had is None and case.state in (None, QPState.RESET, QPState.INIT):
        return  # most likely its first
    if value > (1 if had is None else 1 << (had - 1).bit_length() if had > 0 else 0):
        before = "that of before, which is not known" if had is None else f"{had}, that of before"
        case.report.find("rd-atomic-raised", "max_dest_rd_atomic", f"where {value} is above {before}, "
                         f"{case.driver.name} writes past its old array: the kernel may die of it, at once or later",
                         given=value,
                         allowed=None if had is None else f"0…{had}", fix="leave it out, or give a new queue "
                         "pair as many from the start", source=case.driver.source)


def _serves_none(case: Case) -> None:
    flags = case.numbers.get("qp_access_flags")
    if flags is None:  # it may still stand further on in the struct
        later = case.given.get("qp_access_flags", case.request.qp.access_flags)
        flags = int(later) if isinstance(later, int) else None
    if flags is not None and flags & _REMOTE_READ:
        case.report.find("rd-atomic-disables", "max_dest_rd_atomic", "0 serves no remote read or atomic, which the "
                         "access flags allow", given=0, fix="max_dest_rd_atomic=1 or more")


def atomics(report: Report, request: Request, name: str, flags: int) -> None:
    """REMOTE_ATOMIC on a device that has no atomics."""
    if flags & REMOTE_ATOMIC and request.device.atomic_cap is AtomicCap.NONE:
        report.find("atomic-unsupported", name, "REMOTE_ATOMIC is allowed, and the device has no atomics "
                    "(atomic_cap is NONE)", given="REMOTE_ATOMIC", fix="leave REMOTE_ATOMIC out")
