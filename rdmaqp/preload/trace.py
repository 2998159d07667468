"""The calls in a file: JSON lines of the check contract, for ``rdmaqp check`` and bug reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.encode import encode
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from rdmaqp.model.request import Request
    from rdmaqp.preload.seen import Process

_BIT_31 = 1 << 31


class TraceFile:
    """One line a call, flushed at once: what a crash leaves is whole.

    Attributes:
        problem: why nothing more is written; empty where all could be. The program is judged all the same.
    """

    def __init__(self, file: IO[str], *, redact: bool = False) -> None:
        self._file = file
        self._redaction = Redaction() if redact else None
        self._count = 0
        self.problem = ""

    def write(self, request: Request, process: Process) -> None:
        """Write one call; its id says which it was, and in which process."""
        if self.problem:
            return
        self._count += 1
        name = f"{self._count} {process}"
        if self._redaction is not None:
            request, name = self._redaction.request(request), str(self._count)
        try:
            self._file.write(json.dumps({"id": name, **encode(request)}, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            self.problem = f"it ends at call {self._count}: {error.strerror or error}"


class Redaction:
    """Stand-ins for what says where a machine is: GIDs, net devices, Q_Keys; the same one for the same thing.

    What the guard's rules ask of a GID stays as it was: whether it is empty, IPv4, link-local, multicast, and which
    have their subnet prefix in common. Stand-ins are of the ranges for documentation (RFC 5737, RFC 6676, RFC 3849);
    behind the first 254 IPv4 addresses, of that for benchmarks (RFC 2544).
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, object], int] = {}

    def _number(self, kind: str, value: object) -> int:
        """1 for the first of its kind, 2 for the next, …"""
        key = (kind, value)
        if key not in self._numbers:
            self._numbers[key] = 1 + sum(1 for known, _ in self._numbers if known == kind)
        return self._numbers[key]

    def gid(self, gid: GID) -> GID:
        """The stand-in of *gid*."""
        if gid.is_zero:
            return gid
        low = self._number("host", bytes(gid[8:])) & 0xFFFFFFFF
        if gid.is_ipv4_mapped:
            return GID(gid[:12] + _ipv4(low, is_multicast=gid.is_multicast))
        if gid.is_multicast:
            return GID(gid[:2] + bytes(10) + low.to_bytes(4, "big"))
        if gid.is_link_local:
            return GID(b"\xfe\x80" + bytes(10) + low.to_bytes(4, "big"))
        net = self._number("net", gid.subnet_prefix) & 0xFFFF
        return GID(b"\x20\x01\x0d\xb8" + bytes(2) + net.to_bytes(2, "big") + bytes(4) + low.to_bytes(4, "big"))

    def request(self, request: Request) -> Request:
        """*request* with stand-ins."""
        attr = request.attr
        if attr is not None:
            attr = replace(
                attr, ah_attr=self._vector(attr.ah_attr), alt_ah_attr=self._vector(attr.alt_ah_attr),
                qkey=self._qkey(attr.qkey),
            )  # fmt: skip
        gids = {
            index: replace(entry, gid=self.gid(entry.gid), netdev=self._netdev(entry.netdev))
            for index, entry in request.gids.items()
        }
        return replace(request, attr=attr, gids=gids)

    def _vector(self, vector: AddressVector | None) -> AddressVector | None:
        if vector is None or vector.grh is None or not isinstance(vector.grh.dgid, GID):
            return vector
        return replace(vector, grh=replace(vector.grh, dgid=self.gid(vector.grh.dgid)))

    def _netdev(self, name: str | None) -> str | None:
        return f"net{self._number('netdev', name)}" if name else name

    def _qkey(self, key: int | None) -> int | None:
        return None if key is None else key & _BIT_31 | 0x1000 + self._number("qkey", key)


def _ipv4(number: int, *, is_multicast: bool) -> bytes:
    """The stand-in of that number: 192.0.2.0/24, then 198.18.0.0/15; of groups 233.252.0.0/24."""
    if is_multicast:
        return b"\xe9\xfc\x00" + bytes([number & 0xFF])
    if number < 0xFF:
        return b"\xc0\x00\x02" + bytes([number])
    return (0xC6120000 | number & 0x1FFFF).to_bytes(4, "big")
