"""The judge of a watched program: each record of the shim's in, the verdict out, and what there is to tell.

The verdict comes first, and what is to be told waits: the program must not stand still while somebody is printed to.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from rdmaqp.errors import VerbsError
from rdmaqp.guard import check
from rdmaqp.host import process as limits
from rdmaqp.model.enums import QPState, QPType
from rdmaqp.model.request import Failure
from rdmaqp.preload.asked import request_of
from rdmaqp.preload.caller import Caller
from rdmaqp.preload.seen import Process, QueuePair, Step
from rdmaqp.verbs.failures import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.guard import Finding, Report
    from rdmaqp.model.request import Request
    from rdmaqp.preload.wire import Call, Destroy, Hello, Result

_TYPES = QPType._value2member_map_


@dataclass(frozen=True, slots=True)
class Judged:
    """One modify call and what the guard said.

    Attributes:
        refused: whether the native call was kept from being made.
    """

    pair: QueuePair
    tid: int
    caller: Caller
    request: Request
    report: Report
    refused: bool

    @property
    def arrow(self) -> tuple[object, ...]:
        """Type, state and goal: the caller alone does not tell, where a program has one function for all calls."""
        return self.request.qp.type, self.request.qp.state, self.goal

    @property
    def goal(self) -> QPState | None:
        """The state that it asked for."""
        value = self.request.attr.qp_state if self.request.attr is not None else None
        return QPState(value) if isinstance(value, int) and 0 <= value <= QPState.ERR else None


class Observer(Protocol):
    """Who is told, after the program has its verdict."""

    def found(self, judged: Judged) -> None:
        """The guard found something in a call that it had not found there before."""

    def failed(self, judged: Judged, error: VerbsError) -> None:
        """A call failed as none had failed there before."""

    def lost(self, process: Process) -> None:
        """A process goes on, and is no longer watched."""


class Trace(Protocol):
    """Where calls are written, with their failure where they failed."""

    def write(self, request: Request, process: Process) -> None:
        """One call."""


class Judge:
    """All that is known of one run.

    Attributes:
        processes: those that loaded the shim, in the order of their coming.
        pairs: the queue pairs seen, likewise.
        findings: how often each finding was made, by rule, attribute and severity.
        failures: the first failed call of each kind (type, arrow, error number, findings, caller) with its diagnosis.
        failure_counts: how many there were of each.
        refused: how many calls were kept from being made.
    """

    def __init__(
        self, observer: Observer, *, enforce: bool = False, ignore: frozenset[str] = frozenset(),
        trace: Trace | None = None,
    ) -> None:  # fmt: skip
        self._observer = observer
        self._enforce = enforce
        self._ignore = ignore
        self._trace = trace
        self._later: deque[Callable[[], None]] = deque()
        self._waiting: dict[tuple[Process, int], Judged] = {}
        self._told: set[tuple[object, ...]] = set()
        self.processes: list[Process] = []
        self.pairs: list[QueuePair] = []
        self.findings: Counter[tuple[str, str, str]] = Counter()
        self.failures: dict[tuple[object, ...], VerbsError] = {}
        self.failure_counts: Counter[tuple[object, ...]] = Counter()
        self.refused = 0

    def hello(self, record: Hello) -> Process:
        """A process says that it is there. At its start, or after exec, it is a new one; later the one that it was."""
        pid = record.head.pid
        known = next((one for one in reversed(self.processes) if one.pid == pid), None)
        if record.stays and known is not None:
            return known
        process = Process(pid, record.program.decode(errors="replace"))
        self.processes.append(process)
        return process

    # ------------------------------------------------------------------ the calls

    def call(self, process: Process, record: Call, slots: bytes) -> bool:
        """Judge a call that is about to be made, with the GID table in *slots*; whether it is refused."""
        pair = self._pair(process, record)
        process.calls += 1
        request = request_of(record, slots, pair)
        report = check(request)
        if self._ignore:
            report.findings[:] = [finding for finding in report.findings if finding.rule not in self._ignore]
        refused = self._enforce and report.refused
        # The numbers in the record are of the program's PID namespace.
        tid = process.pid if record.head.tid == record.head.pid else record.head.tid
        judged = Judged(pair, tid, _caller(record), request, report, refused)
        if report.verdict != "pass":
            self._later.append(lambda: self._tell(judged))
        if refused:
            self.refused += 1
            pair.refused.append(judged.goal)
            self._write(judged, 0)
        else:
            self._waiting[process, record.head.number] = judged
        return refused

    def result(self, process: Process, record: Result) -> None:
        """A call has returned."""
        judged = self._waiting.pop((process, record.head.number), None)
        if judged is None:
            return
        step = Step(judged.request.qp.state, judged.goal, record.took_ns, record.error, judged.tid)
        judged.pair.returned(judged.request, step)
        self._write(judged, record.error)
        if record.error:
            self._later.append(lambda: self._failed(judged, record.error))

    def destroy(self, process: Process, record: Destroy) -> None:
        """A queue pair is about to be destroyed, or, with an error, was not."""
        pair = process.pairs.get(record.qp)
        if pair is not None and pair.number == record.qp_num:
            pair.destroyed = record.error == 0

    def gone(self, process: Process, why: str = "") -> None:
        """A process has hung up; *why* where it goes on unwatched. What it was about to call is not known."""
        for key in [key for key in self._waiting if key[0] is process]:
            self._write(self._waiting.pop(key), 0)
        if why and not process.lost:
            process.lost = why
            self._later.append(lambda: self._observer.lost(process))

    @property
    def has_to_tell(self) -> bool:
        """Whether something waits to be told."""
        return bool(self._later)

    def tell_next(self) -> None:
        """Tell one thing that waits."""
        self._later.popleft()()

    # ------------------------------------------------------------------ behind them

    def _pair(self, process: Process, record: Call) -> QueuePair:
        pair = process.pairs.get(record.qp)
        # A destroyed one's address is given to the next; its number may be, too.
        if pair is None or pair.destroyed or pair.number != record.qp_num:
            kind: Any = _TYPES.get(record.qp_type)
            pair = QueuePair(process, record.qp, record.qp_num, kind, record.device.decode(errors="replace"))
            process.pairs[record.qp] = pair
            self.pairs.append(pair)
        return pair

    def _write(self, judged: Judged, error: int) -> None:
        if self._trace is None:
            return
        request = replace(judged.request, failed=Failure(error)) if error else judged.request
        self._trace.write(request, judged.pair.process)

    def _tell(self, judged: Judged) -> None:
        """Count the findings; tell of the call where one of them is new there."""
        is_new = False
        for finding in judged.report.findings:
            if finding.severity == "note":
                continue
            self.findings[finding.rule, finding.field, finding.severity] += 1
            key = (*_kind(finding), *judged.arrow, *judged.caller.key)
            is_new |= key not in self._told
            self._told.add(key)
        if is_new:
            self._observer.found(judged)

    def _failed(self, judged: Judged, number: int) -> None:
        rules = tuple(sorted({finding.rule for finding in judged.report.errors}))
        key = (*judged.arrow, number, rules, judged.caller.key)
        self.failure_counts[key] += 1
        if key in self.failures:
            return
        request = replace(judged.request, process=limits.facts(pid=judged.pair.process.pid))
        error = explain(VerbsError("ibv_modify_qp", number, judged.report.subject), lambda: request)
        self.failures[key] = error
        self._observer.failed(judged, error)


def _kind(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.field


def _caller(record: Call) -> Caller:
    return Caller(
        record.caller, record.module.decode(errors="replace"), record.module_base,
        record.symbol.decode(errors="replace"), record.symbol_at,
    )  # fmt: skip
