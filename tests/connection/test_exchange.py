"""Two ends that behave: what they learn, in which order, and what one hears of the other's trouble."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import pytest
from handmade import LOCAL, NONCE, REMOTE, SETTINGS, Background, RawPeer

from rdmaqp.connection import frames, messages
from rdmaqp.connection.exchange import Exchange, Listener, SettingsError
from rdmaqp.connection.sockets import Deadline
from rdmaqp.errors import ClosedError, DeadlineError, PeerError
from rdmaqp.model.endpoint import Endpoint

Pair = tuple[Exchange, Exchange]


def test_bytes_of_a_frame() -> None:
    assert frames.encode({"kind": "hello"}) == b'RDQP\x00\x02\x00\x00\x00\x10{"kind":"hello"}'


def test_both_learn_everything(pair: Pair, background: Background) -> None:
    server, client = pair
    got: list[Any] = []
    background(lambda: got.append(server.swap(REMOTE, SETTINGS, 2)))
    remote, settings = client.swap(LOCAL, SETTINGS, 2)
    background.join()
    assert remote == dataclasses.replace(REMOTE, sees_qp_num=LOCAL.qp_num, sees_psn=LOCAL.psn)
    assert settings == SETTINGS
    assert got == [(dataclasses.replace(LOCAL, sees_qp_num=REMOTE.qp_num, sees_psn=REMOTE.psn), SETTINGS)]


def test_every_field_of_an_endpoint_is_told() -> None:
    told = messages.record(NONCE, LOCAL, {})["endpoint"].keys()
    assert told == {field.name for field in dataclasses.fields(Endpoint)} - {"sees_qp_num", "sees_psn"}
    assert all(getattr(LOCAL, name) is not None for name in told), "LOCAL is to have a value in each"


def test_nobody_goes_on_before_both_are_up(pair: Pair, background: Background) -> None:
    server, client = pair
    order: list[str] = []

    def slow(_remote: Endpoint) -> None:
        time.sleep(0.2)
        order.append("server is up")

    background(server.exchange_records, REMOTE, SETTINGS, slow, 2)
    remote = client.exchange_records(LOCAL, SETTINGS, lambda _: order.append("client is up"), 2)
    order.append("client goes on")
    assert order == ["client is up", "server is up", "client goes on"]
    assert remote.qp_num == REMOTE.qp_num


def test_nobody_ends_before_both_are_done(pair: Pair, background: Background) -> None:
    server, client = pair
    background(server.exchange_records, REMOTE, SETTINGS, lambda _: None, 2)
    client.exchange_records(LOCAL, SETTINGS, lambda _: None, 2)
    background.join()
    with pytest.raises(DeadlineError, match=r"did not send its 'done' within 0\.1 s"):
        client.barrier("done", 0.1)
    for _ in range(3):
        server.check_peer()  # the client's "done" is early, no failure
    server.barrier("done", 1)


def test_a_server_may_start_after_the_client(background: Background) -> None:
    with Listener(0, "127.0.0.1") as probe:
        port = probe.port
    got: list[str] = []

    def client() -> None:
        with Exchange.connect("127.0.0.1", port, 5) as exchange:
            exchange.swap(LOCAL, {}, 2)
            got.append(exchange.peer)

    background(client)
    time.sleep(0.3)
    with Listener(port, "127.0.0.1") as listener, listener.accept(2) as server:
        assert server.role == "server"
        server.swap(REMOTE, {}, 2)
        background.join()
    assert got == [f"127.0.0.1:{port}"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_every_address_of_this_host_reaches_the_server(host: str) -> None:
    with (
        Listener(0, "") as listener,
        Exchange.connect(host, listener.port, 2) as client,
        listener.accept(2) as server,
    ):
        assert str(listener.port) in client.peer
        assert "ffff" not in server.peer


def test_many_at_once(background: Background) -> None:
    def one(number: int) -> None:
        mine = dataclasses.replace(LOCAL, qp_num=number)
        with Listener(0, "127.0.0.1") as listener:
            other = background(client, listener.port, number + 100)
            with listener.accept(5) as server:
                assert server.exchange_records(mine, SETTINGS, lambda _: None, 5).qp_num == number + 100
                server.barrier("done", 5)
            other.join(5)

    def client(port: int, number: int) -> None:
        mine = dataclasses.replace(REMOTE, qp_num=number)
        with Exchange.connect("127.0.0.1", port, 5) as exchange:
            remote = exchange.exchange_records(mine, SETTINGS, lambda _: None, 5)
            assert (remote.qp_num, remote.sees_qp_num) == (number - 100, number)
            exchange.barrier("done", 5)

    for thread in [background(one, number) for number in range(16)]:
        thread.join(10)


@pytest.mark.parametrize(("here", "there"), [({"size": 4096}, {"size": 64}), ({"validate": 1}, {"validate": True})])
def test_settings_that_differ_are_told_at_both_ends(
    pair: Pair, background: Background, here: dict[str, int], there: dict[str, int]
) -> None:
    def other() -> None:
        with pytest.raises(SettingsError):
            pair[0].swap(REMOTE, there, 2)

    background(other)
    with pytest.raises(SettingsError, match=r"^this end and peer 127\.0\.0\.1:\d+ differ in ") as caught:
        pair[1].swap(LOCAL, here, 2)
    (name, values), = caught.value.differences.items()
    assert values == (here[name], there[name])
    assert f"{name}: here {here[name]}, there {there[name]}" in str(caught.value)


def test_a_setting_that_one_end_does_not_know_is_no_difference(pair: Pair, background: Background) -> None:
    background(pair[0].swap, REMOTE, {"size": 1, "new": 5}, 2)
    assert pair[1].swap(LOCAL, {"size": 1, "old": 6}, 2)[1] == {"size": 1, "new": 5}


def test_a_second_swap_on_the_same_connection(pair: Pair, background: Background) -> None:
    second = dataclasses.replace(REMOTE, qp_num=0x99)

    def server() -> None:
        pair[0].swap(REMOTE, {}, 2)
        pair[0].swap(second, {}, 2)

    background(server)
    pair[1].swap(LOCAL, {}, 2)
    assert pair[1].swap(LOCAL, {}, 2)[0].qp_num == 0x99


@pytest.mark.parametrize(("nonce", "of"), [(NONCE, NONCE), (None, "f" * 16)])
def test_a_stale_record_or_answer_is_refused(
    against_raw: tuple[Exchange, RawPeer], background: Background, nonce: str | None, of: str
) -> None:
    exchange, raw = against_raw

    def peer() -> None:
        raw.play(until="echo")
        raw.send(messages.echo(nonce or raw.nonce, of, LOCAL))

    background(peer)
    with pytest.raises(PeerError, match="answered to an earlier record: its answer is stale"):
        exchange.swap(LOCAL, SETTINGS, 2)


def test_what_the_peer_took_us_for_is_handed_on(
    against_raw: tuple[Exchange, RawPeer], background: Background
) -> None:
    exchange, raw = against_raw

    def peer() -> None:
        raw.play(until="echo")
        raw.send(messages.echo(raw.nonce, NONCE, dataclasses.replace(LOCAL, qp_num=5, psn=6)))

    background(peer)
    remote, _ = exchange.swap(LOCAL, SETTINGS, 2)
    assert (remote.sees_qp_num, remote.sees_psn) == (5, 6)


def test_fields_of_a_newer_peer_are_skipped(
    against_raw: tuple[Exchange, RawPeer], background: Background
) -> None:
    exchange, raw = against_raw

    def peer() -> None:
        nonce = raw.read()["nonce"]
        record = messages.record(NONCE, REMOTE, {})
        record["endpoint"]["colour"] = {"deep": [1]}
        raw.send(record | {"also": None})
        raw.send(messages.echo(nonce, NONCE, LOCAL) | {"more": 1})

    background(peer)
    assert exchange.swap(LOCAL, SETTINGS, 2)[0].qp_num == REMOTE.qp_num


def test_the_reason_of_one_end_is_the_error_of_the_other(pair: Pair) -> None:
    server, client = pair
    assert client.fail("no memory\x1b[31m left")
    assert not client.fail("second thoughts")
    client.close()
    with pytest.raises(PeerError, match=r"^peer 127\.0\.0\.1:\d+ gave up: no memory\?\[31m left$"):
        server.check_peer()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("out of pages"), "could not bring its queue pair up: out of pages"),
        (KeyboardInterrupt(), r"gave up: interrupted \(Ctrl-C\)"),
    ],
)
def test_trouble_in_the_bring_up_is_told(
    pair: Pair, background: Background, error: BaseException, told: str
) -> None:
    def bring_up(_remote: Endpoint) -> None:
        raise error

    def server() -> None:
        with pytest.raises(type(error)):
            pair[0].exchange_records(REMOTE, {}, bring_up, 2)

    background(server)
    with pytest.raises(PeerError, match=told):
        pair[1].exchange_records(LOCAL, {}, lambda _: None, 2)


def test_trouble_in_the_block_is_told(pair: Pair) -> None:
    server, client = pair
    with pytest.raises(ValueError, match="bad luck"), client:
        raise ValueError("bad luck")
    with pytest.raises(PeerError, match="gave up: bad luck"):
        server.barrier("done", 1)


def test_a_reason_outlives_a_reset(pair: Pair) -> None:
    server, client = pair
    server._channel.send(frames.encode({"kind": "barrier", "name": "done"}), Deadline(1), "unread by the client")
    client.fail("that is why")
    client.close()  # with something unread: the kernel resets
    time.sleep(0.05)  # let the reset arrive before this end sends
    with pytest.raises(PeerError, match="gave up: that is why") as told:
        server.swap(LOCAL, {}, 1)
    assert told.value.__context__ is None, "a broken pipe is no part of the story"


@pytest.mark.parametrize("fields", [{"qp_num": 1 << 24}, {"lid": -1}, {"path_mtu": 1000}, {"lmc": 8}])
def test_an_own_record_out_of_range_is_not_sent(pair: Pair, fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"this end's own record cannot be sent: it sent {next(iter(fields))}"):
        pair[0].swap(dataclasses.replace(LOCAL, **fields), {}, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="setting size"):
        pair[0].swap(LOCAL, {"size": [1]}, 1)  # type: ignore[dict-item]
    pair[1].check_peer()


def test_the_order_of_closing_does_not_matter(pair: Pair) -> None:
    for end in pair:
        end.close()
        end.close()
        for use in (end.check_peer, lambda end=end: end.barrier("done", 1), lambda end=end: end.swap(LOCAL, {}, 1)):
            with pytest.raises(ClosedError, match="is closed at this end"):
                use()
        assert not end.fail("too late")


def test_check_peer_is_cheap_and_does_not_wait(pair: Pair) -> None:
    begin = time.perf_counter()
    for _ in range(1000):
        pair[0].check_peer()
    assert time.perf_counter() - begin < 0.5  # a wait of a millisecond each would be a second


def test_only_daemon_threads_are_left(listener: Listener) -> None:
    Exchange.connect("localhost", listener.port, 2).close()
    assert [t for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()] == []
