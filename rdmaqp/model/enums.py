"""The enumerations of ``<infiniband/verbs.h>``, without their prefix.

The numbers are the kernel's ABI. They stand here because the guard works where nothing can be compiled; a test
compares each of them with what the compiler says (``tests/verbs/test_constants.py``).
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag
from typing import Self


class Named(IntEnum):
    """A number that reads as its name: ``print(qp.state)`` says RTS, where Python's IntEnum says 3."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec[-1:] in _FOR_NUMBERS else format(self.name, spec)


class Reported(Named):
    """What a kernel may report that is newer than this list: a number without a name is its own name, and no error."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, int):
            return None
        new = int.__new__(cls, value)
        new._name_, new._value_ = str(value), value
        return new


class NamedFlag(IntFlag):
    """Bits that read as their names, joined by ``|``; a bit without one as hexadecimal."""

    def __str__(self) -> str:
        known = [str(flag.name) for flag in type(self) if flag & self]
        rest = int(self) & ~int(sum(type(self)))
        return "|".join([*known, f"{rest:#x}"] if rest or not known else known)

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec[-1:] in _FOR_NUMBERS else format(str(self), spec)


_FOR_NUMBERS = frozenset("bcdoxXneEfFgG%")


class QPType(Named):
    """``enum ibv_qp_type``: the kinds of queue pair."""

    RC = 2
    UC = 3
    UD = 4
    RAW_PACKET = 8
    XRC_SEND = 9
    XRC_RECV = 10
    DRIVER = 0xFF


class DriverType(Enum):
    """Which of a driver's own types a ``DRIVER`` queue pair is; each has a table of its own."""

    DCI = "DCI"
    DCT = "DCT"
    SRD = "SRD"


class QPState(Named):
    """``enum ibv_qp_state``, without ``UNKNOWN``, which is only libibverbs' word for "not asked yet"."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6


class AttrMask(NamedFlag):
    """``enum ibv_qp_attr_mask``: which fields of ``ibv_qp_attr`` a modify call carries.

    Bits 21 to 24 were kernel-only and never part of this interface.
    """

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    EN_SQD_ASYNC_NOTIFY = 1 << 2
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    QKEY = 1 << 6
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    CAP = 1 << 19
    DEST_QPN = 1 << 20
    RATE_LIMIT = 1 << 25


class AccessFlag(NamedFlag):
    """``enum ibv_access_flags``: what a memory region, or a queue pair's peer, is allowed."""

    LOCAL_WRITE = 1 << 0
    REMOTE_WRITE = 1 << 1
    REMOTE_READ = 1 << 2
    REMOTE_ATOMIC = 1 << 3
    MW_BIND = 1 << 4
    ZERO_BASED = 1 << 5
    ON_DEMAND = 1 << 6
    HUGETLB = 1 << 7
    FLUSH_GLOBAL = 1 << 8
    FLUSH_PERSISTENT = 1 << 9
    RELAXED_ORDERING = 1 << 20


class MTU(Named):
    """``enum ibv_mtu``. :func:`mtu_code` and :func:`mtu_bytes` convert."""

    MTU_256 = 1
    MTU_512 = 2
    MTU_1024 = 3
    MTU_2048 = 4
    MTU_4096 = 5


class MigState(Named):
    """``enum ibv_mig_state``: automatic path migration."""

    MIGRATED = 0
    REARM = 1
    ARMED = 2


class LinkLayer(Reported):
    """``IBV_LINK_LAYER_*``: decides RoCE or InfiniBand; a LID of 0 does not."""

    UNSPECIFIED = 0
    INFINIBAND = 1
    ETHERNET = 2


class PortState(Reported):
    """``enum ibv_port_state``."""

    NOP = 0
    DOWN = 1
    INIT = 2
    ARMED = 3
    ACTIVE = 4
    ACTIVE_DEFER = 5


class GidType(Reported):
    """``enum ibv_gid_type``: what a GID table entry speaks."""

    IB = 0
    ROCE_V1 = 1
    ROCE_V2 = 2


class Transport(Reported):
    """``enum ibv_transport_type``, with ``UNKNOWN`` as libibverbs has it."""

    UNKNOWN = -1
    IB = 0
    IWARP = 1
    USNIC = 2
    USNIC_UDP = 3
    UNSPECIFIED = 4


