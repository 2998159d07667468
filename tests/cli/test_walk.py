"""``rdmaqp walk``: what a new user types, and what comes of it; the machine moves as the table and the guard say."""

from __future__ import annotations

import re
import sys
from itertools import product

import pytest

from rdmaqp.cli.walk_machine import Imagined
from rdmaqp.cli.walk_sheet import WordError, change, sheet, value_of
from rdmaqp.guard.lore.machine import Kind, arrows
from rdmaqp.guard.lore.states import BY_HARDWARE
from rdmaqp.model.enums import DriverType, QPState, QPType
from rdmaqp.model.table import TABLE, path
from stub.null_device import NullDevice

from .conftest import Rdmaqp

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
UP = "INIT\nRTR\nRTS\n"


def walked(kind: Kind, driver: str | None, *goals: QPState) -> Imagined:
    machine = Imagined(kind, driver)
    for goal in goals:
        report, _ = machine.modify(sheet(machine.state, goal, kind, machine.custom), goal.name)
        assert not report.refused, str(report)
    return machine


# ---------------------------------------------------------------------- the machine


@pytest.mark.parametrize("kind", TABLE)
def test_what_is_given_by_itself_is_right_on_every_arrow(kind: QPType) -> None:
    """Each arrow of the table, with the attributes that the walker need not type."""
    for arrow in arrows(kind, None):
        way = path(kind, RESET, arrow.start)
        if way is not None:
            machine = walked(kind, None, *way[1:])
        else:  # SQE, where only the hardware leads
            machine = walked(kind, None, INIT, RTR, RTS)
            if BY_HARDWARE[kind][0][1] is not SQE:
                continue
            machine.fail("fail")
        assert machine.state is arrow.start
        report, _ = machine.modify(sheet(arrow.start, arrow.goal, kind, machine.custom), "")
        assert not report.refused, str(report)
        assert machine.state is arrow.goal


@pytest.mark.parametrize(("kind", "driver", "top"), [
    (DriverType.DCI, "mlx5", RTS), (DriverType.DCT, "mlx5", RTR), (DriverType.SRD, "efa", RTS),
])  # fmt: skip
def test_a_drivers_own_type_is_walked(kind: DriverType, driver: str, top: QPState) -> None:
    machine = walked(kind, driver, *(goal for goal in (INIT, RTR, RTS) if goal <= top))
    assert machine.state is top
    assert machine.modify(sheet(top, SQE, kind, machine.custom), "")[0].refused
    assert not machine.modify(sheet(top, ERR, kind, machine.custom), "")[0].refused or kind is DriverType.DCT


@pytest.mark.parametrize("kind", TABLE)
def test_what_is_no_arrow_is_refused_and_nothing_moves(kind: QPType) -> None:
    for start, goal in product((RESET, INIT, RTR, RTS, SQD, ERR), QPState):
        if (start, goal) not in TABLE[kind]:
            machine = walked(kind, None, *(path(kind, RESET, start) or ())[1:])
            before, steps = machine.facts, len(machine.history)
            report, _ = machine.modify(sheet(start, goal, kind, machine.custom), "")
            assert report.refused
            assert (machine.facts, len(machine.history)) == (before, steps)


def test_work_goes_where_the_states_send_it() -> None:
    machine = walked(QPType.RC, None, INIT)
    assert machine.post("send", "send")[0].refused
    assert not machine.post("recv", "recv")[0].refused
    assert machine.facts.receives == 1
    machine = walked(QPType.RC, None, INIT, RTR, RTS, SQD)
    assert "waits" in machine.post("send", "send")[1]
    assert machine.facts.sends == 1
    machine.post("recv", "recv")
    assert "goes out" in machine.modify(sheet(SQD, RTS, QPType.RC, machine.custom), "")[1]
    assert (machine.facts.sends, machine.facts.receives) == (0, 0)
    machine.post("recv", "recv")
    assert "WR_FLUSH_ERR" in machine.fail("fail")
    assert (machine.state, machine.facts.receives) == (ERR, 0)
    assert "WR_FLUSH_ERR" in machine.post("recv", "recv")[1]
    with pytest.raises(ValueError, match="nothing can fail"):
        machine.fail("fail")


