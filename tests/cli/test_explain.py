"""``rdmaqp explain``: every word that there is has an explanation, and it is the table's and the judge's."""

from __future__ import annotations

import errno
import json
import re
from dataclasses import fields
from itertools import product

import pytest

from rdmaqp.guard import check
from rdmaqp.guard.completions import MEANINGS
from rdmaqp.guard.driver_rows import DRIVERS
from rdmaqp.guard.drivers import Driver
from rdmaqp.guard.errnos import ANSWERS
from rdmaqp.guard.lore.attributes import CONVERSIONS, PARTS, WHY
from rdmaqp.guard.lore.drivers import _WORDS, TOLD_APART
from rdmaqp.guard.lore.errnos import ERRNOS
from rdmaqp.guard.lore.folklore import FOLKLORE
from rdmaqp.guard.lore.machine import arrows
from rdmaqp.guard.lore.states import BY_HARDWARE, STATES, TYPES
from rdmaqp.guard.lore.topics import posting
from rdmaqp.guard.lore.words import UnknownWordError, explain, known
from rdmaqp.guard.rules import RULES
from rdmaqp.model.attributes import AV_RANGES, FIELDS, GRH_RANGES, RATE_CODES, QPAttr
from rdmaqp.model.enums import DriverType, QPState, QPType, WCStatus, mask_names
from rdmaqp.model.facts import DeviceFacts, QPFacts
from rdmaqp.model.request import Request
from rdmaqp.model.table import DRIVER_TABLE, TABLE
from rdmaqp.model.timers import RNR_TIMER_MS

from .conftest import Rdmaqp

EVERY_WORD = [word for words in known().values() for word in words]


@pytest.mark.parametrize("word", EVERY_WORD)
def test_every_word_is_explained_in_any_case(word: str) -> None:
    found = explain([word])
    assert found
    assert explain([word.lower()]) == explain([word.upper()]) == found
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("qp_type", TABLE)
def test_an_arrow_is_the_tables_row(qp_type: QPType) -> None:
    for start, goal in product(QPState, QPState):
        (topic,) = explain([start.name, goal.name], qp_type)
        rule = TABLE[qp_type].get((start, goal))
        assert topic["exists"] == (rule is not None)
        if rule is not None:
            assert tuple(row["mask"] for row in topic["required"]) == mask_names(rule.required)
            assert tuple(row["mask"] for row in topic["optional"]) == mask_names(rule.optional)
        else:
            assert topic["why"]
            assert topic["way"] is None or topic["way"][0] == start.name


@pytest.mark.parametrize("words", [
    ["init", "rtr"], ["INIT→RTR"], ["INIT->RTR"], ["IBV_QPS_INIT", "to", "IB_QPS_RTR"], ["INIT-RTR"], ["init_to_rtr"],
    ["init to rtr"], ["INIT2RTR"], ["INIT", "→", "RTR"], ["INIT→", "RTR"], ["IBV_QPS_INIT-IBV_QPS_RTR"], ["INIT/RTR"],
])  # fmt: skip
def test_an_arrow_is_written_in_many_ways(words: list[str]) -> None:
    (topic,) = explain(words)
    assert (topic["kind"], topic["from"], topic["to"]) == ("arrow", "INIT", "RTR")


@pytest.mark.parametrize("words", [
    ["INIT", "RTR", "RTS", "SQD"], ["INIT→RTR→RTS→SQD"], ["init-rtr-rts-sqd"], ["INIT RTR RTS SQD"],
    ["INIT->RTR", "->", "RTS->SQD"], ["INIT", "to", "RTR", "to", "RTS", "to", "SQD"],
])  # fmt: skip
def test_states_in_a_row_are_a_way_of_several_arrows(words: list[str]) -> None:
    arrows = [(topic["from"], topic["to"]) for topic in explain(words) if topic["kind"] == "arrow"]
    assert arrows[0] == ("INIT", "RTR")
    assert arrows[-1] == ("RTS", "SQD")
    assert arrows in ([("INIT", "RTR"), ("RTR", "RTS"), ("RTS", "SQD")], [("INIT", "RTR"), ("RTS", "SQD")])


def test_a_word_with_a_blank_in_it_stands_for_itself() -> None:
    found = explain(["SQE", "RESET RTS", "timeout 14", "ERR-RESET", "RTS"])
    assert [(topic["kind"], topic.get("from")) for topic in found] == [
        ("state", None), ("arrow", "RESET"), ("attribute", None), ("arrow", "ERR"), ("state", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "driver"), [("DCI", "mlx5"), ("DCT", "mlx5"), ("SRD", "efa")])
