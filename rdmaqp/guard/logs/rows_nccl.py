"""What NCCL prints, and RCCL with it; UCCL, MSCCL++ and rdma_bench."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern, proved

NCCL = (
    Pattern(
        "nccl-modify", "NCCL", "modify", "ibv_modify_qp failed with",
        "Call to ibv_modify_qp failed with {errno} {error}, on dev {device}:{port}, curr state {state}, next state "
        "{goal}, local GID index {index}, local GID {gid}, remote GID {peer_gid}",
        "NVIDIA/nccl src/misc/ibvwrap.cc, wrap_ibv_modify_qp(), ibvModifyQpLog()",
    ),
    Pattern(
        "nccl-modify-error", "NCCL", "modify", "ibv_modify_qp failed with error",
        "Call to ibv_modify_qp failed with error {error}(?: errno {errno})?",
        "NVIDIA/nccl src/misc/ibvwrap.cc before 2.24; NVIDIA/nccl#925, NVIDIA/nccl-tests#227",
    ),
    Pattern(
        "nccl-modify-errno", "NCCL", "modify", "ibv_modify_qp failed with error",
        "Call to ibv_modify_qp failed with error .{1,80}? errno {errno}",
        "NVIDIA/nccl src/misc/ibvwrap.cc, where strerror() speaks the locale's language",
    ),
    Pattern(
        "nccl-create-cq", "NCCL", "create", "ibv_create_cq failed",
        "Call to ibv_create_cq failed(?: with error {error})?(?: errno {errno})?",
        "NVIDIA/nccl src/misc/ibvwrap.cc, IBV_PTR_CHECK_ERRNO; NVIDIA/nccl#1191, #380",
        made="ibv_create_cq",
    ),
    Pattern(
        "nccl-create-qp", "NCCL", "create", "ibv_create_qp failed",
        "Call to ibv_create_qp failed(?: with error {error})?(?: errno {errno})?",
        "NVIDIA/nccl src/misc/ibvwrap.cc, IBV_PTR_CHECK_ERRNO",
    ),
    Pattern(
        "nccl-reg-mr", "NCCL", "reg_mr", "ibv_reg_",
        "Call to ibv_reg_(?:dmabuf_)?mr(?:_iova2)? failed(?: with error {error})?(?: errno {errno})?",
        "NVIDIA/nccl src/misc/ibvwrap.cc, IBV_PTR_CHECK_ERRNO",
    ),
    Pattern(
        "nccl-post-send", "NCCL", "post", "ibv_post_send() failed",
        r"ibv_post_send\(\) failed with error {error}",
        "NVIDIA/nccl src/include/ibvwrap.h, wrap_ibv_post_send()",
        queue="send",
    ),
    Pattern(
        "nccl-post-recv", "NCCL", "post", "ibv_post_recv() failed",
        r"ibv_post_recv\(\) failed with error {error}",
        "NVIDIA/nccl src/include/ibvwrap.h, wrap_ibv_post_recv()",
        queue="recv",
    ),
    Pattern(
        "nccl-completion", "NCCL", "completion", "Got completion ",
        r"Got completion (?:from peer {peer}(?:<\d+>)? )?with (?:status=|error ){status},? opcode[= ]-?\d+,? "
        r"len[= ]-?\d+,? vendor err "
        r"{vendor}(?: \((?P<request>\w+)\))?(?:\s+localGid\s+{gid})?(?:\s+remoteGids?\s*{peer_gid})?(?:\s+hca "
        "{device})?",
        "NVIDIA/nccl src/transport/net_ib.cc, ncclIbTest(); net_ib/gin.cc; NVIDIA/nccl#1405, #1814, #1664; "
        "pytorch/pytorch#81628",
    ),
    Pattern(
        "nccl-completion-named", "NCCL", "completion", "Got completion from peer",
        r"Got completion from peer {peer}(?:<\d+>)? with status=\w+\({status}\) opcode=\w+\(-?\d+\) "
        r"vendor_err={vendor}(?: \(\w+\))?(?:\s+localGid\s+{gid})?(?:\s+remoteGids?\s*{peer_gid})?(?:\s+hca {device})?",
        "NVIDIA/nccl src/transport/net_ib/p2p.cc, ncclIbLogCompletionWithError()",
    ),
    Pattern(
        "nccl-async", "NCCL", "event", "Got ",
        "NET/IB : (?:{device}:{port} )?Got (?:non-fatal )?async event ?: {event}",
        "NVIDIA/nccl src/transport/net_ib.cc, ncclIbAsyncThreadMain(); NVIDIA/nccl#1710, #905, #230",
    ),
    Pattern(
        "nccl-async-fatal", "NCCL", "event", "async fatal event",
        "NET/IB : {device}:{port} async fatal event(?: on (?:QP|CQ|SRQ)[^:]*)?(?: qpn={qpn}[^:]*)?: {event}",
        "NVIDIA/nccl src/transport/net_ib/common.cc, ncclIbAsyncThreadMain(); NVIDIA/nccl#1919",
    ),
    Pattern(
        "nccl-gid-changed", "NCCL", "event", "GID table changed",
        "NET/IB : {device}:{port} GID table changed",
        "NVIDIA/nccl src/transport/net_ib/common.cc; NVIDIA/nccl#1819",
        event="GID table change",
    ),
    Pattern(
        "nccl-incompatible", "NCCL", "told", "incompatible",
        r"NET/IB : (?:Attempted to connect incompatible devices: \[\d+\]{device}:{port}/|Remote .* device is "
        "incompatible with the local)",
        "NVIDIA/nccl src/transport/net_ib/connect.cc",
        reasons=(
            proved("peer-link-layer", "one end is InfiniBand, the other Ethernet: choose like devices at both ends "
                                      "(NCCL_IB_HCA)"),
        ),
    ),
    Pattern(
        "nccl-devices", "NCCL", "facts", "NET/IB : Using",
        r"NET/IB : Using \[0\][\w.-]+:\d+/{link}",
        "NVIDIA/nccl src/transport/net_ib/init.cc",
    ),
    Pattern(
        "nccl-consequence", "NCCL", "more", "NCCL ",
        r"NCCL INFO (?:\S+:\d+ -> \d+|HINT: )|NCCL WARN communicator encountered a fatal error",
        "NVIDIA/nccl src/include/checks.h",
    ),
)

OTHERS = (
    Pattern(
        "uccl-modify", "UCCL", "modify", "Failed to modify QP to",
        r"^\s*Failed to modify QP to {goal}: {error}",
        "uccl-project/uccl ep/src/rdma.cpp; uccl-project/uccl#641",
        type="RC",
    ),
    Pattern(
        "uccl-errno", "UCCL", "more", "errno:",
        r"^\s*errno: {errno}\s*$",
        "uccl-project/uccl#641",
    ),
    Pattern(
        "uccl-completion", "UCCL", "completion", "CQE ERROR",
        r"CQE ERROR wr_id=\d+ status={status}\({status_text}\) opcode=\d+ byte_len=\d+ vendor_err={vendor} "
        "qp_num={qpn}",
        "uccl-project/uccl#617, #799",
    ),
    Pattern(
        "mscclpp-modify", "MSCCL++", "modify", "ibv_modify_qp failed (errno",
        r"ibv_modify_qp failed \(errno {errno}\)",
        "microsoft/mscclpp src/ib.cc; microsoft/mscclpp#431",
    ),
    Pattern(
        "hrd-modify", "rdma_bench", "modify", "HRD: Failed to modify QP",
        "HRD: Failed to modify QP to {goal}",
        "efficient/rdma_bench libhrd/hrd_conn.c; efficient/rdma_bench#4",
    ),
)

ROWS = (*NCCL, *OTHERS)