def test_a_send_that_finds_no_receive_waits_and_says_what_to_do() -> None:
    """As hardware does: a reliable peer says not ready, and is asked again."""
    machine = walked(QPType.RC, None, INIT, RTR, RTS)
    said = machine.post("send", "send")[1]
    assert "no completion" in said
    assert "Type recv" in said
    assert machine.post("send", "send")[1].count("2 sends are") == 1
    assert machine.facts.sends == 2
    assert "it goes out and meets a receive: both complete, SUCCESS" in machine.post("recv", "recv")[1]
    assert (machine.facts.sends, machine.facts.receives) == (1, 0)
    assert "2 receives" not in machine.post("recv", "recv")[1]
    assert machine.post("recv", "recv")[1] == "1 posted, waiting for messages"
    assert "SUCCESS" in machine.post("send", "send")[1]
    assert (machine.facts.sends, machine.facts.receives) == (0, 0)
    machine.post("send", "send")
    assert "1 send is flushed: WR_FLUSH_ERR" in machine.modify(sheet(RTS, ERR, QPType.RC, machine.custom), "")[1]


def test_a_send_that_finds_no_receive_too_often_breaks_the_connection() -> None:
    machine = walked(QPType.RC, None, INIT, RTR)
    attr = sheet(RTR, RTS, QPType.RC, machine.custom)
    attr.rnr_retry = 2
    machine.modify(attr, "")
    said = machine.post("send", "send")[1]
    assert "not ready 3 times" in said
    assert "RNR_RETRY_EXC_ERR" in said
    assert machine.state is ERR


@pytest.mark.parametrize("kind", [QPType.UC, QPType.UD, QPType.RAW_PACKET])
def test_an_unreliable_message_without_a_receive_is_dropped(kind: QPType) -> None:
    machine = walked(kind, None, INIT, RTR, RTS)
    said = machine.post("send", "send")[1]
    assert "SUCCESS. No receive is posted, so the message is dropped" in said
    assert machine.facts.sends == 0


def test_what_goes_to_anothers_shared_queue_completes() -> None:
    assert "shared receive queue: SUCCESS" in walked(QPType.XRC_SEND, None, INIT, RTR, RTS).post("send", "")[1]


def test_the_queue_has_an_end() -> None:
    machine = walked(QPType.UD, None, INIT)
    for _ in range(16):
        assert not machine.post("recv", "recv")[0].refused
    assert "post-full" in {finding.rule for finding in machine.post("recv", "recv")[0].errors}


def test_undo_takes_everything_back() -> None:
    machine = walked(QPType.UD, None, INIT, RTR, RTS)
    seen = []
    for step in (lambda: machine.post("recv", ""), lambda: machine.fail(""),
                 lambda: machine.modify(sheet(SQE, RTS, QPType.UD, machine.custom), "")):  # fmt: skip
        seen.append(machine.facts)
        step()
    while seen:
        machine.undo()
        assert machine.facts == seen.pop()
    for _ in range(3):
        machine.undo()
    assert machine.state is RESET
    with pytest.raises(IndexError):
        machine.undo()


def test_a_driver_walks_its_own_way() -> None:
    machine = walked(QPType.RC, "mlx5", INIT, RTR, RTS)
    assert machine.modify(sheet(RTS, SQD, QPType.RC, machine.custom), "")[0].refused
    machine = walked(QPType.RC, "irdma", INIT, RESET)
    assert machine.modify(sheet(RESET, INIT, QPType.RC, machine.custom), "")[0].refused


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("word", "text"),
    [("path_mtuu=1", "did you mean path_mtu?"), ("--x", "is no change"), ("-sgid_idx", "did you mean sgid_index?"),
     ("sl", "to which value?"), ("qp_access_flags=REMOTE_REED", "did you mean REMOTE_READ?")],
)  # fmt: skip
def test_words_that_cannot_be_read_say_what_could_be_meant(word: str, text: str) -> None:
    machine = walked(QPType.RC, None, INIT)
    attr = sheet(INIT, RTR, QPType.RC, machine.custom)
    with pytest.raises(WordError, match=re.escape(text)):
        change(attr, [word], INIT, machine.custom)


def test_values_are_passed_on_for_the_guard_to_judge() -> None:
    assert value_of("timeout", "0x1F") == 31
    assert value_of("timeout", "-1") == -1
    assert value_of("timeout", "fast") == "fast"
    assert value_of("qp_access_flags", "LOCAL_WRITE|ibv_access_remote_read") == 5


# ---------------------------------------------------------------------- as a user sees it


