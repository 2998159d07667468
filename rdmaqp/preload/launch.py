"""Starts the program as it would be started without us, but for a few variables of its environment, and waits."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.errors import RdmaqpError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Below, the loader does not ask an auditor about programs that bind at once, and makes each call slow (audit.c).
_AUDIT_SINCE = (2, 35)
#: ``<linux/elf.h>``: where a program names its loader.
_PT_INTERP = 3
#: A signal of the terminal's goes to its whole foreground group, to the program too (``si_code`` SI_KERNEL).
_FROM_TERMINAL = 0x80
_FORWARDED = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGCONT, signal.SIGWINCH,
)  # fmt: skip
#: Errors of execve(2) that say little of a file that is there and may be run.
_WHY_NOT = {
    errno.ENOENT: "the interpreter or loader that it names is not there",
    errno.ENOEXEC: "no program, and a script without a first line such as #!/bin/sh; name its interpreter before it",
}
BUILD_AGAIN = "Install rdmaqp again without RDMAQP_PURE, with gcc and the headers of libibverbs at hand."


class LaunchError(RdmaqpError):
    """The program cannot be started, or cannot be watched.

    Attributes:
        status: the exit status that says so: 127 it is not there, 126 it cannot be run, 1 it cannot be watched.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


# ---------------------------------------------------------------------- can it be watched?


def find(program: str) -> Path:
    """The file of *program*, looked for as a shell does.

    Raises:
        LaunchError: it is not there, or is no program.
    """
    found = shutil.which(program)
    if found is not None:
        return Path(found)
    if "/" in program and Path(program).exists():
        why = "it is a directory" if Path(program).is_dir() else "it may not be run (chmod +x)"
        raise LaunchError(f"{program}: {why}", 126)
    raise LaunchError(f"{program}: there is no such program", 127)


def require_watchable(file: Path) -> None:
    """Refuse what nothing can be preloaded into; of a script, look at its interpreter.

    Raises:
        LaunchError: setuid or with capabilities of its own, static, of another word size or another libc.
    """
    status = file.stat()
    gains = (status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid()) or (
        status.st_mode & stat.S_ISGID and status.st_gid != os.getegid()
    )
    if gains or _has_capabilities(file):
        what = "setuid or setgid" if gains else "given capabilities of its own (setcap)"
        raise LaunchError(
            f"{file} is {what}: the loader then takes no library from the environment, so it cannot be watched; "
            "run it as that user instead, or watch a copy without that"
        )
    with file.open("rb") as source:
        head = source.read(64)
        if head[:2] == b"#!":
            source.seek(0)
            words = source.readline(256)[2:].decode(errors="replace").split()
            if words and Path(words[0]).is_file() and Path(words[0]) != file:
                require_watchable(Path(words[0]))
            return
        if head[:4] == b"\x7fELF":
            source.seek(0)
            _require_same_loader(file, source.read(1 << 16))


def _require_same_loader(file: Path, data: bytes) -> None:
    own = Path(sys.executable).resolve().read_bytes()[:20]
    if data[4:6] != own[4:6] or data[18:20] != own[18:20]:
        raise LaunchError(f"{file} is for another processor or word size than this Python: it cannot be watched")
    loader = _loader(data)
    if loader is None:
        raise LaunchError(
            f"{file} is statically linked: it has no loader that could preload anything, so it cannot be watched; "
            "link it with the shared libibverbs"
        )
    if "musl" in loader and "musl" not in (_loader(Path(sys.executable).resolve().read_bytes()[: 1 << 16]) or ""):
        raise LaunchError(f"{file} is linked with musl ({loader}), and the shim with glibc: it cannot be watched")


def _loader(data: bytes) -> str | None:
    """The loader that an ELF file names; ``None`` for a static program (elf(5): ``Elf64_Ehdr``, ``Elf64_Phdr``)."""
    is_64, order = data[4] == 2, "<" if data[5] == 1 else ">"
    at = struct.unpack_from(order + ("Q" if is_64 else "I"), data, 32 if is_64 else 28)[0]
    size, count = struct.unpack_from(order + "HH", data, 54 if is_64 else 42)
    for place in range(at, at + size * count, size):
        if place + size > len(data):
            break
        if struct.unpack_from(order + "I", data, place)[0] == _PT_INTERP:
            offset = struct.unpack_from(order + ("Q" if is_64 else "I"), data, place + (8 if is_64 else 4))[0]
            return data[offset : data.find(b"\0", offset)].decode(errors="replace")
    return None


