"""Ends: order, twice, after, meanwhile, and where the driver refuses."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from null_side import (
    AddressVector,
    PingPongEnd,
    QPState,
    calls,
    connected,
    error_of,
    native,
    rdmaqp,
    run_slice,
    said,
    side,
    stub,
)

from rdmaqp.verbs import memory, queue_pair

if TYPE_CHECKING:
    from conftest import Null

QP, AH, MR, CQ, CHANNEL, PD, DEVICE = (
    "ibv_destroy_qp", "ibv_destroy_ah", "ibv_dereg_mr", "ibv_destroy_cq", "ibv_destroy_comp_channel", "ibv_dealloc_pd",
    "ibv_close_device",
)  # fmt: skip
ENDS = (QP, AH, MR, CQ, CHANNEL, PD, DEVICE)


def close_one(name: str) -> dict[str, bool]:
    """Make one of each, close one, and say which are closed."""
    one = side(events=True)
    things = {
        "context": one.context, "channel": one.channel, "cq": one.cq, "pd": one.pd, "mr": one.mr, "qp": one.qp,
        "ah": one.pd.create_ah(AddressVector(dlid=9)),
    }  # fmt: skip
    things[name].close()
    things[name].close()
    return {key: thing.closed for key, thing in things.items()}


@pytest.mark.parametrize(
    ("name", "closed", "order"),
    [
        ("qp", "qp", [QP]),
        ("ah", "ah", [AH]),
        ("mr", "mr", [MR]),
        ("cq", "cq qp", [QP, CQ]),
        ("channel", "channel cq qp", [QP, CQ, CHANNEL]),
        ("pd", "pd mr qp ah", [QP, AH, MR, PD]),
        ("context", "context channel cq pd mr qp ah", [QP, AH, MR, PD, CQ, CHANNEL, DEVICE]),
    ],
)
def test_a_parent_closes_its_children_first_and_each_once(
    null: Null, name: str, closed: str, order: list[str]
) -> None:
    state = null.run(close_one, name)
    assert {key for key, value in state.items() if value} == set(closed.split())
    ended = null.calls(*ENDS)
    assert [call["call"] for call in ended] == order
    assert all(call["result"] == 0 for call in ended)
    assert all(call["alive"] == 0 for call in ended if call["call"] == DEVICE)


def many() -> None:
    context = rdmaqp.open()
    shared = context.create_comp_channel()
    cqs = [context.create_cq(8, shared) for _ in range(3)]
    pds = [context.alloc_pd() for _ in range(2)]
    for pd in pds:
        for cq in cqs:
            pd.alloc_mr(8)
            pd.create_qp(cq, cqs[0])
    context.close()


def test_many_of_each_end_without_one_being_in_use(null: Null) -> None:
    null.run(many)
    ended = null.calls(*ENDS)
    assert [call["result"] for call in ended] == [0] * (6 + 6 + 2 + 3 + 1 + 1)
    assert ended[-1]["alive"] == 0


def managers() -> list[bool]:
    with (
        rdmaqp.open() as context, context.create_comp_channel() as channel, context.create_cq(4, channel) as cq,
        context.alloc_pd() as pd, pd.alloc_mr(8) as mr, pd.create_qp(cq) as qp,
        pd.create_ah(AddressVector(dlid=9)) as ah,
    ):  # fmt: skip
        pass
    return [thing.closed for thing in (context, channel, cq, pd, mr, qp, ah)]


def test_every_object_is_a_context_manager(null: Null) -> None:
    assert null.run(managers) == [True] * 7


def an_error_within_closes() -> list[Any]:
    context = None
    try:
        with rdmaqp.open() as context:
            context.alloc_pd()
            raise LookupError
    except LookupError:
        pass
    assert context is not None
    return [context.closed, [call["call"] for call in calls(*ENDS)]]


def test_an_error_within_a_block_closes_too(null: Null) -> None:
    assert null.run(an_error_within_closes) == [True, [PD, DEVICE]]


# ---------------------------------------------------------------------- after the end


def after_the_end(how: str) -> dict[str, str]:
    """Use everything that asks the device, after its end or its parent's. Each use is named after what has ended."""
    one = side(events=True)
    other = side(one.context)
    ah = one.pd.create_ah(AddressVector(dlid=9))
    context, channel, cq, pd, mr, qp = one.context, one.channel, one.cq, one.pd, one.mr, one.qp
    port, here = context.port(1), qp.endpoint(psn=1)
    assert channel is not None
    uses = {
        "context": {
            "handle": lambda: context.handle, "alloc_pd": context.alloc_pd, "create_cq": lambda: context.create_cq(4),
            "create_comp_channel": context.create_comp_channel, "query": port.query, "facts": lambda: port.facts,
            "gids": port.gids, "pick_gid": port.pick_gid, "pkeys": port.pkeys, "pkey": lambda: port.pkey(0),
        },
        "channel": {
            "handle": lambda: channel.handle, "fd": lambda: channel.fd,
            "create_cq": lambda: context.create_cq(4, channel),
        },
        "cq": {
            "handle": lambda: cq.handle, "poll": cq.poll, "wait": cq.wait, "wait a while": lambda: cq.wait(timeout=0),
            "for sends": lambda: other.pd.create_qp(cq), "for receives": lambda: other.pd.create_qp(other.cq, cq),
        },
        "pd": {
            "handle": lambda: pd.handle, "reg_mr": lambda: pd.reg_mr(bytearray(8)), "alloc_mr": lambda: pd.alloc_mr(8),
            "create_qp": lambda: pd.create_qp(other.cq), "create_ah": lambda: pd.create_ah(AddressVector(dlid=9)),
        },
        "mr": {
            "handle": lambda: mr.handle, "buffer": lambda: mr.buffer, "span": lambda: mr.span(0, 1),
            "post_send": lambda: qp.post_send(mr), "post_recv": lambda: qp.post_recv(mr),
        },
        "ah": {"handle": lambda: ah.handle},
        "qp": {
            "handle": lambda: qp.handle, "query": qp.query, "state": lambda: qp.state,
            "endpoint": lambda: qp.endpoint(psn=1), "modify": lambda: qp.modify(qp_state="ERR"), "to_init": qp.to_init,
            "to_rtr": lambda: qp.to_rtr(dest_qp_num=9, rq_psn=0, ah_attr=AddressVector(dlid=9), path_mtu=1024),
            "to_rts": lambda: qp.to_rts(sq_psn=0), "reset": qp.reset, "error": qp.error,
            "connect": lambda: qp.connect(here, here), "post_send": lambda: qp.post_send(mr),
            "post_recv": lambda: qp.post_recv(mr),
        },
    }  # fmt: skip
    {"context": context, "channel": channel, "cq": cq, "pd": pd, "mr": mr, "ah": ah, "qp": qp}[how].close()
    if how in ("context", "pd", "cq", "channel"):
        uses[how] |= uses["qp"]
    if how in ("context", "pd"):
        uses[how] |= {f"region's {name}": use for name, use in uses["mr"].items()}
    if how == "context":
        for part in ("cq", "channel", "pd", "ah"):
            uses[how] |= {f"{part}'s {name}": use for name, use in uses[part].items()}
    log = len(calls())
    answers = {name: f"{type(error_of(use)).__name__}: {error_of(use)}" for name, use in uses[how].items()}
    return answers | {call["call"]: "reached the library" for call in calls()[log:] if how == "context"}


