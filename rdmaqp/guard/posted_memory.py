"""The memory that a work request names: is it inside a region, of this protection domain, and may it be written?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.guard.case import is_iwarp
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.values import out_of_range, wrong_type
from rdmaqp.model.acts import WROpcode
from rdmaqp.model.attributes import as_int
from rdmaqp.model.enums import AccessFlag

if TYPE_CHECKING:
    from rdmaqp.guard.report import Report
    from rdmaqp.model.acts import Piece, Post
    from rdmaqp.model.request import Region, Request

_Op = WROpcode
#: Those that bring something back.
WRITES_HERE = frozenset({_Op.ATOMIC_CMP_AND_SWP, _Op.ATOMIC_FETCH_AND_ADD, _Op.RDMA_READ})
_WRITE = int(AccessFlag.LOCAL_WRITE)
_ZERO_BASED = int(AccessFlag.ZERO_BASED)
_REMOTE_WRITES = int(AccessFlag.REMOTE_WRITE | AccessFlag.REMOTE_ATOMIC)


def piece(
    report: Report, request: Request, name: str, part: Piece, post: Post, opcode: WROpcode | None
) -> None:  # fmt: skip
    """One piece, against the region that its key names."""
    numbers: dict[str, Any] = {}
    for key, high in (("addr", (1 << 64) - 1), ("length", 0xFFFFFFFF), ("lkey", 0xFFFFFFFF)):
        value = getattr(part, key)
        number = as_int(value)
        if value is not None and number is None:
            wrong_type(report, f"{name}.{key}", value, f"0…{high:#x}")
        elif number is not None and not 0 <= number <= high:
            out_of_range(report, f"{name}.{key}", number, 0, high)
        else:
            numbers[key] = number
    lkey = numbers.get("lkey")
    if lkey is None or not request.mrs:
        return report.skip("post-key", "mrs" if not request.mrs else f"{name}.lkey")
    region = next((region for region in request.mrs if region.lkey == lkey), None)
    if region is None:
        near = next((mr.lkey for mr in request.mrs if mr.rkey == lkey and mr.lkey is not None), None)
        return report.find("post-key", f"{name}.lkey", f"{lkey:#x} is the lkey of none of the known regions"
                           + (": it is an rkey" if near is not None else ""), given=f"{lkey:#x}",
                           fix="give the lkey of a registered region" if near is None else f"lkey={near:#x}")
    _inside(report, name, numbers, region)
    return _allowed(report, request, name, region, post, opcode)


def _inside(report: Report, name: str, numbers: dict[str, Any], region: Region) -> None:
    addr, length = numbers.get("addr"), numbers.get("length")
    if addr is None or not length or region.length is None or region.addr is None:
        return  # a piece of no bytes touches nothing
    start = 0 if region.access is not None and region.access & _ZERO_BASED else region.addr
    end = start + region.length
    if not (start <= addr and addr + length <= end):
        report.find("post-sge", name, f"{addr:#x}…{addr + length:#x} is not inside its region, {start:#x}…{end:#x}",
                    given=f"{addr:#x}", allowed=f"{start:#x}…{end:#x}", fix="register more, or post less")


def _window(report: Report, name: str, region: Region, post: Post) -> None:
    """What a memory window needs of the region that it is bound to."""
    wanted = as_int(post.access)
    if region.access is None:
        report.skip("post-access", "mrs.access")
    elif not region.access & AccessFlag.MW_BIND:
        report.find("post-access", f"{name}.lkey", "a window is bound to the region, which has no MW_BIND",
                    given=f"{region.access:#x}", allowed="MW_BIND", fix="register it with MW_BIND")
    elif wanted is not None and wanted & _REMOTE_WRITES and not region.access & _WRITE:
        report.find("post-access", "access", "the window lets the peer write into the region, which has no LOCAL_WRITE",
                    given=f"{wanted:#x}", allowed="REMOTE_READ", fix="register it with LOCAL_WRITE")
    if as_int(post.length) == 0:
        report.find("post-sge", "length", "a window of type 2 is bound to at least 1 byte", given=0, allowed="1…",
                    fix="to take its key away, LOCAL_INV")


def _allowed(
    report: Report, request: Request, name: str, region: Region, post: Post, opcode: WROpcode | None
) -> None:  # fmt: skip
    if opcode is _Op.BIND_MW:
        _window(report, name, region, post)
    ours = request.qp.pd
    if ours is not None and region.pd is not None and ours != region.pd:
        whose = owner(post)
        report.find("post-pd", f"{name}.lkey", f"the region is of protection domain {region.pd}, the {whose} of "
                    f"{ours}", given=region.pd, allowed=str(ours), fix=f"register it in the {whose}'s domain")
    writes = post.queue != "send" or opcode in WRITES_HERE
    if region.access is None or not writes:
        return
    if not region.access & _WRITE:
        report.find("post-access", f"{name}.lkey", "the work writes into the region, which has no LOCAL_WRITE",
                    given=f"{region.access:#x}", allowed="LOCAL_WRITE", fix="register it with LOCAL_WRITE")
    elif opcode is _Op.RDMA_READ and not region.access & AccessFlag.REMOTE_WRITE and (
        is_iwarp(request, driver_of(request.device.driver))
    ):
        report.find("post-access", f"{name}.lkey", "on iWARP a read answers with a write: most adapters want "
                    "REMOTE_WRITE on the region that it fills", severity="warning", given=f"{region.access:#x}",
                    fix="register it with REMOTE_WRITE")


def owner(post: Post) -> str:
    """What the work is posted to, in words."""
    return "shared receive queue" if post.queue == "srq" else "queue pair"
