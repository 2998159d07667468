"""The RDMA devices of this machine as sysfs shows them: nothing is opened, no library is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.host.answers import Unknown, read_text
from rdmaqp.model.enums import GidType
from rdmaqp.model.gid import GID, GidEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TYPES = {"IB/RoCE v1": GidType.ROCE_V1, "RoCE v2": GidType.ROCE_V2}
#: Kernel module -> driver, where they are not of one name.
_DRIVERS = {
    "mlx5_core": "mlx5", "mlx5_ib": "mlx5", "mlx4_core": "mlx4", "mlx4_ib": "mlx4", "ice": "irdma", "i40e": "irdma",
    "bnxt_en": "bnxt_re", "hns3": "hns", "qede": "qedr", "iw_cxgb4": "cxgb4", "ib_mthca": "mthca",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PortView:
    """A port.

    Attributes:
        state: ``ACTIVE``, ``DOWN``, ``INIT``, …; empty where sysfs does not say.
        link_layer: ``Ethernet`` or ``InfiniBand``.
        lid: 0 on RoCE, and where no subnet manager has been.
        gids: the slots in use. On InfiniBand their type is IB; ``netdev`` is ``""`` where the net device belongs to
            another network namespace.
    """

    num: int
    state: str
    link_layer: str
    lid: int
    rate: str
    gids: tuple[GidEntry, ...]

    @property
    def is_roce(self) -> bool:
        """Whether it is Ethernet."""
        return self.link_layer == "Ethernet"

    @property
    def netdevs(self) -> tuple[str, ...]:
        """The net devices of its GIDs, each once, those of this network namespace."""
        return tuple(dict.fromkeys(entry.netdev for entry in self.gids if entry.netdev))


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device.

    Attributes:
        driver: as the guard names it; ``None`` where sysfs does not say.
        uverbs: its character device, such as ``uverbs0``; ``None`` where there is none (``ib_uverbs`` not loaded).
        parent: the net device that a software device stands on.
    """

    name: str
    driver: str | None
    firmware: str
    uverbs: str | None
    parent: str
    ports: tuple[PortView, ...]


def names(root: Path = Path("/")) -> tuple[str, ...]:
    """The devices of this network namespace; none where the kernel has no RDMA core."""
    try:
        return tuple(sorted(entry.name for entry in (root / "sys/class/infiniband").iterdir()))
    except OSError:
        return ()


def devices(root: Path = Path("/"), only: Iterable[str] | None = None) -> tuple[DeviceView, ...]:
    """All of this network namespace, or *only* those named, by name. A GID table has up to 1,024 slots, a file each."""
    nodes, wanted = _nodes(root), None if only is None else frozenset(only)
    place = root / "sys/class/infiniband"
    return tuple(_device(place / name, nodes.get(name)) for name in names(root) if wanted is None or name in wanted)


def port_states(root: Path = Path("/")) -> dict[str, str]:
    """Each port's state, by device and port such as ``rxe0/1``. Cheap: one small file a port."""
    found = {}
    for file in sorted((root / "sys/class/infiniband").glob("*/ports/[0-9]*/state")):
        found[f"{file.parents[2].name}/{file.parent.name}"] = _text(file).partition(": ")[2]
    return found


def _nodes(root: Path) -> dict[str, str]:
    """Device -> its character device."""
    found = {}
    for entry in (root / "sys/class/infiniband_verbs").glob("uverbs*"):
        name = read_text(entry / "ibdev")
        if isinstance(name, str):
            found[name] = entry.name
    return found


def _device(place: Path, uverbs: str | None) -> DeviceView:
    ports = sorted(_ports(place / "ports"), key=lambda port: port.num)
    return DeviceView(
        name=place.name, driver=_driver(place), firmware=_text(place / "fw_ver"), uverbs=uverbs,
        parent=_text(place / "parent"), ports=tuple(ports),
    )  # fmt: skip


def _driver(place: Path) -> str | None:
    bound = place / "device/driver"
    if bound.exists():
        name = bound.resolve().name
        return _DRIVERS.get(name, name)
    if (place / "parent").exists():  # a software device, which is on no bus: rxe is a channel adapter, siw is iWARP
        return "siw" if _text(place / "node_type").startswith("4") else "rxe"
    return None


def _ports(place: Path) -> Iterator[PortView]:
    for entry in place.glob("[0-9]*"):
        link = _text(entry / "link_layer")
        lid = _text(entry / "lid")
        yield PortView(
            num=int(entry.name), state=_text(entry / "state").partition(": ")[2], link_layer=link,
            lid=int(lid, 16) if lid.startswith("0x") else 0, rate=_text(entry / "rate"),
            gids=tuple(_gids(entry, roce=link == "Ethernet")),
        )  # fmt: skip


def _gids(port: Path, *, roce: bool) -> Iterator[GidEntry]:
    try:
        slots = sorted(int(entry.name) for entry in (port / "gids").iterdir() if entry.name.isdecimal())
    except OSError:
        return
    for slot in slots:
        gid = _gid(f"{port}/gids/{slot}")
        if gid is None:
            continue
        kind = _TYPES.get(_text(port / f"gid_attrs/types/{slot}")) if roce else GidType.IB
        # The kernel does not name a net device that belongs to another network namespace.
        netdev = read_text(port / f"gid_attrs/ndevs/{slot}")
        yield GidEntry(slot, gid, kind, "" if isinstance(netdev, Unknown) else netdev)


def _gid(file: str) -> GID | None:
    """What is in a slot; ``None`` where it is empty, which most are: so no Path, and no parsing, for those."""
    try:
        with open(file, encoding="ascii") as slot:  # noqa: PTH123 - a thousand times
            text = slot.read().strip()
        return None if not text.strip("0:") else GID.parse(text)
    except (OSError, ValueError):  # pods cannot read some slots
        return None


def _text(file: Path) -> str:
    text = read_text(file)
    return text if isinstance(text, str) else ""
