"""Lines that programs and the kernel really print, read back: ``tests/cases/logs.jsonl``.

``kind`` is ``issue`` for a line of a public report (its addresses replaced), and ``source`` for one made as its
program's format string makes it.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rdmaqp.guard import check
from rdmaqp.guard.cause import CAUSES
from rdmaqp.guard.errnos import GROUPS
from rdmaqp.guard.logs.asking import ASK
from rdmaqp.guard.logs.explain import explain
from rdmaqp.guard.logs.happened import EVENTS, UNNUMBERED
from rdmaqp.guard.logs.linux import HERE, TEXTS
from rdmaqp.guard.logs.patterns import PATTERNS, may_matter
from rdmaqp.guard.logs.reader import Failure, Reader, Stranger
from rdmaqp.guard.logs.words import gid
from rdmaqp.guard.rules import RULES
from rdmaqp.model import codec
from rdmaqp.model.encode import encode


@dataclass(frozen=True)
class Case:
    id: str
    source: str
    kind: str
    text: str
    expect: dict[str, Any]

    def __str__(self) -> str:
        return self.id


FILE = Path(__file__).parent.parent / "cases" / "logs.jsonl"
CASES = [Case(**json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines()]


def read(text: str) -> list[Failure | Stranger]:
    reader = Reader()
    found = [each for line in text.split("\n") for each in reader.feed(line)]
    return [*found, *reader.close()]


def failures(text: str) -> list[Failure]:
    return [each for each in read(text) if isinstance(each, Failure)]


def plain(value: Any) -> Any:
    return getattr(value, "name", value) if not isinstance(value, int) or hasattr(value, "name") else value


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_programs_print_is_read_and_explained(case: Case) -> None:
    wanted = case.expect["patterns"]
    found = [each for each in failures(case.text) if each.names == wanted]
    assert found, [each.names for each in failures(case.text)]
    failure = found[0]
    for name, value in case.expect["told"].items():
        known = failure.known[name]
        assert known == value or plain(known) == value or str(known) == str(value), (name, known)
    causes = {cause.cause: cause for cause in explain(failure).causes}
    possible = {name for name, cause in causes.items() if cause.standing != "ruled-out"}
    assert set(case.expect["causes"]) <= possible, causes
    assert set(case.expect["ruled_out"]) <= causes.keys() - possible, causes


def test_there_are_enough_of_them() -> None:
    """At least 40 messages of at least 8 programs, most from public reports."""
    named = {name for case in CASES for name in case.expect["patterns"]}
    programs = {pattern.program for pattern in PATTERNS if pattern.name in named}
    assert len(named) >= 40
    assert len(programs) >= 8
    assert sum(case.kind == "issue" for case in CASES) >= 40


def test_no_address_of_a_real_machine_is_in_them() -> None:
    text = FILE.read_text(encoding="utf-8")
    for address in re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text):
        assert address.startswith(("192.0.2.", "198.51.100.", "203.0.113.")), address


def test_every_row_says_where_it_is_from_and_can_be_told_apart() -> None:
    names = [pattern.name for pattern in PATTERNS]
    assert len(names) == len(set(names))
    for pattern in PATTERNS:
        assert "/" in pattern.source or "ibv_" in pattern.source, pattern
        for cause, _, why in pattern.reasons:
            assert cause in RULES or cause in CAUSES, (pattern, cause)
            assert why
        assert all(name in RULES or name in CAUSES or name in GROUPS for name in pattern.innocent), pattern


def test_causes_of_events_and_of_what_is_asked_next_are_known() -> None:
    for reasons in (*EVENTS.values(), *UNNUMBERED.values()):
        assert all(cause in RULES or cause in CAUSES for cause, _, _ in reasons)
    assert all(cause in RULES or cause in CAUSES for cause in ASK)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_cheap_look_lets_every_message_through(case: Case) -> None:
    lines = [line for line in case.text.split("\n") if any(pattern.match(line) is not None for pattern in PATTERNS)]
    assert lines
    assert all(may_matter(line) for line in lines)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_request_of_a_failure_is_one_that_check_takes(case: Case) -> None:
    for failure in failures(case.text):
        request = explain(failure).request
        if request is not None:
            assert check(codec.decode(json.loads(json.dumps(encode(request))))).verdict in ("pass", "warn", "refuse")


def test_an_argument_that_no_log_holds_is_never_called_wrong() -> None:
    """EINVAL, and nothing else told: no rule about the mask or a value is proved, and the open ones are named."""
    (failure,) = failures("x.cpp:1: f(): ibv_modify_qp: Invalid argument")
    causes = {cause.cause: cause for cause in explain(failure).causes}
    assert [cause for cause in causes.values() if cause.standing == "proved"] == []
    assert "not checked" in causes["mask-missing"].why
    assert causes["neighbour-unresolved"].standing == "ruled-out"


def test_lines_of_processes_that_write_at_once_are_kept_apart() -> None:
    line = ("[{0}:{1}:0:{1}] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_{2}:1/IB "
            "(synd 0x15 vend 0x81 hw_synd 0/0)")  # fmt: skip
    wqe = "[{0}:{1}:0:{1}] ib_mlx5_log.c:139  RC QP {2:#x} wqe[0]: SEND s-e [va 0x1 len 4 lkey 0x70f41]"
    text = "\n".join([line.format("a", 1, 0), line.format("b", 2, 1), wqe.format("b", 2, 22), wqe.format("a", 1, 11)])
    found = failures(text)
    assert {(each.known["device"], each.known["qp_num"]) for each in found} == {("mlx5_0", 11), ("mlx5_1", 22)}


def test_failures_come_in_the_order_of_their_lines() -> None:
    text = "\n".join(case.text for case in CASES)
    found = read(text)
    assert [each.first for each in found] == sorted(each.first for each in found)
    assert len(found) >= len(CASES) - 5


def test_each_warning_of_a_library_is_one() -> None:
    text = ("libibverbs: Warning: couldn't load driver 'libx-rdmav34.so': no\n"
            "libibverbs: Warning: RLIMIT_MEMLOCK is 1 bytes.")  # fmt: skip
    assert [each.names for each in failures(text)] == [["verbs-load"], ["verbs-memlock"]]


def test_what_one_run_said_is_not_told_of_the_next() -> None:
    run = (" Number of qps   : 1            Device         : {0}\n Link type       : {1}\n"
           "Failed to modify QP 59 to RTR\n")  # fmt: skip
    first, second = failures(run.format("mlx5_0", "Ethernet") + run.format("mlx5_1", "IB").replace("Link type", "Mtu"))
    assert (first.known["device"], first.known["link"]) == ("mlx5_0", "ETHERNET")
    assert second.known["device"] == "mlx5_1"
    assert "link" not in second.known


def test_what_a_program_said_before_may_stand_behind_in_a_file() -> None:
    """``ibv_rc_pingpong >file 2>&1``, as in the lab: errors are written at once, the rest at the end."""
    (failure,) = failures(
        "Failed to modify QP to RTR\nCouldn't connect to remote QP\n"
        "  local address:  LID 0x0000, QPN 0x000015, PSN 0x8f3e3f, GID ::ffff:192.0.2.1"
    )
    assert (str(failure.known["gid"]), failure.known["qp_num"]) == ("::ffff:192.0.2.1", 0x15)


def test_a_missing_route_of_ipv4_times_out_too() -> None:
    line = ("NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, "
            "next "
            "state RTR, local GID index 3, local GID {0}, remote GID {1}")  # fmt: skip
    four, six = ("::ffff:192.0.2.6", "::ffff:192.0.2.7"), ("2001:db8::6", "2001:db8::7")
    for (ours, theirs), standing in ((four, "likely"), (six, "ruled-out")):
        (failure,) = failures(line.format(ours, theirs))
        causes = {cause.cause: cause.standing for cause in explain(failure).causes}
        assert causes["route-missing"] == standing


def test_a_flush_points_to_the_line_of_the_first_failure() -> None:
    text = "\n".join([
        "rdma.c:2026: *ERROR*: CQ error on CQ 0x2a, Request 0x1 (10): remote access error",
        *(f"rdma.c:2026: *ERROR*: CQ error on CQ 0x2a, Request {n} (5): Work Request Flushed Error" for n in range(3)),
    ])  # fmt: skip
    first, *flushed = failures(text)
    assert first.earlier is None
    assert [each.earlier for each in flushed] == [1, 1, 1]
    (proved,) = [cause for cause in explain(flushed[0]).causes if cause.standing == "proved"]
    assert proved.cause == "flush-consequence"
    assert "line 1 of this log has an earlier failure" in proved.why


def test_what_nobody_knows_is_told() -> None:
    found = read("all is well\nmy_rdma.c:7: the queue pair could not be had, error 0x7\nQP 5 is fine")
    assert found == [Stranger(2, "my_rdma.c:7: the queue pair could not be had, error 0x7")]


@pytest.mark.parametrize("text", [
    "QP 0x11: all fine, 0 errors expected", "INFO: completion of the job: status ok",
    "train loss 0.1, invalid tokens 3",
    "[ 1.0] mlx5_core 0000:04:00.0: firmware version: 20.27.6202", "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]",
    " local address: LID 0000 QPN 0x27d8 PSN 0x79f042", "0x00: 05 00 00 00 00 00 00 0a",
])  # fmt: skip
def test_no_false_alarm(text: str) -> None:
    assert failures(text) == []


def test_colours_and_long_and_odd_lines() -> None:
    assert len(failures("\x1b[31mFailed to modify QP 59 to RTR\x1b[0m")) == 1
    assert failures("QP " * 100_000 + "Failed to modify QP 59 to RTR") == []
    assert failures("ibv_ \udcff\x00 �� failed") == []


@pytest.mark.parametrize("text", ["QP ", "a.b-c:1 ", "x", "1:", "[a:1:1", "status failed ", "mlx5_core 0: (0x1) "])
def test_no_line_takes_long(text: str) -> None:
    """A pattern that backs up over the whole line from each place in it takes seconds for 4,096 characters."""
    line = (text * 4096)[:4000]
    began = time.process_time()
    for pattern in PATTERNS:
        pattern.match(line + pattern.has)
    assert not failures(line)
    assert time.process_time() - began < 20


def test_whatever_comes_is_explained_or_named() -> None:
    """Lines of all programs, cut, joined, with other digits: nothing raises."""
    chance = random.Random(7)
    lines = [line for case in CASES for line in case.text.split("\n")]
    for _ in range(40):
        mixed = []
        for line in chance.choices(lines, k=30):
            at, how = chance.randrange(len(line) + 1), chance.random()
            spoilt = "".join(chance.choice("0123456789") if each.isdigit() else each for each in line)
            mixed.append(line[:at] + line[at + chance.randrange(9) :] if how < 0.3 else spoilt if how < 0.6 else line)
        for failure in failures("\n".join(mixed)):
            explained = explain(failure)
            assert explained.title
            json.dumps([cause.to_dict() for cause in explained.causes])


@pytest.mark.skipif(sys.platform != "linux", reason="the table is Linux's")
def test_the_table_of_error_numbers_is_linuxs() -> None:
    assert {text: number for text, number in TEXTS.items() if number != 524} == {
        os.strerror(number): number for number in errno.errorcode
    }
    assert all(HERE[number] == number for number in errno.errorcode)


@pytest.mark.parametrize(("text", "expected"), [
    ("fe:80:00:00:00:00:00:00:9e:63:c0:ff:fe:00:00:01", "fe80::9e63:c0ff:fe00:1"),
    ("00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:39", "::ffff:192.0.2.39"),
    ("::ffff:192.0.2.1", "::ffff:192.0.2.1"), ("192.0.2.1", "::ffff:192.0.2.1"), ("N/A", None), ("fe80:::1", None),
    ("999:00:00:00:00:00:00:00:00:00:255:255:192:00:02:39", None),
])  # fmt: skip
def test_gids_as_programs_print_them(text: str, expected: str | None) -> None:
    found = gid(text)
    assert (None if found is None else str(found)) == expected


def test_each_row_is_a_pattern() -> None:
    for pattern in PATTERNS:  # compiled when first looked for
        pattern.match(pattern.has)
