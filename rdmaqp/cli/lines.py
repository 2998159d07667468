"""Lines from a file or a pipe in batches, in bounded memory, whatever is in there."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes asked for at a time.
CHUNK = 1 << 18
#: The longest line that is looked at, bytes. A request with a thousand memory regions has a tenth of it.
LONGEST = 1 << 20


class Batch(NamedTuple):
    """Whole lines.

    Attributes:
        first: the number of the first line, from 1.
        data: the lines, each but the last ended by a newline; empty for a line that was too long.
        dropped: the bytes of that line; 0 for all others.
    """

    first: int
    data: bytes
    dropped: int = 0


def too_long(size: int) -> str:
    """What is said of a line that is not looked at."""
    return f"a line of {size:,} bytes; a request has at most {LONGEST:,}"


def batches(descriptor: int) -> Iterator[Batch | None]:
    """The lines of an open file, as they come; ``None`` before each read that has to wait for the writer.

    Raises:
        OSError: it cannot be read.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    number, parts, held, dropped = 1, [b""], 0, 0
    while True:
        if not poll.poll(0):
            yield None
        data = os.read(descriptor, CHUNK)
        if not data:
            break
        if dropped:
            cut = data.find(b"\n")
            dropped += len(data) if cut < 0 else cut
            if cut < 0:
                continue
            yield Batch(number, b"", dropped)
            number, dropped, data = number + 1, 0, data[cut + 1 :]
        end = data.rfind(b"\n") + 1
        if end:
            whole = b"".join((*parts, data[:end]))
            yield Batch(number, whole)
            number += whole.count(b"\n")
            parts, held = [], 0
        parts.append(data[end:])
        held += len(data) - end
        if held > LONGEST:
            parts, held, dropped = [], 0, held
    if dropped:
        yield Batch(number, b"", dropped)
    elif held:
        yield Batch(number, b"".join(parts))
