"""Multicast: what a UD queue pair receives besides what is sent to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.errors import DeviceError
from rdmaqp.model.attributes import as_int
from rdmaqp.model.enums import LinkLayer, QPType
from rdmaqp.model.gid import GID
from rdmaqp.verbs._native import check, native
from rdmaqp.verbs._resource import Resource

if TYPE_CHECKING:
    from rdmaqp.verbs.queue_pair import QueuePair

#: The destination queue pair of datagrams to a group.
MULTICAST_QPN = 0xFFFFFF
_FIRST_LID, _LAST_LID = 0xC000, 0xFFFE


class Membership(Resource):
    """A queue pair's membership of a multicast group (ibv_attach_mcast(3)). To close it, or the queue pair, ends it.

    Attributes:
        qp, gid, lid: who, and the group's addresses.
    """

    kind = "multicast membership"
    _rank = -1

    def __init__(self, qp: QueuePair, gid: GID | bytes | str, lid: int = 0) -> None:
        ffi, lib = native()
        self.qp, self.gid, self.lid = qp, GID.parse(gid), lid
        _require(qp, self.gid, lid)
        group = ffi.new("union ibv_gid *")
        group.raw = bytes(self.gid)

        def make() -> Any:
            self._of = qp.handle
            check("ibv_attach_mcast", lib.ibv_attach_mcast(self._of, group, lid), f"{qp}, {self}")
            return group

        super().__init__(make, qp)

    def __str__(self) -> str:
        return f"multicast group {self.gid}" + (f", LID {self.lid:#x}" if self.lid else "")

    def _destroy(self, handle: Any) -> None:
        check("ibv_detach_mcast", native().lib.ibv_detach_mcast(self._of, handle, self.lid), f"{self.qp}, {self}")


def membership(qp: QueuePair, gid: GID | bytes | str, lid: int = 0) -> Membership | None:
    """*qp*'s membership of that group; ``None`` where it has none."""
    wanted = GID.parse(gid), lid
    members = [child for child in list(qp._children.values()) if isinstance(child, Membership)]
    return next((member for member in members if (member.gid, member.lid) == wanted), None)


def _require(qp: QueuePair, gid: GID, lid: int) -> None:
    """What ib_attach_mcast() of the kernel looks at, and answers EINVAL or EOPNOTSUPP for.

    Raises:
        ValueError: the type, the GID or the LID cannot be.
        DeviceError: the device has no multicast.
    """
    qp.require_open()
    context = qp.pd.context
    if qp.type is not QPType.UD:
        raise ValueError(f"{qp} cannot be in a multicast group: only UD queue pairs can")
    if not gid.is_multicast:
        raise ValueError(
            f"gid: {gid} is no multicast GID: ff00::/8, or an IPv4-mapped 224.0.0.0/4 such as ::ffff:239.1.2.3"
        )
    if context.attr.max_mcast_grp == 0:
        raise DeviceError(f"device {context.name} has no multicast groups (max_mcast_grp is 0)")
    number = as_int(lid)
    if number is None or not 0 <= number <= 0xFFFF:
        raise ValueError(f"lid: {lid!r} is outside 0…0xffff")
    layers = {context.port(qp.port_num).facts.link_layer} if qp.port_num else set()
    if LinkLayer.INFINIBAND in layers and not _FIRST_LID <= number <= _LAST_LID:
        raise ValueError(
            f"lid: {number:#x} is no multicast LID, {_FIRST_LID:#x}…{_LAST_LID:#x}: on InfiniBand the subnet manager "
            "gives it when the group is joined"
        )
    if membership(qp, gid, number) is not None:
        raise ValueError(f"{qp} is in multicast group {gid} already")
