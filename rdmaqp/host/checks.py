"""What of this machine may stand in the way of RDMA: one small function a question, each answered in lines.

They read files of the kernel's and ask iproute2; none changes anything, and none needs a device, or the compiled half.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rdmaqp.host import firewall, libraries, process, rdma
from rdmaqp.host.answers import Unknown, ask_json
from rdmaqp.host.line import Line, error, ok, unknown, warning
from rdmaqp.model.facts import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rdmaqp.host.sysfs import DeviceView

_ROOT = Path("/")
_PACKAGES = "apt-get install libibverbs1 ibverbs-providers    # RHEL: rdma-core"
#: Less than this is locked by the queues and buffers of most programs.
_LITTLE = 64 << 20
_NO_DEVICE = (
    "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0    # Soft-RoCE on a net device; or the lab: "
    "rdmaqp lab run -- COMMAND"
)
_NO_MODULES = "boot a distribution's own kernel; or the lab, a guest that does: rdmaqp lab run -- COMMAND"


def system() -> Iterator[Line]:
    """The kernel, and whose kernel it is."""
    if sys.platform != "linux":
        yield error("system", f"{platform.system()} has no RDMA; the guard works here (rdmaqp check, explain, walk, "
                    "diagnose)", "use a Linux machine, or a Linux guest")
        return
    yield ok("system", f"Linux {platform.release()}, Python {platform.python_version()}")


def modules(devices: Sequence[DeviceView], root: Path = _ROOT) -> Iterator[Line]:
    """The kernel's modules: the core, the way in for programs, the connection manager, GPUs."""
    loaded = rdma.modules(root)
    if isinstance(loaded, Unknown):
        yield unknown("modules", loaded.why)
        return
    if "ib_uverbs" not in loaded and not rdma.loads_modules(root):
        yield error("modules", "this kernel loads no modules, and RDMA is not built into it", _NO_MODULES)
    elif "ib_uverbs" not in loaded:
        yield error("modules", "ib_uverbs is not loaded: programs have no way to a device", "modprobe ib_uverbs")
    elif "rdma_ucm" not in loaded:
        yield warning("modules", "rdma_ucm is not loaded: librdmacm (rdma_connect, rping) does not work",
                      "modprobe rdma_ucm")
    else:
        yield ok("modules", f"loaded: {', '.join(sorted(loaded))}")
    gpu = (root / "proc/driver/nvidia").is_dir()
    if gpu and devices and not any((root / f"sys/module/{name}").is_dir() for name in ("nvidia_peermem",
    "nv_peer_mem")):
        yield warning("modules", "nvidia_peermem is not loaded: a GPU's memory can be registered by dma-buf only",
                      "modprobe nvidia-peermem")


def nodes(devices: Sequence[DeviceView], root: Path = _ROOT) -> Iterator[Line]:
    """The character devices that libibverbs opens, and whether this process may."""
    found = rdma.character_devices(root)
    if isinstance(found, Unknown):
        yield unknown("device nodes", found.why)
        return
    wanted = [device.uverbs for device in devices if device.uverbs]
    absent = [name for name in wanted if name not in found.names]
    if absent:
        yield error("device nodes", f"the kernel has {', '.join(absent)}, and /dev/infiniband has not: a container "
                                    f"that "
                    "was not given it", "docker run --device /dev/infiniband …    # Kubernetes: an RDMA device plugin")
    if found.closed:
        paths = " ".join(f"/dev/infiniband/{name}" for name in found.closed)
        yield error("device nodes", f"this process may not open {', '.join(found.closed)}",
        f"chmod a+rw {paths}    # udev "
                    "rule of rdma-core: MODE=\"0666\"; or join its group")
    usable = [name for name in found.uverbs if name not in found.closed]
    if usable:
        yield ok("device nodes", f"/dev/infiniband: {', '.join(usable)} can be opened")
    loaded = rdma.modules(root)
    has_cm = isinstance(loaded, frozenset) and "rdma_ucm" in loaded  # that it is not loaded, another line says
    if usable and has_cm and "rdma_cm" not in found.names:
        yield warning("device nodes", "/dev/infiniband/rdma_cm is not there: librdmacm does not work",
        "modprobe rdma_ucm")


def memlock() -> Iterator[Line]:
    """How much memory this process may lock: queues and memory regions are locked."""
    facts = process.facts()
    limit = facts.memlock
    if limit == UNLIMITED:
        yield ok("memlock", "unlimited")
    elif facts.ipc_lock:
        yield ok("memlock", f"{_size(limit or 0)}, and CAP_IPC_LOCK lifts the limit")
    elif limit is not None and limit < _LITTLE:
        yield warning("memlock", f"this process may lock {_size(limit)}: registrations beyond it fail with ENOMEM",
                      "ulimit -l unlimited    # lasting: '* - memlock unlimited' in /etc/security/limits.conf; "
                      "LimitMEMLOCK=infinity in a unit; docker run --ulimit memlock=-1")
    elif limit is not None:
        yield ok("memlock", f"{_size(limit)}")


