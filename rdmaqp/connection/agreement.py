"""What two queue pairs agree on before either leaves INIT: the guard's word on both records, and what follows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.talk import Plan
from rdmaqp.errors import DeviceError
from rdmaqp.guard import check
from rdmaqp.guard.policy import current
from rdmaqp.model.enums import QPState
from rdmaqp.model.steps import as_agreed, bring_up, is_connected
from rdmaqp.verbs.modify import request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rdmaqp.connection.talk import Heard
    from rdmaqp.connection.wire import Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.queue_pair import QueuePair


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What two ends have agreed on; both are in RTS.

    Attributes:
        local: our record, with the GID index that was used.
        remote: the peer's.
        path_mtu: bytes, the smaller of both ends'; ``None`` of a type that has none.
        max_rd_atomic: reads and atomics that we keep in flight: not more than the peer serves.
        max_dest_rd_atomic: reads and atomics that we serve: as many as the peer keeps in flight.
        settings: those that the peer named.
        told: what the peer told besides.
        receives: how many receives the peer had posted; ``None`` where they come from a shared queue.
        moved: from which index of the GID table our GID had moved; ``None`` where it had not.
        options: those of :func:`~rdmaqp.model.steps.bring_up` that were given; a recovery uses them again.
    """

    local: Endpoint
    remote: Endpoint
    path_mtu: int | None
    max_rd_atomic: int | None
    max_dest_rd_atomic: int | None
    settings: dict[str, Setting]
    told: dict[str, Setting]
    receives: int | None
    moved: int | None
    options: Mapping[str, Any]


class Agreement:
    """This end's part, for ``Exchange.agree``, whose arguments these are."""

    def __init__(
        self, qp: QueuePair, local: Endpoint | None, prepare: Callable[[], None] | None, options: Mapping[str, Any]
    ) -> None:
        self._qp = qp
        self._prepare = prepare
        self._options = options
        self.local = replace(qp.endpoint(psn=secrets.randbits(24)) if local is None else local, qp_type=qp.type)
        self.moved: int | None = None

    def begin(self, settings: Mapping[str, Setting] | None, told: Mapping[str, Setting] | None) -> Plan:
        """Come to INIT, where receives can be posted, and say what the conversation needs.

        Raises GuardError, VerbsError, and what *prepare* raises.
        """
        qp = self._qp
        if qp.ask_state() is QPState.RESET:
            qp.modify(bring_up(self.local, self.local, **self._options).init)
        if self._prepare is not None:
            self._prepare()
        return Plan(self.local, settings or {}, told or {}, self.judge, self.bring_up)

    def judge(self, remote: Endpoint) -> str | None:
        """What the guard has against RTR and RTS by both records, in words; ``None`` where it would let them pass.

        Raises DeviceError where our GID has gone.
        """
        self._follow()
        rules = current()
        if rules.mode != "strict":
            return None
        steps = bring_up(self.local, remote, **self._options)
        refused = []
        for state, attr in ((QPState.INIT, steps.rtr), (QPState.RTR, steps.rts)):
            report = rules.without_ignored(check(request(self._qp, attr, None, as_agreed(self.local, remote), state)))
            if report.errors:
                # Its last line would name a state that the queue pair has not come to.
                refused.append(report.render().removesuffix(f"\n{report.tail}"))
        return "\n".join(refused) or None

    def bring_up(self, remote: Endpoint) -> int | None:
        """To RTS; how many receives are posted."""
        self._follow()
        if is_connected(self._qp.type):
            self._qp.connect(self.local, remote, **self._options)
        else:
            self._qp.activate(self.local)
        return None if self._qp.srq is not None else self._qp.recv_posted

    def _follow(self) -> None:
        before = self.local.gid_index
        self.local = follow_gid(self._qp, self.local)
        if self.local.gid_index != before and self.moved is None:
            self.moved = before

    def result(self, heard: Heard) -> Agreed:
        """What it came to."""
        steps = bring_up(self.local, heard.remote, **self._options)
        values = {name: getattr(steps.rtr, name) for name in ("path_mtu", "max_dest_rd_atomic")}
        return Agreed(
            local=self.local, remote=heard.remote, settings=heard.settings, told=heard.told, receives=heard.receives,
            moved=self.moved, max_rd_atomic=steps.rts.max_rd_atomic, options=self._options, **values,
        )  # fmt: skip


def follow_gid(qp: QueuePair, local: Endpoint) -> Endpoint:
    """*local*, with the index at which its GID stands now: a flap, a new address or a reboot may have moved it.

    Raises:
        DeviceError: it is in the table no more.
        VerbsError: the table cannot be read.
    """
    if local.gid is None or local.gid.is_zero:
        return local
    port = qp.pd.context.port(local.port_num or 1)
    same = [entry for entry in port.gids() if entry.gid == local.gid and local.gid_type in (None, entry.type)]
    if any(entry.index == local.gid_index for entry in same):
        return local
    if not same:
        where = "" if local.gid_index is None else f"; it was at index {local.gid_index}"
        raise DeviceError(
            f"GID {local.gid}, which the peer was told, is in the table of {port} no more{where}",
            ("An address was taken away, or the link went down: see rdmaqp gids. Agree again with a new record.",),
        )
    return replace(local, gid_index=same[0].index)
