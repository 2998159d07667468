"""Builds ``rdmaqp._verbs``, the compiled half: cffi in API mode against the system's ``<infiniband/verbs.h>``.

Layouts and constants come from the compiler. What newer headers have and older lack is probed here, with the same
compiler. ``setup.py`` names this file; ``pip install -e .`` builds in place.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

import cffi

ROOT = Path(__file__).resolve().parent
#: One unit, in this order, as C and as what cffi is told of it. What both read stands there once: data_path.h,
#: many.h, cm.h.
C_FILES = (
    "shim.c", "asking.c", "data_path.h", "domain.c", "queues.c", "accounts.c", "poll.c", "take.c", "records.c",
    "post.c", "shared.c", "chain.c", "stream.c", "transfer.c", "events.c", "pingpong.c", "many.h", "many.c",
    "cm.h", "cm.c", "cm_none.c",
)  # fmt: skip
CDEFS = ("cdef.h", "data_path.h", "cdef_data.h", "many.h", "cdef_many.h", "cm.h", "cdef_cm.h")
FOLDER = "rdmaqp/verbs/_c"

#: Constants that came after rdma-core 44 (Debian 12), or were not in every distribution's 44.
PROBED = (
    "IBV_ACCESS_FLUSH_GLOBAL",
    "IBV_ACCESS_FLUSH_PERSISTENT",
    "IBV_WR_FLUSH",
    "IBV_WR_ATOMIC_WRITE",
    "IBV_WC_FLUSH",
    "IBV_WC_ATOMIC_WRITE",
    "IBV_RATE_800_GBPS",
    "IBV_RATE_1200_GBPS",
)

MISSING = """
rdmaqp's compiled half needs {what}, and {compiler!r} says:
{output}
Install it, then install rdmaqp again:
    Debian, Ubuntu:  apt-get install gcc python3-dev libibverbs-dev
    RHEL, Fedora:    dnf install gcc python3-devel rdma-core-devel
Or install the pure half alone, which judges requests but opens no device:
    RDMAQP_PURE=1 pip install …
"""


def compiler() -> list[str]:
    """The compiler that setuptools will take, with the flags that tell it where headers are."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    flags = [shlex.split(os.environ.get(name, "")) for name in ("CPPFLAGS", "CFLAGS")]
    return [*command, *flags[0], *flags[1], f"-I{sysconfig.get_path('include')}"]


def compiles(code: str) -> tuple[bool, str]:
    """Whether *code* passes the compiler's front end, and what the compiler said."""
    command = [*compiler(), "-fsyntax-only"]
    with tempfile.TemporaryDirectory(prefix="rdmaqp-probe-") as directory:
        file = Path(directory, "probe.c")
        file.write_text(code)
        try:
            result = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
        except OSError as error:
            return False, str(error)
    return result.returncode == 0, result.stderr.strip()


def require(what: str, code: str) -> None:
    """Stop with a message that names the packages where *code* does not compile."""
    good, output = compiles(code)
    if not good:
        sys.exit(MISSING.format(what=what, compiler=compiler()[0], output=output or "(nothing)"))


def probe() -> list[str]:
    """The constants of :data:`PROBED` that these headers have."""
    start = "#include <infiniband/verbs.h>\n"
    return [name for name in PROBED if compiles(f"{start}int probe(void) {{ return (int){name}; }}\n")[0]]


def make() -> cffi.FFI:
    """The ``ffibuilder`` that cffi's setuptools hook takes."""
    require("a C compiler", "int main(void) { return 0; }\n")
    require("Python's headers", "#include <Python.h>\n")
    require("the headers of libibverbs", "#include <infiniband/verbs.h>\n")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    builder = cffi.FFI()
    for name in CDEFS:
        builder.cdef((ROOT / FOLDER / name).read_text())
    builder.cdef("".join(f"#define {name} ...\n" for name in probe()))
    builder.set_source(
        "rdmaqp._verbs",
        "".join([f'#define RDMAQP_VERSION "{version}"\n', *((ROOT / FOLDER / name).read_text() for name in C_FILES)]),
        libraries=["ibverbs"],
        # So that a change of theirs builds it again; MANIFEST.in brings them into the sdist.
        depends=["build_ffi.py", *(f"{FOLDER}/{name}" for name in {*C_FILES, *CDEFS})],
        # Aligned, so that a loop's speed does not hang on what happens to stand before it: a tenth of a request's cost.
        extra_compile_args=["-O2", "-falign-functions=64", "-falign-loops=32", "-std=gnu11", "-Wall"],
    )
    return builder


ffibuilder = make()
