"""``rdmaqp diagnose``: why a queue pair failed, from what a program or the kernel printed."""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rdmaqp.cli.blocks import cause_rows
from rdmaqp.cli.console import out
from rdmaqp.cli.lines import batches
from rdmaqp.cli.report import fitted
from rdmaqp.guard.logs.explain import Explanation, explain
from rdmaqp.guard.logs.reader import Failure, Reader, Stranger
from rdmaqp.model.encode import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTION = """Reads a log, recognises what NCCL, UCX, perftest, Mooncake, NVSHMEM and DeepEP, libfabric, MPI, SPDK,
Ceph, GlusterFS, QEMU, brpc, Gloo, pyverbs, rdma-core's examples and libraries, programs of ibv_modify_qp's own words,
the kernel's drivers (mlx5, mlx4, rxe, bnxt_re, irdma, efa, hns, cxgb4) and its users of RDMA (NVMe, iSER, SRP, SMB
Direct, NFS, IPoIB, RDS, Lustre) print when a queue pair fails, and says why, with what to ask the machine next. What
is likely, what is ruled out and what the log does not say are told apart. A line that speaks of an RDMA failure and
is not known is named as such. Exit status: 0 a failure was recognised, 1 none was, 2 a file could not be read."""

EPILOG = """for example:
  rdmaqp diagnose training.log
  dmesg | rdmaqp diagnose -
  NCCL_DEBUG=INFO ./all_reduce_perf 2>&1 | rdmaqp diagnose -"""

