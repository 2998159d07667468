"""Memory windows on the null device: keys, what is refused, what ends when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from null_side import AccessFlag, Side, calls, connected, error_of, rdmaqp, said, side, stub

from rdmaqp import Bind, Send

if TYPE_CHECKING:
    from conftest import Null

WINDOWS = {"MAX_MW": 16, "DEVICE_CAP_FLAGS": 1 << 24}
READ, WRITE, BIND = int(AccessFlag.REMOTE_READ), int(AccessFlag.REMOTE_WRITE), int(AccessFlag.MW_BIND)


def bindable(one: Side, access: int = BIND | 1) -> rdmaqp.MemoryRegion:
    return one.pd.alloc_mr(64, access)


def keys() -> list[Any]:
    one, _ = connected()
    region, window = bindable(one), one.pd.alloc_mw()
    found: list[Any] = [window.rkey & 0xFF, said(error_of(lambda: window.remote))["text"], repr(window)]
    for _ in range(3):
        remote = one.qp.bind(window, region[8:24], READ)
        early = said(error_of(lambda: window.remote))["text"]
        (wc,) = one.cq.poll()
        found.append([remote.rkey & 0xFF, remote.addr - region.addr, remote.length, window.remote == remote, early,
                      wc.opcode_name, window.handle.rkey == remote.rkey])  # fmt: skip
        one.qp.invalidate(window)
        found.append(said(error_of(lambda: window.remote))["type"])
        one.cq.poll()
    assert window.rkey >> 8 == remote.rkey >> 8
    return found


def test_each_bind_has_the_next_key_and_tells_it_once_it_has_completed(null: Null) -> None:
    first, unbound, shown, *turns = null.run(keys, **WINDOWS)
    assert first == 0xFE
    assert "bound to nothing: qp.bind(window, region[0:64], access)" in unbound
    assert "free" in shown
    assert [turn[0] for turn in turns[::2]] == [0xFF, 0, 1]
    assert all(turn[1:4] == [8, 16, True] and turn[5:] == ["BIND_MW", True] for turn in turns[::2])
    assert all("has not completed: poll the queue of RC queue pair" in turn[4] for turn in turns[::2])
    assert turns[1::2] == ["ValueError"] * 3


def unsignaled() -> list[Any]:
    one, _ = connected()
    window = one.pd.alloc_mw()
    bind = Bind(window, bindable(one), READ, signaled=False)
    one.qp.post(Send(one.mr, signaled=False), bind, Send(one.mr))
    early = type(error_of(lambda: window.remote)).__name__
    one.cq.poll()
    return [early, window.remote == bind.remote]


def test_a_bind_that_is_not_signaled_completes_with_the_next_that_is(null: Null) -> None:
    assert null.run(unsignaled, **WINDOWS) == ["ValueError", True]


def in_a_chain(how: str) -> list[Any]:
    """What a chain binds is bound: the window tells the peer's memory, and its next key is another."""
    one, _ = connected()
    window, region = one.pd.alloc_mw(), bindable(one)
    bind = Bind(window, region[8:24], READ)
    chain = one.qp.chain(Send(one.mr[0:8], signaled=False), bind, Send(one.mr[0:8]))
    if how == "late":
        stub(HIDE=1)
        assert isinstance(error_of(chain.run, timeout=0.01), rdmaqp.DeadlineError)
        stub(HIDE=None)
    if how == "post":
        chain.post()
        one.cq.poll()
    else:
        chain.run(timeout=5)
    found = [window.remote == bind.remote, window.next_rkey != bind.rkey, "bound to 16 bytes" in repr(window)]
    one.qp.close()
    return [*found, window.closed]


@pytest.mark.parametrize("how", ["post", "run", "late"])
def test_a_window_knows_what_a_chain_has_bound_it_to(null: Null, how: str) -> None:
    assert null.run(in_a_chain, how, **WINDOWS) == [True, True, True, True]