@pytest.mark.parametrize("how", ["context", "channel", "cq", "pd", "mr", "qp", "ah"])
def test_use_after_the_end_is_a_clear_error(null: Null, how: str) -> None:
    answers = null.run(after_the_end, how)
    assert answers
    assert {name: answer for name, answer in answers.items() if not answer.startswith("ClosedError: this ")} == {}


def the_reason() -> str:
    one = side()
    one.context.close()
    return str(error_of(lambda: one.pd.handle))


def test_the_message_names_the_parent_that_was_closed(null: Null) -> None:
    assert null.run(the_reason) == "this protection domain is closed, as its device is"


# ---------------------------------------------------------------------- refused by the driver


def refusal(name: str, verb: str) -> list[Any]:
    one = side(events=True)
    things = {
        "context": one.context, "channel": one.channel, "cq": one.cq, "pd": one.pd, "mr": one.mr, "qp": one.qp,
        "ah": one.pd.create_ah(AddressVector(dlid=9)),
    }  # fmt: skip
    thing = things[name]
    stub(**{f"{verb}_ERRNO": 16})
    error = said(error_of(thing.close))
    alive = not thing.closed and thing.handle is not None
    stub(**{f"{verb}_ERRNO": None})
    thing.close()
    one.context.close()
    return [error["type"], error["errno"], error["text"], alive, thing.closed]


