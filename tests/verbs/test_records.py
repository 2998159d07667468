"""Arrays of records: what has their fields is posted, and nothing else of that length; what the numbers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from null_side import connected, error_of, native, rdmaqp, said, stub

from rdmaqp import (
    RECV_DTYPE,
    SEND_DTYPE,
    Recv,
    RecvRecords,
    RemoteMemory,
    Send,
    SendFlag,
    SendRecords,
    Write,
    WROpcode,
)

if TYPE_CHECKING:
    from conftest import Null

REMOTE = RemoteMemory(0x1000, 64, 7)


def filled(layout: Any, one: Any) -> Any:
    import numpy as np

    array = np.zeros(2, layout)
    array["addr"], array["length"], array["lkey"] = one.mr.addr, 8, one.mr.lkey
    array["opcode"], array["send_flags"] = WROpcode.SEND, SendFlag.SIGNALED | SendFlag.SOLICITED
    array["wr_id"] = 5, 6
    return array


def layouts() -> list[Any]:
    import numpy as np

    one, _ = connected()
    stub(DROP=1)
    good = filled(SEND_DTYPE, one)
    for array in (good, good.view(np.recarray), filled(np.dtype(SEND_DTYPE, align=True), one), good.view("u1")):
        one.qp.post_sends(array)
    came = [wc.wr_id for wc in one.cq.poll()]
    other = [[("x", "u8", 10)], SEND_DTYPE[1:] + SEND_DTYPE[:1], np.dtype(SEND_DTYPE).newbyteorder(">")]
    wrong = [error_of(one.qp.post_sends, np.zeros(1, layout)) for layout in other]
    swapped = [RECV_DTYPE[1], RECV_DTYPE[0], *RECV_DTYPE[2:]]
    wrong.append(error_of(one.qp.post_recvs, np.zeros(1, swapped)))
    return [came, [said(error) for error in wrong], one.qp.outstanding, one.qp.recv_posted]


def test_an_array_of_other_fields_is_not_taken_for_records(null: Null) -> None:
    """As bytes it would be posted: another column's numbers for an address."""
    came, wrong, *posted = null.run(layouts)
    assert (came, posted) == ([5, 6] * 4, [0, 0])
    assert {error["type"] for error in wrong} == {"ValueError"}
    assert [error["text"].partition(" where")[0] for error in wrong] == [
        *["these records have no wr_id of uint64"] * 4
    ]  # fmt: skip
    assert ["SEND_DTYPE" in error["text"] for error in wrong] == [True, True, True, False]


def the_other_kind() -> list[Any]:
    one, _ = connected()
    sends, receives = SendRecords(3), RecvRecords(30)
    sends[0] = Write(one.mr[0:8], REMOTE, wr_id=7)
    before = bytes(sends._bytes), bytes(receives._bytes)
    said = [str(error_of(sends.__setitem__, 1, Recv(one.mr[0:4]))), str(error_of(receives.__setitem__, 1, Send()))]
    return [said, (bytes(sends._bytes), bytes(receives._bytes)) == before]


def test_a_record_of_the_other_queue_changes_nothing(null: Null) -> None:
    """It is of another length: it would be written over the entries beside."""
    assert null.run(the_other_kind) == [
        ["these are SendRecords, and Recv goes to the other queue", "these are RecvRecords, and Send goes to the other "
         "queue"], True,
    ]  # fmt: skip


def flags_of_the_compiler() -> list[int]:
    lib = native().lib
    return [lib.IBV_SEND_FENCE, lib.IBV_SEND_SIGNALED, lib.IBV_SEND_SOLICITED, lib.IBV_SEND_INLINE]


def test_flags_are_the_compilers_and_opcodes_those_that_the_objects_have(null: Null) -> None:
    ours = [SendFlag.FENCE, SendFlag.SIGNALED, SendFlag.SOLICITED, SendFlag.INLINE]
    assert null.run(flags_of_the_compiler) == ours
    assert [Send().code(), Send(imm=1).code(), Send(invalidate=1).code()] == [
        WROpcode.SEND, WROpcode.SEND_WITH_IMM, WROpcode.SEND_WITH_INV
    ]  # fmt: skip


def flags_of(**options: Any) -> int:
    return Send(**options).as_record()[dict(SEND_FIELDS)["send_flags"]]


SEND_FIELDS = [(name, at) for at, (name, _) in enumerate(SEND_DTYPE)]


def test_what_is_true_sets_its_own_flag_and_no_other() -> None:
    assert flags_of(signaled=2) == SendFlag.SIGNALED
    assert flags_of(signaled=0, fence=8, solicited="yes") == SendFlag.FENCE | SendFlag.SOLICITED
    assert flags_of(signaled=False, inline=3) == SendFlag.INLINE


def not_a_request() -> list[Any]:
    import numpy as np

    one, _ = connected(max_inline_data=64)
    tries = [
        lambda: one.qp.send(one.mr[0:4], imm=1, invalidate=7), lambda: one.qp.post(rdmaqp.Work()),
        lambda: one.qp.bind(None, one.mr[0:8], 0), lambda: one.qp.send("text", inline=True),
        lambda: one.qp.send(np.zeros(8, "u1")[::2], inline=True),
        lambda: one.qp.fetch_add(one.mr[0:8], RemoteMemory(0x1004, 8, 7), 1),
        lambda: one.qp.chain(rdmaqp.CompareSwap(one.mr[0:8], RemoteMemory(0x1001, 8, 7), 1, 2)),
        lambda: one.cq.poll_into([]), lambda: one.cq.wait_into(rdmaqp.Completions(1), timeout="1"),
        lambda: one.qp.chain(Send(one.mr[0:4])).run(timeout="1"),
        lambda: rdmaqp.Stream(one.qp, Write(one.mr[0:4], REMOTE), count=1).run(timeout="1"),
    ]  # fmt: skip
    return [[f"{type(error).__name__}: {error}" for error in map(error_of, tries)], one.qp.outstanding]


def test_what_cannot_be_done_is_said_in_words(null: Null) -> None:
    texts, outstanding = null.run(not_a_request)
    for text, words in zip(texts, (
        "ValueError: Send: a message carries imm, or invalidate, and not both", "TypeError: Work is no work request",
        "TypeError: Bind(): window is None; expected a memory window", "TypeError: str has no bytes to be copied",
        "ValueError: this memory has gaps or another order (shape (4,), strides (2,))",
        "ValueError: an atomic is on 8 bytes at a multiple of 8, and their address there is 0x1004",
        "ValueError: an atomic is on 8 bytes at a multiple of 8, and their address there is 0x1001",
        "TypeError: poll_into(): completions is [], a list; expected Completions",
        *[f"TypeError: {name}(): timeout is '1', a str; expected a number or None" for name in (
            "wait", "run", "transfer")],
    ), strict=True):  # fmt: skip
        assert words in text
    assert outstanding == 0
