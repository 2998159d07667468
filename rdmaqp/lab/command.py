"""The command line that boots the guest, and the job that runs in it. Pure: nothing is started here.

virtme-run, virtme-ng's lower half, is called directly: vng pastes its arguments into a shell command without
quoting them and closes the file descriptors that the guest's ports are connected to.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.lab.cache import hidden_in_guest
from rdmaqp.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rdmaqp.lab.kernel import Kernel

HOSTS = (1, 2)
_LONGEST_SOCKET = 107  # bytes, of sockaddr_un
PORTS = ("stdout", "stderr", "status")
GUEST_SCRIPT = Path(__file__).with_name("guest.sh")

# What the guest's init writes to (it links the modules), or must see: the job lies in the temporary directory. The
# command itself gets a root that is writable everywhere (guest.sh, own_root).
_OVERLAYS = ("/etc", "/lib", "/tmp", "/usr", "/var")  # noqa: S108 - names only
# The mount tag of this machine's files, exported a second time so that the guest may cache them.
CACHED_ROOT = "rdmaqp.root"
_PASSED_ON = re.compile(
    r"PATH|LD_LIBRARY_PATH|HOME|TERM|COLORTERM|COLUMNS|LINES|LANG|LC_\w+|TZ|CI|NO_COLOR|FORCE_COLOR|VIRTUAL_ENV"
    r"|(RDMAQP|PYTHON|PYTEST|IBV|RDMAV|MLX4|MLX5)_?\w*"
)
_VIRTME_PATH = re.compile(r"[a-zA-Z0-9_+ /.-]+")  # virtme/commands/run.py, _SAFE_PATH_PATTERN


@dataclass(frozen=True)
class Guest:
    """What to boot and what to run in it.

    With a *network*, a directory, it is *host* 1 or 2 of the two that meet there; else it is alone.
    """

    command: Sequence[str]
    kernel: Kernel
    kvm: bool
    cpus: int = 2
    memory: str = "1G"
    rwdirs: Sequence[Path] = ()
    append: Sequence[str] = ()
    memlock: str = "unlimited"
    network: Path | None = None
    host: int = 1
    cwd: Path = field(default_factory=Path.cwd)


def check(guest: Guest) -> None:
    """Refuse what cannot work in a guest, before anything is started.

    Raises:
        LabError: an empty command, a bad size, or a directory that the guest cannot see.
    """
    if not guest.command:
        example = "Write it behind --, as in: rdmaqp lab run -- ibv_devinfo"
        raise LabError("lab run: no command given", [example])
    if guest.cpus < 1:
        raise LabError(f"lab run: --cpus {guest.cpus}: a guest needs at least 1")
    if not re.fullmatch(r"[1-9]\d*[MG]", guest.memory):
        raise LabError(f"lab run: --memory {guest.memory!r}: give a number with M or G, as in 512M or 2G")
    if guest.memlock != "unlimited" and not guest.memlock.isdecimal():
        raise LabError(f"lab run: memlock {guest.memlock!r}: give a number of KiB, or 'unlimited'")
    _check_network(guest)
    shared = [path.resolve() for path in guest.rwdirs]
    for path in shared:
        if not path.is_dir():
            raise LabError(f"lab run: --rwdir {path}: there is no such directory")
        if not _VIRTME_PATH.fullmatch(str(path)):
            raise LabError(
                f"lab run: --rwdir {str(path)!r}: virtme-ng shares only paths of ASCII letters, digits,"
                " spaces and _+/.-"
            )
    hidden = hidden_in_guest(guest.cwd)
    if hidden and not any(guest.cwd.resolve().is_relative_to(path) for path in shared):
        raise LabError(
            f"lab run: the guest cannot see the current directory {guest.cwd}: it has its own {hidden}",
            [f"What to do: start from another directory, or share this one: --rwdir {guest.cwd}"],
        )


def _check_network(guest: Guest) -> None:
    if guest.host not in HOSTS:
        raise LabError(f"lab run: --host {guest.host}: a network of guests has the hosts 1 and 2")
    if guest.network is None:
        return
    if not guest.network.is_dir():
        raise LabError(f"lab run: --network {guest.network}: there is no such directory")
    longest = len(os.fsencode(cable_end(guest.network, guest.host)))
    if longest > _LONGEST_SOCKET or "," in str(guest.network):
        raise LabError(
            f"lab run: --network {guest.network}: Unix sockets are made in it, so its path has no comma and at most"
            f" {_LONGEST_SOCKET - len('/host1')} bytes: take a directory made by mktemp -d"
        )


def cable_end(network: Path, host: int) -> Path:
    """The Unix socket at which QEMU hears the other guest."""
    return network.resolve() / f"host{host}"


def environment(given: Mapping[str, str], search_path: str) -> dict[str, str]:
    """What of this process's environment the command in the guest gets."""
    kept = {name: value for name, value in given.items() if _PASSED_ON.fullmatch(name)}
    return {**kept, "PATH": search_path, "RDMAQP_LAB": "1"}


