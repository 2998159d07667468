"""What a message holds, from text to values: numbers, states, statuses, addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.guard.driver_rows import ALIASES, DRIVERS
from rdmaqp.guard.logs.linux import HERE, TEXTS
from rdmaqp.guard.logs.vocabulary import (
    CQE_SYNDROMES,
    CQE_TEXTS,
    DRIVER_OF_NAME,
    EVENTS,
    LINK_OF_NAME,
    REJECTS,
    STATES,
    STATUSES,
)
from rdmaqp.model.enums import DriverType, QPState, QPType, WCStatus
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Go's texts of the error numbers: glibc's, in lower case.
_LOWER = {text.lower(): number for text, number in TEXTS.items()}
#: mlx5's firmware commands that move a queue pair, and where they lead (``enum`` of MLX5_CMD_OP_* in mlx5_ifc.h).
_TO = {"RST": QPState.RESET, "INIT": QPState.INIT, "RTR": QPState.RTR, "RTS": QPState.RTS, "SQD": QPState.SQD,
       "ERR": QPState.ERR, "SQERR": QPState.SQE}  # fmt: skip
#: mlx4's, by number (``MLX4_CMD_RST2INIT_QP`` and the like, Linux include/linux/mlx4/cmd.h).
_MLX4_TO = {0x19: QPState.INIT, 0x1A: QPState.RTR, 0x1B: QPState.RTS, 0x1C: QPState.RTS, 0x1D: QPState.RTS,
            0x1E: QPState.ERR, 0x1F: QPState.SQD, 0x20: QPState.RTS, 0x21: QPState.RESET}  # fmt: skip
#: What mlx5's driver makes of the firmware's statuses (``cmd_status_to_err()``).
_FIRMWARE = {
    "bad parameter": "EINVAL", "bad resource": "EINVAL", "bad operation": "EINVAL", "bad system state": "EIO",
    "internal error": "EIO", "resource busy": "EBUSY", "exceed limit": "ENOMEM", "bad resource state": "EINVAL",
    "no resources": "EAGAIN", "limits exceeded": "ENOMEM", "bad index": "EINVAL", "bad size": "EINVAL",
    "bad packet": "EINVAL", "bad QP state": "EINVAL", "bad input length": "EIO", "bad output length": "EIO",
}  # fmt: skip


def read(found: Mapping[str, Any]) -> dict[str, Any]:
    """The values of *found* that are understood, by field. A field is left out where its text means nothing."""
    told: dict[str, Any] = {}
    for name, text in found.items():
        reader = _READERS.get(name)
        if reader is None or not isinstance(text, str):
            told[name] = text
            continue
        try:
            field, value = reader(text)
        except ValueError:  # what stands where a number should: a log may be cut, or two may be mixed
            continue
        if value is not None and told.get(field) is None:
            told[field] = value
    return told


def driver_of(device: str) -> str | None:
    """The driver that *device*'s name tells of; ``None`` for a name by link layer (rocep1s0), which any may have."""
    return next((driver for start, driver in DRIVER_OF_NAME.items() if device.startswith(start)), None)


def link_of(device: str) -> str | None:
    """The link layer that *device*'s name tells of (rdma-core's kernel-boot/rdma_rename.c)."""
    return next((link for start, link in LINK_OF_NAME.items() if device.startswith(start)), None)


def _number(field: str) -> Callable[[str], tuple[str, int | None]]:
    return lambda text: (field, int(text, 0 if text.startswith("0x") else 10))


def _errno(text: str) -> tuple[str, int | None]:
    return "errno", HERE.get(abs(int(text)))


def _status(text: str) -> tuple[str, int | None]:
    number = int(text, 16 if text.startswith("0x") else 10)
    return "status", WCStatus(number) if number in set(map(int, WCStatus)) - {0} else number or None


def _status_text(text: str) -> tuple[str, WCStatus | None]:
    return "status", STATUSES.get(text) or CQE_TEXTS.get(text)


def _gid(field: str) -> Callable[[str], tuple[str, GID | None]]:
    return lambda text: (field, gid(text))


