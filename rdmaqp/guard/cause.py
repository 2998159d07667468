"""Why a call or a work request failed: one cause with its standing, and the sheet on which they are gathered."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Standing = Literal["proved", "likely", "ruled-out"]

#: Causes that no rule of the guard names, and what each says. All are stable keys, as the rules' names are.
CAUSES: Mapping[str, str] = MappingProxyType({
    "neighbour-unresolved": "nobody on the link answered for the next hop's address (ARP, neighbour discovery)",
    "route-missing": "the IP stack has no route to the destination from this source",
    "netdev-missing": "the GID's net device is gone, or belongs to another network namespace",
    "firmware-refused": "the device's firmware refused; the driver only passes it on",
    "driver-refused": "the kernel driver, or its user library, refused",
    "flush-consequence": "the queue pair was already broken: an earlier completion has the reason",
    "receiver-not-ready": "the peer had no receive posted",
    "peer-unreachable": "nothing came back from the peer",
    "peer-not-ready": "the peer's queue pair is not, or no longer, in a state that receives",
    "access-denied": "the peer's memory region or queue pair does not allow that access",
    "local-key": "a local memory key, or a piece outside its region",
    "remote-key": "the rkey or the remote address",
    "not-permitted": "the process, or a security module, is not allowed to",
    "device-missing": "the RDMA device was removed or is being reset",
    "provider-missing": "the installed user library does not have, or does not match, what the kernel driver wants",
    "memory-not-pinnable": "the memory cannot be pinned: unmapped, or a GPU's without its peer-memory module",
})


class Cause(NamedTuple):
    """One possible reason.

    Attributes:
        cause: a rule's name, a key of :data:`CAUSES`, or, where ruled out, a field's name.
        standing: ``proved``, ``likely`` or ``ruled-out``.
        why: in words.
    """

    cause: str
    standing: Standing
    why: str

    def to_dict(self) -> dict[str, str]:
        """The cause in the form of the check contract."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.cause} ({self.standing}): {self.why}"


_RANK: Mapping[Standing, int] = {"proved": 0, "likely": 1, "ruled-out": 2}


class Sheet:
    """The causes found so far. A cause stands once: proved beats likely, and both beat ruled out."""

    def __init__(self) -> None:
        self._found: dict[str, Cause] = {}

    def add(self, cause: str, standing: Standing, why: str) -> None:
        """Note *cause*, unless it is there with a better standing already."""
        there = self._found.get(cause)
        if there is None or _RANK[standing] < _RANK[there.standing]:
            self._found[cause] = Cause(cause, standing, why)

    def rule_out(self, causes: Iterable[str], why: str) -> None:
        """Note that none of *causes* is the reason."""
        for cause in causes:
            self.add(cause, "ruled-out", why)

    @property
    def explained(self) -> bool:
        """Whether a cause is proved."""
        return any(cause.standing == "proved" for cause in self._found.values())

    @property
    def has_any(self) -> bool:
        """Whether a cause is proved or likely."""
        return any(cause.standing != "ruled-out" for cause in self._found.values())

    def causes(self) -> tuple[Cause, ...]:
        """All of them, the proved first, the ruled-out last, otherwise in the order in which they were noted."""
        return tuple(sorted(self._found.values(), key=lambda cause: _RANK[cause.standing]))