class AtomicCap(Reported):
    """``enum ibv_atomic_cap``: who sees atomics as atomic."""

    NONE = 0
    HCA = 1
    GLOB = 2


class DeviceCap(NamedFlag):
    """``enum ibv_device_cap_flags``: ``ibv_device_attr.device_cap_flags``."""

    RESIZE_MAX_WR = 1 << 0
    BAD_PKEY_CNTR = 1 << 1
    BAD_QKEY_CNTR = 1 << 2
    RAW_MULTI = 1 << 3
    AUTO_PATH_MIG = 1 << 4
    CHANGE_PHY_PORT = 1 << 5
    UD_AV_PORT_ENFORCE = 1 << 6
    CURR_QP_STATE_MOD = 1 << 7
    SHUTDOWN_PORT = 1 << 8
    INIT_TYPE = 1 << 9
    PORT_ACTIVE_EVENT = 1 << 10
    SYS_IMAGE_GUID = 1 << 11
    RC_RNR_NAK_GEN = 1 << 12
    SRQ_RESIZE = 1 << 13
    N_NOTIFY_CQ = 1 << 14
    MEM_WINDOW = 1 << 17
    UD_IP_CSUM = 1 << 18
    XRC = 1 << 20
    MEM_MGT_EXTENSIONS = 1 << 21
    MEM_WINDOW_TYPE_2A = 1 << 23
    MEM_WINDOW_TYPE_2B = 1 << 24
    RC_IP_CSUM = 1 << 25
    RAW_IP_CSUM = 1 << 26
    MANAGED_FLOW_STEERING = 1 << 29


class WCStatus(Named):
    """``enum ibv_wc_status``: how a work request ended."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_EEC_OP_ERR = 3
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    MW_BIND_ERR = 6
    BAD_RESP_ERR = 7
    LOC_ACCESS_ERR = 8
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    LOC_RDD_VIOL_ERR = 14
    REM_INV_RD_REQ_ERR = 15
    REM_ABORT_ERR = 16
    INV_EECN_ERR = 17
    INV_EEC_STATE_ERR = 18
    FATAL_ERR = 19
    RESP_TIMEOUT_ERR = 20
    GENERAL_ERR = 21
    TM_ERR = 22
    TM_RNDV_INCOMPLETE = 23


class WCOpcode(Named):
    """``enum ibv_wc_opcode``: what has completed."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    COMP_SWAP = 3
    FETCH_ADD = 4
    BIND_MW = 5
    LOCAL_INV = 6
    TSO = 7
    RECV = 128
    RECV_RDMA_WITH_IMM = 129


class AsyncEventType(Reported):
    """``enum ibv_event_type``: what has befallen a queue pair, a queue, a port or the device."""

    CQ_ERR = 0
    QP_FATAL = 1
    QP_REQ_ERR = 2
    QP_ACCESS_ERR = 3
    COMM_EST = 4
    SQ_DRAINED = 5
    PATH_MIG = 6
    PATH_MIG_ERR = 7
    DEVICE_FATAL = 8
    PORT_ACTIVE = 9
    PORT_ERR = 10
    LID_CHANGE = 11
    PKEY_CHANGE = 12
    SM_CHANGE = 13
    SRQ_ERR = 14
    SRQ_LIMIT_REACHED = 15
    QP_LAST_WQE_REACHED = 16
    CLIENT_REREGISTER = 17
    GID_CHANGE = 18
    WQ_FATAL = 19


def mask_names(mask: int) -> tuple[str, ...]:
    """The names in *mask*, lowest bit first; a bit without a name appears as its hexadecimal value."""
    names = []
    rest = mask
    while rest:
        bit = rest & -rest
        rest ^= bit
        names.append(MASK_NAMES.get(bit, f"{bit:#x}"))
    return tuple(names)


MASK_NAMES: dict[int, str] = {flag.value: str(flag.name) for flag in AttrMask}


def mtu_code(value: int) -> int | None:
    """The ``ibv_mtu`` code of *value*, given in bytes (256…4096) or as the code itself (1…5); else ``None``."""
    if 1 <= value <= 5:
        return value
    return _CODE_OF_MTU.get(value)


def mtu_bytes(value: int) -> int | None:
    """The bytes of an MTU given in bytes or as its ``ibv_mtu`` code; ``None`` where it is neither."""
    code = mtu_code(value)
    return None if code is None else 128 << code


_CODE_OF_MTU = {128 << code: code for code in range(1, 6)}
