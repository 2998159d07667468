"""Programs under the guard, judged in this process: to start an interpreter for each takes longer than they do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rdmaqp.errors import VerbsError
from rdmaqp.preload import launch
from rdmaqp.preload.judge import Judge, Judged
from rdmaqp.preload.seen import Process
from rdmaqp.preload.server import Server
from rdmaqp.preload.trace import TraceFile

PATIENCE = 100


@dataclass
class Watched:
    """A program that has run, and what the judge made of it."""

    judge: Judge
    found: list[Judged] = field(default_factory=list)
    failures: list[VerbsError] = field(default_factory=list)
    unwatched: list[Process] = field(default_factory=list)
    status: int = -1
    out: str = ""
    err: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def paths(self) -> list[list[str]]:
        """The states that each queue pair went to, or was refused."""
        return [[step.goal.name if step.goal else "?" for step in pair.steps] for pair in self.judge.pairs]

    @property
    def rules(self) -> set[str]:
        """The rules of all errors found."""
        return {rule for rule, _, severity in self.judge.findings if severity == "error"}


class _Observer:
    def __init__(self) -> None:
        self.watched: Watched

    def found(self, judged: Judged) -> None:
        self.watched.found.append(judged)

    def failed(self, judged: Judged, error: VerbsError) -> None:
        self.watched.failures.append(error)

    def lost(self, process: Process) -> None:
        self.watched.unwatched.append(process)


@contextmanager
def serving(
    *, enforce: bool = False, audit: bool = True, deadline: float = 60, redact: bool = False,
    ignore: frozenset[str] = frozenset(),
) -> Iterator[tuple[Watched, Callable[[Mapping[str, str]], dict[str, str]], Callable[[], None]]]:  # fmt: skip
    """What is seen, the environment that leads programs here, and what stops the judge (else the end of the block)."""
    observer, text = _Observer(), io.StringIO()
    judge = Judge(observer, enforce=enforce, trace=TraceFile(text, redact=redact), ignore=ignore)
    observer.watched = watched = Watched(judge)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), judge)
        thread = threading.Thread(target=server.serve)
        thread.start()

        def stop() -> None:
            if thread.is_alive():
                server.ended()
                thread.join(PATIENCE)
                server.close()

        try:
            yield watched, lambda own: launch.environment(own, server.path, deadline, audit=audit), stop
        finally:
            stop()
        assert not server.problem, server.problem
        watched.lines += [json.loads(line) for line in text.getvalue().splitlines()]


def watch(
    words: Sequence[str | Path], environment: Mapping[str, str] | None = None, **options: Any
) -> Watched:  # fmt: skip
    """Run *words* to their end under the guard."""
    with serving(**options) as (watched, led, _):
        done = subprocess.run(
            [str(word) for word in words], env=led(os.environ if environment is None else environment),
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        watched.status, watched.out, watched.err = done.returncode, done.stdout, done.stderr
    return watched
