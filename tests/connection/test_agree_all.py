"""agree_all(): two groups of queue pairs in one conversation, at both ends or with the same words at both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from null_connection import in_asyncio, in_threads
from null_side import rdmaqp, stub

from rdmaqp.connection import agreement_many

if TYPE_CHECKING:
    from verbs.conftest import Null


def groups(count: int, other: int, **options: Any) -> list[rdmaqp.QueuePairs]:
    context = rdmaqp.open()
    cq, pd = context.create_cq(64), context.alloc_pd()
    return [pd.create_qps(number, cq, **options) for number in (count, other)]


def agreed(way: str) -> dict[str, Any]:
    here, there = groups(20, 20)
    if way == "threads":
        found = in_threads(lambda exchange: exchange.agree_all(here, timeout=10, told={"name": "a"}),
                           lambda exchange: exchange.agree_all(there, timeout=10, told={"name": "b"}, retry_cnt=3),
                           b"a secret of some length")  # fmt: skip
    else:
        found = in_asyncio(lambda exchange: exchange.agree_all(here, timeout=10, told={"name": "a"}),
                           lambda exchange: exchange.agree_all(there, timeout=10, told={"name": "b"}))  # fmt: skip
    ours, theirs = found
    return {
        "states": [qps.where_now() for qps in (here, there)],
        "fit": list(ours.local) == list(theirs.remote) and list(theirs.local) == list(ours.remote),
        "numbers": [list(ours.local.qp_nums) == list(here.qp_nums), len(set(ours.local.psns)) > 10],
        "told": [ours.told, theirs.told], "ways": [len(qps._ways) for qps in (here, there)],
        "peers": [qp.history[1].attr.dest_qp_num for qp in here] == list(there.qp_nums),
        "clean": [qp.report.verdict for qp in (here[0], here[7], there[19])],  # type: ignore[union-attr]
    }  # fmt: skip


@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_number_i_agrees_with_number_i(null: Null, way: str) -> None:
    came = null.run(agreed, way)
    assert came["states"] == ["20 in RTS", "20 in RTS"]
    assert came["fit"]
    assert came["peers"]
    assert came["numbers"] == [True, True]
    assert came["told"] == [{"name": "b"}, {"name": "a"}]
    assert came["ways"] == [1, 1]
    assert came["clean"] == ["pass"] * 3


def refused(how: str) -> Any:
    here, there = groups(5, 4 if how == "fewer" else 5)
    options = {"min_rnr_timer": 77} if how == "guard" else {}

    def theirs(exchange: rdmaqp.Exchange) -> Any:
        if how == "one":
            return exchange.agree(there[0], timeout=10)
        return exchange.agree_all(there, timeout=10)

    found = in_threads(lambda exchange: exchange.agree_all(here, timeout=10, **options), theirs)
    return [found, [here.where_now(), [qp.state.name for qp in there]]]


@pytest.mark.parametrize(("how", "words"), [
    ("fewer", "the one end has 5 queue pairs, the other 4"), ("one", "many queue pairs up at once (agree_all)"),
    ("guard", "min_rnr_timer: 77"),
])  # fmt: skip
def test_a_refusal_reaches_both(null: Null, how: str, words: str) -> None:
    (ours, theirs), (states, their_states) = null.run(refused, how)
    assert ours["type"] == theirs["type"] == "RefusedError"
    assert ours["reasons"] == theirs["reasons"]
    assert words in str(ours["reasons"])
    assert states == "5 in RESET"
    assert set(their_states) <= {"RESET", "INIT"}


def failed() -> Any:
    here, there = groups(5, 5)

    def theirs(exchange: rdmaqp.Exchange) -> Any:
        whole = there.connect

        def connect(*args: Any, **options: Any) -> None:
            stub(MODIFY_ERRNO="RTS=110")
            whole(*args, **options)

        there.connect = connect  # type: ignore[method-assign]
        return exchange.agree_all(there, timeout=10)

    found = in_threads(lambda exchange: exchange.agree_all(here, timeout=10), theirs)
    return [one["type"] for one in found]


def test_an_end_that_fails_is_heard_of(null: Null) -> None:
    ours, theirs = null.run(failed)
    assert theirs == "VerbsError"
    assert ours in ("NotUpError", "VerbsError")


@pytest.mark.parametrize("column", [[], [0], [0xFFFFFF, 1, 2], list(range(7000))])
def test_a_column_travels(column: list[int]) -> None:
    assert agreement_many._unpacked(agreement_many._packed(column)) == column


@pytest.mark.parametrize("text", [None, 5, "AAAA=", "####", "AA=="])
def test_what_is_no_column_is_not_read(text: Any) -> None:
    assert agreement_many._unpacked(text) is None


def too_many() -> list[str]:
    (here, _) = groups(agreement_many.MOST + 1, 1)
    try:
        agreement_many.AgreementMany(here, None, {})
    except ValueError as error:
        text = str(error)
    (here, _) = groups(agreement_many.MOST, 1)
    plan = agreement_many.AgreementMany(here, None, {}).begin({}, {"a": 1})
    from rdmaqp.connection import frames, messages  # what the null side has not imported

    return [text, str(len(frames.encode(messages.record("0" * 16, plan.local, plan.settings, plan.told))))]


def test_as_many_as_one_message_has_room_for(null: Null) -> None:
    text, length = null.run(too_many)
    assert text == "7001 queue pairs are more than agree at a time; 7000 do"
    assert 50_000 < int(length) < 64 * 1024


def as_in_the_readme(lines: list[str], without: int) -> list[str]:
    """Run the README's lines but for one of the two that connect, towards an end that does as it says."""
    context = rdmaqp.open()
    cq, pd = context.create_cq(600), context.alloc_pd()
    there = pd.create_qps(500, cq)
    region, srq = pd.alloc_mr(64), pd.create_srq(8)
    srq.recv(region)

    def reader(peer: rdmaqp.Exchange) -> str:
        names = {"pd": pd, "cq": cq, "srq": srq, "peer": peer, "region": region, "remote": there.endpoints(psn=3)}
        exec("\n".join(line for at, line in enumerate(lines) if at != without), names)
        return names["qps"].where_now()  # type: ignore[attr-defined, no-any-return]

    def other(peer: rdmaqp.Exchange) -> str:
        if without == 2:
            peer.agree_all(there, timeout=10)
        return there.where_now()

    return in_threads(reader, other)


@pytest.mark.parametrize(("without", "states"), [(2, ["500 in RTS"] * 2), (1, ["500 in RTS", "500 in RESET"])])
def test_the_readme_does_what_it_says(null: Null, without: int, states: list[str]) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    block = next(part for part in text.split("```") if "create_qps(" in part)
    lines = [line for line in block.splitlines()[1:] if line]
    called = [line.partition("(")[0].rpartition(".")[2] for line in lines]
    assert called == ["create_qps", "agree_all", "connect", "send"]
    assert null.run(as_in_the_readme, lines, without) == states
