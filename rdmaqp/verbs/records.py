"""Arrays that C works on: send and receive records to be posted, completions that have been polled.

They are plain memory. With NumPy installed, ``.array`` shows it as a structured array, whose columns can be filled and
read at once; without it, one entry at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rdmaqp.verbs._native import native, pinned
from rdmaqp.verbs.work import (
    RECV_FIELDS,
    RECV_SIZE,
    SEND_FIELDS,
    SEND_SIZE,
    Recv,
    Work,
    pack,
    require_work,
    work_is_inline,
)
from rdmaqp.verbs.work_completion import WorkCompletion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from rdmaqp.verbs.completion import CompletionQueue

    Array = np.ndarray[Any, np.dtype[Any]]

_W = TypeVar("_W", Work, Recv)

#: For ``numpy.dtype(…)``: an array of these is posted as it is, whoever made it. ``opcode`` is a
#: :class:`~rdmaqp.WROpcode`, ``send_flags`` are :class:`~rdmaqp.SendFlag`, ``imm_data`` is in host byte order; a field
#: that its opcode does not use may have any value.
SEND_DTYPE = [(name, "u8" if kind == "Q" else "u4") for name, kind in SEND_FIELDS]
RECV_DTYPE = [(name, "u8" if kind == "Q" else "u4") for name, kind in RECV_FIELDS]


class _Records(Generic[_W]):
    """Room for *n* work requests of one piece each.

    ``records[3] = Send(region[0:64])`` writes an entry; ``records.array["addr"] = …`` a column.
    """

    _c_type: str
    _size: int
    _dtype: list[tuple[str, str]]

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"an array of records has at least 1 entry, not {n}")
        ffi = native().ffi
        self._n = n
        self.raw = ffi.new(f"{self._c_type}[]", n)
        self._bytes = memoryview(ffi.buffer(self.raw))

    def __len__(self) -> int:
        return self._n

    def __setitem__(self, at: int, work: _W) -> None:
        if not -self._n <= at < self._n:
            raise IndexError(f"entry {at} of {self._n} records")
        values = record_of(work)
        if len(values) != len(self._dtype):  # the other kind of record is of another length
            raise TypeError(f"these are {type(self).__name__}, and {type(work).__name__} goes to the other queue")
        pack(self._bytes, at % self._n, values)

    @property
    def array(self) -> Array:
        """The same memory as a NumPy structured array. Raises ImportError where NumPy is not installed."""
        import numpy as np  # optional

        return np.frombuffer(self._bytes, dtype=self._dtype)


class SendRecords(_Records[Work]):
    """Sends to be posted with :meth:`~rdmaqp.QueuePair.post_sends`."""

    _c_type, _size, _dtype = "struct rdmaqp_send_record", SEND_SIZE, SEND_DTYPE


class RecvRecords(_Records[Recv]):
    """Receives to be posted with :meth:`~rdmaqp.QueuePair.post_recvs`."""

    _c_type, _size, _dtype = "struct rdmaqp_recv_record", RECV_SIZE, RECV_DTYPE


def record_of(work: Work | Recv) -> tuple[int, ...]:
    """The values of *work*'s record.

    Raises:
        ValueError: it has several pieces, bytes of its own, or no record at all: a chain carries those.
    """
    require_work(work)
    inline = work_is_inline(work)
    pieces = () if inline else work.pieces()
    if len(pieces) > 1 or inline:
        what = f"{len(pieces)} pieces" if pieces else "inline bytes"
        raise ValueError(f"a record names one piece of memory, and this has {what}: post it, or chain it")
    where = (pieces[0].addr, pieces[0].length, pieces[0].lkey) if pieces else (0, 0, 0)
    if isinstance(work, Recv):
        return (work.wr_id, *where)
    work.require_remote(where[1])
    return work.as_record(*where)


def _taker(kind: type[_Records[Any]]) -> Callable[[Any], tuple[Any, int]]:
    """A function that finds the records in memory: one of ours, or any buffer of the same layout; and their number.

    It is a function of one kind, and not of a *kind*, as each post calls it. It raises:

    TypeError: it has no buffer.
    ValueError: its length is no multiple of a record's, its fields are others, or it has gaps.
    """
    seen: Any = None  # the last NumPy type that was found to have the fields of these
    from_buffer: Any = None
    array: Any = None

    def records_in(memory: Any) -> tuple[Any, int]:
        if type(memory) is kind:
            return memory.raw, memory._n
        # An array tells its type by itself; NumPy takes a microsecond to make a memoryview of a structured one.
        try:
            if memory.dtype is seen:  # whole records, then; that they have no gaps, from_buffer() sees
                raw = from_buffer(array, memory)
                return raw, len(raw)
        except AttributeError:
            return _in_buffer(memory, kind)
        except (ValueError, BufferError):
            raise _with_gaps(memory.nbytes) from None
        return in_array(memory)

    def in_array(memory: Any) -> tuple[Any, int]:
        nonlocal seen, from_buffer, array
        _require_fields(memory.dtype, kind)
        count, ffi = _whole(memory.nbytes, kind), native().ffi
        from_buffer, array = ffi.from_buffer, ffi.typeof(f"{kind._c_type}[]")
        if memory.dtype.itemsize == kind._size:  # single bytes may be anything the next time
            seen = memory.dtype
        try:
            return from_buffer(array, memory), count
        except (ValueError, BufferError):
            raise _with_gaps(memory.nbytes) from None

    return records_in


def _in_buffer(memory: Any, kind: type[_Records[Any]]) -> tuple[Any, int]:
    if isinstance(memory, _Records):
        raise TypeError(f"these are {type(memory).__name__}, and {kind.__name__} are wanted")
    view = memoryview(memory)
    _require_size(view.itemsize, kind)
    count = _whole(view.nbytes, kind)
    try:
        return pinned(view, f"{kind._c_type} *"), count
    except (ValueError, BufferError):
        raise _with_gaps(view.nbytes) from None


def _whole(length: int, kind: type[_Records[Any]]) -> int:
    if length % kind._size:
        raise ValueError(f"{length} bytes are no run of records of {kind._size} bytes each")
    return length // kind._size


def _with_gaps(length: int) -> ValueError:
    return ValueError(f"these {length} bytes have gaps or another order: records are one run of memory")


def _require_size(item: int, kind: type[_Records[Any]]) -> None:
    if item not in (kind._size, 1):
        raise ValueError(f"items of {item} bytes are no records, which have {kind._size}")


def _require_fields(layout: Any, kind: type[_Records[Any]]) -> None:
    """Raise ValueError where an array's items are no records, though they may be as long; single bytes may be some."""
    _require_size(layout.itemsize, kind)
    if layout.itemsize == 1:
        return
    import numpy as np  # it is there, since this is its type

    wanted = np.dtype(kind._dtype)
    for name in wanted.names or ():
        if (layout.fields or {}).get(name, ())[:2] != wanted.fields[name][:2]:  # type: ignore[index]
            raise ValueError(
                f"these records have no {name} of {wanted[name]} where C looks for it: make the array with "
                f"{'SEND' if kind is SendRecords else 'RECV'}_DTYPE"
            )


