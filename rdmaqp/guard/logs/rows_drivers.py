"""What the kernel's drivers other than mlx5 and rxe print, and their libraries: EFA, hns, irdma, bnxt_re, mlx4, …"""

from __future__ import annotations

from rdmaqp.guard.logs.firmware import BEFORE, BY_TABLE, PASSED, RESULTS
from rdmaqp.guard.logs.pattern import Pattern, likely, proved

DRIVERS = (
    Pattern(
        "efa-command", "kernel, EFA", "modify", "Failed to process command MODIFY_QP",
        r"{device}: Failed to process command MODIFY_QP \(opcode \d+\) comp_status \d+ err {errno}",
        "Linux drivers/infiniband/hw/efa/efa_com.c, efa_com_cmd_exec()",
        driver="efa",
    ),
    Pattern(
        "efa-command-other", "kernel, EFA", "told", "Failed to process command",
        r"{device}: Failed to process command (?P<command>\w+) \(opcode \d+\)(?: comp_status \d+)? err {errno}",
        "Linux drivers/infiniband/hw/efa/efa_com.c, efa_com_cmd_exec(); aws/aws-ofi-nccl#22",
        reasons=(
            proved("firmware-refused", "the device answered the command with an error: on EFA that is often a limit "
                                       "of the instance (queue pairs, completion queues, protection domains)"),
        ),
        driver="efa",
    ),
    Pattern(
        "efa-modify-more", "kernel, EFA", "more", "Failed to ",
        r"{device}: Failed to (?:modify qp-{qpn} modify_mask|allocate pd|create (?:qp|cq)|register mr)",
        "Linux drivers/infiniband/hw/efa/efa_com_cmd.c",
        driver="efa",
    ),
    Pattern(
        "hns-modify", "kernel, hns", "modify", "failed to modify QP, ret",
        r"(?:hns3|hns_roce) \S+ {device}: failed to modify QP, ret = {errno}",
        "Linux drivers/infiniband/hw/hns/hns_roce_hw_v2.c, hns_roce_v2_modify_qp()",
        driver="hns",
    ),
    Pattern(
        "hns-completion", "kernel, hns", "completion", "error cqe status 0x",
        r"(?:hns3|hns_roce) \S+ {device}: error cqe status {cqe}:",
        "Linux drivers/infiniband/hw/hns/hns_roce_hw_v2.c, get_cqe_status(): the numbers are those of mlx5's syndromes",
        driver="hns",
    ),
    Pattern(
        "hns-event", "kernel, hns", "event", "work queue 0x",
        r"{device}: [Ll]ocal work queue {qpn} catast error, sub_event type is: \d+",
        "Linux drivers/infiniband/hw/hns/hns_roce_hw_v2.c, hns_roce_irq_work_handle()",
        driver="hns", event="local work queue catastrophic error",
    ),
    Pattern(
        "hns-event-access", "kernel, hns", "event", "ccess violation",
        r"{device}: [Ll]ocal access violation work queue {qpn} error",
        "Linux drivers/infiniband/hw/hns/hns_roce_hw_v2.c, hns_roce_irq_work_handle()",
        driver="hns", event="local access violation work queue error",
    ),
    Pattern(
        "irdma-modify", "kernel, irdma", "modify", "modify_qp invalid for qp_id",
        r"{device}: modify_qp invalid for qp_id={qpn}, old_state=(?P<state_number>0x\w+), "
        r"new_state=(?P<goal_number>0x\w+)",
        "Linux drivers/infiniband/hw/irdma/verbs.c, irdma_modify_qp_roce()",
        reasons=BY_TABLE,
        driver="irdma", errno="22",
    ),
    Pattern(
        "bnxt-mask", "kernel, bnxt_re", "told", "Invalid attribute mask",
        r"{device}: Invalid attribute mask: 0x\w+ specified",
        "Linux drivers/infiniband/hw/bnxt_re/ib_verbs.c, bnxt_re_modify_qp()",
        reasons=BY_TABLE,
        driver="bnxt_re", errno="22", made="ib_modify_qp",
    ),
    Pattern(
        "bnxt-mask-qp", "kernel, bnxt_re", "more", "for qpn:",
        r"{device}: for qpn: {qpn} type:",
        "Linux drivers/infiniband/hw/bnxt_re/ib_verbs.c, bnxt_re_modify_qp()",
    ),
    Pattern(
        "bnxt-mask-states", "kernel, bnxt_re", "more", "curr_qp_state=",
        r"{device}: curr_qp_state=(?P<state_number>0x\w+), new_qp_state=(?P<goal_number>0x\w+)",
        "Linux drivers/infiniband/hw/bnxt_re/ib_verbs.c, bnxt_re_modify_qp()",
    ),
    Pattern(
        "cxgb4-event", "kernel, cxgb4", "told", "AE qpid",
        r"AE qpid {qpn} opcode \d+ status 0x\w+ type \d",
        "Linux drivers/infiniband/hw/cxgb4/ev.c, dump_err_cqe()",
        reasons=(
            likely("firmware-refused", "the device ended the connection of this queue pair: the status is one of "
                                       "T4_ERR_… in drivers/infiniband/hw/cxgb4/t4.h (0x6: the peer ended it)"),
        ),
        driver="cxgb4", made="an asynchronous event",
    ),
    Pattern(
        "qedr-completion", "libqedr", "completion", "STS_TRANSPORT_RETRY_CNT_ERR",
        "REQ_STS_TRANSPORT_RETRY_CNT_ERR",
        "linux-rdma/rdma-core providers/qedr/qelr_verbs.c, qelr_poll_cq_req()",
        driver="qedr", status="12",
    ),
    Pattern(
        "mlx4-mask", "kernel, mlx4", "modify", "specified for transition",
        r"qpn {qpn}: invalid attribute mask specified for transition (?P<state_number>\d) to (?P<goal_number>\d)\.",
        "Linux drivers/infiniband/hw/mlx4/qp.c, _mlx4_ib_modify_qp()",
        reasons=BY_TABLE,
        driver="mlx4", errno="22",
    ),
    Pattern(
        "mlx4-command", "kernel, mlx4", "modify", "failed: fw status",
        r"mlx4_core (?P<pci>\S+): command (?P<mlx4_op>0x(?:19|1[a-f]|2[01])) failed: fw status = 0x\w+",
        "Linux drivers/net/ethernet/mellanox/mlx4/cmd.c, mlx4_cmd_wait(); include/linux/mlx4/cmd.h",
        reasons=RESULTS,
        innocent=PASSED, because=BEFORE,
        driver="mlx4",
    ),
    Pattern(
        "mlx4-qp-error", "libmlx4", "completion", "local QP operation err (QPN",
        r"local QP operation err \(QPN {hex_qpn}, WQE",
        "linux-rdma/rdma-core providers/mlx4/cq.c, mlx4_handle_error_cqe(); openucx/ucx#5318",
        driver="mlx4", status="2",
    ),
)

ROWS = (*DRIVERS,)
