"""Ctrl-C ends each wait at once. Each one runs in a process of its own, all at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import rdmaqp.errors

PROLOGUE = """
import socket, sys, time
from handmade import LOCAL, REMOTE, SETTINGS
from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.connection.wire_ibv import IbvWire

listener = Listener(0, "127.0.0.1")
port = listener.port
mute = socket.create_server(("127.0.0.1", 0))
mute_port = mute.getsockname()[1]
peers = []

def peer_of(listener, greeting):
    peers.append(socket.create_connection(("127.0.0.1", listener.port)))
    peers[0].sendall(greeting)

HELLO = b'RDQP\\0\\2\\0\\0\\0\\x10{"kind":"hello"}'
STOCK = b"0003:00002a:000007:fe8000000000000000000000000000ff\\0"

def ready():
    print("waits", flush=True)

def full():
    listening = socket.create_server(("127.0.0.1", 0), backlog=0)
    peers.append(listening)
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listening.getsockname())
        peers.append(filler)
    return listening.getsockname()[1]

def deaf(*args, **more):
    # As the C library's resolver: a signal does not end it.
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            time.sleep(0.05)
        except KeyboardInterrupt:
            pass
"""

STAGES = {
    "accept, nobody comes": "ready(); listener.accept(None)",
    "accept, a mute client": "peer_of(listener, b''); ready(); listener.accept(None, patience=9)",
    "resolve": "socket.getaddrinfo = deaf; ready(); Exchange.connect('node1', 1, 9)",
    "connect, refused": "listener.close(); ready(); Exchange.connect('127.0.0.1', port, 9)",
    "connect, swallowed": "port = full(); ready(); Exchange.connect('127.0.0.1', port, 9)",
    "swap": "e = Exchange.connect('127.0.0.1', mute_port, 9); ready(); e.swap(LOCAL, SETTINGS, 9)",
    "swap, server": "peer_of(listener, HELLO); e = listener.accept(9); ready(); e.swap(LOCAL, SETTINGS, 9)",
    "barrier": "e = Exchange.connect('127.0.0.1', mute_port, 9); ready(); e.barrier('ready', 9)",
    "ibv, client": (
        "w = IbvWire.connect('127.0.0.1', mute_port, 9); ready(); w.exchange_records(LOCAL, {}, lambda _: None, 9)"
    ),
    "ibv, server": (
        "l = IbvWire.listen(0, '127.0.0.1'); peer_of(l, STOCK); w = l.accept(9); ready(); "
        "w.exchange_records(LOCAL, {}, lambda _: None, 9)"
    ),
}


def test_ctrl_c_at_each_stage() -> None:
    root = Path(rdmaqp.errors.__file__).parents[1]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(Path(__file__).parent)])}
    programs = {
        stage: subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROLOGUE + code],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for stage, code in STAGES.items()
    }  # fmt: skip
    try:
        for stage, program in programs.items():
            assert program.stdout is not None
            assert program.stdout.readline() == "waits\n", stage
        time.sleep(0.2)  # from the word into the wait
        begin = time.monotonic()
        for stage, program in programs.items():
            assert program.poll() is None, f"{stage}: did not wait"
            program.send_signal(signal.SIGINT)
        for stage, program in programs.items():
            _, error = program.communicate(timeout=max(0.1, begin + 3 - time.monotonic()))
            assert error.rstrip().endswith("KeyboardInterrupt"), f"{stage}: {error}"
    finally:
        for program in programs.values():
            program.kill()
            program.communicate()
