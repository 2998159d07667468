"""Memory regions over whatever holds bytes, and how long that lives."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from null_side import AccessFlag, calls, connected, error_of, rdmaqp, said, side, stub

if TYPE_CHECKING:
    from conftest import Null

REG_MR = "ibv_reg_mr_iova2"  # what the header's ibv_reg_mr() calls where the access flags are no constant

def registered(kind: str) -> list[Any]:
    import numpy as np

    memory = {
        "bytearray": lambda: bytearray(24),
        "memoryview": lambda: memoryview(bytearray(40))[8:32],
        "mmap": lambda: mmap.mmap(-1, 24),
        "array": lambda: array.array("d", [0, 0, 0]),
        "ctypes": lambda: (ctypes.c_int * 6)(),
        "numpy": lambda: np.zeros(24, "u1"),
        "numpy of two dimensions": lambda: np.zeros((2, 3), "f4"),
        "numpy records": lambda: np.zeros(2, [("a", ">u4"), ("Offset", "f8")]),
        "numpy complex": lambda: np.zeros((3,), "c8"),
    }[kind]()
    mr = side().pd.reg_mr(memory)
    mr.buffer[3] = 0x41
    assert memoryview(memory).cast("B")[3] == 0x41
    return [mr.length, mr.buffer.readonly, mr.buffer.format]


@pytest.mark.parametrize(
    "kind",
    ["bytearray", "memoryview", "mmap", "array", "ctypes", "numpy", "numpy of two dimensions", "numpy records",
     "numpy complex"],
)  # fmt: skip
def test_anything_with_the_buffer_protocol_can_be_registered(null: Null, kind: str) -> None:
    assert null.run(registered, kind) == [24, False, "B"]
    assert null.calls(REG_MR)[-1]["length"] == 24


def the_same_bytes() -> list[bool]:
    """The address handed to the library is the memory itself: what the device writes there is seen here."""
    first, second = connected()
    source, target = bytearray(b"0123456789abcdef"), bytearray(16)
    out, into = first.pd.reg_mr(memoryview(source)[4:12]), second.pd.reg_mr(memoryview(target)[2:])
    second.qp.post_recv(into, 1, 8)
    first.qp.post_send(out)
    wc = second.cq.wait(timeout=1)[0]
    return [wc.ok, wc.byte_len == 8, bytes(target) == b"\0\0\x00456789ab" + bytes(5)]


def test_the_device_writes_where_python_reads(null: Null) -> None:
    assert null.run(the_same_bytes) == [True, True, True]


def unfit(kind: str) -> dict[str, Any]:
    import numpy as np

    memory: Any = {
        "empty bytes": b"", "empty bytearray": bytearray(), "empty array": np.zeros((0, 3)), "nothing": None,
        "a number": 5, "text": "text", "every second byte": memoryview(bytearray(16))[::2],
        "a column": np.zeros((4, 4))[:, 1], "Fortran's order": np.zeros((4, 4), order="F"),
        "backwards": memoryview(bytearray(16))[::-1], "objects": np.array([object()]),
        "objects in a record": np.zeros(2, [("n", "u8"), ("what", "O")]), "dates": np.zeros(2, "M8[s]"),
    }[kind]  # fmt: skip
    return said(error_of(side().pd.reg_mr, memory)) | {"native": len(calls(REG_MR))}


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("empty bytes", "ValueError", "this memory is empty"),
        ("empty bytearray", "ValueError", "this memory is empty"),
        ("empty array", "ValueError", "this memory is empty"),
        ("nothing", "TypeError", "memory is None; expected a bytes-like object"),
        ("a number", "TypeError", ", an int; expected a bytes-like object"),
        ("text", "TypeError", ", a str; expected a bytes-like object"),
        ("every second byte", "ValueError", "has gaps or another order (shape (8,), strides (2,))"),
        ("a column", "ValueError", "has gaps or another order"),
        ("Fortran's order", "ValueError", "has gaps or another order"),
        ("backwards", "ValueError", "has gaps or another order"),
        ("objects", "TypeError", "this ndarray holds references to Python objects"),
        ("objects in a record", "TypeError", "this ndarray holds references to Python objects"),
        ("dates", "TypeError", 'Give them as numbers (of NumPy: array.view("u1"))'),
    ],
)
def test_what_cannot_be_registered(null: Null, kind: str, error: str, words: str) -> None:
    came = null.run(unfit, kind)
    assert came["type"] == error
    assert words in came["text"]
    assert came["native"] == 1  # the side's own region


def read_only() -> list[Any]:
    pd = side().pd
    refused = {
        name: said(error_of(pd.reg_mr, b"constant", access))
        for name, access in {
            "default": AccessFlag.LOCAL_WRITE, "remote": AccessFlag.REMOTE_WRITE, "atomic": AccessFlag.REMOTE_ATOMIC
        }.items()
    }  # fmt: skip
    kept = [pd.reg_mr(b"constant", access) for access in (0, AccessFlag.REMOTE_READ)]
    writing = said(error_of(kept[0].buffer.__setitem__, 0, 1))
    return [refused, [mr.buffer.readonly for mr in kept], writing["type"]]


def test_read_only_memory_may_be_read_and_not_written(null: Null) -> None:
    refused, readonly, writing = null.run(read_only)
    assert {answer["type"] for answer in refused.values()} == {"ValueError"}
    assert all("this memory is read-only" in answer["text"] for answer in refused.values())
    assert "LOCAL_WRITE" in refused["default"]["text"]
    assert "REMOTE_ATOMIC" in refused["atomic"]["text"]
    assert (readonly, writing) == ([True, True], "TypeError")
    assert [call["access"] for call in null.calls(REG_MR)][1:] == [0, 4]


def resized() -> list[Any]:
    memory = bytearray(16)
    mr = side().pd.reg_mr(memory)
    while_registered = type(error_of(memory.extend, b"more")).__name__
    stub(DEREG_MR_ERRNO=16)
    error_of(mr.close)
    while_busy = type(error_of(memory.extend, b"more")).__name__
    stub(DEREG_MR_ERRNO=None)
    mr.close()
    memory.extend(b"more")
    return [while_registered, while_busy, len(memory)]


def test_a_bytearray_cannot_be_resized_while_it_is_registered(null: Null) -> None:
    assert null.run(resized) == ["BufferError", "BufferError", 20]


def refused_is_let_go() -> int:
    one = side()
    memory = bytearray(16)
    stub(REG_MR_ERRNO=12)
    error = error_of(one.pd.reg_mr, memory)
    assert isinstance(error, rdmaqp.VerbsError)
    memory.extend(b"more")  # though the error, and with it the call's frames, is still there
    return len(memory)


def test_memory_that_was_refused_is_let_go(null: Null) -> None:
    assert null.run(refused_is_let_go) == 20


def seen_by_numpy(how: str) -> list[Any]:
    """What was made of the region's view outlives the region, and so does the memory."""
    import numpy as np

    pd = side().pd
    mr = pd.alloc_mr(4096)
    view: Any = {
        "numpy": lambda: np.frombuffer(mr.buffer, "u1"), "slice": lambda: mr.buffer[:],
        "ctypes": lambda: (ctypes.c_ubyte * 4096).from_buffer(mr.buffer),
        "hold": lambda: pickle.PickleBuffer(mr.buffer),  # the view itself, which then cannot be released
    }[how]()  # fmt: skip
    mr.buffer[9] = 7
    mr.close()
    mr.close()
    pd.close()
    gc.collect()
    return [mr.closed, memoryview(view).cast("B")[9], len(calls("ibv_dereg_mr"))]


