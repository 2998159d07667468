"""How a lasting connection ends, or goes on, where it is used wrongly or interrupted; on the null device."""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from null_connection import FLUSHES, meanwhile, pair
from null_side import error_of, rdmaqp, stub

if TYPE_CHECKING:
    from verbs.conftest import Null


def named(error: Any) -> str:
    return f"{type(error).__name__}: {error}"


def outcome(work: Any, *args: Any) -> Any:
    """What it returned, or the error."""
    try:
        return work(*args)
    except BaseException as error:
        return error


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def lost_with_messages(ending: str) -> Any:
    client, server = pair(depth=100)
    for number in range(90):
        client.send(bytes([number]))
    client.flush(10)
    if ending == "tcp":
        client._exchange.channel._sock.shutdown(socket.SHUT_RDWR)
    else:
        server.qp.error()
        server._exchange.recover = interrupted
    got, interrupts = [], 0
    while not isinstance(found := outcome(server.recv, 5), rdmaqp.ConnectionLostError):
        if isinstance(found, KeyboardInterrupt):
            interrupts += 1
        else:
            got.append(found[0])
    assert interrupts == (ending == "interrupted")
    error, again = found, outcome(server.recv, 5)
    client.close(0)
    server.close()
    return got, again is error, error.received, str(error)


def interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("ending", ["tcp", "interrupted"])
def test_what_had_come_is_returned_before_the_loss_is_told(null: Null, ending: str) -> None:
    got, same, received, text = null.run(lost_with_messages, ending)
    assert got == list(range(90))
    assert (same, received) == (True, 90)
    assert {"tcp": "closed the connection", "interrupted": "interrupted (Ctrl-C)"}[ending] in text


def interrupted_again() -> Any:
    client, server = pair()
    server.qp.error()
    server.qp.reap = interrupted  # in the recovery, and while its loss is taken stock of
    first, second = (outcome(server.recv, 5) for _ in range(2))
    client.close(0)
    server.close()
    return type(first).__name__, named(second)


def test_a_second_interrupt_does_not_leave_it_between_two_states(null: Null) -> None:
    first, second = null.run(interrupted_again)
    assert first == "KeyboardInterrupt"
    assert second.startswith("ConnectionLostError: ")
    assert "is lost: interrupted (Ctrl-C)" in second


def what_is_unknown() -> Any:
    client, server = pair()
    for number in range(5):
        client.send(bytes([number]))
    server._exchange.channel._sock.shutdown(socket.SHUT_RDWR)
    error = outcome(client.flush, 10)
    return None if error is None else [number for number, _ in error.unknown]


def test_what_was_acknowledged_is_not_unknown(null: Null) -> None:
    assert null.run(what_is_unknown) in (None, [])


def goodbye_in_a_recovery(under_way: bool) -> Any:
    told: list[str] = []
    client, server = pair(on_event=lambda happening: told.append(happening.kind), patience=5)
    client.send(b"one")
    client.flush(10)
    assert server.recv(5) == b"one"
    if under_way:
        stub(HOLD=1)
        server.send(b"two")
        stub(HOLD=None)
    server.qp.error()
    client.close()
    ended = error_of(server.recv, 10)
    flushed = outcome(server.flush, 1)
    closed = outcome(server.close)
    return named(ended), named(flushed), named(closed), told


def test_a_goodbye_in_a_recovery_ends_what_has_arrived(null: Null) -> None:
    ended, flushed, closed, told = null.run(goodbye_in_a_recovery, False)
    assert ended.startswith("ConnectionEndedError: peer 127.0.0.1:")
    assert (flushed, closed) == ("NoneType: None", "NoneType: None")
    assert told[2:] == ["failed", "ended"]


def test_a_goodbye_in_a_recovery_hands_back_what_has_not(null: Null) -> None:
    ended, flushed, _, told = null.run(goodbye_in_a_recovery, True)
    assert ended.startswith("ConnectionLostError: ")
    assert "1 messages may have arrived (unknown)" in ended
    assert flushed == ended
    assert told[2:] == ["failed", "ended", "lost"]


def one_short() -> Any:
    from rdmaqp.connection import ending

    ending._LAST_S = 0.3
    client, server = pair()
    client.send(b"one")
    client.close()
    got = server.recv(5)
    server.account.received -= 1  # as if a completion had been lost
    return got.decode(), named(error_of(server.recv, 0.1)), named(error_of(server.recv))


def test_a_message_that_never_comes_is_not_waited_for_without_end(null: Null) -> None:
    got, late, lost = null.run(one_short)
    assert got == "one"
    assert late.startswith("DeadlineError")
    assert "ConnectionLostError" in lost
    assert "the peer has closed after 1 messages, and 0 have come" in lost


