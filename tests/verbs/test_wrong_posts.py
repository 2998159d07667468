"""Wrong posts: each is refused by its rule, and nothing of it is posted, as the null device counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from null_side import AccessFlag, QPState, Side, calls, connected, error_of, rdmaqp, ready, said, side, stub

from rdmaqp import CompareSwap, FetchAdd, Read, Recv, RecvRecords, RemoteMemory, Send, SendRecords, Write

if TYPE_CHECKING:
    from conftest import Null

REMOTE = RemoteMemory(0x1000, 1 << 20, 7)
OPTIONS: dict[str, Any] = {
    "max_send_wr": 4, "max_recv_wr": 4, "max_send_sge": 2, "max_recv_sge": 2, "max_inline_data": 16,
}  # fmt: skip


def posts() -> dict[str, int]:
    """How many requests the library has been handed so far; ends the device."""
    for context in list(rdmaqp.verbs.device._open_contexts.values()):
        context.close()
    return {name: sum(call[name] for call in calls("ibv_close_device")) for name in ("sends", "receives")}


def foreign(one: Side) -> rdmaqp.MemoryRegion:
    return one.context.alloc_pd().alloc_mr(64)


def read_only(one: Side) -> rdmaqp.MemoryRegion:
    return one.pd.reg_mr(b"x" * 64, 0)


def filled(one: Side) -> None:
    for _ in range(3):
        one.qp.send(one.mr, signaled=False)
        one.qp.recv(one.mr)


def records(one: Side, **columns: Any) -> SendRecords:
    made = SendRecords(3)
    for at in range(3):
        made[at] = Write(one.mr[0:8], REMOTE, wr_id=at)
    for name, value in columns.items():
        made.array[name][2] = value
    return made


#: What is posted, how; and the rules by which it is refused. The last of several is the wrong one.
WRONG: dict[str, tuple[Callable[[Side], Any], list[str]]] = {
    "outside, as a piece": (
        lambda one: one.qp.post(Send(one.mr[0:8]), Send([one.mr[0:8], moved(one.mr[0:8], 60)])), ["post-sge"]
    ),
    "outside, as a record": (lambda one: one.qp.post_sends(records(one, addr=one.mr.addr + 60)), ["post-sge"]),
    "outside at the end of 64 bits": (lambda one: one.qp.post_sends(records(one, addr=2**64 - 4)), ["post-sge"]),
    "foreign domain": (lambda one: one.qp.send(foreign(one)), ["post-pd"]),
    "foreign domain, behind another": (lambda one: one.qp.post(Send(one.mr), Send(foreign(one))), ["post-pd"]),
    "foreign domain, as a receive": (lambda one: one.qp.recv(foreign(one)), ["post-pd"]),
    "foreign domain, as a record": (
        lambda one: one.qp.post_sends(records(one, lkey=foreign(one).lkey)), ["post-sge", "post-pd"]
    ),
    "too many pieces": (lambda one: one.qp.send([one.mr[0:1]] * 3), ["post-sge"]),
    "too many pieces to receive into": (lambda one: one.qp.recv([one.mr[0:1]] * 3), ["post-sge"]),
    "inline too long": (lambda one: one.qp.send(bytes(17), inline=True), ["post-inline"]),
    "inline too long, as a record": (
        lambda one: one.qp.post_sends(records(one, length=17, send_flags=8)), ["post-inline"]
    ),
    "inline of a read": (lambda one: one.qp.read(one.mr[0:8], REMOTE, inline=True), ["post-inline"]),
    "inline of an atomic": (lambda one: one.qp.fetch_add(one.mr[0:8], REMOTE, 1, inline=True), ["post-inline"]),
    "inline of a read, as a record": (
        lambda one: one.qp.post_sends(records(one, opcode=4, send_flags=8)), ["post-inline"]
    ),
    "no such opcode": (lambda one: one.qp.post_sends(records(one, opcode=13)), ["post-opcode"]),
    "an opcode past all": (lambda one: one.qp.post_sends(records(one, opcode=2**32 - 1)), ["post-opcode"]),
    "an atomic of 4 bytes": (lambda one: one.qp.compare_swap(one.mr[0:4], REMOTE, 1, 2), ["post-sge"]),
    "a read into memory that is not to be written": (
        lambda one: one.qp.read(read_only(one)[0:8], REMOTE), ["post-access"]
    ),
    "a receive into such": (lambda one: one.qp.recv(read_only(one)), ["post-access"]),
    "full": (lambda one: (filled(one), one.qp.post(Send(one.mr), Send(one.mr))), ["post-full"]),
    "full of receives": (lambda one: (filled(one), one.qp.post(Recv(one.mr), Recv(one.mr))), ["post-full"]),
    "full, records": (lambda one: (filled(one), one.qp.post_sends(records(one))), ["post-full"]),
    "full, chain": (lambda one: (filled(one), one.qp.chain(Send(one.mr), Send(one.mr)).post()), ["post-full"]),
    "full, run": (lambda one: (filled(one), one.qp.chain(Send(one.mr), Send(one.mr)).run()), ["post-full"]),
    "longer than the queue": (lambda one: one.qp.post(*[Send(one.mr)] * 5), ["post-full"]),
}  # fmt: skip


def moved(piece: rdmaqp.Slice, by: int) -> rdmaqp.Slice:
    """A slice that somebody has moved by hand: the region itself gives none that is outside."""
    piece.addr += by
    return piece


def wrong(name: str, policy: str) -> dict[str, Any]:
    one, _ = connected(**OPTIONS)
    stub(DROP=1)
    with rdmaqp.policy(policy), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            WRONG[name][0](one)
            answer = {"type": None}
        except Exception as error:  # the answer
            answer = said(error)
    return answer | {"warned": [str(warning.message) for warning in warned]} | posts()


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_by_its_rule_and_nothing_is_posted(null: Null, name: str) -> None:
    came = null.run(wrong, name, "strict")
    assert came["type"] == "GuardError", came
    assert [rule for rule, _ in came["errors"]] == WRONG[name][1]
    before = 3 if name.startswith("full") else 0
    assert (came["sends"], came["receives"]) == (before, before)


@pytest.mark.parametrize("mode", ["warn", "off"])
@pytest.mark.parametrize("name", ["foreign domain", "inline too long, as a record", "full", "inline of a read"])
def test_a_milder_policy_posts_all_the_same(null: Null, name: str, mode: str) -> None:
    came = null.run(wrong, name, mode)
    assert came["type"] is None, came
    n = {"inline too long, as a record": 3, "full": 5}.get(name, 1)
    assert came["sends"] == n
    assert [text for text in came["warned"] if WRONG[name][1][0] in text or mode == "warn"][:1] == came["warned"][:1]
    assert bool(came["warned"]) is (mode == "warn")


def in_state(goal: str, queue: str, how: str) -> dict[str, Any]:
    one = ready(goal) if goal in ("INIT", "RTR", "RTS") else side()
    sends = queue == "send"
    work = [Send(one.mr), Send(one.mr)] if sends else [Recv(one.mr), Recv(one.mr)]
    made: Any = SendRecords(2) if sends else RecvRecords(2)
    made[0], made[1] = work
    do = {
        "call": lambda: one.qp.send(one.mr) if sends else one.qp.recv(one.mr),
        "several": lambda: one.qp.post(*work),
        "chain": lambda: one.qp.chain(*work).post(),
        "run": lambda: one.qp.chain(*work).run(timeout=5),
        "records": lambda: (one.qp.post_sends if sends else one.qp.post_recvs)(made),
    }[how]
    return said(error_of(do)) | posts()


@pytest.mark.parametrize("how", ["call", "several", "chain", "run", "records"])
@pytest.mark.parametrize(("goal", "queue"), [("RESET", "send"), ("INIT", "send"), ("RTR", "send"), ("RESET", "recv")])
def test_a_state_that_takes_none(null: Null, goal: str, queue: str, how: str) -> None:
    if (how, queue) == ("run", "recv"):
        return  # a chain of receives is not run
    came = null.run(in_state, goal, queue, how)
    assert (came["type"], came["errors"]) == ("GuardError", [["post-state", "qp.state"]])
    assert (came["sends"], came["receives"]) == (0, 0)


def flushed(policy: str) -> list[Any]:
    one, _ = connected()
    one.qp.error()
    with rdmaqp.policy(policy), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        one.qp.send(one.mr)
    return [[str(warning.message) for warning in warned], posts()["sends"]]


@pytest.mark.parametrize("policy", ["strict", "off"])
def test_what_would_be_flushed_is_a_warning(null: Null, policy: str) -> None:
    told, sends = null.run(flushed, policy)
    words = ["in ERR the work only completes as WR_FLUSH_ERR" in text for text in told]
    assert (words, sends) == ([True] if policy == "strict" else [], 1)


def not_sent_by_datagrams() -> dict[str, Any]:
    one = side(qp_type="UD")
    one.qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qkey=1)
    opcodes = {}
    for work in (Read(one.mr[0:8], REMOTE), CompareSwap(one.mr[0:8], REMOTE, 1, 2), FetchAdd(one.mr[0:8], REMOTE, 1),
                 Write(one.mr, REMOTE), Send(one.mr, invalidate=5)):  # fmt: skip
        with rdmaqp.policy(ignore=["post-state"]):
            opcodes[type(work).__name__] = said(error_of(one.qp.chain, work))["errors"]
    return opcodes | posts()


def test_an_opcode_that_is_not_the_types(null: Null) -> None:
    by_rule = [["post-opcode", "opcode"]]
    came = null.run(not_sent_by_datagrams)
    assert came == dict.fromkeys(("Read", "CompareSwap", "FetchAdd", "Write", "Send"), by_rule) | {
        "sends": 0, "receives": 0
    }  # fmt: skip


def unknown_key() -> dict[str, Any]:
    one, _ = connected()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        one.qp.post_sends(records(one, lkey=0x123456, send_flags=2))
    answers = {"told": [str(warning.message) for warning in warned], "file": warned[0].filename}
    return answers | {"statuses": [wc.status_name for wc in one.cq.poll()]} | posts()


def test_a_key_that_nobody_knows_is_a_warning_since_a_list_of_regions_is_never_complete(null: Null) -> None:
    came = null.run(unknown_key)
    (told,) = came["told"]
    assert "0x123456 is the lkey of none of the known regions" in told
    assert (came["sends"], came["statuses"][-1]) == (3, "LOC_PROT_ERR")


def cut_short(how: str) -> dict[str, Any]:
    """A driver that takes four of the requests, and then has no room: the completion queue's, here."""
    context = rdmaqp.open()
    cq, pd = context.create_cq(4), context.alloc_pd()
    mr = pd.alloc_mr(64)
    qp = pd.create_qp(cq, max_send_wr=128)
    here = qp.endpoint(psn=1)
    qp.connect(here, here)
    before = 3 if how == "late" else 0
    work = [Send(mr[0:8], wr_id=at, signaled=how != "late" or at >= 70) for at in range(100)]
    made = SendRecords(100)
    for at, one in enumerate(work):
        made[at] = one
    stub(DROP=1)
    error = error_of((lambda: qp.post_sends(made)) if how != "chain" else qp.chain(*work).post)
    assert isinstance(error, rdmaqp.VerbsError)
    outstanding = qp.outstanding
    polled = [wc.wr_id for wc in cq.poll()]
    return said(error) | {"posted": error.posted, "outstanding": outstanding, "polled": polled, "left": qp.outstanding,
                          "before": before} | posts()  # fmt: skip


