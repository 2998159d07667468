"""What a queue pair is made of, and whether that fits together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.host import process
from rdmaqp.model.enums import QPType
from rdmaqp.model.request import QPFacts, Request

if TYPE_CHECKING:
    from rdmaqp.model.request import QPCap
    from rdmaqp.verbs._resource import Resource
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.following import Story
    from rdmaqp.verbs.srq import SharedReceiveQueue
    from rdmaqp.verbs.xrc import XRCDomain

#: The types that take no receives of their own.
NO_RECEIVES = frozenset({QPType.XRC_SEND, QPType.XRC_RECV})


class Parts(NamedTuple):
    """What a queue pair is made of."""

    pd: ProtectionDomain
    send_cq: CompletionQueue | None
    recv_cq: CompletionQueue | None
    srq: SharedReceiveQueue | None = None
    xrcd: XRCDomain | None = None

    def distinct(self) -> tuple[Resource, ...]:
        """Each of them once."""
        return tuple({id(part): part for part in self if part is not None}.values())

    def fitted(self, cap: QPCap, kind: QPType) -> QPCap:
        """*cap*, without receives where a queue pair of that type made of these parts has none of its own."""
        if self.srq is None and kind not in NO_RECEIVES:
            return cap
        return replace(cap, max_recv_wr=0, max_recv_sge=0)

    def creation(self, kind: QPType, cap: QPCap) -> Request:
        """What the guard is asked of the creation."""
        return Request(
            qp=QPFacts(type=kind, srq=self.srq is not None), create=cap, device=self.pd.context.facts,
            kernel=process.kernel_release(),
        )  # fmt: skip

    def require_fitting(self, kind: QPType) -> None:
        """Raise ``ValueError`` where they make no queue pair of that type."""
        responds = kind is QPType.XRC_RECV
        if (self.send_cq is None) != responds or (self.xrcd is not None) != responds:
            wants = "an XRC domain and no completion queue" if responds else "a completion queue and no XRC domain"
            raise ValueError(f"a queue pair of type {kind.name} has {wants}")
        if self.srq is not None and kind in NO_RECEIVES:
            raise ValueError(
                f"a queue pair of type {kind.name} takes no receives: XRC names the shared receive queue in each send"
            )
        if self.srq is not None and self.srq.number is not None:
            raise ValueError("this shared receive queue is XRC's: XRC_RECV queue pairs reach it by its number")
        context = self.pd.context
        if any(cq is not None and cq.context is not context for cq in (self.send_cq, self.recv_cq)):
            raise ValueError(f"the completion queue belongs to another opening of a device than this {self.pd.kind}")
        if self.srq is not None and self.srq.pd.context is not context:
            raise ValueError(f"the {self.srq.kind} belongs to another opening of a device than this {self.pd.kind}")
        if self.xrcd is not None and self.xrcd.context is not context:
            raise ValueError(f"the {self.xrcd.kind} belongs to another opening of a device than this {self.pd.kind}")


class Member(NamedTuple):
    """A queue pair that is there already, one of many: whose, its account in C, and the way it has gone so far."""

    group: Resource
    raw: Any
    story: Story | None