def region_in_use() -> list[str]:
    """Soft-RoCE ends no region to which a window is bound."""
    one, _ = connected()
    window, region = one.pd.alloc_mw(), bindable(one)
    one.qp.bind(window, region[8:24], READ)
    stub(DEREG_MR_ERRNO=22)
    found = [str(error_of(region.close)).splitlines()[-1]]
    one.qp.invalidate(window)
    found.append(str(error_of(region.close)).splitlines()[-1])
    stub(DEREG_MR_ERRNO=None)
    region.close()
    return found


def test_a_region_that_does_not_end_names_the_window_that_is_bound_to_it(null: Null) -> None:
    bound, free = null.run(region_in_use, **WINDOWS)
    assert bound.startswith("<memory window, rkey 0x")
    assert bound.endswith("bound to 16 bytes> is bound to it: qp.invalidate(window), or window.close(), before.")
    assert free == "memory region: ibv_dereg_mr failed: Invalid argument (EINVAL, 22)"


def told_of_an_end() -> list[Any]:
    first, second = connected()
    for _ in range(2):
        second.qp.recv(second.mr)
    first.qp.send(first.mr[0:8], invalidate=0x80FEED01)
    first.qp.send(first.mr[0:8], imm=5)
    return [[wc.invalidated_rkey, wc.imm, wc.byte_len] for wc in second.cq.poll()]


def test_the_receiver_is_told_which_key_has_ended(null: Null) -> None:
    """A key is a number of this machine's, in its own byte order; immediate data is not."""
    assert null.run(told_of_an_end) == [[0x80FEED01, None, 8], [None, 5, 8]]


def wrong(how: str) -> dict[str, Any]:
    one, _ = connected()
    window, region = one.pd.alloc_mw(), bindable(one)
    elsewhere = one.context.alloc_pd()
    do = {
        "no MW_BIND": lambda: one.qp.bind(window, one.mr[0:8], READ),
        "no LOCAL_WRITE": lambda: one.qp.bind(window, bindable(one, BIND), WRITE),
        "no bytes": lambda: one.qp.bind(window, region[8:8], READ),
        "outside": lambda: one.qp.bind(window, region[8:65], READ),
        "foreign region": lambda: one.qp.bind(window, elsewhere.alloc_mr(64, BIND), READ),
        "foreign window": lambda: one.qp.bind(elsewhere.alloc_mw(), region, READ),
        "inline": lambda: one.qp.bind(window, region, READ, inline=True),
        "access in words": lambda: one.qp.bind(window, region, "REMOTE_READ"),
    }[how]
    before = window.rkey
    answer = said(error_of(do)) | {"key": window.rkey == before}
    one.context.close()
    return answer | {"sends": calls("ibv_close_device")[0]["sends"]}


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("no MW_BIND", "GuardError", "a window is bound to the region, which has no MW_BIND"),
        ("no LOCAL_WRITE", "GuardError", "the window lets the peer write into the region, which has no LOCAL_WRITE"),
        ("no bytes", "GuardError", "a window of type 2 is bound to at least 1 byte"),
        ("outside", "ValueError", "bytes 8…65 are not inside this region of 64 bytes"),
        ("foreign region", "GuardError", "the region is of protection domain"),
        ("foreign window", "ValueError", "the window is of another protection domain"),
        ("inline", "GuardError", "BIND_MW carries none of our bytes"),
        ("access in words", "TypeError", "Bind(): access is 'REMOTE_READ', a str; expected an AccessFlag"),
    ],
)
def test_a_bind_that_cannot_be(null: Null, how: str, error: str, words: str) -> None:
    came = null.run(wrong, how, **WINDOWS)
    assert (came["type"], came["sends"], came["key"]) == (error, 0, True)
    assert words in came["text"]


def none_there() -> dict[str, Any]:
    return said(error_of(side().pd.alloc_mw))


