"""KVM or software emulation: KVM only where a short real trial on this machine proves it.

``/dev/kvm`` may be there and not work: in a virtual machine whose host half supports nesting, QEMU aborts
("failed to set MSR ...") or the guest hangs. The trial boots the lab's own kernel without a root file system
and waits for the panic that must follow; a kernel that gets that far under KVM boots.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmaqp.lab import tools
from rdmaqp.lab.cache import cache_dir, locked, writable_cache_dir
from rdmaqp.lab.processes import kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.lab.kernel import Kernel

TRIAL_SECONDS = 20.0  # a KVM guest gets to the panic in one or two
_PANIC = b"Unable to mount root fs"
_CPU = {"x86_64": ["-machine", "q35,accel=kvm", "-cpu", "host,topoext=on"],
        "aarch64": ["-machine", "virt,gic-version=host,accel=kvm", "-cpu", "host"]}
_CONSOLE = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}


@dataclass(frozen=True)
class Acceleration:
    """Whether the guest runs under KVM, and how that is known."""

    kvm: bool | None  # None: not tried yet
    why: str

    @property
    def name(self) -> str:
        """``"kvm"``, ``"tcg"`` (QEMU's software emulation) or ``"not tried yet"``."""
        return {True: "kvm", False: "tcg", None: "not tried yet"}[self.kvm]


def known(device: Path = Path("/dev/kvm")) -> Acceleration:
    """What is known without a trial: no device, no permission, or the remembered outcome."""
    if not device.exists():
        return Acceleration(kvm=False, why=f"there is no {device}")
    if not os.access(device, os.R_OK | os.W_OK):
        return Acceleration(kvm=False, why=f"{device} is not yours to open (add yourself to the group kvm)")
    remembered = _remembered()
    if remembered is None:
        return Acceleration(kvm=None, why=f"{device} is there; only a trial will tell")
    return Acceleration(kvm=bool(remembered["works"]), why=f"trial: {remembered['why']}")


def decide(kernel: Kernel, say: Callable[[str], None]) -> Acceleration:
    """What is known, and where nothing is, the outcome of a trial, which is remembered."""
    found = known()
    if found.kvm is not None:
        return found
    with locked("accel"):
        found = known()
        if found.kvm is not None:
            return found  # somebody else tried meanwhile
        say(f"trying whether KVM works here (once, at most {TRIAL_SECONDS:.0f} s)")
        found = trial(kernel)
        record = {"key": _key(), "works": found.kvm, "why": found.why}
        (writable_cache_dir() / "accel.json").write_text(json.dumps(record, indent=2) + "\n")
    return known()


def trial(kernel: Kernel) -> Acceleration:
    """Boot the kernel under KVM, without a root file system, until it says that it cannot go on."""
    machine = platform.machine()
    if machine not in _CPU:
        return Acceleration(kvm=False, why=f"no trial is known for the machine type {machine}")
    command = [
        str(tools.qemu()), *_CPU[machine], "-m", "512M", "-nodefaults", "-display", "none", "-no-reboot",
        "-serial", "stdio", "-kernel", str(kernel.image), "-append", f"console={_CONSOLE[machine]} panic=-1",
    ]
    with tempfile.TemporaryDirectory(prefix="rdmaqp-lab-", ignore_cleanup_errors=True) as run_dir, kept(
        command, Path(run_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            console, message = process.communicate(timeout=TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            return Acceleration(kvm=False, why=f"a guest under KVM hung for {TRIAL_SECONDS:g} s")
    if _PANIC in console:
        return Acceleration(kvm=True, why="a guest under KVM booted")
    said = message.decode("utf-8", "replace").strip().splitlines()
    reason = said[0] if said else "no message"
    return Acceleration(kvm=False, why=f"QEMU under KVM ended with status {process.returncode}: {reason}")


def _remembered() -> dict[str, Any] | None:
    try:
        record = json.loads((cache_dir() / "accel.json").read_text())
        return record if record["key"] == _key() and {"works", "why"} <= record.keys() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # none, or not one of ours: try again


def _key() -> dict[str, str]:
    """What the outcome depends on; a reboot may bring another kernel or firmware setting."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    qemu = tools.qemu()
    stat = qemu.stat() if qemu else None
    return {
        "boot": boot_id.read_text().strip() if boot_id.exists() else "",
        "host": platform.release(),
        "qemu": f"{qemu} {stat.st_size} {stat.st_mtime_ns}" if stat else "",
    }
