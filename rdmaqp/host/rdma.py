"""Is RDMA here at all: the kernel's modules, and the character devices that libibverbs opens."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rdmaqp.host.answers import Unknown, read_text

#: Parts of the RDMA core.
_CORE = frozenset({"ib_core", "ib_uverbs", "ib_cm", "rdma_cm", "rdma_ucm", "ib_umad", "iw_cm"})
#: Kernel drivers, by module.
_DRIVERS = frozenset({
    "rdma_rxe", "siw", "mlx5_ib", "mlx4_ib", "ib_mthca", "irdma", "bnxt_re", "efa", "hns_roce_hw_v2", "erdma", "hfi1",
    "ib_qib", "qedr", "ocrdma", "vmw_pvrdma", "iw_cxgb4", "usnic_verbs", "mana_ib", "ionic_rdma",
})  # fmt: skip


def modules(root: Path = Path("/")) -> frozenset[str] | Unknown:
    """The RDMA modules that are loaded, core and drivers. What is built into the kernel counts where sysfs lists it."""
    listing = read_text(root / "proc/modules") if loads_modules(root) else ""
    if isinstance(listing, Unknown):
        return listing
    loaded = {line.split()[0] for line in listing.splitlines() if line}
    built_in = {name for name in _CORE | _DRIVERS if (root / "sys/module" / name).is_dir()}
    return frozenset((loaded | built_in) & (_CORE | _DRIVERS))


def loads_modules(root: Path = Path("/")) -> bool:
    """Whether the kernel can load any: that of a micro virtual machine often cannot, and then has no list of them."""
    return not (root / "proc/version").exists() or (root / "proc/modules").exists()


@dataclass(frozen=True, slots=True)
class CharacterDevices:
    """What is in ``/dev/infiniband``.

    Attributes:
        names: all of it; empty where the directory is not there.
        closed: those ``uverbs`` devices that this process may not open for reading and writing.
    """

    names: tuple[str, ...]
    closed: tuple[str, ...]

    @property
    def uverbs(self) -> tuple[str, ...]:
        """The devices that libibverbs opens."""
        return tuple(name for name in self.names if name.startswith("uverbs"))


def character_devices(root: Path = Path("/")) -> CharacterDevices | Unknown:
    """The character devices. A container has them only where it was given them."""
    place = root / "dev/infiniband"
    try:
        names = tuple(sorted(entry.name for entry in place.iterdir()))
    except FileNotFoundError:
        return CharacterDevices((), ())
    except OSError as error:
        return Unknown(f"{place}: {error.strerror}")
    closed = tuple(
        name for name in names if name.startswith("uverbs") and not os.access(place / name, os.R_OK | os.W_OK)
    )
    return CharacterDevices(names, closed)


def known_to_kernel(name: str, root: Path = Path("/")) -> bool | Unknown:
    """Whether the kernel has RDMA device *name* in this network namespace."""
    if not name or "/" in name or name in (".", ".."):
        return Unknown(f"{name!r} is no name of a device")
    place = root / "sys/class/infiniband"
    return (place / name).exists() if place.is_dir() else Unknown(f"{place} is not there")
