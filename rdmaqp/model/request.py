"""What the guard is asked: "this queue pair, on this port of this device, is about to be modified like this".

What is ``None`` is unknown: a check that needs it is not made, and named among what was skipped. Nothing is guessed.
The fields are those of the check contract, which are those of ``<infiniband/verbs.h>``. :mod:`rdmaqp.model.codec`
reads and writes them as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rdmaqp.model.acts import Completion, Failure, Piece, Post, Registration
from rdmaqp.model.brief import brief
from rdmaqp.model.facts import UNLIMITED, DeviceFacts, PortFacts, ProcessFacts, QPCap, QPFacts, Region

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.model.attributes import AddressVector, QPAttr
    from rdmaqp.model.endpoint import PeerRecord
    from rdmaqp.model.gid import GidEntry

__all__ = [
    "UNLIMITED", "Completion", "DeviceFacts", "Failure", "Piece", "PortFacts", "Post", "ProcessFacts", "QPCap",
    "QPFacts", "Region", "Registration", "Request",
]  # fmt: skip

_NO_DEVICE = DeviceFacts()
_NO_PORT = PortFacts()
_NO_PROCESS = ProcessFacts()


@dataclass(slots=True, kw_only=True)  # made anew for each call, and frozen would take four times as long
class Request:
    """One act to judge: exactly one of *attr*, *post*, *create*, *reg_mr* and *ah*.

    Attributes:
        qp: the queue pair before the call.
        attr: the attributes of a modify call.
        post: a work request about to be posted.
        create: the capacities asked of a new queue pair.
        reg_mr: a memory region about to be registered.
        ah: the address vector of a new address handle.
        mask: the ``ibv_qp_attr_mask`` bits; ``None`` derives them from *attr*.
        units: ``"abi"`` where the numbers come from a C struct: enumerations are then raw (a path_mtu of 1024 is no
            code), and only masked fields count as given, since a struct always holds every field.
        device, port: where it happens.
        ports: other ports of the device that are known.
        gids: the known slots of the port's GID table, by index.
        gids_complete: whether *gids* holds every slot in use, so that one not listed is empty.
        pkeys: the known partition keys, by index.
        mrs: the known memory regions; there may be others.
        peer: the other end's record.
        process: what the calling process may do.
        kernel: its (major, minor); unknown is read as the more permissive.
        failed: the call was made and failed like this: a diagnosis is asked for.
        completion: the work completed like this: a diagnosis is asked for.
        id: given back as it came.
    """

    qp: QPFacts
    attr: QPAttr | None = None
    post: Post | None = None
    create: QPCap | None = None
    reg_mr: Registration | None = None
    ah: AddressVector | None = None
    mask: int | None = None
    units: Literal["abi"] | None = None
    device: DeviceFacts = _NO_DEVICE
    port: PortFacts = _NO_PORT
    ports: tuple[PortFacts, ...] = ()
    gids: Mapping[int, GidEntry] = field(default_factory=dict)
    gids_complete: bool = False
    pkeys: Mapping[int, int] = field(default_factory=dict)
    mrs: tuple[Region, ...] = ()
    peer: PeerRecord | None = None
    process: ProcessFacts = _NO_PROCESS
    kernel: tuple[int, int] | None = None
    failed: Failure | None = None
    completion: Completion | None = None
    id: str | int | float | None = None

    __repr__ = brief

    def port_facts(self, num: object) -> PortFacts | None:
        """What is known of port *num*: it may be the port in question, or one of the others."""
        if self.port.num == num:
            return self.port
        return next((port for port in self.ports if port.num == num), None)
