"""Errors with their diagnosis: what the guard, the error number and this machine say, gathered after the failure.

Nothing here runs on a path that succeeds, and nothing here raises: an error is on its way, and must arrive.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rdmaqp import __version__
from rdmaqp.errors import CompletionError, VerbsError
from rdmaqp.guard import Report, check
from rdmaqp.guard.creation import About
from rdmaqp.guard.diagnosis import diagnose
from rdmaqp.guard.errnos import OF_ADDRESS
from rdmaqp.guard.given import rows
from rdmaqp.guard.scene import Scene
from rdmaqp.host import process
from rdmaqp.host.path import PathAnswers, ask_path
from rdmaqp.model.attributes import QPAttr
from rdmaqp.model.enums import WCStatus
from rdmaqp.model.request import Completion, Failure, ProcessFacts, QPFacts, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.work_completion import WorkCompletion

#: Where this machine's IP stack may know the reason.
_ASK_FOR = OF_ADDRESS | {errno.EINVAL, errno.EACCES}
_ASK_STATUS = frozenset({WCStatus.RETRY_EXC_ERR, WCStatus.RESP_TIMEOUT_ERR})


def explain(error: VerbsError, asked: Callable[[], Request]) -> VerbsError:
    """*error* with why: *asked* gives the request as the guard was asked, or would have been."""
    with _delivering(error):
        made = asked()
        # Another process' call says whose limits count.
        limits = process.facts() if made.process == ProcessFacts() else made.process
        request = replace(made, failed=Failure(error.errno or 0), process=limits)
        report = check(request)
        _tell(error, request, report, _machine(request, report, (error.errno or 0) in _ASK_FOR))
    return error


def annotate(error: Exception, request: Request) -> None:
    """Tell somebody else's *error* of a modify call why, in a note: pyverbs' has the error number in ``error_code``."""
    number = getattr(error, "error_code", None) or getattr(error, "errno", None)
    if isinstance(number, int) and number:
        told = explain(VerbsError("ibv_modify_qp", number, check(request).subject), lambda: request)
        error.add_note(str(told))


def completion_error(
    wc: WorkCompletion, qp: QueuePair | None, *, peer: str = "", index: int | None = None, notes: Sequence[str] = ()
) -> CompletionError:
    """The error of *wc*, with why, by the calls that brought *qp* up; *index* is its request's place, where known."""
    error = CompletionError(
        wc.status, wc.status_name, wr_id=wc.wr_id, vendor_err=wc.vendor_err, qp_num=wc.qp_num, peer=peer, notes=notes
    )
    error.index = index
    how = Completion(status=wc.status, vendor_err=wc.vendor_err, wr_id=wc.wr_id)
    calls = [] if qp is None else [replace(call, completion=how) for call in qp.calls.values()]
    with _delivering(error):
        if not calls:
            request = Request(qp=QPFacts(qp_num=wc.qp_num, type=None if qp is None else qp.type), completion=how)
            _tell(error, request, Report(About("queue pair", request, "ibv_poll_cq")), None)
            return error
        request, report = _together(calls)
        _tell(error, request, report, _machine(request, report, wc.status in _ASK_STATUS))
    return error


@contextmanager
def _delivering(error: VerbsError | CompletionError) -> Iterator[None]:
    """Whatever goes wrong while *error* is explained (the device may be gone), *error* arrives, and says so."""
    try:
        yield
    except Exception as problem:
        what = (str(problem) or repr(problem)).splitlines()[0]
        error.notes += (f"(It could not be explained: {what})",)


def _machine(request: Request, report: Report, ask: bool) -> PathAnswers | None:  # noqa: FBT001
    """What this machine says of the path, where the call leads over its IP stack."""
    scene = Scene(request, report)
    if not ask or scene.unasked or scene.source is None or scene.target is None:
        return None
    return ask_path(scene.source, scene.target)


def _tell(
    error: VerbsError | CompletionError, request: Request, report: Report, machine: PathAnswers | None
) -> None:  # fmt: skip
    error.request, error.report = request, report
    report.causes = error.causes = diagnose(request, report, machine)
    given = rows(request, report)
    error.given = given | {"where": f"{given.get('where', '')}, rdmaqp {__version__}".lstrip(", ")}


def _together(calls: list[Request]) -> tuple[Request, Report]:
    """The calls as one: the first, with the attributes and the findings of all of them."""
    values = {name: value for call in calls if call.attr is not None for name, value in call.attr.given()}
    report = check(calls[0])
    for call in calls[1:]:
        report.findings += check(call).findings
    return replace(calls[0], attr=QPAttr(**values), mask=None), report