sends_in, recvs_in = _taker(SendRecords), _taker(RecvRecords)


class Completions:
    """Room for *n* completions, filled by :meth:`~rdmaqp.CompletionQueue.poll_into`; *count* of them are there now.

    ``completions.array[:completions.count]["wr_id"]`` is a column; iterating makes a small object of each.
    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"there is room for at least 1 completion, not {n}")
        self.raw = native().ffi.new("struct ibv_wc[]", n)
        self.size = n
        self.count = 0
        #: Where they came from, for :meth:`~rdmaqp.WorkCompletion.raise_for_status` to say why one failed.
        self.queue: CompletionQueue | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> WorkCompletion:
        if not -self.count <= at < self.count:
            raise IndexError(f"entry {at} of {self.count} completions")
        return WorkCompletion.from_c(self.raw[at % self.count], self.queue)

    def __iter__(self) -> Iterator[WorkCompletion]:
        return (WorkCompletion.from_c(self.raw[at], self.queue) for at in range(self.count))

    @property
    def array(self) -> Array:
        """All the room as a NumPy structured array. Raises ImportError where NumPy is not installed."""
        import numpy as np  # optional

        ffi = native().ffi
        names = ("wr_id", "status", "opcode", "vendor_err", "byte_len", "qp_num", "src_qp", "wc_flags", "imm_data")
        formats = ["u8", *["u4"] * 7, ">u4"]  # immediate data is in network order
        offsets = [ffi.offsetof("struct ibv_wc", name) for name in names]
        layout = np.dtype({
            "names": list(names), "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof("struct ibv_wc"),
        })  # fmt: skip
        return np.frombuffer(ffi.buffer(self.raw), dtype=layout)
