"""Which kernel the guest runs: the host's own where it has what the lab needs, else one from the cache."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from rdmaqp.lab.cache import cache_dir
from rdmaqp.lab.errors import LabError

# What the guest cannot do without. One root file system of the two suffices: Debian's kernels have both,
# RHEL's have no 9p.
NEEDED = ("rdma_rxe", "ib_uverbs", "veth", "overlay", "virtio_pci", "virtio_console")
ROOT_FILE_SYSTEMS = (("9p", "9pnet_virtio"), ("virtiofs",))
# Directories of the cache: kernels of the distribution, and those that were asked for by name.
SHELF, NAMED_SHELF = "kernels", "named-kernels"


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted: its image, and the modules that belong to it."""

    version: str
    image: Path
    modules: Path
    origin: str  # "given", "running", "installed" or "cache"
    has_9p: bool


@dataclass(frozen=True)
class Rejected:
    """A kernel that was looked at and cannot serve, with the reason."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


def module_names(modules: Path) -> set[str] | None:
    """Every module a kernel has, loadable or built in; ``None`` without an index (``modules.dep``)."""
    names: set[str] = set()
    for index in ("modules.dep", "modules.builtin"):
        try:
            text = (modules / index).read_text()
        except OSError:
            if index == "modules.dep":
                return None
            continue  # an old or self-built kernel may have no list of what is built in
        names |= {_module_name(line.split(":", 1)[0]) for line in text.splitlines() if line}
    return names


def _module_name(path: str) -> str:
    # The kernel takes - and _ for the same character in a module's name (modprobe(8)).
    return Path(path).name.split(".ko", 1)[0].replace("-", "_")


def image_version(image: Path) -> str | None:
    """The version a kernel image states about itself, or its file name does; ``None`` if it is no kernel.

    x86: Documentation/arch/x86/boot.rst (``HdrS`` at 0x202, pointer to the version string at 0x20e). arm64:
    Documentation/arch/arm64/booting.rst (magic ``ARM\\x64`` at 56), or gzip; neither states a version.
    """
    with image.open("rb") as file:
        head = file.read(0x10000)
    if head[0x202:0x206] == b"HdrS":
        start = int.from_bytes(head[0x20E:0x210], "little") + 0x200
        text = head[start : start + 256].split(b"\0", 1)[0].decode("ascii", "replace")
        return text.split(" ", 1)[0] or None
    if head[56:60] == b"ARM\x64" or head[:2] == b"\x1f\x8b" or head[:2] == b"MZ":
        if named := re.fullmatch(r"(?:vmlinuz|vmlinux|Image)-(\S+)", image.name):
            return named[1]
        return image.parent.name if image.parent.parent.name == "modules" else None
    return None


def examine(image: Path, modules: Path, origin: str) -> Kernel | Rejected:
    """Decide whether this image with these modules can serve."""
    what = f"{image} ({origin})"
    if not image.is_file():
        return Rejected(what, "there is no such file")
    if not os.access(image, os.R_OK):
        return Rejected(what, "not readable for you (Ubuntu keeps /boot/vmlinuz-* to root)")
    version = image_version(image)
    if version is None:
        return Rejected(what, "this is not a Linux kernel image (x86 bzImage or arm64 Image)")
    if modules.name != version:
        return Rejected(what, f"the image is version {version}, the modules beside it are {modules.name}'s")
    names = module_names(modules)
    if names is None:
        return Rejected(what, f"no {modules}/modules.dep: its modules are not installed, or depmod never ran")
    lacking = [name for name in NEEDED if name not in names]
    if lacking:
        return Rejected(what, f"its modules in {modules} lack {', '.join(lacking)}")
    usable = [all(part in names for part in parts) for parts in ROOT_FILE_SYSTEMS]
    if not any(usable):
        return Rejected(what, f"its modules in {modules} have neither 9p nor virtiofs")
    return Kernel(version, image, modules, origin, has_9p=usable[0])


def images_of(version: str, root: Path) -> list[Path]:
    """Where distributions put a kernel's image below a root, for this version."""
    return [root / "boot" / f"vmlinuz-{version}", root / "lib/modules" / version / "vmlinuz",
            root / "usr/lib/modules" / version / "vmlinuz"]


def _examine_version(version: str, root: Path, origin: str) -> Kernel | Rejected:
    images = images_of(version, root)
    image = next((path for path in images if path.is_file()), images[0])
    return examine(image, _modules_below(root, version), origin)


def _modules_below(root: Path, version: str) -> Path:
    places = [root / "lib/modules" / version, root / "usr/lib/modules" / version]
    return next((place for place in places if place.is_dir()), places[0])


def _by_version(path: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", path.name)]


def candidates(root: Path = Path("/")) -> list[Kernel | Rejected]:
    """Everything that could serve without being named, best first: running, installed, cached."""
    running = platform.release()
    found = [_examine_version(running, root, "running")]
    installed = sorted((root / "lib/modules").glob("[0-9]*"), key=_by_version, reverse=True)
    found += [_examine_version(path.name, root, "installed") for path in installed if path.name != running]
    return found + cached()


def cached(shelf: str = SHELF) -> list[Kernel | Rejected]:
    """The kernels on one shelf of the cache, newest first."""
    trees = sorted((cache_dir() / shelf).glob("[0-9]*"), key=_by_version, reverse=True)
    return [_examine_version(tree.name, tree, "cache") for tree in trees]


def choose(root: Path = Path("/")) -> tuple[Kernel | None, list[Rejected]]:
    """The kernel to use, if there is one, and those that came before it and cannot serve."""
    rejected: list[Rejected] = []
    for candidate in candidates(root):
        if isinstance(candidate, Kernel):
            return candidate, rejected
        rejected.append(candidate)
    return None, rejected


def of_series(version: str, series: str | None) -> bool:
    """Whether a kernel's version is the one named, or begins with it: 6.12.107-amd64 is of the series 6.12."""
    return series is None or version == series or version.startswith((f"{series}.", f"{series}-"))


def explicit(given: str, root: Path = Path("/")) -> Kernel:
    """The kernel a user named, by the path of its image or by its version.

    Raises:
        LabError: there is no such kernel, or it cannot serve; says why.
    """
    if os.sep in given:
        image = Path(given).absolute()
        version = image_version(image) if image.is_file() and os.access(image, os.R_OK) else None
        tried = [examine(image, _modules_beside(image, version or "unknown"), "given")]
    else:
        shelved = [one for shelf in (SHELF, NAMED_SHELF) for one in cached(shelf)]
        named = [one for one in shelved if isinstance(one, Kernel) and of_series(one.version, given)]
        tried = [_examine_version(given, root, "given"), *named]
    for outcome in tried:
        if isinstance(outcome, Kernel):
            return outcome
    raise LabError(
        f"lab: the kernel {given!r} cannot serve",
        [*map(str, tried), "What to do: name a kernel image (/boot/vmlinuz-...) or a version whose modules"
         " include rdma_rxe, or leave --kernel out; `rdmaqp lab status` shows what there is,"
         " `rdmaqp lab setup --kernel 6.12` fetches one of a series."],
    )


def _modules_beside(image: Path, version: str) -> Path:
    """The modules that belong to an image, by the rule virtme-run has (get_rootfs_from_kernel_path)."""
    for parent in image.parents:
        if (parent / "lib/modules").is_dir() or (parent / "usr/lib/modules").is_dir():
            return _modules_below(parent, version)
    return Path("/lib/modules") / version
