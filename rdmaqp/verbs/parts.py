"""What a queue pair is made of, and whether that fits together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.model.enums import QPType

if TYPE_CHECKING:
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.memory import ProtectionDomain
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