def _size(number: int) -> str:
    return f"{number >> 20} MiB" if number >> 20 else f"{number >> 10} KiB"


def library(devices: Sequence[DeviceView], root: Path = _ROOT) -> Iterator[Line]:
    """The user libraries: one libibverbs, with a library of its own build for each device's driver."""
    found = libraries.libraries(root)
    if not found:
        yield error("libraries", "libibverbs is not installed", _PACKAGES)
        return
    first = found[0]
    if len(found) > 1:
        paths = ", ".join(str(each.path) for each in found)
        mend = "ldd PROGRAM | grep ibverbs    # then remove the other, or set LD_LIBRARY_PATH"
        yield warning("libraries", f"there are {len(found)} builds of libibverbs ({paths}): a program's drivers must "
                      "be of the build that it loads", mend)
    if not first.drivers:
        yield error("libraries", f"{first.path} has no driver libraries beside it" + _other(first), _PACKAGES)
        return
    missing = {device.driver for device in devices if device.driver and not first.drives(device.driver)}
    for driver in sorted(missing):
        yield error("libraries", f"no user library for {driver} beside {first.path.name}{_other(first)}: libibverbs "
                                 f"does "
                    "not list its devices", _PACKAGES)
    if not missing:
        yield ok("libraries", f"rdma-core {first.rdma_core} ({first.path.name}, drivers -rdmav{first.abi or '?'}.so)")
    abi = libraries.kernel_abi(root)
    if isinstance(abi, int) and not 3 <= abi <= 6:
        yield error("libraries", f"the kernel's uverbs ABI is {abi}; this libibverbs takes 3 to 6", "bring kernel and "
                    "rdma-core from one distribution")


def _other(found: libraries.Library) -> str:
    kinds = ", ".join(f"-rdmav{number}.so" for number in sorted(found.others))
    own = f"-rdmav{found.abi}.so"
    return f"; those that are there ({kinds}) are of another build: this one loads {own} only" if kinds else ""


def tool(devices: Sequence[DeviceView]) -> Iterator[Line]:
    """iproute2's ``rdma``: it shows the kernel's queue pairs and makes Soft-RoCE devices."""
    answer = ask_json("rdma", "-j", "link", "show")
    if isinstance(answer, Unknown):
        install = "apt-get install iproute2    # RHEL: iproute"
        yield warning("rdma tool", f"{answer.why}: rdmaqp watch needs it", install)
    elif devices and not isinstance(answer, list):
        yield unknown("rdma tool", f"rdma link show: {answer.why}")
    else:
        yield ok("rdma tool", "there")


def roce_port(devices: Sequence[DeviceView], root: Path = _ROOT) -> Iterator[Line]:
    """UDP port 4791, by which RoCE v2 comes in."""
    if not any(port.is_roce for device in devices for port in device.ports):
        return
    software = [device.name for device in devices if device.driver == "rxe"]
    listens = firewall.listens(root)
    if software and listens is False:
        yield warning("UDP 4791", f"no socket of the kernel's is on it, and {', '.join(software)} needs one: another "
                                  f"network "
                      "namespace's, or the device is being removed", f"rdma link delete {software[0]} && rdma link add "
                      f"{software[0]} type rxe netdev …")
    closed = firewall.closed_chains() if firewall.is_loaded(root) else ()
    if isinstance(closed, Unknown):
        yield unknown("UDP 4791", f"whether a packet filter stops RoCE v2: {closed.why}",
                      "nft list ruleset; iptables -S    # as root")
    elif closed:
        family, table, name = closed[0].split(" ", 2)
        yield warning("UDP 4791", f"{closed[0]} drops what no rule lets in, and none names port 4791: Soft-RoCE's "
                                  f"packets "
                      "do not come through (a device of hardware takes them before)",
                      f"nft add rule {family} {table} {name} udp dport 4791 accept")
    else:
        yield ok("UDP 4791", "no packet filter of this machine stops it")


def presence(devices: Sequence[DeviceView], root: Path = _ROOT) -> Iterator[Line]:
    """Whether there is a device at all."""
    if not devices:
        yield error("devices", "this machine has no RDMA device", _NO_DEVICE if rdma.loads_modules(root) else
                    "the lab has one: rdmaqp lab run -- COMMAND")  # fmt: skip


def machine(devices: Sequence[DeviceView], root: Path = _ROOT) -> Iterator[Line]:
    """All questions that are not about one device."""
    yield from system()
    if sys.platform != "linux":
        return
    yield from modules(devices, root)
    yield from nodes(devices, root)
    yield from memlock()
    yield from library(devices, root)
    yield from tool(devices)
    yield from roce_port(devices, root)
    yield from presence(devices, root)
