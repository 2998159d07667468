"""Work requests that an integer compare in C did not let pass: what the judge says of them, in words.

C only compares (``post.c``). Nothing here runs where all compares hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rdmaqp.errors import GuardError, VerbsError
from rdmaqp.guard import check
from rdmaqp.guard.policy import current
from rdmaqp.model.acts import Piece, Post
from rdmaqp.model.request import Region, Request
from rdmaqp.verbs._native import native
from rdmaqp.verbs.slices import region_of
from rdmaqp.verbs.window import Bind
from rdmaqp.verbs.work import INLINE, SIGNALED, Recv, Work, work_is_inline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rdmaqp.guard.policy import Policy
    from rdmaqp.guard.report import Report
    from rdmaqp.model.enums import QPState
    from rdmaqp.model.request import QPFacts
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.receiving import Receiving

NO_DESTINATION = "a datagram needs a destination: to=Destination(ah, qp_num, qkey), with an open address handle"

NO_RECORD = "this opcode needs more than a record has room for: post it as an object, such as Bind(…)"

#: Address, length and lkey of each piece.
Spans = list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Posted:
    """What the judge has to know of one request."""

    queue: Literal["send", "recv"]
    opcode: int | None
    inline: bool
    spans: Spans
    signaled: bool | None = None
    access: int | None = None

    @classmethod
    def of_work(cls, work: Work | Recv, spans: Spans, *, sq_sig_all: bool = False) -> Posted:
        """A request as an object, with its pieces."""
        if isinstance(work, Recv):
            return cls("recv", None, inline=False, spans=spans)
        signaled = work.signaled or sq_sig_all
        if isinstance(work, Bind):
            part = work.region
            return cls("send", work.code(), work.inline, [(part.addr, part.length, part.lkey)], signaled, work.access)
        return cls("send", work.code(), work.inline, spans, signaled)

    @classmethod
    def of_record(cls, raw: Any, queue: Literal["send", "recv"], *, sq_sig_all: bool = False) -> Posted:
        """A request as C has it."""
        spans = [(raw.addr, raw.length, raw.lkey)] if raw.length else []
        if queue == "recv":
            return cls(queue, None, inline=False, spans=spans)
        return cls(
            queue, raw.opcode, bool(raw.send_flags & INLINE), spans, sq_sig_all or bool(raw.send_flags & SIGNALED)
        )


def judge_work(to: Receiving, work: Work | Recv, spans: Spans, at: int = 0) -> None:
    """Judge a request, number *at* of those that are to be posted together: all but the state and the room.

    Raises:
        GuardError: refused, and the policy in force is strict.
    """
    rules = current()
    if rules.mode != "off":
        pieces = (work.region,) if isinstance(work, Bind) else () if work_is_inline(work) else work.pieces()
        named = tuple(region_of(piece) for piece in pieces)
        report = check(_request(to, to.facts(), Posted.of_work(work, spans), named))
        _settle(rules, report, at, f" (It is request {at}.)" if at else "")


def judge_posts(to: Receiving, posted: Iterable[Posted], n: int, state: QPState | None) -> None:
    """Judge *n* requests that are to be posted now, each as if those before it had been.

    Raises:
        GuardError: one is refused, and the policy in force is strict.
    """
    rules = current()
    if rules.mode == "off":
        return
    signaled = to.signaled
    for at, one in enumerate(posted):
        report = check(request_of(to, one, at, state, signaled=signaled))
        signaled = signaled or bool(one.signaled)
        _settle(rules, report, at, f" (It is request {at} of {n}.)" if n > 1 else "")


def _settle(rules: Policy, report: Report, at: int, remark: str) -> None:
    report.remark = remark
    try:
        rules.settle(report)
    except GuardError as error:
        error.index = at
        raise


def require_own_handle(to: Receiving, work: object, at: int = 0) -> None:
    """Refuse a destination of another protection domain, whatever the policy.

    A record knows it by its number, which in our own domain is another destination's: the datagram would go there.

    Raises:
        GuardError: by the rule ``post-pd``.
    """
    ah = getattr(getattr(work, "to", None), "ah", None)
    if ah is None or ah.pd is to.pd or not isinstance(work, Work):
        return
    report = check(_request(to, to.facts(), Posted.of_work(work, [])))
    report.find("post-pd", "to.ah", f"the address handle is of {_domain(ah.pd, to.pd.context)}, the queue pair of "
                f"{to.pd.number}", given=ah.pd.number, allowed=str(to.pd.number),
                fix="make it in the queue pair's domain: qp.destination(record)")
    report.remark = f" (It is request {at}.)" if at else ""
    error = GuardError(report)
    error.index = at
    raise error


def _domain(pd: ProtectionDomain, here: Context) -> str:
    elsewhere = "" if pd.context is here else f" of another opening of {pd.context.name}"
    return f"protection domain {pd.number}{elsewhere}"


def request_of(
    to: Receiving, one: Posted, before: int, state: QPState | None, *, signaled: bool | None = None
) -> Request:
    """What the judge is asked of a request, after *before* others of its call; *signaled*: is any under way."""
    count = to.under_way(one.queue) + before
    facts = replace(to.facts(), state=state, signaled=signaled)
    facts = replace(facts, outstanding=count) if one.queue == "send" else replace(facts, recv_posted=count)
    return _request(to, facts, one)


def _request(to: Receiving, facts: QPFacts, one: Posted, named: Iterable[MemoryRegion] = ()) -> Request:
    """*named* are regions that the request holds, wherever they belong; all others are found by their keys."""
    context = to.pd.context
    pieces = tuple(Piece(addr=addr, length=length, lkey=lkey) for addr, length, lkey in one.spans)
    post = Post(
        queue="send" if one.queue == "send" else to.queue, opcode=one.opcode,
        num_sge=len(one.spans) if one.access is None else 0, length=sum(span[1] for span in one.spans),
        inline=one.inline, signaled=one.signaled, sge=pieces, access=one.access,
    )
    known = [*named, *context.regions()]
    return Request(
        qp=facts, post=post, mrs=tuple(_facts(mr, context) for mr in known), device=context.facts,
        port=to.port_facts(),
    )  # fmt: skip


def _facts(mr: MemoryRegion, here: Context) -> Region:
    number: int | str = mr.pd.number
    if mr.pd.context is not here:  # which counts by itself
        number = f"{number} of another opening of {mr.pd.context.name}"
    return Region(addr=mr.addr, length=mr.length, lkey=mr.lkey, rkey=mr.rkey, access=mr.access, pd=number)


def post_failed(to: Receiving, one: Posted, n: int) -> VerbsError:
    """The error of a driver that refused request ``to.raw.index`` of *n*, with why."""
    from rdmaqp.verbs.failures import explain

    raw, ffi = to.raw, native().ffi
    taken = raw.index
    notes = (f"{taken} of {n} were posted before it.",) if n > 1 else ()
    error = VerbsError(ffi.string(raw.verb).decode(), raw.error, str(to), notes)
    error.posted = taken
    return explain(error, lambda: request_of(to, one, 0, to.last_state))