@pytest.mark.parametrize(("how", "posted"), [("records", 4), ("chain", 4), ("late", 74)])
def test_a_batch_that_is_taken_in_part_says_how_far(null: Null, how: str, posted: int) -> None:
    """With 64 requests handed over at once, "late" is in the second handful."""
    came = null.run(cut_short, how)
    assert (came["type"], came["errno"], came["posted"], came["sends"]) == ("VerbsError", 12, posted, posted)
    assert f"{posted} of 100 were posted before it" in came["text"]
    assert (came["outstanding"], came["polled"], came["left"]) == (posted, list(range(posted - 4, posted)), 0)


def closed_memory(how: str) -> dict[str, Any]:
    one, _ = connected(max_inline_data=64, max_send_sge=2)
    other = one.pd.alloc_mr(64)
    work = Send([one.mr[0:1], other[0:4]], inline=how == "inline")
    chain = one.qp.chain(Send(one.mr[0:8]), work)
    chain.post()
    another = one.pd.alloc_mr(64)
    another.close()
    chain.post()  # that was not one of its own
    other.close()
    answers = {"post": said(error_of(chain.post)), "run": said(error_of(chain.run, timeout=5))}
    one.pd.alloc_mr(64)  # perhaps at the same key and address
    again = said(error_of(chain.post))
    chain[1] = Send(one.mr[0:4])
    chain.post()
    return answers | {"again": again} | posts()


