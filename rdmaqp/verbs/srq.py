"""Shared receive queues: one stock of receives for many queue pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmaqp.model.request import QPCap, QPFacts
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import emptied
from rdmaqp.verbs.receiving import Receiving, needs_chain
from rdmaqp.verbs.work import Recv

if TYPE_CHECKING:
    from rdmaqp.verbs.completion import CompletionQueue
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.xrc import XRCDomain

_LIMIT = 2  # enum ibv_srq_attr_mask


@dataclass(frozen=True, slots=True)
class SRQAttr:
    """``struct ibv_srq_attr``.

    Attributes:
        max_wr: receives that the queue holds.
        max_sge: pieces that each may have.
        srq_limit: the event comes once fewer receives than this are left; 0: none is awaited.
    """

    max_wr: int
    max_sge: int
    srq_limit: int


class SharedReceiveQueue(Receiving):
    """``struct ibv_srq``: receives that any of its queue pairs takes. One thread owns it.

    ``pd.create_qp(cq, srq=srq)`` makes such a queue pair. A completion's ``qp_num`` says which of them received, and
    the receive's room is free once the completion has been polled. ``recv``, ``post``, ``chain`` and ``post_recvs``
    raise as those of a queue pair.

    Attributes:
        max_wr, max_sge: what the driver gave, at least what was asked for.
        number: of an XRC queue, what senders name as ``remote_srqn``; ``None`` of others.
    """

    kind = "shared receive queue"
    _rank = 1  # above its queue pairs, below the memory that its receives name
    queue = "srq"
    chain_member = "srq"
    takes_recvs = "rdmaqp_post_srq_recvs"

    def __init__(
        self, pd: ProtectionDomain, max_wr: int, max_sge: int = 1, srq_limit: int = 0, *,
        xrcd: XRCDomain | None = None, cq: CompletionQueue | None = None,
    ) -> None:  # fmt: skip
        ffi, lib = native()
        _require_within(pd, max_wr, max_sge, srq_limit)
        if (xrcd is None) != (cq is None):
            raise ValueError("an XRC shared receive queue has an XRC domain and a completion queue, another has none")
        if any(part is not None and part.context is not pd.context for part in (xrcd, cq)):
            raise ValueError(f"its parts belong to different openings of a device than this {pd.kind}")
        init = ffi.new("struct ibv_srq_init_attr *", {"attr": {"max_wr": max_wr, "max_sge": max_sge}})

        def make() -> Any:
            about = f"{max_wr} receives on {pd.context.name}"
            if xrcd is None or cq is None:
                handle = check_pointer("ibv_create_srq", lib.ibv_create_srq(pd.handle, init), about)
            else:
                pointer = lib.rdmaqp_create_xrc_srq(pd.handle, xrcd.handle, cq.handle, init)
                handle = check_pointer("ibv_create_srq_ex", pointer, about)
            # An XRC queue's completions name queue pairs of any process: its room is left to the driver.
            account = {"room": init.attr.max_wr, "lost": xrcd is not None}
            self.raw = ffi.new("struct rdmaqp_srq *", {
                "srq": handle, "domain": pd.domain, "queue": account, "max_sge": init.attr.max_sge,
            })  # fmt: skip
            self.max_wr, self.max_sge = int(init.attr.max_wr), int(init.attr.max_sge)
            return handle

        self.pd = pd
        self.number: int | None = None
        super().__init__(make, pd, *(part for part in (xrcd, cq) if part is not None))
        try:
            self._begin(srq_limit, is_xrc=xrcd is not None)
        except BaseException:
            self.close()
            raise

    def _begin(self, srq_limit: int, *, is_xrc: bool) -> None:
        if is_xrc:
            ffi, lib = native()
            number = ffi.new("uint32_t *")
            check("ibv_get_srq_num", lib.rdmaqp_srq_num(self.handle, number), str(self))
            self.number = int(number[0])
        if srq_limit:  # which ibv_create_srq() does not look at
            self.modify(srq_limit=srq_limit)

    def __str__(self) -> str:
        return f"{self.kind} on {self.pd.context.name}"

    @property
    def recv_posted(self) -> int:
        """Receives posted and not yet completed. What completed and has not been polled counts as posted.

        It is too high once a queue pair that was receiving has been closed or reset: what that had taken never
        completes. (Move it to ERR, await QP_LAST_WQE_REACHED and poll, before; then nothing is lost.)
        """
        return int(self.raw.queue.head - self.raw.queue.tail)

    def post(self, *work: Recv) -> None:
        """Post receives in order; none is posted unless all pass the checks."""
        if len(work) != 1 or not isinstance(work[0], Recv) or needs_chain(work[0]):
            return self.chain(*work).post()
        return self.recv_one(work[0])

    def modify(self, *, srq_limit: int) -> None:
        """Ask for one event, SRQ_LIMIT_REACHED, once fewer than *srq_limit* receives are left; 0 asks for none.

        It comes once: ask again afterwards (ibv_modify_srq(3); ``context.async_events`` brings it).

        Raises:
            ValueError: *srq_limit* is outside 0…``max_wr``.
            VerbsError: the driver refused.
        """
        if not 0 <= srq_limit <= self.max_wr:
            raise ValueError(f"srq_limit: {srq_limit} is outside 0…{self.max_wr}, the receives that the queue holds")
        ffi, lib = native()
        attr = ffi.new("struct ibv_srq_attr *", {"srq_limit": srq_limit})
        with self._lock:
            result = lib.ibv_modify_srq(self.handle, attr, _LIMIT)
        check("ibv_modify_srq", result, f"{self}, srq_limit {srq_limit}")

    def query(self) -> SRQAttr:
        """The attributes as the driver has them now (ibv_query_srq(3)). Raises :class:`VerbsError`."""
        ffi, lib = native()
        attr = ffi.new("struct ibv_srq_attr *")
        with self._lock:
            result = lib.ibv_query_srq(self.handle, attr)
        check("ibv_query_srq", result, str(self))
        return SRQAttr(int(attr.max_wr), int(attr.max_sge), int(attr.srq_limit))

    def facts(self) -> QPFacts:
        """What the judge is told of it, whatever is under way."""
        cap = QPCap(max_recv_wr=self.max_wr, max_recv_sge=self.max_sge)
        return QPFacts(cap=cap, pd=self.pd.number)

    def under_way(self, queue: str) -> int:  # noqa: ARG002 - it has one queue
        """Receives that have not ended, as far as is known."""
        return self.recv_posted

    def _destroy(self, handle: Any) -> None:
        with emptied(self.raw):
            check("ibv_destroy_srq", native().lib.ibv_destroy_srq(handle), str(self))


def _require_within(pd: ProtectionDomain, max_wr: int, max_sge: int, srq_limit: int) -> None:
    attr, name = pd.context.attr, pd.context.name
    for field, value, most in (("max_wr", max_wr, attr.max_srq_wr), ("max_sge", max_sge, attr.max_srq_sge)):
        if not 1 <= value <= (most or value):  # 0 is what drivers say that never set it
            raise ValueError(f"{field}: {value} is outside 1…{most} (max_srq_{field[4:]} of {name})")
    if not 0 <= srq_limit <= max_wr:
        raise ValueError(f"srq_limit: {srq_limit} is outside 0…{max_wr} (max_wr)")
