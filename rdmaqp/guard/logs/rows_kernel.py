"""What the kernel log has of the RDMA core and its drivers."""

from __future__ import annotations

from rdmaqp.guard.logs.firmware import BEFORE, BY_TABLE, CREATED, PASSED, REFUSED, RESULTS
from rdmaqp.guard.logs.pattern import Pattern, likely, proved

MLX5 = (
    Pattern(
        "mlx5-command", "kernel, mlx5", "modify", "op_mod(0x",
        r"mlx5_core (?P<pci>\S+):.*? (?P<command>{op}(?:_QP)?)\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed, status "
        r"(?P<firmware>[\w ]+)\(0x[0-9a-f]+\), syndrome \({syndrome}\)(?:, err\({errno}\))?",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_cmd_check(), mlx5_cmd_out_err(); "
        "charmplusplus/charm#2532",
        reasons=RESULTS,
        innocent=PASSED, because=BEFORE,
        driver="mlx5",
    ),
    Pattern(
        "mlx5-command-create", "kernel, mlx5", "create", "op_mod(0x",
        r"mlx5_core (?P<pci>\S+):.*? (?P<command>CREATE_(?:QP|CQ|SRQ|XRC_SRQ|DCT|RMP|TIS|RQ|SQ))\(0x[0-9a-f]+\) "
        r"op_mod\(0x[0-9a-f]+\) failed, status (?P<firmware>[\w ]+)\(0x[0-9a-f]+\), syndrome \({syndrome}\)"
        r"(?:, err\({errno}\))?",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_cmd_out_err(); ofiwg/libfabric#7368",
        reasons=CREATED,
        driver="mlx5",
    ),
    Pattern(
        "mlx5-command-mkey", "kernel, mlx5", "reg_mr", "op_mod(0x",
        r"mlx5_core (?P<pci>\S+):.*? (?P<command>CREATE_MKEY)\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed, status "
        r"(?P<firmware>[\w ]+)\(0x[0-9a-f]+\), syndrome \({syndrome}\)(?:, err\({errno}\))?",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_cmd_out_err()",
        reasons=REFUSED,
        driver="mlx5",
    ),
    Pattern(
        "mlx5-command-other", "kernel, mlx5", "told", "op_mod(0x",
        r"mlx5_core (?P<pci>\S+):.*? (?P<command>\w+)\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed, status "
        r"(?P<firmware>[\w ]+)\(0x[0-9a-f]+\), syndrome \({syndrome}\)",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_cmd_check()",
        reasons=REFUSED,
        driver="mlx5",
    ),
    Pattern(
        "mlx5-command-timeout", "kernel, mlx5", "told", "Will cause a leak of a command",
        r"mlx5_core (?P<pci>\S+):.*? (?P<command>(?:{op}_QP)|\w+)\(0x[0-9a-f]+\) timeout\. Will cause a leak of a "
        "command resource",
        "Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, wait_func()",
        reasons=(
            proved("firmware-refused", "the firmware did not answer the command: the device hangs, or is being reset"),
            likely("device-missing", "or it was removed"),
        ),
        driver="mlx5", errno="110",
    ),
    Pattern(
        "mlx5-qp", "kernel, mlx5", "completion", " error: ",
        r"{device}/{port}: QP {qpn} error: (?:{status_text}|unrecognized status) \({vendor} 0x[0-9a-f]+ 0x[0-9a-f]+\)",
        "Linux drivers/infiniband/hw/mlx5/qp.c, mlx5_ib_qp_err_syndrome(); kvcache-ai/Mooncake#3299",
        driver="mlx5",
    ),
    Pattern(
        "mlx5-wc", "kernel, mlx5", "completion", "WC error:",
        r"(?:infiniband )?{device}: \w+:\d+:\(pid \d+\): WC error: {status}, Message: {status_text}",
        "Linux drivers/infiniband/hw/mlx5/cq.c, dump_cqe()",
        driver="mlx5",
    ),
    Pattern(
        "mlx5-create", "kernel, mlx5", "create", "Create QP type",
        r"(?:infiniband )?{device}: \w+:\d+:\(pid \d+\): Create QP type \d+ failed",
        "Linux drivers/infiniband/hw/mlx5/qp.c, create_qp()",
        driver="mlx5",
    ),
    Pattern(
        "mlx5-dump-head", "kernel, mlx5", "completion", "dump error cqe",
        r"(?:infiniband )?{device}: ?dump_cqe:\d+:\(pid \d+\): dump error cqe",
        "Linux drivers/infiniband/hw/mlx5/cq.c, dump_cqe()",
        driver="mlx5",
    ),
    Pattern(
        "mlx5-cqe", "kernel, mlx5", "completion", "vendor syndrome",
        r"(?:infiniband )?{device}: mlx5_poll_one:\d+:\(pid \d+\): syndrome {cqe}, vendor syndrome {vendor}",
        "Linux drivers/infiniband/hw/mlx5/cq.c, mlx5_poll_one(); linux-nvme/nvme-cli#3268",
        driver="mlx5",
    ),
    Pattern(
        "mlx5-cqe-head", "kernel, mlx5", "more", "error cqe on cqn",
        r"(?:infiniband )?{device}: mlx5_poll_one:\d+:\(pid \d+\): (?:Requestor|Responder) error cqe",
        "Linux drivers/infiniband/hw/mlx5/cq.c, mlx5_poll_one()",
    ),
)

