"""The judge. One entry, :func:`check`: a request in, all findings out. It imports nothing compiled.

The concerns stand one to a module, in the order in which they are asked: is there such an arrow
(:mod:`.transition`), is the mask right (:mod:`.mask`), are the values (:mod:`.values`), is the address
(:mod:`.addressing`), do both ends agree (:mod:`.peer`), are the capacities within the device (:mod:`.creation`).
What drivers add or take away is data (:mod:`.drivers`); the names of the rules are in :mod:`.rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard import addressing, creation, mask, peer, transition, values
from rdmaqp.guard.case import Case
from rdmaqp.guard.report import Finding, GuardWarning, Report, Skipped
from rdmaqp.model.attributes import QP_ATTR_NAMES

if TYPE_CHECKING:
    from rdmaqp.model.request import Request

__all__ = ["Finding", "GuardWarning", "Report", "Skipped", "check"]


def check(request: Request) -> Report:
    """Judge one request. It never raises for what is in the request: whatever is wrong becomes a finding."""
    if request.attr is None:
        return creation.check(request)
    case = Case(request)
    transition.check(case)
    mask.check(case)
    values.check(case)
    addressing.check(case)
    peer.check(case)
    return _finish(case)


def _finish(case: Case) -> Report:
    report, qp = case.report, case.request.qp
    kind = qp.type.name if qp.type is not None else "A"
    number = f" {qp.qp_num:#x}" if qp.qp_num is not None else ""
    where = f" on {case.request.device.name}" if case.request.device.name else ""
    report.subject = f"{kind} queue pair{number}{where}, {case.arrow}"
    wrong = {finding.field for finding in report.findings}
    report.present = tuple(name for name in QP_ATTR_NAMES if name in case.given and name not in wrong | {"qp_state"})
    state = f"; the queue pair is still in {case.state.name}" if case.state is not None else ""
    report.tail = f"ibv_modify_qp was not called{state}."
    return report
