"""The queue pair that is walked: an imagined one, which only the guard and the table move, or a real one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from rdmaqp.cli.walk_sheet import CUSTOM
from rdmaqp.cli.walk_work import Facts, carried_out
from rdmaqp.guard import Report, check
from rdmaqp.guard.lore.machine import Kind, facts_of
from rdmaqp.guard.lore.states import BY_HARDWARE
from rdmaqp.model.acts import Post
from rdmaqp.model.attributes import AddressVector, GlobalRoute, QPAttr, as_int, enum_value
from rdmaqp.model.enums import GidType, LinkLayer, PortState, QPState
from rdmaqp.model.facts import DeviceFacts, PortFacts, QPCap
from rdmaqp.model.gid import GID, GidEntry
from rdmaqp.model.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
_DEPTH, _NUMBER = 16, 0x11
_GIDS: Mapping[int, GidEntry] = {
    0: GidEntry(0, GID.parse("fe80::a00:6"), GidType.ROCE_V2, "eth0"),
    1: GidEntry(1, GID.parse("192.0.2.6"), GidType.ROCE_V2, "eth0"),
}
_PORT = PortFacts(
    num=1, state=PortState.ACTIVE, link_layer=LinkLayer.ETHERNET, active_mtu=1024, max_mtu=4096, lid=0, gid_tbl_len=16,
    pkey_tbl_len=1, grh_required=True,
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Something that was done: the words typed, and where it led."""

    words: str
    start: QPState
    goal: QPState


class Machine(Protocol):
    """What can be walked: a queue pair, imagined or real."""

    type: Kind
    driver: str | None
    where: str
    history: list[Step]

    @property
    def state(self) -> QPState: ...  # noqa: D102 - said where it is

    @property
    def custom(self) -> dict[str, Any]: ...  # noqa: D102

    def modify(self, attr: QPAttr, words: str) -> tuple[Report, str]: ...  # noqa: D102

    def post(self, queue: str, words: str) -> tuple[Report, str]: ...  # noqa: D102

    def fail(self, words: str) -> str: ...  # noqa: D102

    def undo(self) -> Step: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


@dataclass
class Imagined:
    """A queue pair that is nowhere: a RoCE port with an active MTU of 1024, two GIDs, a queue of 16.

    It is connected to itself, as a real one that is walked: what it sends meets the receives that it has posted.

    Attributes:
        history: what was done, oldest first.
    """

    type: Kind
    driver: str | None = None
    facts: Facts = field(default_factory=Facts)
    history: list[Step] = field(default_factory=list)
    where: str = "imagined, connected to itself"
    _past: list[Facts] = field(default_factory=list)

    @property
    def state(self) -> QPState:
        """Where it is."""
        return self.facts.state

    @property
    def custom(self) -> dict[str, Any]:
        """What is given unless told otherwise: its own address and number."""
        address = AddressVector(port_num=1, grh=GlobalRoute(dgid=str(_GIDS[1].gid), sgid_index=1))
        return CUSTOM | {"ah_attr": address, "dest_qp_num": _NUMBER}

    def _request(self, **act: Any) -> Request:
        now = self.facts
        qp = facts_of(
            self.type, state=now.state, port_num=now.port_num, qp_num=_NUMBER, recv_posted=now.receives,
            outstanding=now.sends, srq=False, was=now.was, sq_draining=0,
            cap=QPCap(max_send_wr=_DEPTH, max_recv_wr=_DEPTH, max_send_sge=1, max_recv_sge=1),
        )  # fmt: skip
        device = DeviceFacts(
            driver=self.driver, phys_port_cnt=1, max_qp=1024, max_qp_wr=1024, max_sge=16, max_qp_rd_atom=16,
            max_qp_init_rd_atom=16,
        )  # fmt: skip
        return Request(qp=qp, device=device, port=_PORT, gids=_GIDS, gids_complete=True, pkeys={0: 0xFFFF}, **act)

    def modify(self, attr: QPAttr, words: str) -> tuple[Report, str]:
        """Ask the guard, and move where it does not refuse. What it says, and what became of the work."""
        report = check(self._request(attr=attr))
        if report.refused:
            return report, ""
        start, now = self.state, self.facts
        number = enum_value(QPState, attr.qp_state)
        goal = start if number is None else QPState(number)  # without STATE it stays
        was = (*now.was, start) if start is not RESET or now.was else now.was
        port = as_int(attr.port_num) if attr.port_num is not None else now.port_num
        after = replace(now, state=goal, port_num=None if goal is RESET else port)
        after = replace(after, was=was if goal != start else now.was)
        retries = as_int(attr.rnr_retry)
        after, said = carried_out(replace(after, rnr_retry=now.rnr_retry if retries is None else retries), self.type)
        self._go(words, after)
        return report, said

    def post(self, queue: str, words: str) -> tuple[Report, str]:
        """Post one work request, and tell what becomes of it."""
        opcode = "SEND" if queue == "send" else None
        post = Post(queue="send" if queue == "send" else "recv", opcode=opcode, num_sge=1, length=64)
        report = check(self._request(post=post))
        if report.refused:
            return report, ""
        now = self.facts
        if any(finding.rule == "post-flushes" for finding in report.findings):
            self._go(words, now)
            return report, "it completes at once: WR_FLUSH_ERR"
        sends = queue == "send"
        posted = replace(now, sends=now.sends + sends, receives=now.receives + (not sends))
        after, said = carried_out(posted, self.type)
        self._go(words, after)
        if sends and now.state is SQD:
            return report, "queued: it waits until SQD → RTS"
        return report, said or f"{after.receives} posted, waiting for messages"

    def fail(self, words: str) -> str:
        """Let a send fail, as only the hardware can. Raises ValueError where none is sent."""
        if self.type not in BY_HARDWARE:
            raise ValueError(f"what a {self.type.name} queue pair does by itself, nobody knows here")
        (start, goal), when = BY_HARDWARE[self.type]
        if self.state is not start:
            raise ValueError(f"in {self.state.name} nothing is sent, so nothing can fail; that takes {start.name}")
        said = f"{when}: the hardware moves to {goal.name}. The send completes with its own status (RETRY_EXC_ERR, say)"
        after, flushed = carried_out(replace(self.facts, state=goal, was=(*self.facts.was, start)), self.type)
        self._go(words, after)
        return f"{said}; {flushed}" if flushed else said

    def undo(self) -> Step:
        """Take the last step back. Raises IndexError where there is none."""
        self.facts = self._past.pop()
        return self.history.pop()

    def close(self) -> None:
        """Nothing to do."""

    def _go(self, words: str, after: Facts) -> None:
        self._past.append(self.facts)
        self.history.append(Step(words, self.facts.state, after.state))
        self.facts = after


