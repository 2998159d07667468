"""The reasons behind an error number that no rule names: limits of process and device, the driver itself."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from rdmaqp.guard.driver_errnos import look_at, of_driver
from rdmaqp.guard.errnos import ANSWERS, EXHAUSTED, UNSUPPORTED
from rdmaqp.guard.report import shown
from rdmaqp.host.network import NoRoute
from rdmaqp.model.attributes import as_int
from rdmaqp.model.enums import AccessFlag, AttrMask, QPType
from rdmaqp.model.facts import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rdmaqp.guard.cause import Sheet
    from rdmaqp.guard.scene import Scene

#: What says by its own number that it went wrong: EINVAL is not one of them.
_GONE = frozenset({errno.EIO, errno.ENODEV, errno.ENXIO})

_BLACKHOLE = (NoRoute("Invalid argument"), NoRoute("the route is of type blackhole"))


def judge(scene: Scene, sheet: Sheet, number: int) -> None:
    """Note what *number* means for this act and this driver, besides the rules."""
    row = of_driver(scene.driver, scene.act, number)
    if row is not None:
        look = "" if scene.act == "post" else f" Look at {look_at(scene.driver)}"  # nobody logs a post
        sheet.add(row.cause, row.standing, f"{row.why} ({row.source}).{look}")
    act = _BY_ACT.get(scene.act)
    if act is not None:
        act(scene, sheet, number)
    if number == errno.EIO and row is None and scene.has_firmware and scene.act != "post":
        sheet.add("firmware-refused", "likely", f"the firmware reports an error. Look at {look_at(scene.driver)}")
    if number in _GONE and not (row and row.standing == "proved"):
        sheet.add("device-missing", "likely", "the device was removed or is being reset: `rdma link`, dmesg")
    if number in (errno.EFAULT, errno.ENOEXEC) and scene.act != "reg_mr":
        sheet.add("provider-missing", "likely", "the user library and the kernel driver do not understand each other: "
                  "two builds mixed (a container's library, a vendor's package)? `ldconfig -p | grep -e verbs -e mlx`")


def no_reason(scene: Scene, sheet: Sheet, number: int) -> None:
    """The last answer: every known check passes, so whoever stands behind them refused."""
    answers = ANSWERS[scene.act].get(number, {})
    is_open = any(how == "proved" and scene.needs(rule) for rule, how in answers.items())
    made = "every known check passes"
    if sheet.has_any:
        made = "every check that could be made passes" if is_open else "besides that"
    look = f"Look at {look_at(scene.driver)}"
    # A firmware's refusal reaches us as EINVAL, EIO, …; of "not supported" drivers and libraries are fond.
    if scene.has_firmware and number not in UNSUPPORTED and scene.act not in ("post", "reg_mr"):
        sheet.add("firmware-refused", "likely", f"{made}: the firmware may have refused. {look}")
        look = "It leaves its reason in the same place"
    sheet.add("driver-refused", "likely", f"{made}: {scene.name} refused for a reason of its own. {look}")


# ---------------------------------------------------------------------- by act


def _modify(scene: Scene, sheet: Sheet, number: int) -> None:
    if number == errno.EPERM:
        _not_permitted_to_modify(scene, sheet)
    elif number == errno.EACCES:
        if scene.roce is not False and not scene.unasked:
            sheet.add("route-missing", "likely", "the route to the destination is of type prohibit: `ip route get`")
        if scene.roce is not True:
            sheet.add("not-permitted", "likely", "a security module denies this partition key (SELinux: ibpkey)")
    elif number in UNSUPPORTED and not sheet.explained:
        sheet.add("provider-missing", "likely", "the user library knows fewer attributes than the kernel: `ibv_devinfo`"
                  " says its version")
    elif number == errno.ETIMEDOUT and scene.unasked and scene.has_firmware:
        sheet.add("firmware-refused", "likely", f"{scene.unasked}: a command of the firmware timed out. Look at "
                  f"{look_at(scene.driver)}")
    elif number == errno.EINVAL and scene.machine is not None and scene.machine.route in _BLACKHOLE:
        sheet.add("route-missing", "likely", f"the route is a blackhole, which is EINVAL. This machine says: "
                  f"{scene.machine}")
    elif number == errno.EREMOTEIO:
        sheet.add("firmware-refused", "proved", "the firmware answered with an error status; nobody else says "
                  f"EREMOTEIO here. Look at {look_at(scene.driver)}")


def _not_permitted_to_modify(scene: Scene, sheet: Sheet) -> None:
    qkey = as_int(scene.request.attr.qkey) if scene.request.attr is not None else None
    if scene.mask & AttrMask.QKEY and (qkey is None or qkey >> 31 & 1):
        sheet.add("qkey-privileged", "likely" if qkey is None else "proved", "bit 31 of the qkey needs CAP_NET_RAW, or "
                  "`rdma system set privileged-qkey on`")
    elif not sheet.explained:
        sheet.add("not-permitted", "likely", "the process lacks a privilege, or a security module denies it")


def _create(scene: Scene, sheet: Sheet, number: int) -> None:
    asked = scene.request.create
    if asked is None or sheet.explained:
        return
    inline = as_int(asked.max_inline_data)
    if number == errno.EINVAL:
        if inline:
            sheet.add("post-inline", "likely", f"max_inline_data {shown(inline)}: no verb tells the limit. Ask for "
                      "less, and look at what ibv_create_qp gives")
        else:
            sheet.rule_out(("post-inline",), "no inline data is asked for")
        sheet.add("create-over-limit", "likely", "max_qp_wr and max_sge hold each alone: depth, pieces and inline data "
                  "together may be more than a queue can have. Halve one after the other")
    elif number == errno.ENOMEM:
        _locked_memory(scene, sheet, "the queues' memory is locked")
        sheet.add("create-over-limit", "likely", "so many entries need more memory than there is: ask for fewer")
        _queue_pairs(scene, sheet)
    elif number in EXHAUSTED:
        _queue_pairs(scene, sheet)
    elif number in UNSUPPORTED:
        kind = scene.request.qp.type
        sheet.add("qp-type-unsupported", "likely", f"{scene.name} may have no {kind.name if kind else 'such'} queue "
                  "pairs by this verb")
        sheet.add("provider-missing", "likely", "or the user library is older than what is asked for")
    elif number in (errno.EPERM, errno.EACCES):
        raw = scene.request.qp.type is QPType.RAW_PACKET
        sheet.add("not-permitted", "proved" if raw else "likely", "a raw packet queue pair needs CAP_NET_RAW" if raw
                  else "the process lacks a privilege, or a security module denies it")


def _queue_pairs(scene: Scene, sheet: Sheet) -> None:
    device = scene.request.device
    used = "" if device.qp_in_use is None else f", of which {device.qp_in_use} are in use"
    has = f"the device says {device.max_qp}{used}" if device.max_qp else "its number is not known"
    sheet.add("qp-limit", "likely", f"no queue pair is left ({has}; a driver or a cgroup may allow fewer): "
              "`rdma resource show qp` says whose they are; those of dead processes must go first")


def _region(scene: Scene, sheet: Sheet, number: int) -> None:
    asked = scene.request.reg_mr
    access = as_int(asked.access) or 0 if asked is not None else 0
    if number in (errno.ENOMEM, errno.EPERM):
        if access & AccessFlag.ON_DEMAND:
            sheet.rule_out(("memlock-limit",), "pages on demand are not locked")
        else:
            _locked_memory(scene, sheet, "a region is locked into memory")
    elif number == errno.EFAULT:
        sheet.add("memory-not-pinnable", "proved", "not all of this memory can be pinned: it is not mapped, it is "
                  "read-only and the access writes, or it is a GPU's and its peer-memory module (nvidia_peermem) is "
                  "not loaded")
    elif number in UNSUPPORTED:
        sheet.add("driver-refused", "likely", "an access flag or a kind of memory that this device does not have"
                  + (": ON_DEMAND" if access & AccessFlag.ON_DEMAND else ""))
    elif number in EXHAUSTED:
        sheet.add("driver-refused", "likely", "no memory key is left (max_mr, or the cgroup's rdma.max)")
    elif number == errno.EACCES:
        sheet.add("not-permitted", "likely", "the memory is mapped without the access asked for")


def _locked_memory(scene: Scene, sheet: Sheet, what: str) -> None:
    process = scene.request.process
    if process.memlock == UNLIMITED or process.ipc_lock:
        because = "RLIMIT_MEMLOCK is unlimited" if process.memlock == UNLIMITED else "CAP_IPC_LOCK lifts the limit"
        sheet.rule_out(("memlock-limit",), because)
        return
    limit = "is not known" if process.memlock is None else f"is {process.memlock} for all of the process together"
    sheet.add("memlock-limit", "proved" if process.memlock == 0 else "likely", f"{what}, and RLIMIT_MEMLOCK {limit}: "
              "`ulimit -l unlimited`, LimitMEMLOCK=infinity, or --ulimit memlock=-1 for a container")


def _post(scene: Scene, sheet: Sheet, number: int) -> None:
    post, cap = scene.request.post, scene.request.qp.cap
    if post is None or sheet.explained:
        return
    if scene.needs("post-full") and number in (errno.ENOMEM, errno.ENOSPC, errno.EAGAIN):
        posted = scene.request.qp.outstanding if post.queue == "send" else scene.request.qp.recv_posted
        has = f"{posted} are outstanding" if posted is not None else "how many are outstanding is not known"
        sheet.add("post-full", "likely", f"{has}, and the queue's room is not known: reap completions")
    pieces = as_int(post.num_sge)
    if cap is None and (pieces is None or pieces > 1):
        sheet.add("post-sge", "likely", f"{shown(pieces) or 'several'} pieces; how many the queue pair was made for "
                  "is not known")
    if cap is None and post.inline and post.queue == "send":
        sheet.add("post-inline", "likely", f"{shown(post.length)} bytes inline; how many the queue pair was made for "
                  "is not known")
    elif not post.inline:
        sheet.rule_out(("post-inline",), "nothing is inline")
    if number == errno.EINVAL and scene.needs("post-opcode"):
        sheet.add("post-opcode", "likely", "the opcode could not be checked")
    if scene.needs("post-state"):
        sheet.add("post-state", "likely", "the state is not known: sends are taken from RTS on, receives from INIT on")


def _address_handle(scene: Scene, sheet: Sheet, number: int) -> None:
    if number == errno.ETIMEDOUT and scene.unasked and scene.has_firmware:
        sheet.add("firmware-refused", "likely", f"{scene.unasked}: a command of the firmware timed out")
    elif number in (errno.EPERM, errno.EACCES):
        sheet.add("not-permitted", "likely", "the process lacks a privilege, or the route is of type prohibit")
    elif number == errno.ENOMEM:
        sheet.add("driver-refused", "likely", "no address handle is left (max_ah)")


_BY_ACT: dict[str, Callable[[Scene, Sheet, int], None]] = {
    "modify": _modify, "create": _create, "reg_mr": _region, "post": _post, "ah": _address_handle,
}

