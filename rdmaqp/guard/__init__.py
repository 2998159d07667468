"""The judge. One entry, :func:`check`: a request in, all findings out. It imports nothing compiled.

The concerns stand one to a module, in the order in which they are asked. Of a modify call:
is there such an arrow (:mod:`.transition`), is the mask right (:mod:`.mask`), are the values (:mod:`.values`),
do device and port take them (:mod:`.limits`, :mod:`.depths`), does the address lead anywhere (:mod:`.addressing`,
:mod:`.source`), do both ends agree (:mod:`.peer`). Of other acts: :mod:`.posting`, :mod:`.creation`.

What drivers add or take away is data (:mod:`.driver_rows`). The names of the rules are in :mod:`.rules`.
Why a call failed that was made all the same says :mod:`.diagnosis`.
What to do about a report is a :class:`Policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard import addressing, creation, limits, mask, peer, posting, transition, values
from rdmaqp.guard.case import Case
from rdmaqp.guard.cause import Cause
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.policy import Policy, policy
from rdmaqp.guard.report import Finding, GuardWarning, Report, Skipped
from rdmaqp.guard.transition import is_valid_transition
from rdmaqp.model.arguments import require
from rdmaqp.model.request import Request

if TYPE_CHECKING:
    from rdmaqp.model.attributes import AddressVector, QPAttr

__all__ = [
    "Cause", "Finding", "GuardWarning", "Policy", "Report", "Skipped", "check", "is_valid_transition", "policy",
    "unasked",
]  # fmt: skip


def check(request: Request) -> Report:
    """Judge one request. It never raises for the values of an act: whatever is wrong with one becomes a finding.

    Where the request says that its call or its work has failed, the report has the causes too.

    Raises:
        ValueError: the request has no act.
        TypeError: it is no request, or one of its facts is not of the class that it says (``"RC"`` is no QPType).
    """
    if type(request) is not Request:
        require("check", "request", request, Request)
    try:
        report = _judge(request)
        if request.failed is not None or request.completion is not None:
            report.causes = _causes(request, report)
    except (AttributeError, TypeError, KeyError):
        from rdmaqp.guard.parts import refuse_wrong_parts  # only what has failed pays for it

        refuse_wrong_parts(request)
        raise
    return report


def _causes(request: Request, report: Report) -> tuple[Cause, ...]:
    from rdmaqp.guard.diagnosis import diagnose  # only what has failed pays for it

    return diagnose(request, report)


def _judge(request: Request) -> Report:
    if request.attr is not None:
        return _modify(request, request.attr)
    if request.post is not None:
        return posting.check(request, request.post)
    if request.create is not None:
        return creation.queue_pair(request, request.create)
    if request.reg_mr is not None:
        return creation.region(request, request.reg_mr)
    if request.ah is not None:
        return _handle(request, request.ah)
    raise ValueError("the request has no act: one of attr, post, create, reg_mr, ah")


def unasked(request: Request) -> Report:
    """The report of a modify call that nobody judged, since the policy is ``off``: whose call, and nothing found."""
    assert request.attr is not None
    return _released(Case(request, request.attr))


def _modify(request: Request, attr: QPAttr) -> Report:
    case = Case(request, attr)
    transition.check(case)
    mask.check(case)
    values.check(case)
    limits.queues(case)
    peer.check(case)
    return _released(case)


def _released(case: Case) -> Report:
    """The report, which knows the case, while the case forgets it: a cycle would be left to the collector each time."""
    report = case.report
    del case.report
    return report


def _handle(request: Request, address: AddressVector) -> Report:
    report = Report(creation.About("address handle", request, "ibv_create_ah"))
    if values.vector(report, "ah", address):
        addressing.handle(report, request, driver_of(request.device.driver), address)
    return report
