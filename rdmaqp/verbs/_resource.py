"""What every native object has in common: a handle, parents, children, and an end.

A parent holds its children strongly until they close, and an open context is held by this module. So nothing that
the hardware may still write to is freed because a Python name went out of scope.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rdmaqp.errors import ClosedError, VerbsError
from rdmaqp.verbs._native import native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType


class Resource(ABC):
    """A native object. Closing it closes its children first; closing it twice is the same as once.

    Completion queues, queue pairs and their posts have one owner: a single thread. Another may close them: a wait
    then ends with :class:`ClosedError`.
    """

    #: What it is, in messages.
    kind: ClassVar[str] = "object"
    #: The order of ends and of locks. Among children the lowest is closed first: what uses memory ends before the
    #: memory does. A parent's is above its children's, and locks are taken from the highest down.
    _rank: ClassVar[float] = 0
    #: Whether it is a parent process's, and dead here.
    _left_behind = False

    def __init__(self, make: Callable[[], Any], *parents: Resource) -> None:
        """Call *make*, which gives the handle, as a child of *parents*: a parent's close() meanwhile waits for it."""
        self._handle_or_none: Any = None
        self._parents = parents
        self._children: dict[int, Resource] = {}
        self._lock = threading.RLock()
        self._closing = False
        #: How often close() has been called: a wait that began before one ends, whatever came of it.
        self.closings = 0
        with self._lock:
            for parent in parents:
                parent._children[id(self)] = self
            try:
                self._handle_or_none = make()
            finally:
                if self._handle_or_none is None:
                    self._leave()

    @property
    def handle(self) -> Any:
        """The cffi pointer, for calls that rdmaqp does not wrap. It is dead after :meth:`close`."""
        self.require_open()
        return self._handle_or_none

    def require_open(self) -> None:
        """Raise :class:`ClosedError` where it is closed, or being closed by another thread."""
        if self._handle_or_none is None or self._closing:
            raise ClosedError(f"this {self.kind} is closed{self._because()}")

    def _require_not_closed_since(self, closings: int) -> None:
        """Raise :class:`ClosedError` where it has been closed since, or was to be, and the driver refused."""
        if self.closings != closings:
            self.require_open()
            raise ClosedError(f"this {self.kind} was to be closed by another thread, and the driver refused")

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called, here or on a parent."""
        return self._handle_or_none is None

    def _because(self) -> str:
        if self._left_behind:
            return " here: it is that of the process from which this one was forked. Open the device again"
        gone = [parent.kind for parent in self._parents if parent.closed]
        return f", as its {gone[0]} is" if gone else ""

    def close(self) -> None:
        """Destroy the native object, its children first.

        Raises:
            VerbsError: the driver refused; the object is still open then.
        """
        self._closing = True
        self.closings += 1
        try:
            # A wait in another thread holds the lock for a slice of time at most, and looks at these two between.
            with self._lock:
                handle = self._handle_or_none
                if handle is None:
                    return
                for child in sorted(self._children.values(), key=lambda child: child._rank):
                    child.close()
                # Forgotten before it ends, since Ctrl-C may come in between: to end it twice would crash.
                self._handle_or_none = None
                try:
                    self._destroy(handle)
                except VerbsError:
                    self._handle_or_none = handle
                    raise
        finally:
            self._closing = False
        self._leave()

    def _leave(self) -> None:
        for parent in self._parents:
            parent._children.pop(id(self), None)

    def _bar(self) -> None:
        """After fork, in the child: calls into C are refused, whoever held a lock there."""
        for raw in (getattr(self, "raw", None), getattr(self, "domain", None)):
            lock = getattr(raw, "lock", None)
            if lock is not None:
                lock.next = lock.serving = 0
                lock.closed = 1

    @abstractmethod
    def _destroy(self, handle: Any) -> None:
        """Call the verb that ends *handle*, and check what it says."""

    def __str__(self) -> str:
        return self.kind

    def __repr__(self) -> str:
        return f"<{self}{', closed' if self.closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def leave_behind(root: Resource) -> None:
    """After fork, in the child: what the parent has is dead here, and nothing of it is destroyed.

    The kernel knows the device's file as the parent's, and the child has no mapping of its queues that it may use.
    Locks are as the parent's other threads had them, and those threads are not here: they are made anew.
    """
    for child in list(root._children.values()):
        leave_behind(child)
    root._children.clear()
    root._lock = threading.RLock()
    root._handle_or_none, root._left_behind = None, True
    root.closings += 1
    root._bar()


@contextmanager
def holding(*resources: Resource) -> Iterator[None]:
    """Keep *resources* open until the end of the block: a close() in another thread waits for it.

    Raises:
        ClosedError: one of them is closed, or about to be.
    """
    with ExitStack() as stack:
        for resource in sorted(set(resources), key=lambda resource: (-resource._rank, id(resource))):
            stack.enter_context(resource._lock)
            resource.require_open()
        yield


@contextmanager
def emptied(raw: Any) -> Iterator[None]:
    """Keep C's calls out of *raw*, which has a ``lock``, while it ends; where that fails, they may go on."""
    ffi, lib = native()
    lock = ffi.addressof(raw, "lock")
    lib.rdmaqp_set_closed(lock, 1)
    try:
        yield
    except VerbsError:
        lib.rdmaqp_set_closed(lock, 0)
        raise
