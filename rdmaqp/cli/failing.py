"""How a command fails: in words on standard error, or, where a program asked for JSON, as one object on its output."""

from __future__ import annotations

import argparse
import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence


class Parser(argparse.ArgumentParser):
    """A command line that shows its own usage for what it does not know: argparse leaves that to the outermost one."""

    #: Whether a program reads the answer. The options are not parsed yet when they are wrong.
    in_json: ClassVar[bool] = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's, and nothing stays unknown."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with status 2, and say why."""
        if Parser.in_json:
            print(json.dumps({"error": message, "kind": "UsageError"}, ensure_ascii=False))
            self.exit(2)
        super().error(message)


def wants_json(argv: Sequence[str]) -> bool:
    """Whether ``--json`` is among the options; what stands behind ``--`` is no option of ours."""
    return "--json" in argv[: argv.index("--") if "--" in argv else len(argv)]


def show(error: Exception, *, as_json: bool) -> None:
    """Tell of *error*, for the eye or for a program."""
    from rdmaqp.cli.console import print_json, show_error  # only what has failed pays for it

    if as_json:
        print_json(as_dict(error))
    else:
        show_error(error)


def as_dict(error: Exception) -> dict[str, Any]:
    """What is known of *error*: its text, its kind, and what the guard found and concluded, if it did."""
    told: dict[str, Any] = {"error": str(error), "kind": type(error).__name__, **getattr(error, "so_far", {})}
    report = getattr(error, "report", None)
    if report is not None and report.findings:
        told["findings"] = [finding.to_dict() for finding in report.findings]
    causes = getattr(error, "causes", ())
    if causes:
        told["causes"] = [cause.to_dict() for cause in causes]
    return told
