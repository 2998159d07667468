"""Peers made by hand, so that each can do at each step what no real one would."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from rdmaqp.connection import frames, messages
from rdmaqp.connection.exchange import Exchange
from rdmaqp.model.endpoint import Endpoint
from rdmaqp.model.enums import GidType, LinkLayer, PortState, QPType
from rdmaqp.model.gid import GID

LOCAL = Endpoint(
    qp_num=0x11, psn=0xABCDEF, qp_type=QPType.RC, link_layer=LinkLayer.ETHERNET, lid=0,
    gid=GID.parse("10.0.0.1"), gid_index=1, gid_type=GidType.ROCE_V2, path_mtu=1024, max_rd_atomic=16,
    max_dest_rd_atomic=8, pkey=0xFFFF, pkey_index=0, port_num=1, port_state=PortState.ACTIVE, grh_required=False,
    lmc=0, qkey=0x11111111, rx_depth=500,
)  # fmt: skip
REMOTE = Endpoint(qp_num=0x12, psn=7, lid=3, gid=GID.parse("fe80::1"), qp_type=QPType.RC)
SETTINGS = {"size": 4096, "iters": 1000, "validate": True}
NONCE = "0123456789abcdef"


class RawPeer:
    """The other end of an exchange, as a plain socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(5)

    def send(self, message: bytes | dict[str, Any]) -> None:
        self.sock.sendall(message if isinstance(message, bytes) else frames.encode(message))

    def read(self) -> dict[str, Any]:
        header = self._exactly(frames.HEADER.size)
        return frames.decode(header + self._exactly(frames.HEADER.unpack(header)[2]))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += (chunk := self.sock.recv(size - len(data)))
            assert chunk, "the end under test closed"
        return data

    def play(self, until: str) -> None:
        """Do all steps in order before *until*."""
        for step in ("record", "echo", "verdict", "ready", "done"):
            if step == until:
                return
            self.step(step)

    def step(self, step: str) -> None:
        if step == "record":
            self.nonce = self.read()["nonce"]
            self.send(messages.record(NONCE, REMOTE, SETTINGS))
        elif step == "echo":
            self.send(messages.echo(self.nonce, NONCE, LOCAL))
            self.read()
        elif step == "verdict":
            self.send(messages.verdict(self.nonce, None))
            self.read()
        else:
            self.send({"kind": "barrier", "name": step})
            self.read()

    def close(self, reset: bool = False) -> None:
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def watch(exchange: Exchange, seconds: float) -> None:
    """Look after the peer as the ping-pong does, for *seconds*."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        exchange.check_peer()
        time.sleep(0.05)


class Background:
    """Threads whose errors come back when the test ends."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def __call__(self, work: Callable[..., object], *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*args)
            except BaseException as error:
                self._errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        for error in self._errors:
            raise error
