"""What the kernel's users of RDMA print: NVMe, iSER, SRP, SMB Direct, NFS, RDS, IPoIB; and Lustre."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern, likely

_ULP = "Linux drivers/infiniband/ulp"

NVME = (
    Pattern(
        "nvme-completion", "kernel, NVMe", "completion", " for CQE ",
        r"(?:SEND|RECV|MEMREG|LOCAL_INV|RDMA READ|RDMA WRITE) for CQE (?:0x)?\w+ failed with status {status_text} "
        r"\({status}\)",
        "Linux drivers/nvme/host/rdma.c, nvme_rdma_wr_error(); target/rdma.c",
    ),
    Pattern(
        "nvme-rejected", "kernel, NVMe", "cm", "Connect rejected: status",
        r"Connect rejected: status {reject}(?: nvme status \d+)? \([^)]*\)",
        "Linux drivers/nvme/host/rdma.c, nvme_rdma_conn_rejected(); spdk/spdk#257",
        cm="RDMA_CM_EVENT_REJECTED",
    ),
    Pattern(
        "nvme-connect", "kernel, NVMe", "cm", "nvme",
        r"nvme\w* \w+: (?:(?:rdma )?connection establishment failed|(?P<made>rdma_\w+) failed) \(-{errno}\)",
        "Linux drivers/nvme/host/rdma.c, nvme_rdma_alloc_queue()",
        made="rdma_connect",
    ),
    Pattern(
        "nvme-consequence", "kernel, NVMe", "more", "nvme",
        r"nvme\w* \w+: (?:rdma_resolve_addr wait failed|Failed reconnect attempt|Reconnecting in|starting error "
        "recovery)",
        "Linux drivers/nvme/host/rdma.c; spdk/spdk#257",
    ),
)

SCSI = (
    Pattern(
        "iser-completion", "kernel, iSER", "completion", "vend_err",
        r"iser\w*: \w+: .*?failure: {status_text} \({status}\) vend_err {vendor}",
        f"{_ULP}/iser/iser_initiator.c, iser_err_comp(); isert/ib_isert.c, isert_print_wc()",
    ),
    Pattern(
        "srp-completion", "kernel, SRP", "completion", "ib_srp: failed",
        r"ib_srp: failed [\w ]+ status {status_text} \({status}\) for CQE",
        f"{_ULP}/srp/ib_srp.c, srp_handle_qp_err()",
    ),
    Pattern(
        "srpt-completion", "kernel, SRP", "completion", "for ioctx",
        r"for ioctx (?:0x)?\w+ failed with status {status}\b",
        f"{_ULP}/srpt/ib_srpt.c, srpt_rdma_read_done()",
    ),
    Pattern(
        "srp-rejected", "kernel, SRP", "cm", "REJ received",
        "ib_srp: REJ received",
        f"{_ULP}/srp/ib_srp.c, srp_ib_cm_rej_handler(); https://www.systemfabricworks.com/ib_srp-rej-reason-0x3-and-you",
        cm="RDMA_CM_EVENT_REJECTED",
    ),
    Pattern(
        "srp-rejected-why", "kernel, SRP", "more", "REJ reason",
        r"REJ reason (?:0x)?{reject}\b",
        f"{_ULP}/srp/ib_srp.c, srp_ib_cm_rej_handler()",
    ),
)

FILES = (
    Pattern(
        "ksmbd-completion", "kernel, SMB Direct", "completion", "smb_direct: ",
        r"smb_direct: .*?error\..*?status ?= ?'?{status_text} ?\({status}\)",
        "Linux fs/smb/server/transport_rdma.c, send_done(), recv_done(), read_write_done()",
    ),
    Pattern(
        "cifs-completion", "kernel, SMB Direct", "completion", "wc->status=",
        r"CIFS: .*?wc->status={status} wc->opcode=\d+",
        "Linux fs/smb/client/smbdirect.c, send_done(), recv_done()",
    ),
    Pattern(
        "nfs-completion", "kernel, NFS over RDMA", "completion", "rdma: ",
        r"(?:rpcrdma|svcrdma): [\w ]+: {status_text} \({status}/{vendor}\)",
        "Linux net/sunrpc/xprtrdma/verbs.c, frwr_ops.c, svc_rdma_sendto.c; openzfs/zfs#6795",
    ),
    Pattern(
        "nfs-rejected", "kernel, NFS over RDMA", "cm", "rpcrdma: connection to",
        r"rpcrdma: connection to \S+(?: on {device})? rejected: {reject_text}",
        "Linux net/sunrpc/xprtrdma/verbs.c, rpcrdma_cm_event_handler()",
        cm="RDMA_CM_EVENT_REJECTED",
    ),
    Pattern(
        "rds-completion", "kernel, RDS", "completion", "RDS/IB:",
        r"RDS/IB: \w+ completion on <[^>]*> had status {status} \({status_text}\)(?:, vendor err {vendor})?",
        "Linux net/rds/ib_send.c, ib_recv.c",
    ),
)

IPOIB = (
    Pattern(
        "ipoib-completion", "kernel, IPoIB", "completion", "vend_err",
        r"failed (?:cm )?(?:send|recv) event \(status={status}, wrid=-?\d+ vend_err {vendor}\)",
        f"{_ULP}/ipoib/ipoib_ib.c, ipoib_cm.c",
    ),
    Pattern(
        "ipoib-modify", "kernel, IPoIB", "modify", "failed to modify QP to",
        r"ib\w+: failed to modify QP to {goal}: {errno}\b",
        f"{_ULP}/ipoib/ipoib_cm.c, ipoib_cm_rep_handler()",
    ),
)

LUSTRE = (
    Pattern(
        "lustre-cm", "Lustre", "cm", "kiblnd_cm_callback",
        r"kiblnd_cm_callback\(\)\) {peer}@\S+: ADDR ERROR -{errno}",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_cm_callback()",
        cm="RDMA_CM_EVENT_ADDR_ERROR",
    ),
    Pattern(
        "lustre-cm-route", "Lustre", "cm", "kiblnd_cm_callback",
        r"kiblnd_cm_callback\(\)\) {peer}@\S+: ROUTE ERROR -{errno}",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_cm_callback()",
        cm="RDMA_CM_EVENT_ROUTE_ERROR",
    ),
    Pattern(
        "lustre-unreachable", "Lustre", "cm", "kiblnd_cm_callback",
        r"kiblnd_cm_callback\(\)\) {peer}@\S+: UNREACHABLE -?{errno}",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_cm_callback()",
        cm="RDMA_CM_EVENT_UNREACHABLE",
    ),
    Pattern(
        "lustre-rejected", "Lustre", "cm", "kiblnd_rejected",
        r"kiblnd_rejected\(\)\) {peer}@\S+ rejected",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_rejected()",
        cm="RDMA_CM_EVENT_REJECTED",
    ),
    Pattern(
        "lustre-tx", "Lustre", "completion", "kiblnd_tx_complete",
        r"kiblnd_tx_complete\(\)\) Tx -> {peer}@\S+ .*?failed {status}\b",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_tx_complete()",
    ),
    Pattern(
        "lustre-rx", "Lustre", "completion", "kiblnd_rx_complete",
        r"kiblnd_rx_complete\(\)\) Rx from {peer}@\S+ failed: {status}\b",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_rx_complete()",
    ),
    Pattern(
        "lustre-timeout", "Lustre", "told", "kiblnd_check_conns",
        r"kiblnd_check_conns\(\)\) Timed out (?:tx for|RDMA with) {peer}@",
        "Lustre lnet/klnds/o2iblnd/o2iblnd_cb.c, kiblnd_check_conns(); jade-hpc-gpu/jade-hpc-gpu.github.io#14",
        reasons=(
            likely("peer-unreachable", "the other node took or gave nothing for the time that the LND allows: its port "
                                       "or the path to it is down, or it is overloaded"),
            likely(
                "peer-not-ready", "or its connection was never made: look for the first line that tells of this peer"
            ),
        ),
        made="RDMA",
    ),
)

ROWS = (*NVME, *SCSI, *FILES, *IPOIB, *LUSTRE)
