"""How a benchmark is shown: what it picked and what runs on standard error, the table and the plots as its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from rdmaqp.cli.chart import charts
from rdmaqp.cli.console import out
from rdmaqp.cli.plot import plot
from rdmaqp.cli.telling import Telling
from rdmaqp.connection.bench import Observer, Result

if TYPE_CHECKING:
    from rdmaqp.connection.bench_plan import Case, Row, Skipped
    from rdmaqp.model.gid import GidChoice
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.port import Port, PortAttr

_STEPS = 100  # of the bar, a case


class Show(Telling, Observer):
    """Says on standard error what happens; a bar where it is a terminal, else a line a case."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__("bench", _STEPS, quiet=quiet)
        self._done = -1
        self._device = ""
        self._rows: list[Row] = []

    def chose(self, context: Context, port: Port, attr: PortAttr, gid: GidChoice | None) -> None:
        """The device."""
        self._device = context.name
        super().chose(context, port, attr, gid)

    def measured(self, row: Row) -> None:
        """A case is done: it is kept, should a later one fail."""
        self._rows.append(row)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The figures so far, for a program."""
        return [row.to_dict() for row in self._rows]

    def what_came(self, kind: str) -> None:
        """The figures of those cases that were done before one failed, or somebody lost patience."""
        if self._rows:
            show_result(Result(device=self._device, driver=None, mode="", path_mtu=None, rows=self._rows), kind)

    def planned(self, cases: list[Case], skipped: list[Skipped]) -> None:
        """What is not tried, and how much is."""
        for one in skipped:
            size = "" if one.size is None else f", {one.size:,} bytes"
            self._say(f"[yellow]not tried[/]  {one.operation.upper()}, {one.qp_type}{size}: {one.why}")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=len(cases) * _STEPS)

    def begins(self, case: Case) -> None:
        """A case."""
        self._done += 1
        if self._bar is None:
            self._say(f"  {case}")

    def progress(self, share: float) -> None:
        """On the bar."""
        if self._bar is not None:
            self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=int((self._done + share) * _STEPS), visible=True)


def show_result(result: Result, kind: str) -> None:
    """The table; the plots, where there is more than one size to plot over."""
    if result.mode == "server":
        out.print(f"served {len(result.rows)} measurements; the client has the figures")
        return
    out.print(_title(result), style="bold", soft_wrap=True)
    out.print(_table(result))
    for chart in charts(result.rows, kind):
        if max(len(series.points) for series in chart.series) > 1:
            out.print(plot(chart, width=min(out.width, 78)), soft_wrap=True)


def _table(result: Result) -> Table:
    """One row an operation and size: its latency and its bandwidth side by side."""
    rows: dict[tuple[str, int], dict[str, Row]] = {}
    for row in result.rows:
        rows.setdefault((row.case.operation, row.case.size), {})[row.case.kind] = row
    kinds = {row.case.kind for row in result.rows}
    loses = any(row.case.can_lose for row in result.rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    heads = [
        "bytes", *(("p50 µs", "p99", "min", "max") if "latency" in kinds else ()),
        *(("MB/s", "messages/s") if "bandwidth" in kinds else ()), *(("lost",) if loses else ()),
    ]  # fmt: skip
    for head in heads:
        table.add_column(head, justify="right")
    for (operation, size), found in rows.items():
        table.add_row(operation.upper(), f"{size:,}", *_cells(found, kinds, loses=loses))
    return table


def _title(result: Result) -> str:
    types = "/".join(sorted({row.case.qp_type for row in result.rows}))
    half = " and ".join(dict.fromkeys(row.case.operation.upper() for row in result.rows if row.case.is_answered))
    mtu = f", MTU {result.path_mtu}" if result.path_mtu else ""
    return f"{types} on {result.device}{mtu}" + (f"; latency of {half} is half a round trip" if half else "")


def _cells(found: dict[str, Row], kinds: set[str], *, loses: bool) -> list[str]:
    cells = []
    if "latency" in kinds:
        latency = found["latency"].latency_us if "latency" in found else None
        cells += [f"{latency[name]:.2f}" if latency else "–" for name in ("p50", "p99", "min", "max")]
    if "bandwidth" in kinds:
        row = found.get("bandwidth")
        shown = row is not None and row.messages_per_s is not None
        cells += [f"{row.mb_per_s:,.2f}", f"{row.messages_per_s:,.0f}"] if row and shown else ["–", "–"]
    if loses:
        cells.append(f"{sum(row.lost for row in found.values()):,}")
    return cells
