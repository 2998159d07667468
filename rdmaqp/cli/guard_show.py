"""How `rdmaqp guard` tells: findings while the program runs, and at the end what became of its queue pairs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp.cli.console import err
from rdmaqp.cli.guard_pairs import count, rows
from rdmaqp.cli.report import report_text
from rdmaqp.host import sysfs
from rdmaqp.preload.ends import disagreements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.errors import VerbsError
    from rdmaqp.preload.judge import Judge, Judged
    from rdmaqp.preload.seen import Process, QueuePair

_COLOURS = {"error": "bold red", "warning": "bold yellow"}


def _say(*parts: str | tuple[str, str] | Text) -> None:
    _print(Text.assemble(("rdmaqp guard: ", "bold"), *parts))


def _print(text: Text) -> None:
    """Print it, if anybody listens: that a reader has gone (rich then raises SystemExit) stops no judge."""
    with suppress(OSError, SystemExit):
        err.print(text, soft_wrap=True)


class Teller:
    """Prints what the judge has to tell, on standard error."""

    def __init__(self, *, enforce: bool) -> None:
        self._enforce = enforce

    def found(self, judged: Judged) -> None:
        """One call with its findings."""
        worst = "error" if judged.report.refused else "warning"
        _say((worst, _COLOURS[worst]), f" in {_place(judged)}")
        text = report_text(judged.report)
        if not judged.refused and judged.report.refused:
            lines = text.split("\n")
            tail = "ibv_modify_qp is called all the same; with --enforce it would be answered with EINVAL."
            text = Text("\n").join([*lines[:-1], Text(tail, "dim")])
        _print(text)

    def failed(self, judged: Judged, error: VerbsError) -> None:
        """One call that failed, and why."""
        _say(("failed", "bold red"), f" in {_place(judged)}")
        first, _, rest = str(error).partition("\n")
        _print(Text(first, "bold"))
        if rest:
            _print(Text(rest))

    def lost(self, process: Process) -> None:
        """A process goes on unwatched."""
        _say(("warning", "bold yellow"), f": {process} goes on unwatched: {process.lost}")


def _place(judged: Judged) -> str:
    process = judged.pair.process
    thread = "" if judged.tid == process.pid else f", thread {judged.tid}"
    return f"ibv_modify_qp, called from {judged.caller}, process {process}{thread}"


# ---------------------------------------------------------------------- the end


def summary(judge: Judge, problem: str) -> None:
    """What became of all queue pairs, and what was found, once more in short."""
    calls = sum(process.calls for process in judge.processes)
    if problem:
        _say(("warning", "bold yellow"), f": a process may have gone on unwatched, for something went wrong: {problem}")
    if not judge.pairs:
        if problem and not judge.processes:
            return
        _say(_nothing(judge))
        return
    users = {pair.process for pair in judge.pairs}
    counts = [
        count(len(judge.pairs), "queue pair"), f"in {count(len(users), 'process', 'es')}",
        f"{count(calls, 'modify call')}: {judge.failure_counts.total()} failed, {judge.refused} refused",
    ]  # fmt: skip
    _say(f"{counts[0]} {counts[1]}, {counts[2]}")
    for row in rows(judge.pairs):
        _print(Text(f"  {row}"))
    for line in [*_findings(judge), *_failures(judge), *_disagreements(judge), *_left(judge), *_lost(judge)]:
        _print(Text("  ").append_text(line))


def _nothing(judge: Judge) -> str:
    if not judge.processes:
        return "no process loaded the shim: it was not watched (a static or setuid program, or another loader?)"
    said = f"no queue pair was modified by ibv_modify_qp in {count(len(judge.processes), 'process', 'es')}"
    return said if sysfs.names() else f"{said}; there is no RDMA device here (rdmaqp doctor; rdmaqp lab run -- …)"


def _findings(judge: Judge) -> Iterator[Text]:
    for (rule, field, severity), times in sorted(judge.findings.items(), key=lambda item: item[0][2]):
        yield Text.assemble((f"{severity:8}", _COLOURS[severity]), f"{rule}, {field}: {count(times, 'time')}")


def _failures(judge: Judge) -> Iterator[Text]:
    for key, error in judge.failures.items():
        causes = [f"{cause.cause} ({cause.standing})" for cause in error.causes if cause.standing != "ruled-out"]
        why = f": {', '.join(causes)}" if causes else ""
        yield Text.assemble(
            ("failed  ", "bold red"), f"{error.headline()}, {count(judge.failure_counts[key], 'time')}{why}"
        )


def _disagreements(judge: Judge) -> Iterator[Text]:
    for ours, theirs, findings in disagreements(judge.pairs):
        for finding in findings:
            yield Text.assemble(
                ("peers   ", _COLOURS.get(finding.severity, "")),
                f"{_ends(ours, theirs)}: {finding.one_line()}",
            )


def _ends(ours: QueuePair, theirs: QueuePair) -> str:
    own = "" if ours.process is theirs.process else f" ({ours.process})"
    return f"QP {ours.number:#x}{own} and QP {theirs.number:#x} ({theirs.process})"


def _left(judge: Judge) -> Iterator[Text]:
    left = [pair for pair in judge.pairs if not pair.destroyed]
    if left:
        numbers = ", ".join(f"{pair.number:#x}" for pair in left[:8]) + (", …" if len(left) > 8 else "")
        yield Text.assemble(("note    ", "cyan"), f"never destroyed: {count(len(left), 'queue pair')} ({numbers})")


def _lost(judge: Judge) -> Iterator[Text]:
    for process in judge.processes:
        if process.lost:
            yield Text.assemble(("warning ", _COLOURS["warning"]), f"{process} went on unwatched: {process.lost}")
