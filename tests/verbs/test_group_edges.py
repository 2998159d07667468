"""Many queue pairs at once, where records, numbers and other threads are not as one would wish, and with Ctrl-C."""

from __future__ import annotations

import re
import sys
import threading
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from group_side import ENDED, MADE, MOVED, made, once_the_first_is_up, peers, told, up
from null_side import calls, error_of, native, rdmaqp, said, stub

from rdmaqp.verbs import bringing, following, group, queue_pair
from rdmaqp.verbs.parts import Parts

if TYPE_CHECKING:
    from conftest import Null


def states(qps: rdmaqp.QueuePairs) -> list[str]:
    return [qp.last_state.name for qp in qps]


def replies(kind: str) -> dict[str, Any]:
    _, _, qps = made()
    there: Any = rdmaqp.Endpoints(replace(peers(qps).like, sees_qp_num=qps.qp_nums[0], sees_psn=1), [9] * 5, [1] * 5)
    error = error_of(qps.connect, qps.endpoints(psn=1), there if kind == "columns" else list(there))
    return {**said(error), "states": states(qps), "ways": len(qps._ways)}


@pytest.mark.parametrize("kind", ["columns", "rows"])
def test_a_record_that_expects_another_queue_pair_is_refused(null: Null, kind: str) -> None:
    came = null.run(replies, kind)
    assert came["errors"] == [["peer-stale", "qp_num"]]
    assert came["states"] == ["RTS", "INIT", "RESET", "RESET", "RESET"]
    assert came["ways"] == 0


def late_number() -> list[Any]:
    _, _, qps = made()
    there = list(peers(qps))
    there[3] = replace(there[3], psn=1 << 24, lid=99)
    error = error_of(qps.connect, qps.endpoints(psn=1), there)
    return [str(error), states(qps), len(calls(MOVED))]


def test_all_records_are_looked_at_before_the_first_is_used(null: Null) -> None:
    text, known, moves = null.run(late_number)
    assert text == "record 3: its psn is 16777216, and not a number of 24 bits"
    assert known == ["RESET"] * 5
    assert moves == 0


def of_other_capacities() -> list[Any]:
    _, _, qps = made(6)
    qps[1].cap = replace(qps[1].cap, max_recv_wr=0)  # as one that was made alone may have
    here = list(qps.endpoints(psn=1))
    qps.connect(here, [replace(here[0], qp_num=100 + at, lid=20 + at % 2) for at in range(6)])
    caps = [[step.request.qp.cap == qps[0].cap for step in way.steps] for way in qps._ways]  # type: ignore[union-attr]
    return [caps, [qp._story is None for qp in qps], states(qps)]


def test_one_of_other_capacities_is_nobodys_example(null: Null) -> None:
    caps, alone, known = null.run(of_other_capacities)
    assert caps == [[True] * 3] * 2
    assert alone == [True, True, False, True, False, False]
    assert known == ["RTS"] * 6


