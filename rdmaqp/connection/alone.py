"""One thread at a time: a second one that comes in is told so, instead of spoiling what both count on."""

from __future__ import annotations

import os
import threading
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rdmaqp.errors import ClosedError, RdmaqpError

if TYPE_CHECKING:
    from collections.abc import Callable

_forks = 0  # how many lie between the first process and this one: cheaper to compare than process ids


def _in_child() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_in_child)

_P = ParamSpec("_P")
_R = TypeVar("_R")


class BusyError(RdmaqpError):
    """A connection was called while another of its calls was under way; nothing was done.

    It belongs to one thread at a time: see :class:`~rdmaqp.Connection`.
    """


class Alone:
    """Who is inside of an object's calls. ``close()`` may come from any thread, and has the others leave.

    Attributes:
        closing: whether another thread waits to close it.
    """

    def __init__(self) -> None:
        self.closing = False
        self._lock = threading.Lock()
        self._inside = ("", threading.current_thread())
        self._made_after = _forks

    @property
    def left_behind(self) -> bool:
        """Whether it is a parent process's, and dead here."""
        return self._made_after != _forks

    @property
    def inside_here(self) -> bool:
        """Whether this very thread is inside: it is in ``on_event``, or in a signal handler."""
        return self._lock.locked() and self._inside[1] is threading.current_thread()

    def enter(self, whose: object, call: str) -> None:
        """Come in. Raises :class:`BusyError` where somebody is inside, ClosedError where another thread closes it."""
        if self._made_after != _forks:
            raise ClosedError(
                f"this {whose} is closed here: it is that of the process from which this one was forked. Connect again"
            )
        if self.closing:
            self.require_not_closing(whose)
        if not self._lock.acquire(blocking=False):
            raise self.busy(whose, call)
        self._inside = (call, threading.current_thread())

    def enter_last(self, timeout: float) -> bool:
        """Come in to close it, once whoever is inside has left; ``False`` where that took longer than *timeout*."""
        self.closing = True
        try:
            if not self._lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
                return False
            self._inside = ("close", threading.current_thread())
            return True
        finally:
            self.closing = False

    def leave(self) -> None:
        """Go out."""
        self._lock.release()

    def require_not_closing(self, whose: object) -> None:
        """Raise :class:`ClosedError` where another thread waits to close it."""
        if self.closing:
            raise ClosedError(f"this {whose} is being closed by another thread")

    def busy(self, whose: object, call: str) -> BusyError:
        """The error for a *call* that comes while another is under way."""
        inside, thread = self._inside
        if thread is threading.current_thread():
            where, way = "this very thread: in on_event, or in a signal handler", "call it once that has returned"
        else:
            where = f"thread {thread.name!r}"
            way = "send and receive in one thread, with poll() or a timeout, or open a second connection"
        return BusyError(f"{whose}: {call}() while {inside}() is under way in {where}; {way}")


def alone(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """A method during which its object, whose ``_alone`` is an :class:`Alone`, takes no other call."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        whose: Any = args[0]
        whose._alone.enter(whose, method.__name__)
        try:
            return method(*args, **kwargs)
        finally:
            whose._alone.leave()

    return call