def _has_capabilities(file: Path) -> bool:
    if os.geteuid() == 0:
        return False  # root gains nothing by them
    try:
        return bool(os.getxattr(file, "security.capability"))
    except OSError:
        return False


# ---------------------------------------------------------------------- its environment


def libraries() -> tuple[Path, Path]:
    """The shim and the auditor.

    Raises:
        LaunchError: rdmaqp was installed without them, or in a place that the loader's lists cannot name.
    """
    folder = Path(__file__).parent
    found = [next(iter(sorted(folder.glob(f"{name}.*so"))), None) for name in ("_shim", "_audit")]
    shim, audit = found
    if shim is None or audit is None:
        raise LaunchError(f"rdmaqp was installed without its compiled half, and the shim is of it. {BUILD_AGAIN}")
    if any(character in str(folder) for character in " :\n"):
        raise LaunchError(f"rdmaqp is in {folder}, and a path with a blank or a colon cannot stand in LD_PRELOAD")
    return shim, audit


def libc() -> str:
    """The C library and its version, such as ``glibc 2.36``."""
    return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"


def audits() -> bool:
    """Whether this libc's auditing is of use: see ``_c/shim.c``."""
    name, _, version = libc().partition(" ")
    numbers = version.split(".")
    return name == "glibc" and len(numbers) > 1 and (int(numbers[0]), int(numbers[1])) >= _AUDIT_SINCE


def environment(own: Mapping[str, str], path: Path, deadline: float, *, audit: bool) -> dict[str, str]:
    """*own* with what leads the program's calls to the socket at *path*; *deadline* in seconds."""
    shim, auditor = libraries()
    made = dict(own)
    made["LD_PRELOAD"] = f"{shim}:{own['LD_PRELOAD']}" if own.get("LD_PRELOAD") else str(shim)
    if audit:
        made["LD_AUDIT"] = f"{auditor}:{own['LD_AUDIT']}" if own.get("LD_AUDIT") else str(auditor)
    # AddressSanitizer wants to be the first library, and ends a program in which it is not; the shim takes no memory.
    made["ASAN_OPTIONS"] = ":".join(["verify_asan_link_order=0", *filter(None, [own.get("ASAN_OPTIONS")])])
    made["RDMAQP_PRELOAD_SOCKET"] = str(path)
    made["RDMAQP_PRELOAD_DEADLINE_MS"] = str(max(1, round(deadline * 1000)))
    return made


# ---------------------------------------------------------------------- its life


def start(file: Path, words: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start it with our descriptors, terminal, process group and limits. Signals wait from here on (:func:`pass_on`).

    We may open as many descriptors as can be from here on, for each of its processes takes one.

    Raises:
        LaunchError: the kernel will not run it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def restore() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    try:
        return subprocess.Popen(
            # A path is handed over as it was written: "./" tells execvpe() not to look for it, and is a script's $0.
            list(words), executable=words[0] if "/" in words[0] else file, env=dict(variables), close_fds=False,
            # Nothing else runs in this process yet, so that there is no lock that could be held.
            preexec_fn=restore,
        )
    except OSError as error:
        why = _WHY_NOT.get(error.errno or 0) or error.strerror
        raise LaunchError(f"{file}: {why}", 126) from None


def pass_on(child: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
    """In the background: pass signals on to *child*, and call *ended* when it has ended."""
    threading.Thread(target=_forward, args=(child,), daemon=True).start()

    def wait() -> None:
        child.wait()
        ended()

    threading.Thread(target=wait, daemon=True).start()


def _forward(child: subprocess.Popen[bytes]) -> None:
    while True:
        what = signal.sigwaitinfo(_FORWARDED)
        is_known = what.si_code == _FROM_TERMINAL or what.si_signo in (signal.SIGCONT, signal.SIGWINCH)
        if child.poll() is None and not is_known:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(what.si_signo)


def status_of(child: subprocess.Popen[bytes]) -> int:
    """Its exit status; 128 + n where signal n ended it, as a shell says it."""
    code = child.returncode
    return 128 - code if code < 0 else code
