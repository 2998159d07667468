"""Strict, warn, off; single rules ignored; by argument, by block, by environment variable."""

from __future__ import annotations

import threading
import warnings

import pytest
from guard_requests import modify, rtr, rts, with_

from rdmaqp import GuardError, GuardWarning, InvalidStateTransition, Policy, check, is_valid_transition, policy
from rdmaqp.guard.policy import current
from rdmaqp.model import codec


def settle(request: dict[str, object], chosen: Policy) -> list[str]:
    """What is warned of; errors are raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen.settle(check(codec.decode(request)))
    assert all(entry.category is GuardWarning for entry in caught)
    return [str(entry.message).rsplit("[", 1)[1].rstrip("]") for entry in caught]


WRONG = rts(timeout=32, retry_cnt=0)


def test_strict_refuses_and_the_exception_holds_the_report() -> None:
    with pytest.raises(GuardError) as error:
        settle(WRONG, Policy())
    assert not isinstance(error.value, InvalidStateTransition)
    assert [finding.rule for finding in error.value.report.errors] == ["value-range"]
    assert str(error.value).startswith("RC queue pair 0x11 on dev0, RTR → RTS: timeout: 32 does not fit its 5 bits")


def test_no_such_arrow_has_an_exception_of_its_own() -> None:
    for request in (modify("RC", "ERR", "RTS"), modify("RC", "RTS", "SQD"), rts(driver="siw")):
        with pytest.raises(InvalidStateTransition):
            settle(request, Policy())


def test_strict_warns_of_what_smells() -> None:
    assert settle(rts(retry_cnt=0), Policy()) == ["retry-none"]
    assert settle(rts(), Policy()) == []
    assert settle(rts(max_rd_atomic=3), Policy()) == []  # a note is not worth a warning


def test_warn_only_warns() -> None:
    assert settle(WRONG, Policy("warn")) == ["value-range", "retry-none"]


def test_off_says_nothing() -> None:
    assert settle(WRONG, Policy("off")) == []


def test_single_rules_are_ignored() -> None:
    assert settle(WRONG, Policy(ignore=frozenset({"value-range"}))) == ["retry-none"]
    assert settle(WRONG, Policy("warn", frozenset({"value-range", "retry-none"}))) == []
    report = check(codec.decode(WRONG))
    Policy(ignore=frozenset({"value-range", "retry-none"})).settle(report)
    assert report.verdict == "pass"


@pytest.mark.parametrize(
    ("text", "mode", "ignore"),
    [
        ("", "strict", set()),
        ("warn", "warn", set()),
        (" off ", "off", set()),
        ("warn -port-inactive", "warn", {"port-inactive"}),
        ("-port-inactive,-retry-none", "strict", {"port-inactive", "retry-none"}),
    ],
)
def test_the_words_of_a_policy(text: str, mode: str, ignore: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert Policy.parse(text) == Policy(mode, frozenset(ignore))  # type: ignore[arg-type]
    monkeypatch.setenv("RDMAQP_GUARD", text)
    assert current() == Policy(mode, frozenset(ignore))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrn", "'wrn' is not a mode: strict, warn, off; did you mean warn?"),
        ("port-inactiv", "'port-inactiv' is not a mode: strict, warn, off; did you mean -port-inactive?"),
        ("-port-inactiv", "there is no rule 'port-inactiv'; did you mean 'port-inactive'?"),
        ("-zzz", "there is no rule 'zzz'"),
    ],
)
def test_a_word_that_nobody_knows(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        Policy.parse(text)
    assert str(error.value) == message
    monkeypatch.setenv("RDMAQP_GUARD", text)
    with pytest.raises(ValueError, match=r".") as error:
        current()
    assert str(error.value) == f"RDMAQP_GUARD={text!r}: {message}"


def test_the_nearest_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RDMAQP_GUARD", "off")
    assert current().mode == "off"
    with policy("warn", ignore=["retry-none"]) as outer:
        assert current() == outer == Policy("warn", frozenset({"retry-none"}))
        with policy("strict"):
            assert current() == Policy()
            assert current("off") == Policy("off")
            assert current(outer) is outer
        seen: list[Policy] = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert seen == [Policy("off")]  # a block is its thread's own
    assert current().mode == "off"
    with pytest.raises(ValueError, match="did you mean 'retry-none'"), policy(ignore=["retry-non"]):
        pass


def test_a_refused_report_is_whole_even_where_a_rule_is_ignored() -> None:
    request = with_(rtr(dest_qp_num=0, path_mtu=4096), port={"state": "DOWN"})
    with pytest.raises(GuardError) as error:
        settle(request, Policy.parse("-mtu-over-active"))
    assert {finding.rule for finding in error.value.report.findings} == {"qpn-reserved", "port-inactive"}


def test_is_valid_transition() -> None:
    assert is_valid_transition("RESET", "INIT")
    assert is_valid_transition(3, 4, "RC")
    assert not is_valid_transition("RTS", "SQD", driver="mlx5")
    assert not is_valid_transition("INIT", "RTR", driver="siw")
    assert is_valid_transition("RTS", "ERR", driver="siw")
    assert not is_valid_transition("RESET", "INIT", "UC", driver="irdma")
    assert not is_valid_transition("RESET", "RESET", driver="irdma")
    assert not is_valid_transition("ERR", "RTS")
    assert not is_valid_transition("SQE", "RTS", "RAW_PACKET", driver="mlx5")
    with pytest.raises(ValueError, match="'RTSS' is not one of RESET, INIT"):
        is_valid_transition("RTSS", "RTR")
