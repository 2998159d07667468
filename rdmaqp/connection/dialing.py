"""How a client finds its server: names, addresses, and another try while nobody listens yet."""

from __future__ import annotations

import errno
import ipaddress
import os
import queue
import select
import socket
import threading
import time
from typing import Any

from rdmaqp.connection.sockets import AddressError, Channel, Deadline, address_text, check_port, wait_for
from rdmaqp.errors import DeadlineError, PeerError

RETRY_S = 0.05

Found = list[tuple[Any, ...]]


def resolve(host: str, port: int, deadline: Deadline, flags: int = 0) -> Found:
    """The stream addresses of *host* in the resolver's order, as ``getaddrinfo`` gives them.

    Raises:
        AddressError: it has none.
        DeadlineError: the name server does not answer in time.
    """
    answers: queue.SimpleQueue[Found | OSError | ValueError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags))
        except (OSError, ValueError) as error:  # ValueError: a NUL, or no such international name
            answers.put(error)

    # getaddrinfo knows neither deadlines nor signals, and a dead name server holds it for many seconds.
    threading.Thread(target=ask, name="resolve", daemon=True).start()
    left = deadline.left()
    try:
        answer = answers.get(timeout=min(left, threading.TIMEOUT_MAX))
    except queue.Empty:
        text = f"no name server answered for host {host!r} within {deadline}\ngive its IP address instead"
        raise DeadlineError(text) from None
    if isinstance(answer, Exception):
        why = answer.strerror if isinstance(answer, OSError) else "not a valid host name"
        raise AddressError(
            f"host {host!r} cannot be resolved: {why}\ncheck its spelling, or give its IP address"
        ) from answer
    return answer


def dial(host: str, port: int, deadline: Deadline) -> Channel:
    """Connect to *host*, trying again while the connection is refused: the server may start a little later.

    Raises:
        AddressError: the name cannot be resolved.
        PeerError: nobody answered or listened before the deadline, or the host cannot be reached.
    """
    check_port(port)
    found = resolve(host, port, deadline)
    named = not _is_number(host)
    while True:
        refused = False
        errors: dict[str, str] = {}
        for number, (family, kind, protocol, _, address) in enumerate(found):
            where = address_text(address)
            sock = socket.socket(family, kind, protocol)
            try:
                _connect(sock, address, deadline.share(len(found) - number))
                return Channel(sock, f"{host} ({where})" if named else where)
            except OSError as error:
                sock.close()
                refused |= isinstance(error, ConnectionRefusedError)
                errors[where] = error.strerror or str(error)
            except BaseException:
                sock.close()
                raise
        if not refused or not deadline.left():
            raise _unreachable(host, port, errors, deadline, refused=refused)
        time.sleep(min(RETRY_S, deadline.left()))


def _connect(sock: socket.socket, address: Any, deadline: Deadline) -> None:
    sock.settimeout(0)
    code = sock.connect_ex(address)
    if code == errno.EINPROGRESS:
        if not wait_for(sock, select.POLLOUT, deadline):
            raise TimeoutError(errno.ETIMEDOUT, "no answer")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # Trying again and again at a free port of this host, TCP in the end connects a socket to itself.
    if not code and sock.getsockname()[:2] == address[:2]:
        code = errno.ECONNREFUSED
    if code:
        raise OSError(code, os.strerror(code))


def _unreachable(
    host: str, port: int, errors: dict[str, str], deadline: Deadline, *, refused: bool
) -> PeerError:
    each = ", ".join(f"{where}: {why}" for where, why in errors.items())
    if refused:
        first = f"nobody listens on host {host}, TCP port {port}; tried for {deadline} ({each})"
        advice = "start the server there first, and give both ends the same port"
    else:
        first = f"host {host}, TCP port {port} cannot be reached ({each})"
        advice = "check the address, the route, and firewalls between the two hosts"
    return PeerError(f"{first}\n{advice}", f"{host}:{port}")


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
