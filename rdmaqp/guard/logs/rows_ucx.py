"""What UCX, libfabric, SPDK and GPI-2 print."""

from __future__ import annotations

from rdmaqp.guard.logs.firmware import CREATED, DIRECT, REFUSED, UNASKED
from rdmaqp.guard.logs.pattern import Pattern, proved

UCX = (
    Pattern(
        "ucx-modify-dc", "UCX", "modify", "ibv_modify_qp(",
        r"ibv_modify_qp\({type}, {goal}\) failed ?: {error}",
        "openucx/ucx src/uct/ib/mlx5/dc/dc_mlx5.c, uct_dc_mlx5_iface_dci_connect(); openucx/ucx#8604",
        driver="mlx5",
    ),
    Pattern(
        "ucx-modify", "UCX", "modify", "error modifying",
        "error modifying (?:QP|(?P<type>DCT)) to {goal}: {error}",
        "openucx/ucx src/uct/ib/rc/base/rc_iface.c, uct_rc_iface_qp_connect(); openucx/ucx#2973",
    ),
    Pattern(
        "ucx-modify-to", "UCX", "modify", " QP to ",
        "[Ff]ailed to modify (?:{type}|TM control) QP to {goal}(?: on {device})?: {error}",
        "openucx/ucx src/uct/ib/ud/base/ud_iface.c, efa/srd/srd_iface.c; openucx/ucx#9468",
    ),
    Pattern(
        "ucx-modify-state", "UCX", "modify", "modify qp 0x",
        r"modify qp {qpn} to state (?P<goal_number>\d) failed: {error}",
        "openucx/ucx src/uct/ib/base/ib_device.c, uct_ib_modify_qp()",
    ),
    Pattern(
        "ucx-modify-umr", "UCX", "modify", "ibv_modify_qp(UMR QP",
        r"{device}: ibv_modify_qp\(UMR QP {qpn}\) failed to modify to {goal}: {error}",
        "openucx/ucx src/uct/ib/mlx5/dv/ib_mlx5dv_md.c",
        driver="mlx5",
    ),
    Pattern(
        "ucx-devx", "UCX", "modify", "mlx5dv_devx_",
        r"mlx5dv_devx_(?:qp|obj)_modify\((?:(?:opcode=)?(?:0x)?{hex_op}|{op}\w*|[\w()]+)\) failed(?: on {device})?, "
        r"syndrome {syndrome}: {error}",
        "openucx/ucx src/uct/ib/mlx5/dv/ib_mlx5_dv.c; openucx/ucx#8604, #7738, #8213",
        reasons=REFUSED,
        innocent=UNASKED, because=DIRECT,
        driver="mlx5",
    ),
    Pattern(
        "ucx-completion", "UCX", "completion", "(synd 0x",
        r"{status_text} on {device}:{port}/{link} \(synd 0x[0-9a-f]+ vend {vendor} hw_synd",
        "openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c, uct_ib_mlx5_completion_with_err(); openucx/ucx#5199, #5732, "
        "#6000, #9590",
        driver="mlx5",
    ),
    Pattern(
        "ucx-completion-syndrome", "UCX", "completion", "(synd 0x",
        r"[A-Z][\w -]{1,60}? on {device}:{port}/{link} \(synd {cqe} vend {vendor} hw_synd",
        "openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c of 1.8 to 1.15, whose words are shorter; openucx/ucx#5472, #9515",
        driver="mlx5",
    ),
    Pattern(
        "ucx-completion-old", "UCX", "completion", "Error on QP",
        r"Error on QP {qpn} wqe\[\d+\]: {status_text} \(synd 0x[0-9a-f]+ vend {vendor}\)",
        "openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c of 1.4; openucx/ucx#2973",
        driver="mlx5",
    ),
    Pattern(
        "ucx-completion-wqe", "UCX", "more", " QP 0x",
        r"(?:{type}|SRQ) QP {qpn} wqe\[\d+\]: \w+(?:.*?\[rqpn {dest_qpn}(?: rlid \d+)?(?: rmac \S+)?(?: sgix {index})?"
        "(?: dgid {peer_gid})?(?: dlid=[^]]*?dgid={peer_gid2}[^]]*?sgid_index={index2})?)?",
        "openucx/ucx src/uct/ib/mlx5/ib_mlx5_log.c; openucx/ucx#5199, #6000, ai-dynamo/dynamo#843",
    ),
    Pattern(
        "ucx-completion-verbs", "UCX", "completion", "send completion with error",
        r"send completion with error: {status_text} \[?qpn {qpn} wrid 0x[0-9a-f]+? ?vendor_err {vendor}",
        "openucx/ucx src/uct/ib/rc/verbs/rc_verbs_iface.c; openucx/ucx#7774, #5318",
    ),
    Pattern(
        "ucx-reg-mr", "UCX", "reg_mr", "ibv_reg_",
        r"ibv_reg_\w+\(address=\w+, length={length}, access=(?P<access>0x[0-9a-f]+)\) failed: {error}",
        "openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_md_print_mem_reg_err_msg(); openucx/ucx#6264, #8999",
    ),
    Pattern(
        "ucx-reg-mr-short", "UCX", "reg_mr", "ibv_reg_mr failed",
        r"UCX\s+ERROR ibv_reg_mr failed: {error}",
        "openucx/ucx#6264, #8999",
    ),
    Pattern(
        "ucx-create-qp", "UCX", "create", "failed to create",
        r"failed to create {type} QP .*?TX wr:\d+.*?: {error}",
        "openucx/ucx src/uct/ib/base/ib_iface.c, uct_ib_iface_create_qp()",
    ),
    Pattern(
        "ucx-create-devx", "UCX", "create", "mlx5dv_devx_obj_create(",
        r"(?P<made>mlx5dv_devx_obj_create\((?:QP|CQ|SRQ|RMP|DCT|MKEY|KLM)[^)]*\)) failed(?: on {device})?, "
        "syndrome {syndrome}: {error}",
        "openucx/ucx src/uct/ib/mlx5/dv/ib_mlx5_dv.c; openucx/ucx#10451, #7738, sgl-project/sglang#27894",
        reasons=CREATED,
        innocent=UNASKED, because=DIRECT,
        driver="mlx5",
    ),
    Pattern(
        "ucx-create-short", "UCX", "create", "failed to create qp:",
        "UCX +ERROR failed to create qp: {error}",
        "openucx/ucx src/uct/ib/rc/base/rc_iface.c of 1.3; openucx/ucx#2718",
    ),
    Pattern(
        "ucx-create-cq-device", "UCX", "create", "ibv_create_cq() failed",
        r"{device}: ibv_create_cq\(\) failed: {error}\.?(?:.*?\(current: (?P<memlock_kb>\d+) kbytes\))?",
        "openucx/ucx src/uct/ib/base/ib_log.c, uct_ib_mem_lock_limit_msg(); openucx/ucx#8684, NVIDIA/spark-rapids#7632",
        made="ibv_create_cq",
    ),
    Pattern(
        "ucx-create-dct", "UCX", "create", "mlx5dv_create_qp(",
        r"mlx5dv_create_qp\((?:{type})[^)]*\)(?: failed)?: {error}",
        "openucx/ucx src/uct/ib/mlx5/dc/dc_mlx5.c; openucx/ucx#5749",
        driver="mlx5",
    ),
    Pattern(
        "ucx-create-cq", "UCX", "create", "ibv_create_cq(",
        r"ibv_create_cq\(cqe=\d+\) failed: {error}",
        "openucx/ucx src/uct/ib/base/ib_iface.c; openucx/ucx#8229",
        made="ibv_create_cq",
    ),
    Pattern(
        "ucx-create-ah", "UCX", "ah", "ibv_create_ah(",
        r"ibv_create_ah\((?:dlid=\d+ )?(?:sl=\d+ )?(?:port={port} )?(?:src_path_bits=\d+ )?(?:dgid={peer_gid} "
        r".*?sgid_index={index})?[^)]*\) for .* on {device} failed: {error}",
        "openucx/ucx src/uct/ib/base/ib_device.c, uct_ib_device_create_ah()",
    ),
    Pattern(
        "ucx-gid", "UCX", "told", "invalid gid[",
        r"invalid gid\[{index}\] on {device}:{port}",
        "openucx/ucx src/uct/ib/base/ib_device.c, uct_ib_device_query_gid()",
        reasons=(
            proved("sgid-empty", "this slot of the GID table is empty: UCX_IB_GID_INDEX names a wrong one"),
        ),
    ),
    Pattern(
        "ucx-devx-command", "UCX", "told", "mlx5dv_devx_general_cmd(",
        r"(?:\({device}\): )?(?P<made>mlx5dv_devx_general_cmd\(\w*\)) failed(?: on {device2}, syndrome {syndrome})?: "
        "{error}",
        "openucx/ucx src/uct/ib/mlx5/dv/ib_mlx5_dv.c, ib_mlx5dv_md.c; openucx/ucx#8687",
        reasons=REFUSED,
        driver="mlx5",
    ),
    Pattern(
        "ucx-completion-dc", "UCX", "completion", "ompletion with error on qp",
        r"[Cc]ompletion with error on qp {qpn}: {status_text}(?: syndrome {vendor})?",
        "openucx/ucx src/uct/ib/dc/verbs/dc_verbs.c; openucx/ucx#1770",
        driver="mlx5",
    ),
    Pattern(
        "ucx-completion-srd", "UCX", "completion", "] with error on ",
        r"(?:send|recv) completion\[\d+\] with error on {device}/\w+: {status_text}, vendor_err {vendor}",
        "openucx/ucx src/uct/ib/efa/srd/srd_iface.c; ai-dynamo/nixl#1983",
    ),
    Pattern(
        "ucx-async-dct", "UCX", "event", "DCT access error",
        r"IB Async event on {device}: DCT (?:key violation|access error) on DCTN \w+",
        "openucx/ucx src/uct/ib/base/ib_device.c, uct_ib_handle_async_event(); openucx/ucx#1770",
        event="local access violation work queue error",
    ),
    Pattern(
        "ucx-async-flushed", "UCX", "event", "SRQ-attached QP",
        "IB Async event on {device}: SRQ-attached QP {qpn} was flushed",
        "openucx/ucx src/uct/ib/base/ib_device.c, uct_ib_handle_async_event(); openucx/ucx#857",
        event="last WQE reached",
    ),
    Pattern(
        "ucx-async", "UCX", "event", "IB Async event",
        "IB Async event on {device}: {event}(?: on port {port})?",
        "openucx/ucx src/uct/ib/base/ib_device.c, uct_ib_handle_async_event(); openucx/ucx#7613",
    ),
)