@pytest.mark.parametrize(("flags", "more"), [(0, ""), (1 << 17, ", of type 1 alone")])
def test_a_device_without_windows_says_so(null: Null, flags: int, more: str) -> None:
    came = null.run(none_there, DEVICE_CAP_FLAGS=flags)
    assert (came["type"], came["errno"]) == ("VerbsError", 95)
    assert f"null0 says that it has none of type 2{more} (device_cap_flags)" in came["text"]


def test_a_device_that_has_no_more_says_how_many_it_has(null: Null) -> None:
    came = null.run(none_there, **WINDOWS, ALLOC_MW_ERRNO=12)
    assert (came["type"], came["errno"]) == ("VerbsError", 12)
    assert "null0 says that it has memory windows of type 2, 16 at most (max_mw)" in came["text"]


def with_its_queue_pair() -> list[Any]:
    """Of four windows: bound, invalidated, bound to another queue pair since, closed before."""
    one, other = connected()
    region = bindable(one)
    bound, free, moved, closed = (one.pd.alloc_mw() for _ in range(4))
    for window in (bound, free, moved, closed):
        one.qp.bind(window, region, READ)
    for window in (free, moved):
        one.qp.invalidate(window)
    second = one.pd.create_qp(one.cq)
    here = second.endpoint(psn=1)
    second.connect(here, here)
    second.bind(moved, region, READ)
    closed.close()
    before = len(calls("ibv_dealloc_mw"))
    one.qp.close()
    order = [call["call"] for call in calls("ibv_dealloc_mw", "ibv_destroy_qp")][before:]
    states = [window.closed for window in (bound, free, moved)]
    second.close()
    return [order, states, moved.closed, free.closed, said(error_of(bound.require_open))["text"], other.qp.closed]


def test_a_queue_pair_ends_after_the_windows_that_are_bound_to_it(null: Null) -> None:
    """Soft-RoCE waits for them, without end but for its patience."""
    assert null.run(with_its_queue_pair, **WINDOWS) == [
        ["ibv_dealloc_mw", "ibv_destroy_qp"], [True, False, False], True, False,
        "this memory window is closed, as its queue pair is", False,
    ]  # fmt: skip


def ended() -> list[Any]:
    """A driver follows a bind's pointers: one whose window or region has ended is never handed to it."""
    one, _ = connected()
    window, region = one.pd.alloc_mw(), bindable(one)
    by_window = one.qp.chain(Bind(window, region, READ))
    by_region = one.qp.chain(Bind(one.pd.alloc_mw(), region, READ))
    by_window.post()
    stub(DEALLOC_MW_ERRNO=16)
    refused = said(error_of(window.close))["errno"]
    by_window.post()
    stub(DEALLOC_MW_ERRNO=None)
    window.close()
    region_of_window = said(error_of(by_window.post))["text"]
    region.close()
    answers = [refused, region_of_window, said(error_of(by_region.post))["text"]]
    one.context.close()
    ends = [call["call"] for call in calls("ibv_dealloc_mw", "ibv_destroy_qp", "ibv_dereg_mr", "ibv_dealloc_pd")]
    (last,) = calls("ibv_close_device")
    return [*answers, ends, last["sends"], last["alive"]]


def test_a_chain_with_a_window_that_has_ended_is_not_posted(null: Null) -> None:
    refused, window, region, ends, sends, alive = null.run(ended, **WINDOWS)
    assert (refused, sends, alive) == (16, 2, 0)
    assert window == "request 0 of this chain names a memory window that is closed"
    assert region == "request 0 of this chain names a memory region that is closed"
    # The first two are the window's, refused and not; then the order in which a device ends: windows come first.
    assert ends[:3] == ["ibv_dealloc_mw", "ibv_dealloc_mw", "ibv_dereg_mr"]
    assert ends[3:7] == ["ibv_dealloc_mw", "ibv_destroy_qp", "ibv_dereg_mr", "ibv_dealloc_pd"]
