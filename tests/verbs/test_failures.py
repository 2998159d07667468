"""What is said when libibverbs, the kernel or the driver says no."""

from __future__ import annotations

import errno
import os
import resource
from typing import TYPE_CHECKING, Any

import pytest
from null_side import AddressVector, QPState, calls, error_of, native, rdmaqp, ready, said, side, stub

from rdmaqp.host import process

if TYPE_CHECKING:
    from conftest import Null


def modify_fails(goal: str) -> dict[str, Any]:
    one = ready({"INIT": "RESET", "RTR": "INIT", "RTS": "RTR"}[goal])
    here = one.qp.endpoint(psn=1)
    attr = rdmaqp.bring_up(here, here)[int(QPState[goal]) - 1]
    moves = len(one.qp.transitions)
    error = error_of(one.qp.modify, attr)
    return said(error) | {
        "verb": error.verb, "state": one.qp.state.name, "moves": len(one.qp.transitions) - moves,
        "strerror": error.strerror, "is_oserror": isinstance(error, OSError), "port_num": one.qp.port_num,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("goal", "setting", "number", "name", "words"),
    [
        ("INIT", "INIT=22", errno.EINVAL, "EINVAL", "Invalid argument"),
        ("RTR", "RTR=-22", errno.EINVAL, "EINVAL", "Invalid argument"),
        ("RTR", "RTR=110", errno.ETIMEDOUT, "ETIMEDOUT", "Connection timed out"),
        ("RTR", "RTR=-101", errno.ENETUNREACH, "ENETUNREACH", "Network is unreachable"),
        ("RTS", "RTS=1", errno.EPERM, "EPERM", "Operation not permitted"),
        ("RTS", "RTS=524", 524, "524", "Unknown error 524"),  # ENOTSUPP leaks out of some drivers
    ],
)
def test_a_modify_that_the_kernel_refuses(
    null: Null, goal: str, setting: str, number: int, name: str, words: str
) -> None:
    came = null.run(modify_fails, goal, MODIFY_ERRNO=setting)
    before = {"INIT": "RESET", "RTR": "INIT", "RTS": "RTR"}[goal]
    first, given, *_, state = came["text"].splitlines()
    assert (came["type"], came["errno"], came["verb"], came["is_oserror"]) == (
        "VerbsError", number, "ibv_modify_qp", True
    )  # fmt: skip
    assert first == (
        f"RC queue pair 0x41 on null0, {before} → {goal}: ibv_modify_qp failed: {words} ({name}, {number})"
    )
    assert given.startswith(f"    set      qp_state {goal}, ")
    assert state == f"the queue pair is in {before} now"
    assert (came["state"], came["moves"]) == (before, 0)
    assert (came["port_num"] is None) == (goal == "INIT")
    last = [call["call"] for call in null.calls()]
    assert "ibv_query_qp" in last[last.index("ibv_modify_qp") :]  # the state was asked anew


def fails_and_moves_anyhow() -> dict[str, Any]:
    """Some drivers report failure of a move that took place."""
    one = ready("INIT")
    move = one.qp._apply
    lib = native().lib

    class Liar:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def ibv_modify_qp(self, *args: Any) -> int:
            assert lib.ibv_modify_qp(*args) == 0
            return 22

    import rdmaqp.verbs.queue_pair as module

    module.native = lambda: native()._replace(lib=Liar())
    return said(error_of(move, rdmaqp.QPAttr(qp_state="ERR"), 1, QPState.INIT))


def test_the_state_after_a_failure_is_the_one_asked_for_then(null: Null) -> None:
    assert null.run(fails_and_moves_anyhow)["text"].endswith("the queue pair is in ERR now")


def modify_and_query_fail() -> dict[str, Any]:
    one = ready("INIT")
    stub(MODIFY_ERRNO=22, QUERY_QP_ERRNO=95)
    return said(error_of(one.qp.modify, qp_state="ERR")) | {"state": said(error_of(lambda: one.qp.state))["text"]}


def test_a_failure_of_which_even_the_state_cannot_be_asked(null: Null) -> None:
    came = null.run(modify_and_query_fail)
    assert (came["type"], came["errno"]) == ("VerbsError", 22)
    assert came["text"].endswith("its state cannot be asked (Operation not supported); the last known is INIT")
    first, asked = came["state"].splitlines()
    assert first.startswith("RC queue pair 0x41 on null0: ibv_query_qp failed: Operation not supported (")
    assert asked == "it was asked for STATE"


def driver_without_query() -> list[Any]:
    """mana refuses ibv_query_qp at all times."""
    stub(QUERY_QP_ERRNO=-95)
    one = side()
    here = one.qp.endpoint(psn=1)
    one.qp.connect(here, here)
    wrong = said(error_of(one.qp.to_init))
    return [[step.goal.name for step in one.qp.transitions], wrong["type"], wrong["text"].splitlines()[-1]]


def test_a_driver_that_refuses_to_say_the_state_is_judged_by_the_last_known(null: Null) -> None:
    goals, kind, last = null.run(driver_without_query)
    assert goals == ["INIT", "RTR", "RTS"]
    assert kind == "InvalidStateTransition"
    assert last == (
        "ibv_modify_qp was not called; the queue pair is still in RTS. "
        "(The driver does not say its state: Operation not supported. This is the last known.)"
    )


def moved_behind_our_back() -> list[str]:
    one = ready("RTS")
    stub(WC_STATUS="RETRY_EXC_ERR")
    one.qp.post_send(one.mr)
    remembered = one.qp.handle.state  # by libibverbs
    error = error_of(one.qp.modify, qp_state="RTS")
    return [str(remembered), one.qp.state.name, said(error)["type"], one.qp.transitions[-1].goal.name]


