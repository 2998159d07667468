"""The words of the field, as programs print them: statuses, events, firmware commands, names of devices."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.model.enums import AsyncEventType, QPState, WCStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

_S = WCStatus

#: ``ibv_wc_status_str()`` (rdma-core libibverbs/enum_strs.c), ``ib_wc_status_msg()`` (Linux core/verbs.c), and the
#: names in ``<infiniband/verbs.h>``.
STATUSES: Mapping[str, WCStatus] = MappingProxyType({
    "local length error": _S.LOC_LEN_ERR, "local QP operation error": _S.LOC_QP_OP_ERR,
    "local EE context operation error": _S.LOC_EEC_OP_ERR, "local protection error": _S.LOC_PROT_ERR,
    "Work Request Flushed Error": _S.WR_FLUSH_ERR, "WR flushed": _S.WR_FLUSH_ERR,
    "memory management operation error": _S.MW_BIND_ERR, "memory bind operation error": _S.MW_BIND_ERR,
    "bad response error": _S.BAD_RESP_ERR, "local access error": _S.LOC_ACCESS_ERR,
    "remote invalid request error": _S.REM_INV_REQ_ERR, "remote access error": _S.REM_ACCESS_ERR,
    "remote operation error": _S.REM_OP_ERR, "transport retry counter exceeded": _S.RETRY_EXC_ERR,
    "RNR retry counter exceeded": _S.RNR_RETRY_EXC_ERR, "local RDD violation error": _S.LOC_RDD_VIOL_ERR,
    "remote invalid RD request": _S.REM_INV_RD_REQ_ERR, "aborted error": _S.REM_ABORT_ERR,
    "operation aborted": _S.REM_ABORT_ERR, "invalid EE context number": _S.INV_EECN_ERR,
    "invalid EE context state": _S.INV_EEC_STATE_ERR, "fatal error": _S.FATAL_ERR,
    "response timeout error": _S.RESP_TIMEOUT_ERR, "general error": _S.GENERAL_ERR, "TM error": _S.TM_ERR,
    **{f"IBV_WC_{status.name}": status for status in WCStatus if status},
})  # fmt: skip

#: Of them, those that other things than completions say too: they count beside a word of the field only.
DOUBTFUL = (
    "fatal error", "general error", "response timeout error", "aborted error", "operation aborted", "TM error",
)  # fmt: skip
#: UCX's own words for mlx5's syndromes (src/uct/ib/mlx5/ib_mlx5_log.c).
CQE_TEXTS: Mapping[str, WCStatus] = MappingProxyType({
    "Local length error": _S.LOC_LEN_ERR, "Local QP operation error": _S.LOC_QP_OP_ERR,
    "Local protection error": _S.LOC_PROT_ERR, "WR flushed because QP in error state": _S.WR_FLUSH_ERR,
    "Memory window bind error": _S.MW_BIND_ERR, "Bad response": _S.BAD_RESP_ERR,
    "Local access error": _S.LOC_ACCESS_ERR, "Invalid request": _S.REM_INV_REQ_ERR,
    "Remote access error": _S.REM_ACCESS_ERR, "Remote operation error": _S.REM_OP_ERR, "Remote OP": _S.REM_OP_ERR,
    "Remote access": _S.REM_ACCESS_ERR, "Transport retry count exceeded": _S.RETRY_EXC_ERR,
    "Receive-no-ready retry count exceeded": _S.RNR_RETRY_EXC_ERR, "Remote side aborted": _S.REM_ABORT_ERR,
    "Receiver-not-ready retry count exceeded": _S.RNR_RETRY_EXC_ERR,
})  # fmt: skip

#: The syndromes of mlx5's error completions (``enum`` of MLX5_CQE_SYNDROME_*, rdma-core providers/mlx5/mlx5dv.h).
CQE_SYNDROMES: Mapping[int, WCStatus] = MappingProxyType({
    0x01: _S.LOC_LEN_ERR, 0x02: _S.LOC_QP_OP_ERR, 0x04: _S.LOC_PROT_ERR, 0x05: _S.WR_FLUSH_ERR, 0x06: _S.MW_BIND_ERR,
    0x10: _S.BAD_RESP_ERR, 0x11: _S.LOC_ACCESS_ERR, 0x12: _S.REM_INV_REQ_ERR, 0x13: _S.REM_ACCESS_ERR,
    0x14: _S.REM_OP_ERR, 0x15: _S.RETRY_EXC_ERR, 0x16: _S.RNR_RETRY_EXC_ERR, 0x22: _S.REM_ABORT_ERR,
})  # fmt: skip

_E = AsyncEventType

#: ``ibv_event_type_str()`` (rdma-core libibverbs/enum_strs.c), and the names in ``<infiniband/verbs.h>``.
EVENTS: Mapping[str, AsyncEventType] = MappingProxyType({
    "CQ error": _E.CQ_ERR, "local work queue catastrophic error": _E.QP_FATAL,
    "invalid request local work queue error": _E.QP_REQ_ERR,
    "local access violation work queue error": _E.QP_ACCESS_ERR,
    "communication established": _E.COMM_EST, "send queue drained": _E.SQ_DRAINED, "path migrated": _E.PATH_MIG,
    "path migration request error": _E.PATH_MIG_ERR, "local catastrophic error": _E.DEVICE_FATAL,
    "port active": _E.PORT_ACTIVE, "port error": _E.PORT_ERR, "LID change": _E.LID_CHANGE,
    "P_Key change": _E.PKEY_CHANGE, "SM change": _E.SM_CHANGE, "SRQ catastrophic error": _E.SRQ_ERR,
    "SRQ limit reached": _E.SRQ_LIMIT_REACHED, "last WQE reached": _E.QP_LAST_WQE_REACHED,
    "client reregistration": _E.CLIENT_REREGISTER, "GID table change": _E.GID_CHANGE, "WQ fatal": _E.WQ_FATAL,
    **{f"IBV_EVENT_{event.name}": event for event in _E},
})  # fmt: skip

#: The events of ``<rdma/rdma_cma.h>`` that tell of a failure.
CM_FAILURES = (
    "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_ERROR",
    "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL",
    "RDMA_CM_EVENT_MULTICAST_ERROR",
)  # fmt: skip

#: ``rdma_reject_msg()`` (Linux drivers/infiniband/core/cm.c, ``ibcm_rej_reason_strs``) -> the number
#: (``enum ib_cm_rej_reason``; InfiniBand Architecture Specification, volume 1, 12.6.7.2).
REJECTS: Mapping[str, int] = MappingProxyType({
    "no QP": 1, "no EEC": 2, "no resources": 3, "timeout": 4, "unsupported": 5, "invalid comm ID": 6,
    "invalid comm instance": 7, "invalid service ID": 8, "invalid transport type": 9, "stale conn": 10,
    "RDC not exist": 11, "invalid GID": 12, "invalid LID": 13, "invalid SL": 14, "invalid traffic class": 15,
    "invalid hop limit": 16, "invalid packet rate": 17, "port CM redirect": 24, "port redirect": 25, "invalid MTU": 26,
    "insufficient resp resources": 27, "consumer defined": 28, "invalid RNR retry": 29,
    "duplicate local comm ID": 30, "invalid class version": 31, "invalid flow label": 32,
})  # fmt: skip

#: A state's name as programs write it -> the state.
STATES: Mapping[str, QPState] = MappingProxyType(
    {state.name: state for state in QPState} | {"RST": QPState.RESET, "ERROR": QPState.ERR}
)

#: Device names by their beginnings: the kernel's own, and those of rdma-core's kernel-boot/rdma_rename.c, which names
#: by the link layer alone.
DRIVER_OF_NAME: Mapping[str, str] = MappingProxyType({
    "mlx5": "mlx5", "mlx4": "mlx4", "mthca": "mthca", "rxe": "rxe", "siw": "siw", "irdma": "irdma",
    "bnxt_re": "bnxt_re",
    "hns": "hns", "erdma": "erdma", "efa": "efa", "hfi1": "hfi1", "qib": "qib", "qedr": "qedr", "cxgb4": "cxgb4",
    "mana": "mana", "ocrdma": "ocrdma",
})  # fmt: skip
LINK_OF_NAME: Mapping[str, str] = MappingProxyType({"roce": "ETHERNET", "ibp": "INFINIBAND", "ibs": "INFINIBAND"})
