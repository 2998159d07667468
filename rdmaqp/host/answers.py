"""How this machine answers when it cannot be asked: that it is unknown, and why."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Unknown:
    """The question could not be answered here.

    Attributes:
        why: the reason, in words.
    """

    why: str

    def __str__(self) -> str:
        return f"unknown: {self.why}"


@dataclass(frozen=True, slots=True)
class Refused:
    """The tool was asked and said no.

    Attributes:
        why: its own words.
    """

    why: str


#: Seconds that a tool may take. These questions are asked while an error is on its way to the user.
PATIENCE = 2.0


def ask_json(*command: str) -> Any | Refused | Unknown:
    """What *command* prints, as JSON; its complaint where it has one.

    The tool is iproute2's ``ip`` (or ``rdma``), which is where users will look next: the same words, and no further
    dependency. ``subprocess`` starts it by vfork, which leaves registered memory alone, as fork would not.
    """
    environment = os.environ | {"LC_ALL": "C"}
    environment.pop("LD_PRELOAD", None)  # ours, or a tracer's: it is not meant for the tool
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=PATIENCE, errors="replace",
        )  # fmt: skip
    except FileNotFoundError:
        return Unknown(f"{command[0]} is not installed")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Unknown(f"{command[0]} cannot be run: {error}")
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"{command[0]} ended with {done.returncode}"]
        return Refused(words[0])
    try:
        return json.loads(done.stdout or "[]")
    except ValueError:
        return Unknown(f"{' '.join(command)} did not answer in JSON")


def read_text(path: Path) -> str | Unknown:
    """The text of a small file of the kernel's, without the white space around it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        return Unknown(f"{path}: {error.strerror}")