@pytest.mark.parametrize("how", ["named", "inline"])
def test_a_chain_whose_memory_is_closed_is_not_posted(null: Null, how: str) -> None:
    came = null.run(closed_memory, how)
    for name in ("post", "run", "again"):
        assert (came[name]["type"], came[name]["text"]) == (
            "ClosedError", "request 1 of this chain names a memory region that is closed"
        )  # fmt: skip
    assert came["sends"] == 6


def without_records(opcode: int, policy: str) -> dict[str, Any]:
    """These have pointers, which a driver follows: what was in the stack would be one."""
    one, _ = connected(max_send_wr=128) if opcode == 8 else (datagrams(), None)
    made = SendRecords(70)
    array = made.array
    array["opcode"], array["opcode"][69] = 2, opcode
    if opcode == 10:
        array["ah"] = one.pd.create_ah(rdmaqp.AddressVector(dlid=9)).number
    with rdmaqp.policy(policy):
        return said(error_of(one.qp.post_sends, made)) | posts()


def datagrams() -> Side:
    one = side(qp_type="UD", max_send_wr=128)
    one.qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qkey=1)
    one.qp.modify(qp_state="RTR")
    one.qp.modify(qp_state="RTS", sq_psn=1)
    return one


@pytest.mark.parametrize("policy", ["strict", "warn", "off"])
@pytest.mark.parametrize("opcode", [8, 10])
@pytest.mark.filterwarnings("ignore")
def test_opcodes_with_pointers_have_no_record(null: Null, opcode: int, policy: str) -> None:
    came = null.run(without_records, opcode, policy)
    assert (came["type"], came["sends"]) == ("ValueError", 0)
    assert "request 69: this opcode needs more than a record has room for" in came["text"]


