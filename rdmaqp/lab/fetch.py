"""Fetches the distribution's kernel package into the cache and unpacks it there, as any user.

Nothing is installed.

Debian's linux-image-amd64 carries rdma_rxe; Ubuntu keeps it in linux-modules-extra-VERSION.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.lab import tools
from rdmaqp.lab.cache import locked, writable_cache_dir
from rdmaqp.lab.errors import LabError
from rdmaqp.lab.kernel import NAMED_SHELF, SHELF, Kernel, cached, of_series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_OTHER_FLAVOUR = re.compile(r"-(cloud|rt|16k|dbg)-|dbg$")
_WITHOUT_APT = (
    "What to do: install a kernel that has the module rdma_rxe (RHEL/Fedora: dnf install kernel-core"
    " kernel-modules kernel-modules-extra), or name one with --kernel.",
)


def fetch(say: Callable[[str], None], series: str | None = None) -> Kernel:
    """Fetch and unpack the newest kernel the package lists offer; return it.

    Args:
        say: takes a line of progress.
        series: such as ``"6.12"``; by default the distribution's own. A kernel of a named series is kept apart and
            is used only where it is named.

    Raises:
        LabError: not a Debian or Ubuntu, no package lists, no network, or a package without rdma_rxe.
    """
    shelf = SHELF if series is None else NAMED_SHELF
    kernels = writable_cache_dir() / shelf
    with locked("kernels"):
        ready = [k for k in cached(shelf) if isinstance(k, Kernel) and of_series(k.version, series)]
        if ready:
            return ready[0]  # another preparation was faster
        packages, version = _packages() if series is None else _packages_of(series)
        kernels.mkdir(exist_ok=True)
        for remains in kernels.glob(".incoming-*"):  # of a fetch that was killed; the lock says that none runs
            shutil.rmtree(remains)
        with tempfile.TemporaryDirectory(prefix=".incoming-", dir=kernels) as scratch:
            tree = Path(scratch) / "tree"
            say(f"fetching {' '.join(packages)} (about 70 MB), to be unpacked in {kernels}, not installed")
            _unpack(packages, Path(scratch), tree)
            say(f"indexing the modules of {version}")
            _index(tree, version)
            # Renamed only when whole: an interrupted fetch leaves nothing that looks like a kernel.
            final = kernels / version
            shutil.rmtree(final, ignore_errors=True)
            tree.rename(final)
    for kernel in cached(shelf):
        if isinstance(kernel, Kernel) and kernel.version == version:
            return kernel
    raise LabError(
        f"lab: {' '.join(packages)} was fetched and cannot serve",
        [*map(str, cached(shelf)), *_WITHOUT_APT],
    )


def _packages() -> tuple[list[str], str]:
    """The packages that make up the newest kernel, and its version; the meta package depends on them."""
    if not (tools.find("apt-get") and tools.find("dpkg")):
        raise LabError("lab: no kernel with rdma_rxe here, and no apt-get to fetch one with", _WITHOUT_APT)
    meta = _meta_package()
    listed = _run(["apt-cache", "depends", "--important", meta], f"looking up the package {meta}")
    names = re.findall(r"Depends: (linux-(?:image|modules-extra)-\d\S+)", listed)
    if not names:
        raise LabError(
            f"lab: the package lists know no kernel: `apt-cache depends {meta}` names none",
            [f"It said: {_one_line(listed) or 'nothing'}",
             "What to do: run `apt-get update` as root (the lists may be empty or old), then try again."],
        )
    version = re.sub(r"^linux-(?:image|modules-extra)-", "", names[0])
    if "modules-extra" in listed:  # Ubuntu: image and modules are separate packages
        names = [f"linux-image-{version}", f"linux-modules-{version}", f"linux-modules-extra-{version}"]
    return names[:3], version


def _packages_of(series: str) -> tuple[list[str], str]:
    """The package of the newest kernel of a series, such as 6.12, and its version; Debian's plain flavour only."""
    machine = _DEBIAN_ARCH.get(platform.machine(), platform.machine())
    known = _run(["apt-cache", "pkgnames", f"linux-image-{series}"], f"looking up kernels {series}").split()
    # Signed and unsigned packages hold the same kernel; a guest asks for no signature.
    pattern = re.compile(rf"linux-image-({re.escape(series)}[.-][^ ]*?-{machine})(-unsigned)?")
    found = [match for match in map(pattern.fullmatch, known) if match and not _OTHER_FLAVOUR.search(match[1])]
    if not found:
        raise LabError(
            f"lab: the package lists know no kernel {series} for {machine}",
            ["What to do: run `apt-get update` as root, or add the repository that has it (Debian: backports)."],
        )
    newest = max(found, key=lambda match: [int(part) for part in re.findall(r"\d+", match[1])])
    return [newest[0]], newest[1]


def _meta_package() -> str:
    machine = platform.machine()
    text = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if re.search(r"^ID=\"?ubuntu", text, re.MULTILINE):
        return "linux-image-generic"
    if machine not in _DEBIAN_ARCH:
        raise LabError(f"lab: no kernel package is known for the machine type {machine}", _WITHOUT_APT)
    return f"linux-image-{_DEBIAN_ARCH[machine]}"


def _unpack(packages: Sequence[str], scratch: Path, tree: Path) -> None:
    _run(["apt-get", "download", "-q", *packages], f"downloading {' '.join(packages)}", cwd=scratch)
    tree.mkdir()
    for package in sorted(scratch.glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(tree)], f"unpacking {package.name}")
        package.unlink()
    # depmod and modprobe look below lib/modules or usr/lib/modules, depending on how kmod was built.
    for here, there in (("lib", "usr/lib"), ("usr/lib", "../lib")):
        if not (tree / here / "modules").exists():
            (tree / here).parent.mkdir(exist_ok=True)
            if (tree / here).exists():
                (tree / here / "modules").symlink_to(Path("..") / there / "modules")
            else:
                (tree / here).symlink_to(there)


def _index(tree: Path, version: str) -> None:
    depmod = tools.find("depmod")
    if depmod is None:
        raise LabError("lab: depmod is missing; it indexes the fetched kernel's modules",
                       ["What to do: apt install kmod"])
    _run([str(depmod), "-b", str(tree), version], f"indexing the modules of {version}")


def _run(command: list[str], doing: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            # Not in the user's language: apt translates "Depends:".
            env={**os.environ, "LC_ALL": "C", "PATH": tools.search_path()},
        )
    except OSError as error:
        raise LabError(f"lab: {doing} failed: cannot start {command[0]}: {error.strerror}") from error
    if done.returncode:
        said = _one_line(done.stderr) or _one_line(done.stdout) or "it said nothing"
        raise LabError(
            f"lab: {doing} failed (`{' '.join(command)}`, status {done.returncode})",
            [f"It said: {said}",
             "What to do: check the network, run `apt-get update` as root (old package lists name files that"
             " are gone), or name a kernel that is here already with --kernel."],
        )
    return done.stdout


def _one_line(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-600:]
