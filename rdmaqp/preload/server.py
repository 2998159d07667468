"""Where the shims of all processes call: one socket, one loop, one record after the other."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import selectors
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.preload import wire
from rdmaqp.preload.wire import LONGEST, Call, Destroy, Hello, Verdict, WireError

if TYPE_CHECKING:
    from rdmaqp.preload.judge import Judge
    from rdmaqp.preload.seen import Process

#: All processes of a launcher may start at the same moment, and none of them waits.
_BACKLOG = 4096
#: Seconds: a folder may be there for a moment before somebody listens in it.
_YOUNG = 60


class Server:
    """Serves the shims with *judge*'s verdicts until the watched program has ended.

    Attributes:
        problem: what was wrong with the first record that could not be read; empty where all could.
    """

    def __init__(self, folder: Path, judge: Judge) -> None:
        self.path = folder / secrets.token_urlsafe(9)
        self.problem = ""
        self._judge = judge
        self._of: dict[socket.socket, Process | None] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.settimeout(0)
        self._open_to_all(folder)
        self._listener.listen(_BACKLOG)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._spare = socket.socket(socket.AF_UNIX)
        self._alarm, self._bell = socket.socketpair()
        self._ended = False
        self._selector.register(self._alarm, selectors.EVENT_READ, self._end)

    def _open_to_all(self, folder: Path) -> None:
        """Bind it where every user's process may call who knows its name, which stands in the program's environment.

        A program may become another user (setpriv, su, a service). All users see the name that a socket was bound by
        (/proc/net/unix), but not that to which it was renamed, nor what is in the folder.
        """
        first = folder / "guard"
        self._listener.bind(str(first))
        first.chmod(0o666)
        first.rename(self.path)
        folder.chmod(0o711)

    def ended(self) -> None:
        """Say, from another thread, that the program has ended: serve what has been sent, and return."""
        self._bell.send(b"\0")

    def serve(self) -> None:
        """Serve until :meth:`ended`. What is to be told is told when no process waits for a verdict."""
        judge, select = self._judge, self._selector.select
        while True:
            ready = select(0 if judge.has_to_tell or self._ended else None)
            for key, _ in ready:
                key.data(key.fileobj)
            if not ready:
                if not judge.has_to_tell:
                    break
                self._tell()

    def close(self) -> None:
        """Hang up on all; programs that still run go on by themselves."""
        for connection in list(self._of):
            self._hang_up(connection)
        self._selector.close()
        for sock in (self._listener, self._spare, self._alarm, self._bell):
            sock.close()
        self.path.unlink(missing_ok=True)

    # ------------------------------------------------------------------ what becomes ready

    def _end(self, alarm: socket.socket) -> None:
        self._selector.unregister(alarm)
        self._ended = True

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE):
                        raise
                    self._turn_away(listener, error)
                    continue
                connection.settimeout(0)
                self._of[connection] = None
                self._selector.register(connection, selectors.EVENT_READ, self._read)

    def _turn_away(self, listener: socket.socket, error: OSError) -> None:
        """Hang up on who waits, by the descriptor kept for that: it would wait for the whole deadline otherwise."""
        self._spare.close()
        try:
            listener.accept()[0].close()  # where nobody waits after all, BlockingIOError
            self._note(f"{error.strerror}, for more than {len(self._of)} processes came at once (ulimit -Hn)")
        finally:
            self._spare = socket.socket(socket.AF_UNIX)

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up(connection)
            return
        try:
            self._take(connection, data)
        except WireError as error:
            self._note(str(error))
            self._hang_up(connection)
        except Exception as error:  # the program of one process must not lose its judge by another's
            self._note(f"this call breaks rdmaqp, please report it: {type(error).__name__}: {error}")
            self._hang_up(connection)

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _tell(self) -> None:
        try:
            self._judge.tell_next()
        except Exception as error:
            self._note(f"what was found could not be told, please report it: {type(error).__name__}: {error}")

    def _take(self, connection: socket.socket, data: bytes) -> None:
        record, judge, process = wire.read(data), self._judge, self._of[connection]
        if isinstance(record, Hello):
            record.head.pid = _peer_pid(connection) or record.head.pid
            found = judge.hello(record)
            self._of[connection] = found if record.stays else None  # the others only say that they are there
        elif process is None:
            raise WireError(f"{type(record).__name__} before a HELLO")
        elif isinstance(record, Call):
            refused = judge.call(process, record, wire.slots_behind(record, data))
            self._answer(connection, process, Verdict(record.head.number, refused))
        elif isinstance(record, Destroy):
            judge.destroy(process, record)
        else:
            judge.result(process, record)

    def _answer(self, connection: socket.socket, process: Process, verdict: Verdict) -> None:
        try:
            connection.send(bytes(verdict))
        except OSError:  # it has not waited so long, or has ended
            self._hang_up(connection, "no verdict came to it in time" if _is_alive(process.pid) else "")

    def _hang_up(self, connection: socket.socket, why: str = "") -> None:
        if connection not in self._of:
            return
        self._selector.unregister(connection)
        connection.close()
        process = self._of.pop(connection)
        # One that has lost its descriptor has opened another before this one was seen to be closed.
        if process is not None and process not in self._of.values():
            self._judge.gone(process, why)


def sweep(place: Path, prefix: str) -> None:
    """Remove the folders in *place* that servers of ours have left which were killed: nobody answers there."""
    for folder in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # another user's, or gone meanwhile
            status = folder.lstat()
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _YOUNG and not _is_served(folder):
                shutil.rmtree(folder)


def _is_served(folder: Path) -> bool:
    for path in folder.iterdir():
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            if line.connect_ex(str(path)) != errno.ECONNREFUSED:
                return True
    return False


def _peer_pid(connection: socket.socket) -> int:
    """The process as this PID namespace numbers it: in another, each container's first process is 1. 0: not there."""
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
