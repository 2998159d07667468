"""The accounts of the work queues against a model: random posts, polls, failures and resets on the null device.

The null device completes everything at once and in order, and has room without end: what is outstanding is what the
program has not yet polled, and an unsignaled send is outstanding until a later one's completion is.
"""

from __future__ import annotations

import warnings
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from null_side import error_of, rdmaqp, ready, said, side, stub

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Null

SENDS, RECEIVES = 8, 4
THERE = rdmaqp.RemoteMemory(0, 64, 1)
RECEIVE = 1 << 32  # their wr_id; those of sends are small, and come again


class Model:
    """What a careful reader of the manual would keep in a list."""

    def __init__(self) -> None:
        self.sends: list[tuple[int, bool]] = []  # wr_id, signaled
        self.receives = 0

    def completed(self, wc: rdmaqp.WorkCompletion) -> None:
        if wc.wr_id == RECEIVE:
            self.receives -= 1
            return
        at = next(
            at for at, (wr_id, signaled) in enumerate(self.sends) if wr_id == wc.wr_id and (signaled or not wc.ok)
        )
        del self.sends[: at + 1]

    def is_stuck(self) -> bool:
        return len(self.sends) == SENDS and not any(signaled for _, signaled in self.sends)


class Run:
    """A queue pair that talks to itself, and its model."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.one = side(max_send_wr=SENDS, max_recv_wr=RECEIVES)
        self.qp, self.cq, self.model = self.one.qp, self.one.cq, Model()
        here = self.qp.endpoint(psn=1)
        self.qp.connect(here, here)
        self.chains: list[rdmaqp.Chain] = []

    def work(self) -> rdmaqp.Work:
        options: dict[str, Any] = {"wr_id": self.random.randrange(4), "signaled": self.random.random() < 0.35}
        part = self.one.mr[0:8]
        return rdmaqp.Write(part, THERE, **options) if self.random.random() < 0.7 else rdmaqp.Send(part, **options)

    def works(self, most: int) -> list[rdmaqp.Work]:
        return [self.work() for _ in range(self.random.randint(1, most))]

    def attempt(self, works: list[rdmaqp.Work], post: Callable[[], object]) -> None:
        """Post, and compare what is said with what the model knows of the room."""
        fits = len(self.model.sends) + len(works) <= SENDS
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            refused = None
            try:
                post()
            except rdmaqp.GuardError as error:
                refused = {finding.rule for finding in error.report.errors}
        assert refused == (None if fits else {"post-full"})
        if not fits:
            return
        self.model.sends += [(work.wr_id, work.signaled) for work in works]
        warned = any("nothing will free it" in str(one.message) for one in caught)
        assert warned == self.model.is_stuck()

    def one_send(self) -> None:
        work = self.work()
        self.attempt([work], lambda: self.qp.post(work))

    def several(self) -> None:
        works = self.works(5)
        self.attempt(works, lambda: self.qp.post(*works))

    def records(self) -> None:
        works = self.works(9)
        records = rdmaqp.SendRecords(len(works))
        for at, work in enumerate(works):
            records[at] = work
        self.attempt(works, lambda: self.qp.post_sends(records))

    def a_chain_again(self) -> None:
        if len(self.chains) < 3:
            self.chains.append(self.qp.chain(*self.works(4)))
        chain = self.random.choice(self.chains)
        chain[0] = self.work()
        self.attempt([chain[at] for at in range(len(chain))], chain.post)  # type: ignore[misc]

    def a_chain_that_is_run(self) -> None:
        works = self.works(4)
        works[-1].signaled = True
        if len(self.model.sends) + len(works) > SENDS:
            return
        self.qp.chain(*works).run(timeout=20)
        kept = [wc for wc in self.polled(64) if wc.wr_id != RECEIVE or self.model.completed(wc)]
        assert [wc.wr_id for wc in kept] == [wr_id for wr_id, signaled in self.model.sends if signaled]
        self.model.sends.clear()

    def receive(self) -> None:
        fits = self.model.receives < RECEIVES
        try:
            self.qp.recv(self.one.mr[0:8], wr_id=RECEIVE)
        except rdmaqp.GuardError:
            assert not fits
        else:
            assert fits, "over-full"
            self.model.receives += 1

    def polled(self, most: int) -> list[rdmaqp.WorkCompletion]:
        found: list[rdmaqp.WorkCompletion] = []
        while more := self.cq.poll(most - len(found)):
            found += more
        return found

    def poll(self) -> None:
        for wc in self.polled(self.random.randint(1, 6)):
            self.model.completed(wc)

    def refused_by_the_driver(self) -> None:
        if len(self.model.sends) + 2 < SENDS:
            stub(POST_SEND_ERRNO=12)
            assert isinstance(error_of(self.qp.post, self.work(), self.work()), rdmaqp.VerbsError)
            stub(POST_SEND_ERRNO=None)

    def fail(self) -> None:
        """One fails, and the queue pair stands in ERR."""
        if len(self.model.sends) < SENDS - 1:
            stub(WC_STATUS="RETRY_EXC_ERR")
            self.one_send()
            stub(WC_STATUS=None)
            for wc in self.polled(64):
                self.model.completed(wc)
            self.check()
            self.reset()

    def reset(self) -> None:
        self.polled(64)  # the null device keeps what has completed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.qp.reset()
            here = self.qp.endpoint(psn=1)
            self.qp.connect(here, here)
        self.model = Model()

    def check(self) -> None:
        model = self.model
        assert self.qp.outstanding == len(model.sends)
        assert self.qp.signaled == any(signaled for _, signaled in model.sends)
        assert self.qp.recv_posted == model.receives

    def go(self, steps: int) -> None:
        often = [self.one_send, self.several, self.records, self.a_chain_again, self.receive, self.poll, self.poll]
        seldom = [self.a_chain_that_is_run, self.refused_by_the_driver, self.fail, self.reset]
        for _ in range(steps):
            self.random.choice(often if self.random.random() < 0.85 else seldom)()
            self.check()
        self.is_not_stuck()

    def is_not_stuck(self) -> None:
        """Whatever was done: once polled, the queue has room for a signaled send, or was said to be stuck."""
        for wc in self.polled(64):
            self.model.completed(wc)
        self.check()
        if self.model.is_stuck():
            return
        self.qp.write(self.one.mr[0:8], THERE)
        assert [wc.ok for wc in self.polled(64)] == [True]
        assert self.qp.outstanding == 0


def against_the_model(examples: int) -> int:
    from hypothesis import given, settings, strategies

    tried = 0

    @settings(max_examples=examples, deadline=None, database=None)
    @given(strategies.randoms(use_true_random=False), strategies.integers(1, 60))
    def holds(random: Random, steps: int) -> None:
        nonlocal tried
        tried += 1
        run = Run(random)
        try:
            run.go(steps)
        finally:
            stub(POST_SEND_ERRNO=None, WC_STATUS=None)
            run.one.context.close()

    holds()
    return tried


def test_the_accounts_say_what_is_outstanding(null: Null) -> None:
    assert null.run(against_the_model, 30) >= 30


def taken_in_part() -> list[Any]:
    """The null device takes sends until its completion queue is full."""
    one = side()
    cq = one.context.create_cq(2)
    qp = one.pd.create_qp(cq, max_send_wr=4)
    here = qp.endpoint(psn=1)
    qp.connect(here, here)
    error = error_of(qp.post, *(rdmaqp.Write(one.mr[0:8], THERE, wr_id=at, signaled=at != 1) for at in range(4)))
    after = [qp.outstanding, qp.signaled, getattr(error, "posted", None)]
    polled = [wc.wr_id for wc in cq.poll()]
    return [*after, polled, qp.outstanding]


def test_of_a_call_that_was_taken_in_part_only_that_part_counts(null: Null) -> None:
    assert null.run(taken_in_part) == [3, True, 3, [0, 2], 0]


def receives_taken_in_part(shared: bool) -> list[Any]:
    """A driver that has room for four receives, whatever the account says; and one that takes none."""
    one = side(max_recv_wr=4)
    takes: Any = one.pd.create_srq(4) if shared else ready("INIT", context=one.context, max_recv_wr=4).qp
    pd = takes.pd
    mr = one.mr if pd is one.pd else pd.alloc_mr(64)
    (takes.raw.queue if shared else takes.raw.rq).room = 16
    found: list[Any] = []
    for count in (3, 3):
        try:
            takes.post(*[rdmaqp.Recv(mr[0:8])] * count)
            found.append(None)
        except rdmaqp.VerbsError as error:
            found.append(error.posted)
        found.append(takes.recv_posted)
    records = rdmaqp.RecvRecords(2)
    records[0] = records[1] = rdmaqp.Recv(mr[0:8])
    stub(POST_RECV_ERRNO=12)
    failed = error_of(takes.post_recvs, records)
    stub(POST_RECV_ERRNO=None)
    return [*found, getattr(failed, "posted", None), takes.recv_posted]


@pytest.mark.parametrize("shared", [False, True], ids=["its own queue", "a shared one"])
def test_of_receives_that_were_taken_in_part_only_that_part_counts(null: Null, shared: bool) -> None:
    assert null.run(receives_taken_in_part, shared) == [None, 3, 1, 4, 0, 4]


def filled(how: str) -> dict[str, Any]:
    """Fill a queue of four with unsignaled sends, and try one more."""
    one = ready("RTS", max_send_wr=4, sq_sig_all=how == "sq_sig_all")
    works = [rdmaqp.Write(one.mr[0:8], THERE, signaled=how == "first signaled" and not at) for at in range(4)]
    records = rdmaqp.SendRecords(4)
    for at, work in enumerate(works):
        records[at] = work
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how == "records":
            one.qp.post_sends(records)
        elif how == "chain":
            one.qp.chain(*works).post()
        else:
            for work in works:
                one.qp.post(work)
    return {
        "warned": [str(one.message).splitlines()[0] for one in caught], "outstanding": one.qp.outstanding,
        "more": said(error_of(one.qp.write, one.mr[0:8], THERE))["errors"],
    }  # fmt: skip


def test_a_queue_filled_with_unsignaled_sends_is_warned_of(null: Null) -> None:
    for how in ("one by one", "records", "chain"):
        came = null.run(filled, how)
        assert came["outstanding"] == 4, how
        assert came["more"] == [["post-full", "queue"]], how
        (warned,) = came["warned"]
        assert "none of those under way is signaled: nothing will free it" in warned


def test_a_queue_with_a_signaled_send_is_not(null: Null) -> None:
    for how in ("first signaled", "sq_sig_all"):
        assert null.run(filled, how) == {"warned": [], "outstanding": 4, "more": [["post-full", "queue"]]}


def of_a_life_before() -> list[int]:
    """A completion that was not polled before a RESET stands for no send after it."""
    one = ready("RTS", max_send_wr=4)
    here = one.qp.endpoint(psn=1)
    one.qp.write(one.mr[0:8], THERE, wr_id=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one.qp.reset()
        one.qp.connect(here, here)
    one.qp.write(one.mr[0:8], THERE, wr_id=2)
    outstanding = [one.qp.outstanding]
    for _ in range(2):
        one.cq.poll(1)
        outstanding.append(one.qp.outstanding)
    return outstanding


def test_a_completion_from_before_a_reset_frees_nothing(null: Null) -> None:
    assert null.run(of_a_life_before) == [1, 1, 0]


def run_again(how: str) -> list[Any]:
    """A chain whose run ended at its deadline, and then what *how* says."""
    one = ready("RTS", max_send_wr=4)
    here = one.qp.endpoint(psn=1)
    chain = one.qp.chain(rdmaqp.Write(one.mr[0:8], THERE, wr_id=1))
    other = one.qp.chain(rdmaqp.Write(one.mr[0:8], THERE, wr_id=2))
    stub(HIDE=1)
    late = type(error_of(chain.run, timeout=0.01)).__name__
    stub(HIDE=None)
    if how == "reset":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.qp.reset()
            one.cq.poll()
            one.qp.connect(here, here)
    elif how == "polled":
        one.cq.poll()
    elif how == "another":
        other.run(timeout=20)
    chain.run(timeout=20)
    one.context.close()
    return [late, len(one.qp.transitions)]


def test_a_run_goes_on_whoever_has_taken_its_completions(null: Null) -> None:
    for how in ("nothing", "polled", "another", "reset"):
        assert null.run(run_again, how)[0] == "DeadlineError", how


def for_nothing() -> dict[str, Any]:
    """Two queue pairs on a device with a free hot path (the null device's ``HOT``)."""
    one = side(max_send_wr=8)
    other = side(one.context)
    ends = [one.qp.endpoint(psn=1), other.qp.endpoint(psn=2)]
    one.qp.connect(*ends)
    other.qp.connect(*reversed(ends))
    other.qp.recv(other.mr[0:32], wr_id=7)
    works = [rdmaqp.Send(one.mr[0:8], wr_id=at, signaled=at == 2) for at in range(3)]
    one.qp.post(*works)
    outstanding = one.qp.outstanding
    sent, received = one.cq.poll(), other.cq.poll()
    return {
        "outstanding": [outstanding, one.qp.outstanding], "receives": other.qp.recv_posted,
        "sent": [[wc.wr_id, wc.ok, wc.opcode_name] for wc in sent],
        "received": [[wc.wr_id, wc.ok, wc.opcode_name, wc.byte_len] for wc in received],
    }  # fmt: skip


def test_the_free_hot_path_completes_what_is_signaled(null: Null) -> None:
    assert null.run(for_nothing, HOT="free") == {
        "outstanding": [3, 0], "receives": 0, "sent": [[2, True, "SEND"]], "received": [[7, True, "RECV", 8]],
    }  # fmt: skip


def replaced_by_none() -> list[Any]:
    """A chain's datagram, in whose place one without a destination is to be put."""
    one = side(qp_type="UD")
    one.qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qkey=1)
    one.qp.modify(qp_state="RTR")
    one.qp.modify(qp_state="RTS", sq_psn=1)
    to = rdmaqp.Destination(one.pd.create_ah(rdmaqp.AddressVector(dlid=9)), 7, 1)
    chain = one.qp.chain(rdmaqp.Send(one.mr[0:8], to=to, wr_id=3))
    refused = type(error_of(chain.__setitem__, 0, rdmaqp.Send(one.mr[0:8], wr_id=4))).__name__
    chain.post()
    return [refused, [wc.wr_id for wc in one.cq.poll()]]


def test_what_cannot_be_put_into_a_chain_leaves_it_as_it_was(null: Null) -> None:
    """A driver would follow the address handle that is not there."""
    assert null.run(replaced_by_none) == ["ValueError", [3]]
