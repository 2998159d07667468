"""Where the lab keeps what it fetched and learned: ``$XDG_CACHE_HOME/rdmaqp``, else ``~/.cache/rdmaqp``."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator

# virtme-ng's init puts fresh file systems over these, so that nothing of the host's shows under them
# (virtme/guest/virtme-init: mount_kernel_filesystems, mount_sys_filesystems).
HIDDEN_IN_GUEST = (
    "/dev", "/proc", "/run", "/sys", "/var/cache", "/var/lib/apt", "/var/lib/machines", "/var/lib/portables",
    "/var/lib/private", "/var/lib/sudo", "/var/log", "/var/spool/rsyslog", "/var/tmp",  # noqa: S108 - not opened
)


def hidden_in_guest(path: Path) -> str | None:
    """The directory that hides this host path from the guest, or ``None`` where the guest sees the path."""
    real = path.resolve()
    return next((hidden for hidden in HIDDEN_IN_GUEST if real.is_relative_to(hidden)), None)


def cache_dir() -> Path:
    """The cache directory's path; it need not exist."""
    # An XDG variable that is not an absolute path is to be ignored (XDG Base Directory Specification).
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "rdmaqp"


def writable_cache_dir() -> Path:
    """The cache directory, made if it was not there.

    Raises:
        LabError: it cannot be made or written, or the guest would not see it.
    """
    path = cache_dir()
    ways_on = (
        "What to do: make that directory writable for you, or choose another one by setting XDG_CACHE_HOME",
        "(a fetched kernel needs about 450 MB there).",
    )
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        why = f"lab: the cache directory {path} is not writable: {error.strerror}"
        raise LabError(why, ways_on) from error
    if hidden := hidden_in_guest(path):
        raise LabError(
            f"lab: the cache directory {path} is below {hidden}, which the guest replaces with its own",
            ["What to do: choose another one by setting XDG_CACHE_HOME"],
        )
    return path


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock in the cache, so that two preparations at the same time do not undo each other."""
    with (writable_cache_dir() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
