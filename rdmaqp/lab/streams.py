"""What comes out of the guest: the command's two streams, the status lines, the console."""

from __future__ import annotations

import os
import re
from collections import deque

_CRASH = re.compile(r"Kernel panic|BUG: |Oops: |Internal error: ")
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class Output:
    """One stream of the command's, copied byte for byte as it comes, up to the token that ends it."""

    def __init__(self, token: bytes, to: int) -> None:
        self.ended = False
        self._token = token
        self._to = to
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Pass on all but what may be the beginning of the token."""
        data = self._held + data
        if data.endswith(self._token):
            self.ended = True
            data, self._held = data[: -len(self._token)], b""
        else:
            keep = self._beginning_at_end(data)
            data, self._held = data[: len(data) - keep], data[len(data) - keep :]
        self._write(data)

    def flush(self) -> None:
        """The guest is gone: what was held back was no token."""
        held, self._held = self._held, b""
        self._write(held)

    def _beginning_at_end(self, data: bytes) -> int:
        longest = min(len(self._token) - 1, len(data))
        return next((size for size in range(longest, 0, -1) if data.endswith(self._token[:size])), 0)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._to, view) :]


class Status:
    """The guest's own reports: which stage of the set-up it is in, whether the command runs, how it ended."""

    def __init__(self) -> None:
        self.stage = "the kernel is booting"
        self.started = False
        self.failed: str | None = None
        self.exit_status: int | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take in whole lines; keep what is left for the next time."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, text = line.decode("utf-8", "replace").partition(" ")
            if word == "stage":
                self.stage = text
            elif word == "failed":
                self.failed = text
            elif word == "ready":
                self.started = True
            elif word == "exit":
                self.exit_status = int(text)


class Console:
    """The end of what the guest's kernel and init print, and of what QEMU and virtme-run say themselves."""

    LIMIT = 64 * 1024

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Take in more; forget the oldest beyond the limit."""
        self._chunks.append(data)
        self._size += len(data)
        while self._size - len(self._chunks[0]) > self.LIMIT:
            self._size -= len(self._chunks.popleft())

    def tail(self, count: int = 40) -> str:
        """The last lines, without control characters; of a crash, how it began and how it ended."""
        clean = _ESCAPES.sub(b"", b"".join(self._chunks)).decode("utf-8", "replace")
        lines = [line.rstrip() for line in clean.splitlines() if line.strip()]
        # A crash prints its cause first, then more registers and stack than anybody wants to see here.
        crash = next((at for at, line in enumerate(lines) if _CRASH.search(line)), len(lines))
        if crash >= len(lines) - count:
            return "\n".join(lines[-count:])
        return "\n".join([*lines[max(0, crash - 3) : crash + count // 2], "...", *lines[-count // 2 :]])
