"""After a failure: which causes are proved, which are likely, which are ruled out, each with why.

The guard's findings come first: a rule that is broken, and whose breach is answered by just this error number or
status, is the proved cause. What no rule can see (a neighbour, a limit of the process, a peer) follows from the number,
the step and the driver. What cannot be the reason is said too. And where every known check passes, that is the answer.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from rdmaqp.errors import errno_name
from rdmaqp.guard import refused, unreached
from rdmaqp.guard.cause import Sheet
from rdmaqp.guard.completions import meaning
from rdmaqp.guard.errnos import ANSWERS, GROUPS, OF_ADDRESS, OF_GROUP, UNSUPPORTED, says_enodata, standing
from rdmaqp.guard.scene import Scene
from rdmaqp.guard.vendor_errors import sense
from rdmaqp.model.attributes import as_int
from rdmaqp.model.enums import WCStatus
from rdmaqp.model.timers import timeout_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rdmaqp.guard.cause import Cause, Standing
    from rdmaqp.guard.report import Finding, Report
    from rdmaqp.host.path import PathAnswers
    from rdmaqp.model.acts import Completion
    from rdmaqp.model.request import Request


def diagnose(request: Request, report: Report, machine: PathAnswers | None = None) -> tuple[Cause, ...]:
    """Why the call, or the work, of *request* failed as its ``failed`` or ``completion`` says; empty where neither did.

    *report* is the guard's answer to the same request. *machine* is what this machine answered of the path, where it
    is the machine that the request is about and was asked (:func:`rdmaqp.host.path.ask_path`).
    """
    sheet = Sheet()
    scene = Scene(request, report, machine)
    if request.failed is not None and request.failed.errno:
        _failed(scene, sheet, abs(request.failed.errno))
    if request.completion is not None and request.completion.status != WCStatus.SUCCESS:
        _completed(scene, sheet, request.completion)
    return sheet.causes()


# ---------------------------------------------------------------------- an error number

#: Numbers that everybody uses: a likely reason leaves room for another.
_SAYS_LITTLE = UNSUPPORTED | {errno.EINVAL}


def _failed(scene: Scene, sheet: Sheet, number: int) -> None:
    found = [(finding, standing(scene, number, finding)) for finding in scene.report.findings]
    for finding, how in found:
        if how == "proved":
            said = f". {scene.name} says so by {errno_name(number)}" if finding.rule == "post-state" else ""
            sheet.add(finding.rule, how, _words(finding) + _likewise(finding, found) + said)
    if scene.act in ("modify", "ah") and number in OF_ADDRESS:
        unreached.judge(scene, sheet, number)
    for finding, how in found:
        if how == "likely":
            sheet.add(finding.rule, how, _words(finding))
    if not sheet.explained:
        refused.judge(scene, sheet, number)
    if not sheet.explained:
        _unchecked(scene, sheet, number)
    if not sheet.explained and (number in _SAYS_LITTLE or not sheet.has_any):
        refused.no_reason(scene, sheet, number)
    if scene.act == "modify":
        _rule_out(scene, sheet, number)


def _likewise(finding: Finding, found: Sequence[tuple[Finding, Standing | None]]) -> str:
    """The other attributes of which the same is proved: who mends the first alone fails once more."""
    others = dict.fromkeys(
        other.field for other, how in found
        if how == "proved" and other.rule == finding.rule and other.field != finding.field
    )  # fmt: skip
    return f"; likewise {', '.join(others)}" if others else ""


def _words(finding: Finding) -> str:
    fix = f" → {finding.fix}" if finding.fix else ""
    return f"{finding.field}: {finding.message}{fix}"


def _unchecked(scene: Scene, sheet: Sheet, number: int) -> None:
    """Rules that answer this number, and could not be asked: nothing speaks against them."""
    if scene.act == "post":
        return  # weighed one by one
    for rule, how in ANSWERS[scene.act].get(number, {}).items():
        needs = scene.needs(rule)
        if rule == "sgid-empty" and number == errno.EINVAL and says_enodata(scene):
            continue
        if needs is not None and how == "proved":
            sheet.add(rule, "likely", f"not checked: it needs {needs}")


def _rule_out(scene: Scene, sheet: Sheet, number: int) -> None:
    """What cannot be the reason that a modify call was refused with this number."""
    name = errno_name(number)
    _rule_out_numbers(scene, sheet)
    if scene.roce or scene.iwarp:
        sheet.rule_out(("lid",), "this port has no LIDs")
    if number not in OF_ADDRESS:
        sheet.rule_out(("neighbour-unresolved",), f"an unanswered neighbour is ETIMEDOUT, not {name}")
        if number != errno.EACCES:
            sheet.rule_out(("route-missing",), f"a missing route is ENETUNREACH or EHOSTUNREACH, not {name}")
    for finding in scene.report.findings:
        if finding.rule.startswith("peer-") and finding.severity == "error":
            sheet.add(finding.rule, "ruled-out", "the peer is not asked by this call: it shows in a completion later. "
                      + _words(finding))
    given = {key for key, _ in scene.request.attr.given()} if scene.request.attr is not None else set()
    for group, (rules, fields) in GROUPS.items():
        if group in OF_GROUP and not given & set(OF_GROUP[group]):
            continue
        if number in _LOOKED_UP.get(group, ()):
            continue  # what was looked up may be wrong in ways that nobody here can see
        why = _innocent(scene, number, rules, fields, name)
        if why:
            sheet.rule_out((group,), why)


def _rule_out_numbers(scene: Scene, sheet: Sheet) -> None:
    """Numbers that only the peer knows. Where the bit is wrong, "not dest_qp_num" would be read as the contrary."""
    bits = {finding.field for finding in scene.report.errors if finding.rule.startswith("mask-")}
    if not bits & {"rq_psn", "sq_psn"}:
        sheet.rule_out(("psn",), "no kernel refuses a packet number: it is cut to 24 bits")
    if "dest_qp_num" not in bits:
        sheet.rule_out(("dest_qp_num",), "only the peer knows its numbers: nobody compares it here")


_LOOKED_UP = {
    "sgid_index": OF_ADDRESS, "dgid": OF_ADDRESS - {errno.ENODATA}, "port_num": frozenset({errno.ENODATA}),
}  # fmt: skip


def _innocent(scene: Scene, number: int, rules: frozenset[str], fields: frozenset[str], name: str) -> str:
    """Why none of *rules* is the reason; empty where one may be."""
    found = [f for f in scene.report.findings if f.severity != "note" and (f.rule in rules or f.field in fields)]
    guilty = [f for f in found if standing(scene, number, f) is not None]
    answers = ANSWERS[scene.act].get(number, {})
    if guilty or (number == errno.EINVAL and any(scene.needs(rule) for rule in rules)):
        return ""
    if found:
        other = "EINVAL" if number != errno.EINVAL else "another number, or nothing"
        return f"{_words(found[0])}, but that would have been answered with {other}"
    return "checked, and in order" if answers.keys() & rules else f"would not have been answered with {name}"


# ---------------------------------------------------------------------- a completion


def _completed(scene: Scene, sheet: Sheet, completion: Completion) -> None:
    said = meaning(completion.status, scene.driver)
    if said is None:
        vendor = "" if completion.vendor_err is None else f", vendor_err {completion.vendor_err:#x}"
        sheet.add("firmware-refused", "likely", f"status {completion.status} is not known here{vendor}: ask the "
                  "device's vendor")
        return
    flushed = completion.status == WCStatus.WR_FLUSH_ERR
    for finding in scene.report.findings:
        if finding.severity == "note" or not _concerns(finding, completion.status):
            continue
        if finding.rule in said.rules:
            sheet.add(finding.rule, "proved" if finding.severity == "error" else "likely", _words(finding))
        elif flushed and finding.rule in _breaks():
            sheet.add(finding.rule, "likely", f"may be what broke it first: {_words(finding)}")
    more = sense(scene.driver, completion.vendor_err)
    also = "" if more is None else f"vendor_err {completion.vendor_err:#x}: {more.words}"
    also += f": {more.more}" if more is not None and more.more else ""
    for cause, how, why in said.causes:
        words = why + (_how_long(scene) if cause == "peer-unreachable" else "")
        sheet.add(cause, how, f"{words}. {also}" if more is not None and more.cause == cause else words)
    if more is not None and more.cause:
        sheet.add(more.cause, "likely", also)
    sheet.rule_out(said.ruled_out, said.because)


def _breaks() -> frozenset[str]:
    said = meaning(WCStatus.RETRY_EXC_ERR, None)
    return said.rules if said is not None else frozenset()


def _concerns(finding: Finding, status: int) -> bool:
    """``retry-none`` is about either counter: each has a status of its own."""
    if finding.rule != "retry-none":
        return True
    return (finding.field == "rnr_retry") == (status == WCStatus.RNR_RETRY_EXC_ERR)


def _how_long(scene: Scene) -> str:
    """How long it was tried, and where to look."""
    attr = scene.request.attr
    timeout, retries = (as_int(attr.timeout), as_int(attr.retry_cnt)) if attr is not None else (None, None)
    tried = ""
    if timeout is not None and retries is not None and 1 <= timeout <= 31 and 0 <= retries <= 7:
        each = timeout_seconds(timeout)
        assert each is not None
        tried = f": {retries + 1} tries of {each * 1000:.3g} ms each or more (timeout {timeout}, retry_cnt {retries})"
        if each < 1e-3:
            tried += ", which is short"
    machine = f". This machine says: {scene.machine}" if scene.machine is not None else ""
    where = " A firewall on UDP port 4791, switch settings (PFC, VLAN, MTU), a cable?" if scene.roce else ""
    return f"{tried}.{where}{machine}"