#: What differs from one such failure to the next, and makes no other kind of it.
_VOLATILE = frozenset({"qp_num", "dest_qp_num", "length", "peer", "pci", "request", "ae", "side"})
#: Kinds of failures that are told apart, and unknown lines that are shown.
_KINDS, _STRANGERS = 4096, 20
#: Seconds without a line after which a writer is taken to pause: what is open is told.
_PAUSE = 0.5


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "diagnose", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a log; - is standard input")
    parser.add_argument("--json", action="store_true", help="a JSON object a line: each failure, each line that is not "
                        "known, at last a summary")
    parser.add_argument("--all", action="store_true", help="tell each failure, also where one like it was told before")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read every file."""
    telling = Telling(as_json=args.json, repeats=args.all)
    unreadable = False
    for name in args.files:
        try:
            _file(name, telling)
        except OSError as error:
            unreadable = True
            print(f"rdmaqp: {name}: {error.strerror or error}", file=sys.stderr)
    telling.summary()
    return 2 if unreadable else 0 if telling.count["failures"] else 1


def _file(name: str, telling: Telling) -> None:
    telling.name = "stdin" if name == "-" else name
    descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY)
    try:
        for found in _read(descriptor):
            telling.tell(found)
    finally:
        if name != "-":
            os.close(descriptor)


def _read(descriptor: int) -> Iterator[Failure | Stranger]:
    """All failures of an open file, in bounded memory, whatever bytes are in it."""
    reader = Reader()
    for batch in batches(descriptor):
        if batch is None:
            if not select.select([descriptor], [], [], _PAUSE)[0]:
                yield from reader.close()
            continue
        if batch.dropped:
            reader.skip()
            yield Stranger(batch.first, f"(not read: a line of {batch.dropped:,} bytes)")
            continue
        for line in batch.data.removesuffix(b"\n").split(b"\n"):
            yield from reader.feed(line.decode(errors="replace"))
    yield from reader.close()


class Telling:
    """Prints what was found, each kind of failure once, and counts."""

    def __init__(self, *, as_json: bool, repeats: bool) -> None:
        self.name = ""
        self.count: Counter[str] = Counter()
        self._as_json, self._repeats = as_json, repeats
        self._seen: OrderedDict[Any, list[Any]] = OrderedDict()

    def tell(self, found: Failure | Stranger) -> None:
        """One failure, or one line that nobody knows."""
        if isinstance(found, Stranger):
            self.count["not known"] += 1
            if self._as_json:
                _print_line({"file": self.name, "line": found.first, "not_known": found.text})
            elif self.count["not known"] <= _STRANGERS:
                out.print(Text(f"{self.name}:{found.first}  not known here: {found.text}\n", "dim"), soft_wrap=True)
            return
        self.count["failures"] += 1
        same = frozenset((name, value) for name, value in found.known.items() if name not in _VOLATILE)
        key = (self.name, found.pattern.name, same)
        seen = self._seen.get(key)
        if seen is not None:
            seen[0] += 1
            if not self._repeats:
                return
        else:
            self._seen[key] = [1, f"{self.name}:{found.first}"]
            if len(self._seen) > _KINDS:
                self._seen.popitem(last=False)
        explained = explain(found)
        if self._as_json:
            _print_line(_as_dict(self.name, found, explained))
        else:
            out.print(_as_text(self.name, found, explained), soft_wrap=True)
            out.print()
        sys.stdout.flush()

    def summary(self) -> None:
        """How much there was."""
        repeated = [(where, count) for count, where in self._seen.values() if count > 1]
        failures, strangers = self.count["failures"], self.count["not known"]
        if self._as_json:
            _print_line({"summary": {"failures": failures, "kinds": len(self._seen), "not_known": strangers,
                                     "repeated": dict(repeated)}})  # fmt: skip
            return
        for where, count in repeated if not self._repeats else ():
            out.print(Text(f"{where} and {count - 1} more like it"), soft_wrap=True)
        if strangers > _STRANGERS:
            out.print(Text(f"{strangers - _STRANGERS} more lines that are not known here", "dim"), soft_wrap=True)
        lines = f"{strangers} lines that may tell of one are" if strangers != 1 else "1 line that may tell of one is"
        words = f"{failures} failure{'' if failures == 1 else 's'} recognised, {lines} not known here"
        out.print(Text(words, "bold"), soft_wrap=True)
        if not failures:
            out.print(_NOTHING)


_NOTHING = (
    "Nothing in it is a failure of a queue pair that rdmaqp knows. Is it the log of the rank, or of the end, that "
    "failed first? NCCL says more with NCCL_DEBUG=INFO, UCX with UCX_LOG_LEVEL=info."
)


def _as_text(name: str, failure: Failure, explained: Explanation) -> Text:
    lines = f"{failure.first}" if failure.first == failure.last else f"{failure.first}-{failure.last}"
    text = Text.assemble((f"{name}:{lines}  ", "cyan"), (explained.title, "bold red"))
    text.append(f"\n    {'line':10} {failure.text}", "dim")
    told = _told(failure)
    if told:
        text.append(f"\n    {'told':10} {told}")
    if explained.untold:
        text.append(f"\n    {'untold':10} {explained.untold}", "yellow")
    for row, style in cause_rows(explained.causes):
        text.append(f"\n    {row}", style)
    for place, command in enumerate(explained.ask):
        text.append(f"\n    {'ask next' if not place else '':10} {command}", "green")
    text.append(f"\n    {'known by':10} {failure.pattern.name}: {failure.pattern.source}", "dim")
    return fitted(text, max(out.width - 1, 60))


def _told(failure: Failure) -> str:
    """The values that the log has, in the field's words."""
    return ", ".join(
        f"{name} {_word(name, value)}" for name, value in failure.known.items() if name not in ("side", "request")
    )


def _word(name: str, value: Any) -> str:
    if name in ("qp_num", "dest_qp_num", "vendor_err", "syndrome", "access"):
        return f"{value:#x}"
    return str(getattr(value, "name", value))


def _as_dict(name: str, failure: Failure, explained: Explanation) -> dict[str, Any]:
    known = {key: getattr(value, "name", value if isinstance(value, (int, str)) else str(value))
             for key, value in failure.known.items() if key != "side"}  # fmt: skip
    told: dict[str, Any] = {
        "file": name, "lines": [failure.first, failure.last], "program": failure.pattern.program,
        "patterns": failure.names, "title": explained.title, "text": failure.text, "told": known,
        "causes": [cause.to_dict() for cause in explained.causes], "ask": list(explained.ask),
        "source": failure.pattern.source,
    }  # fmt: skip
    if explained.untold:
        told["untold"] = explained.untold
    if explained.request is not None:
        told["request"] = encode(explained.request)
    return told


def _print_line(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")