def failed_step(step: str) -> list[dict[str, Any]]:
    """One that failed in C, and one that failed by itself."""
    _, cq, qps = made()
    alone = qps[0].pd.create_qp(cq)
    once_the_first_is_up(lambda: stub(MODIFY_ERRNO=f"{step}=22"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        errors = [error_of(qps.connect, qps.endpoints(psn=1), peers(qps), timeout=0)]
        errors += [error_of(alone.connect, alone.endpoint(psn=1), peers(qps)[1], timeout=0)]
    stub(MODIFY_ERRNO=None)
    number = f"{qps[1].qp_num:#x}", f"{alone.qp_num:#x}"
    both = []
    for qp, error, own in zip((qps[1], alone), errors, number, strict=True):
        both.append({"error": str(error).replace(own, "X"), **told(qp)})
        both[-1]["history"] = repr(both[-1]["history"]).replace(own, "X")
    return both


@pytest.mark.parametrize("step", ["INIT", "RTR", "RTS"])
def test_one_that_fails_tells_the_same_as_if_it_had_gone_alone(null: Null, step: str) -> None:
    inside, alone = null.run(failed_step, step)
    assert inside == alone
    assert ("timeout-infinite" in inside["report"]) == (step == "RTS")


def ignored() -> list[str]:
    _, _, qps = made()
    with rdmaqp.policy(ignore=["timeout-infinite"]):
        qps.connect(qps.endpoints(psn=1), peers(qps), timeout=0)
    return [qp.report.verdict for qp in qps if qp.report]


def test_what_was_ignored_stays_so(null: Null) -> None:
    assert null.run(ignored) == ["pass"] * 5


def failed_unseen() -> list[Any]:
    _, qps = up()
    qps._accounts[2].state = 0  # as C has it from a completion that failed: of a shared receive queue, for instance
    known = qps.where_now()
    return [known, qps[2].last_state.name, qps[2].raw.state, qps[2].state.name, qps[2].raw.state]


def test_one_that_nobody_has_looked_at_may_have_failed(null: Null) -> None:
    known, last, before, now, after = null.run(failed_unseen)
    assert known == "5 in RTS"
    assert (last, now) == ("RTS", "RTS")
    assert (before, after) == (0, 1 << 3)  # the driver is to be asked before the next post


def ended_in_part() -> dict[str, Any]:
    """The driver ends three, and refuses the fourth."""
    cq, qps = up()
    ffi, lib = native()
    lib.rdmaqp_end_many(qps._accounts, 3, ffi.new("uint32_t *"))
    stub(DESTROY_QP_ERRNO=16)
    error = error_of(qps.close)
    stub(DESTROY_QP_ERRNO=None)
    closed = [qp.closed for qp in qps]
    gone = error_of(qps[1].modify, qp_state="ERR")
    found = [cq.queue_pair(number) is not None for number in qps.qp_nums]
    qps.close()
    return {"error": said(error)["errno"], "closed": closed, "gone": type(gone).__name__, "found": found,
            "ended": len(calls(ENDED)), "open": [not qp.closed for qp in qps]}  # fmt: skip


def test_who_has_ended_is_closed_where_another_cannot_be(null: Null) -> None:
    came = null.run(ended_in_part)
    assert came["error"] == 16
    assert came["closed"] == [False, True, True, False, False]  # the first is Python's
    assert came["found"] == [True, False, False, True, True]
    assert came["gone"] == "ClosedError"
    assert came["open"] == [False] * 5
    assert came["ended"] == 5 + 1


def looked_up() -> list[Any]:
    _, cq, qps = made()
    found = [qps.numbered(number) is qps[at] for at, number in enumerate(qps.qp_nums)]
    nobody = [qps.numbered(-1), cq.queue_pair(-1), qps.numbered(1 << 40)]
    qps[3].close()
    numbers = qps.qp_nums
    closed = [qps.numbered(numbers[3])]
    qps.close()
    return [found, nobody, closed, [qps.numbered(number) for number in numbers]]


def test_the_first_is_found_by_its_number_too_and_nobody_by_none(null: Null) -> None:
    found, *nobody = null.run(looked_up)
    assert found == [True] * 5
    assert nobody == [[None] * 3, [None], [None] * 5]


def numbers() -> dict[str, Any]:
    class Whole:
        def __index__(self) -> int:
            return 3

    _, _, qps = made(Whole())  # type: ignore[arg-type]
    pd, cq = qps[0].pd, qps[0].send_cq
    before, children = len(calls(MADE)), len(pd._children)
    counts = {count: str(error_of(pd.create_qps, count, cq)) for count in (-1, (1 << 24) + 1, 1 << 64)}
    group.slots_for = lambda cap: 1 << 58  # type: ignore[attr-defined,assignment]
    without_room = error_of(pd.create_qps, 5, cq)
    return {
        "length": len(qps), "psns": list(qps.endpoints(psn=Whole()).psns),  # type: ignore[arg-type]
        "bytes": list(qps.endpoints(psn=b"abc").psns),
        "counts": counts, "room": type(without_room).__name__, "made": len(calls(MADE)) - before - len(calls(ENDED)),
        "left": len(pd._children) - children, "own": str(error_of(qps.endpoints, psn=1, qp_num=5)),
    }  # fmt: skip


def test_numbers_of_any_kind(null: Null) -> None:
    came = null.run(numbers)
    assert came["length"] == 3
    assert came["psns"] == [3] * 3
    assert came["bytes"] == [97, 98, 99]
    assert all("1…16777216 can" in text for text in came["counts"].values())
    assert came["room"] in ("MemoryError", "OverflowError")
    assert (came["made"], came["left"]) == (0, 0)
    assert came["own"] == "qp_num: each queue pair has its own"


def silent() -> dict[str, Any]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    whole = group.QueuePairs._make_others

    def make(self: Any, first: Any) -> None:
        stub(CREATE_QP_ERRNO=12, SILENT=1)
        whole(self, first)

    group.QueuePairs._make_others = make  # type: ignore[method-assign]
    error = error_of(pd.create_qps, 5, cq)
    return {**said(error), "left": len(pd._children)}


def test_a_driver_that_does_not_say_why_has_made_none_all_the_same(null: Null) -> None:
    came = null.run(silent)
    assert came["type"] == "VerbsError"
    assert "queue pair 1 of 5 RC queue pairs" in came["text"]
    assert came["left"] == 0


def looking_meanwhile() -> list[Any]:
    """Other threads look queue pairs up while they are made and brought up."""
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    errors: list[str] = []
    is_over = threading.Event()
    qps: rdmaqp.QueuePairs | None = None

    def look(at: int) -> None:
        while not is_over.is_set():
            try:
                cq.queue_pair(5)
                if qps is not None:
                    qps.where_now()
                    cq.queue_pair(qps.qp_nums[at % 300])
            except Exception as error:
                errors.append(repr(error))
                return
            at += 7

    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=look, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    wrong = 0
    for _ in range(12):
        qps = pd.create_qps(300, cq)
        qps.connect(qps.endpoints(psn=1), peers(qps, 300))
        wrong += sum((qp.last_state.name, len(qp.history), qp.port_num) != ("RTS", 3, 1) for qp in qps)
        pd.create_qp(cq).close()
    is_over.set()
    for thread in threads:
        thread.join()
    return [errors, wrong]


def test_another_thread_may_look_them_up_meanwhile(null: Null) -> None:
    assert null.run(looking_meanwhile) == [[], 0]


def closed_meanwhile() -> dict[str, Any]:
    """The protection domain is about to be closed after some have been made."""
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    group.SLICE_NS = 0
    whole = Parts.distinct

    def distinct(self: Parts) -> Any:
        pd._closing = len(calls(MADE)) == 3
        return whole(self)

    Parts.distinct = distinct  # type: ignore[method-assign]
    error = error_of(pd.create_qps, 100, cq)
    pd._closing = False
    return {**said(error), "made": len(calls(MADE)), "ended": len(calls(ENDED)), "left": len(pd._children)}


def test_a_close_does_not_wait_for_all_to_be_made(null: Null) -> None:
    came = null.run(closed_meanwhile)
    assert came["type"] == "ClosedError"
    assert came["made"] == came["ended"] == 3
    assert came["left"] == 0


def interrupted_while_told(moment: str) -> list[Any]:
    _, _, qps = made(6)
    seen = qps[::2]
    following.HOLDS_NS = 0
    whole = queue_pair.QueuePair._follow
    times: list[int] = []

    def follow(self: Any, story: Any) -> None:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        whole(self, story)

    if moment == "failed":
        once_the_first_is_up(lambda: stub(MODIFY_ERRNO="RTR=22"))
        seen = qps[:2]
    queue_pair.QueuePair._follow = follow  # type: ignore[method-assign]
    error = error_of(qps.connect, qps.endpoints(psn=1), peers(qps, 6))
    stub(MODIFY_ERRNO=None)
    return [type(error).__name__, [[qp.last_state.name, qp.state.name, len(qp.history)] for qp in seen]]


@pytest.mark.parametrize(("moment", "known"), [
    ("moved", [["RTS", "RTS", 3]] * 3), ("failed", [["RTS", "RTS", 3], ["INIT", "INIT", 1]]),
])  # fmt: skip
def test_ctrl_c_while_they_are_told_leaves_each_as_it_says(null: Null, moment: str, known: list[Any]) -> None:
    assert null.run(interrupted_while_told, moment) == ["KeyboardInterrupt", known]


def told_once() -> list[Any]:
    """What a queue pair has done since it was brought up stays, though the bring-up goes on."""
    _, _, qps = made(6)
    bringing.SLICE_NS = 0
    qps[:]
    whole = group.QueuePairs._tell

    def tell(self: Any, start: int, end: int) -> None:
        whole(self, start, end)
        if end == 3:
            qps[1].modify(qp_state="ERR")

    group.QueuePairs._tell = tell  # type: ignore[method-assign]
    qps.connect(qps.endpoints(psn=1), peers(qps, 6))
    return [states(qps), [len(qp.history) for qp in qps]]


def test_each_is_told_once(null: Null) -> None:
    assert null.run(told_once) == [["RTS", "ERR", "RTS", "RTS", "RTS", "RTS"], [3, 4, 3, 3, 3, 3]]


def interrupted_while_looked_at() -> list[Any]:
    cq, qps = up()
    whole: Any = queue_pair.QueuePair

    class Interrupting(whole):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            raise KeyboardInterrupt

    group.QueuePair = Interrupting  # type: ignore[misc]
    error = error_of(lambda: qps[2])
    group.QueuePair = whole  # type: ignore[misc]
    same = cq.queue_pair(qps.qp_nums[2]) is qps[2]
    qps.close()
    return [type(error).__name__, same, qps[2].closed, len(calls(ENDED))]


def test_ctrl_c_does_not_make_two_of_one(null: Null) -> None:
    assert null.run(interrupted_while_looked_at) == ["KeyboardInterrupt", True, True, 5]


def interrupted_while_made(moment: str) -> list[Any]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    if moment == "made":
        queue_pair.check_pointer = interrupt  # type: ignore[attr-defined,assignment]
    else:
        whole = queue_pair.QueuePair.open_queues

        def open_queues(self: Any, handle: Any) -> None:
            whole(self, handle)
            raise KeyboardInterrupt

        queue_pair.QueuePair.open_queues = open_queues  # type: ignore[method-assign]
    raised = [type(error_of(pd.create_qps, 5, cq)).__name__, type(error_of(pd.create_qp, cq)).__name__]
    noted = cq.raw.used
    context.close()
    return [raised, noted, len(calls(MADE)), len(calls(ENDED))]


@pytest.mark.parametrize("moment", ["made", "noted"])
def test_ctrl_c_while_the_first_is_made_leaves_nothing(null: Null, moment: str) -> None:
    assert null.run(interrupted_while_made, moment) == [["KeyboardInterrupt"] * 2, 0, 2, 2]


def interrupted_before_the_end(whose: str) -> list[Any]:
    _, qps = up()
    if whose == "member":
        return interrupted_before_one_ends(qps[3])
    pd, unseen = qps[0].pd, qps._accounts[4].qp

    def interrupt() -> None:
        raise KeyboardInterrupt

    whole, group.native = group.native, interrupt  # type: ignore[attr-defined,assignment]
    error = error_of(qps.close)
    group.native = whole  # type: ignore[attr-defined]
    still = [qps.closed, qps[4].handle == unseen]
    pd.close()
    return [type(error).__name__, still, qps.closed, len(calls(ENDED))]


@pytest.mark.parametrize(("whose", "ended"), [("group", 5), ("member", 1)])
def test_a_close_that_ctrl_c_has_ended_can_be_made_again(null: Null, whose: str, ended: int) -> None:
    assert null.run(interrupted_before_the_end, whose) == ["KeyboardInterrupt", [False, True], True, ended]


def interrupted_before_one_ends(qp: rdmaqp.QueuePair) -> list[Any]:
    handle = qp.handle

    def interrupt(self: Any) -> str:
        raise KeyboardInterrupt

    whole, queue_pair.QueuePair.__str__ = queue_pair.QueuePair.__str__, interrupt  # type: ignore[method-assign]
    stub(DESTROY_QP_ERRNO=16)
    error = error_of(qp.close)
    stub(DESTROY_QP_ERRNO=None)
    queue_pair.QueuePair.__str__ = whole  # type: ignore[method-assign]
    still = [qp.closed, qp.handle == handle]
    before = len(calls(ENDED))
    qp.close()
    return [type(error).__name__, still, qp.closed, len(calls(ENDED)) - before]


def interrupted_while_closed() -> list[Any]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    qps, alone = pd.create_qps(5, cq), pd.create_qp(cq)
    member = qps[3]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    whole, queue_pair.check = queue_pair.check, interrupt  # type: ignore[attr-defined]
    raised = [type(error_of(qp.close)).__name__ for qp in (alone, member)]
    queue_pair.check = whole  # type: ignore[attr-defined]
    noted = cq.raw.used
    context.close()
    return [raised, noted, len(calls(ENDED))]


def test_ctrl_c_in_a_close_leaves_no_account_behind(null: Null) -> None:
    assert null.run(interrupted_while_closed) == [["KeyboardInterrupt"] * 2, 4, 6]


OPTIONS: list[dict[str, int]] = [
    {}, {"access": 0}, {"access": 15}, {"access": 1 << 40}, {"timeout": 0}, {"timeout": 32}, {"sl": 3}, {"sl": 16},
    {"hop_limit": 0}, {"dlid": 99}, {"min_rnr_timer": 0, "retry_cnt": 7, "rnr_retry": 0}, {"static_rate": 5},
]  # fmt: skip
RECORDS: list[dict[str, Any]] = [
    {}, {"max_rd_atomic": 0}, {"max_dest_rd_atomic": 16, "max_rd_atomic": 16}, {"path_mtu": 256}, {"pkey": None},
    {"pkey": 0x8001}, {"gid": None}, {"lid": 0}, {"qp_type": None}, {"link_layer": None}, {"rx_depth": 1},
]  # fmt: skip


def ways_to_go(port: int, policy: str) -> list[str]:
    """All of OPTIONS and RECORDS of which a group does not tell what its queue pairs tell that went alone."""
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    all_ways = [*((options, {}) for options in OPTIONS), *(({}, record) for record in RECORDS)]
    with warnings.catch_warnings(), rdmaqp.policy(policy):
        warnings.simplefilter("ignore")
        return [repr(way) for way in all_ways if not is_told_alike(pd, cq, port, *way)]


def is_told_alike(pd: Any, cq: Any, port: int, options: dict[str, int], record: dict[str, Any]) -> bool:
    qps, alone = pd.create_qps(3, cq), [pd.create_qp(cq) for _ in range(3)]
    here = qps.endpoints(port, psn=range(3))
    there = rdmaqp.Endpoints(replace(here.like, **record), range(100, 103), range(20, 23))
    own = rdmaqp.Endpoints(here.like, [qp.qp_num for qp in alone], range(3))

    def each() -> None:
        for qp, ours, theirs in zip(alone, own, there, strict=True):
            qp.connect(ours, theirs, **options)

    together = end_of(lambda: qps.connect(here, there, **options))
    return together == end_of(each) and [tales(qp) for qp in qps] == [tales(qp) for qp in alone]


def end_of(act: Any) -> str:
    try:
        act()
    except (rdmaqp.RdmaqpError, OverflowError) as error:
        return re.sub("(queue pair|QP) 0x[0-9a-f]+", r"\1", str(error))
    return ""


def tales(qp: rdmaqp.QueuePair) -> str:
    return re.sub("queue pair 0x[0-9a-f]+", "queue pair", repr(told(qp)))


@pytest.mark.parametrize("link", ["infiniband", "ethernet"])
@pytest.mark.parametrize("policy", ["strict", "warn", "off"])
def test_whatever_is_asked_and_said_each_is_as_if_it_had_gone_alone(null: Null, policy: str, link: str) -> None:
    assert null.run(ways_to_go, 2, policy, PORTS=2, LINK=link) == []
