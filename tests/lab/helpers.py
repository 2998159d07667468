"""Fake kernels, and the lab as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALL_MODULES = (
    "rdma_rxe", "ib_uverbs", "veth", "overlay", "virtio_pci", "virtio_console", "9p", "9pnet_virtio",
)


def bzimage(version: str) -> bytes:
    """The head of an x86 kernel image as far as it states its version (Documentation/arch/x86/boot.rst)."""
    head = bytearray(0x1000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x300).to_bytes(2, "little")
    text = f"{version} (builder@host) #1 SMP".encode()
    head[0x500 : 0x500 + len(text)] = text
    return bytes(head)


def make_kernel(
    root: Path, version: str, modules: tuple[str, ...] = ALL_MODULES, image: bytes | None = None
) -> Path:
    """A tree as a distribution's kernel package unpacks it; returns the image's path."""
    place = root / "lib/modules" / version
    place.mkdir(parents=True)
    (place / "modules.dep").write_text("".join(f"kernel/some/{name}.ko.xz: kernel/x.ko\n" for name in modules))
    path = root / "boot" / f"vmlinuz-{version}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bzimage(version) if image is None else image)
    return path


def lab_command(*words: str) -> list[str]:
    """`rdmaqp lab ...` with this interpreter."""
    return [sys.executable, "-m", "rdmaqp", "lab", *words]


def run_lab(*words: str, timeout: float = 300) -> subprocess.CompletedProcess[bytes]:
    """Run `rdmaqp lab run` to its end."""
    return subprocess.run(lab_command("run", *words), capture_output=True, timeout=timeout, check=False)
