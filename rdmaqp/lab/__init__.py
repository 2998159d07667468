"""The lab: a throw-away guest kernel with a Soft-RoCE device, over this machine's files.

virtme-ng boots a distribution kernel in QEMU; the guest sees the host's files, may write to them, and what
it writes is gone with the guest. In it, ``rxe0`` is an RDMA device on one end of a veth pair (192.0.2.1;
192.0.2.2 answers at the other end).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.lab import accel, command, fetch, guest, tools
from rdmaqp.lab import kernel as kernels
from rdmaqp.lab.errors import EmulatorError, LabError
from rdmaqp.lab.status import LabStatus, status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MORE_TRIES = 2  # where QEMU itself dies

__all__ = ["LabError", "LabStatus", "run", "setup", "status"]


def _say_nothing(_line: str) -> None:
    return


def run(
    command_line: Sequence[str], *, cpus: int | None = None, memory: str = "1G", kernel: str | None = None,
    boot_timeout: float | None = None, rwdirs: Sequence[Path | str] = (), append: Sequence[str] = (),
    memlock: str = "unlimited", network: Path | str | None = None, host: int = 1,
    say: Callable[[str], None] = _say_nothing,
) -> int:
    """Run a command in a fresh guest; its output goes to this process's file descriptors 1 and 2.

    Args:
        command_line: the program and its arguments; found by the guest's PATH, which is the host's.
        cpus: virtual CPUs; by default as many as this process may use, at most four.
        memory: with M or G.
        kernel: a kernel image's path or a version; by default the lab chooses (see :func:`status`).
        boot_timeout: seconds until the command must have started; by default 180 without a sign of life from the
            guest, 900 in all (software emulation on two processors needs 15 to 45; a busy machine many times that).
        rwdirs: directories of the host that the guest shares for writing.
        append: further arguments for the guest's kernel.
        memlock: the guest's limit of locked memory in KiB, or ``"unlimited"``.
        network: a directory in which two guests meet, as hosts 1 and 2: with one, ``rxe0`` is on a network card
            whose cable leads to the other guest, and has the address 192.0.2.1 or 192.0.2.2.
        host: which of the two this is.
        say: takes a line of progress.

    Returns:
        The command's exit status, or 128 + n after signal n.

    Raises:
        LabError: something is missing, or the guest did not come up, or died. Where QEMU itself died before the
            command was started, it is started again, twice at most.
    """
    _require_tools()
    chosen = kernels.explicit(kernel) if kernel is not None else _kernel(say)
    acceleration = accel.decide(chosen, say)
    wanted = command.Guest(
        list(command_line), chosen, kvm=bool(acceleration.kvm),
        cpus=command.default_cpus() if cpus is None else cpus, memory=memory,
        rwdirs=[Path(path) for path in rwdirs], append=list(append), memlock=memlock,
        network=None if network is None else Path(network), host=host,
    )
    command.check(wanted)
    say(f"booting kernel {chosen.version} ({'KVM' if wanted.kvm else 'software emulation, up to a minute'})")
    for _ in range(_MORE_TRIES):
        try:
            return guest.run(wanted, boot_timeout)
        except EmulatorError as error:
            say(f"{error.args[0].removeprefix('lab: ')}; booting once more")
    return guest.run(wanted, boot_timeout)


def setup(say: Callable[[str], None] = _say_nothing, series: str | None = None) -> LabStatus:
    """Prepare what `run` needs: a kernel in the cache where none is installed, and the trial of KVM.

    With *series*, such as ``"6.12"``, fetch a kernel of it as well, for ``run(kernel="6.12")``.

    Raises:
        LabError: a program is missing, or the kernel cannot be fetched.
    """
    _require_tools()
    accel.decide(_kernel(say), say)
    if series is not None:
        fetch.fetch(say, series)
    return status()


def _kernel(say: Callable[[str], None]) -> kernels.Kernel:
    chosen, rejected = kernels.choose()
    if chosen is not None:
        return chosen
    try:
        return fetch.fetch(say)
    except LabError as error:
        looked_at = [f"looked at {one}" for one in rejected]
        raise LabError(str(error.args[0]), [*error.notes, *looked_at]) from error


def _require_tools() -> None:
    missing = tools.missing_tools()
    if missing:
        names = ", ".join(one.what for one in missing)
        raise LabError(f"lab: missing on this machine: {names}", [str(one) for one in missing])