def test_a_drivers_own_types_have_their_own_tables_and_name_the_driver(
    rdmaqp: Rdmaqp, kind: str, driver: str
) -> None:
    own = DriverType[kind]
    for start, goal in product(QPState, QPState):
        (topic,) = explain([start.name, goal.name], own)
        rule = DRIVER_TABLE[own].get((start, goal))
        assert (topic["exists"], topic["owner"]) == (rule is not None, driver)
        if rule is not None:
            assert tuple(row["mask"] for row in topic["required"]) == mask_names(rule.required)
        else:
            assert topic["why"]
    assert explain([kind])[0]["drivers"] == [driver]
    assert kind in explain([driver])[0]["types"]
    shown = rdmaqp("explain", "--type", kind, "RTR", "INIT RTR", kind)
    assert f"{kind} on {driver}: INIT → RTR" in shown.stdout
    assert f"ways out, {kind} on {driver}" in shown.stdout


def test_what_may_be_posted_is_the_judges_word() -> None:
    expected = {"RESET": ("no", "no"), "INIT": ("no", "yes"), "RTR": ("no", "yes"), "RTS": ("yes", "yes"),
                "SQD": ("yes", "yes"), "SQE": ("flushed", "yes"), "ERR": ("flushed", "flushed")}  # fmt: skip
    for state in QPState:
        (topic,) = explain([state.name], QPType.UD)
        assert (topic["post_send"]["taken"], topic["post_recv"]["taken"]) == expected[state.name]
    assert posting(QPState.ERR, "recv", QPType.RC, "efa")["taken"] == "no"
    assert posting(QPState.RTS, "recv", QPType.XRC_SEND)["taken"] == "no"


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_arrows_that_a_driver_lacks_are_those_that_the_judge_refuses(driver: str) -> None:
    kinds = [kind for kind in TABLE if DRIVERS[driver].types is None or kind in DRIVERS[driver].types]
    for kind in kinds:
        for arrow in arrows(kind, driver):
            request = Request(
                qp=QPFacts(type=kind, state=arrow.start, was=(), sq_draining=0), attr=QPAttr(qp_state=arrow.goal),
                device=DeviceFacts(driver=driver),
            )  # fmt: skip
            refused = [error for error in check(request).errors if error.rule.startswith("transition-")]
            assert bool(refused) == (arrow.missing is not None)
    missing = {row["arrow"] for topic in explain([driver]) if topic["kind"] == "driver" for row in topic["missing"]}
    assert ("RTS → SQD" in missing) == (driver in ("mlx5", "hns", "siw", "cxgb4"))


def test_numbers_mean_all_that_they_may() -> None:
    assert [topic["kind"] for topic in explain(["12"])] == ["errno", "status"]
    assert [topic["name"] for topic in explain(["12"])] == ["ENOMEM", "RETRY_EXC_ERR"]
    assert [topic["name"] for topic in explain(["-22"])] == ["EINVAL"]
    assert [topic["name"] for topic in explain(["IBV_WC_WR_FLUSH_ERR"])] == ["WR_FLUSH_ERR"]
    assert [topic["name"] for topic in explain(["524"])] == ["ENOTSUPP"]


def test_an_attribute_with_its_code() -> None:
    (topic,) = explain(["timeout", "14"])
    assert (topic["value"], topic["codes"][14], topic["codes"][0]) == (14, "67.1 ms", "for ever")
    assert topic["belongs"]["RC"] == ["RTR → RTS"]
    assert (topic["required"]["RC"], topic["optional"]["RC"]) == (["RTR → RTS"], ["SQD → SQD"])
    found = explain(["IBV_QP_AV", "ah_attr.grh.sgid_index"])
    assert [topic["attribute"] for topic in found] == ["ah_attr", "sgid_index"]


@pytest.mark.parametrize(
    ("words", "said"),
    [("timeout 14", "14 is 67.1 ms"), ("timeout -1", "-1 is not among them"), ("path_mtu 1024", "1024 bytes is code 3"),
     ("qp_access_flags 0xf", "0xf is LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC"),
     ("qp_access_flags 0x80000001", "0x80000001 is LOCAL_WRITE, 0x80000000 without a name"),
     ("qp_access_flags 0", "0x0 is no access at all"), ("AV 5", "a number such as 5 is none"),
     ("dgid 5", "a number such as 5 is none"),
     ("qkey 0x80000000", "0x80000000 is in its range"), ("qp_state 3", "3 is RTS"), ("qp_state 9", "9 is none of them"),
     ("path_mig_state 1", "1 is REARM"), ("retry_cnt 8", "8 is not among them"), ("sl 16", "16 is outside its range"),
     ("dlid 0xc000", "0xc000 is no unicast LID: no connected queue pair of InfiniBand sends there"),
     ("dlid 49151", "49151 is in its range"), ("static_rate 1", "1 is not among them"), ("rq_psn 16777216",
      "16777216 is outside its range")],
)  # fmt: skip
def test_the_code_given_is_answered(rdmaqp: Rdmaqp, words: str, said: str) -> None:
    (topic,) = explain(words.split())
    assert topic["said"] == said
    if words == "timeout 14":
        assert said in rdmaqp("explain", *words.split()).stdout


