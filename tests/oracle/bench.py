"""Queue pairs brought to a state natively, and the calls made on them with no guard before them."""

from __future__ import annotations

import time
from contextlib import nullcontext
from errno import ETIMEDOUT
from typing import Any

import rdmaqp
from oracle.addresses import NO_ANSWER
from oracle.calls import STATE, UNSAYABLE, Answer, Call, Scene, attr_of, rule_of
from oracle.raw import Struct, as_seen, unprivileged
from rdmaqp.model.enums import GidType, QPState, QPType
from rdmaqp.verbs import modify
from rdmaqp.verbs._native import native

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
_WAY = {
    RESET: (), INIT: (INIT,), RTR: (INIT, RTR), RTS: (INIT, RTR, RTS), SQD: (INIT, RTR, RTS, SQD),
    ERR: (INIT, RTR, ERR),
}  # fmt: skip
#: Seconds in which an idle queue pair drains, on a busy machine.
_DRAINED_WITHIN = 30.0


class Bench:
    """A device, and queue pairs ready in each state."""

    def __init__(self, context: rdmaqp.Context) -> None:
        self.context = context
        self.pd = context.alloc_pd()
        self.cq = context.create_cq(256)
        self.scene = _scene(context)
        self.buffer = self.pd.alloc_mr(64)
        self.struct = Struct()
        self.made = 0
        self._pool: dict[tuple[QPType, QPState, str], tuple[rdmaqp.QueuePair, bytes]] = {}
        self._steps: dict[tuple[Any, ...], tuple[Any, int]] = {}

    # ------------------------------------------------------------------ ready queue pairs

    def ready(self, kind: QPType, state: QPState, ability: str = "") -> rdmaqp.QueuePair:
        """A queue pair of this type in this state, to be used for one call, or for as long as calls are refused."""
        place = (kind, state, ability if ability == "draining" else "")
        if place not in self._pool:
            qp = self._draining() if place[2] else self._make(kind, state)
            self._pool[place] = (qp, self.struct.query(qp.handle))
        return self._pool[place][0]

    def _make(self, kind: QPType, state: QPState) -> rdmaqp.QueuePair:
        self.made += 1
        qp = self.pd.create_qp(self.cq, qp_type=kind)
        self._lead(qp, RESET, _WAY[state])
        qp.port_num, qp.pkey_index = (None, None) if state is RESET else (1, 0)
        patience = time.monotonic() + _DRAINED_WITHIN
        while qp.state is SQD and qp.sq_draining:
            assert time.monotonic() < patience, f"{qp} does not drain"
        assert qp.state is state, f"{qp} is in {qp.state}, not in {state}"
        return qp

    def _draining(self) -> rdmaqp.QueuePair:
        """One in SQD with a send under way. What Soft-RoCE's task has not begun does not count as such."""
        for wait in (0.05, 0.2, 1, 5):
            qp = self._make(QPType.RC, INIT)
            # Nobody has this number, so a send to it is under way for as long as a timeout of 20 (4 s) and 7 retries.
            self._lead(qp, INIT, (RTR, RTS), dest_qp_num=0xABCDEF, timeout=20)
            with rdmaqp.policy("off"):  # the library has not seen where it went
                qp.post_send(self.buffer)
            time.sleep(wait)
            self._lead(qp, RTS, (SQD,))
            assert qp.state is SQD
            if qp.sq_draining:
                return qp
            qp.close()
        raise AssertionError("a send that nobody answers does not begin")

    def _lead(self, qp: rdmaqp.QueuePair, here: QPState, way: tuple[QPState, ...], **given: int) -> None:
        """Along *way*, natively.

        With all the responder resources that there are: where Soft-RoCE is asked for more of them later, it clears as
        many as there will be before it makes them, beyond the end of those it has (``rxe_qp_from_attr``,
        ``free_rd_atomic_resources``), and the kernel dies of that soon (Linux 6.1.176).
        """
        if qp.type is QPType.RC and RTR in way:
            given = {"max_dest_rd_atomic": self.context.attr.max_qp_rd_atom} | given
        for goal in way:
            self._step(qp, here, goal, given)
            here = goal

    def _step(self, qp: rdmaqp.QueuePair, here: QPState, goal: QPState, given: dict[str, int]) -> None:
        place = (qp.type, here, goal, *sorted(given.items()))
        if place not in self._steps:
            rule = rule_of(qp.type, here, goal)
            assert rule is not None
            mask = rule.required | STATE
            self._steps[place] = (modify.fill_attr(attr_of(self.scene, here, mask, None, qp_state=goal, **given), mask),
                                  mask)
        raw, mask = self._steps[place]
        result = native().lib.ibv_modify_qp(qp.handle, raw, mask)
        assert result == 0, f"{qp}: {here.name} → {goal.name}: {result}"

    def _forget(self, kind: QPType, state: QPState, ability: str) -> None:
        qp, _ = self._pool.pop((kind, state, ability))
        qp.close()

    # ------------------------------------------------------------------ calls

    def make(self, call: Call) -> Answer:
        """Make the call, and ask what became of it."""
        ability = call.ability if call.ability == "draining" else ""
        place = (call.kind, call.state, ability)
        qp = self.ready(*place)
        try:
            raw = self._struct_of(call)
        except (OverflowError, TypeError, ValueError):
            return Answer(UNSAYABLE)
        with unprivileged() if "unprivileged" in call.ability else nullcontext():
            result = native().lib.ibv_modify_qp(qp.handle, raw, call.mask)
            if result == ETIMEDOUT and call.group not in NO_ANSWER:  # the first contact can take longer than it waits
                result = native().lib.ibv_modify_qp(qp.handle, raw, call.mask)
        shown = self.struct.query(qp.handle)
        if result:
            touched = not ability and shown != self._pool[place][1]
            if touched or ability:
                self._forget(*place)
            return Answer(abs(result), touched=touched)
        answer = Answer(0, as_seen(self.struct.shown, call.mask))
        self._forget(*place)
        return answer

    def _struct_of(self, call: Call) -> Any:
        return self.struct.cut(call.attr, call.mask) if call.units == "abi" else modify.fill_attr(call.attr, call.mask)


def _scene(context: rdmaqp.Context) -> Scene:
    port = context.port(1)
    entries = [entry for entry in port.gids() if entry.type is GidType.ROCE_V2]
    mine = next(entry for entry in entries if entry.gid.is_ipv4_mapped)
    other = next((entry for entry in entries if not entry.gid.is_ipv4_mapped), None)
    used = {entry.index for entry in port.gids()}
    empty = next(index for index in range(255, 0, -1) if index not in used)
    if other is None:
        return Scene(mine.gid, mine.index, empty=empty)
    return Scene(mine.gid, mine.index, other.index, other.gid, empty)
