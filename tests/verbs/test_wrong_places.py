"""Work requests that name the other side by what is not its memory, or no destination: refused in words, everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from null_side import error_of, rdmaqp, side

if TYPE_CHECKING:
    from verbs.conftest import Null


def named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def wrong_remotes() -> list[list[str]]:
    one = side()
    here = one.qp.endpoint(psn=1)
    one.qp.connect(here, here)
    local, found = one.mr[0:8], []
    for remote in [(1, 2, 3), None, "x", local]:
        wrong: Any = remote
        work = rdmaqp.Write(local, wrong)
        found.append([named(error) for error in (
            error_of(one.qp.write, local, wrong), error_of(one.qp.read, local, wrong),
            error_of(one.qp.fetch_add, local, wrong, 1), error_of(one.qp.compare_swap, local, wrong, 1, 2),
            error_of(one.qp.chain, work), error_of(rdmaqp.SendRecords(1).__setitem__, 0, work),
            error_of(rdmaqp.Stream, one.qp, work, count=1),
        )])  # fmt: skip
    return found


def test_a_remote_that_is_none(null: Null) -> None:
    shown = ("(1, 2, 3) (tuple)", "None", "'x' (str)", "<8 bytes")
    for errors, given in zip(null.run(wrong_remotes), shown, strict=True):
        for error in errors:
            assert error.startswith("TypeError: ")
            assert f": remote is {given}" in error
            way = "give its .remote" if given == "<8 bytes" else "RemoteMemory(addr, length, rkey) makes one"
            assert error.endswith(f"expected the peer's memory: {way}")


def wrong_destinations() -> list[str]:
    one = side(qp_type="UD")
    one.qp.activate(one.qp.endpoint(psn=1, qkey=1))
    wrong: Any = "there"
    return [
        named(error_of(one.qp.send, one.mr[0:8], to=wrong)),
        named(error_of(one.qp.chain, rdmaqp.Send(one.mr[0:8], to=wrong))),
    ]


def test_a_destination_that_is_none(null: Null) -> None:
    text = "TypeError: Send: to is 'there' (str); expected a destination: qp.destination(record) makes one"
    assert null.run(wrong_destinations) == [text, text]


def test_what_the_peer_told_has_to_be_numbers() -> None:
    for name in ("addr", "length", "rkey"):
        told: dict[str, Any] = {"addr": 1, "length": 1, "rkey": 1, name: "12"}
        error = error_of(rdmaqp.RemoteMemory, **told)
        assert str(error) == f"RemoteMemory: {name} is '12'; expected an int, as the peer told it"
    assert str(error_of(rdmaqp.RemoteMemory(1, 8, 1).__getitem__, 3)) == (
        "this remote memory of 8 bytes takes a slice, such as [0:64], not 3"
    )
