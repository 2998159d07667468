"""Memory windows of type 2: a key for a piece of a region that is given and taken by work requests, in a microsecond.

A registration takes a system call, and lasts. A window is allocated once, then bound, told to the peer, and invalidated
as often as wanted; it never reaches further than its region.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.acts import WROpcode
from rdmaqp.model.arguments import wrong_type
from rdmaqp.model.attributes import as_int
from rdmaqp.model.enums import AccessFlag, DeviceCap
from rdmaqp.verbs._native import check, native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.slices import RemoteMemory, region_of
from rdmaqp.verbs.work import Work

if TYPE_CHECKING:
    from rdmaqp.verbs.domain import ProtectionDomain
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.slices import Slice
    from rdmaqp.verbs.work_queues import WorkQueues


class MemoryWindow(Resource):
    """``struct ibv_mw`` of type 2. ``qp.bind(window, region[0:64], access)`` gives it bytes and a new key.

    It is then the queue pair's, until ``qp.invalidate(window)``: closing that closes the window too.

    Attributes:
        pd: its protection domain.
        region: the memory region whose bytes it is bound to; ``None`` while it is bound to nothing.
        rkey: the key of its last bind, whatever has become of that; before the first, that of its allocation.
    """

    kind = "memory window"
    #: Before queue pairs and regions. With a window bound to it, on Soft-RoCE a region refuses to end (EINVAL), and a
    #: queue pair waits in the kernel for its last reference (50 s in the emulated lab, 6.1: measured).
    _rank = -1

    def __init__(self, pd: ProtectionDomain) -> None:
        ffi, lib = native()

        def make() -> Any:
            handle = lib.rdmaqp_alloc_mw(pd.handle, lib.IBV_MW_TYPE_2)
            if handle == ffi.NULL:
                raise VerbsError("ibv_alloc_mw", ffi.errno, f"device {pd.context.name}", _what_it_can(pd))
            self.rkey = int(handle.rkey)
            return handle

        self.pd = pd
        #: What it was last bound to, by which queue pair, as which of its sends.
        self._bound: tuple[RemoteMemory, WorkQueues, int] | None = None
        #: Whose bytes these are.
        self.region: MemoryRegion | None = None
        super().__init__(make, pd)

    @property
    def next_rkey(self) -> int:
        """The key for the next bind: the lowest 8 bits are ours to choose, and have to change (ibv_inc_rkey(3))."""
        return int(native().lib.rdmaqp_inc_rkey(self.rkey))

    @property
    def remote(self) -> RemoteMemory:
        """What to tell the peer, so that it may reach the bytes bound.

        Raises:
            ValueError: it is bound to nothing, or the bind has not completed: the peer would be refused. A bind that is
                not signaled completes with the next signaled send. Who tells the peer by a send behind the bind on the
                same queue pair need not wait, and takes what ``qp.bind()`` returned.
        """
        self.require_open()
        if self._bound is None:
            raise ValueError(f"this {self.kind} is bound to nothing: qp.bind(window, region[0:64], access)")
        remote, qp, number = self._bound
        if qp.raw.sq.tail <= number:
            raise ValueError(f"the bind of this {self.kind} has not completed: poll the queue of {qp} first")
        return remote

    def bound(self, bind: Bind, qp: WorkQueues, number: int) -> None:
        """Note that *bind* has been posted, as send *number* of *qp*."""
        self.unbound()
        self.rkey = self.handle.rkey = bind.rkey  # by the latter, drivers find the window at its next bind
        self._bound, self.region = (bind.remote, qp, number), region_of(bind.region)
        self._parents = self.pd, qp
        qp._children[id(self)] = self

    def unbound(self) -> None:
        """Note that its key has been invalidated."""
        if self._bound is not None:
            self._bound[1]._children.pop(id(self), None)
        self._parents = (self.pd,)
        self._bound = self.region = None

    def __repr__(self) -> str:
        use = "free" if self._bound is None else f"bound to {self._bound[0].length} bytes"
        state = "closed" if self.closed else use
        return f"<memory window, rkey {self.rkey:#x}, {state}>"

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        lib.rdmaqp_window_ended(self.pd.domain)  # first: no chain may be posted that names it while it ends
        check("ibv_dealloc_mw", lib.rdmaqp_dealloc_mw(handle), self.kind)


def _what_it_can(pd: ProtectionDomain) -> tuple[str, ...]:
    context = pd.context
    flags = context.attr.device_cap_flags
    if flags & (DeviceCap.MEM_WINDOW_TYPE_2A | DeviceCap.MEM_WINDOW_TYPE_2B):
        return (f"{context.name} says that it has memory windows of type 2, {context.attr.max_mw} at most (max_mw).",)
    older = ", of type 1 alone" if flags & DeviceCap.MEM_WINDOW else ""
    return (
        f"{context.name} says that it has none of type 2{older} (device_cap_flags). Register what the peer may reach "
        "by itself instead: pd.reg_mr(memory, access)",
    )


@dataclass(slots=True)
class Bind(Work):
    """BIND_MW: bytes of *region* become what *window*, a memory window of type 2, names from now on.

    A window that is bound is invalidated before it is bound again, and bound once in a call or a chain. (Soft-RoCE of
    Linux 6.1 holds the peer to the bounds of the region, not to those of the window: measured.)

    Attributes:
        window: the memory window.
        region: which bytes, one or more; the region was registered with MW_BIND.
        access: what the other side may do with them: REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC.
        rkey: the new key of the window; its next one where not given (0).
    """

    opcode = WROpcode.BIND_MW

    window: MemoryWindow
    region: MemoryRegion | Slice
    access: int
    rkey: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.window, MemoryWindow):
            raise wrong_type("Bind", "window", self.window, "a memory window, of pd.alloc_mw()")
        if as_int(self.access) is None:
            raise wrong_type("Bind", "access", self.access, "an AccessFlag, such as AccessFlag.REMOTE_READ")
        self.rkey = self.rkey or self.window.next_rkey

    @property
    def remote(self) -> RemoteMemory:
        """What the peer may reach from then on."""
        addr = 0 if self.access & AccessFlag.ZERO_BASED else self.region.addr
        return RemoteMemory(addr, self.region.length, self.rkey)