def test_where_an_attribute_goes_is_the_tables() -> None:
    for name, field in FIELDS.items():
        (topic,) = explain([name])
        for kind, rows in TABLE.items():
            if name == "qp_state":
                assert "INIT → RTR" in topic["required"][kind.name]
                assert "INIT → INIT" in topic["optional"][kind.name]
                continue
            for (start, goal), rule in rows.items():
                arrow = f"{start.name} → {goal.name}"
                assert (arrow in topic["required"][kind.name]) == bool(rule.required & field.mask), (name, kind, arrow)
                assert (arrow in topic["optional"][kind.name]) == bool(rule.optional & field.mask), (name, kind, arrow)


@pytest.mark.parametrize("word", ["EOPNOTSUPP", "ENOTSUP", "95", "-95"])
def test_not_supported_has_the_name_that_programs_print(word: str) -> None:
    assert [(topic["name"], topic["errno"]) for topic in explain([word])] == [("EOPNOTSUPP", errno.EOPNOTSUPP)]


def test_a_type_before_states_is_theirs() -> None:
    assert [topic.get("type") for topic in explain(["UC", "INIT", "RTR", "RTS"])] == ["UC", "UC", "UC"]
    assert [topic["required"] for topic in explain(["UD", "INIT", "RTR"])[1:]] == [[]]


def test_what_does_not_fit_on_a_line_goes_on_beside_its_label(rdmaqp: Rdmaqp) -> None:
    lines = rdmaqp("explain", "INIT", "RC", "folklore", COLUMNS="60").stdout.splitlines()
    at_the_edge = [line for line in lines if line and line[0] != " "]
    assert [line.split()[0] for line in at_the_edge] == ["INIT", "RC", "Folklore"]
    (beside,) = [line for line in lines if "optional)" in line and "→" not in line]
    assert beside.startswith(" " * 13)


@pytest.mark.parametrize(
    ("word", "near"),
    [("nonsense", "post-sge"), ("mtu", "path_mtu"), ("INIT-RTX", "INIT"),
     ("timout", "timeout"), ("RTRR", "RTR"), ("mask-mising", "mask-missing"), ("EINVALL", "EINVAL"), ("mlx", "mlx5"),
     ("RETRY_EXC", "RETRY_EXC_ERR"), ("IBV_QP_PATH_MTUU", "path_mtu"), ("sgid", "sgid_index")],
)  # fmt: skip
def test_an_unknown_word_names_the_nearest(rdmaqp: Rdmaqp, word: str, near: str) -> None:
    with pytest.raises(UnknownWordError) as error:
        explain([word])
    assert near in error.value.near
    done = rdmaqp("explain", word)
    assert done.returncode == 2
    assert near in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("word", ["", "x" * 5000, "99999", "\x00", "--", "→"])
def test_odd_words(rdmaqp: Rdmaqp, word: str) -> None:
    if "\x00" not in word:
        assert rdmaqp("explain", "--", word).returncode in ((0, 2) if word == "--" else (2,))
    with pytest.raises(UnknownWordError) as error:
        explain([word])
    assert len(str(error.value)) < 200


# ---------------------------------------------------------------------- the data is whole


def test_nothing_is_without_words() -> None:
    assert set(STATES) == set(QPState)
    assert set(TYPES) == {*QPType, *DriverType}
    assert set(BY_HARDWARE) == {*TABLE, DriverType.DCI}
    assert set(WHY) == set(FIELDS)
    assert set(PARTS) == {"dgid"} | ((set(AV_RANGES) | set(GRH_RANGES)) - {"port_num"})
    assert set(MEANINGS) == set(WCStatus) - {WCStatus.SUCCESS}
    assert {number for rules in ANSWERS.values() for number in rules} <= set(ERRNOS) | {errno.EPROTONOSUPPORT}


def test_conversions_are_those_of_the_model() -> None:
    assert set(CONVERSIONS["static_rate"]) == RATE_CODES
    assert [float(text.split()[0]) for text in CONVERSIONS["min_rnr_timer"].values()] == list(RNR_TIMER_MS)
    assert list(CONVERSIONS["path_mtu"].values()) == [f"{128 << code} bytes" for code in range(1, 6)]
    for name, codes in CONVERSIONS.items():
        if name in FIELDS and name != "path_mtu":
            assert list(codes) == list(range(FIELDS[name].low, FIELDS[name].high + 1))


