"""What NVSHMEM, DeepEP and Mooncake print."""

from __future__ import annotations

from rdmaqp.guard.logs.firmware import DIRECT, REFUSED, UNASKED
from rdmaqp.guard.logs.pattern import Pattern, likely, proved

NVSHMEM = (
    Pattern(
        "nvshmem-modify", "NVSHMEM", "modify", "ibv_modify_qp failed",
        r"ibrc\.cpp:\d+: non-zero status: {errno}\b.*?ibv_modify_qp failed",
        "NVIDIA/nvshmem src/modules/transport/ibrc/ibrc.cpp; NVIDIA/nvshmem#42, deepseek-ai/DeepEP#268, #321",
        type="RC",
    ),
    Pattern(
        "nvshmem-devx", "NVSHMEM", "modify", "mlx5dv_devx_obj_modify",
        r"non-zero status: {errno}\b.*?Error in mlx5dv_devx_obj_modify for {op}_QP with syndrome {syndrome}",
        "NVIDIA/nvshmem src/modules/transport/ibgda/ibgda.cpp; deepseek-ai/DeepEP#17, NVIDIA/nvshmem#45",
        reasons=REFUSED,
        innocent=UNASKED, because=DIRECT,
        driver="mlx5",
    ),
    Pattern(
        "nvshmem-dct", "NVSHMEM", "modify", "for dct failed",
        "non-zero status: {errno} ibv_modify_qp {op} for dct failed",
        "NVIDIA/nvshmem src/modules/transport/ibgda/ibgda.cpp",
        type="DCT", driver="mlx5",
    ),
    Pattern(
        "nvshmem-poll", "NVSHMEM", "completion", "ibv_poll_cq failed, status",
        "ibv_poll_cq failed, status: {status}",
        "NVIDIA/nvshmem src/modules/transport/ibrc/ibrc.cpp, progress_send()",
    ),
    Pattern(
        "nvshmem-post", "NVSHMEM", "post", "ibv_post_send failed",
        "non-zero status: {errno} ibv_post_send failed",
        "NVIDIA/nvshmem src/modules/transport/ibrc/ibrc.cpp",
        queue="send",
    ),
    Pattern(
        "nvshmem-ah", "NVSHMEM", "ah", "Unable to create ah",
        "NULL value Unable to create ah",
        "NVIDIA/nvshmem src/modules/transport/ibgda/ibgda.cpp, ibgda_create_ah(); NVIDIA/nvshmem#33",
    ),
    Pattern(
        "nvshmem-consequence", "NVSHMEM", "more", "failed",
        r"non-zero status: 7\b.*|connect EPS failed|nvshmem setup connections failed|ibgda_rc_\w+ failed|Failed to "
        "initialize all selected devices",
        "NVIDIA/nvshmem src/host/transport/transport.cpp, src/host/init/init.cu",
    ),
    Pattern(
        "deepep-timeout", "DeepEP", "told", "DeepEP",
        "DeepEP .*timeout",
        "deepseek-ai/DeepEP csrc/kernels/legacy/internode.cu, deep_ep/include/deep_ep/impls",
        reasons=(
            likely("peer-unreachable", "a GPU kernel waited in vain for another rank's data: that rank has ended, or "
                                       "a queue pair to it is in ERR. This message is the consequence: look for the "
                                       "first error of any rank"),
        ),
    ),
)

MOONCAKE = (
    Pattern(
        "mooncake-modify", "Mooncake", "modify", "[Handshake] Failed to modify QP",
        r"\[Handshake\] Failed to modify QP to {goal}(?:, check [\w ,]*\w)?(?:: local=(?:\S+@)?{device}, "
        r"peer={peer}@\S+ *, qp_index=\d+, local_qp={qpn}, peer_qp={dest_qpn}, "
        r"local_gid={gid}, local_gid_index={index}, "
        r"peer_gid={peer_gid}, peer_lid=\d+, path_mtu=\d+, port_num={port})?: {error}(?: \[{errno}\])?",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_endpoint.cpp, "
        "doSetupConnection(); kvcache-ai/Mooncake#204, sgl-project/sglang#6548",
        type="RC",
    ),
    Pattern(
        "mooncake-slice", "Mooncake", "completion", "Process failed for slice",
        r"Process failed for slice \(opcode: \d+, .*?length: {length}, .*?local_nic: {device}, peer_nic: {peer}@\S+, "
        r".*?\): {status_text}",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/worker_pool.cpp, performPollCq(); "
        "kvcache-ai/Mooncake#507, #1450, sgl-project/sglang#6854",
    ),
    Pattern(
        "mooncake-async", "Mooncake", "event", "context async event",
        "Received context async event {event} for context {device}",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/worker_pool.cpp, "
        "doProcessContextEvents()",
    ),
    Pattern(
        "mooncake-reg", "Mooncake", "reg_mr", "Failed to register memory",
        r"Failed to register memory (?:0x)?[0-9a-f]+: {error} \[{errno}\]",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp",
    ),
    Pattern(
        "mooncake-create", "Mooncake", "create", "Failed to create QP",
        r"Failed to create QP: {error} \[{errno}\]",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_endpoint.cpp, construct()",
    ),
    Pattern(
        "mooncake-create-cq", "Mooncake", "create", "Failed to create completion queue",
        r"Failed to create completion queue: {error} \[{errno}\]",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp, construct()",
        made="ibv_create_cq",
    ),
    Pattern(
        "mooncake-port", "Mooncake", "told", "port not active",
        "Device {device} port not active",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp, openRdmaDevice()",
        reasons=(
            proved("port-inactive", "this device's port is not ACTIVE: it is passed over"),
        ),
    ),
    Pattern(
        "mooncake-gid-null", "Mooncake", "told", "GID is NULL",
        "GID is NULL, please check your GID index",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp",
        reasons=(
            proved("sgid-empty", "the slot of the GID table that MC_GID_INDEX names (or the one found) is empty"),
        ),
    ),
    Pattern(
        "mooncake-peer-gid", "Mooncake", "told", "Invalid peer GID",
        "Invalid peer GID: {peer_gid}",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_endpoint.cpp",
        reasons=(
            proved("dgid-invalid", "the other end told a GID that is none: its own GID index is wrong there"),
        ),
    ),
    Pattern(
        "mooncake-stale", "Mooncake", "told", "Peer QP list mismatch",
        "Peer QP list mismatch on connected endpoint",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_endpoint.cpp",
        reasons=(
            proved("peer-stale", "the other end was restarted: its queue pairs are not those that this end is "
                                 "connected to"),
        ),
    ),
    Pattern(
        "mooncake-qp-count", "Mooncake", "told", "QP count mismatch",
        "QP count mismatch in peer and local endpoints",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_endpoint.cpp",
        reasons=(
            proved("peer-qpn", "the two ends were told different numbers of queue pairs: MC_MAX_EP_PER_CTX and "
                               "MC_NUM_QP_PER_EP must be the same"),
        ),
    ),
    Pattern(
        "mooncake-no-device", "Mooncake", "told", "No matched device found",
        "No matched device found: {device}",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp, openRdmaDevice()",
        reasons=(
            proved("device-missing", "libibverbs lists no device of that name in this process"),
        ),
    ),
    Pattern(
        "mooncake-device", "Mooncake", "facts", "RDMA device:",
        r"RDMA device: {device}, LID: \d+, GID: \(GID_Index {index}\) {gid}",
        "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp, construct()",
    ),
)

ROWS = (*NVSHMEM, *MOONCAKE)
