"""What programs print of the connection manager's events and calls (librdmacm, the kernel's rdma_cm)."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import Pattern

#: librdmacm's calls that can fail before anything is connected.
_CALLS = (
    "resolve_addr|resolve_route|bind_addr|connect|disconnect|accept|listen|create_ep|create_id|create_event_channel|"
    "getaddrinfo"
)
_DRIVES = "linux-rdma/rdma-core librdmacm/examples/rping.c, cmatose.c, mckey.c; pmem/rpma"

EVENTS = (
    Pattern(
        "spdk-cm-event", "SPDK", "cm", "from CM event channel (status",
        r"but received {cm} \(\d+\) from CM event channel \(status = (?:-{errno}|{reject})\)",
        "spdk/spdk lib/nvme/nvme_rdma.c, nvme_rdma_validate_cm_event(); spdk/spdk#1505, #1087",
    ),
    Pattern(
        "ucx-cm-event", "UCX", "cm", "got error event RDMA_CM_EVENT_",
        r"got error event {cm}, event status .*?\((?:-{errno}|{reject})\)",
        "openucx/ucx src/uct/ib/rdmacm/rdmacm_cm.c, uct_rdmacm_cm_handle_error_event(); NVIDIA/spark-rapids#9386",
    ),
    Pattern(
        "perftest-cm-event", "perftest", "cm", "Event: RDMA_CM_EVENT_",
        r"Event: {cm}; error: (?:-{errno}|{reject})\b",
        "linux-rdma/perftest src/perftest_communication.c, rdma_cm_events_dispatcher(); linux-rdma/perftest#54",
    ),
    Pattern(
        "perftest-cm-more", "perftest", "more", "RDMA CM event",
        r"^\s*(?:RDMA CM event error:|Failed to (?:handle RDMA CM event|connect RDMA CM events)\.?)",
        "linux-rdma/perftest src/perftest_communication.c; linux-rdma/perftest#54",
    ),
    Pattern(
        "any-cm-event", "an rdma_cm program", "cm", "RDMA_CM_EVENT_",
        r"(?<!Expected )\b{cm}\b(?:[ ,;:(=]{1,4}(?:event )?(?i:error|status|err)?[ :=(]{0,4}(?:-{errno}|{reject})\b)?",
        _DRIVES,
    ),
)

CALLS = (
    Pattern(
        "spdk-cm-connect", "SPDK", "cm", "RDMA connect error",
        r"RDMA connect error (?:-{errno}\b)?",
        "spdk/spdk lib/nvme/nvme_rdma.c, nvme_rdma_connect(); spdk/spdk#1703",
        made="rdma_connect",
    ),
    Pattern(
        "spdk-cm-accept", "SPDK", "cm", "on rdma_accept",
        "Error {errno} on rdma_accept",
        "spdk/spdk lib/nvmf/rdma.c, nvmf_rdma_event_accept(); spdk/spdk#996",
        made="rdma_accept",
    ),
    Pattern(
        "rsocket-connect", "rsocket", "cm", "rconnect",
        r"^\s*(?:async )?(?P<made>rconnect): {error}",
        "linux-rdma/rdma-core librdmacm/examples/rstream.c",
    ),
    Pattern(
        "qemu-cm", "QEMU", "cm", "RDMA ERROR: could not create",
        r"RDMA ERROR: could not create (?:rdma event channel|cm_id)",
        "qemu/qemu migration/rdma.c, qemu_rdma_dest_init()",
        made="rdma_create_event_channel",
    ),
    Pattern(
        "any-cm-call", "an rdma_cm program", "cm", "rdma_",
        rf"\b(?P<made>rdma_(?:{_CALLS}))\b" r"(?:\([^)]*\))?(?::| failed| error)[^.]{0,24}?(?:{error}|[-(]{errno}\b)",
        f'perror("rdma_resolve_addr") and the like; {_DRIVES}',
    ),
    Pattern(
        "any-cm-call-bare", "an rdma_cm program", "cm", "rdma_",
        rf"\b(?P<made>rdma_(?:{_CALLS}))\b" r"(?:\([^)]*\))? (?:has )?failed\b",
        f"ovis-hpc/ldms#124; {_DRIVES}",
    ),
)

ROWS = (*EVENTS, *CALLS)
