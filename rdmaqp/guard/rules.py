"""The names of what can be found. They are stable: people ignore, grep and cite them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Severity = Literal["error", "warning", "note"]


class RuleInfo(NamedTuple):
    """What a rule says, how severe it usually is, and where that is decided."""

    severity: Severity
    says: str
    source: str


_CORE = "Linux drivers/infiniband/core/verbs.c"
_UVERBS = "Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp()"
_TABLE = f"{_CORE}, qp_state_table, ib_modify_qp_is_ok()"
_AV = f"{_CORE}, rdma_check_ah_attr(); core/cache.c, rdma_get_gid_attr()"
_RESOLVE = f"{_CORE}, ib_resolve_eth_dmac(); core/addr.c, rdma_resolve_ip()"
_NETDEV = "Linux drivers/infiniband/core/cache.c, rdma_read_gid_attr_ndev_rcu()"
_SPEC = "InfiniBand Architecture Specification, volume 1"
_STATES = "Linux drivers/infiniband/sw/rdmavt/qp.c, ib_rvt_state_ops"
_PEER = "both ends' records"

RULES: Mapping[str, RuleInfo] = MappingProxyType({
    "transition-illegal": RuleInfo("error", "there is no such arrow for this queue pair type", _TABLE),
    "transition-driver": RuleInfo("error", "the core table has the arrow, this driver has not", "the driver"),
    "transition-needs-cm": RuleInfo(
        "error", "iWARP: the connection manager leads to RTR and RTS, and closes (SQD)", "RFC 5044; rdma_connect(3)"
    ),
    "transition-pointless": RuleInfo("warning", "the arrow leads back to where it starts", _TABLE),
    "cur-state-mismatch": RuleInfo("error", "cur_qp_state is not the state that the queue pair is in", _TABLE),
    "qp-type-unsupported": RuleInfo("error", "the driver has no such queue pair type", "the driver"),
    "driver-unknown": RuleInfo("note", "no rules are known of this driver: the core table alone decides", "rdmaqp"),
    "mask-missing": RuleInfo("error", "a required attribute is not set", _TABLE),
    "mask-excess": RuleInfo("error", "an attribute that this arrow does not take", _TABLE),
    "mask-unknown": RuleInfo("error", "a bit that the interface does not define or cannot carry", _UVERBS),
    "mask-without-value": RuleInfo("error", "the bit is set, the value was never given", "rdmaqp"),
    "value-without-mask": RuleInfo("warning", "its bit is not set: the value is ignored", "ibv_modify_qp(3)"),
    "mask-ignored": RuleInfo("warning", "the kernel strips this bit for this type", f"{_UVERBS}, modify_qp_mask()"),
    "driver-unchecked": RuleInfo(
        "warning", "this driver does not check a mask without STATE, others refuse it", "the driver"
    ),
    "value-type": RuleInfo("error", "not the type that the attribute takes", "ibv_modify_qp(3)"),
    "value-range": RuleInfo("error", "does not fit the field", _SPEC),
    "value-enum": RuleInfo("error", "not a member of the enumeration", "<infiniband/verbs.h>"),
    "value-driver": RuleInfo("error", "in range, and refused or changed by this driver", "the driver"),
    "value-rounded": RuleInfo("note", "the driver rounds it up to a power of two", "the driver"),
    "port-range": RuleInfo("error", "the device has no such port", _UVERBS),
    "port-mismatch": RuleInfo("error", "not the port that the queue pair is bound to", _UVERBS),
    "port-inactive": RuleInfo("warning", "the port is not ACTIVE", "ibv_query_port(3)"),
    "pkey-range": RuleInfo("error", "outside the port's P_Key table", "the drivers; core/security.c"),
    "pkey-limited": RuleInfo("warning", "the key is a limited member, or invalid", _SPEC),
    "grh-missing": RuleInfo("error", "the port needs a global route header", _AV),
    "grh-ignored": RuleInfo("warning", "a global route is given and is_global is 0", "ibv_modify_qp(3)"),
    "sgid-range": RuleInfo("error", "past the end of the GID table", _AV),
    "sgid-empty": RuleInfo("error", "an empty slot of the GID table", _AV),
    "sgid-driver": RuleInfo("error", "this driver cannot use this GID table entry", "the driver"),
    "sgid-link-local": RuleInfo("warning", "link-local, while a routable RoCE v2 entry exists", _RESOLVE),
    "sgid-roce-v1": RuleInfo("warning", "RoCE v1, while the same address exists as v2", _RESOLVE),
    "sgid-netdev": RuleInfo("error", "the GID table entry has no net device here", _NETDEV),
    "sgid-moved": RuleInfo("error", "the GID that the peer was told is no longer at this index", "ibv_query_gid(3)"),
    "dgid-invalid": RuleInfo("error", "not a unicast peer", _SPEC),
    "gid-family-mismatch": RuleInfo("error", "an IPv4-mapped GID against an IPv6 one", _RESOLVE),
    "dlid-invalid": RuleInfo("error", "not a unicast LID", _SPEC),
    "hop-limit-low": RuleInfo("warning", "does not reach another subnet", _SPEC),
    "src-path-bits": RuleInfo("warning", "above what the port's LMC leaves free", _SPEC),
    "mtu-over-active": RuleInfo("error", "above the port's active MTU", "ibv_query_port(3)"),
    "rd-atomic-over-device": RuleInfo("error", "above what the device can", "ibv_query_device(3); the drivers"),
    "rd-atomic-budget": RuleInfo("warning", "all queue pairs together have no more", "ibv_query_device(3)"),
    "rd-atomic-raised": RuleInfo(
        "warning", "the driver writes past its array, which may end the kernel",
        "Linux sw/rxe/rxe_qp.c, rxe_qp_from_attr()",
    ),
    "rd-atomic-disables": RuleInfo("warning", "remote reads are allowed and cannot be served", "mlx5, mlx4, hns"),
    "atomic-unsupported": RuleInfo("warning", "remote atomics on a device without", "ibv_query_device(3)"),
    "timeout-infinite": RuleInfo("warning", "a timeout of 0 never gives up", _SPEC),
    "rnr-timer-longest": RuleInfo("warning", "min_rnr_timer 0 is the longest, 655 ms", _SPEC),
    "retry-none": RuleInfo("warning", "no retry: the first lost packet breaks the connection", _SPEC),
    "dead-peer-time": RuleInfo("note", "how long until a dead peer is noticed", _SPEC),
    "qpn-reserved": RuleInfo("error", "0 and 1 are the management queue pairs", _SPEC),
    "alt-path-roce": RuleInfo("error", "alternate paths exist on InfiniBand only", f"{_CORE}, _ib_modify_qp()"),
    "rate-limit-unsupported": RuleInfo("error", "packet pacing is not for this type here", _TABLE),
    "qkey-privileged": RuleInfo("warning", "bit 31 needs CAP_NET_RAW", _UVERBS),
    "recv-queue-empty": RuleInfo("warning", "to RTR without a receive posted", _SPEC),
    "reset-loses-completions": RuleInfo("warning", "work outstanding ends without completions", _SPEC),
    "create-over-limit": RuleInfo("error", "more than the device has", "ibv_query_device(3)"),
    "qp-limit": RuleInfo("warning", "as many queue pairs as the device has are in use", "ibv_query_device(3)"),
    "access-needs-local-write": RuleInfo(
        "error", "remote write or atomic without LOCAL_WRITE", "Linux include/rdma/ib_verbs.h, ib_check_mr_access()"
    ),
    "memlock-limit": RuleInfo(
        "warning", "longer than the process may lock", "Linux drivers/infiniband/core/umem.c, ib_umem_get()"
    ),
    "post-state": RuleInfo("error", "this state does not take it", _STATES),
    "post-flushes": RuleInfo("warning", "the work will only be flushed", _STATES),
    "post-srq": RuleInfo("error", "it has no receive queue of its own", "ibv_post_srq_recv(3)"),
    "post-opcode": RuleInfo("error", "not for this queue pair type", "ibv_post_send(3)"),
    "post-sge": RuleInfo("error", "too many pieces, or outside the region", "ibv_create_qp(3); ibv_reg_mr(3)"),
    "post-inline": RuleInfo(
        "error", "longer than what can be inline, or not for this opcode", "ibv_create_qp(3); ibv_post_send(3)"
    ),
    "post-full": RuleInfo("error", "the queue is full", "ibv_create_qp(3)"),
    "post-stuck": RuleInfo("warning", "it fills the send queue, and nothing will free it", _SPEC),
    "post-mtu": RuleInfo(
        "error", "a datagram is longer than a packet: it is not sent, and nobody says so",
        f"{_SPEC}, C10-93.1.1; Linux sw/rxe/rxe_req.c, rxe_requester()",
    ),
    "post-grh": RuleInfo(
        "warning", "a datagram's receive has no room for the route header", "ibv_post_recv(3); ibv_create_ah_from_wc(3)"
    ),
    "post-pd": RuleInfo("error", "the region belongs to another protection domain", _SPEC),
    "post-key": RuleInfo("warning", "none of the known regions has this key", "ibv_reg_mr(3)"),
    "post-access": RuleInfo("error", "the region does not allow what the work does to it", _SPEC),
    "peer-gid": RuleInfo("error", "the destination is not the GID of the peer's record", _PEER),
    "peer-lid": RuleInfo("error", "the destination is not the LID of the peer's record", _PEER),
    "peer-qp-type": RuleInfo("error", "the two ends are not of a pair", _PEER),
    "peer-link-layer": RuleInfo("error", "InfiniBand at one end, Ethernet at the other", _PEER),
    "peer-gid-type": RuleInfo("error", "RoCE v1 at one end, v2 at the other", _PEER),
    "peer-gid-family": RuleInfo("error", "IPv4 at one end, IPv6 at the other", _PEER),
    "peer-mtu": RuleInfo("error", "the two ends' MTUs differ", _PEER),
    "peer-psn": RuleInfo("error", "the packet numbers do not meet", _PEER),
    "peer-qpn": RuleInfo("error", "not the peer's queue pair number", _PEER),
    "peer-pkey": RuleInfo("error", "the partition keys do not match", _PEER),
    "peer-qkey": RuleInfo("error", "the datagram keys differ", _PEER),
    "peer-rd-atomic": RuleInfo("error", "above what the other end serves", _PEER),
    "peer-port-inactive": RuleInfo("warning", "the peer's port is not ACTIVE", _PEER),
    "peer-stale": RuleInfo("error", "the record is not of this queue pair", _PEER),
})
