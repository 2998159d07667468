"""Who called: the address that a native call returns to, as function+offset, and as file:line where that is known."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

#: elf(5): an ``e_type`` of 2 is a program that is not moved when it is loaded, a section of type 2 all its functions.
_ET_EXEC = _SHT_SYMTAB = 2
#: addr2line may have much to read, and others wait for the judge meanwhile.
_PATIENCE = 10
#: Names of functions up to this length are shown as they are.
_LONG = 60
_OPERATORS = ("operator", "operator<", "operator>", "operator-", "operator(")


class Caller(NamedTuple):
    """Where a call came from.

    Attributes:
        address: where it returns to.
        module: the file of the program or library that it is in.
        base: where that file is loaded.
        symbol, at: the nearest exported function before it, and where that begins; ``""`` and 0 where there is none.
    """

    address: int
    module: str
    base: int
    symbol: str
    at: int

    @property
    def key(self) -> tuple[str, int]:
        """The same place, however the file was loaded this time."""
        return self.module, self.address - self.base

    def __str__(self) -> str:
        return describe(*self)


@lru_cache(1024)
def describe(address: int, module: str, base: int, symbol: str, at: int) -> str:
    """``connect_qp+0x1b2 (pingpong.c:317)`` with debug information, ``main+0x1b2 (a.out)`` or ``a.out+0x2f41`` without.

    Asks ``addr2line``, where it is installed, for functions that the file does not export.
    """
    if not module:
        return f"{address:#x}"
    name, offset = Path(module).name, address - base
    is_fixed, has_all = _about(module)
    function, line = _ask(module, (address if is_fixed else offset) - 1)
    function = short(function)
    if line:
        return f"{function or name} ({line})"
    if symbol:
        return f"{symbol}+{address - at:#x} ({name})"
    # Of a stripped file it says the nearest function that is left, which is another.
    return f"{function} ({name}+{offset:#x})" if function and has_all else f"{name}+{offset:#x}"


def short(function: str) -> str:
    """A demangled name without its result, arguments and template arguments, where those make it long."""
    text = function.replace("(anonymous namespace)::", "")
    if len(function) <= _LONG or text.startswith("<"):  # a method of Rust's: "<Type as Trait>::name"
        return function
    kept, depth = "", 0
    for at, character in enumerate(text):
        if character in "<>(" and kept.endswith(_OPERATORS):
            return function  # operator<, operator()
        if character == "(" and not depth and kept:
            break
        opens, closes = character in "<({[", character in ">)}]" and text[at - 1] != "-"
        depth += opens - closes
        if not depth and not closes:
            kept += character
    return kept.split()[-1].lstrip("*&") if kept.strip() and not depth else function


def _ask(module: str, address: int) -> tuple[str, str]:
    """The function and file:line of *address* by ``addr2line``; empty where it does not say."""
    tool = shutil.which("addr2line")
    if tool is None or not Path(module).is_file():
        return "", ""
    try:
        done = subprocess.run(
            [tool, "-f", "-C", "-e", module, f"{address:#x}"], capture_output=True, text=True, check=False,
            timeout=_PATIENCE, env={**_environment(), "DEBUGINFOD_URLS": ""}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    function, _, place = done.stdout.strip().partition("\n")
    match = re.match(r"(.+):(\d+)", place)
    line = f"{Path(match[1]).name}:{match[2]}" if match and match[1] != "??" and match[2] != "0" else ""
    return "" if function.startswith("??") else function, line


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_AUDIT")}


@lru_cache(256)
def _about(module: str) -> tuple[bool, bool]:
    """Whether an ELF file is loaded where it says, and whether it knows its own functions, those not exported too."""
    try:
        data = Path(module).read_bytes()
        is_64, order = data[4] == 2, "<" if data[5] == 1 else ">"
        sections = struct.unpack_from(order + ("Q" if is_64 else "I"), data, 40 if is_64 else 32)[0]
        size, count = struct.unpack_from(order + "HH", data, 58 if is_64 else 46)
        kinds = [struct.unpack_from(order + "I", data, sections + at * size + 4)[0] for at in range(count)]
        return struct.unpack_from(order + "H", data, 16)[0] == _ET_EXEC, _SHT_SYMTAB in kinds
    except (OSError, IndexError, struct.error):
        return False, False
