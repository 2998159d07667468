"""Programs run on the null device, and what it recorded of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class NullDevice:
    """The null device's library and one log.

    Attributes:
        library: the directory for LD_LIBRARY_PATH.
        log: where control calls are recorded.
    """

    library: Path
    log: Path

    def environment(self, **settings: object) -> dict[str, str]:
        """This process's environment, with the null device for libibverbs; *settings* as ``LINK="ethernet"``."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RDMAQP_STUB_")}
        others = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{self.library}:{others}" if others else str(self.library)
        environment["RDMAQP_STUB_LOG"] = str(self.log)
        environment |= {f"RDMAQP_STUB_{name}": str(value) for name, value in settings.items()}
        return environment

    def run(self, command: Sequence[str | Path], **settings: object) -> subprocess.CompletedProcess[str]:
        """Run a program on the null device."""
        return subprocess.run(
            [str(part) for part in command],
            env=self.environment(**settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def python(self, code: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run Python code on the null device, in a new process: the loader takes one libibverbs a process."""
        return self.run([sys.executable, "-c", code], **settings)

    def calls(self, *names: str) -> list[dict[str, Any]]:
        """The control calls recorded, in order; only those named, where names are given."""
        if not self.log.exists():
            return []
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [entry for entry in entries if not names or entry["call"] in names]

    def fields(self, entry: Mapping[str, Any]) -> dict[str, int | bytes]:
        """The fields in an entry's ``attr``, by name (``ah_attr.grh.dgid``): GIDs as bytes, the rest as numbers."""
        struct = "ibv_ah_attr" if entry["call"] == "ibv_create_ah" else "ibv_qp_attr"
        layout = json.loads((self.library / "layout.json").read_text())[struct]
        attr = bytes.fromhex(entry["attr"])
        fields: dict[str, int | bytes] = {}
        for name, (offset, size) in layout.items():
            value = attr[offset : offset + size]
            fields[name] = value if name.endswith("gid") else int.from_bytes(value, sys.byteorder)
        return fields
