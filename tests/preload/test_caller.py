"""Where a call came from, in words: with debug information, without, and from a file that was stripped."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from preload.conftest import SOURCES
from preload.watching import watch
from rdmaqp.preload import caller
from stub import NullDevice

if shutil.which("addr2line") is None:
    pytest.skip("addr2line is not installed (Debian: binutils)", allow_module_level=True)

#: How it is compiled, whether it is stripped -> what is said of a call in a function that is not exported.
WAYS = {  # addr2line before 2.41 takes one file for another where a header has functions
    "with debug information": (["-g"], False, r"steps \((one_up\.h|linked\.c):\d+\)"),
    "without": ([], False, r"steps \(program\+0x[0-9a-f]+\)"),
    "at a fixed address": (["-no-pie", "-g"], False, r"steps \((one_up\.h|linked\.c):\d+\)"),
    "stripped": ([], True, r"program\+0x[0-9a-f]+"),
    "stripped, and exported": (["-rdynamic", "-Dstatic="], True, r"steps\+0x[0-9a-f]+ \(program\)"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_caller_in_words(way: str, null_device: NullDevice, tmp_path: Path) -> None:
    flags, is_stripped, words = WAYS[way]
    program = tmp_path / "program"
    subprocess.run(
        ["cc", "-std=gnu17", "-O0", *flags, SOURCES / "linked.c", "-o", program, "-libverbs", "-pthread",
         *(["-s"] if is_stripped else [])], check=True,
    )  # fmt: skip
    seen = watch([program], null_device.environment(DROP=1, ACTIVE_MTU=256))
    assert [re.fullmatch(words, str(judged.caller)) is not None for judged in seen.found] == [True], [
        str(judged.caller) for judged in seen.found
    ]


def test_a_file_that_is_not_there_or_no_program(tmp_path: Path) -> None:
    for module in (tmp_path / "none", SOURCES / "linked.c"):
        name = module.name
        assert caller.describe(0x1234, str(module), 0x1000, "", 0) == f"{name}+0x234"
        assert caller.describe(0x1234, str(module), 0x1000, "call", 0x1230) == f"call+0x4 ({name})"
    assert caller.describe(0x1234, "", 0, "", 0) == "0x1234"


STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(
    ("demangled", "said"),
    [
        ("connect_queue_pair", "connect_queue_pair"),
        ("net::QueuePair::up(int)", "net::QueuePair::up(int)"),
        ("void net::QueuePair::step<net::QueuePair::up(int)::{lambda(auto:1&)#2}>(net::QueuePair::up(int)::"
         "{lambda(auto:1&)#2}, int)", "net::QueuePair::step"),
        (f"(anonymous namespace)::Endpoint::connect({STRING} const&)", "Endpoint::connect"),
        (f"std::vector<ibv_qp*, std::allocator<ibv_qp*> > net::bring_up({STRING} const&)", "net::bring_up"),
        (f"net::QueuePair::operator()({STRING})", f"net::QueuePair::operator()({STRING})"),
        (f"{'x' * 61}", f"{'x' * 61}"),
        (f"<net::QueuePair as {'y' * 60}>::modify", f"<net::QueuePair as {'y' * 60}>::modify"),
    ],
)  # fmt: skip
def test_long_names_are_shortened(demangled: str, said: str) -> None:
    assert caller.short(demangled) == said
