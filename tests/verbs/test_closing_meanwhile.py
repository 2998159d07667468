"""One thread closes what another posts to, runs or polls, in a tight loop: ClosedError, and never a crash or a hang."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest
from null_side import AddressVector, rdmaqp, side, stub

if TYPE_CHECKING:
    from conftest import Null

SECONDS = 0.1  # of rounds, for each use and each object that is closed
THERE = rdmaqp.RemoteMemory(0, 64, 1)
USES = ["post", "records", "receives", "chain", "run", "poll", "wait", "datagram"]
CLOSED = ["qp", "mr", "ah", "cq", "pd", "context"]


class Busy:
    """Everything that is to be closed, and what is done with it."""

    def __init__(self, context: rdmaqp.Context | None, use: str) -> None:
        one = side(context, qp_type="UD" if use == "datagram" else "RC", max_send_wr=64, max_recv_wr=64)
        self.qp, self.mr, self.cq, self.pd, self.context = one.qp, one.mr, one.cq, one.pd, one.context
        self.ah = one.pd.create_ah(AddressVector(dlid=9))
        if use == "datagram":
            one.qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qkey=1)
            one.qp.modify(qp_state="RTR")
            one.qp.modify(qp_state="RTS", sq_psn=1)
        else:
            here = one.qp.endpoint(psn=1)
            one.qp.connect(here, here)
        self.use = getattr(self, use)
        self.completions = rdmaqp.Completions(32)
        self.records_of_it = rdmaqp.SendRecords(4)
        self.receive_records = rdmaqp.RecvRecords(2)
        part = one.mr[0:8]
        to = rdmaqp.Destination(self.ah, 7, 1)
        work = rdmaqp.Send(part, to=to) if use == "datagram" else rdmaqp.Write(part, THERE)
        for at in range(4):
            self.records_of_it[at] = work
        for at in range(2):
            self.receive_records[at] = rdmaqp.Recv(part)
        self.chain_of_it = one.qp.chain(work, work)

    def drain(self) -> None:
        while self.cq.poll_into(self.completions):
            pass

    def post(self) -> None:
        self.qp.write(self.mr[0:8], THERE)
        self.drain()

    def records(self) -> None:
        self.qp.post_sends(self.records_of_it)
        self.drain()

    datagram = records

    def receives(self) -> None:
        self.qp.post_recvs(self.receive_records)
        self.qp.send(self.mr[0:8])
        self.qp.send(self.mr[0:8])
        self.drain()

    def chain(self) -> None:
        self.chain_of_it.post()
        self.drain()

    def run(self) -> None:
        self.chain_of_it.run()

    def poll(self) -> None:
        self.cq.poll()
        self.cq.poll_into(self.completions)

    def wait(self) -> None:
        self.qp.write(self.mr[0:8], THERE)
        self.cq.wait(timeout=5)


def until_closed(busy: Busy, started: threading.Event, said: list[str]) -> None:
    """Use it until it is closed, or until its end is the guard's or the driver's word."""
    end = time.monotonic() + 20
    try:
        while time.monotonic() < end:
            busy.use()
            started.set()
        said.append("nothing")
    except Exception as error:
        said.append(type(error).__name__)
    finally:
        started.set()


def one_round(context: rdmaqp.Context | None, use: str, name: str) -> str:
    busy, started, said = Busy(context, use), threading.Event(), list[str]()
    user = threading.Thread(target=until_closed, args=(busy, started, said), daemon=True)
    user.start()
    assert started.wait(20)
    for closed in (getattr(busy, name), busy.qp, busy.cq, busy.pd):  # what does not use the first goes on
        closed.close()
    user.join(20)
    assert not user.is_alive(), "it hangs"
    return said[0]


def rounds(use: str) -> dict[str, list[str]]:
    warnings.simplefilter("ignore")
    found: dict[str, set[str]] = {name: set() for name in CLOSED}
    for name in CLOSED:
        context = None if name == "context" else rdmaqp.open()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or not found[name]:
            found[name].add(one_round(context, use, name))
    return {name: sorted(said) for name, said in found.items()}


@pytest.mark.parametrize("use", USES)
def test_a_close_in_another_thread_ends_it_cleanly(null: Null, use: str) -> None:
    """Memory that has ended while it is sent fails as on hardware; a datagram's handle that has is none."""
    also = {"mr": {"CompletionError"}, "pd": {"CompletionError"}, "context": {"CompletionError"}, "ah": {"ValueError"}}
    for name, found in null.run(rounds, use).items():
        assert set(found) <= {"ClosedError"} | also.get(name, set()), name


def runs_for(seconds: float) -> int:
    """How far another thread counts while this one waits in Chain.run()."""
    one = side()
    here = one.qp.endpoint(psn=1)
    one.qp.connect(here, here)
    chain = one.qp.chain(rdmaqp.Write(one.mr[0:8], THERE))
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1

    stub(HIDE=1)
    other = threading.Thread(target=count)
    other.start()
    try:
        chain.run(timeout=seconds)
    except rdmaqp.DeadlineError:
        pass
    else:
        raise AssertionError("it did not wait")
    finally:
        stop.set()
        other.join()
    return counted[0]


def test_a_run_that_waits_lets_other_threads_run(null: Null) -> None:
    """With the GIL held, the other would count once a switch interval at most: 100 of them here."""
    assert null.run(runs_for, 0.5) > 5_000


def closed_during_a_run() -> list[str]:
    """A run that waits for ever ends when its queue pair is closed."""
    one = side()
    here = one.qp.endpoint(psn=1)
    one.qp.connect(here, here)
    chain = one.qp.chain(rdmaqp.Write(one.mr[0:8], THERE))
    stub(HIDE=1)
    said: list[str] = []

    def run() -> None:
        try:
            chain.run()
        except rdmaqp.ClosedError as error:
            said.append(str(error))

    user = threading.Thread(target=run, daemon=True)
    user.start()
    time.sleep(0.1)
    one.qp.close()
    user.join(20)
    return [*said, str(user.is_alive())]


def test_a_run_ends_when_its_queue_pair_is_closed(null: Null) -> None:
    assert null.run(closed_during_a_run) == ["this queue pair is closed", "False"]
