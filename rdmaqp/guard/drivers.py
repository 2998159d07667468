"""What a kernel driver narrows, widens or silently changes, as data. Each row says where it was read or measured.

An unknown driver has no row here: the core table and the fields' own ranges decide alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.model.enums import GidType, QPState

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One driver's ways.

    Attributes:
        missing_arrows: arrows of the core table that it has not, with the reason.
        unchecked_without_state: the kernel (major, minor) from which on it does not ask the table when the mask has
            no STATE; ``None``: it always asks.
        ignores_pkey_index: it stores whatever it is given.
        gid_types: the GID types that it can send from; ``None`` is all.
        initiator_limit: the ``ibv_device_attr`` field that bounds max_rd_atomic.
        responder_limit: the one that bounds max_dest_rd_atomic.
        max_sl_ethernet: the highest service level that survives on Ethernet.
        source: where this stands.
    """

    missing_arrows: Mapping[tuple[QPState, QPState], str] = field(default_factory=dict)
    unchecked_without_state: tuple[int, int] | None = None
    ignores_pkey_index: bool = False
    gid_types: frozenset[GidType] | None = None
    initiator_limit: str = "max_qp_init_rd_atom"
    responder_limit: str = "max_qp_rd_atom"
    max_sl_ethernet: int = 15
    source: str = ""


_NO_SQD = "ConnectX has no send queue drain state for this type of queue pair"
_HNS_NO_SQD = "this device has neither SQD nor SQE"
RTS, SQD, SQE = QPState.RTS, QPState.SQD, QPState.SQE

UNKNOWN = Driver()

DRIVERS: Mapping[str, Driver] = MappingProxyType({
    "rxe": Driver(
        unchecked_without_state=(6, 2),  # measured: 6.1 asks the table, 6.12 does not
        ignores_pkey_index=True,
        gid_types=frozenset({GidType.ROCE_V2}),
        initiator_limit="max_qp_rd_atom",
        source="Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr(), __qp_chk_state(); rxe_av.c, chk_attr()",
    ),
    "mlx5": Driver(
        missing_arrows={(RTS, SQD): _NO_SQD, (SQD, SQD): _NO_SQD},
        max_sl_ethernet=7,
        source="Linux drivers/infiniband/hw/mlx5/qp.c, __mlx5_ib_modify_qp(), optab",
    ),
    "mlx4": Driver(max_sl_ethernet=7, source="Linux drivers/infiniband/hw/mlx4/qp.c, mlx4_set_path()"),
    "hns": Driver(
        missing_arrows=dict.fromkeys(
            [(RTS, SQD), (SQD, QPState.RESET), (SQD, RTS), (SQD, SQD), (SQE, RTS)], _HNS_NO_SQD
        ),
        max_sl_ethernet=7,
        source="Linux drivers/infiniband/hw/hns/hns_roce_hw_v2.c, check_qp_state()",
    ),
    "irdma": Driver(
        unchecked_without_state=(0, 0),
        source="Linux drivers/infiniband/hw/irdma/verbs.c, irdma_modify_qp_roce()",
    ),
    "bnxt_re": Driver(
        unchecked_without_state=(0, 0),
        ignores_pkey_index=True,
        responder_limit="max_qp_init_rd_atom",
        source="Linux drivers/infiniband/hw/bnxt_re/ib_verbs.c, bnxt_re_modify_qp()",
    ),
})


def driver_of(name: str | None) -> Driver:
    """The ways of driver *name*; those of the core alone where it is unknown."""
    return DRIVERS.get(name or "", UNKNOWN)