def test_the_state_is_asked_and_not_remembered(null: Null) -> None:
    assert null.run(moved_behind_our_back) == ["3", "ERR", "InvalidStateTransition", "RTS"]


# ---------------------------------------------------------------------- making


MAKERS = {
    "OPEN_DEVICE": ("ibv_open_device", "device null0"),
    "QUERY_DEVICE": ("ibv_query_device", "device null0"),
    "ALLOC_PD": ("ibv_alloc_pd", "device null0"),
    "CREATE_COMP_CHANNEL": ("ibv_create_comp_channel", "device null0"),
    "CREATE_CQ": ("ibv_create_cq", "7 entries on null0"),
    "REG_MR": ("ibv_reg_mr", "64,000 bytes on null0"),
    "CREATE_QP": ("ibv_create_qp", "RC queue pair on null0"),
    "CREATE_AH": ("ibv_create_ah", "dlid=9"),
    "QUERY_PORT": ("ibv_query_port", "port 1 of null0"),
    "QUERY_GID_TABLE": ("ibv_query_gid_table", "port 1 of null0"),
    "QUERY_PKEY": ("ibv_query_pkey", "port 1 of null0"),
    "GET_DEVICE_LIST": ("ibv_get_device_list", ""),
}


def making_fails(verb: str, number: int, memlock: int | None) -> dict[str, Any]:
    one = side()
    port = one.context.port(1)
    make = {
        "OPEN_DEVICE": one.context.device.open, "QUERY_DEVICE": one.context.device.open,
        "ALLOC_PD": one.context.alloc_pd, "CREATE_COMP_CHANNEL": one.context.create_comp_channel,
        "CREATE_CQ": lambda: one.context.create_cq(7), "REG_MR": lambda: one.pd.alloc_mr(64000),
        "CREATE_QP": lambda: one.pd.create_qp(one.cq), "CREATE_AH": lambda: one.pd.create_ah(AddressVector(dlid=9)),
        "QUERY_PORT": port.query, "QUERY_GID_TABLE": port.gids, "QUERY_PKEY": port.pkeys,
        "GET_DEVICE_LIST": rdmaqp.devices,
    }[verb]  # fmt: skip
    if memlock is not None:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (memlock, memlock))
        process.capabilities = lambda *args: 0  # CAP_IPC_LOCK lifts the limit, and root has it
    os.environ[f"RDMAQP_STUB_{verb}_ERRNO"] = str(number)
    error = error_of(make)
    return said(error) | {"verb": getattr(error, "verb", None)}


@pytest.mark.parametrize("verb", MAKERS)
@pytest.mark.parametrize("number", [13, -13])
def test_a_verb_that_fails_says_which_on_what_and_why(null: Null, verb: str, number: int) -> None:
    came = null.run(making_fails, verb, number, None)
    call, about = MAKERS[verb]
    assert (came["type"], came["verb"], came["errno"]) == ("VerbsError", call, errno.EACCES)
    assert about in came["text"]
    assert f"{call} failed: Permission denied (EACCES, 13)" in came["text"].splitlines()[0]
    assert "RLIMIT_MEMLOCK" not in came["text"]


@pytest.mark.parametrize("verb", ["REG_MR", "CREATE_QP", "CREATE_CQ"])
def test_out_of_memory_names_the_lock_limit(null: Null, verb: str) -> None:
    text = null.run(making_fails, verb, errno.ENOMEM, 65536)["text"]
    assert "(ENOMEM, 12)" in text.splitlines()[0]
    assert "may lock 65,536 bytes of memory in all (RLIMIT_MEMLOCK; the hard limit is 65,536 bytes)" in text
    assert "ulimit -l unlimited" in text
    assert "LimitMEMLOCK=infinity" in text


def unlimited() -> dict[str, Any]:
    resource.getrlimit = lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY)  # to raise it takes root
    return making_fails("REG_MR", errno.ENOMEM, None)


def with_the_capability() -> dict[str, Any]:
    process.capabilities = lambda *args: 1 << 14
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    return making_fails("REG_MR", errno.ENOMEM, None)


def test_out_of_memory_in_a_process_whose_limit_is_lifted_does_not_blame_it(null: Null) -> None:
    text = null.run(with_the_capability)["text"]
    assert "RLIMIT_MEMLOCK" not in text
    assert "  - not      memlock-limit" in text


def test_out_of_memory_without_a_lock_limit_does_not_blame_it(null: Null) -> None:
    text = null.run(unlimited)["text"]
    assert "(ENOMEM, 12)" in text
    assert "RLIMIT_MEMLOCK" not in text


def limits_of_queues(cqe: int, vector: int) -> dict[str, Any]:
    return said(error_of(rdmaqp.open().create_cq, cqe, None, vector)) | {"native": len(calls("ibv_create_cq"))}


@pytest.mark.parametrize(
    ("cqe", "vector", "text"),
    [
        (0, 0, "cqe: 0 is outside 1…100 (max_cqe of null0)"),
        (101, 0, "cqe: 101 is outside 1…100 (max_cqe of null0)"),
        (-1, 0, "cqe: -1 is outside 1…100 (max_cqe of null0)"),
        (1, 1, "comp_vector: 1 is outside 0…0 (num_comp_vectors of null0)"),
        (1, -1, "comp_vector: -1 is outside 0…0 (num_comp_vectors of null0)"),
    ],
)
def test_a_completion_queue_that_cannot_be(null: Null, cqe: int, vector: int, text: str) -> None:
    came = null.run(limits_of_queues, cqe, vector, MAX_CQE=100)
    assert (came["type"], came["text"], came["native"]) == ("ValueError", text, 0)