RXE = (
    Pattern(
        "rxe-mask", "kernel, rxe", "told", "invalid mask or state",
        r"(?:(?!rdma_rxe){device}: )?(?:qp#{qpn} \w+: )?invalid mask or state",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr()",
        reasons=BY_TABLE,
        driver="rxe", made="ib_modify_qp",
    ),
    Pattern(
        "rxe-error-state", "kernel, rxe", "told", "moved to error state",
        r"(?:(?!rdma_rxe){device}: |rdma_rxe: ?)qp#{qpn} (?:\w+: )?moved to error state",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_error(); SoftRoCE/librxe-dev#10",
        reasons=(
            likely("flush-consequence", "this queue pair went to ERR: its first completion with an error, or the "
                                        "peer's, has the reason"),
        ),
        driver="rxe", made="a queue pair",
    ),
    Pattern(
        "rxe-rd-atomic", "kernel, rxe", "told", "invalid max_rd_atomic",
        r"(?:(?!rdma_rxe){device}: )?(?:qp#{qpn} \w+: )?invalid max_rd_atomic \d+ > \d+",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr()",
        reasons=(
            proved("rd-atomic-over-device", "max_rd_atomic is above what the device has (the second number)"),
        ),
        driver="rxe",
    ),
    Pattern(
        "rxe-timeout", "kernel, rxe", "told", "timeout",
        r"(?:(?!rdma_rxe){device}: )?(?:qp#{qpn} \w+: )?invalid (?:QP )?(?:alt )?timeout \d+ > 31",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr()",
        reasons=(
            proved("value-range", "timeout is a code of 0…31, not a time"),
        ),
        driver="rxe",
    ),
    Pattern(
        "rxe-mtu", "kernel, rxe", "told", "invalid mtu (",
        r"(?:(?!rdma_rxe){device}: )?(?:qp#{qpn} \w+: )?invalid mtu \(\d+\) > \(\d+\)",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr()",
        reasons=(
            proved("mtu-over-active", "path_mtu is above the port's (the second number): raise the net device's MTU, "
                                      "or lower path_mtu"),
        ),
        driver="rxe",
    ),
    Pattern(
        "rxe-cap", "kernel, rxe", "told", "invalid ",
        r"(?:(?!rdma_rxe){device}: )?(?:qp#{qpn} \w+: )?invalid (?:send|recv) (?:wr|sge) = \d+ > \d+",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_cap()",
        reasons=(
            proved("create-over-limit", "more was asked than the device has (the second number)"),
        ),
        driver="rxe",
    ),
    Pattern(
        "rxe-inline", "kernel, rxe", "told", "invalid max inline data",
        r"(?:(?!rdma_rxe){device}: )?(?:qp#{qpn} \w+: )?invalid max inline data = \d+ > \d+",
        "Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_cap()",
        reasons=(
            proved("create-over-limit", "max_inline_data is above what the device has (the second number)"),
        ),
        driver="rxe",
    ),
)

OTHERS = (
    Pattern(
        "bnxt-modify", "kernel, bnxt_re", "modify", "Failed to modify HW QP",
        r"(?:infiniband |bnxt_en \S+ ){device}: Failed to modify HW QP",
        "Linux drivers/infiniband/hw/bnxt_re/ib_verbs.c, bnxt_re_modify_qp()",
        reasons=REFUSED,
        innocent=PASSED, because=BEFORE,
        driver="bnxt_re",
    ),
    Pattern(
        "bnxt-command", "kernel, bnxt_re", "told", "cmdq[",
        r"QPLIB: (?:bnxt_\w+: )?(?:FW STALL Detected\. )?cmdq\[0x[0-9a-f]+\]=0x[0-9a-f]+ (?:timedout|send "
        "failed|status|waited)",
        "Linux drivers/infiniband/hw/bnxt_re/qplib_rcfw.c",
        reasons=(
            proved("firmware-refused", "the firmware did not carry out the command, or does not answer any more: the "
                                       "device needs a reset"),
        ),
        driver="bnxt_re",
    ),
    Pattern(
        "irdma-event", "kernel, irdma", "told", "abnormal ae_id",
        r"{device}: abnormal ae_id = (?P<ae>0x[0-9a-f]+) bool qp=\d qp_id = {qpn}",
        "Linux drivers/infiniband/hw/irdma/hw.c, irdma_process_aeq()",
        reasons=(
            likely("firmware-refused", "the device raised an asynchronous event on this queue pair, and the driver "
                                       "moves it to ERR: ae_id is listed in drivers/infiniband/hw/irdma/defs.h "
                                       "(IRDMA_AE_…)"),
        ),
        driver="irdma",
    ),
    Pattern(
        "core-psn", "kernel, core", "told", "_psn overflow",
        "(?P<field>[rs]q_psn) overflow, masking to 24 bits",
        "Linux drivers/infiniband/core/verbs.c, _ib_modify_qp()",
        reasons=(
            proved("value-range", "a packet number of more than 24 bits: the kernel cut it. Both ends must cut it "
                                  "alike, else they never meet"),
        ),
    ),
    Pattern(
        "core-mad", "kernel, core", "told", "Couldn't change QP",
        r"infiniband {device}: Couldn't change QP\d state to {goal}: {errno}",
        "Linux drivers/infiniband/core/mad.c, ib_mad_port_start()",
        reasons=(
            likely("firmware-refused", "not even the kernel's own queue pair comes up: the device or its firmware is "
                                       "not well"),
        ),
    ),
)

ROWS = (*MLX5, *RXE, *OTHERS)
