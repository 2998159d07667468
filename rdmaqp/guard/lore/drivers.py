"""What each field of a driver's row (:mod:`..drivers`) says, in words."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.guard.drivers import ALWAYS, UNKNOWN
from rdmaqp.guard.lore.attributes import CONVERSIONS
from rdmaqp.model.enums import AccessFlag, GidType, QPState, mask_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rdmaqp.guard.drivers import Driver, Kernel

#: Told elsewhere: whose row it is, what it has, what it lacks; and one beside another field.
TOLD_APART = frozenset({
    "name", "source", "types", "driver_types", "missing_arrows", "missing_by_type", "access_since",
})  # fmt: skip
_GIDS = {GidType.IB: "InfiniBand", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}


def words_of(row: Driver) -> dict[str, str]:
    """Each field in which *row* differs from a driver that nobody knows, and what that means."""
    return {name: say(row) for name, say in _WORDS.items() if getattr(row, name) != getattr(UNKNOWN, name)}


def _since(kernel: Kernel | None) -> str:
    return f"from Linux {kernel[0]}.{kernel[1]} on, " if kernel is not None and kernel > ALWAYS else ""


def _names(members: Iterable[str]) -> str:
    return ", ".join(sorted(members))


def _each(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _access(row: Driver) -> str:
    known = int(sum(AccessFlag))
    named = [str(flag.name) for flag in AccessFlag if flag & row.access_flags]
    bits = [bit for bit in range(32) if row.access_flags & ~known & 1 << bit]
    runs = [bit for bit in bits if bit - 1 not in bits]
    ends = [bit for bit in bits if bit + 1 not in bits]
    more = [f"{first}…{last}" if first < last else f"{first}" for first, last in zip(runs, ends, strict=True)]
    return f"{_since(row.access_since)}qp_access_flags takes {', '.join(named)}" + (
        f", bits {', '.join(more)} without a name" if more else ""
    ) + "; any other bit is refused"


def _posts(row: Driver) -> str:
    queues = sorted({queue for queue, _ in row.post_refused}, reverse=True)
    states = {queue: [state.name for state in QPState if (queue, state) in row.post_refused] for queue in queues}
    return _each(f"post_{queue} is refused in {', '.join(states[queue])}" for queue in queues)


_WORDS: Mapping[str, Callable[[Driver], str]] = MappingProxyType({
    "creates": lambda row: f"it creates {_names(kind.name for kind in row.creates or ())}, and modifies its types only",
    "ethernet": lambda _: "its ports are RoCE",
    "iwarp": lambda _: "its ports are iWARP: RTR, RTS and SQD belong to the connection manager",
    "asks_table": lambda _: "the kernel's table is not asked",
    "needs_state": lambda _: "every mask must have STATE",
    "unchecked_since": lambda row: f"{_since(row.unchecked_since)}a mask without STATE is not compared with the table: "
                                   "its attributes are applied in any state",
    "refused_unchecked": lambda row: _each(
        f"refused even without STATE: {', '.join(mask_names(mask))} of {kind.name}"
        for kind, mask in row.refused_unchecked.items()
    ),
    "excess": lambda row: _each(
        f"{', '.join(mask_names(mask))} is refused in {start.name} → {goal.name}"
        for (start, goal), mask in row.excess.items()
    ),
    "spoilt_by_reset": lambda _: "no queue pair leaves RESET a second time: destroy it and create another",
    "waits_for_drain": lambda _: "SQD is left only once the send queue is drained (sq_draining 0), or to ERR",
    "looks_when_told": lambda _: "receives posted in ERR are flushed at the next move to ERR, sends held in SQD "
                                 "run at the next post after RTS",
    "sticks_in_sqd_since": lambda row: f"{_since(row.sticks_in_sqd_since)}an idle queue pair that has sent more than "
                                       "its send queue holds never finishes draining in SQD",
    "flushes_in_sqd": lambda _: "RTS → SQD flushes both queues",
    "rate_limit": lambda row: _each(
        f"{_since(kernel)}RATE_LIMIT is taken for {kind.name}" for kind, kernel in row.rate_limit.items()
    ),
    "ignores_pkey_index": lambda _: "pkey_index is stored, and nobody looks at it",
    "checks_alt_pkey": lambda _: "alt_pkey_index is compared with the table, too",
    "mig_goals": lambda row: "path_mig_state is " + " or ".join(
        f"{mig.name} on the way to {', '.join(state.name for state in QPState if state in goals)}"
        for mig, goals in (row.mig_goals or {}).items()
    ) + ", and nothing else",
    "refuses_high_qkeys": lambda _: "a qkey with bit 31 is refused, whatever the process may do",
    "overruns_raised_depth": lambda _: "max_dest_rd_atomic above that of before, also before a RESET, has it write "
                                       "past an array: the kernel may die",
    "first_pkey_only": lambda _: "pkey_index is 0, the only one",
    "first_port_only": lambda _: "port_num is 1, the only one",
    "raw_on_ethernet_only": lambda _: "RAW_PACKET needs an Ethernet port",
    "gid_types": lambda row: f"sgid_index must name an entry of {_names(_GIDS[kind] for kind in row.gid_types or ())}",
    "initiator_limit": lambda row: f"max_rd_atomic is held to the device's {row.initiator_limit}",
    "responder_limit": lambda row: f"max_dest_rd_atomic is held to the device's {row.responder_limit}",
    "unchecked_depths": lambda row: f"not compared with the device's limit: {_names(row.unchecked_depths)}",
    "depth_most": lambda row: f"a max_rd_atomic above {row.depth_most} is refused, a max_dest_rd_atomic above it "
                              "ends as 0",
    "rounds_depths": lambda _: "max_rd_atomic and max_dest_rd_atomic are rounded up to a power of two",
    "atomics_with_depth": lambda _: "REMOTE_ATOMIC on a device without atomics is refused at RTR, with the responder "
                                    "depth, not at INIT",
    "mtu_low": lambda row: f"path_mtu is at least {row.mtu_low}",
    "mtu_high": lambda row: f"path_mtu is at most {row.mtu_high}",
    "rate_high": lambda row: f"static_rate is known up to code {row.rate_high} "
                             f"({CONVERSIONS['static_rate'][row.rate_high]})",
    "max_sl_ethernet": lambda row: f"on Ethernet sl is 0…{row.max_sl_ethernet}",
    "access_flags": _access,
    "timeout_high": lambda row: f"a timeout above {row.timeout_high} is not programmed on some of its devices",
    "wide_lids": lambda _: "LIDs are wider than InfiniBand's: dlid may be above 0xBFFF",
    "post_refused": _posts,
    "opcodes": lambda row: _each(
        f"{kind.name if kind.name != 'DRIVER' else _names(own.name for own in row.driver_types)} sends "
        f"{_names(opcode.name for opcode in opcodes)}" for kind, opcodes in row.opcodes.items()
    ),
})
