"""How `rdmaqp guard` tells: findings while the program runs, and at the end what became of its queue pairs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rich.text import Text

from rdmaqp.cli.console import err
from rdmaqp.cli.report import report_text
from rdmaqp.errors import errno_name
from rdmaqp.host import sysfs
from rdmaqp.model.enums import QPState
from rdmaqp.preload.ends import disagreements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.errors import VerbsError
    from rdmaqp.preload.judge import Judge, Judged
    from rdmaqp.preload.seen import Process, QueuePair

#: So many queue pairs are listed; of the others it is said how many they are.
_LISTED = 64
#: So many steps of each.
_STEPS = 16
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
        _say(_nothing(judge))
        return
    users = {pair.process for pair in judge.pairs}
    counts = [
        _count(len(judge.pairs), "queue pair"), f"in {_count(len(users), 'process', 'es')}",
        f"{_count(calls, 'modify call')}: {judge.failure_counts.total()} failed, {judge.refused} refused",
    ]  # fmt: skip
    _say(f"{counts[0]} {counts[1]}, {counts[2]}")
    for pair in judge.pairs[:_LISTED]:
        for row in _pair(pair):
            _print(Text(f"  {row}"))
    if len(judge.pairs) > _LISTED:
        _print(Text(f"  and {len(judge.pairs) - _LISTED} more"))
    for line in [*_findings(judge), *_failures(judge), *_disagreements(judge), *_left(judge), *_lost(judge)]:
        _print(Text("  ").append_text(line))


def _nothing(judge: Judge) -> str:
    if not judge.processes:
        return "no process loaded the shim: it was not watched (a static or setuid program, or another loader?)"
    said = f"no queue pair was modified by ibv_modify_qp in {_count(len(judge.processes), 'process', 'es')}"
    return said if sysfs.names() else f"{said}; there is no RDMA device here (rdmaqp doctor; rdmaqp lab run -- …)"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else plural}"


def _pair(pair: QueuePair) -> Iterator[str]:
    kind = pair.type.name if pair.type is not None else "?"
    gid, lid, number = pair.destination()
    peer = ""
    if number is not None:
        where = f" at {gid}" if gid is not None else f" at LID {lid:#x}" if lid else ""
        peer = f" → QP {number:#x}{where}"
    yield f"QP {pair.number:#x} {kind} on {pair.device}, {pair.process}{peer}"
    yield f"    {_path(pair)}{'' if pair.destroyed else '; never destroyed'}"


def _path(pair: QueuePair) -> str:
    """The states that it went through, with how long each call took."""
    here: QPState | None = None
    words: list[str] = []
    for step in pair.steps[:_STEPS]:
        if step.start is not here or not words:  # the first, or it has moved by itself
            words.append(("… " if words else "") + _name(step.start))
        took = f"{step.took_ns / 1e6:.3g} ms"
        goal = _name(step.goal) if step.goal is not None else "(attributes)"
        if step.error:
            words.append(f"→ {goal} failed ({errno_name(step.error)}, {took})")
            here = step.start
        else:
            words.append(f"→ {goal} ({took})")
            here = step.goal if step.goal is not None else step.start
    if len(pair.steps) > _STEPS:
        words.append(f"and {len(pair.steps) - _STEPS} more")
    return " ".join(words) or "no call returned"


def _name(state: QPState | None) -> str:
    return state.name if state is not None else "?"


def _findings(judge: Judge) -> Iterator[Text]:
    for (rule, field, severity), count in sorted(judge.findings.items(), key=lambda item: item[0][2]):
        yield Text.assemble((f"{severity:8}", _COLOURS[severity]), f"{rule}, {field}: {_count(count, 'time')}")


def _failures(judge: Judge) -> Iterator[Text]:
    for key, error in judge.failures.items():
        causes = [f"{cause.cause} ({cause.standing})" for cause in error.causes if cause.standing != "ruled-out"]
        why = f": {', '.join(causes)}" if causes else ""
        yield Text.assemble(
            ("failed  ", "bold red"), f"{error.headline()}, {_count(judge.failure_counts[key], 'time')}{why}"
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
        yield Text.assemble(("note    ", "cyan"), f"never destroyed: {_count(len(left), 'queue pair')} ({numbers})")


def _lost(judge: Judge) -> Iterator[Text]:
    for process in judge.processes:
        if process.lost:
            yield Text.assemble(("warning ", _COLOURS["warning"]), f"{process} went on unwatched: {process.lost}")
