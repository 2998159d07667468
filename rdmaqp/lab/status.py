"""What the lab would use on this machine, and what is missing."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from rdmaqp.lab import accel, tools
from rdmaqp.lab import kernel as kernels
from rdmaqp.lab.cache import cache_dir

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class LabStatus:
    """What `lab run` would do.

    Attributes:
        kernel: the kernel that would be booted, or ``None``.
        why: why this one, or why none.
        rejected: kernels that were looked at first and cannot serve, with the reason.
        qemu: the path of QEMU.
        virtme_ng: the version of virtme-ng.
        acceleration: KVM or software emulation, and how that is known.
        cache: the cache directory.
        missing: what has to be installed, and how.
        ready: whether `lab run` would work as it stands, without fetching anything.
    """

    kernel: kernels.Kernel | None
    why: str
    rejected: tuple[kernels.Rejected, ...]
    qemu: Path | None
    virtme_ng: str | None
    acceleration: accel.Acceleration
    cache: Path
    missing: tuple[tools.Missing, ...]

    @property
    def ready(self) -> bool:
        """Whether `lab run` would work as it stands, without fetching anything."""
        return self.kernel is not None and not self.missing


_WHY = {
    "running": "it is the running kernel, readable, and has the modules",
    "installed": "it is installed and has the modules",
    "cache": "no kernel installed here can serve; this one was fetched into the cache",
    "given": "it was asked for",
}


def status() -> LabStatus:
    """Look around; start nothing and fetch nothing."""
    chosen, rejected = kernels.choose()
    why = _WHY[chosen.origin] if chosen else (
        f"no kernel here can serve (running: {platform.release()}); `rdmaqp lab setup` fetches the"
        " distribution's own into the cache"
    )
    try:
        virtme_ng: str | None = metadata.version("virtme-ng")
    except metadata.PackageNotFoundError:
        virtme_ng = None  # a distribution's own package may be on PATH all the same: `missing` decides
    return LabStatus(
        kernel=chosen, why=why, rejected=tuple(rejected), qemu=tools.qemu(), virtme_ng=virtme_ng,
        acceleration=accel.known(), cache=cache_dir(), missing=tuple(tools.missing_tools()),
    )
