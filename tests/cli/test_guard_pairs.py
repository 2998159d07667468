"""What ``rdmaqp guard`` says at the end of queue pairs: of few each, of many those of one fate together."""

from __future__ import annotations

import errno

from rdmaqp.cli.guard_pairs import rows
from rdmaqp.model.enums import QPState, QPType
from rdmaqp.preload.seen import Process, QueuePair, Step

RESET, INIT, RTR, RTS = QPState.RESET, QPState.INIT, QPState.RTR, QPState.RTS
PROGRAM = Process(7, "a.out")


def pair(number: int, *steps: tuple[QPState, QPState, int], owner: Process = PROGRAM) -> QueuePair:
    made = QueuePair(owner, number, number, QPType.RC, "rxe0", destroyed=True)
    made.steps += [Step(start, goal, 100_000, error, 7) for start, goal, error in steps]
    return made


UP = ((RESET, INIT, 0), (INIT, RTR, 0), (RTR, RTS, 0))
FAILED = (UP[0], (INIT, RTR, errno.EINVAL))


def test_few_are_listed_each() -> None:
    told = list(rows([pair(number, *UP) for number in range(16)]))
    assert len(told) == 32
    assert told[:2] == ["QP 0x0 RC on rxe0, a.out[7]", "    RESET → INIT (0.1 ms) → RTR (0.1 ms) → RTS (0.1 ms)"]


def test_of_many_the_rare_fates_come_first() -> None:
    pairs = [pair(number, *(FAILED if number == 250 else UP)) for number in range(300)]
    assert list(rows(pairs)) == [
        "1 queue pair RC on rxe0, a.out[7]: QP 0xfa", "    RESET → INIT → RTR failed (EINVAL)",
        "299 queue pairs RC on rxe0, a.out[7]: QP 0x0, 0x1, 0x2, 0x3, …", "    RESET → INIT → RTR → RTS",
    ]  # fmt: skip


def test_of_many_processes_their_number() -> None:
    told = list(rows([pair(1, *UP, owner=Process(number, "rank")) for number in range(17)]))
    assert told[0] == "17 queue pairs RC on rxe0, 17 processes: QP 0x1, 0x1, 0x1, 0x1, …"


def test_more_fates_than_lines() -> None:
    told = list(rows([pair(number, *((RESET, INIT, 200 + number),)) for number in range(20)]))
    assert len(told) == 33
    assert told[-1] == "and 4 queue pairs that went 4 other ways"


def test_the_same_call_again_and_again_is_said_once() -> None:
    again = [(INIT, INIT, 0)] * 200
    assert list(rows([pair(1, UP[0], *again)]))[1] == "    RESET → INIT (0.1 ms) → INIT (200 times, 0.1 ms each)"
    failed = [(INIT, RTR, errno.ETIMEDOUT)] * 3
    assert list(rows([pair(1, UP[0], *failed, *UP[1:])]))[1] == (
        "    RESET → INIT (0.1 ms) → RTR failed (ETIMEDOUT, 3 times, 0.1 ms each) → RTR (0.1 ms) → RTS (0.1 ms)"
    )


def test_what_was_refused_and_what_was_left() -> None:
    made = pair(1, UP[0])
    made.refused += [RTR, RTR]
    made.destroyed = False
    assert list(rows([made]))[1] == "    RESET → INIT (0.1 ms); RTR refused; never destroyed"
