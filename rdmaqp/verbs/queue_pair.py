"""Queue pairs: made, asked, moved, closed. Each move is judged by the guard before the native call."""

from __future__ import annotations

import time
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.guard import check as judge
from rdmaqp.guard import unasked
from rdmaqp.guard.policy import Policy, current
from rdmaqp.model.arguments import checked, require
from rdmaqp.model.attributes import FIELDS, QP_ATTR_NAMES, QPAttr, as_int, enum_value
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.enums import AttrMask, QPState, QPType, mask_names
from rdmaqp.model.gid import GID
from rdmaqp.model.request import QPCap, Request
from rdmaqp.verbs import modify
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs.asking import ask_guard
from rdmaqp.verbs.history import Historian
from rdmaqp.verbs.modify import Transition
from rdmaqp.verbs.multicast import Membership, membership
from rdmaqp.verbs.parts import Member, Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rdmaqp.guard import Report

_STATE, _PORT, _PKEY_INDEX = int(AttrMask.STATE), int(AttrMask.PORT), int(AttrMask.PKEY_INDEX)
_SERVES = int(AttrMask.MAX_DEST_RD_ATOMIC)
_NAMES = frozenset(QP_ATTR_NAMES)
#: The member of a number: to ask the enumeration itself costs five times as much.
_state = lru_cache(16)(QPState)