def too_short_there() -> list[Any]:
    one, _ = connected(max_send_sge=2)
    short = REMOTE[0:7]
    tries = {
        "write": lambda: one.qp.write(one.mr[0:8], short), "pieces": lambda: one.qp.write([one.mr[0:4]] * 2, short),
        "read": lambda: one.qp.read(one.mr[0:8], short), "atomic": lambda: one.qp.fetch_add(one.mr[0:8], short, 1),
        "record": lambda: SendRecords(1).__setitem__(0, Write(one.mr[0:8], short)),
    }  # fmt: skip
    answers = {name: said(error_of(do)) for name, do in tries.items()}
    one.qp.write(one.mr[0:7], short)
    return [answers, posts()]


def test_remote_memory_is_as_long_as_it_is_said_to_be(null: Null) -> None:
    answers, count = null.run(too_short_there)
    assert {(answer["type"], answer["text"]) for answer in answers.values()} == {
        ("ValueError", "8 bytes here, and the remote memory that is named has 7")
    }
    assert count["sends"] == 1


def no_memory_of_ours() -> list[Any]:
    one, _ = connected(max_inline_data=16)
    made = SendRecords(2)
    return [
        said(error_of(do))
        for do in (
            lambda: one.qp.send(b"bytes"), lambda: one.qp.send([one.mr, b"x"]),
            lambda: one.qp.send("text", inline=True),
            lambda: one.qp.post(Send(one.mr), Recv(one.mr)), lambda: one.qp.chain(),
            lambda: made.__setitem__(0, Send(b"x", inline=True)), lambda: made.__setitem__(2, Send(one.mr)),
            lambda: one.qp.post_sends(RecvRecords(2)), lambda: one.qp.post_sends(bytearray(79)),
            lambda: one.qp.post_sends(made, 3), lambda: one.qp.send(one.mr, imm=1 << 32),
            lambda: one.qp.send(one.mr, imm=1.5), lambda: one.qp.post(one.mr), lambda: one.qp.post(Send(one.mr), 5),
        )
    ] + [posts()]  # fmt: skip


def test_what_is_no_work_is_said_in_words(null: Null) -> None:
    *answers, count = null.run(no_memory_of_ours)
    kinds = ["TypeError", "TypeError", "TypeError", "ValueError", "ValueError", "ValueError", "IndexError", "TypeError",
             "ValueError", "ValueError", "ValueError", "TypeError", "TypeError", "TypeError"]  # fmt: skip
    assert [answer["type"] for answer in answers] == kinds, answers
    assert "bytes is no registered memory" in answers[0]["text"]
    assert "inline=True" in answers[0]["text"]
    assert answers[10]["text"] == "imm_data: 4294967296 is outside 0…0xffffffff"
    assert count == {"sends": 0, "receives": 0}


