"""What a kernel driver narrows, widens or silently changes: the shape of a row.

The rows themselves are data, in :mod:`.driver_rows`. A driver without a row is unknown: the core table and the fields'
own ranges decide alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.model.acts import WROpcode
    from rdmaqp.model.enums import DriverType, GidType, MigState, QPState, QPType

Kernel = tuple[int, int]

#: Since a kernel that is always there.
ALWAYS: Kernel = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One driver's ways. What is not said here is as the core has it.

    Attributes:
        name: as in the check contract.
        source: where this stands.
        types: the queue pair types that can be modified; ``None`` is all.
        creates: those that can be created, where that differs.
        driver_types: its own types, among ``DRIVER``.
        ethernet: whether its ports are always RoCE.
        iwarp: whether its ports are always iWARP.
        asks_table: whether the core table is asked at all.
        needs_state: whether each mask must have STATE.
        unchecked_since: the kernel from which on the table is not asked when the mask has no STATE.
        refused_unchecked: bits that are refused even then, by type.
        missing_arrows: arrows of the core table that it has not, with the reason.
        missing_by_type: the same, for one type.
        excess: bits that the core table allows on an arrow, and this driver refuses.
        spoilt_by_reset: whether no queue pair leaves RESET a second time.
        waits_for_drain: whether a queue pair leaves SQD only when drained (or to ERR).
        looks_when_told: whether it looks at a queue only when a call says so: receives posted in ERR are flushed at the
            next move to ERR, sends held in SQD run at the next post after RTS.
        sticks_in_sqd_since: the kernel since which a send queue that has gone round once may never finish draining.
        flushes_in_sqd: whether SQD flushes both queues.
        rate_limit: by type, the kernel since which RATE_LIMIT is taken. Without a row, its user library refuses it.
        ignores_pkey_index: it stores whatever it is given.
        checks_alt_pkey: it compares alt_pkey_index with the table, too.
        mig_goals: the migration states that it takes, each with the states in which the call may end; ``None`` is all.
        refuses_high_qkeys: it takes no Q_Key with bit 31 from a user, privileged or not.
        first_pkey_only, first_port_only: index 0 and port 1 are the only ones.
        raw_on_ethernet_only: RAW_PACKET needs an Ethernet port.
        gid_types: the GID types that it can send from; ``None`` is all.
        initiator_limit, responder_limit: the ``ibv_device_attr`` fields that bound max_rd_atomic, max_dest_rd_atomic.
        unchecked_depths: those two of which it checks neither, and leaves them as they are.
        depth_most: a depth above this ends as 0.
        rounds_depths: whether depths are rounded up to a power of two.
        overruns_raised_depth: whether a max_dest_rd_atomic above that of before makes it write past its array.
        atomics_with_depth: REMOTE_ATOMIC on a device without atomics is refused where the responder depth comes.
        mtu_low, mtu_high: the path MTUs that it takes, bytes.
        rate_high: the highest static rate code that it knows.
        max_sl_ethernet: the highest service level that survives on Ethernet.
        access_since, access_flags: the kernel since which it refuses all other access flags.
        timeout_high: a timeout above this is not programmed on some of its devices.
        wide_lids: whether its LIDs are wider than InfiniBand's.
        post_refused: (queue, state) pairs that it refuses although the specification has them.
        opcodes: by type, what can be sent, where that differs from the specification.
    """

    name: str = ""
    source: str = ""
    types: frozenset[QPType] | None = None
    creates: frozenset[QPType] | None = None
    driver_types: frozenset[DriverType] = frozenset()
    ethernet: bool = False
    iwarp: bool = False
    asks_table: bool = True
    needs_state: bool = False
    unchecked_since: Kernel | None = None
    refused_unchecked: Mapping[QPType, int] = field(default_factory=dict)
    missing_arrows: Mapping[tuple[QPState, QPState], str] = field(default_factory=dict)
    missing_by_type: Mapping[QPType, Mapping[tuple[QPState, QPState], str]] = field(default_factory=dict)
    excess: Mapping[tuple[QPState, QPState], int] = field(default_factory=dict)
    spoilt_by_reset: bool = False
    waits_for_drain: bool = False
    looks_when_told: bool = False
    sticks_in_sqd_since: Kernel | None = None
    flushes_in_sqd: bool = False
    rate_limit: Mapping[QPType, Kernel] = field(default_factory=dict)
    ignores_pkey_index: bool = False
    checks_alt_pkey: bool = False
    mig_goals: Mapping[MigState, frozenset[QPState]] | None = None
    refuses_high_qkeys: bool = False
    first_pkey_only: bool = False
    first_port_only: bool = False
    raw_on_ethernet_only: bool = False
    gid_types: frozenset[GidType] | None = None
    initiator_limit: str = "max_qp_init_rd_atom"
    responder_limit: str = "max_qp_rd_atom"
    unchecked_depths: frozenset[str] = frozenset()
    depth_most: int = 255
    rounds_depths: bool = False
    overruns_raised_depth: bool = False
    atomics_with_depth: bool = False
    mtu_low: int = 256
    mtu_high: int = 4096
    rate_high: int = 24
    max_sl_ethernet: int = 15
    access_since: Kernel | None = None
    access_flags: int = 0xFFFFFFFF
    timeout_high: int = 31
    wide_lids: bool = False
    post_refused: frozenset[tuple[str, QPState]] = frozenset()
    opcodes: Mapping[QPType, frozenset[WROpcode]] = field(default_factory=dict)

    def must_recreate(self, kind: QPType) -> bool:
        """Whether a queue pair of that type that is in ERR never comes back: it has to be destroyed, and made anew.

        Where RESET spoils it (irdma); on iWARP, whose ERR is the end of its TCP connection (Linux siw_qp.c,
        siw_qp_modify(): nothing leads on); the drivers' own types (Linux mlx5_ib_modify_dct(): no RESET, no ERR).
        """
        return self.spoilt_by_reset or self.iwarp or kind.name == "DRIVER"


#: The row of a driver that has none. Compare with ``is``.
UNKNOWN = Driver()
