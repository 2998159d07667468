"""What runs in a process of its own, on the null device: the helpers, and the main program that runs one function.

A test hands a function of its module to the fixture ``null``. The process runs that module's file without pytest, which
takes longer to import than most of these functions take, and calls the function.
"""

from __future__ import annotations

import ast
import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

import rdmaqp
from rdmaqp import AccessFlag, AddressVector, GlobalRoute, QPAttr, QPState
from rdmaqp.verbs._native import native
from rdmaqp.verbs.loop import DataError, PingPongEnd, Verify, run_slice

__all__ = [
    "AccessFlag",
    "AddressVector",
    "DataError",
    "GlobalRoute",
    "PingPongEnd",
    "QPAttr",
    "QPState",
    "Side",
    "Verify",
    "calls",
    "connected",
    "error_of",
    "native",
    "rdmaqp",
    "ready",
    "run_slice",
    "said",
    "side",
    "stub",
]  # fmt: skip


@dataclass
class Side:
    """One end with all that it needs."""

    context: rdmaqp.Context
    channel: rdmaqp.CompletionChannel | None
    cq: rdmaqp.CompletionQueue
    pd: rdmaqp.ProtectionDomain
    mr: rdmaqp.MemoryRegion
    qp: rdmaqp.QueuePair


def side(context: rdmaqp.Context | None = None, *, events: bool = False, size: int = 64, **options: Any) -> Side:
    """A queue pair in RESET, on a device newly opened where none is given."""
    context = context or rdmaqp.open()
    channel = context.create_comp_channel() if events else None
    cq = context.create_cq(256, channel)
    pd = context.alloc_pd()
    return Side(context, channel, cq, pd, pd.alloc_mr(size), pd.create_qp(cq, **options))


def connected(**options: Any) -> tuple[Side, Side]:
    """Two sides on one device, in RTS towards each other."""
    first = side(**options)
    second = side(first.context, **options)
    ends = [first.qp.endpoint(psn=0x111111), second.qp.endpoint(psn=0x222222)]
    first.qp.connect(*ends)
    second.qp.connect(*reversed(ends))
    return first, second


def ready(goal: str, **options: Any) -> Side:
    """A side whose queue pair has come as far as *goal*."""
    one = side(**options)
    here = one.qp.endpoint(psn=1)
    steps = rdmaqp.bring_up(here, here)
    for state, attr in zip(("INIT", "RTR", "RTS"), steps, strict=True):
        if QPState[state] <= QPState[goal]:
            one.qp.modify(attr)
    return one


def error_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> BaseException:
    """What *function* raises."""
    try:
        result = function(*args, **kwargs)
    except BaseException as error:  # a KeyboardInterrupt is an answer too
        return error
    raise AssertionError(f"nothing was raised; it returned {result!r}")


def said(error: BaseException) -> dict[str, Any]:
    """An error in a form that reaches the test."""
    report = getattr(error, "report", None)
    return {
        "type": type(error).__name__,
        "text": str(error),
        "errno": getattr(error, "errno", None),
        "errors": [[finding.rule, finding.field] for finding in report.errors] if report else [],
    }


def stub(**settings: object) -> None:
    """Change the null device's settings; ``None`` takes one back."""
    for name, value in settings.items():
        if value is None:
            os.environ.pop(f"RDMAQP_STUB_{name}", None)
        else:
            os.environ[f"RDMAQP_STUB_{name}"] = str(value)
    rdmaqp.devices()  # those of the hot path are read at the next control call


def calls(*names: str) -> list[dict[str, Any]]:
    """The control calls so far, in order; only those named, where names are given."""
    log = Path(os.environ["RDMAQP_STUB_LOG"])
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [entry for entry in entries if not names or entry["call"] in names]


@cache
def code_of(file: str) -> CodeType:
    """The test module without its tests' decorators, and so without pytest."""
    tree = ast.parse(Path(file).read_text(), file)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
    is_of_pytest = (ast.Import, ast.Assign)
    tree.body = [node for node in tree.body if not (isinstance(node, is_of_pytest) and "pytest" in ast.unparse(node))]
    return compile(tree, file, "exec")


def run(file: str, name: str, args: list[Any]) -> None:
    """Run function *name* of *file*, and print what it returns."""
    namespace: dict[str, Any] = {"__file__": file}
    exec(code_of(file), namespace)
    print(json.dumps({"returned": namespace[name](*args)}), flush=True)


def serve() -> None:
    """Answer requests, each in a fork: to start a process and import rdmaqp takes twenty times as long."""
    native()
    for line in sys.stdin:
        request = json.loads(line)
        code_of(request["run"][0])  # in the parent, for all
        child = os.fork()
        if not child:
            answer(request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def answer(request: dict[str, Any]) -> NoReturn:
    """Run one function with its output in a file."""
    os.environ.update(request["environment"])
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.dump_traceback_later(50, exit=True)
    try:
        run(*request["run"])
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    # The test modules import this file by its name, and should not get it a second time.
    sys.modules["null_side"] = sys.modules["__main__"]
    serve() if len(sys.argv) == 1 else run(*json.loads(sys.argv[1]))
