"""What single drivers mean by an error number: data, each row with its source."""

from __future__ import annotations

import errno
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.guard.cause import Standing
    from rdmaqp.guard.scene import Act


class Answer(NamedTuple):
    """One driver's use of one error number.

    Attributes:
        acts: the verbs that answer so.
        source: under ``drivers/`` in Linux.
    """

    driver: str
    number: int
    cause: str
    standing: Standing
    why: str
    source: str
    acts: tuple[Act, ...] = ("modify", "create", "reg_mr", "ah")


_MLX5 = "net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_to_err()"
_MLX4 = "net/ethernet/mellanox/mlx4/cmd.c, mlx4_status_to_errno()"



def _post(driver: str, number: int, cause: str, why: str, source: str) -> Answer:
    """What a user library means when it takes no work; its *source* is under ``providers/`` in rdma-core."""
    return Answer(driver, number, cause, "likely", why, f"rdma-core providers/{source}", ("post",))


ANSWERS = (
    Answer("mlx5", errno.EREMOTEIO, "firmware-refused", "proved", "the firmware answered with an error status", _MLX5),
    Answer("mlx5", errno.EIO, "firmware-refused", "likely", "the firmware reports an internal error, a bad system "
           "state or a malformed command", _MLX5),
    Answer("mlx5", errno.ENOMEM, "firmware-refused", "likely", "the firmware is at one of its limits", _MLX5),
    Answer("mlx5", errno.EAGAIN, "firmware-refused", "proved", "the firmware has no resources left, or is not ready",
           _MLX5),
    Answer("mlx5", errno.EBUSY, "firmware-refused", "likely", "the firmware says that the object is busy", _MLX5),
    Answer("mlx5", errno.ENOSPC, "driver-refused", "likely", "the table of packet pacing rates is full",
           "net/ethernet/mellanox/mlx5/core/rl.c", ("modify",)),
    Answer("mlx4", errno.EBADF, "firmware-refused", "proved", "the firmware does not know the resource, or finds it in "
           "another state", _MLX4),
    Answer("mlx4", errno.ENXIO, "firmware-refused", "proved", "the firmware is in a bad system state", _MLX4),
    Answer("mlx4", errno.EBUSY, "firmware-refused", "proved", "the firmware says that the object is busy", _MLX4),
    Answer("mlx4", errno.ENOMEM, "firmware-refused", "likely", "the firmware is at one of its limits", _MLX4),
    Answer("mlx4", errno.EPERM, "firmware-refused", "likely", "the firmware does not know the operation", _MLX4),
    Answer("mlx4", errno.EIO, "firmware-refused", "proved", "the firmware reports an internal error", _MLX4),
    Answer("bnxt_re", errno.EIO, "firmware-refused", "proved", "the firmware answered with an error status: this "
           "driver makes EIO of all of them", "infiniband/hw/bnxt_re/qplib_rcfw.c"),
    Answer("irdma", errno.EBUSY, "driver-refused", "proved", "the queue pair did not suspend within 5 s",
           "infiniband/hw/irdma/verbs.c, irdma_wait_for_suspend()", ("modify",)),
    Answer("erdma", errno.ETIME, "firmware-refused", "proved", "the device did not answer the command in time",
           "infiniband/hw/erdma/erdma_cmdq.c"),
    Answer("erdma", errno.EIO, "firmware-refused", "proved", "the device answered the command with an error",
           "infiniband/hw/erdma/erdma_cmdq.c"),
    Answer("erdma", errno.ECONNABORTED, "driver-refused", "proved", "the connection is being closed",
           "infiniband/hw/erdma/erdma_qp.c", ("modify",)),
    Answer("siw", errno.ECONNABORTED, "driver-refused", "proved", "the connection is being closed: no state but ERR "
           "is left", "infiniband/sw/siw/siw_qp.c", ("modify",)),
    Answer("cxgb4", errno.EIO, "driver-refused", "proved", "access flags can only be changed while the queue pair is "
           "idle", "infiniband/hw/cxgb4/qp.c, c4iw_modify_qp()", ("modify",)),
    Answer("rxe", errno.ENOMEM, "driver-refused", "proved", "no memory for the responder's resources "
           "(max_dest_rd_atomic); the state has changed all the same: ask for it",
           "infiniband/sw/rxe/rxe_qp.c, rxe_qp_from_attr()", ("modify",)),
    # Of posts. Each library looks at the state that it has seen itself, and says "too early" in its own way.
    _post("mlx5", errno.ENOMEM, "post-full", "the queue is full: reap completions. Or this handle has not led the "
          "queue pair to RTS (it allows no pieces before), or the request has more pieces than max_send_sge",
          "mlx5/qp.c, mlx5_post_send(); mlx5/verbs.c, set_qp_operational_state()"),
    _post("mlx5", errno.EINVAL, "post-opcode", "an opcode that its table has not; a receive in RESET; with ibv_wr_…, a "
          "state before RTS", "mlx5/qp.c, mlx5_post_send(), mlx5_send_wr_complete_error()"),
    _post("rxe", errno.EINVAL, "post-state", "its library takes the queue pair to be before RTS (a receive: in RESET). "
          "The request lies in the ring all the same, and goes out with the next one posted in RTS: go through RESET, "
          "which empties the ring. In RTS it is what an atomic gets whose address there is no multiple of 8; that one "
          "is not in the ring",
          "rxe/rxe.c, rxe_post_send(), rxe_post_recv(), validate_send_wr()"),
    _post("hns", errno.EINVAL, "post-state", "its library takes the queue pair to be before RTS (a receive: in RESET)",
          "hns/hns_roce_u_hw_v2.c, check_qp_send(), check_qp_recv()"),
    _post("efa", errno.EINVAL, "post-state", "sends are taken in RTS and SQD only, receives neither in RESET nor in "
          "ERR", "efa/verbs.c, efa_post_send_validate(), efa_post_recv_validate()"),
    _post("mana", errno.EINVAL, "post-state", "sends are taken in RTS only, receives neither in RESET nor in ERR",
          "mana/wr.c"),
    _post("qedr", errno.EINVAL, "post-state", "sends are taken in RTS, SQD and ERR only, receives not in RESET",
          "qedr/qelr_verbs.c"),
    _post("erdma", errno.EIO, "post-state", "the queue pair is in ERR: bring it up again", "erdma/erdma_verbs.c"),
    _post("siw", errno.ENOMEM, "post-full", "the queue is full: reap completions", "siw/siw.c"),
)


