"""The kernel's own list of queue pairs (``rdma resource show qp``), and what has changed from one look to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rdmaqp.host.answers import Refused, Unknown, ask_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Names of states and types, as the tool has them (iproute2 ``rdma/res-qp.c``).
STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
TYPES = ("RC", "UC", "UD", "XRC_INI", "XRC_TGT", "RAW_PACKET", "DRIVER", "GSI", "SMI")


@dataclass(frozen=True, slots=True)
class QueuePairView:
    """A queue pair as the kernel sees it.

    Attributes:
        number: its own, 24 bits.
        peer: the number that it is connected to; ``None`` where it is not connected, or the driver does not say.
        rq_psn, sq_psn: as the driver answers ``query_qp``: what it was given, or where it is now.
        pid: whose it is; ``None`` for the kernel's own, and where this process may not see it.
        process: the owner's name; in brackets a kernel module's.
    """

    device: str
    port: int | None
    number: int
    type: str
    state: str
    peer: int | None = None
    rq_psn: int | None = None
    sq_psn: int | None = None
    pid: int | None = None
    process: str = ""

    @property
    def key(self) -> tuple[str, int, int | None]:
        """Which it is: device, number, owner. A number is given again once its queue pair is gone."""
        return self.device, self.number, self.pid


def queue_pairs() -> tuple[QueuePairView, ...] | Refused | Unknown:
    """All queue pairs that this network namespace shows, by device and number."""
    found = ask_json("rdma", "-jd", "resource", "show", "qp")
    if isinstance(found, (Refused, Unknown)):
        return found
    if not isinstance(found, list):
        return Unknown("rdma resource show qp gave no list")
    made = [each for entry in found if isinstance(entry, dict) and (each := _queue_pair(entry)) is not None]
    return tuple(sorted(made, key=lambda each: (each.device, each.number, each.pid or 0)))


def _queue_pair(entry: Mapping[str, Any]) -> QueuePairView | None:
    number, device = entry.get("lqpn"), entry.get("ifname")
    if not isinstance(number, int) or not isinstance(device, str):
        return None
    return QueuePairView(
        device=device, port=_int(entry, "port"), number=number, type=str(entry.get("type", "?")),
        state=str(entry.get("state", "?")), peer=_int(entry, "rqpn"), rq_psn=_int(entry, "rq-psn"),
        sq_psn=_int(entry, "sq-psn"), pid=_int(entry, "pid"), process=str(entry.get("comm", "")),
    )  # fmt: skip


def _int(entry: Mapping[str, Any], name: str) -> int | None:
    value = entry.get(name)
    return value if isinstance(value, int) else None


class Change(NamedTuple):
    """What has happened to one queue pair between two looks.

    Attributes:
        what: ``new``, ``gone``, or ``moved`` from one state to another.
        was: the state before; ``None`` where it is new.
    """

    what: Literal["new", "gone", "moved"]
    queue_pair: QueuePairView
    was: str | None = None


def changes(before: Iterable[QueuePairView], after: Iterable[QueuePairView]) -> Iterator[Change]:
    """What is new, what has moved, what is gone, in this order. What happened and was undone in between is not seen."""
    old, new = {each.key: each for each in before}, {each.key: each for each in after}
    for key, each in new.items():
        if key not in old:
            yield Change("new", each)
        elif old[key].state != each.state:
            yield Change("moved", each, old[key].state)
    for key, each in old.items():
        if key not in new:
            yield Change("gone", each, each.state)
