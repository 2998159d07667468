"""What any program prints that names the verb itself, or the status."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern

ANY = (
    Pattern(
        "any-modify-goal", "a verbs program", "modify", "odify",
        r"(?i:fail\w*|error|cannot|could ?n.t|unable)\b.{0,40}?\bmodify(?:ing)?\b.{0,30}?\b(?:QP|qp|queue "
        r"pair)\b.{0,40}?\b(?:to|state)\b.{0,12}?\b(?:IBV_QPS_)?{goal}\b(?:.{0,80}?{error})?(?:.{0,12}?{errno}\b)?",
        "programs after ibv_modify_qp(3); thustorage/Sherman#5",
    ),
    Pattern(
        "any-modify-error", "a verbs program", "modify", "ibv_modify_qp",
        r"ibv_modify_qp\b.{0,120}?{error}",
        'perror("ibv_modify_qp"), as in madsys-dev/smart#2',
    ),
    Pattern(
        "any-modify-errno", "a verbs program", "modify", "ibv_modify_qp",
        r"ibv_modify_qp\b.{0,40}?(?i:errno|error|returned|ret|rc|failed|failed with)[ :=(]*{errno}\b",
        "programs after ibv_modify_qp(3)",
    ),
    Pattern(
        "any-create", "a verbs program", "create", "ibv_create_qp",
        r"ibv_create_qp(?:_ex)?\b.{0,120}?{error}",
        'perror("ibv_create_qp"), as in linux-rdma/rdma-core librdmacm/examples/rping.c',
    ),
    Pattern(
        "any-reg", "a verbs program", "reg_mr", "ibv_reg_",
        r"ibv_reg_\w*mr\w*\b.{0,120}?{error}",
        "programs after ibv_reg_mr(3)",
    ),
    Pattern(
        "any-post", "a verbs program", "post", "ibv_post_",
        r"ibv_post_(?P<queue>send|recv)\b.{0,60}?(?:{error}|(?i:error|errno|ret\w*)[ :=]*{errno}\b)",
        "programs after ibv_post_send(3); efficient/rdma_bench#4",
    ),
    Pattern(
        "any-status", "a verbs program", "completion", "",
        r"(?i:status|completion|failed|wc)\b.{0,60}?{status_text}(?:.{0,40}?vendor[ _]err(?:or)?[ :=]*{vendor})?",
        "programs that print ibv_wc_status_str()",
    ),
)

ROWS = (*ANY,)
