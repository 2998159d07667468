"""The native half under AddressSanitizer, on the null device: build it so, and run the tests that work it hardest.

    python tests/bench/sanitized.py [PYTEST ARGUMENT …]

Needs nothing but gcc, whose package brings libasan (on Fedora: dnf install libasan). The tree stays as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLAGS = "-fsanitize=address -fno-omit-frame-pointer -g -O1"
HARDEST = (
    "accounts", "closing_meanwhile", "posting", "buffers", "waits", "lifetimes", "loop", "chains", "records", "stream",
    "srq", "windows", "uc_ud", "wrong_posts", "reaping", "group", "group_edges", "events",
)  # fmt: skip


def library() -> str:
    """The compiler's libasan, to be loaded before Python."""
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = found.stdout.strip()
    if not Path(path).is_absolute():
        sys.exit("gcc has no libasan here (Debian: libgcc-12-dev has it; Fedora: dnf install libasan)")
    return str(Path(path).resolve())


def build(into: Path) -> None:
    """A copy of the sources with an extension of its own."""
    shutil.copytree(ROOT / "rdmaqp", into / "rdmaqp", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("build_ffi.py", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, into)
    environment = os.environ | {"CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address"}
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=into, env=environment, check=True)


def main() -> int:
    tests = sorted(
        str(path) for path in (ROOT / "tests/verbs").glob("test_*.py") if path.stem.removeprefix("test_") in HARDEST
    )
    with tempfile.TemporaryDirectory(prefix="rdmaqp-asan-") as place:
        build(Path(place))
        logs = Path(place) / "asan"
        environment = os.environ | {
            "PYTHONPATH": place, "LD_PRELOAD": library(), "PYTHONMALLOC": "malloc",
            # Python keeps what it allocated until it ends; that is no finding of ours.
            "ASAN_OPTIONS": f"detect_leaks=0:log_path={logs}",
        }  # fmt: skip
        loaded = subprocess.run(
            [sys.executable, "-c", "import rdmaqp._verbs; print(rdmaqp._verbs.__file__)"], cwd=place, env=environment,
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert loaded.startswith(place), loaded
        assert b"__asan_init" in Path(loaded.strip()).read_bytes()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(sys.argv[1:] or tests)]
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        found = sorted(Path(place).glob("asan.*"))
        for path in found:
            print(path.read_text())
        print(f"{len(found)} findings of AddressSanitizer; the tests ended with {status}")
    return 1 if found else status


if __name__ == "__main__":
    sys.exit(main())
