"""What storage systems, RPC libraries and frameworks print: Ceph, Gluster, brpc, gloo, QEMU, DiSNI and others."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern, likely, proved

STORAGE = (
    Pattern(
        "ceph-modify", "Ceph", "modify", "failed to ",
        r"modify_qp_to_\w+ failed to (?:transition|switch) to {goal} state(?:.{0,60}?\({errno}\) {error})?",
        "ceph/ceph src/msg/async/rdma/Infiniband.cc, modify_qp_to_rtr()",
    ),
    Pattern(
        "ceph-create", "Ceph", "create", "failed to create queue pair",
        r"failed to create queue pair(?:.{0,8}?\({errno}\) {error})?",
        "ceph/ceph src/msg/async/rdma/Infiniband.cc, QueuePair::init()",
    ),
    Pattern(
        "ceph-completion", "Ceph", "completion", "returned error for buffer(",
        r"work request returned error for buffer\(\w*\) status\({status}\s?:\s?{status_text}|"
        r"work request returned error for buffer\(\w*\) status\({status2}\):\s?{status_text2}",
        "ceph/ceph src/msg/async/rdma/RDMAStack.cc, handle_tx_event(), handle_rx_event()",
    ),
    Pattern(
        "gluster-completion", "GlusterFS", "completion", "returned error wc.status",
        r"work request on `{device}' returned error wc\.status = {status}, wc\.vendor_err = {vendor}",
        "gluster/glusterfs rpc/rpc-transport/rdma/src/rdma.c, gf_rdma_handle_failed_send_completion()",
    ),
    Pattern(
        "disni-completion", "DiSNI", "completion", "wc.status ",
        r"operation! wc\.status {status}\b",
        "zrlio/disni; zrlio/crail: dispatchCqEvent()",
    ),
    Pattern(
        "qemu-completion", "QEMU", "completion", "ibv_poll_cq wc.status=",
        r"ibv_poll_cq wc\.status={status} {status_text}",
        "qemu/qemu migration/rdma.c, qemu_rdma_poll()",
    ),
)

RPC = (
    Pattern(
        "brpc-modify", "brpc", "modify", "Fail to modify QP from",
        r"Fail to modify QP from {state} to {goal}: {error}",
        "apache/brpc src/brpc/rdma/rdma_endpoint.cpp, BringUpQp()",
    ),
    Pattern(
        "brpc-completion", "brpc", "completion", "Fail to handle RDMA completion",
        r"Fail to handle RDMA completion, error status\({status}\)",
        "apache/brpc src/brpc/rdma/rdma_endpoint.cpp, PollCq()",
    ),
    Pattern(
        "brpc-consequence", "brpc", "more", "Fail to bringup QP",
        "Fail to bringup QP, fallback to tcp",
        "apache/brpc src/brpc/rdma/rdma_endpoint.cpp",
    ),
    Pattern(
        "gloo-modify", "Gloo", "modify", "gloo/transport/ibverbs/pair.cc",
        r"gloo/transport/ibverbs/pair\.cc:\d+\] rv == 0\. {errno} vs 0",
        "facebookincubator/gloo gloo/transport/ibverbs/pair.cc, Pair::Pair(), connect()",
    ),
    Pattern(
        "mscclpp-completion", "MSCCL++", "completion", "a work item failed: status",
        r"a work item failed: status {status}\b",
        "microsoft/mscclpp src/connection.cc; microsoft/mscclpp#315",
    ),
    Pattern(
        "uccl-state", "UCCL", "completion", "CQ state error",
        r"CQ state error: {status}\b",
        "uccl-project/uccl collective/rdma/rdma_io.cc; uccl-project/uccl#293",
    ),
    Pattern(
        "dlsm-completion", "a verbs program", "completion", "got bad completion with status",
        r"got bad completion with status: {status}, vendor syndrome: {vendor}",
        "ruihong123/dLSM#7, as in Mellanox' rdma_aware_programming example; linux-rdma/rdma-core",
    ),
)

FRAMEWORKS = (
    Pattern(
        "tensorflow-modify", "TensorFlow", "modify", "Check failed: !ibv_modify_qp(",
        r"Check failed: !ibv_modify_qp\(.*?QP to Ready to Receive {errno}",
        "tensorflow/networking tensorflow_networking/verbs/rdma.cc, RdmaChannel::Connect()",
        goal="RTR", type="RC",
    ),
    Pattern(
        "tensorflow-modify-other", "TensorFlow", "modify", "Check failed: !ibv_modify_qp(",
        r"Check failed: !ibv_modify_qp\(.*?QP to (?:{goal}|Ready to Send) {errno}",
        "tensorflow/networking tensorflow_networking/verbs/rdma.cc, RdmaChannel::Connect()",
        type="RC",
    ),
    Pattern(
        "tensorflow-completion", "TensorFlow", "completion", "",
        r"^(?:.*Failed status )?\s*{status_text} {status} \d+ \d+ {vendor}\s*$",
        "tensorflow/networking tensorflow_networking/verbs/rdma.cc, RdmaAdapter::Process_CQ()",
    ),
    Pattern(
        "hccl-create", "HCCL", "create", "creat qp failed",
        "creat qp failed, localDeviceId",
        "Ascend CANN transport_ibverbs.cc; vllm-project/vllm-ascend#2406",
    ),
    Pattern(
        "dpdk-modify", "DPDK, mlx5", "modify", "Failed to modify QP using DevX",
        r"Failed to modify QP using DevX",
        "DPDK/dpdk drivers/common/mlx5/mlx5_devx_cmds.c, mlx5_devx_cmd_modify_qp_state()",
        reasons=(
            proved("firmware-refused", "the firmware answered the command with an error: see dmesg for its syndrome, "
                                       "or run with --log-level=pmd.common.mlx5:debug"),
        ),
        driver="mlx5",
    ),
    Pattern(
        "dpdk-create", "DPDK, mlx5", "create", "Failed to create QP",
        r"mlx5_\w+: .*?Failed to create QP\b",
        "DPDK/dpdk drivers/common/mlx5/mlx5_devx_cmds.c, mlx5_devx_cmd_create_qp()",
        driver="mlx5",
    ),
    Pattern(
        "efa-peer", "libfabric", "told", "efa:cq:",
        "efa:cq:.*?message: Unresponsive receiver",
        "ofiwg/libfabric prov/efa/src/efa_errno.h; aws/aws-ofi-nccl",
        reasons=(
            likely("peer-not-ready", "the other end's EFA device is reached, and its queue pair does not answer: its "
                                     "process ended or never finished its start (a security group that does not let "
                                     "the group itself in and out shows as unreachable)"),
            likely("peer-unreachable", "or the security group does not allow all traffic from and to itself"),
        ),
        driver="efa", made="a work request",
    ),
    Pattern(
        "ofi-completion", "aws-ofi-nccl", "told", "completed with error. RC:",
        r"NET/OFI Request \w+(?: seq \d+)? completed with error\. RC: \d+",
        "aws/aws-ofi-nccl src/nccl_ofi_rdma.cpp, nccl_ofi_sendrecv.cpp; aws/aws-ofi-nccl#161",
        reasons=(
            likely("peer-not-ready", "a transfer over EFA failed; the words after Error: are the provider's. The other "
                                     "rank may have ended first: look for the first error of any rank"),
            likely("peer-unreachable", "or the security group does not allow all traffic from and to itself"),
        ),
        driver="efa", made="a work request",
    ),
)

ROWS = (*STORAGE, *RPC, *FRAMEWORKS)
