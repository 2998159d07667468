"""What rdma-core prints: its examples, pyverbs, its libraries."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern, likely, proved

EXAMPLES = (
    Pattern(
        "pingpong-modify", "rdma-core examples", "modify", "Failed to modify QP",
        r"Failed to modify QP(?:\[\d+\])? to {goal}\s*$",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c, pp_connect_ctx(); uc_pingpong.c, ud_pingpong.c, "
        "srq_pingpong.c",
    ),
    Pattern(
        "pingpong-status", "rdma-core examples", "completion", "Failed status",
        r"Failed status {status_text} \({status}\) for wr_id",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c, parse_single_wc()",
    ),
    Pattern(
        "pingpong-sgid", "rdma-core examples", "told", "gid",
        "(?:can't read sgid of index|Could not get local gid for gid index) {index}",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c, srq_pingpong.c",
        reasons=(
            proved("sgid-range", "the GID table has no such slot that can be read"),
        ),
    ),
    Pattern(
        "pingpong-lid", "rdma-core examples", "told", "Couldn't get local LID",
        "Couldn't get local LID",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c",
        reasons=(
            proved("port-inactive", "this InfiniBand port has no LID: no subnet manager has configured it"),
        ),
    ),
    Pattern(
        "pingpong-ah", "rdma-core examples", "ah", "Failed to create AH",
        "Failed to create AH",
        "linux-rdma/rdma-core libibverbs/examples/ud_pingpong.c",
    ),
    Pattern(
        "pingpong-create", "rdma-core examples", "create", "Couldn't create QP",
        r"^\s*Couldn't create QP\b",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c, pp_init_ctx()",
    ),
    Pattern(
        "pingpong-mr", "rdma-core examples", "reg_mr", "Couldn't register MR",
        r"^\s*Couldn't register MR",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c, pp_init_ctx()",
    ),
    Pattern(
        "verbs-open", "a verbs program", "told", "Couldn't get context for",
        r"Couldn't get context for (?:the device|{device})\s*$",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c; linux-rdma/perftest src/perftest_resources.c",
        reasons=(
            likely("not-permitted", "/dev/infiniband/uverbs… is not there, or not for this process: in a container "
                                    "give it (--device=/dev/infiniband)"),
            likely("provider-missing", "or the user library does not match the kernel's driver"),
        ),
        made="ibv_open_device",
    ),
    Pattern(
        "verbs-no-device", "a verbs program", "told", "IB device ",
        r"IB device '?{device}'? (?:not found|wasn't found)",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c, asyncwatch.c",
        reasons=(
            proved("device-missing", "libibverbs lists no device of that name in this process"),
        ),
        made="looking for the device",
    ),
    Pattern(
        "pingpong-consequence", "rdma-core examples", "more", "Couldn't",
        "Couldn't connect to remote QP|Couldn't (?:read/write|read) remote address",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c",
    ),
    Pattern(
        "pingpong-local", "rdma-core examples", "facts", "local address:",
        r"local address:\s+LID 0x[0-9a-f]+, QPN {qpn}, (?:PSN 0x[0-9a-f]+, |PSN 0x[0-9a-f]+: )?GID {gid}",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c",
        late="yes",
    ),
    Pattern(
        "pingpong-remote", "rdma-core examples", "facts", "remote address:",
        r"remote address:\s+LID 0x[0-9a-f]+, QPN {dest_qpn}, (?:PSN 0x[0-9a-f]+, )?GID {peer_gid}",
        "linux-rdma/rdma-core libibverbs/examples/rc_pingpong.c",
        late="yes",
    ),
    Pattern(
        "rping-event", "rdma-core examples", "cm", "cma event RDMA_CM_EVENT_",
        "cma event (?P<cm>RDMA_CM_EVENT_(?:ADDR|ROUTE)_ERROR), error {errno}",
        "linux-rdma/rdma-core librdmacm/examples/rping.c",
    ),
    Pattern(
        "rping-unreachable", "rdma-core examples", "cm", "RDMA_CM_EVENT_",
        "cma event (?P<cm>RDMA_CM_EVENT_(?:UNREACHABLE|CONNECT_ERROR)), error {errno}",
        "linux-rdma/rdma-core librdmacm/examples/rping.c",
    ),
    Pattern(
        "rping-rejected", "rdma-core examples", "cm", "RDMA_CM_EVENT_REJECTED",
        "cma event (?P<cm>RDMA_CM_EVENT_REJECTED), error (?:-{errno}|{reject})",
        "linux-rdma/rdma-core librdmacm/examples/rping.c",
    ),
)

PYVERBS = (
    Pattern(
        "pyverbs-modify", "pyverbs", "modify", "Failed to modify QP",
        r"Failed to modify QP(?: state)?(?: to {goal})?\. Errno: {errno}",
        "linux-rdma/rdma-core pyverbs/qp.pyx; pyverbs_error.py",
    ),
    Pattern(
        "pyverbs-completion", "pyverbs", "completion", "Completion status is",
        r"Completion status is [A-Z][\w /-]+\. Errno: {status}\b",
        "linux-rdma/rdma-core tests/utils.py, poll_cq(): the number behind Errno is the status",
    ),
    Pattern(
        "pyverbs-create", "pyverbs", "create", "Errno:",
        r"Failed to create (?:a |extended )?(?:QP|CQ)\. Errno: {errno}",
        "linux-rdma/rdma-core pyverbs/qp.pyx, cq.pyx",
    ),
    Pattern(
        "pyverbs-mr", "pyverbs", "reg_mr", "Failed to register a",
        r"Failed to register a (?:device |dma-buf )?MR\. length: {length}, access(?: flags)?: (?P<access>\d+)\. "
        "Errno: {errno}",
        "linux-rdma/rdma-core pyverbs/mr.pyx",
    ),
    Pattern(
        "pyverbs-post", "pyverbs", "post", "Failed to post",
        r"Failed to post (?P<queue>send|recv)\. Errno: {errno}",
        "linux-rdma/rdma-core pyverbs/qp.pyx",
    ),
)

LIBRARIES = (
    Pattern(
        "mlx5-dump", "libmlx5", "completion", "got completion with error",
        r"mlx5: \S+: got completion with error:",
        "linux-rdma/rdma-core providers/mlx5/cq.c, mlx5_parse_cqe(), dump_cqe(); charmplusplus/charm#2532",
        driver="mlx5",
    ),
    Pattern(
        "verbs-no-driver", "libibverbs", "told", "no userspace device-specific driver",
        r"no userspace device-specific driver found for /sys/class/infiniband_verbs/(?P<uverbs>uverbs\d+)",
        "linux-rdma/rdma-core libibverbs/init.c; nminoru/pib#2, open-mmlab/mmdetection#6002",
        reasons=(
            proved("provider-missing", "the kernel has this device, and no user library here drives it: install "
                                       "ibverbs-providers (Debian) or rdma-core (RHEL), in the container too"),
        ),
    ),
    Pattern(
        "verbs-load", "libibverbs", "told", "couldn't load driver",
        "couldn't load driver '(?P<library>[^']+)'",
        "linux-rdma/rdma-core libibverbs/dynamic_driver.c; NVIDIA/nccl#1044, SoftRoCE/rxe-dev#48",
        reasons=(
            likely("provider-missing", "this library is named in /etc/libibverbs.d and is not there, or was built "
                                       "for another libibverbs: ibverbs-providers (Debian) or rdma-core (RHEL) must "
                                       "be of one build. Harmless where no such device is in the machine"),
        ),
    ),
    Pattern(
        "verbs-config", "libibverbs", "told", "couldn't open config directory",
        "couldn't open config directory",
        "linux-rdma/rdma-core libibverbs/dynamic_driver.c; open-mmlab/mmdetection#6002",
        reasons=(
            proved("provider-missing", "libibverbs looks for its drivers in a directory that is not there: install "
                                       "ibverbs-providers (Debian) or rdma-core (RHEL) of the same build"),
        ),
    ),
    Pattern(
        "verbs-abi", "libibverbs", "told", "ABI",
        r"kernel ABI version \d+ doesn't match library version|does not support the kernel ABI",
        "linux-rdma/rdma-core libibverbs/init.c; SoftRoCE/rxe-dev#75",
        reasons=(
            proved("provider-missing", "the user library is older, or of another vendor, than the kernel driver: "
                                       "bring both from one source"),
        ),
    ),
    Pattern(
        "verbs-memlock", "libibverbs", "told", "RLIMIT_MEMLOCK is",
        r"RLIMIT_MEMLOCK is (?P<memlock>\d+) bytes",
        "linux-rdma/rdma-core libibverbs/init.c, check_memlock_limit()",
        reasons=(
            likely("memlock-limit", "the process may lock so little memory that registrations will fail: `ulimit -l "
                                    "unlimited`, LimitMEMLOCK=infinity, or --ulimit memlock=-1 for a container"),
        ),
    ),
    Pattern(
        "rdmacm-none", "librdmacm", "told", "no RDMA devices found",
        "librdmacm: Fatal: no RDMA devices found",
        "linux-rdma/rdma-core librdmacm/cma.c; ofiwg/libfabric#975",
        reasons=(
            proved("device-missing", "libibverbs lists no device in this process"),
        ),
    ),
)

ROWS = (*EXAMPLES, *PYVERBS, *LIBRARIES)
