"""What every native object has in common: a handle, parents, children, and an end.

A parent holds its children strongly until they close, and an open context is held by this module. So nothing that
the hardware may still write to is freed because a Python name went out of scope.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rdmaqp.errors import ClosedError

if TYPE_CHECKING:
    from types import TracebackType


class Resource(ABC):
    """A native object. Closing it closes its children first; closing it twice is the same as once.

    Queue pairs and their posts have one owner: a single thread. A thread blocked in a wait of this object may be
    joined by another that closes it: the wait then ends with :class:`ClosedError`.
    """

    #: What it is, in messages.
    kind: ClassVar[str] = "object"
    #: The order among children: what uses memory ends before the memory does.
    _rank: ClassVar[int] = 0

    def __init__(self, handle: Any, *parents: Resource) -> None:
        self._handle_or_none = handle
        self._parents = parents
        self._children: dict[int, Resource] = {}
        self._lock = threading.RLock()
        self._closing = False
        for parent in parents:
            parent._children[id(self)] = self

    @property
    def handle(self) -> Any:
        """The cffi pointer, for calls that rdmaqp does not wrap. It is dead after :meth:`close`."""
        if self._handle_or_none is None or self._closing:
            raise ClosedError(f"this {self.kind} is closed{self._because()}")
        return self._handle_or_none

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called, here or on a parent."""
        return self._handle_or_none is None

    def _because(self) -> str:
        gone = [parent.kind for parent in self._parents if parent.closed]
        return f", as its {gone[0]} is" if gone else ""

    def close(self) -> None:
        """Destroy the native object, its children first.

        Raises:
            VerbsError: the driver refused; the object is still open then.
        """
        if self._handle_or_none is None:
            return
        self._closing = True
        try:
            # A wait in another thread holds the lock for a slice of time at most, and looks at _closing between.
            with self._lock:
                if self._handle_or_none is None:
                    return
                for child in sorted(self._children.values(), key=lambda child: child._rank):
                    child.close()
                self._destroy(self._handle_or_none)
                self._handle_or_none = None
        finally:
            self._closing = False
        for parent in self._parents:
            parent._children.pop(id(self), None)

    @abstractmethod
    def _destroy(self, handle: Any) -> None:
        """Call the verb that ends *handle*, and check what it says."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
