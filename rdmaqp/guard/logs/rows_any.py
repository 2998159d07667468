"""What any program prints that names the verb itself, or the status."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern

ANY = (
    Pattern(
        "any-modify-from", "a verbs program", "modify", "odify",
        r"(?i:fail\w*|error|cannot|could ?n.t|unable)\b.{0,24}?\bmodify(?:ing)?\b.{0,12}?\b(?:QP|qp|queue pair)\b"
        r".{0,16}?\bfrom (?:IBV_QPS_)?{state}\b.{0,12}?\bto (?:IBV_QPS_)?{goal}\b(?:.{0,80}?{error})?",
        "Mellanox/libvma src/vma/dev/qp_mgr.cpp, prepare_ibv_qp(); Mellanox/libvma#691",
    ),
    Pattern(
        "any-modify-goal", "a verbs program", "modify", "odify",
        r"(?i:fail\w*|error|cannot|could ?n.t|unable)\b.{0,40}?\bmodify(?:ing)?\b.{0,30}?\b(?:QP|qp|queue "
        r"pair)\b.{0,40}?\b(?:to|state)\b.{0,12}?\b(?:IBV_QPS_)?{goal}\b(?:.{0,80}?{error})?(?:.{0,12}?{errno}\b)?",
        "programs after ibv_modify_qp(3); thustorage/Sherman#5",
    ),
    Pattern(
        "any-modify-arrow", "a verbs program", "modify", "ibv_modify_qp",
        r"ibv_modify_qp\b.{0,20}?\b{state} ?-> ?{goal}\b(?:.{0,40}?{error})?",
        "waltligon/orangefs#43",
    ),
    Pattern(
        "any-modify-before", "a verbs program", "modify", "errno: ",
        r"\(\S{1,60}:\d+:(?: ?\w+:)? errno: {error}\) .{0,20}?(?i:fail\w*|unable|could ?n.t)\b.{0,12}?"
        r"\bmodify\w*\b.{0,12}?\b(?i:qp|queue pair)\b(?:.{0,12}?\b{goal}\b)?",
        "programs with Learn C the Hard Way's dbg.h; jcxue/RDMA-Tutorial setup_ib.c, ib.c",
    ),
    Pattern(
        "any-modify-error", "a verbs program", "modify", "ibv_modify_qp",
        r"ibv_modify_qp\b.{0,120}?{error}",
        'perror("ibv_modify_qp"), as in madsys-dev/smart#2',
    ),
    Pattern(
        "any-modify-os-error", "a verbs program", "modify", "(os error",
        r"(?i:modify_qp|modify queue pair).{0,60}?(?:\bto {goal}\b.{0,60}?)?\(os error {errno}\)",
        "programs in Rust: std::io::Error; datenlord/rdma-sys, datenlord/async-rdma",
    ),
    Pattern(
        "any-modify-go", "a verbs program", "modify", "ibv_modify_qp",
        r"ibv_modify_qp\b.{0,40}?: (?P<lower>[a-z][a-z/ ]{5,60}[a-z])$",
        "programs in Go that wrap ibv_modify_qp: the texts of syscall.Errno begin in lower case",
    ),
    Pattern(
        "any-modify-errno", "a verbs program", "modify", "ibv_modify_qp",
        r"ibv_modify_qp\b.{0,40}?(?i:errno|error|returned|ret|rc|failed|failed with)[ :=(]*{errno}\b",
        "programs after ibv_modify_qp(3)",
    ),
    Pattern(
        "any-modify-bare", "a verbs program", "modify", "ibv_modify_qp",
        r"\bibv_modify_qp(?:\(\))? (?:has )?failed\b",
        "programs after ibv_modify_qp(3); sgl-project/sglang#7888",
    ),
    Pattern(
        "any-create", "a verbs program", "create", "_create_",
        r"\b(?P<made>(?:ibv|rdma|mlx5dv|efadv)_(?:exp_|cmd_)?create_(?:qp|cq|srq)(?:_ex)?)\b.{0,120}?(?:{error}|"
        r"(?i:errno|error|with|returned|ret|rc)[ :=(]*{errno}\b)",
        'perror("ibv_create_qp"), as in linux-rdma/rdma-core librdmacm/examples/rping.c; ydb-platform/nbs#6940',
    ),
    Pattern(
        "any-create-bare", "a verbs program", "create", "ibv_create_",
        r"\b(?P<made>ibv_create_(?:qp|cq|srq)(?:_ex)?)(?:\(\))? (?:has )?failed\b",
        "programs after ibv_create_qp(3); uccl-project/uccl collective/rdma/util_rdma.h",
    ),
    Pattern(
        "any-create-before", "a verbs program", "create", "errno: ",
        r"\(\S{1,60}:\d+:(?: ?\w+:)? errno: {error}\) .{0,20}?(?i:fail\w*|unable|could ?n.t)\b.{0,12}?"
        r"\bcreat\w+\b.{0,12}?\b(?i:qp|queue pair)\b",
        "programs with Learn C the Hard Way's dbg.h; jcxue/RDMA-Tutorial#6",
    ),
    Pattern(
        "any-create-srq", "a verbs program", "create", "creat",
        r"(?i:fail\w*|error|cannot|could ?n.t|unable)\b.{0,16}?\bcreat(?:e|ing)\b.{0,16}?\b(?:SRQ|srq|shared receive "
        r"queue)\b(?:.{0,12}?errno {errno}\b|.{0,60}?{error})",
        "spdk/spdk lib/rdma_provider/common.c, spdk_rdma_srq_create(); spdk/spdk#2275",
        made="ibv_create_srq",
    ),
    Pattern(
        "any-create-words", "a verbs program", "create", "creat",
        r"(?i:fail\w*|error|cannot|could ?n.t|unable)\b.{0,16}?\bcreat(?:e|ing)\b.{0,16}?\b(?i:qp|queue pair)s?\b"
        r"(?![-/])(?:.{0,60}?{error})?(?:.{0,8}?[\[(=: ]{errno}[\])]?\s*$)?",
        "programs after ibv_create_qp(3); apache/brpc src/brpc/rdma/rdma_endpoint.cpp",
    ),
    Pattern(
        "any-ah", "a verbs program", "ah", "ibv_create_ah",
        r"ibv_create_ah\b.{0,120}?(?:{error}|(?i:errno|error)[ :=(]*{errno}\b)",
        "programs after ibv_create_ah(3)",
    ),
    Pattern(
        "any-reg", "a verbs program", "reg_mr", "ibv_reg_",
        r"ibv_reg_\w*mr\w*\b.{0,120}?{error}",
        "programs after ibv_reg_mr(3)",
    ),
    Pattern(
        "any-reg-words", "a verbs program", "reg_mr", "register MR",
        r"(?i:fail\w*|unable|could ?n.t|cannot)\b.{0,8}?\bregister MR\b(?: of {length} bytes)?: {error}",
        "ofiwg/libfabric prov/efa/src/efa_mr.c, efa_mr_reg_impl(); perplexityai/pplx-garden#4",
    ),
    Pattern(
        "any-reg-bare", "a verbs program", "reg_mr", "ibv_reg_mr",
        r"\bibv_reg_mr(?:_iova2?)?(?:\(\))? (?:has )?(?:failed\b|returned (?i:null)\b)",
        "jcarreira/cirrus-kv#87",
    ),
    Pattern(
        "any-post", "a verbs program", "post", "ibv_post_",
        r"ibv_post_(?P<queue>send|recv)\b.{0,60}?(?:{error}|(?i:error|errno|ret\w*)[ :=]*{errno}\b)",
        "programs after ibv_post_send(3); efficient/rdma_bench#4",
    ),
    Pattern(
        "any-post-words", "a verbs program", "post", "post",
        r"(?i:fail\w*|unable|error)\b.{0,12}?\bpost(?:ing)? (?:a )?(?P<queue>send|recv)\w*\b.{0,60}?(?:{error}|"
        r"errno[ :=]*{errno}\b)",
        "spdk/spdk#2434",
    ),
    Pattern(
        "any-status", "a verbs program", "completion", "",
        r"(?:(?i:status|completion|failed|wc)\b.{0,60}?(?!{doubtful}){status_text}|"
        r"(?:\b(?:wc|WC|CQE?|cqe?|WR)\b|ibv_|[Cc]ompletion).{0,60}?{status_text2})"
        r"(?:.{0,40}?\bvend(?:or)?[ _](?:err(?:or)?|code|synd(?:rome)?)[ :=]*{vendor})?",
        "programs that print ibv_wc_status_str()",
    ),
    Pattern(
        "any-status-name", "a verbs program", "completion", "IBV_WC_",
        r"(?<![=!]= )(?<![=!]=)\b(?!IBV_WC_SUCCESS){status_text}\b(?!:)"
        r"(?:.{0,40}?\bvend(?:or)?[ _](?:err(?:or)?|code|synd(?:rome)?)[ :=]*{vendor})?",
        "programs that print the name of the status; Mellanox/SparkRDMA#23, ydb-platform/nbs#3375",
    ),
    Pattern(
        "any-status-number", "a verbs program", "completion", "status",
        r"(?:\bwc(?:\.|->|\[\w+\]\.)status|(?i:\bcq completion failed,?|\bwork completion\b.{0,24}?|"
        r"\bpoll\w* cq\b.{0,24}?|"
        r"\bcompletion (?:with|failed|error)\b.{0,24}?) status)(?: is| code)?[ :=(]*(?!0\b){status}\b"
        r"(?:.{0,40}?\bvend(?:or)?[ _](?:err(?:or)?|code|synd(?:rome)?)[ :=]*{vendor})?",
        "linux-rdma/rdma-core librdmacm/examples/rping.c, rping_cq_event_handler(); programs after ibv_poll_cq(3)",
    ),
)

ROWS = (*ANY,)