@pytest.mark.parametrize(
    ("name", "verb", "call"),
    [
        ("qp", "DESTROY_QP", QP), ("ah", "DESTROY_AH", AH), ("mr", "DEREG_MR", MR), ("cq", "DESTROY_CQ", CQ),
        ("channel", "DESTROY_COMP_CHANNEL", CHANNEL), ("pd", "DEALLOC_PD", PD), ("context", "CLOSE_DEVICE", DEVICE),
    ],
)  # fmt: skip
def test_an_object_whose_end_is_refused_stays_open_and_can_be_closed_again(
    null: Null, name: str, verb: str, call: str
) -> None:
    kind, errno, text, alive, closed = null.run(refusal, name, verb)
    assert (kind, errno, alive, closed) == ("VerbsError", 16, True, True)
    assert f"{call} failed: Device or resource busy (EBUSY, 16)" in text
    assert [entry["result"] for entry in null.calls(call)] == [16, 0]
    assert null.calls(DEVICE)[-1]["alive"] == 0


def a_child_refuses() -> list[Any]:
    one = side()
    stub(DESTROY_QP_ERRNO=16)
    error = error_of(one.context.close)
    state = [thing.closed for thing in (one.context, one.cq, one.pd, one.mr, one.qp)]
    working = [one.qp.state.name, len(one.cq.poll()), one.pd.alloc_mr(8).length]
    stub(DESTROY_QP_ERRNO=None)
    one.context.close()
    return [type(error).__name__, state, working, one.context.closed]


def test_a_parent_whose_child_refuses_stays_whole(null: Null) -> None:
    assert null.run(a_child_refuses) == ["VerbsError", [False] * 5, ["RESET", 0, 8], True]


def interrupted(name: str) -> list[Any]:
    """Ctrl-C comes while the driver ends an object: Python sees it when the verb has returned."""
    one = side()
    thing, module = {"qp": (one.qp, queue_pair), "mr": (one.mr, memory)}[name]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    module.check, kept = stop, module.check
    error = error_of(thing.close)
    module.check = kept
    thing.close()
    one.context.close()
    return [type(error).__name__, thing.closed]


@pytest.mark.parametrize(("name", "call"), [("qp", QP), ("mr", MR)])
def test_an_interrupted_end_is_not_made_twice(null: Null, name: str, call: str) -> None:
    assert null.run(interrupted, name) == ["KeyboardInterrupt", True]
    assert len(null.calls(call)) == 1


# ---------------------------------------------------------------------- while it is being made


def made_meanwhile() -> list[Any]:
    """A parent is closed while another thread makes a child of it: the close waits, and takes the child along."""
    pd = rdmaqp.open().alloc_pd()
    started, lib = threading.Event(), native().lib

    def slowly(*args: Any) -> Any:
        started.set()
        time.sleep(0.3)
        return lib.rdmaqp_reg_mr(*args)

    slow = SimpleNamespace(rdmaqp_reg_mr=slowly, rdmaqp_add_region=lib.rdmaqp_add_region)
    memory.native = lambda: native()._replace(lib=slow)
    thread = threading.Thread(target=lambda: error_of(pd.alloc_mr, 64))
    thread.start()
    started.wait()
    memory.native = native
    pd.context.close()
    thread.join()
    return [pd.context.closed, pd.closed]


def test_a_parent_closed_while_a_child_is_made_waits_for_it(null: Null) -> None:
    assert null.run(made_meanwhile) == [True, True]
    assert [call["call"] for call in null.calls(*ENDS)] == [MR, PD, DEVICE]
    assert null.calls(DEVICE)[0]["alive"] == 0


def failed_children() -> int:
    one = side()
    for verb, make in {
        "REG_MR": lambda: one.pd.alloc_mr(8), "CREATE_QP": lambda: one.pd.create_qp(one.cq),
        "CREATE_CQ": lambda: one.context.create_cq(4), "ALLOC_PD": one.context.alloc_pd,
        "CREATE_AH": lambda: one.pd.create_ah(AddressVector(dlid=9)),
        "CREATE_COMP_CHANNEL": one.context.create_comp_channel,
    }.items():  # fmt: skip
        before = [len(thing._children) for thing in (one.context, one.pd, one.cq)]
        stub(**{f"{verb}_ERRNO": 22})
        assert type(error_of(make)).__name__ == "VerbsError"
        stub(**{f"{verb}_ERRNO": None})
        assert [len(thing._children) for thing in (one.context, one.pd, one.cq)] == before
    one.context.close()
    return len(calls(DEVICE))


def test_what_could_not_be_made_is_nobodys_child(null: Null) -> None:
    assert null.run(failed_children) == 1


def broken_device() -> list[str]:
    return [type(error_of(rdmaqp.open, "null0")).__name__]


def test_a_device_that_cannot_be_asked_is_closed_again(null: Null) -> None:
    assert null.run(broken_device, QUERY_DEVICE_ERRNO=5) == ["VerbsError"]
    assert len(null.calls("ibv_open_device")) == len(null.calls(DEVICE)) == 1


