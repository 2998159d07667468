"""Verdicts, and what follows from them: both ends know the same, and may try again."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import pytest
from handmade import LOCAL, NONCE, REMOTE, Background, RawPeer

from rdmaqp.connection import messages
from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.connection.refusals import NotUpError, RefusedError
from rdmaqp.connection.sockets import Deadline
from rdmaqp.connection.talk import Heard, Plan
from rdmaqp.errors import PeerError, RdmaqpError
from rdmaqp.model.endpoint import Endpoint

Pair = tuple[Exchange, Exchange]
Judge = Callable[[Endpoint], str | None]


def fine(_: Endpoint) -> None:
    return None


def agree(
    exchange: Exchange, local: Endpoint, judge: Judge = fine, bring_up: Callable[[Endpoint], int | None] = fine,
    told: dict[str, Any] | None = None,
) -> Heard:
    plan = Plan(local, {}, told or {}, judge, bring_up)
    return exchange._drive(exchange.talk.agree(plan), Deadline(5))


def both(pair: Pair, background: Background, server: dict[str, Any], client: dict[str, Any]) -> list[Any]:
    """What each end's agreement returns or raises: the server's, the client's."""
    found: list[Any] = [None, None]

    def one(at: int, local: Endpoint, how: dict[str, Any]) -> None:
        try:
            found[at] = agree(pair[at], local, **how)
        except RdmaqpError as error:
            found[at] = error

    other = background(one, 0, REMOTE, server)
    one(1, LOCAL, client)
    other.join(10)
    return found


def test_each_learns_what_the_other_tells_and_has_posted(pair: Pair, background: Background) -> None:
    server, client = both(
        pair, background,
        {"bring_up": lambda _: 7, "told": {"received": 5}}, {"bring_up": lambda _: None, "told": {"received": 6}},
    )  # fmt: skip
    assert (server.told, server.receives) == ({"received": 6}, None)
    assert (client.told, client.receives) == ({"received": 5}, 7)


@pytest.mark.parametrize("refusing", [("server",), ("client",), ("client", "server")])
def test_a_refusal_is_the_same_at_both_ends_and_nobody_brings_up(
    pair: Pair, background: Background, refusing: tuple[str, ...]
) -> None:
    brought_up: list[str] = []

    def judge(name: str) -> Judge:
        return lambda _: f"{name} sees RoCE v1\nthere, and v2 here \x1b[31m" if name in refusing else None

    def bring_up(_: Endpoint) -> None:
        brought_up.append("somebody")

    found = both(
        pair, background, {"judge": judge("server"), "bring_up": bring_up},
        {"judge": judge("client"), "bring_up": bring_up},
    )  # fmt: skip
    assert [type(error) for error in found] == [RefusedError, RefusedError]
    assert set(found[0].reasons) == set(refusing)
    texts = [str(error).replace(error.peer, "X").replace("\x1b", "?") for error in found]
    assert texts[0] == texts[1]
    assert f"the {refusing[0]} refuses: {refusing[0]} sees RoCE v1\nthere, and v2 here" in texts[0]
    assert brought_up == []
    # The reason may go away: both know where they stand.
    again = both(pair, background, {}, {})
    assert [type(heard) for heard in again] == [Heard, Heard]


def test_a_judge_that_fails_refuses(pair: Pair, background: Background) -> None:
    def judge(_: Endpoint) -> None:
        raise RdmaqpError("the GID has gone")

    found = both(pair, background, {"judge": judge}, {})
    assert [type(error) for error in found] == [RefusedError, RefusedError]
    assert found[1].reasons == {"server": "the GID has gone"}
    assert str(found[0].__cause__) == "the GID has gone"


def test_an_end_that_does_not_come_up_has_its_own_error_and_the_other_hears_it(
    pair: Pair, background: Background
) -> None:
    def bring_up(_: Endpoint) -> None:
        raise RdmaqpError("no answer from the neighbour")

    found = both(pair, background, {"bring_up": bring_up}, {})
    assert [type(error) for error in found] == [RdmaqpError, NotUpError]
    assert found[1].reason == "no answer from the neighbour"
    assert pair[0].in_step
    assert pair[1].in_step
    assert [type(heard) for heard in both(pair, background, {}, {})] == [Heard, Heard]


def test_an_own_failure_outlives_the_peers_end(against_raw: tuple[Exchange, RawPeer], background: Background) -> None:
    exchange, raw = against_raw

    def bring_up(_: Endpoint) -> None:
        raise RdmaqpError("no answer from the neighbour")

    background(lambda: (raw.play("ready"), raw.close()))
    with pytest.raises(RdmaqpError, match="no answer from the neighbour"):
        agree(exchange, LOCAL, bring_up=bring_up)
    assert not exchange.in_step


def test_a_verdict_on_an_earlier_record_is_stale(
    against_raw: tuple[Exchange, RawPeer], background: Background
) -> None:
    exchange, raw = against_raw
    background(lambda: (raw.play("verdict"), raw.send(messages.verdict(NONCE, None))))
    with pytest.raises(PeerError, match="judged an earlier record: its answer is stale"):
        agree(exchange, LOCAL)
    assert not exchange.in_step


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"kind": "verdict", "of": 5}, "sent of = 5"),
        ({"kind": "verdict"}, "sent of = None"),
        ({"kind": "verdict", "of": "{nonce}", "refused": 5}, "sent refused = 5; expected text or null"),
        ({"kind": "bye", "sent": 3}, "has ended the connection in good order"),
    ],
)
def test_verdicts_that_are_none(
    against_raw: tuple[Exchange, RawPeer], background: Background, message: dict[str, Any], says: str
) -> None:
    exchange, raw = against_raw

    def play() -> None:
        raw.play("verdict")
        raw.send({name: raw.nonce if value == "{nonce}" else value for name, value in message.items()})

    background(play)
    with pytest.raises(PeerError, match=says):
        agree(exchange, LOCAL)


@pytest.mark.parametrize("receives", [-1, "3", True, 1 << 32])
def test_a_count_of_receives_that_is_none(
    against_raw: tuple[Exchange, RawPeer], background: Background, receives: object
) -> None:
    exchange, raw = against_raw
    background(
        lambda: (raw.play("ready"), raw.send({"kind": "barrier", "name": "ready", "receives": receives}))
    )
    with pytest.raises(PeerError, match=r"sent receives = .*; expected 0…4294967295"):
        agree(exchange, LOCAL)


@pytest.mark.parametrize("stage", ["greeting", "record", "echo", "verdict", "ready", "traffic"])
def test_a_peer_killed_at_each_stage(listener: Listener, stage: str) -> None:
    """A process, and SIGKILL: this end knows within seconds, and serves the next."""
    pid = os.fork()
    if not pid:
        try:
            raw = RawPeer(socket.create_connection(("127.0.0.1", listener.port)))
            if stage != "greeting":
                raw.send({"kind": "hello"})
                raw.play("done" if stage == "traffic" else stage)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)

    def serve() -> None:
        with listener.accept(5) as peer:
            agree(peer, LOCAL)
            peer.barrier("done", 5)

    with pytest.raises(PeerError, match=r"(closed|reset) the connection while this end"):
        serve()
    os.waitpid(pid, 0)
    with Exchange.connect("127.0.0.1", listener.port, 5), listener.accept(5):
        pass
