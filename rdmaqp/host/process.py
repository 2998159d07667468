"""What this process may do: how much memory it may lock, and which of its capabilities RDMA asks for."""

from __future__ import annotations

import re
import resource
from pathlib import Path

from rdmaqp.host.answers import Unknown, read_text
from rdmaqp.model.facts import UNLIMITED, ProcessFacts

#: Bits of ``CapEff`` (``<linux/capability.h>``).
_NET_RAW, _IPC_LOCK = 13, 14

#: The mapping of the initial user namespace: every user to itself.
_WHOLE = ["0", "0", "4294967295"]


def memlock() -> int:
    """``RLIMIT_MEMLOCK`` in bytes; :data:`~rdmaqp.model.facts.UNLIMITED`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def capabilities(root: Path = Path("/")) -> int | Unknown:
    """The effective capabilities that count in the initial user namespace, as bits; none in another namespace."""
    status = read_text(root / "proc/self/status")
    if isinstance(status, Unknown):
        return status
    bits = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", status, re.MULTILINE)
    if bits is None:
        return Unknown("/proc/self/status has no CapEff")
    users = read_text(root / "proc/self/uid_map")
    if isinstance(users, Unknown):
        return Unknown(f"whether this is the initial user namespace: {users.why}")
    return int(bits[1], 16) if users.split() == _WHOLE else 0


def facts(root: Path = Path("/")) -> ProcessFacts:
    """What the guard compares with. ``privileged`` is unknown without CAP_NET_RAW: the system may have lifted it."""
    owned = capabilities(root)
    if isinstance(owned, Unknown):
        return ProcessFacts(memlock=memlock())
    return ProcessFacts(
        memlock=memlock(), ipc_lock=bool(owned >> _IPC_LOCK & 1), privileged=True if owned >> _NET_RAW & 1 else None
    )