def test_the_nine_claims_are_each_told_somewhere(rdmaqp: Rdmaqp) -> None:
    assert len(FOLKLORE) == 9
    told = {claim["said"] for word in EVERY_WORD for topic in explain([word]) for claim in topic.get("folklore", ())}
    assert told == {claim.said for claim in FOLKLORE}
    for claim in FOLKLORE:
        for topic in claim.topics:
            words = topic.split("-") if re.fullmatch(r"[A-Z]+-[A-Z]+", topic) else [topic]
            assert claim.said in {found["said"] for part in explain(words) for found in part.get("folklore", ())}, topic
    assert rdmaqp("explain", "folklore").stdout.count("They say: ") == 9


def test_every_rule_has_a_topic_with_its_source() -> None:
    for name, info in RULES.items():
        topic = next(topic for topic in explain([name]) if topic["kind"] == "rule")
        assert (topic["says"], topic["source"], topic["severity"]) == (info.says, info.source, info.severity)


# ---------------------------------------------------------------------- as a user sees it


def test_words_for_the_eye_and_for_a_program(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("explain", "INIT", "RTR", "--type", "UD", COLUMNS="80")
    assert done.returncode == 0
    assert "UD: INIT → RTR" in done.stdout
    assert "PKEY_INDEX" in done.stdout
    assert "PATH_MTU  " not in done.stdout
    assert json.loads(rdmaqp("explain", "--json", "INIT", "RTR", "--type", "UD").stdout)[0]["required"] == []
    assert "emergency brake" in rdmaqp("explain", "ERR").stdout
    assert "states" in rdmaqp("explain").stdout
    assert set(json.loads(rdmaqp("explain", "--json").stdout)) == set(known())


def test_each_kind_is_printed(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("explain", "SQE", "RESET RTS", "ERR RESET", "DRIVER", "static_rate 1", "cap", "post-sge", "ETIMEDOUT",
                  "0", "13", "irdma", "efa", "--driver", "mlx5")  # fmt: skip
    assert done.returncode == 0, done.stderr
    for text in ("RESET → INIT → RTR → RTS", "1 is not among them", "never MTU", "a second time", "no receive was"):
        assert text in done.stdout, text


def test_a_drivers_row_is_told_in_the_fields_words() -> None:
    """Every field has words; none shows a raw row: a mask as a number, a Python value, the name of a field of ours."""
    assert set(_WORDS) | TOLD_APART == {field.name for field in fields(Driver)}
    told = {name: explain([name])[-1]["differs"] for name in DRIVERS}
    assert "takes LOCAL_WRITE, REMOTE_WRITE" in told["rxe"]["access_flags"]
    assert "bits 21…29" in told["rxe"]["access_flags"]
    assert told["rxe"]["refused_unchecked"] == "refused even without STATE: ACCESS_FLAGS of UD"
    assert told["mlx5"]["rate_high"] == "static_rate is known up to code 23 (800 Gbit/s)"
    assert told["bnxt_re"]["rate_limit"] == "from Linux 7.0 on, RATE_LIMIT is taken for RC"
    assert told["efa"]["post_refused"] == "post_send is refused in SQE, ERR; post_recv is refused in ERR"
    ours = {field.name for field in fields(Driver) if "_" in field.name}
    for said in [text for row in told.values() for text in row.values()]:
        assert not re.search(r"\b(?:True|False|None)\b|[{}<>]|\b\d{4}\d+\b|0x", said.replace("0xBFFF", "")), said
        assert not [name for name in ours if re.search(rf"\b{name}\b", said)], said


@pytest.mark.parametrize(("option", "value", "hint"), [("--type", "XRC", "XRC_"), ("--driver", "mlx6", "mlx5")])
def test_an_unknown_type_or_driver(rdmaqp: Rdmaqp, option: str, value: str, hint: str) -> None:
    done = rdmaqp("explain", "SQD", option, value)
    assert done.returncode == 2
    assert hint in done.stderr


@pytest.mark.parametrize(("columns", "most"), [("", 80), ("60", 60), ("132", 132)])
def test_without_a_terminal_the_lines_are_narrow_and_clean(rdmaqp: Rdmaqp, columns: str, most: int) -> None:
    done = rdmaqp("explain", "folklore", "INIT RTR", "SQD RTS", *EVERY_WORD, COLUMNS=columns)
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > most or line != line.rstrip()] == []
    assert max(map(len, lines)) > most - 5, "and they make use of the room"