@pytest.mark.parametrize("how", ["numpy", "slice", "ctypes", "hold"])
def test_a_view_outlives_the_region(null: Null, how: str) -> None:
    assert null.run(seen_by_numpy, how) == [True, 7, 2]  # the side's own region, and this one


def nobody_holds_it() -> list[Any]:
    """Every Python name of the receiving side is gone; the memory, which the device may write to, is not."""
    first, second = connected()
    qp_num, context = second.qp.qp_num, second.context
    target = bytearray(64)
    second.qp.post_recv(second.pd.reg_mr(target), wr_id=5)
    del second
    gc.collect()
    first.mr.buffer[:5] = b"hello"
    first.qp.post_send(first.mr)
    ended = calls("ibv_dereg_mr", "ibv_destroy_qp", "ibv_destroy_cq", "ibv_dealloc_pd")
    there = bytes(target[:5])
    locked = type(error_of(target.extend, b"more")).__name__
    context.close()
    target.extend(b"more")
    return [there.decode(), len(ended), locked, qp_num > 0]


def test_what_the_device_may_write_to_lives_though_nobody_holds_it(null: Null) -> None:
    assert null.run(nobody_holds_it) == ["hello", 0, "BufferError", True]


def device_of_nobody() -> list[Any]:
    target = bytearray(64)
    rdmaqp.open().alloc_pd().reg_mr(target)
    gc.collect()
    return [type(error_of(target.extend, b"more")).__name__, len(calls("ibv_close_device", "ibv_dereg_mr"))]