# ---------------------------------------------------------------------- while it is used


def closed_during_a_loop(name: str) -> list[Any]:
    """Another thread closes a part of a ping-pong that runs in C; messages are dropped, so it never ends by itself."""
    first, second = connected(events=False)
    ends = [
        PingPongEnd(one.qp, one.mr, one.pd.alloc_mr(64), size=64, iterations=1000, initiator=one is first)
        for one in (first, second)
    ]
    for end in ends:
        end.post_receives()
    stub(DROP=1)
    thing = {
        "qp": second.qp, "cq": first.cq, "mr": first.mr, "pd": first.pd, "context": first.context,
    }[name]  # fmt: skip
    threading.Timer(0.1, thing.close).start()
    start = time.monotonic()
    while time.monotonic() - start < 10:
        try:
            run_slice(*ends)
        except rdmaqp.ClosedError as error:
            part = ends[1 if name == "qp" else 0]
            return [str(error), time.monotonic() - start < 5, str(error_of(part.post_receives))]
    return ["nothing stopped it"]


@pytest.mark.parametrize("name", ["qp", "cq", "mr", "pd", "context"])
def test_a_loop_ends_when_a_part_of_it_is_closed(null: Null, name: str) -> None:
    what, soon, after = null.run(closed_during_a_loop, name)
    assert what.startswith("this ")
    assert after.startswith("this ")
    assert soon


def closed_queue_pair_asked() -> list[str]:
    one, _ = connected()
    assert one.qp.state is QPState.RTS
    threads = [threading.Thread(target=one.context.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [call["call"] for call in calls(*ENDS)]


def test_closing_in_several_threads_at_once_is_closing_once(null: Null) -> None:
    assert null.run(closed_queue_pair_asked) == [QP, MR, PD] * 2 + [CQ, CQ, DEVICE]


def used_while_closing(name: str) -> list[str]:
    """A thread uses an object as fast as it can while another closes the device; fifty times, at other moments."""
    ended = set()
    for number in range(50):
        one = side()
        use = {
            "poll": one.cq.poll, "wait": lambda one=one: one.cq.wait(timeout=0.001), "query": one.qp.query,
            "modify": one.qp.reset, "make": lambda one=one: one.pd.alloc_mr(8).close(),
        }[name]  # fmt: skip

        def busy(use: Any = use) -> None:
            while True:
                try:
                    use()
                except rdmaqp.DeadlineError:
                    continue
                except rdmaqp.ClosedError as error:
                    ended.add(type(error).__name__)
                    return

        thread = threading.Thread(target=busy)
        thread.start()
        time.sleep(number / 20_000)
        one.context.close()
        thread.join()
    return [*ended, *{str(call["alive"]) for call in calls(DEVICE)}]


@pytest.mark.parametrize("name", ["poll", "wait", "query", "modify", "make"])
def test_what_is_in_use_is_closed_between_two_uses(null: Null, name: str) -> None:
    assert null.run(used_while_closing, name) == ["ClosedError", "0"]
    assert {call["result"] for call in null.calls(*ENDS)} == {0}


# ---------------------------------------------------------------------- mixed devices


def mixed() -> dict[str, str]:
    first, second = side(), side()  # two openings of one device are two devices
    channel = second.context.create_comp_channel()
    uses = {
        "send_cq": lambda: first.pd.create_qp(second.cq),
        "recv_cq": lambda: first.pd.create_qp(first.cq, second.cq),
        "channel": lambda: first.context.create_cq(4, channel),
        "post_send": lambda: first.qp.post_send(second.mr),
        "post_recv": lambda: first.qp.post_recv(second.mr),
        "another domain": lambda: first.qp.post_recv(first.context.alloc_pd().alloc_mr(8)),
    }
    return {name: type(error_of(use)).__name__ + ": " + str(error_of(use)) for name, use in uses.items()}


def test_objects_of_two_devices_do_not_mix(null: Null) -> None:
    answers = null.run(mixed)
    kinds = {name: answer.split(":")[0] for name, answer in answers.items()}
    creating, posting = dict.fromkeys(("send_cq", "recv_cq", "channel"), "ValueError"), "GuardError"
    assert kinds == creating | dict.fromkeys(("post_send", "post_recv", "another domain"), posting)
    assert all("another" in answer for name, answer in answers.items() if name != "another domain")
    assert "the region is of protection domain" in answers["another domain"]
    assert len(null.calls("ibv_create_qp")) == 2
