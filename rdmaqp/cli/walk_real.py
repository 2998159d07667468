"""A real queue pair to walk, connected to itself: every step is a call to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.cli.walk_machine import Step
from rdmaqp.cli.walk_sheet import CUSTOM
from rdmaqp.errors import DeadlineError, DeviceError, GuardError, VerbsError
from rdmaqp.guard import check
from rdmaqp.model.acts import Post
from rdmaqp.model.attributes import AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import LinkLayer, QPState, QPType
from rdmaqp.model.facts import QPFacts
from rdmaqp.model.request import Request
from rdmaqp.verbs.device import open as open_device

if TYPE_CHECKING:
    from rdmaqp.guard import Report
    from rdmaqp.guard.lore.machine import Kind

_DEPTH, _BYTES, _WAIT = 16, 64, 0.3  # _WAIT seconds for a completion


class Real:
    """A queue pair of *device*; the guard judges each call, and the device answers it."""

    def __init__(self, device: str, qp_type: QPType) -> None:
        self.type: Kind = qp_type
        self._type = qp_type
        self.context = open_device(device)
        self.driver = self.context.driver
        self.where = f"on {self.context.name}"
        self.history: list[Step] = []
        self._calls: list[QPAttr | None] = []  # beside the history; None for what was posted
        self._port = self.context.port(1)
        try:
            self.pd = self.context.alloc_pd()
            self.cq = self.context.create_cq(4 * _DEPTH)
            self.memory = self.pd.alloc_mr(2 * _BYTES)
            self.qp = self._make()
        except BaseException:
            self.context.close()
            raise

    def _make(self) -> Any:
        return self.pd.create_qp(self.cq, qp_type=self._type, max_send_wr=_DEPTH, max_recv_wr=_DEPTH)

    @property
    def state(self) -> QPState:
        """Where it is: asked of the device; the last known where that does not say (mana)."""
        try:
            state: QPState = self.qp.state
        except VerbsError:
            steps = self.qp.transitions
            return steps[-1].goal if steps else QPState.RESET
        return state

    @property
    def custom(self) -> dict[str, Any]:
        """What is given unless told otherwise: its own address, number and MTU."""
        attr, pick = self._port.query(), self._port.pick_gid()
        route = None
        if attr.link_layer is LinkLayer.ETHERNET and pick is not None:
            route = GlobalRoute(dgid=pick.entry.gid, sgid_index=pick.entry.index)
        address = AddressVector(port_num=1, dlid=attr.lid, grh=route)
        return CUSTOM | {"ah_attr": address, "dest_qp_num": self.qp.qp_num, "path_mtu": attr.active_mtu or 1024}

    def modify(self, attr: QPAttr, words: str) -> tuple[Report, str]:
        """Make the call. Raises VerbsError where the device refuses what the guard let pass."""
        start = self.state
        try:
            report: Report = self.qp.modify(attr)
        except GuardError as error:
            return error.report, ""
        self._calls.append(attr)
        self.history.append(Step(words, start, self.state))
        return report, self._completions(wait=start is not QPState.RESET)

    def post(self, queue: str, words: str) -> tuple[Report, str]:
        """Post 64 bytes to itself, or a receive for them, where the guard agrees. Raises VerbsError, ValueError."""
        state = self.state
        post = Post(queue="send" if queue == "send" else "recv", opcode="SEND" if queue == "send" else None)
        facts = QPFacts(type=self._type, state=state, qp_num=self.qp.qp_num)
        report = check(Request(qp=facts, post=post, device=self.context.facts))
        if report.refused:
            return report, ""
        if queue == "send":
            self.qp.post_send(self.memory, 0, _BYTES, wr_id=len(self.history))
        else:
            self.qp.post_recv(self.memory, _BYTES, _BYTES, wr_id=len(self.history))
        self._calls.append(None)
        self.history.append(Step(words, state, self.state))
        said = self._completions(wait=bool(self.qp.outstanding) or state is QPState.ERR)
        return report, said or (self._why_none() if queue == "send" else "posted")

    def _why_none(self) -> str:
        """Why a send has not completed, as far as it can be known, and what to do."""
        if self.state is QPState.SQD:
            return "no completion so far: it waits until SQD → RTS"
        if not self.qp.recv_posted:
            return ("no completion so far: the peer, which is this queue pair itself, has no receive posted, and the "
                    "send is tried again as often as rnr_retry says. Type recv, and it completes")
        return "no completion so far: look, and rdmaqp devices, say whether port and queue pair are up"

    def _completions(self, *, wait: bool) -> str:
        """What has completed, in words."""
        found = self.cq.poll()
        if wait and not found:
            try:
                found = self.cq.wait(timeout=_WAIT)
            except DeadlineError:
                found = []
        return "; ".join(f"work request {wc.wr_id} completed: {wc.status_name}" for wc in found)

    def fail(self, words: str) -> str:  # noqa: ARG002 - as the imagined one has it
        """Only hardware can. Raises ValueError."""
        raise ValueError("this queue pair is real: only its hardware can let a send fail (a peer that is gone does)")

    def undo(self) -> Step:
        """A real call cannot be taken back: make another queue pair, and walk it to where the last one was before."""
        step = self.history.pop()
        self._calls.pop()
        self.qp.close()
        self.qp = self._make()
        for attr in filter(None, self._calls):
            try:
                self.qp.modify(attr)
            except (GuardError, VerbsError) as error:
                raise DeviceError(f"the way back stopped in {self.state.name}", [str(error)]) from None
        return step

    def close(self) -> None:
        """Give everything back."""
        self.context.close()
