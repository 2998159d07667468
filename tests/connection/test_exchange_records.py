"""Records and echoes with something wrong in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from handmade import LOCAL, NONCE, REMOTE, SETTINGS, Background, RawPeer

from rdmaqp.connection import messages
from rdmaqp.connection.exchange import Exchange
from rdmaqp.errors import PeerError

PEER = r"peer 127\.0\.0\.1:\d+ "


def wrong(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            record = record[parent]
        if value is ...:
            del record[name]
        else:
            record[name] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("nonce", ..., "sent nonce = None"),
        ("nonce", "0123456789ABCDEF", "sent nonce = '0123456789ABCDEF'"),
        ("nonce", "٠" * 16, "sent nonce = "),
        ("endpoint", ..., "sent a record without an endpoint"),
        ("endpoint", [], "sent a record without an endpoint"),
        ("endpoint.qp_num", ..., "sent a record without qp_num"),
        ("endpoint.psn", None, "sent a record without psn"),
        ("endpoint.qp_num", 1 << 24, "sent qp_num = 16777216; expected 0…16777215"),
        ("endpoint.qp_num", -1, "sent qp_num = -1"),
        ("endpoint.qp_num", 17.0, "sent qp_num = 17.0"),
        ("endpoint.qp_num", "17", "sent qp_num = '17'"),
        ("endpoint.lid", True, "sent lid = True"),
        ("endpoint.lid", 65536, "sent lid = 65536"),
        ("endpoint.gid", "fe80::1", "sent gid = 'fe80::1'; expected text like "),
        ("endpoint.gid", "0" * 33, "sent gid = "),
        ("endpoint.gid", 5, "sent gid = 5"),
        ("endpoint.path_mtu", 1500, "sent path_mtu = 1500; expected one of (256, 512, 1024, 2048, 4096)"),
        ("endpoint.grh_required", 1, "sent grh_required = 1; expected true or false"),
        ("endpoint.qp_type", "MC", "sent qp_type = 'MC'; expected one of RC, UC"),
        ("endpoint.port_state", 4, "sent port_state = 4"),
        ("endpoint.port_num", 0, "sent port_num = 0"),
        ("endpoint.max_rd_atomic", 256, "sent max_rd_atomic = 256"),
        ("settings", ..., "sent a record without settings"),
        ("settings", {str(n): n for n in range(65)}, "more than 64"),
        ("settings.size", [4096], "sent setting size = [4096]"),
    ],
)
def test_a_record_with_something_wrong(
    against_raw: tuple[Exchange, RawPeer], background: Background, path: str, value: Any, says: str
) -> None:
    exchange, raw = against_raw
    told: list[str] = []

    def peer() -> None:
        nonce = raw.read()["nonce"]
        record = messages.record(NONCE, REMOTE, SETTINGS)
        wrong(path, value)(record)
        raw.send(record)
        raw.send(messages.echo(nonce, NONCE, LOCAL))
        while (message := raw.read())["kind"] == "echo":
            pass
        told.append(message["reason"])

    background(peer)
    with pytest.raises(PeerError, match=f"^{PEER}.*{re.escape(says)}"):
        exchange.swap(LOCAL, SETTINGS, 2)
    background.join()
    assert told[0].startswith("this end sent ")


def test_what_a_peer_says_cannot_play_with_the_terminal(
    against_raw: tuple[Exchange, RawPeer], background: Background
) -> None:
    exchange, raw = against_raw

    def peer() -> None:
        nonce = raw.read()["nonce"]
        raw.send(messages.record(NONCE, REMOTE, {"size": "\x1b[31m\ud800" * 9}))
        raw.send(messages.echo(nonce, NONCE, LOCAL))

    background(peer)
    with pytest.raises(PeerError) as caught:
        exchange.swap(LOCAL, SETTINGS, 2)
    assert "\x1b" not in str(caught.value)
    str(caught.value).encode()


def test_an_echo_without_its_numbers(against_raw: tuple[Exchange, RawPeer], background: Background) -> None:
    exchange, raw = against_raw
    background(lambda: (raw.play("echo"), raw.send({"kind": "echo", "nonce": raw.nonce, "of": NONCE})))
    with pytest.raises(PeerError, match="sent an echo without qp_num or psn"):
        exchange.swap(LOCAL, SETTINGS, 2)