def second_thread() -> Any:
    client, server = pair()
    waiting = meanwhile(lambda: server.recv(20))
    until(lambda: server._alone._lock.locked())
    errors = [error_of(call) for call in (lambda: server.send(b"x"), server.recv, server.flush, server.poll)]
    client.send(b"still well")
    first = waiting()
    waiting = meanwhile(server.recv)
    until(lambda: server._alone._lock.locked())
    began = time.monotonic()
    server.close()
    took = time.monotonic() - began
    ended = waiting()
    client.close()
    return [named(error) for error in errors], first.decode(), named(ended), took


def test_a_second_thread_is_told_so_and_may_close(null: Null) -> None:
    errors, first, ended, took = null.run(second_thread)
    for error, call in zip(errors, ("send", "recv", "flush", "poll"), strict=True):
        assert error.startswith("BusyError: connection with 127.0.0.1:")
        assert f": {call}() while recv() is under way in thread 'Thread-" in error
    assert first == "still well"
    assert ended.startswith("ClosedError: this connection with ")
    assert ended.endswith("is being closed by another thread")
    assert took < 5


def close_in_on_event() -> Any:
    found: list[Any] = []

    def on_event(happening: Any) -> None:
        if happening.kind in ("ended", "lost"):
            found.append((happening.kind, named(outcome(ends[happening.text].close))))

    client, server = pair(on_event=on_event)
    ends = Finder(client, server)
    client.close()
    ended = error_of(server.recv, 5)
    late = error_of(server.send, b"late")
    after = error_of(server.recv, 5)
    return found, named(ended), named(late), named(after)


class Finder:
    def __init__(self, *connections: Any) -> None:
        self.by_name = {str(connection): connection for connection in connections}

    def __getitem__(self, text: str) -> Any:
        return next(connection for name, connection in self.by_name.items() if text.startswith(name))


def test_close_in_on_event(null: Null) -> None:
    found, ended, late, after = null.run(close_in_on_event)
    assert found[0][0] == "ended"
    assert "close() while recv() is under way in this very thread" in found[0][1]
    assert found[1] == ["lost", "NoneType: None"]
    assert ended.startswith("ConnectionEndedError")
    assert late.startswith("ConnectionLostError")
    assert after.startswith("ClosedError")


def raising() -> Any:
    records: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage())

    def on_event(happening: Any) -> None:
        raise LookupError(happening.kind)

    handler = Keeping(logging.ERROR)
    logging.getLogger("rdmaqp").addHandler(handler)
    client, server = pair(on_event=on_event)
    got = meanwhile(lambda: [server.recv(20) for _ in range(2)])
    client.send(b"1")
    client.flush(10)
    client.qp.error()
    client.send(b"2")
    client.flush(20)
    result = got()
    client.close()
    server.close()
    logging.getLogger("rdmaqp").removeHandler(handler)
    return [message.decode() for message in result], [record.partition(":")[0] for record in records]


def test_on_event_that_raises_is_logged_and_the_connection_goes_on(null: Null) -> None:
    result, records = null.run(raising)
    assert result == ["1", "2"]
    kinds = ("connected", "connected", "failed", "failed", "recovered", "recovered")
    assert sorted(records) == [f"on_event raised, told of {kind}" for kind in kinds]


def strided() -> Any:
    import array

    client, server = pair()
    client.send(memoryview(b"abcdef")[::2])
    client.send(array.array("H", [0x4142, 0x4142]))
    client.send(bytearray(b"last"))
    errors = [error_of(client.send, wrong) for wrong in ("text", 5, None, [1])]
    client.flush(10)
    got = [server.recv(5).decode() for _ in range(3)]
    errors += [error_of(server.recv, wrong) for wrong in ("1", -1)]
    return got, [named(error) for error in errors], [client.account.sent, client.account.acknowledged]


def test_messages_of_any_buffer(null: Null) -> None:
    got, errors, counts = null.run(strided)
    assert got == ["ace", "BABA", "last"]
    assert errors[0] == "TypeError: send(): data is 'text' (str); expected a bytes-like object"
    assert all(error.startswith("TypeError: send(): data is ") for error in errors[:4])
    assert errors[4:] == [
        "TypeError: a timeout is a number of seconds or None, not '1' (str)",
        "ValueError: a timeout is 0 s or more, or None, not -1",
    ]
    assert counts == [3, 3]


WRONG: dict[str, Any] = {
    "size": 0, "depth": 1.5, "patience": float("nan"), "on_event": 5, "depht": 3, "device": "nope", "retry_cnt": 9,
}  # fmt: skip


