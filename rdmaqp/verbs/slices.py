"""Pieces of memory: ours, which can be posted, and the other side's, which a work request names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rdmaqp.model.attributes import as_int

if TYPE_CHECKING:
    from rdmaqp.verbs.memory import MemoryRegion


def bounds(key: object, length: int, what: str, otherwise: str = "; its bytes are in .buffer") -> tuple[int, int]:
    """Offset and length of the slice *key* of *length* bytes.

    *otherwise* says what one may want who gives something else. Python's slices are cut to what is there; memory that
    is not there is a mistake here.

    Raises:
        TypeError: *key* is no slice of integers: a bound is never cut to one.
        ValueError: it has a step, or is not all inside.
    """
    if not isinstance(key, slice):
        raise TypeError(f"{what} takes a slice, such as [0:64], not {key!r}{otherwise}")
    if key.step not in (None, 1):
        raise ValueError(f"a slice of {what} is one run of bytes; this one has a step of {key.step}")
    start = 0 if key.start is None else as_int(key.start)
    stop = length if key.stop is None else as_int(key.stop)
    if start is None or stop is None:
        wrong = key.start if start is None else key.stop
        raise TypeError(f"a slice of {what} goes from a byte to a byte: {wrong!r:.60} is no integer")
    start, stop = (value + length if value < 0 else value for value in (start, stop))
    if not 0 <= start <= stop <= length:
        raise ValueError(f"bytes {key.start or 0}…{length if key.stop is None else key.stop} are not inside {what}")
    return start, stop - start


class Slice:
    """Bytes of a memory region, as a work request names them: ``region[0:64]``. It can be sliced again.

    Attributes:
        mr: the region.
        addr, length, lkey: as in ``struct ibv_sge``.
    """

    __slots__ = ("addr", "length", "lkey", "mr")

    def __init__(self, mr: MemoryRegion, offset: int, length: int) -> None:
        self.mr = mr
        self.addr = mr.addr + offset
        self.length = length
        self.lkey = mr.lkey

    @property
    def offset(self) -> int:
        """Where in its region it begins."""
        return self.addr - self.mr.addr

    @property
    def buffer(self) -> memoryview:
        """A view of its bytes."""
        return self.mr.buffer[self.offset : self.offset + self.length]

    @property
    def remote(self) -> RemoteMemory:
        """What to tell the peer, so that it may read or write these bytes."""
        return RemoteMemory(self.addr, self.length, self.mr.rkey)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: slice) -> Slice:
        offset, length = bounds(key, self.length, f"this slice of {self.length} bytes")
        return Slice(self.mr, self.offset + offset, length)

    def __repr__(self) -> str:
        return f"<{self.length} bytes at {self.offset} of {self.mr!r}>"


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """Memory of the other side, by its own account: what RDMA writes, reads and atomics name. It can be sliced.

    Attributes:
        addr: its address there.
        length: bytes.
        rkey: the key that its region, or its memory window, has there.
    """

    addr: int
    length: int
    rkey: int

    def __post_init__(self) -> None:
        if type(self.addr) is type(self.length) is type(self.rkey) is int:
            return
        for name in ("addr", "length", "rkey"):
            value = getattr(self, name)
            if as_int(value) is None:
                raise TypeError(f"RemoteMemory: {name} is {value!r:.60}; expected an int, as the peer told it")

    def __getitem__(self, key: slice) -> RemoteMemory:
        offset, length = bounds(key, self.length, f"this remote memory of {self.length} bytes", "")
        return RemoteMemory(self.addr + offset, length, self.rkey)

    def __len__(self) -> int:
        return self.length


def region_of(piece: MemoryRegion | Slice) -> MemoryRegion:
    """The memory region of a piece of memory, which may be the region itself."""
    return piece.mr if isinstance(piece, Slice) else piece
