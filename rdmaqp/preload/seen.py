"""What has been seen of the watched program: its processes, their queue pairs, and each queue pair's path."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rdmaqp.model.attributes import QPAttr
from rdmaqp.model.enums import AttrMask, QPState, QPType

if TYPE_CHECKING:
    from rdmaqp.model.gid import GID, GidEntry
    from rdmaqp.model.request import Request

_STATE, _PORT, _PKEY = int(AttrMask.STATE), int(AttrMask.PORT), int(AttrMask.PKEY_INDEX)
_SERVES = int(AttrMask.MAX_DEST_RD_ATOMIC)


@dataclass(eq=False)
class Process:
    """A process that has loaded the shim.

    Attributes:
        calls: how many modify calls it has made.
        lost: why it is no longer watched, though it went on; empty where it is, or has ended.
    """

    pid: int
    program: str
    calls: int = 0
    lost: str = ""
    pairs: dict[int, QueuePair] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.program}[{self.pid}]"


@dataclass(frozen=True, slots=True)
class Step:
    """One modify call that was let through, and what came of it.

    Attributes:
        start: the state before it, ``None`` unknown.
        goal: the state asked for; ``None`` where it asked for none.
        took_ns: how long the native call took.
        error: its error number; 0 success.
        tid: the thread.
    """

    start: QPState | None
    goal: QPState | None
    took_ns: int
    error: int
    tid: int


@dataclass(eq=False)
class QueuePair:
    """One queue pair, from its first modify call on.

    Attributes:
        steps: the calls that returned, oldest first.
        goals: the states that they led to, one that was not left once.
        port_num, pkey_index: what INIT bound it to, where that was seen.
        max_dest_rd_atomic: what it was last set to, where that was seen.
        calls: the requests that led to INIT, RTR and RTS, since it was last in RESET.
        refused: where the calls that were not made were to lead.
        destroyed: whether ``ibv_destroy_qp`` was called for it.
    """

    process: Process
    address: int
    number: int
    type: QPType | None
    device: str
    steps: list[Step] = field(default_factory=list)
    goals: list[QPState] = field(default_factory=list)
    port_num: int | None = None
    pkey_index: int | None = None
    max_dest_rd_atomic: int | None = None
    calls: dict[QPState, Request] = field(default_factory=dict)
    refused: list[QPState | None] = field(default_factory=list)
    destroyed: bool = False

    def __str__(self) -> str:
        kind = self.type.name if self.type is not None else "a"
        return f"{kind} queue pair {self.number:#x} on {self.device or 'an unknown device'}, {self.process}"

    @property
    def last_state(self) -> QPState | None:
        """Where the last call that succeeded led."""
        return self.goals[-1] if self.goals else None

    def was(self, state: QPState | None) -> tuple[QPState, ...] | None:
        """The states before the present one, where all of them were seen; ``None`` where they were not."""
        begun = self.steps[0].start if self.steps else state
        if begun is not QPState.RESET:
            return None
        goals = tuple(self.goals)
        return goals[:-1] if goals and goals[-1] is state else goals

    def returned(self, request: Request, step: Step) -> None:
        """A call has returned: note it, and what it bound the queue pair to."""
        self.steps.append(step)
        mask, attr = request.mask or 0, request.attr
        if step.error or attr is None:
            return
        if step.goal is not None and self.last_state is not step.goal:
            self.goals.append(step.goal)
        if step.goal is QPState.RESET:
            self.calls.clear()
            self.port_num = self.pkey_index = None
        elif step.goal is not None:
            self.calls[step.goal] = request
        if mask & _PORT and isinstance(attr.port_num, int):
            self.port_num = attr.port_num
        if mask & _PKEY and isinstance(attr.pkey_index, int):
            self.pkey_index = attr.pkey_index
        if mask & _SERVES and isinstance(attr.max_dest_rd_atomic, int):
            self.max_dest_rd_atomic = attr.max_dest_rd_atomic

    # ------------------------------------------------------------------ where it leads

    def attributes(self) -> QPAttr:
        """All that its calls since RESET have set."""
        values = {name: value for call in self.calls.values() if call.attr for name, value in call.attr.given()}
        return QPAttr(**values)

    def to_rtr(self) -> Request | None:
        """The call that connected it, with the partition key that INIT chose; ``None`` where there was none."""
        call = self.calls.get(QPState.RTR)
        bound = self.calls.get(QPState.INIT)
        if call is None or bound is None:
            return call
        return replace(call, pkeys={**bound.pkeys, **call.pkeys})

    def own_gids(self) -> dict[int, GidEntry]:
        """Its port's GID table, as its last call with an address saw it."""
        call = self.calls.get(QPState.RTR)
        return {} if call is None else dict(call.gids)

    def destination(self) -> tuple[GID | None, int, int | None]:
        """The GID, the LID and the number that it sends to, where it is connected."""
        attr = self.attributes()
        address = attr.ah_attr
        number = attr.dest_qp_num if isinstance(attr.dest_qp_num, int) else None
        if address is None:
            return None, 0, number
        route = address.grh if address.uses_grh else None
        dgid = route.dgid if route is not None else None
        return dgid if not isinstance(dgid, str) else None, address.dlid, number  # type: ignore[return-value]
