"""A few processes that work on batches while the results stay in order.

Each has one batch at a time, in turn, so that nothing piles up. They are children that share nothing but a pipe each:
when this process is gone, however it went, they read the end of theirs and are gone too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

Job = TypeVar("Job")
Done = TypeVar("Done")


class Workers(Generic[Job, Done]):
    """*count* children that each do *work*."""

    def __init__(self, work: Callable[[Job], Done], count: int) -> None:
        self._pipes: list[Connection[Any, Any]] = []
        self._children: list[Any] = []
        self._at_work: deque[Connection[Any, Any]] = deque()
        self._turn = 0
        fork = multiprocessing.get_context("fork")
        for _ in range(count):
            ours, theirs = fork.Pipe()
            child = fork.Process(target=_serve, args=(work, theirs, [*self._pipes, ours]), daemon=True)
            child.start()
            theirs.close()
            self._pipes.append(ours)
            self._children.append(child)

    @property
    def is_full(self) -> bool:
        """Whether each child has a batch: the oldest result must be taken before another goes in."""
        return len(self._at_work) == len(self._pipes)

    def send(self, job: Job) -> None:
        """Give a batch to the child whose turn it is. Raises ChildProcessError where it was killed."""
        pipe = self._pipes[self._turn % len(self._pipes)]
        self._turn += 1
        try:
            pipe.send(job)
        except BrokenPipeError:
            raise _lost() from None
        self._at_work.append(pipe)

    def results(self, *, everything: bool) -> Iterator[Done]:
        """The oldest result, or all that are still to come. Raises ChildProcessError where a child was killed."""
        while self._at_work:
            try:
                done: Done = self._at_work.popleft().recv()
            except (EOFError, ConnectionResetError):
                raise _lost() from None
            yield done
            if not everything:
                return

    def close(self) -> None:
        """End them."""
        for pipe in self._pipes:
            pipe.close()
        for child in self._children:
            child.join()


def _lost() -> ChildProcessError:
    return ChildProcessError("a process that judged for this one was killed; with -j 1 there is none")


def _serve(work: Callable[[Any], Any], pipe: Connection[Any, Any], others: list[Connection[Any, Any]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it too, and says so
    for other in others:  # inherited: while open here, nobody would see that the parent is gone
        other.close()
    try:
        while True:
            pipe.send(work(pipe.recv()))
    except (EOFError, OSError):
        os._exit(0)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