def wrong_option(name: str) -> Any:
    stub(**FLUSHES)
    with rdmaqp.Listener(0) as listener:
        other = meanwhile(lambda: rdmaqp.Connection(listener.accept(10)))
        began = time.monotonic()
        error = error_of(rdmaqp.Connection.connect, "127.0.0.1", listener.port, **{name: WRONG[name]})
        there = other()
    return named(error), named(there), time.monotonic() - began


@pytest.mark.parametrize("name", WRONG)
def test_the_peer_hears_of_a_wrong_option_at_once(null: Null, name: str) -> None:
    here, there, took = null.run(wrong_option, name)
    assert name in here
    assert here.startswith(("TypeError", "ValueError", "DeviceError", "RefusedError"))
    assert there.startswith(("PeerError", "RefusedError"))
    assert name in there
    assert took < 8


def size_true() -> Any:
    client, server = pair(size=True)
    client.send(b"1")
    return client.size, server.recv(5).decode()


def test_true_is_one(null: Null) -> None:
    assert null.run(size_true) == [1, "1"]


def too_much(options: dict[str, int]) -> Any:
    stub(**FLUSHES)
    with rdmaqp.Listener(0) as listener:
        other = meanwhile(lambda: rdmaqp.Connection(listener.accept(10)))
        error = error_of(rdmaqp.Connection.connect, "127.0.0.1", listener.port, **options)
        other()
    return named(error)


def test_more_than_there_is(null: Null) -> None:
    text = null.run(too_much, {"depth": 10**12})
    assert text.startswith("DeviceError: depth: 1000000000000 is above what null0 takes")
    text = null.run(too_much, {"size": 1 << 50})
    assert text.startswith("DeviceError: size: 1125899906842624 is above what null0 sends")
    text = null.run(too_much, {"size": 1 << 30, "depth": 4000})
    assert text.startswith("MemoryError: no memory for a region of 8,589,934,592,000 bytes: ")
    assert text.endswith("give a smaller depth (4000) or size (1073741824)")


def both_full() -> Any:
    client, server = pair(depth=2)
    for _ in range(2):
        server.send(b"x")
    until(lambda: client.poll() or len(client._arrived) == 2)
    stub(HOLD=1)
    for _ in range(2):
        client.send(b"y")
    error = error_of(client.send, b"z", 0.1)
    stub(HOLD=None)
    return str(error)


def test_an_end_that_is_full_itself_says_so(null: Null) -> None:
    text = null.run(both_full)
    assert "no room for a message within 0.1 s" in text
    assert "\n2 messages have come, which is all that there is room for" in text


def raised_often() -> Any:
    client, server = pair()
    client.close()
    lengths = []
    for _ in range(20):
        trace = error_of(server.send, b"late").__traceback__
        lengths.append(0)
        while trace is not None:
            lengths[-1] += 1
            trace = trace.tb_next
    return lengths


def test_an_error_that_is_raised_again_does_not_grow(null: Null) -> None:
    lengths = null.run(raised_often)
    assert lengths[-1] == lengths[1]


def dropped() -> Any:
    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    stub(**FLUSHES)
    counts, heard = [], []
    for _ in range(5):
        with rdmaqp.Listener(0) as listener:
            other = meanwhile(lambda: rdmaqp.Connection(listener.accept(10)))
            client, server = rdmaqp.Connection.connect("127.0.0.1", listener.port), other()
        del client, other
        gc.collect()
        heard.append(named(outcome(server.recv, 5)))
        del server
        counts.append(descriptors())
    return counts, heard


def test_what_is_dropped_leaves_no_descriptor(null: Null) -> None:
    counts, heard = null.run(dropped)
    assert counts[-1] == counts[0]
    for error in heard:
        assert error.startswith("ConnectionLostError: ")
        assert "closed the connection" in error


def forked(how: str) -> Any:
    client, server = pair()
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            error = error_of(client.send, b"child")
            os.write(write, named(error).encode())
            if how == "close":
                client.close()
            else:
                client.__exit__(LookupError, LookupError("the child's"), None)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(read, 500).decode()
    client.send(b"parent")
    client.flush(5)
    got = server.recv(5)
    client.close()
    return said, got.decode(), named(error_of(server.recv, 5))


@pytest.mark.parametrize("how", ["close", "exception"])
def test_a_forked_child_leaves_the_parents_alone(null: Null, how: str) -> None:
    said, got, ended = null.run(forked, how)
    assert said.startswith("ClosedError: this connection with ")
    assert "the process from which this one was forked" in said
    assert got == "parent"
    assert ended.startswith("ConnectionEndedError")
