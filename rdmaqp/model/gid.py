"""GIDs: 128-bit addresses, the entries of a port's table, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from rdmaqp.model.enums import GidType

if TYPE_CHECKING:
    from collections.abc import Iterable

_V4_PREFIX = bytes(10) + b"\xff\xff"
_LINK_LOCAL_PREFIX = b"\xfe\x80"


class GID(bytes):
    """Sixteen bytes in network order (``union ibv_gid``), written as an IPv6 address.

    Raises:
        ValueError: not 16 bytes.
    """

    __slots__ = ()

    def __new__(cls, raw: bytes) -> GID:
        """Take 16 raw bytes; :meth:`parse` takes text."""
        if len(raw) != 16:
            raise ValueError(f"a GID has 16 bytes, not {len(raw)}")
        return super().__new__(cls, raw)

    @classmethod
    def parse(cls, value: object) -> GID:
        """Read a GID from text (IPv6, IPv4, or ``fe80:0000:…`` as sysfs has it), 16 bytes, or an ``ipaddress`` object.

        Raises:
            ValueError: it is none of these; the message names the value.
        """
        if type(value) is str:
            return _from_text(value)
        if isinstance(value, GID):
            return value
        if isinstance(value, (bytes, bytearray)):
            return cls(bytes(value))
        if isinstance(value, IPv4Address):
            return cls(_V4_PREFIX + value.packed)
        if isinstance(value, IPv6Address):
            return cls(value.packed)
        if isinstance(value, str):
            return _from_text(str(value))
        raise ValueError(f"a GID is text or 16 bytes, not {type(value).__name__}")

    def __str__(self) -> str:
        if self.is_ipv4_mapped:
            return f"::ffff:{IPv4Address(self[12:])}"
        return str(IPv6Address(bytes(self)))

    def __repr__(self) -> str:
        return f"GID({str(self)!r})"

    @property
    def is_zero(self) -> bool:
        """Whether it is ``::``, an empty slot."""
        return not any(self)

    @property
    def is_ipv4_mapped(self) -> bool:
        """Whether it stands for an IPv4 address (``::ffff:a.b.c.d``), as RoCE v2 over IPv4 does."""
        return self.startswith(_V4_PREFIX)

    @property
    def is_link_local(self) -> bool:
        """Whether it is in ``fe80::/10``: usual on InfiniBand, not routable on RoCE."""
        return self[0] == _LINK_LOCAL_PREFIX[0] and self[1] & 0xC0 == _LINK_LOCAL_PREFIX[1]

    @property
    def is_multicast(self) -> bool:
        """Whether it is in ``ff00::/8``, or an IPv4-mapped multicast address."""
        return self[0] == 0xFF or (self.is_ipv4_mapped and self[12] & 0xF0 == 0xE0)

    @property
    def subnet_prefix(self) -> bytes:
        """The first eight bytes: InfiniBand's subnet prefix."""
        return bytes(self[:8])


@lru_cache(4096)  # the same few are read again and again
def _from_text(text: str) -> GID:
    if ":" not in text and "." not in text:
        raise ValueError(f"{text[:60]!r} is not a GID: it is written as an IPv6 address, fe80::1 or ::ffff:192.0.2.7")
    try:
        if ":" in text:
            return GID(IPv6Address(text).packed)
        return GID(_V4_PREFIX + IPv4Address(text).packed)
    except AddressValueError as error:
        raise ValueError(f"{text[:60]!r} is not a GID: {str(error)[:120]}") from None


@dataclass(frozen=True, slots=True)
class GidEntry:
    """One slot of a port's GID table (``struct ibv_gid_entry``).

    Attributes:
        index: its ``sgid_index``.
        gid: all zeros where the slot is empty.
        type: InfiniBand, RoCE v1 or RoCE v2; ``None`` where unknown or empty.
        netdev: the net device it belongs to; ``""`` none here, ``None`` unknown.
    """

    index: int
    gid: GID
    type: GidType | None = None
    netdev: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in this slot."""
        return self.gid.is_zero

    def __str__(self) -> str:
        kind = _KIND[self.type]
        return f"GID {self.index} ({self.gid}{', ' + kind if kind else ''})"


@dataclass(frozen=True, slots=True)
class GidChoice:
    """The entry picked from a table, and why."""

    entry: GidEntry
    reason: str


_KIND = {None: "", GidType.IB: "InfiniBand", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}


def rank(entry: GidEntry) -> tuple[int, str]:
    """How good *entry* is as a source (0 is best), and the reason in words."""
    place, reason = _rank(entry)
    # RoCE resolves addresses through the entry's net device; without one here, each use ends in ENODEV.
    return (place + 10, f"{reason}, no net device here") if entry.netdev == "" else (place, reason)


def _rank(entry: GidEntry) -> tuple[int, str]:
    if entry.type is GidType.ROCE_V2:
        if entry.gid.is_link_local:
            return 2, "RoCE v2, link-local"
        return (0, "RoCE v2, routable, IPv4") if entry.gid.is_ipv4_mapped else (1, "RoCE v2, routable, IPv6")
    if entry.type is GidType.ROCE_V1:
        return 3, "RoCE v1"
    return (0, "InfiniBand") if entry.type is GidType.IB else (4, "its type is unknown")


def pick_gid(entries: Iterable[GidEntry]) -> GidChoice | None:
    """The best source address of a table: routable RoCE v2 before link-local v2 before v1, lowest index first.

    IPv4-mapped goes before IPv6 among the routable, since that is what most fabrics route. Empty slots do not
    take part. ``None`` where nothing is left.
    """
    ranked = sorted((rank(entry)[0], entry.index, entry) for entry in entries if not entry.is_empty)
    if not ranked:
        return None
    best = ranked[0][2]
    reason = rank(best)[1]
    if len(ranked) > 1:
        second = ranked[1][2]
        same = rank(second)[1] == reason
        reason += f"; the lowest index of {sum(1 for r, _, _ in ranked if r == ranked[0][0])}" if same else (
            f"; before GID {second.index} ({rank(second)[1]})"
        )
    return GidChoice(best, reason)
