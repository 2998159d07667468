"""From ERR back to RTS: everything that was posted comes out, the two ends agree anew, receives are posted again.

    recovered = exchange.recover(qp, agreed, timeout=10, prepare=post_receives)
    qp, agreed = recovered.qp, recovered.agreed      # the same queue pair, or its successor
    recovered.unknown                                # posted and not acknowledged: the peer may have it, or not

The peer has to do the same. It notices by its own failure, or by ``exchange.has_news()``.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.connection.agreement import Agreement, follow_gid
from rdmaqp.errors import DeviceError, RdmaqpError, VerbsError
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.model.enums import AttrMask
from rdmaqp.verbs.work import Recv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rdmaqp.connection.agreement import Agreed
    from rdmaqp.connection.talk import Plan
    from rdmaqp.connection.wire import Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.queue_pair import QueuePair
    from rdmaqp.verbs.reaped import Reaped, Undone
    from rdmaqp.verbs.work_completion import WorkCompletion

_PSN_BITS = 24


class Recovered(NamedTuple):
    """What a recovery came to.

    Attributes:
        qp: the queue pair, in RTS; another one than before where the driver has no way on from ERR.
        agreed: what the two ends have agreed on now.
        reaped: what had become of everything that was posted.
    """

    qp: QueuePair
    agreed: Agreed
    reaped: Reaped

    @property
    def cause(self) -> WorkCompletion | None:
        """The first completion that failed and was not only flushed; ``None`` where the failure was the peer's."""
        return self.reaped.cause

    @property
    def unknown(self) -> tuple[Undone, ...]:
        """Sends that were posted and not acknowledged, and of which nothing proves that the peer has not got them."""
        return self.reaped.unknown


class RecoveryError(RdmaqpError):
    """The queue pair is not up again; why is its ``__cause__``.

    Attributes:
        recovery: what has been done so far: its ``reaped`` does not come again, and it may be tried again:
            ``exchange.recover(error.recovery)``.
    """

    def __init__(self, recovery: Recovery, why: Exception) -> None:
        super().__init__(f"{recovery.qp} is not up again: {why}")
        self.recovery = recovery


class Recovery:
    """One recovery, which may take several attempts.

    Attributes:
        qp: the queue pair, or its successor.
        agreed: what the two ends had agreed on before.
        reaped: what had become of everything that was posted.
    """

    def __init__(self, qp: QueuePair, agreed: Agreed, timeout: float) -> None:
        """Take *qp* to ERR, and everything out of it, within *timeout* seconds.

        Raises UnaccountedError where not all of it has come out by then, ClosedError, VerbsError.
        """
        self.qp, self.agreed = qp, agreed
        self.reaped = qp.reap(timeout=timeout)

    @classmethod
    def of(cls, qp: QueuePair | Recovery, agreed: Agreed | None, timeout: float) -> Recovery:
        """A recovery of *qp*, or the one that it is already. Raises as the class, and ValueError without *agreed*."""
        if isinstance(qp, Recovery):
            return qp
        if agreed is None:
            raise ValueError("agreed: what agree() returned for this queue pair is needed")
        return cls(qp, agreed, timeout)

    def plan(
        self, settings: Mapping[str, Setting] | None, told: Mapping[str, Setting] | None,
        prepare: Callable[[QueuePair], None] | None,
    ) -> tuple[Agreement, Plan]:  # fmt: skip
        """Come to INIT with the receives posted and a new record, for the two ends to agree on.

        Raises:
            ValueError: *prepare* is not given, and the queue pair does not keep what was posted.
            GuardError, VerbsError: there is no way there.
        """
        if prepare is None:
            prepare = self._repost
        psn = fresh_psn(self.qp, self.agreed.local.psn)
        self._restart()
        qp = self.qp
        plan = Agreement(qp, self._record(psn), lambda: prepare(qp), self.agreed.options)
        return plan, plan.begin(settings, told)

    def _restart(self) -> None:
        """To RESET, or a successor in RESET where the driver leads nowhere from there."""
        old = self.qp
        driver = driver_of(old.pd.context.facts.driver)
        if not driver.must_recreate(old.type):
            old.reset()
            return
        cap = old.cap
        old.close()
        self.qp = old.pd.create_qp(
            old.send_cq, old.recv_cq, qp_type=old.type, srq=old.srq, sq_sig_all=old.sq_sig_all,
            max_send_wr=cap.max_send_wr, max_recv_wr=cap.max_recv_wr, max_send_sge=cap.max_send_sge,
            max_recv_sge=cap.max_recv_sge, max_inline_data=cap.max_inline_data,
        )  # fmt: skip

    def _record(self, psn: int) -> Endpoint:
        """Our record as it is now: the port may have come up with another MTU, the GID with another index or none."""
        old, qp = self.agreed.local, self.qp
        try:
            index = follow_gid(qp, old).gid_index
        except DeviceError:
            index = None  # the peer learns the new one
        now = qp.endpoint(
            old.port_num or 1, psn=psn, gid_index=index, max_rd_atomic=old.max_rd_atomic,
            max_dest_rd_atomic=old.max_dest_rd_atomic, pkey_index=old.pkey_index or 0, qkey=old.qkey,
        )  # fmt: skip
        mtus = [mtu for mtu in (old.path_mtu, now.path_mtu) if mtu is not None]
        return replace(now, path_mtu=min(mtus, default=None))

    def _repost(self, qp: QueuePair) -> None:
        """Post again what had been posted to receive."""
        if qp.srq is not None or not self.reaped.receives:
            return
        work = [one.work for one in self.reaped.receives if isinstance(one.work, Recv)]
        if len(work) != len(self.reaped.receives):
            raise ValueError(
                f"{len(self.reaped.receives)} receives were flushed, and nobody knows into which memory they went: "
                "give prepare=, a function that posts receives to the queue pair it is given, or call qp.keep_work() "
                "before posting"
            )
        qp.post(*work)


def fresh_psn(qp: QueuePair, before: int) -> int:
    """A PSN for a queue pair that used others before, *before* the first of them: a quarter of the range ahead or more.

    What is still under way from before then looks old to either end, and is dropped, or acknowledged again. A PSN
    behind the old ones could take an old acknowledgement for one of a new message (Linux ``rxe_comp.c``, check_psn()).
    """
    try:
        now = qp.query(AttrMask.SQ_PSN).sq_psn  # the next that it would have sent
    except VerbsError:
        now = None  # EFA and others do not say
    start = before if now is None else int(now)
    return (start + (1 << (_PSN_BITS - 2)) + secrets.randbits(_PSN_BITS - 3)) & ((1 << _PSN_BITS) - 1)
