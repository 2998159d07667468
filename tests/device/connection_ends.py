"""Two ends of a lasting connection: each in a thread of this process, or the peer in a process of its own."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rdmaqp import Connection, Happening, Listener

PATIENCE = 60.0


@dataclass
class Figures:
    """What the tests of this file found; printed at their end."""

    faults: int = 0
    recovered: int = 0
    sent: int = 0
    lost: int = 0
    twice: int = 0
    longest_stall: float = 0.0
    settled: int = 0
    again: int = 0
    lines: list[str] = field(default_factory=list)

    def __call__(self, happening: Happening) -> None:
        if happening.kind == "recovered":
            self.recovered += 1
            self.settled += happening.arrived
            self.again += happening.again
            self.longest_stall = max(self.longest_stall, happening.stalled)

    def check(self, received: list[int], sent: int) -> None:
        """Count what is lost or there twice among the numbers *received* of 1…*sent*, which have to be in order."""
        self.sent += sent
        self.lost += len(set(range(1, sent + 1)) - set(received))
        self.twice += len(received) - len(set(received))
        assert received == list(range(1, sent + 1))


def numbered(number: int, size: int = 64) -> bytes:
    """Message *number*, whose bytes can be verified."""
    return struct.pack("!Q", number) + bytes((number * 7 + at) % 251 for at in range(size - 8))


def number_in(message: bytes) -> int:
    """Which message it is; all its bytes have to be that one's."""
    number = int(struct.unpack_from("!Q", message)[0])
    assert message == numbered(number, len(message))
    return number


@contextmanager
def two(device: str, **options: Any) -> Iterator[tuple[Connection, Connection]]:
    """A client and a server, connected, on one device."""
    with Listener(0) as listener:
        made: list[Any] = []

        def serve() -> None:
            try:
                made.append(Connection(listener.accept(PATIENCE), device, timeout=PATIENCE, **options))
            except BaseException as error:
                made.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            client = Connection.connect("127.0.0.1", listener.port, device=device, timeout=PATIENCE, **options)
        finally:
            thread.join()
    if isinstance(made[0], BaseException):
        raise made[0]
    yield client, made[0]


class Reader(threading.Thread):
    """Receives until the other end closes. Behind the messages of these numbers it makes a fault."""

    def __init__(
        self, connection: Connection, slow: float = 0.0,
        faults: Mapping[int, Callable[[Connection], None]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.connection, self.slow, self.faults = connection, slow, faults or {}
        self.numbers: list[int] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for message in self.connection:
                self.numbers.append(number_in(message))
                time.sleep(self.slow)
                if self.numbers[-1] in self.faults:
                    self.faults[self.numbers[-1]](self.connection)
        except BaseException as error:
            self.error = error

    def finish(self) -> list[int]:
        self.join(PATIENCE)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.numbers


class Peer:
    """A forked process that does *work*, which is given a TCP port; it opens the device by itself."""

    def __init__(self, work: Callable[[int], None], port: int) -> None:
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                work(port)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