def test_a_first_walk(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("walk", text="RTS\nINIT\nRTR -min_rnr_timer +sq_psn path_mtu=4096\nrtr\nsend\nRTS\nhistory\nundo\n")
    assert done.returncode == 0
    for text in (
        "RESET ▸ RTS", "the way there: RESET → INIT → RTR → RTS", "the queue pair is still in RESET", "● INIT  standby",
        "- missing  min_rnr_timer", "+ excess   sq_psn", "4096 is above the port's active MTU, 1024",
        "in RTR nothing can be posted to the send queue", "● RTS  running", "  3  RTR → RTS     RTS", "undone: RTS",
    ):  # fmt: skip
        assert text in done.stdout, text
    assert done.stdout.endswith("RTR ▸\n")


def test_without_a_terminal_the_lines_are_narrow_and_clean(rdmaqp: Rdmaqp) -> None:
    lines = f"help\nmap\nlook\nRTR\n{UP}sheet SQD\nrecv 2\nfail\nexplain\nRTR path_mtu=9999 sl=99\nSQE\nx\nfail\n"
    done = rdmaqp("walk", text=lines, COLUMNS="")
    assert [line for line in done.stdout.splitlines() if len(line) > 80 or line != line.rstrip()] == []


def test_every_command(rdmaqp: Rdmaqp) -> None:
    lines = f"help\nlook\nmap\nsheet RTR\n{UP}recv 2\nsend\nfail\nexplain\nexplain INIT RTR\nnew UD\nundo\nhistory\n"
    done = rdmaqp("walk", text=lines + "# a remark\n\nquit\nRTS\n")
    assert done.returncode == 0
    told = ("leave one out", "emergency brake", "2 posted", "the hardware moves to ERR", "They say", "nothing to undo")
    for text in told:
        assert text in done.stdout, text
    assert done.stdout.rstrip().endswith("▸ quit")


@pytest.mark.parametrize(
    "line",
    ["rst", "RTR", "'", "explain nonsense", "sheet", "sheet x", "new FOO", "new", "undo", "fail", "recv x", "recv 9999",
     "INIT qp_state=RTR", "INIT -qp_state", "INIT ah_attr=5 dlid=3", "INIT timeout=99999999999999999999999", "INIT =",
     "INIT cap", "INIT +cap", "INIT +ah_attr -dgid sgid_index=1", "INIT dgid=::1", "INIT port_num=x", "é\u2028", "post",
     "INIT qp_access_flags=0x1ffffffff", "INIT cur_qp_state=RTS", "INIT +alt_ah_attr", "-", "INIT -port_num=1"],
)  # fmt: skip
def test_whatever_is_typed_the_walk_goes_on(rdmaqp: Rdmaqp, line: str) -> None:
    done = rdmaqp("walk", text=f"{line}\nlook\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("●") >= 2
    assert done.stderr == ""


def test_bytes_that_are_no_text(rdmaqp: Rdmaqp) -> None:
    assert rdmaqp("walk", text=b"\xff\xfe\x00\nlook\n").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--type", "XRC_SEND", "--driver", "rxe"), "rxe has no XRC_SEND"),
        (("--device", "x", "--driver", "rxe"), "--device brings its own driver"),
    ],
)
def test_what_cannot_be_walked_is_said(rdmaqp: Rdmaqp, arguments: tuple[str, ...], text: str) -> None:
    done = rdmaqp("walk", *arguments)
    assert done.returncode == 1
    assert text in done.stderr


def test_a_real_queue_pair(null_device: NullDevice) -> None:
    """On the null device: what the guard refuses never reaches it, and undo makes another and walks it there."""
    walk = "RTS\nINIT\nRTR -path_mtu\ngo RTR\nRTS\nrecv\nsend\nundo\nundo\nundo\nfail\n"
    code = f"import io, sys; sys.stdin = io.StringIO({walk!r}); from rdmaqp.cli import run; " \
           "sys.exit(run(['walk', '--device', 'null0']))"
    done = null_device.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    assert "RTS ▸ undo" in done.stdout
    assert "this queue pair is real" in done.stdout
    assert re.search(r"▸ send\n  ⇢ (?:no completion so far: \S|work request \d+ completed)", done.stdout)
    assert done.stdout.rstrip().endswith("RTR ▸")
    made = [call["call"] for call in null_device.calls("ibv_create_qp", "ibv_modify_qp", "ibv_destroy_qp")]
    up = ["ibv_create_qp", *["ibv_modify_qp"] * 3, "ibv_destroy_qp"]
    assert made == [*up, *up, *up, "ibv_create_qp", "ibv_modify_qp", "ibv_modify_qp", "ibv_destroy_qp"]


def test_a_device_that_does_not_say_its_state(null_device: NullDevice) -> None:
    """The last known counts, and the walk comes to an end."""
    code = "import io, sys; sys.stdin = io.StringIO('INIT\\nlook\\n'); from rdmaqp.cli import run; " \
           "sys.exit(run(['walk', '--device', 'null0']))"
    done = null_device.run([sys.executable, "-c", code], QUERY_QP_ERRNO=95)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("● INIT") == 2
