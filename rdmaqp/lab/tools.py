"""The programs the lab starts or the guest needs, and the package that supplies each.

Package names: Debian/Ubuntu by ``dpkg -S`` on Debian 12; RHEL/Fedora by Fedora's package names.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

_MACHINE = platform.machine()
_QEMU_PACKAGE = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}.get(_MACHINE, "qemu-system-misc")
_UDEVD = ("/usr/lib/systemd/systemd-udevd", "/lib/systemd/systemd-udevd")


@dataclass(frozen=True)
class Tool:
    """A program, by the names it goes by, with what it is for and which package has it."""

    names: tuple[str, ...]
    purpose: str
    debian: str
    fedora: str


TOOLS = (
    Tool((f"qemu-system-{_MACHINE}", "qemu-kvm"), "runs the guest", _QEMU_PACKAGE, "qemu-kvm"),
    Tool(("virtme-run",), "boots the guest (virtme-ng)", "", ""),
    Tool(("modprobe",), "loads the kernel modules", "kmod", "kmod"),
    Tool(("depmod",), "indexes a fetched kernel's modules", "kmod", "kmod"),
    Tool(("busybox-static", "busybox.static", "busybox"), "starts the guest (it must be statically linked)",
         "busybox-static", "busybox"),
    Tool(("file",), "tells virtme-ng a kernel's version", "file", "file"),
    Tool(("ip",), "makes the guest's network link", "iproute2", "iproute"),
    Tool(("rdma",), "adds the Soft-RoCE device", "iproute2", "iproute"),
    Tool((*_UDEVD, "udevd"), "names the guest's ports and devices", "udev", "systemd-udev"),
)


@dataclass(frozen=True)
class Missing:
    """Something that is not there, why it is needed, and how to get it on either family of distributions."""

    what: str
    purpose: str
    debian: str
    fedora: str

    def __str__(self) -> str:
        if self.debian == self.fedora:
            return f"{self.what} ({self.purpose}): {self.debian}"
        return f"{self.what} ({self.purpose}): Debian/Ubuntu: {self.debian}; RHEL/Fedora: {self.fedora}"


def search_path() -> str:
    """``PATH`` with this interpreter's own directory in front and the ``sbin`` directories behind.

    virtme-ng calls its parts by name, so a virtual environment's ``bin`` has to be on it, activated or not; a
    user's PATH on Debian lacks ``/usr/sbin``, where modprobe and depmod are.
    """
    own = str(Path(sys.executable).parent)
    given = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([own, given, "/usr/sbin", "/sbin"])


def find(*names: str) -> Path | None:
    """The first of these programs that is there."""
    for name in names:
        if found := shutil.which(name, path=search_path()):
            return Path(found)
    return None


def find_tool(first_name: str) -> Path | None:
    """The program of :data:`TOOLS` whose first name this is."""
    tool = next(tool for tool in TOOLS if tool.names[0] == first_name)
    return find(*tool.names)


def qemu() -> Path | None:
    """QEMU for this machine's own architecture."""
    return find(*TOOLS[0].names)


def missing_tools() -> list[Missing]:
    """Every program of :data:`TOOLS` that is not there."""
    return [_as_missing(tool) for tool in TOOLS if find(*tool.names) is None]


def _as_missing(tool: Tool) -> Missing:
    if not tool.debian:
        how = "pip install 'rdmaqp[lab]', or pip install virtme-ng, into the environment that runs rdmaqp"
        return Missing(tool.names[0], tool.purpose, how, how)
    return Missing(
        tool.names[0], tool.purpose, f"apt install {tool.debian}", f"dnf install {tool.fedora}"
    )
