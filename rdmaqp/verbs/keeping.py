"""Keeping the objects that are posted, so that what did not succeed can be posted again as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.verbs.moves import Moves
from rdmaqp.verbs.work import Recv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.verbs.chain import Chain
    from rdmaqp.verbs.work import Work


class Kept:
    """The objects of the last requests of both queues, as many as each queue holds."""

    def __init__(self, qp: Keeping) -> None:
        self._qp = qp
        room: list[tuple[int, Work | Recv] | None] = [None]
        self._rings = {"send": room * max(qp.raw.sq.room, 1), "recv": room * max(qp.raw.rq.room, 1)}

    def noting(self, work: Sequence[Work | Recv], post: Callable[[], None]) -> None:
        """Call *post*, and note those of *work* that it has posted, also where it fails half-way."""
        is_receive = bool(work) and isinstance(work[0], Recv)
        account = self._qp.raw.rq if is_receive else self._qp.raw.sq
        ring = self._rings["recv" if is_receive else "send"]
        before = int(account.head)
        try:
            post()
        finally:
            for number in range(before, min(int(account.head), before + len(work))):
                ring[number % len(ring)] = number, work[number - before]

    def find(self, queue: str, number: int) -> Work | Recv | None:
        """Request *number* of that queue; ``None`` where it was posted as a record, or is long gone."""
        ring = self._rings[queue]
        entry = ring[number % len(ring)]
        return entry[1] if entry is not None and entry[0] == number else None


class Keeping(Moves):
    """What keeps the requests of a :class:`~rdmaqp.QueuePair`, once it is told to."""

    _kept: Kept | None = None

    def keep_work(self) -> None:
        """From now on, keep the objects that are posted, until as many more have been.

        ``reap()`` and ``drain()`` then give them back (``undone.work``), to be posted again. It holds for what ``post``
        and the calls for one request (``send``, ``recv``, …) post, and for chains made from now on; not for arrays of
        records, and not for a shared receive queue's receives. It costs a post half a microsecond, and one that is
        not kept nothing. An object that is changed after it was posted comes back changed.
        """
        if self._kept is None:
            self._kept = Kept(self)
            self.post = self._post_and_keep  # type: ignore[method-assign]

    def kept(self, queue: str, number: int) -> Work | Recv | None:
        """The object that was posted as request *number* of that queue, where they are kept."""
        return None if self._kept is None else self._kept.find(queue, number)

    def _post_and_keep(self, *work: Any) -> None:
        assert self._kept is not None
        self._kept.noting(work, lambda: Moves.post(self, *work))

    def chain(self, *work: Work | Recv) -> Chain:
        """Requests made once and posted often; see :class:`~rdmaqp.Chain`."""
        chain = super().chain(*work)
        kept = self._kept
        if kept is not None:
            post, run = chain.post, chain.run

            def run_and_keep(timeout: float | None = None) -> None:
                if chain.raw.running and chain.raw.resets == self.raw.resets:  # it goes on waiting
                    return run(timeout)
                return kept.noting(chain.work, lambda: run(timeout))

            chain.post = lambda: kept.noting(chain.work, post)  # type: ignore[method-assign]
            chain.run = run_and_keep  # type: ignore[method-assign]
        return chain