def gid(text: str) -> GID | None:
    """A GID in any of the ways that programs print it; ``None`` where it is none.

    As an IPv6 or IPv4 address; as sixteen bytes in hexadecimal (Mooncake), or in decimal (perftest, of IPv4).
    """
    parts = text.split(":")
    if len(parts) == 16:
        base = 10 if any(len(part) == 3 for part in parts) else 16
        try:
            return GID(bytes(int(part, base) for part in parts))
        except ValueError:
            return None
    try:
        return GID.parse(text.rstrip("."))
    except ValueError:
        return None


def _type(text: str) -> tuple[str, QPType | DriverType | None]:
    if text in ("DCI", "DCT", "DC"):
        return "type", DriverType.DCT if text == "DCT" else DriverType.DCI
    return "type", {"RC": QPType.RC, "UC": QPType.UC, "UD": QPType.UD, "XRC": QPType.XRC_SEND}.get(text)


def _link(text: str) -> tuple[str, str]:
    return "link", "ETHERNET" if text.upper() in ("ROCE", "ETHERNET") else "INFINIBAND"


def _op(text: str) -> tuple[str, QPState | None]:
    """``INIT2RTR_QP``, ``2RST_QP``, ``rst2init``, ``SQERR2RTS``: where it leads."""
    end = text.upper().removesuffix("_QP").rpartition("2")[2]
    return "goal", _TO.get(end.strip("_"))


#: mlx5's commands by number (Linux include/linux/mlx5/mlx5_ifc.h, ``MLX5_CMD_OP_*``) -> where they lead.
_MLX5_TO = {
    0x502: QPState.INIT, 0x503: QPState.RTR, 0x504: QPState.RTS, 0x505: QPState.RTS, 0x506: QPState.RTS,
    0x507: QPState.ERR, 0x50A: QPState.RESET,
}  # fmt: skip


def _state_number(field: str) -> Callable[[str], tuple[str, QPState | None]]:
    """A state as the kernel's ``enum ib_qp_state`` counts it, in decimal or (0x) hexadecimal."""

    def reader(text: str) -> tuple[str, QPState | None]:
        number = int(text, 0 if text.startswith("0x") else 10)
        return field, QPState(number) if number < len(QPState) else None

    return reader


def _firmware(text: str) -> tuple[str, int | None]:
    import errno

    name = _FIRMWARE.get(text.strip())
    return "errno", getattr(errno, name) if name else None


_READERS: dict[str, Callable[[str], tuple[str, Any]]] = {
    "errno": _errno, "lower": lambda text: ("errno", _LOWER.get(text)),
    "error": lambda text: ("errno", TEXTS.get(text)), "status": _status, "status_text": _status_text,
    "cqe": lambda text: ("status", CQE_SYNDROMES.get(int(text, 16))), "vendor": _number("vendor_err"),
    "state": lambda text: ("state", STATES.get(text.upper())), "goal": lambda text: ("goal", STATES.get(text.upper())),
    "goal_number": _state_number("goal"), "state_number": _state_number("state"), "op": _op,
    "hex_op": lambda text: ("goal", _MLX5_TO.get(int(text, 16))),
    "firmware": _firmware, "mlx4_op": lambda text: ("goal", _MLX4_TO.get(int(text, 16))),
    "gid": _gid("gid"), "peer_gid": _gid("peer_gid"), "qpn": _number("qp_num"),
    "dest_qpn": _number("dest_qp_num"),
    "index": lambda text: ("gid_index", None if text.startswith("-") else int(text)),
    "port": _number("port"), "length": _number("length"), "access": _number("access"), "memlock": _number("memlock"),
    "memlock_kb": lambda text: ("memlock", int(text) * 1024),
    "type": _type, "link": _link, "event": lambda text: ("event", EVENTS.get(text)),
    "driver": lambda text: ("driver", text if text in DRIVERS else ALIASES.get(text)),
    "syndrome": lambda text: ("syndrome", int(text, 16)),
    "reject": lambda text: ("reject", int(text) or None), "reject_text": lambda text: ("reject", REJECTS.get(text)),
    "hex_status": lambda text: ("status", CQE_SYNDROMES.get(int(text, 16))),
    "hex_vendor": lambda text: ("vendor_err", int(text, 16)), "hex_qpn": lambda text: ("qp_num", int(text, 16)),
}  # fmt: skip