#: How each user library says that the state does not take the work; several never look at it, and take everything.
SAYS_STATE: Mapping[str, frozenset[int]] = MappingProxyType(
    dict.fromkeys(("rxe", "hns", "efa", "mana", "qedr"), frozenset({errno.EINVAL}))
    | dict.fromkeys(("mlx4", "irdma", "bnxt_re", "siw"), frozenset())
    | {"mlx5": frozenset({errno.ENOMEM, errno.EINVAL}), "erdma": frozenset({errno.EIO})}
)


def of_driver(driver: str | None, act: Act, number: int) -> Answer | None:
    """What *driver* means by error *number*; ``None`` where that is not known."""
    for row in ANSWERS:
        if row.driver == driver and row.number == number and act in row.acts:
            return row
    return None


#: Where each driver leaves its reasons, besides ``dmesg``.
_LOOK_AT = {
    "mlx5": "`dmesg | grep mlx5`: the failed command with its syndrome (0x…), which NVIDIA's support can decode",
    "mlx4": "`dmesg | grep mlx4`: the failed command with its status",
    "bnxt_re": "`dmesg | grep bnxt`: the failed firmware command with its status",
    "irdma": "`dmesg | grep -e irdma -e ice`",
    "efa": "`dmesg | grep efa`: the failed admin command with its status",
    "rxe": "`echo module rdma_rxe +p > /sys/kernel/debug/dynamic_debug/control`, then `dmesg`: rxe says there why",
    "siw": "`echo module siw +p > /sys/kernel/debug/dynamic_debug/control`, then `dmesg`",
}


def look_at(driver: str | None) -> str:
    """Where to look next."""
    return _LOOK_AT.get(driver or "", "`dmesg`, right after the call, and the driver's and firmware's release notes")
