"""What receives are posted to, a queue pair or a shared receive queue; and what becomes of a post that did not pass."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rdmaqp.errors import ClosedError
from rdmaqp.model.facts import PortFacts
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.chain import Chain
from rdmaqp.verbs.records import RecvRecords, recvs_in
from rdmaqp.verbs.refused import (
    NO_DESTINATION,
    NO_RECORD,
    Posted,
    judge_posts,
    judge_work,
    post_failed,
    require_own_handle,
)
from rdmaqp.verbs.slices import region_of
from rdmaqp.verbs.window import Bind
from rdmaqp.verbs.work import Recv, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.model.enums import QPState
    from rdmaqp.model.request import QPFacts
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.work import Local


class Receiving(Resource):
    """Something with a receive queue, whose account is C's (``raw``)."""

    #: What the judge calls the queue that its receives go to.
    queue: ClassVar[Literal["recv", "srq"]] = "recv"
    #: The member of ``struct rdmaqp_chain`` that names it.
    chain_member: ClassVar[str] = "qp"
    #: The function in C that takes records of receives.
    takes_recvs: ClassVar[str] = "rdmaqp_post_recvs"

    pd: ProtectionDomain
    raw: Any
    #: Where :meth:`recv_one` writes; made when it is first needed.
    _one_recv: RecvRecords | None = None

    def recv(self, local: Local = None, *, wr_id: int = 0) -> None:
        """Post a receive into *local*. Of a datagram the first 40 bytes are the global route header's."""
        self.post(Recv(local=local, wr_id=wr_id))

    @abstractmethod
    def post(self, *work: Any) -> None:
        """Post requests in order."""

    def chain(self, *work: Work | Recv) -> Chain:
        """Requests made once and posted often; see :class:`Chain`."""
        return Chain(self, work)

    def post_recvs(self, records: Any, count: int | None = None) -> None:
        """Post an array of receives, or its first *count*: :class:`~rdmaqp.RecvRecords`, or :data:`RECV_DTYPE`."""
        post = getattr(native().lib, self.takes_recvs)
        raw, n = recvs_in(records)
        if count is not None:
            n = counted(n, count)
        result = post(self.raw, raw, n, 1)
        if result:
            self.resolve(result, lambda: [Posted.of_record(raw[at], "recv") for at in range(n)], n,
                         lambda checked: post(self.raw, raw, n, checked))

    def recv_one(self, work: Recv) -> None:
        """Post the one receive, which has a record."""
        self.require_own(work)
        if self._one_recv is None:
            self._one_recv = RecvRecords(1)
        self._one_recv[0] = work
        self.post_recvs(self._one_recv)

    # ------------------------------------------------------------------ what did not pass

    def require_own(self, work: Work | Recv) -> None:
        """Ask the judge where *work* names something of another protection domain, whose keys may look like ours.

        Raises ClosedError where it names memory that is closed, GuardError.
        """
        require_own_handle(self, work)
        for piece in work.pieces():
            region = region_of(piece)
            region.require_open()
            if region.pd is not self.pd:
                judge_work(self, work, [(piece.addr, piece.length, piece.lkey) for piece in work.pieces()])

    def resolve(
        self, result: int, posted: Callable[[], Sequence[Posted]], n: int, again: Callable[[int], int]
    ) -> None:
        """Raise what a posting call's *result* means, or post all the same where the judge has no objection.

        *posted* tells the judge what the *n* requests are; *again*, called with whether to compare, posts them.
        """
        if result == native().lib.RDMAQP_JUDGE:
            result = self.ask_again(posted, n, again)
        self.require_posted(result, posted, n)

    def require_posted(self, result: int, posted: Callable[[], Sequence[Posted]], n: int) -> None:
        """Raise what a negative *result* means."""
        lib = native().lib
        if result >= 0:
            return
        if result == lib.RDMAQP_CLOSED:
            self.require_open()
            raise ClosedError(f"the completion queue of {self} is closed")
        if result in (lib.RDMAQP_NO_AH, lib.RDMAQP_NO_RECORD):
            why = NO_DESTINATION if result == lib.RDMAQP_NO_AH else NO_RECORD
            raise ValueError(f"{self}: request {self.raw.index}: {why}")
        raise post_failed(self, posted()[self.raw.index], n)

    def ask_again(self, posted: Callable[[], Sequence[Posted]], n: int, again: Callable[[int], int]) -> int:
        """Perhaps the state has changed since; else ask the judge, who knows what C does not."""
        lib = native().lib
        state = self.ask_state()
        result = again(1)
        if result == lib.RDMAQP_JUDGE:
            judge_posts(self, posted(), n, state)
            result = again(0)
        return result

    # ------------------------------------------------------------------ what the judge has to know

    @abstractmethod
    def facts(self) -> QPFacts:
        """What it is, whatever is under way."""

    @abstractmethod
    def under_way(self, queue: str) -> int:
        """Requests of that queue that have not ended, as far as is known."""

    @property
    def signaled(self) -> bool | None:
        """Whether one of the sends under way is signaled; ``None`` of what has no sends."""
        return None

    def port_facts(self) -> PortFacts:
        """Of the port that it sends from, where that limits what is posted; else nothing is known."""
        return PortFacts()

    #: Whether all its sends are.
    sq_sig_all = False

    @property
    def last_state(self) -> QPState | None:
        """The state last known; ``None`` of what has none."""
        return None

    def ask_state(self) -> QPState | None:
        """The state, asked of the driver; the last known where the driver does not say."""
        return None


def counted(n: int, count: int) -> int:
    """*count* of *n* records. Raises ValueError where there are fewer."""
    if not 0 <= count <= n:
        raise ValueError(f"count: {count} is outside 0…{n}, the records given")
    return count


def needs_chain(work: Work | Recv) -> bool:
    """Whether one record cannot carry it: it has several pieces, bytes of its own, or a memory window."""
    if getattr(work, "inline", False) or isinstance(work, Bind) or not isinstance(work, (Work, Recv)):
        return True
    local = getattr(work, "local", None)
    return isinstance(local, (list, tuple)) and len(local) > 1
