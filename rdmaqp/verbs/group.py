"""Many queue pairs at once, made, brought up and closed in C: as they are alike, Python looks at the first of them.

    qps = pd.create_qps(1000, cq)
    here = qps.endpoints(psn=0)        # one record each, in columns
    qps.connect(here, there)           # there: the peer's, got by any way
    qps[17].send(region[0:64])         # each is a QueuePair, made when it is first looked at

Whatever is not as with the first (another capacity, another port's state, a number that no peer has) goes the way of a
single queue pair, with all that the guard has to say.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import index as whole
from typing import TYPE_CHECKING, Any, overload

from rdmaqp.errors import ClosedError
from rdmaqp.model.arguments import checked, require, wrong_type
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.endpoints import Endpoints, side_by_side
from rdmaqp.model.enums import QPState
from rdmaqp.model.steps import bring_up
from rdmaqp.verbs._native import check, create_failed, native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.asking import ask_guard
from rdmaqp.verbs.bringing import BringingUp
from rdmaqp.verbs.completion import SLICE_NS
from rdmaqp.verbs.following import Story
from rdmaqp.verbs.modify import cap_in_c, init_attr
from rdmaqp.verbs.parts import Member
from rdmaqp.verbs.queue_pair import QueuePair, type_of
from rdmaqp.verbs.work_queues import slots_for

if TYPE_CHECKING:
    from rdmaqp.errors import VerbsError
    from rdmaqp.model.enums import QPType
    from rdmaqp.model.request import QPCap, Request
    from rdmaqp.verbs.following import Way
    from rdmaqp.verbs.parts import Parts


#: As many numbers as there are.
_MOST = 1 << 24


class QueuePairs(Resource, Sequence[QueuePair]):
    """A sequence of queue pairs made with the same arguments: what ``pd.create_qps`` gives.

    Closing it closes all of them. One that is closed by itself stays in the sequence, closed. What each of them takes
    is freed when the sequence and its queue pairs are gone.
    """

    kind = "group of queue pairs"
    _rank = 0.5  # above its queue pairs, below the shared receive queue that they take from

    def __init__(self, count: int, parts: Parts, qp_type: QPType | str, cap: QPCap, *, sq_sig_all: bool) -> None:
        count, kind = whole(count), type_of(qp_type)
        if not 1 <= count <= _MOST:
            raise ValueError(f"count: {count} queue pairs cannot be made; 1…{_MOST} can, as their numbers have 24 bits")
        cap = parts.fitted(cap, kind)
        _ask_for_room(count, parts.creation(kind, cap))
        first = QueuePair(parts, qp_type, cap, sq_sig_all=sq_sig_all)
        self.type = kind
        self._cap, self._parts, self._count = cap, parts, count
        #: Those that somebody has looked at, and those that were made alone.
        self._known = {0: first}
        self._ways: list[Way] = []
        #: Their numbers, in order.
        self.qp_nums = array("I")
        try:
            self._make_room(slots_for(first.cap))
            super().__init__(self._make, *parts.distinct())
        except BaseException:
            first.close()
            raise
        known, raw = self._known, self._accounts
        self.qp_nums = array("I", (known[at].qp_num if at in known else raw[at].qp_num for at in range(count)))

    def _make_room(self, slots: int) -> None:
        ffi = native().ffi
        self._slots = ffi.new("struct rdmaqp_slot[]", slots * self._count)
        self._accounts = ffi.new("struct rdmaqp_qp[]", self._count)
        self._followers = ffi.new("struct rdmaqp_follower[]", self._count)

    def _make(self) -> Any:
        try:
            if self._parts.send_cq is None:
                for at in range(1, self._count):
                    self._make_alone(at)
            else:
                self._make_others(self._known[0])
        except BaseException:
            self._end()
            raise
        return self._accounts

    def _make_others(self, first: QueuePair) -> None:
        ffi, lib = native()
        parts, raw = self._parts, self._accounts
        init = ffi.new("struct ibv_qp_init_attr *", init_attr(self.type, self._cap, parts, sq_sig_all=first.sq_sig_all))
        account = ffi.new("struct rdmaqp_qp *", first.account(ffi.NULL, ffi.NULL, slots_for(first.cap) - 1))
        account.receives = ffi.NULL if first.srq is None else ffi.addressof(first.srq.raw, "queue")
        making = ffi.new("struct rdmaqp_making *", {
            "pd": parts.pd.handle, "init": init, "cap": cap_in_c(first.cap), "account": account, "qps": raw,
            "slots": self._slots, "count": self._count, "done": 1,
        })  # fmt: skip
        while making.done < self._count:
            for part in parts.distinct():  # a close() in another thread waits for this
                part.require_open()
            lib.rdmaqp_make_many(making, SLICE_NS)
            if making.unlike:
                self._make_alone(making.done)
                making.done += 1
            elif making.error == lib.RDMAQP_CLOSED:
                raise ClosedError("the completion queue is closed")
            elif making.error:
                about = f"queue pair {making.done} of {self}: {self._cap}"
                raise create_failed("ibv_create_qp", making.error, about, lambda: parts.creation(self.type, self._cap))

    def _make_alone(self, at: int) -> None:
        self._known[at] = QueuePair(self._parts, self.type, self._cap, sq_sig_all=self._known[0].sq_sig_all)

    def __str__(self) -> str:
        return f"{self._count} {self.type.name} queue pairs on {self._parts.pd.context.name}"

    # ------------------------------------------------------------------ each of them

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> QueuePair: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueuePair]: ...
    def __getitem__(self, index: int | slice) -> QueuePair | list[QueuePair]:
        if isinstance(index, slice):
            return [self[at] for at in range(self._count)[index]]
        try:
            at = range(self._count)[index]
        except IndexError:
            raise IndexError(f"there is no queue pair {index}: they are 0…{self._count - 1}") from None
        return self._known.get(at) or self._look_at(at)

    def _look_at(self, at: int) -> QueuePair:
        with self._lock:
            if at not in self._known:
                self.require_open()
                first = self._known[0]
                member = Member(self, self._accounts + at, self._story(at))
                try:
                    self._known[at] = QueuePair(
                        self._parts, first.type, first.cap, sq_sig_all=first.sq_sig_all, member=member
                    )
                except BaseException:  # Ctrl-C: it may be there already, and must not be there twice
                    self._known.update((at, one) for one in self._made() if one.raw == member.raw)
                    raise
            return self._known[at]

    def _made(self) -> list[QueuePair]:
        return [one for one in list(self._children.values()) if isinstance(one, QueuePair) and not one.closed]

    def _story(self, at: int) -> Story | None:
        follower = self._followers[at]
        return Story(self._ways[follower.way - 1], follower, self.qp_nums[at]) if follower.way else None

    @checked()
    def numbered(self, qp_num: int) -> QueuePair | None:
        """The open one of that number; ``None`` where there is none."""
        if qp_num not in self.qp_nums:
            return None
        one = self._found(self.qp_nums.index(qp_num))
        return None if one is None or one.closed else one

    def _at_address(self, address: int) -> QueuePair | None:
        """The open one whose ``struct ibv_qp`` lies there."""
        at = native().lib.rdmaqp_find_many(self._accounts, self._count, address)
        return None if at < 0 else self._found(at)

    def _found(self, at: int) -> QueuePair | None:
        try:
            return self[at]
        except ClosedError:  # by another thread, meanwhile
            return None

    def where_now(self) -> str:
        """How many are in which state, as last known."""
        known, followers = self._known, self._followers
        states: Counter[QPState] = Counter(
            known[at].last_state if at in known else QPState(followers[at].taken) for at in range(self._count)
        )
        return ", ".join(f"{count} in {state.name}" for state, count in sorted(states.items()))

    # ------------------------------------------------------------------ all of them

    @checked(Endpoint)
    def endpoints(
        self, port_num: int = 1, *, psn: int | Sequence[int], gid_index: int | None = None, **more: Any
    ) -> Endpoints:
        """What to tell the peer, as ``qp.endpoint`` has it: *psn* is one for all, or one for each.

        Port and tables are asked once. Raises as ``qp.endpoint``; ValueError where there are not as many PSNs.
        """
        if "qp_num" in more:
            raise ValueError("qp_num: each queue pair has its own")
        like = self[0].endpoint(port_num, psn=0, gid_index=gid_index, **more)
        if self[0].srq is None and "rx_depth" not in more:
            like = replace(like, rx_depth=min(one.cap.max_recv_wr for one in self._known.values()))
        return Endpoints(like, self.qp_nums, psn if isinstance(psn, Iterable) else [psn] * self._count)

    @checked(bring_up)
    def connect(self, local: Sequence[Endpoint], remote: Sequence[Endpoint], **options: Any) -> None:
        """Bring all to RTS, each towards its own of *remote*: as ``qp.connect(local[i], remote[i], **options)``.

        The guard judges the first of those whose records differ in their numbers alone; the others make the same calls
        as long as each is in RESET, and port, GID slot and partition key, asked again every 10 ms, are as they were.
        Whoever is not like the first is judged by itself, and all are where calls are logged or traced. What the first
        is warned of holds for all that follow it, and is issued once. In the end each tells its own story: ``history``,
        ``transitions``, ``calls``, ``report``.

        Raises:
            GuardError, VerbsError: as ``qp.connect``; a note says of which. Those before it are in RTS, those behind it
                have not been touched.
            ValueError: there are not as many records, or one of *local* is another queue pair's; the type has no peer.
        """
        self.require_open()
        self._require_records(local, remote)
        bringing, at = BringingUp(self, options), 0
        for ours, theirs in list(side_by_side(local, remote)):  # all of them are looked at first
            bringing.connect(at, ours, theirs)
            at += len(ours)

    def _require_records(self, local: Sequence[Endpoint], remote: Sequence[Endpoint]) -> None:
        for name, records in (("local", local), ("remote", remote)):
            if not isinstance(records, Sequence):
                raise wrong_type("connect", name, records, "Endpoints, or a sequence of Endpoint")
            if len(records) != self._count:
                raise ValueError(f"{name}: there are {len(records)} records for {self._count} queue pairs")
            if not isinstance(records, Endpoints):
                for at, record in enumerate(records):
                    require("connect", f"{name}[{at}]", record, Endpoint)
        numbers = local.qp_nums if isinstance(local, Endpoints) else [record.qp_num for record in local]
        for at, (own, said) in enumerate(zip(self.qp_nums, numbers, strict=True)):
            if own != said:
                raise ValueError(
                    f"local[{at}] is the record of QP {said:#x}, and queue pair {at} is {own:#x}: records of another "
                    "group, or in another order"
                )

    # ------------------------------------------------------------------ while they are brought up

    def _next_moved(self, start: int, end: int) -> int:
        """The first from *start* on that somebody has modified by itself, or *end*."""
        with self._lock:  # another thread may look at others meanwhile
            return min((at for at, one in self._known.items() if start <= at < end and one.history), default=end)

    def _tell(self, start: int, end: int) -> None:
        """Tell those of them that somebody has looked at how they went."""
        with self._lock:
            for at, one in list(self._known.items()):
                story = self._story(at) if start <= at < end else None
                if story is not None:
                    one._follow(story)

    def _failed(self, at: int, number: int) -> VerbsError:
        """The error of number *at*, whose last call was answered with *number*."""
        story, one = self._story(at), self[at]
        assert story is not None
        return one._failed_step(story, number)

    # ------------------------------------------------------------------ the end

    def _destroy(self, handle: Any) -> None:
        try:
            self._end()
        except BaseException:  # Ctrl-C: the next close() ends those that are left, and those alone
            self._handle_or_none = handle
            raise

    def _end(self) -> None:
        ffi, lib = native()
        at = ffi.new("uint32_t *")
        error = lib.rdmaqp_end_many(self._accounts, self._count, at)
        check("ibv_destroy_qp", error, f"queue pair {at[0]} of {self}")
        for one in self._known.values():
            one.close()

    def _bar(self) -> None:
        native().lib.rdmaqp_bar_many(self._accounts, self._count)


def _ask_for_room(count: int, request: Request) -> None:
    """Ask the guard of the last of them too, which is to be made while all others are in use."""
    device = request.device
    if device.max_qp and count > device.max_qp:
        ask_guard(lambda: replace(request, device=replace(device, qp_in_use=count - 1)))
