"""``rdmaqp check``: judge requests, one JSON object a line, and answer each in its turn."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.cli.lines import CHUNK, LONGEST, Batch, batches, too_long
from rdmaqp.cli.workers import Workers, processors
from rdmaqp.errors import RequestError
from rdmaqp.guard import check
from rdmaqp.model import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rdmaqp.guard import Report, Skipped
    from rdmaqp.model.request import Request

DESCRIPTION = """Judges requests: each line is a JSON object that describes a queue pair and what is about to be done
with it. Exit status: 0 all pass, with or without warnings; 1 something is refused; 2 some input could not be read
(each such line is named, the others are still answered)."""

EPILOG = """for example (on one line; names are those of <infiniband/verbs.h>; what is left out is unknown):
  {"qp": {"type": "RC", "state": "INIT", "port_num": 1},
   "port": {"num": 1, "link_layer": "ETHERNET", "active_mtu": 1024},
   "attr": {"qp_state": "RTR", "path_mtu": 4096, "dest_qp_num": 18, "rq_psn": 0,
            "ah_attr": {"is_global": 0, "port_num": 1}}}
Beside attr: post, create, reg_mr, ah; further facts in device, gids, pkeys, peer; "failed": {"errno": 110} or
"completion": {"status": 12} asks why."""

#: So many full batches are worked on here before other processes are worth their start.
_ALONE = 3
_encode = json.JSONEncoder(ensure_ascii=False).encode
_VERDICTS = ("pass", "warn", "refuse")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "check", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="requests, one a line; - is standard input")
    parser.add_argument("--json", action="store_true", help="answers as JSON, one a line, in the order of the requests")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="processes for long inputs (as many as processors)")
    parser.set_defaults(run=run)


class OutputError(Exception):
    """Standard output cannot be written to, for *reason*: that is no fault of the file being read."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason


class Result(NamedTuple):
    """What a batch came to: the bytes to print, the lines that could not be read, how many of each verdict."""

    output: bytes
    unreadable: list[tuple[int, str]]
    verdicts: Counter[str]


def run(args: argparse.Namespace) -> int:
    """Judge everything; the exit status says how it went."""
    total: Counter[str] = Counter()
    for name in args.files:
        try:
            _file(name, args, total)
        except OutputError as error:
            raise error.reason from None
        except OSError as error:
            _complain(name, f"{error.strerror or error}", total)
    if not args.json and any(total[verdict] for verdict in _VERDICTS):  # else all has been said
        print(_summary(total))
    sys.stdout.flush()
    return 2 if total["unreadable"] else 1 if total["refuse"] else 0


def _file(name: str, args: argparse.Namespace, total: Counter[str]) -> None:
    """Judge one file."""
    shown = "stdin" if name == "-" else name
    render = _as_json if args.json else _human(shown)
    descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY)
    before = total.total()
    try:
        for result in _results(descriptor, partial(judge, render=render), args.jobs):
            for number, text in result.unreadable:
                _complain(f"{shown}:{number}", text, total)
            _write(result.output)
            total.update(result.verdicts)
    finally:
        if name != "-":
            os.close(descriptor)
    if total.total() == before:
        _complain(shown, "it is empty: no request in it", total)


def _results(descriptor: int, work: Callable[[Batch], Result], jobs: int | None) -> Iterator[Result]:
    """The results in order. A long input is shared among processes; a writer that waits for its answers gets them."""
    workers: Workers[Batch, Result] | None = None
    count = processors() if jobs is None else jobs
    full = 0
    try:
        for batch in batches(descriptor):
            if workers is not None:
                if batch is None or workers.is_full:
                    yield from workers.results(everything=batch is None)
                if batch is not None:
                    workers.send(batch)
            elif batch is not None:
                yield work(batch)
                full += len(batch.data) >= CHUNK // 8
                if full == _ALONE and count > 1:
                    workers = Workers(work, count)
        if workers is not None:
            yield from workers.results(everything=True)
    finally:
        if workers is not None:
            workers.close()


# ---------------------------------------------------------------------- one batch


def judge(batch: Batch, render: Callable[[int, Request, Report], str]) -> Result:
    """Judge each line of *batch*. Blank lines are nothing."""
    output: list[str] = []
    unreadable: list[tuple[int, str]] = []
    verdicts: Counter[str] = Counter()
    if batch.dropped:
        return Result(b"", [(batch.first, too_long(batch.dropped))], verdicts)
    for number, line in enumerate(batch.data.split(b"\n"), batch.first):
        if not line or line.isspace():
            continue
        try:
            if len(line) > LONGEST:
                raise RequestError(too_long(len(line)))
            request = codec.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
            report = check(request)
            output.append(render(number, request, report))
            verdicts[report.verdict] += 1
        except RequestError as error:
            unreadable.append((number, _with_hint(str(error), line)))
        except Exception as error:
            # One line of a million must not take the others with it; and nobody shall take it for an answer.
            unreadable.append((number, f"this line breaks rdmaqp, please report it: {type(error).__name__}: {error}"))
    return Result(_bytes("".join(output)), unreadable, verdicts)


def _with_hint(text: str, line: bytes) -> str:
    if line.strip() == b"{" and text.startswith("not JSON"):
        return f"{text} (a request is on one line: jq -c . makes it so)"
    return text


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say and UTF-8 cannot
        return text.encode(errors="backslashreplace")


def _as_json(_number: int, request: Request, report: Report) -> str:
    """``Report.to_dict()`` as text. What is the same in line after line (skipped checks) is encoded once."""
    name = request.id
    identity = "" if name is None else f'"id": {_encode(name) if type(name) is str else repr(name)}, '
    findings = _encode([finding.to_dict() for finding in report.findings]) if report.findings else "[]"
    skipped = ", ".join(map(_skipped, report.skipped))
    causes = "" if report.causes is None else f', "causes": {_encode([cause.to_dict() for cause in report.causes])}'
    return f'{{{identity}"verdict": "{report.verdict}", "findings": {findings}, "skipped": [{skipped}]{causes}}}\n'


@lru_cache(maxsize=1024)
def _skipped(skip: Skipped) -> str:
    return _encode({"rule": skip.rule, "needs": skip.needs})


def _human(name: str) -> Callable[[int, Request, Report], str]:
    from rdmaqp.cli.blocks import block

    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return partial(block, name=name, coloured=coloured)


# ---------------------------------------------------------------------- printing


def _write(output: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputError(error) from error


def _complain(place: str, text: str, total: Counter[str]) -> None:
    total["unreadable"] += 1
    print(f"rdmaqp: {place}: {text}", file=sys.stderr)


def _summary(total: Counter[str]) -> str:
    count = sum(total[verdict] for verdict in _VERDICTS)
    parts = [f"{total['pass']} pass", f"{total['warn']} warn", f"{total['refuse']} refused"]
    text = f"{count} request{'' if count == 1 else 's'}: {', '.join(parts)}"
    return text + (f"; {total['unreadable']} could not be read" if total["unreadable"] else "")
