"""Programs that are brought under the guard on the null device."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stub.fixtures import null_device, stub_library

__all__ = ["null_device", "stub_library"]

SOURCES = Path(__file__).with_name("programs")
FLAGS = ["-std=gnu17", "-Wall", "-Wextra", "-Werror", "-g"]


def compiled(name: str, into: Path, *flags: str, source: str = "") -> Path:
    """A program, or with ``-shared`` a library, of ``programs/``."""
    file = into / name
    subprocess.run(["cc", *FLAGS, str(SOURCES / f"{source or file.stem}.c"), "-o", str(file), *flags], check=True)
    return file


@pytest.fixture(scope="session")
def programs(stub_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all of them. That of *stub_library* is asked for since it says what is missing here."""
    into = tmp_path_factory.mktemp("programs")
    verbs = ["-Wl,--no-as-needed", "-libverbs", "-pthread"]
    library = ["-shared", "-fPIC"]
    wanted = {
        "linked": verbs, "linked_now": [*verbs, "-Wl,-z,now"], "linked_lazy": [*verbs, "-Wl,-z,lazy"],
        "mistakes": verbs, "asks_handle": ["-ldl"], "loads_plugin": ["-ldl"], "plugin.so": [*library, *verbs],
        "takes_address.so": [*library, "-DBY_ADDRESS", *verbs], "interposer.so": [*library, "-ldl"],
        "without_plt.so": [*library, "-fno-plt", "-O1", *verbs],
    }  # fmt: skip
    source = {"linked_now": "linked", "linked_lazy": "linked", "takes_address.so": "plugin", "without_plt.so": "plugin"}
    with ThreadPoolExecutor(4) as pool:
        made = [
            pool.submit(compiled, name, into, *flags, source=source.get(name, "")) for name, flags in wanted.items()
        ]
        for one in made:
            one.result()
    return into
