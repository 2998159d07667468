"""What a completion's status says, status by status: data.

Sources: ``ibv_poll_cq(3)`` and ``enum ibv_wc_status``; InfiniBand Architecture Specification, volume 1, 11.6.2
(completion return status); ``providers/efa/verbs.c``, ``to_ibv_status()``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.model.enums import WCStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.guard.cause import Standing

#: Rules whose breach lets packets go astray, or be dropped by the peer: nothing comes back.
_ASTRAY = frozenset({
    "peer-gid", "peer-lid", "peer-qp-type", "peer-link-layer", "peer-gid-type", "peer-gid-family", "peer-mtu",
    "peer-psn", "peer-qpn", "peer-pkey", "peer-port-inactive", "peer-stale", "sgid-link-local", "sgid-roce-v1",
    "sgid-moved", "sgid-driver", "sgid-netdev", "dgid-invalid", "gid-family-mismatch", "dlid-invalid", "grh-missing",
    "grh-ignored", "hop-limit-low", "src-path-bits", "qpn-reserved", "port-inactive", "port-mismatch",
    "mtu-over-active", "pkey-range", "pkey-limited", "retry-none", "cur-state-mismatch", "value-range", "value-driver",
    "peer-rd-atomic", "rd-atomic-over-device", "value-enum",
})  # fmt: skip
_MEMORY = frozenset({"post-key", "post-sge", "post-pd", "post-access"})
_SIZES = frozenset({"peer-mtu", "mtu-over-active", "post-sge", "post-inline", "value-range", "value-enum"})
_DEPTHS = frozenset({"peer-rd-atomic", "rd-atomic-disables", "rd-atomic-over-device", "atomic-unsupported"})

#: Of what needs a peer that answers.
_ANSWERED = ("peer-unreachable", "route-missing", "neighbour-unresolved", "dest_qp_num", "transition", "mask")
_MODIFIED = ("transition", "mask")
#: Each has a status of its own.
_OWN = ("receiver-not-ready", "remote-key", "access-denied", "local-key")


class Said(NamedTuple):
    """One cause that a status speaks of: its key, its standing, and why."""

    cause: str
    standing: Standing
    why: str


class Meaning(NamedTuple):
    """What one status says.

    Attributes:
        causes: each with its standing and why.
        rules: findings of these explain it: an error proves, a warning makes likely.
        ruled_out: what it cannot be.
        because: why that is ruled out.
    """

    causes: tuple[Said, ...]
    rules: frozenset[str] = frozenset()
    ruled_out: tuple[str, ...] = ()
    because: str = ""


def _likely(cause: str, why: str) -> Said:
    return Said(cause, "likely", why)


def _proved(cause: str, why: str) -> Said:
    return Said(cause, "proved", why)


_CAME_BACK = "the peer answered, so the way there and back, and its queue pair's number, are right"
_HERE = "it was decided on this side"
_RD_ONLY = "this status belongs to reliable datagrams, which nobody has: the device or its firmware errs. See dmesg"
_KEY_HERE = _likely("local-key", "an SGE's lkey, its range of bytes, its protection domain, or LOCAL_WRITE missing "
             "where the work writes. Was the region closed too early?")
_S = WCStatus

MEANINGS: Mapping[int, Meaning] = MappingProxyType({
    _S.LOC_LEN_ERR: Meaning(
        (_likely("post-sge", "a message longer than the receive that it met, or than a message may be"),
         _likely("peer-mtu", "the two ends' path_mtu differ: the packets are not of the length expected")),
        _SIZES, (*_MODIFIED, "remote-key", "route-missing", "neighbour-unresolved"), _HERE,
    ),
    _S.LOC_QP_OP_ERR: Meaning(
        (_likely("post-opcode", "the device cannot carry out this work request: an opcode that is not for this "
          "queue pair type, or a malformed request"),
         _likely("local-key", "or its pieces lie outside their regions")),
        _MEMORY | {"post-opcode", "post-inline", "post-state", "rd-atomic-over-device"},
        ("peer-unreachable", "route-missing", "neighbour-unresolved", *_MODIFIED), _HERE,
    ),
    _S.LOC_PROT_ERR: Meaning(
        (_KEY_HERE,), _MEMORY,
        ("peer-unreachable", "remote-key", "receiver-not-ready", "route-missing", "neighbour-unresolved", "path_mtu",
         *_MODIFIED), _HERE,
    ),
    _S.WR_FLUSH_ERR: Meaning(
        (_proved("flush-consequence", "the queue pair was in ERR (or SQE) already, or was moved there: this work was "
          "never tried. The first completion with another status has the reason: look for it in all completion queues "
          "of this queue pair"),),
        frozenset({"post-flushes"}),
    ),
    _S.MW_BIND_ERR: Meaning(
        (_likely("access-denied", "the region does not allow binding (MW_BIND), or the window asks for more than the "
          "region has"),
         _likely("local-key", "or the region's key or range is wrong")),
        _MEMORY, ("peer-unreachable", "route-missing", "neighbour-unresolved", *_MODIFIED), _HERE,
    ),
    _S.BAD_RESP_ERR: Meaning(
        (_likely("peer-psn", "an answer that fits no request: another connection's, or packet numbers that do not "
          "meet"),
         _likely("peer-stale", "the peer's queue pair has had another life meanwhile")),
        frozenset({"peer-psn", "peer-stale", "peer-qpn", "peer-qp-type"}),
        ("route-missing", "neighbour-unresolved", "local-key", *_MODIFIED), _CAME_BACK,
    ),
    _S.LOC_ACCESS_ERR: Meaning(
        (_likely("access-denied", "the peer wrote where this side does not let it"), _KEY_HERE), _MEMORY,
        ("peer-unreachable", "route-missing", "neighbour-unresolved", *_MODIFIED), _HERE,
    ),
    _S.REM_INV_REQ_ERR: Meaning(
        (_likely("peer-mtu", "a packet or message longer than the peer expects: another path_mtu, or a receive that "
          "is too short"),
         _likely("access-denied", "an operation that the peer's queue pair does not take: its qp_access_flags"),
         _likely("peer-rd-atomic", "a read or atomic more than the peer serves (its max_dest_rd_atomic)")),
        _SIZES | _DEPTHS | {"post-opcode", "peer-qp-type"}, (*_ANSWERED, "local-key"), _CAME_BACK,
    ),
    _S.REM_ACCESS_ERR: Meaning(
        (_likely("access-denied", "the peer's region or queue pair does not allow it: REMOTE_READ, REMOTE_WRITE or "
          "REMOTE_ATOMIC must be in the region's access and in the qp_access_flags"),
         _likely("remote-key", "or the rkey or the address is not that of a region of the peer's, in its queue "
          "pair's protection domain: stale, cut to 32 bits, past the end?")),
        _MEMORY | {"rd-atomic-disables", "atomic-unsupported", "access-needs-local-write"},
        (*_ANSWERED, "psn", "path_mtu", "local-key", "receiver-not-ready"), _CAME_BACK,
    ),
    _S.REM_OP_ERR: Meaning(
        (_likely("remote-key", "the peer could not carry it out: on its own side a key, a receive or its memory is "
          "wrong. Its own completion has the reason"),
         _likely("peer-not-ready", "or its queue pair broke while it worked")),
        frozenset(), (*_ANSWERED, "psn", "path_mtu", "local-key"), _CAME_BACK,
    ),
    _S.RETRY_EXC_ERR: Meaning(
        (_likely("peer-unreachable", "no acknowledge came, after all retries"),
         _likely("peer-not-ready", "the peer's queue pair is not in RTR or RTS (any more), or has other numbers than "
          "it was given: its process ended, or it never finished its own RTR")),
        _ASTRAY, (*_OWN, *_MODIFIED), "each of them has a status or an error number of its own",
    ),
    _S.RNR_RETRY_EXC_ERR: Meaning(
        (_proved("receiver-not-ready", "the peer said that no receive was posted, more often than rnr_retry allows: "
          "post more receives before the sender starts, or rnr_retry 7 (for ever)"),),
        frozenset({"retry-none"}), (*_ANSWERED, "psn", "path_mtu", "remote-key", "access-denied", "local-key"),
        _CAME_BACK,
    ),
    _S.LOC_RDD_VIOL_ERR: Meaning((_likely("firmware-refused", _RD_ONLY),)),
    _S.REM_INV_RD_REQ_ERR: Meaning((_likely("firmware-refused", _RD_ONLY),)),
    _S.REM_ABORT_ERR: Meaning(
        (_likely("peer-not-ready", "the peer gave the operation up: its queue pair was moved or destroyed meanwhile"),),
        frozenset({"peer-stale"}), (*_MODIFIED, "local-key", "route-missing", "neighbour-unresolved"), _CAME_BACK,
    ),
    _S.INV_EECN_ERR: Meaning((_likely("firmware-refused", _RD_ONLY),)),
    _S.INV_EEC_STATE_ERR: Meaning((_likely("firmware-refused", _RD_ONLY),)),
    _S.LOC_EEC_OP_ERR: Meaning((_likely("firmware-refused", _RD_ONLY),)),
    _S.FATAL_ERR: Meaning(
        (_likely("firmware-refused", "the device has failed: see dmesg, and its asynchronous events"),
         _likely("device-missing", "or it is being reset or removed")),
        frozenset(), (*_MODIFIED, "psn", "path_mtu", "remote-key", "local-key"), "the device itself failed",
    ),
    _S.RESP_TIMEOUT_ERR: Meaning(
        (_likely("peer-unreachable", "the peer did not answer in time"),
         _likely("peer-not-ready", "or its queue pair is gone, or not ready")),
        _ASTRAY, (*_OWN, *_MODIFIED), "each of them has a status or an error number of its own",
    ),
    _S.GENERAL_ERR: Meaning(
        (_likely("firmware-refused", "the device knows no status for it: vendor_err is all that it says"),),
        _ASTRAY | _MEMORY,
    ),
    _S.TM_ERR: Meaning((_likely("driver-refused", "tag matching is out of step: the list of the shared receive queue "
                         "was changed while it was in use"),)),
    _S.TM_RNDV_INCOMPLETE: Meaning((_likely("receiver-not-ready", "a rendezvous message was matched, and has to be "
                                     "completed by software"),)),
})  # fmt: skip

#: Where EFA uses a status in its own way (``to_ibv_status()``, rdma-core 65).
OF_EFA: Mapping[int, Meaning] = MappingProxyType({
    _S.REM_INV_RD_REQ_ERR: Meaning(
        (_likely("peer-qpn", "the peer has no such queue pair (EFA: BAD_DEST_QPN)"),
         _likely("peer-not-ready", "or no longer")),
        frozenset({"peer-qpn", "peer-stale"}), ("local-key", "remote-key", *_MODIFIED), _CAME_BACK,
    ),
    _S.REM_OP_ERR: Meaning(
        (_likely("peer-stale", "the peer does not know us (EFA: UNKNOWN_PEER): it was restarted, or has forgotten "
          "our address"),),
        frozenset({"peer-stale"}), ("local-key", "remote-key", *_MODIFIED), _CAME_BACK,
    ),
    _S.LOC_QP_OP_ERR: Meaning(
        (_likely("post-opcode", "an operation that this device has not, or its queue pair failed inside (EFA: "
          "UNSUPPORTED_OP, INVALID_AH, QP_INTERNAL_ERROR: vendor_err 3, 4, 2)"),
         _likely("dgid-invalid", "or an address handle that it does not know")),
        frozenset({"post-opcode"}), ("peer-unreachable", *_MODIFIED), _HERE,
    ),
})  # fmt: skip


def meaning(status: int, driver: str | None) -> Meaning | None:
    """What *status* says on *driver*; ``None`` for one that nobody knows."""
    own = OF_EFA.get(status) if driver == "efa" else None
    return own or MEANINGS.get(status)