OTHERS = (
    Pattern(
        "libfabric-modify", "libfabric", "modify", "ibv_modify_qp:",
        r"libfabric:\d+:.*\bibv_modify_qp: {error} \({errno}\)",
        "ofiwg/libfabric prov/verbs/src/verbs_ep.c, verbs_ofi.h (VRB_WARN_ERRNO)",
    ),
    Pattern(
        "libfabric-create-verbs", "libfabric", "create", "_create_",
        r"libfabric:\d+:.*\b(?P<made>(?:ibv|rdma)_create_(?:qp|cq)(?:_ex)?): {error} ?\({errno}\)",
        "ofiwg/libfabric prov/verbs/src/verbs_ep.c, verbs_info.c (VRB_WARN_ERRNO); ofiwg/libfabric#7368, #8256",
    ),
    Pattern(
        "libfabric-create", "libfabric", "create", "ibv_create_qp failed",
        r"ibv_create_qp failed\. errno: {errno}",
        "ofiwg/libfabric prov/efa/src/efa_base_ep.c, efa_qp_create()",
        driver="efa",
    ),
    Pattern(
        "libfabric-completion", "libfabric", "completion", "prov_err",
        r"prov_err(?:no)?: {status_text} \({status}\)",
        "ofiwg/libfabric prov/rxm/src/rxm_cq.c, rxm_cq_read_write_error(); ofiwg/libfabric#4283",
    ),
    Pattern(
        "libfabric-reg", "libfabric", "reg_mr", "fi_mr_reg failed",
        "fi_mr_reg failed.*?{errno}, {error}",
        "ofiwg/libfabric#6437",
    ),
    Pattern(
        "spdk-wc", "SPDK", "completion", "Error on CQ",
        r"Error on CQ .*?status: \({status}\)(?:: {status_text})?",
        "spdk/spdk lib/nvmf/rdma.c, nvmf_rdma_log_wc_status(); spdk/spdk#2328, #2261",
    ),
    Pattern(
        "spdk-post", "SPDK", "post", "Failed to post WRs on",
        r"Failed to post WRs on (?P<queue>send|recv)\w* queue, errno {errno}",
        "spdk/spdk lib/nvme/nvme_rdma.c, nvme_rdma_qpair_submit_sends(); spdk/spdk#2434",
    ),
    Pattern(
        "spdk-completion", "SPDK", "completion", "CQ error on",
        r"CQ error on .*?\({status}\): {status_text}",
        "spdk/spdk lib/nvmf/rdma.c, nvmf_rdma_poller_poll(); spdk/spdk#298",
    ),
    Pattern(
        "gpi2-modify", "GPI-2", "modify", "Failed to modify QP (libibverbs)",
        r"Error {errno} \({error}\) at \([^)]*\):\s?Failed to modify QP",
        "cc-hpc-itwm/GPI-2 src/devices/ib/GPI2_IB.c; cc-hpc-itwm/GPI-2#47",
        type="RC",
    ),
)

ROWS = (*UCX, *OTHERS)
