"""Memory regions: memory that the device may read and write."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.enums import AccessFlag
from rdmaqp.model.request import QPFacts, Registration, Request
from rdmaqp.verbs._native import check, check_pointer, native, pinned
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.asking import ask_guard
from rdmaqp.verbs.slices import RemoteMemory, Slice, bounds

if TYPE_CHECKING:
    from typing import Protocol

    from _typeshed import ReadableBuffer as Buffer

    from rdmaqp.verbs.domain import ProtectionDomain


    class DLPack(Protocol):
        """What shows its memory by DLPack: tensors, most of all."""

        def __dlpack__(self, **options: Any) -> Any: ...

        def __dlpack_device__(self) -> tuple[int, int]: ...


class MemoryRegion(Resource):
    """``struct ibv_mr``: memory that the device may reach.

    ``region[0:64]`` is a piece of it that can be posted.

    Attributes:
        addr: its address.
        length: bytes.
        access: the access flags that it was registered with.
        lkey, rkey: the keys by which this side and the other side name it.
    """

    kind = "memory region"
    _rank = 2

    def __init__(self, pd: ProtectionDomain, memory: Buffer | DLPack, access: int) -> None:
        ffi, lib = native()
        view = _bytes_of(memory)
        if view.readonly and access & _WRITES:
            raise ValueError(
                f"this memory is read-only, and {AccessFlag(access & _WRITES)!r} would let the device write to it; "
                "pass access=0 (or REMOTE_READ), or writable memory"
                + _why_read_only(memory)
            )

        def asked() -> Request:
            act = Registration(access=int(access), length=view.nbytes)
            return Request(qp=QPFacts(), reg_mr=act, device=pd.context.facts)

        ask_guard(asked)
        held = pinned(view)  # the owner can neither free nor resize it before release()

        def make() -> Any:
            pointer = lib.rdmaqp_reg_mr(pd.handle, held, view.nbytes, int(access))
            handle = check_pointer("ibv_reg_mr", pointer, f"{view.nbytes:,} bytes on {pd.context.name}", asked)
            self.lkey, self.rkey = int(handle.lkey), int(handle.rkey)
            if lib.rdmaqp_add_region(pd.domain, self.addr, self.length, self.lkey, self.access):
                lib.ibv_dereg_mr(handle)
                raise MemoryError(f"no room to note {view.nbytes:,} bytes in their {pd.kind}")
            return handle

        self.pd = pd
        self.access = int(access)
        self.length = view.nbytes
        self.addr = int(ffi.cast("uintptr_t", held))
        self._view = view
        self._pinned = held
        try:
            super().__init__(make, pd)
        except BaseException:
            self._let_go()
            raise

    def __getitem__(self, key: slice) -> Slice:
        """Bytes that a work request can name. Raises ``ValueError`` where they are not all inside."""
        self.require_open()
        return Slice(self, *bounds(key, self.length, f"this region of {self.length} bytes"))

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<memory region of {self.length} bytes, lkey {self.lkey:#x}, rkey {self.rkey:#x}{state}>"

    @property
    def remote(self) -> RemoteMemory:
        """What to tell the peer, so that it may read or write this memory, as *access* lets it."""
        return RemoteMemory(self.addr, self.length, self.rkey)

    @property
    def buffer(self) -> memoryview:
        """A view of the memory, byte by byte; writable where the memory is."""
        self.require_open()
        return self._view

    def span(self, offset: int, length: int) -> int:
        """The address of *length* bytes at *offset*. Raises ``ValueError`` where they are not all inside."""
        self.require_open()
        if offset < 0 or length < 0 or offset + length > self.length:
            raise ValueError(f"bytes {offset}…{offset + length} are not inside this region of {self.length} bytes")
        return self.addr + offset

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        lib.rdmaqp_drop_region(self.pd.domain, self.lkey)  # first: no post may find it while it ends
        try:
            check("ibv_dereg_mr", lib.ibv_dereg_mr(handle), self.kind)
        except VerbsError as error:
            lib.rdmaqp_add_region(self.pd.domain, self.addr, self.length, self.lkey, self.access)
            windows = [one for one in list(self.pd._children.values()) if getattr(one, "region", None) is self]
            if windows:
                error.notes += (f"{windows[0]!r} is bound to it: qp.invalidate(window), or window.close(), before.",)
            raise
        self._let_go()

    def _let_go(self) -> None:
        native().ffi.release(self._pinned)
        with suppress(BufferError):  # a NumPy array made of it keeps the memory for itself
            self._view.release()


def _bytes_of(memory: Buffer | DLPack) -> memoryview:
    view = _buffer_of(memory)
    if view.nbytes == 0:
        raise ValueError("a memory region has at least 1 byte; this memory is empty")
    if not view.c_contiguous:
        raise ValueError(
            f"this memory has gaps or another order (shape {view.shape}, strides {view.strides}), and a memory region "
            "is one run of bytes: register the whole and use offsets, or a contiguous copy"
        )
    if "O" in re.sub(":[^:]*:", "", view.format):  # without the fields' names
        raise TypeError(
            f"this {type(memory).__name__} holds references to Python objects, which mean nothing to a peer; what "
            "comes from one would be followed as pointers. Register an array of numbers"
        )
    return view.cast("B")


def _buffer_of(memory: Any) -> memoryview:
    try:
        return memoryview(memory)
    except TypeError:
        if not hasattr(memory, "__dlpack__"):
            raise
    except ValueError as error:  # NumPy's dates: the protocol has no word for them
        raise TypeError(
            f"this {type(memory).__name__} does not show its bytes: {error}. Give them as numbers (of NumPy: "
            'array.view("u1"))'
        ) from error
    kind = type(memory).__name__
    device, number = memory.__dlpack_device__()
    if device not in _CPU_DEVICES:
        raise TypeError(f"this {kind} is on DLPack device ({int(device)}, {number}), and not in memory of the CPU")
    try:
        import numpy as np  # optional
    except ImportError:
        raise TypeError(f"this {kind} shows its memory by DLPack alone, which NumPy reads: install numpy") from None
    try:
        array: Any = np.from_dlpack(memory)  # a buffer to the type checker too, from Python 3.12 on
        return memoryview(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"NumPy {np.__version__} cannot read the DLPack of this {kind}: {error}. Give it as bytes (of PyTorch: "
            "tensor.view(torch.uint8))"
        ) from error


def _why_read_only(memory: Any) -> str:
    try:
        memoryview(memory)
    except TypeError:
        return (
            "; NumPy takes all DLPack for read-only that is older than version 1, which cannot say (of PyTorch, give "
            "tensor.numpy())"
        )
    return ""


#: ``DLDeviceType``: kDLCPU, and what CUDA and ROCm have pinned of it.
_CPU_DEVICES = frozenset({1, 3, 11})
_WRITES = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_ATOMIC