class QueuePair(Historian):
    """``struct ibv_qp``. It has one owner: the thread that modifies it and posts to it.

    Attributes:
        type: its kind.
        qp_num: its number, 24 bits.
        cap: the capacities that the driver gave, at least those asked for.
        port_num, pkey_index: what INIT bound it to; ``None`` before.
        max_dest_rd_atomic: what it was last set to, also before a RESET.
        local: the record by which ``connect`` or ``activate`` brought it up; ``None`` before.
        sq_draining: 1 while sends were still under way in SQD, when the driver was last asked for the state.
    """

    kind = "queue pair"
    _rank = 0

    def __init__(
        self, parts: Parts, qp_type: QPType | str, cap: QPCap, *, sq_sig_all: bool = False, member: Member | None = None
    ) -> None:
        """Make it of *parts*; as a *member* of a group it is there already."""
        self.type = type_of(qp_type)
        self.pd, self.srq = parts.pd, parts.srq
        # An XRC_RECV queue pair has neither, and takes no post.
        self.send_cq, self.recv_cq = parts.send_cq, parts.recv_cq  # type: ignore[assignment]
        self.sq_sig_all = sq_sig_all
        self.port_num: int | None = None
        self.pkey_index: int | None = None
        self.max_dest_rd_atomic: int | None = None
        self.sq_draining: int | None = None
        self.local: Endpoint | None = None
        #: What to say where the state is only the last known.
        self._doubt = ""
        if member is None:
            cap = parts.fitted(cap, self.type)
            ask_guard(lambda: parts.creation(self.type, cap))
            parts.require_fitting(self.type)
            super().__init__(lambda: self._make(parts, cap), *parts.distinct())
        else:
            self.qp_num, self.cap = int(member.raw.qp_num), cap
            super().__init__(lambda: self._enter(member), *parts.distinct(), member.group)

    def _make(self, parts: Parts, cap: QPCap) -> Any:
        ffi, lib = native()
        raw = ffi.new("struct ibv_qp_init_attr *", modify.init_attr(self.type, cap, parts, sq_sig_all=self.sq_sig_all))
        xrcd = ffi.NULL if parts.xrcd is None else parts.xrcd.handle
        about = f"{self.type.name} queue pair on {parts.pd.context.name}: {cap}"
        made = ffi.new("struct ibv_qp **")  # where C puts it: Ctrl-C during the call would lose what it returns
        try:
            lib.rdmaqp_create_qp(parts.pd.handle, xrcd, raw, made)
            handle = check_pointer("ibv_create_qp", made[0], about, lambda: parts.creation(self.type, cap))
            self.qp_num, self.cap = int(handle.qp_num), modify.read_cap(raw.cap)
            self.open_queues(handle)
        except BaseException:
            self.unmake(made[0])
            raise
        return handle

    def _enter(self, member: Member) -> Any:
        self.raw, self._native_sends = member.raw, native().lib.rdmaqp_post_sends
        self._last_state = QPState.RESET
        if member.story is not None:
            self._follow(member.story)
        return self.raw.qp or None  # one that has ended, where the group could not end all

    @cached_property
    def _answers(self) -> modify.Answers:
        return modify.Answers()

    def __str__(self) -> str:
        return f"{self.type.name} queue pair {self.qp_num:#x} on {self.pd.context.name}"

    # ------------------------------------------------------------------ asking

    @checked()
    def query(self, mask: int = AttrMask.STATE) -> QPAttr:
        """The attributes of *mask*, as the driver has them now (ibv_query_qp(3)); the others are ``None``.

        Wide masks are refused on some drivers (EFA). Raises :class:`VerbsError`.
        """
        ffi, lib = native()
        raw, init = ffi.new("struct ibv_qp_attr *"), ffi.new("struct ibv_qp_init_attr *")
        with self._lock:
            result = lib.ibv_query_qp(self.handle, raw, int(mask), init)
        if result:
            raise VerbsError("ibv_query_qp", result, str(self), (f"it was asked for {', '.join(mask_names(mask))}",))
        if mask & AttrMask.STATE:
            self.sq_draining = int(raw.sq_draining)
        return modify.read_attr(raw, int(mask))

    @property
    def state(self) -> QPState:
        """The state now, asked of the driver: hardware moves a queue pair to ERR by itself.

        Raises :class:`VerbsError`.
        """
        state = self.query(AttrMask.STATE).qp_state
        assert isinstance(state, QPState)
        self.last_state = state
        return state

    @checked(Endpoint)
    def endpoint(self, port_num: int = 1, *, psn: int, gid_index: int | None = None, **more: Any) -> Endpoint:
        """What to tell the peer of this queue pair on *port_num*: address, numbers, MTU, depths.

        *gid_index* is picked where not given (:func:`~rdmaqp.model.gid.pick_gid`). *more* are fields of
        :class:`~rdmaqp.model.endpoint.Endpoint` that replace what is found. Raises :class:`DeviceError` for a port or
        an index that is not there.
        """
        self.require_open()
        return modify.describe(self, port_num, psn, gid_index, more)

    # ------------------------------------------------------------------ moving

    def modify(
        self, attr: QPAttr | None = None, *, mask: int | None = None, policy: Policy | str | None = None, **fields: Any
    ) -> Report:
        """Move, or change attributes: ``qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qp_access_flags=0)``.

        The mask follows from the attributes given; an explicit *mask* must agree with them. The guard judges
        first, against the state that ``ibv_query_qp`` reports, and says everything at once. *policy* is what to do
        about it, in this call alone: ``"strict"`` refuses, ``"warn"`` warns, ``"off"`` does not ask, and
        ``"-port-inactive"`` drops a rule (:mod:`rdmaqp.guard.policy`).

        Returns:
            the guard's report, whose warnings were also issued as :class:`GuardWarning`.

        Raises:
            GuardError: refused; the native call was not made and nothing has changed.
            VerbsError: libibverbs, the kernel, the driver or the firmware refused (ibv_modify_qp(3)).
            TypeError: a keyword is not an attribute; the nearest one is named.
        """
        if not fields.keys() <= _NAMES:
            raise TypeError(_no_attribute(fields))
        if attr is not None:  # checked() would cost more
            require("modify", "attr", attr, QPAttr)
        if mask is not None and as_int(mask) is None:
            require("modify", "mask", mask, int)
        # A copy: the caller may change his own, and what was judged is kept.
        given = QPAttr(**fields) if attr is None else attr.copied(**fields)
        return self._modify(given, mask, policy=policy)

    def _judged_modify(
        self, attr: QPAttr, mask: int | None = None, peer: Endpoint | None = None, policy: Policy | str | None = None
    ) -> Report:
        rules = current(policy)
        asked = self._asked = modify.request(self, attr, mask, peer)
        state = self.last_state
        report = self.report = judge(asked) if rules.mode != "off" else unasked(asked)
        report.remark = self._doubt
        rules.settle(report)
        self._apply(attr, attr.mask if mask is None else int(mask), state, asked)
        return report

    def _ask(self, port_num: int, sgid_index: int, pkey_index: int) -> int:
        """Ask what a modify call needs to know (``rdmaqp_ask``): which answers there are; the state always is."""
        lib, raw = native().lib, self._answers.raw
        with self._lock:
            there = int(lib.rdmaqp_ask(self.handle, port_num, sgid_index, pkey_index, raw))
        if there & lib.RDMAQP_HAS_STATE:
            self.last_state, self.sq_draining, self._doubt = _state(raw.state), raw.sq_draining, ""
        else:
            self.ask_state()
        return there

    def ask_state(self) -> QPState:
        """The state, asked of the driver; the last known where the driver does not say, as some refuse to."""
        self._doubt = ""
        try:
            return self.state
        except VerbsError as error:
            self._doubt = f" (The driver does not say its state: {error.strerror}. This is the last known.)"
            return self.last_state

    def _apply(self, attr: QPAttr, mask: int, state: QPState, asked: Request | None = None) -> None:
        """The native call, and what follows from its answer; *asked* is what the guard was asked of it."""
        asked_for = enum_value(QPState, attr.qp_state) if mask & _STATE else None
        goal = state if asked_for is None else _state(asked_for)
        with self._lock:
            result = native().lib.ibv_modify_qp(self.handle, modify.fill_attr(attr, mask), mask)
        if result:
            raise self._failure(result, state, goal, lambda: asked or modify.request(self, attr, mask, None, state))
        self._note(attr, mask)
        if self.raw.datagram and asked is not None and asked.port.active_mtu:
            self.raw.max_datagram = asked.port.active_mtu
        self.last_state = goal
        if goal is QPState.RESET:
            self.calls.clear()
        elif asked is not None and goal in (QPState.RTR, QPState.RTS) and state is not goal:
            self.calls[goal] = asked
        self.transitions.append(Transition(state, goal, mask, time.time_ns()))

    def _request(self, attr: QPAttr, peer: Endpoint | None, state: QPState) -> Request:
        return modify.request(self, attr, None, peer, state)

    def _failure(self, result: int, state: QPState, goal: QPState, asked: Callable[[], Request]) -> VerbsError:
        """The error of a modify call that was answered with *result*, and why."""
        from rdmaqp.verbs.failures import explain  # only what has failed pays for it

        failed = VerbsError("ibv_modify_qp", result, f"{self}, {state.name} → {goal.name}", (self.where_now(),))
        return explain(failed, asked)

    def _note(self, attr: QPAttr, mask: int) -> None:
        """Note what a call that took effect has set, as far as later ones go by it."""
        if mask & _PORT:
            self.port_num = as_int(attr.port_num)
        if mask & _PKEY_INDEX:
            self.pkey_index = as_int(attr.pkey_index)
        if mask & _SERVES:
            self.max_dest_rd_atomic = as_int(attr.max_dest_rd_atomic)

    def where_now(self) -> str:
        """Where a call that failed left it: asked, since some drivers move it and still report failure."""
        try:
            return f"the queue pair is in {self.state.name} now"
        except VerbsError as error:
            return f"its state cannot be asked ({error.strerror}); the last known is {self.last_state.name}"

    @checked()
    def attach_mcast(self, gid: GID | bytes | str, lid: int = 0) -> Membership:
        """Receive what is sent to the multicast group *gid* (ibv_attach_mcast(3)): ``with qp.attach_mcast("ff0e::1"):``

        For UD. On InfiniBand *lid* is the group's, which the subnet manager gives. Closing the queue pair ends it too.
        Who sends to the group need not be in it; its members share a Q_Key. On RoCE both group and GID are IPv4, or
        IPv6; Soft-RoCE joins no group in the IP stack, and so hears those alone that the machine is in (224.0.0.1)::

            ah = pd.create_ah(AddressVector(port_num=1, grh=GlobalRoute(dgid=gid, sgid_index=index)))
            qp.send(region[0:64], to=Destination(ah, MULTICAST_QPN, qkey))

        Raises:
            ValueError: another type, no multicast GID, no multicast LID, a member already.
            DeviceError: the device has no multicast groups.
            VerbsError: the driver refused.
        """
        return Membership(self, gid, lid)

    @checked()
    def detach_mcast(self, gid: GID | bytes | str, lid: int = 0) -> None:
        """Leave the group (ibv_detach_mcast(3)). Raises ValueError where it is no member, VerbsError."""
        member = membership(self, gid, lid)
        if member is None:
            raise ValueError(f"{self} is not in multicast group {GID.parse(gid)}")
        member.close()

    def _destroy(self, handle: Any) -> None:
        ffi, lib = native()
        try:  # in one call, for Ctrl-C to come before or after: the account of one that has ended must not stay
            check("ibv_destroy_qp", lib.rdmaqp_end_many(self.raw, 1, ffi.new("uint32_t *")), str(self))
        except BaseException:
            self._handle_or_none = handle if self.raw.qp else None
            raise


def _no_attribute(names: Iterable[str]) -> str:
    """What to say of the first of *names* that is no attribute's."""
    unknown = next(name for name in names if name not in FIELDS)
    near = get_close_matches(unknown, QP_ATTR_NAMES, 1, 0.5)
    return f"there is no attribute {unknown!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def type_of(value: QPType | str) -> QPType:
    """The type meant. Raises ValueError where there is none such."""
    known = enum_value(QPType, value)
    if known is None:
        raise ValueError(f"qp_type: {value!r} is not one of {', '.join(kind.name for kind in QPType)}")
    return QPType(known)
