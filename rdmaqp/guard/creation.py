"""Does the device have what a new queue pair asks for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard.report import Finding, Report, Skipped
from rdmaqp.model.attributes import as_int

if TYPE_CHECKING:
    from rdmaqp.model.request import Request

#: Each capacity and the ``ibv_device_attr`` field that bounds it; inline data has none that can be asked.
_LIMITS = {
    "max_send_wr": "max_qp_wr", "max_recv_wr": "max_qp_wr",
    "max_send_sge": "max_sge", "max_recv_sge": "max_sge",
    "max_inline_data": None,
}


def check(request: Request) -> Report:
    """Judge the capacities of ``ibv_create_qp``."""
    kind = request.qp.type.name if request.qp.type is not None else "A"
    report = Report(
        subject=f"{kind} queue pair on {request.device.name or 'an unknown device'}, creation",
        tail="ibv_create_qp was not called.",
    )
    for name, limit in _LIMITS.items():
        value = getattr(request.create, name)
        number = as_int(value)
        most = 0xFFFFFFFF if limit is None else getattr(request.device, limit)
        if number is None:
            report.findings.append(Finding("value-type", "error", name, f"{value!r} is not a whole number"))
        elif number < 0:
            report.findings.append(Finding("value-range", "error", name, f"{number} is below 0", number))
        elif most is None:
            report.skipped.append(Skipped("create-over-limit", f"device.{limit}"))
        elif number > most:
            what = f"the device's {limit}, {most}" if limit else "32 bits"
            report.findings.append(Finding(
                "create-over-limit", "error", name, f"{number} is above {what}", number, f"0…{most}", f"{name}={most}"
            ))
    return report