def test_a_device_that_nobody_holds_stays_open(null: Null) -> None:
    assert null.run(device_of_nobody) == ["BufferError", 0]


def fresh(length: int) -> list[Any]:
    mr = side().pd.alloc_mr(length, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_READ)
    return [mr.length, mr.addr % mmap.PAGESIZE, any(mr.buffer), mr.buffer.readonly]


@pytest.mark.parametrize("length", [1, 4095, 4096, 1 << 20])
def test_fresh_memory_is_zeroed_aligned_and_as_long_as_asked(null: Null, length: int) -> None:
    assert null.run(fresh, length) == [length, 0, False, False]
    call = null.calls(REG_MR)[-1]
    assert (call["length"], call["access"], call["result"]) == (length, 5, 0)


def no_length(length: int) -> dict[str, Any]:
    return said(error_of(side().pd.alloc_mr, length))


@pytest.mark.parametrize("length", [0, -1])
def test_fresh_memory_has_a_length(null: Null, length: int) -> None:
    came = null.run(no_length, length)
    assert (came["type"], came["text"]) == ("ValueError", f"a memory region has at least 1 byte, not {length}")


def access(value: int) -> dict[str, Any]:
    return said(error_of(side().pd.alloc_mr, 8, value)) | {"native": len(calls(REG_MR))}


@pytest.mark.parametrize("value", [-1, 1 << 32, 1 << 70])
def test_access_flags_that_do_not_fit_are_not_cut(null: Null, value: int) -> None:
    came = null.run(access, value)
    assert (came["type"], came["native"]) == ("GuardError", 1)  # the one of side()


def kept_of(kind: str) -> tuple[memoryview, Any]:
    """A view, and what rdmaqp keeps of it."""
    one = side(max_inline_data=64)
    if kind in ("region", "inline"):
        view = memoryview(bytearray(8))
        kept = one.pd.reg_mr(view) if kind == "region" else one.qp.chain(rdmaqp.Send(view, inline=True))
        return (kept.buffer, kept) if kind == "region" else (view, kept)
    # A refusal's traceback has the frames of the call.
    records = (rdmaqp.SendRecords if kind == "sends" else rdmaqp.RecvRecords)(4)
    view = memoryview(bytes(records._bytes))
    refused = error_of(one.qp.post_sends if kind == "sends" else one.qp.post_recvs, view)
    assert isinstance(refused, rdmaqp.GuardError)
    return view, refused


def released(kind: str) -> str:
    view, kept = kept_of(kind)
    view.release()  # a BufferError where an export is left on it
    return type(kept).__name__


@pytest.mark.parametrize(
    ("kind", "kept"),
    [("region", "MemoryRegion"), ("inline", "Chain"), ("sends", "GuardError"), ("recvs", "GuardError")],
)
def test_no_export_is_left_on_a_view(null: Null, kind: str, kept: str) -> None:
    """CPython up to 3.12 crashes where its collector clears a memoryview that has one."""
    assert null.run(released, kind) == kept


def cut_bounds() -> list[Any]:
    import numpy as np

    region = side().mr
    remote = region.remote
    good = region[np.int64(8) : np.uint8(24)]
    wrong = [error_of(what.__getitem__, key) for what in (region, good, remote)
             for key in (slice(1.5, 3), slice(0, 2.0), slice("1", 3), slice(True, 3))]  # fmt: skip
    return [good.offset, len(good), sorted({type(error).__name__ for error in wrong}), str(wrong[0])]


def test_a_slice_is_of_whole_bytes_and_never_cut_to_them(null: Null) -> None:
    offset, length, kinds, text = null.run(cut_bounds)
    assert (offset, length, kinds) == (8, 16, ["TypeError"])
    assert text == "a slice of this region of 64 bytes goes from a byte to a byte: 1.5 is no integer"
