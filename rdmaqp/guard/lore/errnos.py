"""What an error number means at which call, in a sentence. The rules behind it are asked of :mod:`..errnos`."""

from __future__ import annotations

import errno as e
from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.errors import errno_name
from rdmaqp.guard.errnos import ENOTSUPP

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODIFY, _POST, _CREATE, _MR, _AH = "ibv_modify_qp", "ibv_post_send", "ibv_create_qp", "ibv_reg_mr", "ibv_create_ah"
_AT_RTR = "ibv_modify_qp to RTR"
_LOOKUP = "the kernel has no route to the destination from the net device of the GID: never MTU, PSN, QPN or the mask"

#: Error number -> call -> what it says there.
ERRNOS: Mapping[int, Mapping[str, str]] = MappingProxyType({
    e.EINVAL: {
        _MODIFY: "nearly everything: no such arrow, a bit too few or too many in the mask, a port, an index past its "
                 "table, no GRH on RoCE, two GIDs of different family, a limit. Nothing is logged. `rdmaqp check` "
                 "tells which",
        _POST: "the state does not take it, too many pieces, or an opcode that the library does not know",
        _CREATE: "a capacity above the device's",
        _MR: "remote write or atomic without LOCAL_WRITE, or no length",
        _AH: "no GRH on RoCE, or a GID index past the table",
    },
    e.ETIMEDOUT: {_AT_RTR: "on RoCE: nobody answered for the destination's IP address (ARP, ND) within "
                  "a second. It is the address, the route or the peer's link: never MTU, PSN, QPN, the mask or the "
                  "depths. On a firmware driver also a command that was not answered"},
    e.ENETUNREACH: {_AT_RTR: _LOOKUP},
    e.EHOSTUNREACH: {_AT_RTR: _LOOKUP},
    e.EADDRNOTAVAIL: {_AT_RTR: "the source address cannot be used: IPv6 is disabled on the net device"},
    e.ENETDOWN: {_AT_RTR: "the net device of the GID is down"},
    e.EHOSTDOWN: {_AT_RTR: "the destination is known to be down"},
    e.ENODATA: {_MODIFY: "sgid_index names an empty slot of the GID table (kernels of today; earlier ones say EINVAL)",
                _AH: "sgid_index names an empty slot of the GID table"},
    e.ENODEV: {_MODIFY: "the GID at sgid_index has no net device here: it is gone, or in another network namespace"},
    e.EPERM: {_MODIFY: "a qkey with bit 31 without CAP_NET_RAW", _MR: "the process may not lock memory"},
    e.EACCES: {_MODIFY: "a security module (SELinux) does not let this process use the partition"},
    e.ENOMEM: {
        _MODIFY: "no memory, or a firmware at its limit. rxe: the state has changed all the same",
        _POST: "the queue is full, or (mlx5) the state is before RTS",
        _CREATE: "capacities above the device's, or no memory",
        _MR: "RLIMIT_MEMLOCK (ulimit -l): memory must be pinned, and the process may not pin as much",
    },
    e.EOPNOTSUPP: {
        _MODIFY: "a bit that this library, kernel or driver does not carry (bits from 21 on; RATE_LIMIT), or a type "
                 "that the driver does not have",
        _CREATE: "the driver has no such queue pair type",
        "ibv_query_qp": "a mask wider than the driver answers (EFA), or no such call at all (mana)",
    },
    ENOTSUPP: {_MODIFY: "the kernel's own ENOTSUPP, which a driver let out: not supported"},
    e.ENOSYS: {_MODIFY: "the driver has no such call, or an RSS queue pair (mlx5)"},
    e.EBUSY: {_MODIFY: "irdma: the queue pair did not suspend within 5 s; mlx5, mlx4: the firmware says busy"},
    e.EAGAIN: {_CREATE: "the limit of a control group (rdma.max), or a firmware without resources"},
    e.ENOSPC: {_MODIFY: "mlx5: the table of packet pacing rates is full"},
    e.EIO: {_MODIFY: "the firmware answered with an error (bnxt_re makes EIO of all of them): see dmesg",
            _POST: "erdma: the queue pair is in ERR"},
    e.EREMOTEIO: {_MODIFY: "mlx5: the firmware answered with a syndrome: see dmesg"},
    e.EBADF: {_MODIFY: "mlx4: the firmware does not know the resource, or finds it in another state"},
    e.ENXIO: {_MODIFY: "mlx4: the firmware is in a bad system state"},
    e.ECONNABORTED: {_MODIFY: "siw, erdma: the connection is being closed"},
    e.EFAULT: {_MR: "the address is not mapped in this process"},
})


def name_of(number: int) -> str:
    """The name of an error number, the kernel's own included."""
    return "ENOTSUPP" if number == ENOTSUPP else errno_name(number)
