"""What a process may do: how much memory it may lock, which of its capabilities RDMA asks for; and the kernel's age."""

from __future__ import annotations

import platform
import re
import resource
from functools import cache
from pathlib import Path

from rdmaqp.host.answers import Unknown, read_text
from rdmaqp.model.facts import UNLIMITED, ProcessFacts

#: Bits of ``CapEff`` (``<linux/capability.h>``).
_NET_RAW, _IPC_LOCK = 13, 14

#: The mapping of the initial user namespace: every user to itself.
_WHOLE = ["0", "0", "4294967295"]


def memlock(pid: int = 0) -> int:
    """``RLIMIT_MEMLOCK`` in bytes; :data:`~rdmaqp.model.facts.UNLIMITED`. Of another process: raises OSError."""
    what = resource.RLIMIT_MEMLOCK
    soft, _ = resource.prlimit(pid, what) if pid else resource.getrlimit(what)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def capabilities(root: Path = Path("/"), pid: int = 0) -> int | Unknown:
    """The effective capabilities that count in the initial user namespace, as bits; none in another namespace."""
    own = root / "proc" / (str(pid) if pid else "self")
    status = read_text(own / "status")
    if isinstance(status, Unknown):
        return status
    bits = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", status, re.MULTILINE)
    if bits is None:
        return Unknown(f"/proc/{own.name}/status has no CapEff")
    users = read_text(own / "uid_map")
    if isinstance(users, Unknown):
        return Unknown(f"whether this is the initial user namespace: {users.why}")
    return int(bits[1], 16) if users.split() == _WHOLE else 0


def facts(root: Path = Path("/"), pid: int = 0) -> ProcessFacts:
    """What the guard compares with, of this process or of *pid*.

    ``privileged`` is unknown without CAP_NET_RAW: the system may have lifted it.
    """
    owned, limit = capabilities(root, pid), _limit_of(pid)
    if isinstance(owned, Unknown):
        return ProcessFacts(memlock=limit)
    return ProcessFacts(
        memlock=limit, ipc_lock=bool(owned >> _IPC_LOCK & 1), privileged=True if owned >> _NET_RAW & 1 else None
    )


def _limit_of(pid: int) -> int | None:
    try:
        return memlock(pid)
    except OSError:  # it has gone, or is another user's
        return None


@cache
def kernel_release() -> tuple[int, int] | None:
    """The running kernel's (major, minor)."""
    match = re.match(r"(\d+)\.(\d+)", platform.release())
    return None if match is None else (int(match[1]), int(match[2]))
