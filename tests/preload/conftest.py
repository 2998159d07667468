"""Programs that are brought under the guard on the null device."""

from __future__ import annotations

import subprocess
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
    compiled("linked", into, *verbs)
    compiled("linked_now", into, *verbs, "-Wl,-z,now", source="linked")
    compiled("linked_lazy", into, *verbs, "-Wl,-z,lazy", source="linked")
    compiled("mistakes", into, *verbs)
    compiled("asks_handle", into, "-ldl")
    compiled("loads_plugin", into, "-ldl")
    compiled("plugin.so", into, "-shared", "-fPIC", *verbs)
    compiled("takes_address.so", into, "-shared", "-fPIC", "-DBY_ADDRESS", *verbs, source="plugin")
    compiled("interposer.so", into, "-shared", "-fPIC", "-ldl")
    return into
