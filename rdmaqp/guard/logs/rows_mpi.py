"""What Open MPI's openib, MVAPICH2, MPI's neighbours and GPFS print."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern, likely

OPENMPI = (
    Pattern(
        "openmpi-completion", "Open MPI", "completion", "error polling ",
        r"error polling \w+(?: CQ)? with status [A-Z ]+ status number {status} for wr_id \w+(?: opcode \d+)?"
        r"(?:\s+vendor error {vendor})?",
        "open-mpi/ompi opal/mca/btl/openib/btl_openib_component.c, handle_wc(); open-mpi/ompi#4529, #5047, #8403",
    ),
    Pattern(
        "openmpi-modify-help", "Open MPI", "modify", "attributes of a queue pair",
        r"Failed to modify the attributes of a queue pair \(QP\)",
        "open-mpi/ompi opal/mca/common/verbs; help-oob-ud.txt (of 1.x to 3.x); open-mpi/ompi#3286",
    ),
    Pattern(
        "openmpi-create-help", "Open MPI", "create", "create a queue pair (QP)",
        r"Failed to create a queue pair \(QP\)",
        "open-mpi/ompi help-oob-ud.txt (of 1.x to 3.x); open-mpi/ompi#11236",
    ),
    Pattern(
        "openmpi-create-function", "Open MPI", "create", "Function: ",
        r"^\s*Function: +(?P<made>ibv_create_\w+)\(\)",
        "open-mpi/ompi opal/mca/btl/openib/help-mpi-btl-openib.txt; open-mpi/ompi#166",
    ),
    Pattern(
        "openmpi-more", "Open MPI", "more", "Error:    ",
        r"^\s*Error: +{error}",
        "open-mpi/ompi help-oob-ud.txt, help-mpi-btl-openib.txt; open-mpi/ompi#166, #3286",
    ),
    Pattern(
        "openmpi-modify", "Open MPI", "modify", "error modifing QP to",
        r"error modifing QP to {goal}\b(?:.{0,12}? says|:) {error}",
        "open-mpi/ompi opal/mca/btl/openib/connect/btl_openib_connect_udcm.c, btl_openib_connect_oob.c (of 1.x)",
    ),
    Pattern(
        "openmpi-create", "Open MPI", "create", "error creating qp",
        r"error creating qp\.? errno says {error}",
        "open-mpi/ompi opal/mca/btl/openib/connect/btl_openib_connect_udcm.c; btl_openib_connect_oob.c",
    ),
    Pattern(
        "openmpi-memlock", "Open MPI", "told", "memlock limits are set too low",
        "memlock limits are set too low",
        "open-mpi/ompi opal/mca/btl/openib/help-mpi-btl-openib.txt, init-fail-no-mem",
        reasons=(
            likely("memlock-limit", "Open MPI could not lock the memory that it needs, and shows the limit below: "
                                    "`ulimit -l unlimited` where the ranks start (limits.conf is read by a new login, "
                                    "the batch system's daemon has limits of its own)"),
        ),
        made="memory registration",
    ),
    Pattern(
        "openmpi-device", "Open MPI", "more", "Device:",
        r"^\s+Device:\s+{device}\s*$",
        "open-mpi/ompi opal/mca/btl/openib/help-mpi-btl-openib.txt",
    ),
    Pattern(
        "openmpi-memlock-limit", "Open MPI", "more", "Memlock limit:",
        r"^\s+Memlock limit:\s+(?P<memlock>\d+)\s*$",
        "open-mpi/ompi opal/mca/btl/openib/help-mpi-btl-openib.txt",
    ),
)

MVAPICH = (
    Pattern(
        "mvapich-completion", "MVAPICH2", "completion", "wc.status=",
        r"Msg from \d+: wc\.status={status} \({status_text}\)",
        "MVAPICH2 src/mpid/ch3/channels/mrail/src/gen2/ibv_channel_manager.c, handle_cqe()",
    ),
    Pattern(
        "mvapich-abort", "MVAPICH2", "completion", "Got completion with error",
        "Got completion with error {status}, vendor code={vendor}",
        "MVAPICH2 src/mpid/ch3/channels/mrail/src/gen2/ibv_channel_manager.c, handle_cqe()",
    ),
    Pattern(
        "mvapich-more", "MVAPICH2", "more", "mpi_rank_",
        r"mpi_rank_\d+\]\[(?:handle_cqe\] Send desc error|mv2_print_wc_status_error\])",
        "MVAPICH2 src/mpid/ch3/channels/mrail/src/gen2/ibv_channel_manager.c",
    ),
)

GPFS = (
    Pattern(
        "gpfs-event", "IBM Storage Scale", "event", "VERBS RDMA async event",
        "VERBS RDMA async event {event} on {device}",
        "IBM Storage Scale mmfs.log: https://www.ibm.com/support/pages/apar/IJ01910",
    ),
    Pattern(
        "gpfs-completion", "IBM Storage Scale", "completion", "VERBS RDMA ",
        r"VERBS RDMA rdma \w+ error {status_text}(?:.*? on {device} port {port})?(?:.*?vendor_err {vendor})?",
        "IBM Storage Scale mmfs.log: https://www.ibm.com/support/pages/apar/IJ01910",
    ),
)

ROWS = (*OPENMPI, *MVAPICH, *GPFS)