def gathered_inline() -> str:
    """Bytes from registered and other memory, and none at all."""
    first, second = connected(max_inline_data=16, max_send_sge=4)
    first.mr.buffer[:4] = b"abcd"
    words = bytearray(b"ef")
    for _ in range(2):
        second.qp.recv(second.mr)
    first.qp.send([first.mr[0:4], words, b"gh"], inline=True)
    first.qp.send(inline=True)
    words.extend(b"it may be changed, and resized, at once")
    came = second.cq.poll()
    return f"{bytes(second.mr.buffer[:8]).decode()} {[wc.byte_len for wc in came]}"


def test_inline_bytes_are_gathered_from_anywhere(null: Null) -> None:
    assert null.run(gathered_inline) == "abcdefgh [8, 0]"


def state_and_error() -> list[Any]:
    """A queue pair that the hardware has moved: what was known of it is not believed."""
    one, _ = connected()
    stub(WC_STATUS="RETRY_EXC_ERR")
    one.qp.send(one.mr)
    stub(WC_STATUS=None)
    one.cq.poll()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        one.qp.send(one.mr)
    return [one.qp.last_state == QPState.ERR, [str(warning.message) for warning in warned]]


def test_after_a_failed_completion_the_state_is_asked_again(null: Null) -> None:
    moved_, told = null.run(state_and_error)
    assert moved_ is True
    assert "in ERR the work only completes as WR_FLUSH_ERR" in told[0]


def write_only_where_it_may(access: int) -> list[Any]:
    one, _ = connected()
    mr = one.pd.alloc_mr(64, access)
    return [said(error_of(one.qp.recv, mr))["type"]]


def test_a_region_without_local_write_receives_nothing(null: Null) -> None:
    assert null.run(write_only_where_it_may, int(AccessFlag.REMOTE_READ)) == ["GuardError"]


def of_closed_memory() -> list[Any]:
    one, _ = connected(max_send_sge=2, max_inline_data=64)
    region = one.pd.alloc_mr(64)
    piece = region[0:8]
    region.close()
    tries: list[Callable[[], Any]] = [
        lambda: one.qp.send(piece), lambda: one.qp.send(region), lambda: one.qp.recv(piece),
        lambda: one.qp.send([one.mr[0:1], piece]), lambda: one.qp.send(piece, inline=True),
        lambda: one.qp.chain(Send(one.mr), Send(piece)), lambda: SendRecords(1).__setitem__(0, Send(region[0:8])),
    ]  # fmt: skip
    return [{said(error_of(do))["type"] for do in tries} == {"ClosedError"}, posts()]


def test_a_piece_of_closed_memory_is_not_posted(null: Null) -> None:
    assert null.run(of_closed_memory) == [True, {"sends": 0, "receives": 0}]


def whose_failure() -> list[Any]:
    """A receive that fails, while a send of the same wr_id is under way, and they end in two queues."""
    context = rdmaqp.open()
    pd = context.alloc_pd()
    mr = pd.alloc_mr(64)
    queues = [context.create_cq(8) for _ in range(4)]
    first, second = pd.create_qp(*queues[:2]), pd.create_qp(*queues[2:])
    here, there = first.endpoint(psn=1), second.endpoint(psn=1)
    first.connect(here, there)
    second.connect(there, here)
    second.recv(mr[0:8])
    second.send(mr[0:8], signaled=False)
    first.send(mr[0:16])
    (wc,) = queues[3].poll()
    return [wc.status_name, second.outstanding, second.recv_posted]


def test_a_failed_receive_of_its_own_queue_is_not_taken_for_a_send(null: Null) -> None:
    assert null.run(whose_failure) == ["LOC_LEN_ERR", 1, 0]


def half_made() -> list[Any]:
    """A receive queue that is closed while the queue pair is made: the other one forgets it again."""
    one = side()
    sends, receives = one.context.create_cq(8), one.context.create_cq(8)
    receives.raw.lock.closed = 1
    error = said(error_of(one.pd.create_qp, sends, receives))
    used = sends.raw.used
    receives.raw.lock.closed = 0
    one.context.close()
    return [error["type"], used, calls("ibv_close_device")[0]["alive"]]


def test_a_queue_pair_that_could_not_be_made_is_noted_nowhere(null: Null) -> None:
    assert null.run(half_made) == ["ClosedError", 0, 0]
