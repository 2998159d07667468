"""Two connected ends on the null device, and work in a thread; for a process of :mod:`null_side`."""

from __future__ import annotations

import threading
from typing import Any

from null_side import rdmaqp, stub

FLUSHES = {"FLUSH": 1}


def pair(**options: Any) -> tuple[Any, Any]:
    """A client's and a server's connection. The null device loses what finds no receive posted: few messages."""
    stub(**FLUSHES)
    context, made = rdmaqp.open(), []
    with rdmaqp.Listener(0) as listener:
        other = threading.Thread(
            target=lambda: made.append(rdmaqp.Connection(listener.accept(10), context, **{"depth": 16} | options))
        )
        other.start()
        client = rdmaqp.Connection.connect("127.0.0.1", listener.port, device=context, **{"depth": 16} | options)
        other.join(10)
    return client, made[0]


def meanwhile(work: Any) -> Any:
    """Start *work*; call what is returned to have its result."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def finish() -> Any:
        thread.join(30)
        return found[0]

    return finish
