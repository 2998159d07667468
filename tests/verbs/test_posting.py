"""Posting single work requests: what is inside the region, what is refused, what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from null_side import AddressVector, calls, connected, error_of, rdmaqp, ready, said, side, stub

if TYPE_CHECKING:
    from conftest import Null

BIG = 2**70


def spans(cases: list[list[int]]) -> list[Any]:
    """The offset into the region that each span begins at, or the error."""
    mr = side(size=64).mr
    answers = []
    for offset, length in cases:
        try:
            answers.append(mr.span(offset, length) - mr.addr)
        except ValueError as error:
            answers.append(str(error))
    return answers


def test_a_span_is_inside_its_region(null: Null) -> None:
    inside = [[0, 64], [0, 0], [64, 0], [63, 1], [10, 20]]
    outside = [[-1, 1], [0, 65], [64, 1], [65, 0], [10, -1], [-64, 64]]
    outside += [[BIG, 1], [1, BIG], [2**64 - 8, 16], [-BIG, BIG]]
    answers = null.run(spans, inside + outside)
    assert answers[: len(inside)] == [0, 0, 64, 63, 10]
    for (offset, length), answer in zip(outside, answers[len(inside) :], strict=True):
        assert answer == f"bytes {offset}…{offset + length} are not inside this region of 64 bytes"


def posted_wrongly(queue: str) -> dict[str, Any]:
    first, second = connected(size=64)
    post = {"send": first.qp.post_send, "recv": first.qp.post_recv}[queue]
    wrong = {
        "before": (-1, 4), "past the end": (61, 4), "too long": (0, 65), "negative": (8, -4), "offset alone": (65,),
        "huge": (0, BIG), "far": (BIG, 1),
    }  # fmt: skip
    answers = {name: said(error_of(post, first.mr, *arguments)) for name, arguments in wrong.items()}
    answers["fraction"] = said(error_of(post, first.mr, 1.5, 4))
    answers["wr_id"] = said(error_of(post, first.mr, wr_id=-1))
    answers["wr_id too long"] = said(error_of(post, first.mr, wr_id=1 << 64))
    second.context.close()
    (closed,) = calls("ibv_close_device")
    return {"types": {name: answer["type"] for name, answer in answers.items()}, "posts": closed["posts"]}


@pytest.mark.parametrize("queue", ["send", "recv"])
def test_what_is_not_inside_the_region_is_not_posted(null: Null, queue: str) -> None:
    came = null.run(posted_wrongly, queue)
    assert came["types"] == {
        "before": "ValueError", "past the end": "ValueError", "too long": "ValueError", "negative": "ValueError",
        "offset alone": "ValueError", "huge": "ValueError", "far": "ValueError", "fraction": "TypeError",
        "wr_id": "ValueError", "wr_id too long": "ValueError",
    }  # fmt: skip
    assert came["posts"] == 0


def longer_than_32_bits() -> list[Any]:
    """A region of 5 GiB, of which no page is ever touched."""
    one, _ = connected()
    mr = one.pd.alloc_mr(5 << 30)
    whole = said(error_of(one.qp.post_send, mr))
    one.qp.post_recv(mr, (5 << 30) - 16, 16)
    return [whole["type"], whole["text"], mr.span(5 << 30, 0) - mr.addr]


def test_a_message_of_more_than_32_bits_is_refused_and_not_cut(null: Null) -> None:
    kind, text, end = null.run(longer_than_32_bits)
    assert (kind, end) == ("ValueError", 5 << 30)
    assert text == f"length: {5 << 30} is outside 0…0xffffffff"


def parts(offset: int, length: int | None) -> list[Any]:
    first, second = connected(size=32)
    first.mr.buffer[:] = bytes(range(32))
    second.qp.post_recv(second.mr)
    first.qp.post_send(first.mr, offset, length, wr_id=2**64 - 1)
    sent, (received,) = first.cq.poll(), second.cq.poll()
    return [sent[0].wr_id == 2**64 - 1, received.byte_len, bytes(second.mr.buffer[: received.byte_len]).hex()]


@pytest.mark.parametrize(("offset", "length", "sent"), [(0, None, 32), (8, None, 24), (8, 4, 4), (32, None, 0)])
def test_the_bytes_from_the_offset_are_sent(null: Null, offset: int, length: int | None, sent: int) -> None:
    assert null.run(parts, offset, length) == [True, sent, bytes(range(offset, offset + sent)).hex()]


def unsignaled(signaled: bool, sq_sig_all: bool) -> int:
    first, second = connected(sq_sig_all=sq_sig_all)
    second.qp.post_recv(second.mr)
    first.qp.post_send(first.mr, signaled=signaled)
    return len(first.cq.poll())


@pytest.mark.parametrize(("signaled", "everything", "seen"), [(True, False, 1), (False, False, 0), (False, True, 1)])
def test_a_send_completes_where_that_is_asked_for(null: Null, signaled: bool, everything: bool, seen: int) -> None:
    assert null.run(unsignaled, signaled, everything) == seen


def refused(queue: str, number: int) -> dict[str, Any]:
    one, _ = connected()
    stub(**{f"POST_{queue.upper()}_ERRNO": number})
    error = error_of({"send": one.qp.post_send, "recv": one.qp.post_recv}[queue], one.mr)
    return said(error) | {"verb": getattr(error, "verb", None)}


@pytest.mark.parametrize("queue", ["send", "recv"])
@pytest.mark.parametrize("number", [12, -12, 22])
def test_a_post_that_is_refused_says_so(null: Null, queue: str, number: int) -> None:
    came = null.run(refused, queue, number)
    assert (came["type"], came["errno"], came["verb"]) == ("VerbsError", abs(number), f"ibv_post_{queue}")
    assert came["text"].startswith(f"RC queue pair 0x41 on null0: ibv_post_{queue} failed: ")


def full() -> list[Any]:
    one, _ = connected(max_recv_wr=3)
    posted = 0
    error: BaseException | None = None
    while error is None and posted < 10:
        try:
            one.qp.post_recv(one.mr)
            posted += 1
        except rdmaqp.GuardError as caught:
            error = caught
    return [posted, said(error or Exception())["errors"]]


def test_a_full_queue_takes_no_more(null: Null) -> None:
    assert null.run(full) == [3, [["post-full", "queue"]]]


def datagram() -> dict[str, Any]:
    """A provider follows the address handle of a datagram without looking whether there is one."""
    one = side(qp_type="UD")
    one.qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qkey=0x11111111)
    one.qp.post_recv(one.mr)
    one.qp.modify(qp_state="RTR")
    one.qp.modify(qp_state="RTS", sq_psn=1)
    ah = one.pd.create_ah(AddressVector(dlid=9))
    answer = said(error_of(one.qp.post_send, one.mr)) | {"handle": ah.closed}
    one.context.close()
    return answer | {"sends": calls("ibv_close_device")[0]["sends"]}


def test_a_datagram_without_an_address_handle_is_refused(null: Null) -> None:
    came = null.run(datagram)
    assert (came["type"], came["sends"]) == ("ValueError", 0)
    assert came["text"] == (
        "UD queue pair 0x41 on null0: request 0: a datagram needs a destination: to=Destination(ah, qp_num, qkey), "
        "with an open address handle"
    )


def too_early(state: str, queue: str) -> dict[str, Any]:
    one = ready(state) if state != "RESET" else side()
    answer = said(error_of(getattr(one.qp, f"post_{queue}"), one.mr))
    one.context.close()
    last = calls("ibv_close_device")[0]
    return answer | {"posted": last["sends"] + last["receives"]}


@pytest.mark.parametrize(("state", "queue"), [("RESET", "recv"), ("RESET", "send"), ("INIT", "send"), ("RTR", "send")])
def test_a_post_before_its_state_is_refused_before_the_call(null: Null, state: str, queue: str) -> None:
    """Soft-RoCE answers EINVAL, and sends it all the same once the queue pair is in RTS."""
    came = null.run(too_early, state, queue)
    assert (came["type"], came["posted"]) == ("GuardError", 0)
    assert f"in {state} nothing can be posted to the {queue} queue" in came["text"]
