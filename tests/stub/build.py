"""Compiles the null device, once for each content of its sources."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LIB = HERE / "lib"
PROGRAMS = HERE / "programs"
SONAME = "libibverbs.so.1"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


class BuildError(RuntimeError):
    """The compiler said no; the text is what it said."""


def missing() -> str | None:
    """What this machine lacks to compile the null device, or None."""
    if shutil.which("cc") is None:
        return "a C compiler (Debian: gcc)"
    return None if _header() else "<infiniband/verbs.h> (Debian: libibverbs-dev)"


def build(into: Path) -> Path:
    """Compile into a directory under *into*, unless it is there, and give it back, for LD_LIBRARY_PATH."""
    sources = sorted(LIB.iterdir())
    private = _private_version()
    content = hashlib.sha256(repr((private, _run(["cc", "--version"]))).encode())
    for path in [*sources, Path(__file__), PROGRAMS / "layout.c", _header()]:
        content.update(path.read_bytes() if path else b"")
    directory = into / f"null-device-{content.hexdigest()[:16]}"
    if directory.is_dir():
        return directory
    into.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="null-device-", dir=into))
    try:
        _compile_library([str(path) for path in sources if path.suffix == ".c"], private, scratch)
        # Not linked with the library: it only asks the compiler for offsets.
        _run(["cc", "-std=gnu17", *WARNINGS, str(PROGRAMS / "layout.c"), "-o", str(scratch / "layout")])
        (scratch / "layout.json").write_text(_run([str(scratch / "layout")]))
        # Whole or not at all: another process may be looking.
        _move(scratch, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return directory


def compile_program(source: Path, into: Path, *flags: str) -> Path:
    """Compile a C program against the system's real libibverbs."""
    program = into / source.stem
    _run(["cc", "-std=gnu17", *WARNINGS, str(source), "-o", str(program), "-libverbs", *flags])
    return program


def real_library() -> Path | None:
    """The system's libibverbs, as the linker finds it."""
    path = Path(_run(["cc", "-print-file-name=libibverbs.so"]).strip())
    return path.resolve() if path.is_absolute() else None


def _compile_library(sources: list[str], private: str | None, into: Path) -> None:
    version_script = into / "libibverbs.map"
    text = (LIB / "libibverbs.map").read_text()
    if private:
        text += f"\n{private} {{ global: ibv_query_gid_type; }};\n"
    version_script.write_text(text)
    compiler = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", *WARNINGS, "-fPIC", "-shared", "-pthread"]
    linker = [f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={version_script}", "-Wl,-z,defs"]
    _run([*compiler, *linker, "-o", str(into / SONAME), *sources])


def _private_version() -> str | None:
    """The version of the symbols that rdma-core keeps for its own programs: its number grows with releases."""
    library = real_library()
    found = re.search(rb"IBVERBS_PRIVATE_\d+", library.read_bytes()) if library else None
    return found[0].decode() if found else None


def _header() -> Path | None:
    """The verbs.h that the compiler takes."""
    dependencies = subprocess.run(
        ["cc", "-M", "-x", "c", "-"],
        input="#include <infiniband/verbs.h>",
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.search(r"\S+/infiniband/verbs\.h", dependencies)
    return Path(found[0]) if found else None


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stderr or done.stdout}")
    return done.stdout


def _move(scratch: Path, directory: Path) -> None:
    try:
        os.rename(scratch, directory)  # noqa: PTH104 (Path.rename is the same call; this one is known to be atomic)
    except OSError:
        if not directory.is_dir():  # else another process was first, with the same content
            raise
