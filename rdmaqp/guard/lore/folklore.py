"""What is said of queue pairs and is not so, and how that is known.

Read in Linux 6.12 and rdma-core 65, or measured on running kernels (rxe of 6.1 and 6.12), as each entry says.
"""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """One thing that people say.

    Attributes:
        said: the claim, in their words.
        verdict: ``false``, ``half true``, or ``true`` with a condition.
        truth: what is so.
        known: how that is known.
        topics: the words under which it is told: states, arrows, attributes, verbs, drivers.
    """

    said: str
    verdict: str
    truth: str
    known: str
    topics: frozenset[str]


def _claim(said: str, verdict: str, truth: str, known: str, *topics: str) -> Claim:
    return Claim(said, verdict, truth, known, frozenset(topics))


FOLKLORE: tuple[Claim, ...] = (
    _claim(
        "ERR is irreversible: the queue pair must be destroyed and rebuilt", "false, except on irdma and iWARP",
        "ERR → RESET is legal, and RESET → INIT → RTR → RTS works again, as often as you like. On irdma the hardware "
        "stays in its error state and RESET → INIT is refused; on iWARP there is no way back; mlx5's DCT has neither "
        "ERR nor RESET. ERR → INIT directly is refused everywhere. And \"any → ERR\" is not from RESET: Linux has no "
        "RESET → ERR, although the specification has it",
        "core/verbs.c, qp_state_table[IB_QPS_ERR]; measured repeatedly on rxe; hw/irdma/verbs.c, "
        "irdma_modify_qp_roce()",
        "ERR", "ERR-RESET", "ERR-INIT", "RESET-ERR", "irdma", "RESET-INIT",
    ),
    _claim(
        "INIT allows nothing but modify_qp; a send posted there gives \"invalid opcode\"", "false, twice",
        "INIT takes receives, and is the usual place to post them. A send posted there gives EINVAL (rxe, hns, efa, "
        "mana), ENOMEM (mlx5), a negative EINVAL (qedr) or no error at all (mlx4, irdma, bnxt_re): never an invalid "
        "opcode. On rxe it stays in the ring in spite of the EINVAL, and goes out later",
        "sw/rdmavt/qp.c, ib_rvt_state_ops[IB_QPS_INIT]; the providers' post_send in rdma-core; measured on rxe",
        "INIT", "INIT-INIT", "post-state", "post-opcode",
    ),
    _claim(
        "RESET → INIT is done by ibv_create_qp", "false",
        "ibv_create_qp leaves it in RESET; RESET → INIT is a modify call with PKEY_INDEX, PORT and ACCESS_FLAGS (UD: "
        "QKEY). It is librdmacm's rdma_create_qp that goes on to INIT by itself, and with UD to RTS",
        "rdma-core libibverbs/cmd_qp.c (qp->state = IBV_QPS_RESET); librdmacm/cma.c, rdma_create_qp_ex()",
        "RESET", "RESET-INIT",
    ),
    _claim(
        "SQD only lets existing operations finish", "half true",
        "That is the send side: started work finishes, the rest waits and is not failed, and new sends are accepted "
        "and queued. The receive side does not notice: receives are posted and complete, and the peer's reads, writes "
        "and atomics are served. And SQD is the only state in which the path (AV, PORT, TIMEOUT, …) can be changed",
        "sw/rxe/rxe_req.c, req_next_wqe(); sw/rdmavt/qp.c, ib_rvt_state_ops; core/verbs.c, the SQD → SQD row",
        "SQD", "SQD-SQD", "RTS-SQD",
    ),
    _claim(
        "`rdma res show qp -j | grep sq_draining` detects the drain", "false",
        "The netlink answer has no such attribute: it shows the state SQD, which says nothing about being drained. "
        "Ask ibv_query_qp (sq_draining; always 0 on hns, bnxt_re and irdma, always 1 in SQD on qedr), wait for "
        "IBV_EVENT_SQ_DRAINED where the driver sends it, or count completions, which works everywhere",
        "core/nldev.c, fill_res_qp_entry(); iproute2 rdma/, in which \"drain\" does not occur",
        "SQD", "RTS-SQD", "en_sqd_async_notify",
    ),
    _claim(
        "RTS → SQD → RTS always works", "only where the driver has it",
        "It is legal in the kernel's table, and refused by mlx5 and hns with EINVAL. irdma accepts it and flushes both "
        "queues; on iWARP (siw, cxgb4) SQD closes the connection. rxe leaves SQD only once sq_draining is 0",
        "hw/mlx5/qp.c, optab; hw/hns/hns_roce_hw_v2.c, check_qp_state(); hw/irdma/verbs.c; sw/rxe/rxe_qp.c, "
        "__qp_chk_state(); measured on rxe",
        "SQD", "RTS-SQD", "SQD-RTS", "mlx5", "hns", "irdma", "siw", "cxgb4", "rxe",
    ),
    _claim(
        "some implementations go straight from SQD to ERR", "true on iWARP, and always legal for you",
        "siw sets ERROR at once when work is in flight, and erdma's iWARP drops the connection; irdma flushes. "
        "SQD → ERR by modify is legal wherever the table is used",
        "sw/siw/siw_qp.c, siw_qp_nextstate_from_rts(); core/verbs.c, qp_state_table[IB_QPS_SQD]",
        "SQD-ERR", "siw", "erdma", "irdma",
    ),
    _claim(
        "a missing PATH_MTU yields \"Invalid parameter\"", "true for RC, UC and XRC, and of little help",
        "EINVAL is the answer to nearly everything, so the number alone diagnoses nothing. For UD and RAW_PACKET "
        "PATH_MTU is itself the mistake: an excess bit, EINVAL too. And on RoCE a bad address answers first "
        "(ENODATA, ETIMEDOUT, …)",
        "core/verbs.c, ib_modify_qp_is_ok(), executed; measured on rxe",
        "path_mtu", "INIT-RTR", "EINVAL", "mask-missing",
    ),
    _claim(
        "on error, none of the attributes is modified (ibv_modify_qp(3))", "not guaranteed",
        "rxe can fail with ENOMEM after it has changed the state, irdma writes fields before it checks, qedr's library "
        "reports failure after the kernel has moved the queue pair, and mlx4 may report success without moving it. "
        "Ask for the state after a failure",
        "sw/rxe/rxe_qp.c, rxe_qp_from_attr(); hw/irdma/verbs.c; rdma-core providers/qedr/qelr_verbs.c; "
        "hw/mlx4/qp.c, __mlx4_ib_modify_qp()",
        "ENOMEM", "rxe", "irdma", "qedr", "mlx4",
    ),
)


def about(*topics: str) -> tuple[Claim, ...]:
    """The claims that are told under any of *topics*."""
    return tuple(claim for claim in FOLKLORE if not claim.topics.isdisjoint(topics))
