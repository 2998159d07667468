"""What messages about a refusal by the firmware, or by the table, have in common: reasons, and what it cannot be."""

from __future__ import annotations

from rdmaqp.guard.logs.pattern import likely, proved

REFUSED = (
    proved(
        "firmware-refused", "the firmware answered the command with an error: only its vendor can decode the syndrome"
    ),
)
#: The same of a command that makes something.
CREATED = (
    *REFUSED,
    likely(
        "qp-limit",
        "a firmware without room for one more says so too, long before max_qp or max_cq is reached: "
        "`rdma resource show` tells what is in use",
    ),
)
#: The same of a command that moves a queue pair.
RESULTS = (
    *REFUSED,
    likely("rd-atomic-over-device", "the firmware looks at the depths itself (max_rd_atomic, max_dest_rd_atomic)"),
    likely("mtu-over-active", "and at the path MTU (INIT → RTR), which must not be above the port's"),
)

#: The kernel's own checks come before the firmware's: what they refuse never gets there.
PASSED = ("mask", "transition", "port_num", "grh", "sgid_index", "neighbour-unresolved", "route-missing")
BEFORE = "the command reached the firmware, and the kernel asks for these before"

#: Programs that command the firmware themselves (DevX) pass the kernel by.
UNASKED = ("mask", "transition")
DIRECT = "the command was given to the firmware directly (DevX): no table of the kernel's was asked"

#: A driver that says so where the kernel's table refused.
BY_TABLE = (
    likely("mask-missing", "the state table refused: too few attributes for this arrow"),
    likely("mask-excess", "or too many"),
    likely("transition-illegal", "or there is no such arrow"),
)
