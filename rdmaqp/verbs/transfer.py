"""Transfers: streams and sinks (:mod:`rdmaqp.verbs.stream`) run in one loop in C, in slices of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from rdmaqp.errors import DeadlineError
from rdmaqp.model.arguments import require
from rdmaqp.verbs._native import native
from rdmaqp.verbs._resource import holding
from rdmaqp.verbs.completion import SLICE_NS, deadline
from rdmaqp.verbs.work_completion import WorkCompletion

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.verbs._resource import Resource
    from rdmaqp.verbs.chain import Chain
    from rdmaqp.verbs.queue_pair import QueuePair

#: A count that is not known.
ENDLESS = (1 << 64) - 1


class End:
    """What streams and sinks have in common. While it runs, its queue pair's work of that kind is its own."""

    #: Whether it posts sends.
    sends: ClassVar[bool] = False

    raw: Any
    uses: tuple[Resource, ...]
    chain: Chain | None
    qp: QueuePair | None

    def run(self, timeout: float | None = None) -> None:
        """Run it alone until it is done; see :func:`transfer`."""
        transfer(self, timeout=timeout)

    def where(self) -> str:
        """How far it has come, in words."""
        raise NotImplementedError

    @property
    def count(self) -> int | None:
        """How many messages it is about; ``None`` while that is open."""
        return None if self.raw.count == ENDLESS else int(self.raw.count)

    @property
    def seconds(self) -> float:
        """From its first message to its last; 0 before it is done."""
        return max(0, int(self.raw.ended_ns - self.raw.begun_ns)) / 1e9 if self.raw.ended_ns else 0.0

    def settle(self, result: int, again: Callable[[int], int]) -> None:
        """Raise what stopped it, or go on where the judge has no objection."""
        lib, chain, qp = native().lib, self.chain, self.qp
        assert chain is not None
        assert qp is not None
        if result == lib.RDMAQP_STALE:
            chain.look_again()
        elif result == lib.RDMAQP_STATUS:
            chain.raise_failed(self._failed(qp))
        else:
            qp.resolve(result, chain.posted, len(chain), again)

    def _failed(self, qp: QueuePair) -> Exception:
        from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

        wc = WorkCompletion.from_c(self.raw.failed)
        number = wc.wr_id - int(self.raw.wr_id)
        return completion_error(wc, qp, index=number, notes=(f"It was request {number:,}. {self.where()}",))


def run_slice(*ends: End, slice_ns: int = SLICE_NS) -> bool:
    """Run *ends*, which belong together, for *slice_ns* at most. Whether all are done.

    Raises:
        CompletionError: a work request failed; the error says which. What was flushed behind it waits to be polled.
        GuardError, VerbsError, ClosedError: a post was refused.
        ValueError: more ends than one call takes, or none that has a queue pair.
    """
    ffi, lib = native()
    for one in ends:
        require("transfer", "an end", one, End)
    streams = [end for end in ends if end.sends]
    sinks = [end for end in ends if not end.sends]
    if len(ends) > lib.RDMAQP_ENDS or not any(end.chain is not None for end in ends):
        raise ValueError(f"a transfer has 1…{lib.RDMAQP_ENDS} ends, one at least with a queue pair, not {len(ends)}")
    raws = [ffi.new("struct rdmaqp_stream *[]", [end.raw for end in streams]),
            ffi.new("struct rdmaqp_sink *[]", [end.raw for end in sinks])]  # fmt: skip
    done = [0]

    def go(checked: int) -> int:
        done[0] = lib.rdmaqp_transfer(raws[0], len(streams), raws[1], len(sinks), slice_ns, checked)
        return done[0]

    with holding(*(resource for end in ends for resource in end.uses)):
        result = go(1)
        if result < 0:
            culprits = [end for end in ends if end.raw.result < 0] + [end for end in ends if end.chain is not None]
            culprits[0].settle(result, go)
    return bool(done[0] == 1)


def transfer(
    *ends: End, timeout: float | None = None, tick: Callable[[], object] | None = None
) -> None:
    """Run *ends* in one loop in C until all are done. Ctrl-C works; the GIL is released.

    Completions of other work on the same queues are kept for whoever polls them next.

    Args:
        timeout: seconds; ``None`` waits for ever.
        tick: called every 10 ms or so.

    Raises:
        DeadlineError: *timeout* seconds are over; call again to go on.
        CompletionError, GuardError, VerbsError, ClosedError: as :func:`run_slice`. The counts are as far as it came.
    """
    end = deadline("transfer", timeout)
    left = SLICE_NS if timeout is None else timeout * 1e9
    while not run_slice(*ends, slice_ns=int(max(0, min(left, SLICE_NS)))):
        if tick is not None:
            tick()
        if end is not None and (left := (end - time.monotonic()) * 1e9) <= 0:
            said = "\n".join(f"  {one.qp or 'memory'}: {one.where()}" for one in ends)
            raise DeadlineError(f"the transfer is not done within {timeout} s\n{said}")