def job(guest: Guest, token: str, env: Mapping[str, str]) -> str:
    """The script that the guest's init runs; a file, since a kernel's command line holds 2048 bytes only."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(env.items())]
    host = "alone" if guest.network is None else str(guest.host)
    start = ["exec", "/bin/bash", str(GUEST_SCRIPT), token, guest.memlock, host, str(guest.cwd), *guest.command]
    return "\n".join(["#!/bin/bash", *exports, shlex.join(start), ""])


def _can_be_overlaid(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not hidden_in_guest(path)


def virtme_run(guest: Guest, program: Path, job_file: Path, ports: Mapping[str, int]) -> list[str]:
    """The command line of virtme-run. ``ports`` maps each of :data:`PORTS` to an inherited file descriptor.

    The console goes to virtme-run's stderr. loglevel=7 costs a second or two of boot under emulation; it is
    what makes the console's end worth reading when the guest does not come up.
    """
    words = [
        str(program), "--kimg", str(guest.kernel.image), "--mods", "auto", "--show-boot-console",
        "--cpus", str(guest.cpus), "--memory", guest.memory, "-a", "loglevel=7",
    ]
    if guest.kernel.has_9p:
        words.append("--force-9p")  # one process less than virtiofs, and Debian 12's virtiofsd does not serve
        # remap: inode numbers of several mounts (/home, even /proc and /sys) would meet, and a cache goes by them.
        export = f"local,id={CACHED_ROOT},path=/,security_model=none,readonly=on,multidevs=remap"
        words += ["--qemu-opt=-fsdev", f"--qemu-opt={export}",
                  "--qemu-opt=-device", f"--qemu-opt=virtio-9p-pci,fsdev={CACHED_ROOT},mount_tag={CACHED_ROOT}"]
    if not guest.kvm:
        words.append("--disable-kvm")
    for directory in _OVERLAYS:
        if _can_be_overlaid(Path(directory)):
            words += ["--overlay-rwdir", directory]
    for path in guest.rwdirs:
        words += ["--rwdir", str(path.resolve())]
    for argument in guest.append:
        words += ["-a", argument]
    for name in PORTS:
        words += ["--qemu-opt=-chardev", f"--qemu-opt=file,id=rdmaqp.{name},path=/proc/self/fd/{ports[name]}",
                  "--qemu-opt=-device", f"--qemu-opt=virtserialport,name=rdmaqp.{name},chardev=rdmaqp.{name}"]
    if guest.network is not None:
        words += _cable(guest.network, guest.host)
    return [*words, "--script-sh", shlex.join(["/bin/bash", str(job_file)])]


def _cable(network: Path, host: int) -> list[str]:
    """A network card whose cable leads to the other guest. Datagrams: either guest may come later, or come back."""
    ends = {"local": cable_end(network, host), "remote": cable_end(network, 3 - host)}
    where = ",".join(f"{name}.type=unix,{name}.path={path}" for name, path in ends.items())
    return ["--qemu-opt=-netdev", f"--qemu-opt=dgram,id=rdmaqp.net,{where}",
            "--qemu-opt=-device", f"--qemu-opt=virtio-net-pci,netdev=rdmaqp.net,mac=52:54:00:c0:02:0{host}"]


def run_dir_parent(temporary: Path, cache: Path) -> Path:
    """Where the run's own directory goes: the guest must see it, and a Unix socket's path holds 107 bytes."""
    return temporary if hidden_in_guest(temporary) is None else cache


def default_cpus() -> int:
    """As many as this process may use, at most four: more does not make emulation faster."""
    return min(4, len(os.sched_getaffinity(0)))
