"""The drivers, one row each, as read in Linux 6.12 and rdma-core 65, or measured (rxe, on 6.1 and 6.12).

Each row has its source: paths are under ``drivers/infiniband/`` in Linux, or under ``providers/`` in rdma-core.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.guard.drivers import ALWAYS, UNKNOWN, Driver
from rdmaqp.model.acts import WROpcode as Op
from rdmaqp.model.enums import AttrMask, DriverType, GidType, MigState, QPState, QPType

if TYPE_CHECKING:
    from collections.abc import Mapping

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
RC, UC, UD, RAW_PACKET, XRC_SEND, XRC_RECV, DRIVER = QPType

_CONNECTED_AND_UD = frozenset({RC, UC, UD})
_RC_AND_UD = frozenset({RC, UD})
_ONLY_RC = frozenset({RC})
_ROCE_V2 = frozenset({GidType.ROCE_V2})
_DEPTHS = frozenset({"max_rd_atomic", "max_dest_rd_atomic"})
_RTS_ONLY = frozenset({("send", SQD), ("send", SQE), ("send", ERR), ("recv", ERR)})

#: Nobody may arm the path but the hardware, and in SQD it is not given another one.
_RDMAVT_MIG = {MigState.REARM: frozenset({RTS}), MigState.MIGRATED: frozenset({RTS, SQD})}

_NO_SQD = "no operation of the firmware leads there"
_RAW_SQD = "the send queue of a raw packet queue pair has no such operation"
_HNS_SQD = "this device has neither SQD nor SQE"
_QEDR_RESET = "its user library knows the way from ERR only, and fails after the kernel has moved the queue pair"

#: What iWARP sends (RFC 5040): no immediate data, no atomics.
_IWARP_OPS = frozenset({Op.SEND, Op.SEND_WITH_INV, Op.RDMA_WRITE, Op.RDMA_READ, Op.LOCAL_INV})
_SRD_OPS = frozenset({Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_READ, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM})
_RXE_UC_OPS = frozenset({
    Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM, Op.BIND_MW, Op.SEND_WITH_INV,
})
_RXE_UD_OPS = frozenset({Op.SEND, Op.SEND_WITH_IMM, Op.SEND_WITH_INV})

_ROWS = (
    Driver(
        name="rxe",
        source="Linux sw/rxe/rxe_qp.c, rxe_qp_chk_attr(), __qp_chk_state(); measured on 6.1 and 6.12",
        types=_CONNECTED_AND_UD,
        ethernet=True,
        unchecked_since=(6, 2),  # measured: 6.1 asks the table, 6.12 does not
        refused_unchecked={UD: int(AttrMask.ACCESS_FLAGS)},
        waits_for_drain=True,
        sticks_in_sqd_since=(6, 2),  # measured: 6.1 does not, 6.12 does; nobody has tried those between
        looks_when_told=True,  # its user library's post_recv does not enter the kernel; →RTS starts no task
        ignores_pkey_index=True,
        gid_types=_ROCE_V2,
        initiator_limit="max_qp_rd_atom",
        depth_most=128,
        rounds_depths=True,
        overruns_raised_depth=True,  # rxe_qp_from_attr() clears as many old ones as there will be; 6.1 died
        access_since=(6, 12),  # measured: 6.1 takes any 32 bits
        access_flags=0x3FF0035F,
        opcodes={UC: _RXE_UC_OPS, UD: _RXE_UD_OPS},
    ),
    Driver(
        name="mlx5",
        source="Linux hw/mlx5/qp.c, __mlx5_ib_modify_qp(), optab, modify_raw_packet_qp(), mlx5_set_path()",
        driver_types=frozenset({DriverType.DCI, DriverType.DCT}),
        missing_arrows={(RTS, SQD): _NO_SQD, (SQD, SQD): _NO_SQD},
        missing_by_type={RAW_PACKET: dict.fromkeys([(RTS, SQD), (SQD, RTS), (SQD, SQD), (SQE, RTS)], _RAW_SQD)},
        rate_limit={RAW_PACKET: ALWAYS},
        rounds_depths=True,
        atomics_with_depth=True,  # set_qpc_atomic_flags(): without a depth, the flag is dropped first
        rate_high=23,
        max_sl_ethernet=7,
    ),
    Driver(
        name="mlx4",
        checks_alt_pkey=True,
        source="Linux hw/mlx4/qp.c, __mlx4_ib_modify_qp(), _mlx4_set_path()",
        types=frozenset({RC, UC, UD, RAW_PACKET, XRC_SEND, XRC_RECV}),
        raw_on_ethernet_only=True,
        rounds_depths=True,
        max_sl_ethernet=7,
    ),
    Driver(
        name="mthca",
        checks_alt_pkey=True,
        source="Linux hw/mthca/mthca_qp.c, mthca_modify_qp()",
        types=_CONNECTED_AND_UD,
        mtu_high=2048,
    ),
    Driver(
        name="irdma",
        source="Linux hw/irdma/verbs.c, irdma_modify_qp_roce(), irdma_modify_qp()",
        types=_RC_AND_UD,
        ethernet=True,
        unchecked_since=ALWAYS,
        spoilt_by_reset=True,
        flushes_in_sqd=True,
        first_pkey_only=True,
    ),
    Driver(
        name="bnxt_re",
        source="Linux hw/bnxt_re/ib_verbs.c, bnxt_re_modify_qp()",
        types=frozenset({RC, UD, RAW_PACKET}),
        ethernet=True,
        unchecked_since=ALWAYS,
        # "IB/core: Extend rate limit support for RC QPs", posted in January 2026: no release before 7.0 has it.
        rate_limit={RC: (7, 0)},
        ignores_pkey_index=True,
        initiator_limit="max_qp_rd_atom",
        responder_limit="max_qp_init_rd_atom",
    ),
    Driver(
        name="efa",
        source="Linux hw/efa/efa_verbs.c, efa_modify_qp_validate(), srd_qp_state_table; efa/verbs.c",
        types=frozenset({UD, DRIVER}),
        driver_types=frozenset({DriverType.SRD}),
        first_pkey_only=True,
        first_port_only=True,
        post_refused=frozenset({("send", SQE), ("send", ERR), ("recv", ERR)}),
        opcodes={UD: frozenset({Op.SEND, Op.SEND_WITH_IMM}), DRIVER: _SRD_OPS},
    ),
    Driver(
        name="hns",
        source="Linux hw/hns/hns_roce_hw_v2.c, check_qp_state(), hns_roce_v2_set_path(); hns_roce_qp.c",
        types=frozenset({RC, UD, XRC_SEND, XRC_RECV}),
        ethernet=True,
        missing_arrows=dict.fromkeys(
            [(RTS, SQD), (SQD, RESET), (SQD, RTS), (SQD, SQD), (SQD, ERR), (SQE, RESET), (SQE, RTS), (SQE, ERR)],
            _HNS_SQD,
        ),
        excess={(RTR, RTS): int(AttrMask.PATH_MIG_STATE)},
        max_sl_ethernet=7,
        timeout_high=20,
    ),
    Driver(
        name="erdma",
        source="Linux hw/erdma/erdma_verbs.c, erdma_check_qp_attrs(), erdma_qp_validate_attr()",
        types=_RC_AND_UD,
        ethernet=True,
        first_pkey_only=True,
        gid_types=_ROCE_V2,
        unchecked_depths=_DEPTHS,
        post_refused=frozenset({("send", ERR), ("recv", ERR)}),
    ),
    Driver(
        name="hfi1",
        checks_alt_pkey=True,
        mig_goals=_RDMAVT_MIG,
        source="Linux sw/rdmavt/qp.c, rvt_modify_qp()",
        types=_CONNECTED_AND_UD,
        wide_lids=True,
        unchecked_depths=frozenset({"max_rd_atomic"}),
    ),
    Driver(
        name="qib",
        checks_alt_pkey=True,
        mig_goals=_RDMAVT_MIG,
        source="Linux sw/rdmavt/qp.c, rvt_modify_qp()",
        types=_CONNECTED_AND_UD,
        unchecked_depths=frozenset({"max_rd_atomic"}),
    ),
    Driver(
        name="qedr",
        source="Linux hw/qedr/verbs.c, qedr_modify_qp(); qedr/qelr_verbs.c, qelr_update_qp_state()",
        types=frozenset({RC, XRC_SEND, XRC_RECV}),
        ethernet=True,
        missing_arrows=dict.fromkeys(
            [(INIT, RESET), (RTR, RESET), (RTS, RESET), (SQD, RESET), (SQE, RESET)], _QEDR_RESET
        ),
    ),
    Driver(
        name="ocrdma",
        source="Linux hw/ocrdma/ocrdma_hw.c, ocrdma_set_av_params(), ocrdma_set_qp_params()",
        types=_CONNECTED_AND_UD,
        ethernet=True,
        mtu_low=512,
    ),
    Driver(
        name="pvrdma",
        source="Linux hw/vmw_pvrdma/pvrdma_qp.c, pvrdma_modify_qp()",
        types=_RC_AND_UD,
        ethernet=True,
    ),
    Driver(
        name="siw",
        source="Linux sw/siw/siw_verbs.c, siw_verbs_modify_qp(); siw_qp.c, siw_qp_modify()",
        types=_ONLY_RC,
        iwarp=True,
        opcodes={RC: _IWARP_OPS},
    ),
    Driver(
        name="cxgb4",
        source="Linux hw/cxgb4/qp.c, c4iw_ib_modify_qp(), c4iw_modify_qp()",
        types=_ONLY_RC,
        iwarp=True,
    ),
    Driver(
        name="usnic",
        source="Linux hw/usnic/usnic_ib_verbs.c, usnic_ib_modify_qp()",
        types=frozenset({UD}),
        asks_table=False,
        needs_state=True,
        first_port_only=True,
    ),
    Driver(
        name="ionic",
        source="Linux hw/ionic/ionic_controlpath.c, ionic_check_modify_qp(), ionic_create_qp(); rdma-core ionic/",
        types=_CONNECTED_AND_UD,
        ethernet=True,
        refuses_high_qkeys=True,
    ),
    Driver(
        name="mana",
        source="mana/qp.c, mana_modify_qp(), mana/wr.c; Linux hw/mana/qp.c: the firmware decides",
        types=_ONLY_RC,
        creates=frozenset({RC, RAW_PACKET}),
        ethernet=True,
        unchecked_depths=_DEPTHS,
        post_refused=_RTS_ONLY,
    ),
)

DRIVERS: Mapping[str, Driver] = MappingProxyType({row.name: row for row in _ROWS})

#: The same drivers under their module's name, or under that of the PCI function that they sit on.
ALIASES: Mapping[str, str] = MappingProxyType({
    "rdma_rxe": "rxe", "mlx5_ib": "mlx5", "mlx5_core": "mlx5", "mlx4_ib": "mlx4", "mlx4_core": "mlx4",
    "ib_mthca": "mthca", "ice": "irdma", "i40e": "irdma", "bnxt_en": "bnxt_re", "hns_roce_hw_v2": "hns",
    "hns-roce-hw-v2": "hns", "hns_roce": "hns", "hns3": "hns", "ib_qib": "qib", "rdmavt": "qib", "qede": "qedr",
    "be2net": "ocrdma", "vmw_pvrdma": "pvrdma", "iw_cxgb4": "cxgb4", "usnic_verbs": "usnic", "mana_ib": "mana",
})  # fmt: skip


def driver_of(name: str | None) -> Driver:
    """The row of driver *name*, also under another of its names; ``UNKNOWN`` where there is none."""
    if name is None:
        return UNKNOWN
    return DRIVERS.get(name) or DRIVERS.get(ALIASES.get(name, ""), UNKNOWN)


#: Provider libraries whose name is not the kernel driver's.
_DRIVER_OF_PROVIDER = {"hfi1verbs": "hfi1", "ipathverbs": "qib", "vmw_pvrdma": "pvrdma"}


def driver_of_provider(file: str) -> str | None:
    """The kernel driver's name, by the *file* of the provider's code; ``None`` where that says nothing."""
    match = re.match(r"lib([a-z0-9_]+?)(-rdmav\d+)?\.so", PurePath(file).name)
    if match is None or match[1] == "ibverbs":
        return None
    return _DRIVER_OF_PROVIDER.get(match[1], match[1])
