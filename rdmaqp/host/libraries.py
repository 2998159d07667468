"""The user half of RDMA: which libibverbs is here, of which build, and which drivers' libraries fit it."""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rdmaqp.host.answers import Unknown, read_text

#: Where distributions, MLNX_OFED and conda put shared libraries; the loader's own list is asked first.
_PLACES = (
    "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/powerpc64le-linux-gnu", "usr/lib",
    "usr/local/lib", "usr/local/lib64", "lib64", "opt/mellanox/lib",
)  # fmt: skip
_PRIVATE = re.compile(rb"IBVERBS_PRIVATE_(\d+)\0")

#: Driver -> the stem of its library (rdma-core ``providers/``); the others are named as the driver.
_STEMS = {"hfi1": "hfi1verbs", "qib": "ipathverbs", "pvrdma": "vmw_pvrdma"}


@dataclass(frozen=True, slots=True)
class Library:
    """One libibverbs.

    Attributes:
        path: of ``libibverbs.so.1``, links followed.
        version: of its file, such as ``1.14.44.0``: the third number is that of rdma-core.
        abi: the number that its drivers' files carry (``-rdmav34.so``); ``None`` where it could not be read.
        drivers: those of the files beside it that carry this number, by stem, such as ``mlx5``.
        others: numbers of files beside it that carry another: they belong to another build, and are not loaded.
    """

    path: Path
    version: str
    abi: int | None
    drivers: frozenset[str]
    others: frozenset[int]

    @property
    def rdma_core(self) -> str:
        """The version of rdma-core, where the file's name tells."""
        parts = self.version.split(".")
        return parts[2] if len(parts) >= 3 else self.version

    def drives(self, driver: str) -> bool:
        """Whether it has a library for kernel driver *driver*."""
        return _STEMS.get(driver, driver) in self.drivers


def libraries(root: Path = Path("/")) -> tuple[Library, ...]:
    """Every libibverbs that a program here may be given, in the order in which the loader looks; each file once."""
    searched = [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place] if root == Path(
        "/") else []  # fmt: skip
    found: dict[Path, None] = {}
    for place in [*searched, *(root / place for place in _PLACES)]:
        file = place / "libibverbs.so.1"
        if file.exists():
            found[file.resolve()] = None
    return tuple(_library(path) for path in found)


def _library(path: Path) -> Library:
    abi = _abi(path)
    files = [*path.parent.glob("libibverbs/lib*-rdmav*.so"), *path.parent.glob("lib*-rdmav*.so")]
    parts = [match for file in files if (match := re.fullmatch(r"lib(.+)-rdmav(\d+)\.so", file.name))]
    return Library(
        path=path, version=path.name.removeprefix("libibverbs.so."), abi=abi,
        drivers=frozenset(part[1] for part in parts if abi is None or int(part[2]) == abi),
        others=frozenset(int(part[2]) for part in parts) - ({abi} if abi is not None else frozenset()),
    )  # fmt: skip


def _abi(path: Path) -> int | None:
    """The number of its private symbols (libibverbs.map.in): drivers of another number do not load."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            match = _PRIVATE.search(data)
            return int(match[1]) if match else None
    except (OSError, ValueError):  # unreadable, or empty, which cannot be mapped
        return None


def kernel_abi(root: Path = Path("/")) -> int | Unknown:
    """The kernel's uverbs ABI; libibverbs takes 3 to 6 (``IB_USER_VERBS_ABI_VERSION``)."""
    text = read_text(root / "sys/class/infiniband_verbs/abi_version")
    if isinstance(text, Unknown):
        return text
    return int(text) if text.isdecimal() else Unknown(f"abi_version is {text[:20]!r}")
