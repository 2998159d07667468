"""What perftest prints."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern, proved

PERFTEST = (
    Pattern(
        "perftest-modify", "perftest", "modify", "Failed to modify QP ",
        "Failed to modify QP {qpn} to {goal}",
        "linux-rdma/perftest src/perftest_resources.c, ctx_connect(); linux-rdma/perftest#393, "
        "Mellanox/k8s-rdma-shared-dev-plugin#72",
    ),
    Pattern(
        "perftest-modify-init", "perftest", "modify", "Failed to modify QP to INIT, ret",
        "Failed to modify QP to {goal}, ret={errno}",
        "linux-rdma/perftest src/perftest_resources.c, ctx_modify_qp_to_init()",
    ),
    Pattern(
        "perftest-link", "perftest", "more", "Unable to Connect the HCA",
        "Unable to Connect the HCA's through the link",
        "linux-rdma/perftest src/write_bw.c; linux-rdma/perftest#393",
    ),
    Pattern(
        "perftest-completion", "perftest", "completion", "Failed status",
        r"Failed status {status}: wr_id -?\d+ syndrom {vendor}",
        "linux-rdma/perftest src/perftest_resources.h, NOTIFY_COMP_ERROR_SEND; linux-rdma/perftest#173, "
        "zrlio/softiwarp#27",
    ),
    Pattern(
        "perftest-completion-named", "perftest", "completion", "Failed status-",
        r"Failed status-{status_text} \({status}\): wr_id -?\d+ syndrom {vendor}",
        "linux-rdma/perftest src/perftest_resources.h; linux-rdma/perftest#342",
    ),
    Pattern(
        "perftest-completion-side", "perftest", "more", "Completion with error at",
        "Completion with error at (?:client|server)",
        "linux-rdma/perftest src/perftest_resources.h",
    ),
    Pattern(
        "perftest-poll", "perftest", "completion", "Poll send CQ error",
        "Poll send CQ error status={status} qp {qpn}",
        "linux-rdma/perftest src/perftest_resources.c",
    ),
    Pattern(
        "perftest-create", "perftest", "create", "Unable to create QP",
        r"^\s*Unable to create QP\b",
        "linux-rdma/perftest src/perftest_resources.c, create_reg_qp_main(); linux-rdma/perftest#105",
    ),
    Pattern(
        "perftest-create-cq", "perftest", "create", "Couldn't create CQ",
        r"^\s*Couldn't create CQ\b",
        "linux-rdma/perftest src/perftest_resources.c, create_reg_cqs()",
        made="ibv_create_cq",
    ),
    Pattern(
        "perftest-mr-plain", "perftest", "reg_mr", "Couldn't allocate MR",
        r"^\s*Couldn't allocate MR\s*$",
        "linux-rdma/perftest src/perftest_resources.c, create_single_mr()",
    ),
    Pattern(
        "perftest-more", "perftest", "more", " create",
        r"^\s*(?:Failed to create (?:QP|CQs|MR|mr)\.?|[Ff]ailed to create mr|Couldn't create IB resources\.?)\s*$",
        "linux-rdma/perftest src/perftest_resources.c, ctx_init()",
    ),
    Pattern(
        "perftest-errno", "perftest", "more", "ERRNO: ",
        r"^\s*ERRNO: (?!No such file){error}\.?\s*$",  # which is left of a file that nobody misses
        "linux-rdma/perftest src/perftest_communication.c; linux-rdma/perftest#126",
    ),
    Pattern(
        "perftest-post", "perftest", "post", "Couldn't post send: qp",
        r"Couldn't post send: qp \d+ scnt=\d+ .*?err={errno}",
        "linux-rdma/perftest src/perftest_resources.c, run_iter_bw()",
        queue="send",
    ),
    Pattern(
        "perftest-mr", "perftest", "reg_mr", "Couldn't allocate MR with error",
        "Couldn't allocate MR with error={errno}",
        "linux-rdma/perftest src/perftest_resources.c, create_single_mr()",
    ),
    Pattern(
        "perftest-gid-types", "perftest", "told", "Incompatibility issue with GID",
        "Found Incompatibility issue with GID types",
        "linux-rdma/perftest src/perftest_communication.c, check_gid_compatibility()",
        reasons=(
            proved("peer-gid-type", "one end speaks RoCE v1, the other v2, or IPv4 against IPv6: give both the index "
                                    "of like entries (-x)"),
        ),
    ),
    Pattern(
        "perftest-reads", "perftest", "told", "outstanding reads is above",
        "Number of outstanding reads is above max",
        "linux-rdma/perftest src/perftest_parameters.c, ctx_set_out_reads()",
        reasons=(
            proved("rd-atomic-over-device", "-o asks for more reads in flight than the device has (max_qp_rd_atom)"),
        ),
    ),
    Pattern(
        "perftest-device", "perftest", "facts", "Device         :",
        r"\bDevice\s+: {device}",
        "linux-rdma/perftest src/perftest_parameters.c, ctx_print_test_info()",
        fresh="yes",
    ),
    Pattern(
        "perftest-type", "perftest", "facts", "Connection type :",
        "Connection type : {type}",
        "linux-rdma/perftest src/perftest_parameters.c",
    ),
    Pattern(
        "perftest-link-type", "perftest", "facts", "Link type",
        r"Link type\s+: {link}",
        "linux-rdma/perftest src/perftest_parameters.c",
    ),
    Pattern(
        "perftest-gid-index", "perftest", "facts", "GID index",
        r"GID index\s+: {index}",
        "linux-rdma/perftest src/perftest_parameters.c",
    ),
    Pattern(
        "perftest-address", "perftest", "facts", "address: LID",
        "(?P<side>local|remote) address: LID (?:0x)?[0-9a-f]+ QPN 0x[0-9a-f]+",
        "linux-rdma/perftest src/perftest_communication.c, ctx_print_pingpong_data()",
    ),
    Pattern(
        "perftest-gid", "perftest", "facts", "GID: ",
        r"^\s*GID: {side_gid}",
        "linux-rdma/perftest src/perftest_communication.c",
    ),
)

ROWS = (*PERFTEST,)
