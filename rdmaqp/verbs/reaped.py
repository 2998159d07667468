"""What has become of everything that was posted: what ``qp.reap()`` and ``qp.drain()`` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rdmaqp.model.enums import WCOpcode, WCStatus
from rdmaqp.verbs.work_completion import wc_status_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rdmaqp.verbs.work import Recv, Work
    from rdmaqp.verbs.work_completion import WorkCompletion

#: Of a send, the statuses that prove that the peer has not taken it, nor any send behind it: it did not leave here, or
#: the responder said so and went to ERR. RNR_RETRY_EXC_ERR is none: the responder goes on, and a late copy may arrive.
_NEVER_TAKEN: Final = frozenset({
    WCStatus.LOC_LEN_ERR, WCStatus.LOC_QP_OP_ERR, WCStatus.LOC_PROT_ERR, WCStatus.REM_INV_REQ_ERR,
    WCStatus.REM_ACCESS_ERR,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Undone:
    """A work request that did not succeed.

    Attributes:
        queue: ``"send"`` or ``"recv"``.
        wr_id: its own number.
        number: which request of its queue it was, counted from the making of the queue pair; ``None`` where it took its
            receive from a shared receive queue.
        completion: how it ended; ``None`` where nobody has said so here: it was polled before, or it is unsignaled and
            the driver flushes such without a word.
        work: the object that was posted, where the queue pair keeps them (``qp.keep_work()``): post it again.
    """

    queue: Literal["send", "recv"]
    wr_id: int
    number: int | None
    completion: WorkCompletion | None = None
    work: Work | Recv | None = None

    def __str__(self) -> str:
        what = "send" if self.queue == "send" else "receive"
        how = "" if self.completion is None else f" ({self.completion.status_name})"
        return f"{what} {self.wr_id:#x}{how}"


@dataclass(frozen=True, slots=True)
class Reaped:
    """What has become of everything that was posted.

    Attributes:
        completions: those that succeeded and had not been polled, in their order; they do not come again.
        cause: the first completion since the last RESET that failed and was not only flushed, of either queue, whoever
            has polled it; ``None`` where there was none: somebody moved the queue pair to ERR, or nothing failed.
        sends: every send since the last RESET that did not succeed, the cause's own too, in the order of posting.
        receives: the receives that did not take a message, in the order of posting. Those of a shared receive queue
            stay in it, but for what this queue pair had begun to fill.
        unknown: those of *sends* that the peer may have taken all the same: what is lost may have been the
            acknowledgement. All of them, unless the cause proves that it and what is behind it never were. To post
            them again may deliver them twice.
    """

    completions: tuple[WorkCompletion, ...] = ()
    cause: WorkCompletion | None = None
    sends: tuple[Undone, ...] = ()
    receives: tuple[Undone, ...] = ()
    unknown: tuple[Undone, ...] = ()

    def __str__(self) -> str:
        cause = "no cause" if self.cause is None else f"cause {wc_status_name(self.cause.status)}"
        return (
            f"{len(self.completions)} succeeded, {len(self.sends)} sends did not ({len(self.unknown)} unknown), "
            f"{len(self.receives)} receives flushed; {cause}"
        )


def unknown_of(sends: Sequence[Undone], cause: WorkCompletion | None, cause_number: int) -> tuple[Undone, ...]:
    """Those of *sends* that the peer may have taken; *cause_number* is which send the cause was, if it was one."""
    if cause is None or cause.opcode & WCOpcode.RECV or cause.status not in _NEVER_TAKEN:
        return tuple(sends)
    return tuple(one for one in sends if one.number is not None and one.number < cause_number)
