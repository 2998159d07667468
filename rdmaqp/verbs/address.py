"""Address handles, and address vectors in C's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.attributes import AddressVector, GlobalRoute
from rdmaqp.model.gid import GID
from rdmaqp.model.request import QPFacts, Request
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource
from rdmaqp.verbs.asking import ask_guard

if TYPE_CHECKING:
    from rdmaqp.verbs.domain import ProtectionDomain


class AddressHandle(Resource):
    """``struct ibv_ah``: where a datagram goes.

    Attributes:
        number: what a send record calls it; 0 once it is closed.
    """

    kind = "address handle"
    _rank = 0

    def __init__(self, pd: ProtectionDomain, address: AddressVector) -> None:
        ffi, lib = native()
        ask_guard(lambda: _asked_for(pd, address))
        raw = ffi.new("struct ibv_ah_attr *", in_c(address))

        def make() -> Any:
            pointer = lib.ibv_create_ah(pd.handle, raw)
            handle = check_pointer("ibv_create_ah", pointer, f"{address}", lambda: _asked_for(pd, address))
            self.number = int(lib.rdmaqp_add_handle(pd.domain, handle))
            if not self.number:
                lib.ibv_destroy_ah(handle)
                raise MemoryError(f"no room to note an {self.kind} in its {pd.kind}")
            return handle

        self.pd = pd
        self.address = address
        super().__init__(make, pd)

    def _destroy(self, handle: Any) -> None:
        lib = native().lib
        lib.rdmaqp_drop_handle(self.pd.domain, self.number)  # first: no post may follow it while it ends
        self.number = 0
        try:
            check("ibv_destroy_ah", lib.ibv_destroy_ah(handle), self.kind)
        except VerbsError:
            self.number = int(lib.rdmaqp_add_handle(self.pd.domain, handle))
            raise


def _asked_for(pd: ProtectionDomain, address: AddressVector) -> Request:
    """What the guard is asked of an address handle."""
    context, number = pd.context, address.port_num
    if not 1 <= number <= context.attr.phys_port_cnt:
        return Request(qp=QPFacts(), ah=address, device=context.facts)
    port = context.port(number)
    return Request(
        qp=QPFacts(), ah=address, device=context.facts, port=port.facts,
        gids={entry.index: entry for entry in port.gids()}, gids_complete=True,
    )  # fmt: skip


def in_c(address: AddressVector) -> dict[str, Any]:
    """The initialiser of ``struct ibv_ah_attr``. cffi refuses a number that does not fit its field."""
    done: dict[str, Any] = {
        "port_num": address.port_num, "dlid": address.dlid, "sl": address.sl, "src_path_bits": address.src_path_bits,
        "static_rate": address.static_rate, "is_global": address.uses_grh,
    }  # fmt: skip
    route = address.grh
    if route is not None:
        done["grh"] = {
            "dgid": {"raw": GID.parse(route.dgid)}, "sgid_index": route.sgid_index, "flow_label": route.flow_label,
            "hop_limit": route.hop_limit, "traffic_class": route.traffic_class,
        }  # fmt: skip
    return done


def read(raw: Any) -> AddressVector:
    """The :class:`AddressVector` of a ``struct ibv_ah_attr``, as ``ibv_query_qp`` fills it."""
    grh = GlobalRoute(
        dgid=GID(bytes(native().ffi.buffer(raw.grh.dgid.raw)[:])),
        sgid_index=raw.grh.sgid_index,
        flow_label=raw.grh.flow_label,
        hop_limit=raw.grh.hop_limit,
        traffic_class=raw.grh.traffic_class,
    )
    return AddressVector(
        port_num=raw.port_num, dlid=raw.dlid, sl=raw.sl, src_path_bits=raw.src_path_bits,
        static_rate=raw.static_rate, grh=grh if raw.is_global else None, is_global=raw.is_global,
    )
