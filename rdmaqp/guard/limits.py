"""What device, port and habit say to a value that is right in itself: one function an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard.case import STATE
from rdmaqp.guard.depths import REMOTE_ATOMIC, atomics, max_dest_rd_atomic, max_rd_atomic
from rdmaqp.guard.report import shown
from rdmaqp.model.enums import AccessFlag, LinkLayer, MigState, PortState, QPState, QPType
from rdmaqp.model.timers import timeout_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rdmaqp.guard.case import Case
    from rdmaqp.guard.report import Report
    from rdmaqp.model.request import PortFacts, Request

_LIMITED = 0x8000
_ACTIVE = PortState.ACTIVE
RESET, INIT, RTR, RTS, *_ = QPState


def port(report: Report, request: Request, name: str, number: int, *, only_first: bool = False) -> bool:
    """Whether the device has port *number*; a finding where it has not."""
    count = 1 if only_first else request.device.phys_port_cnt
    if count is None:
        if 1 <= number <= 0xFF:
            report.skip("port-range", "device.phys_port_cnt")
            return True
    elif 1 <= number <= count:
        return True
    report.find("port-range", name, f"the device has no port {shown(number)}", given=number,
                allowed="1" if count == 1 else f"1…{count or 255}", fix="`rdmaqp devices` lists the ports")
    return False


def _port_num(case: Case, number: int) -> None:
    if not port(case.report, case.request, "port_num", number, only_first=case.driver.first_port_only):
        return  # the address vector's is not to be set to that
    address = case.given.get("ah_attr")
    theirs = getattr(address, "port_num", number)
    if type(theirs) is int and theirs != number and not (case.mask & STATE and case.goal is RTR):
        case.report.find("port-mismatch", "ah_attr.port_num", f"{theirs} is not port_num, {number}", given=theirs,
                         allowed=str(number), fix=f"port_num={number} in both")
    raw = case.type is QPType.RAW_PACKET and case.driver.raw_on_ethernet_only
    if raw and case.port.link_layer is LinkLayer.INFINIBAND:
        case.report.find("qp-type-unsupported", "port_num", f"{case.driver.name} has raw packets on Ethernet ports "
                         "only", given=number, source=case.driver.source, fix="a port whose link layer is Ethernet")


def _alt_port_num(case: Case, number: int) -> None:
    if not port(case.report, case.request, "alt_port_num", number, only_first=case.driver.first_port_only):
        return
    theirs = getattr(case.given.get("alt_ah_attr"), "port_num", number)
    if type(theirs) is int and theirs != number:
        case.report.find("port-mismatch", "alt_ah_attr.port_num", f"{theirs} is not alt_port_num, {number}",
                         given=theirs, allowed=str(number), fix=f"port_num={number} in both")


def _pkey_index(case: Case, index: int) -> None:
    if case.iwarp:
        return
    driver, report = case.driver, case.report
    length = 1 if case.ethernet or driver.first_pkey_only else case.port.pkey_tbl_len
    key = case.request.pkeys.get(index)
    if length is None:
        report.skip("pkey-range", "port.pkey_tbl_len")
    elif index >= length:
        ignored = driver.ignores_pkey_index
        report.find("pkey-range", "pkey_index", f"{index} is past the end of the port's P_Key table"
                    + (f"; {driver.name} ignores it, others refuse it" if ignored else ""),
                    severity="warning" if ignored else "error", given=index,
                    allowed="0" if length == 1 else f"0…{length - 1}", fix="pkey_index=0",
                    source=driver.source or None)
        return
    if key is not None and not (key & _LIMITED and key & 0x7FFF):
        report.find("pkey-limited", "pkey_index", f"the key at {index} is {key:#06x}, a limited member: two limited "
                    "members cannot talk to each other" if key & 0x7FFF
                    else f"the key at {index} is {key:#06x}, which is no partition: its low 15 bits are 0",
                    given=index, fix=_full_member(case.request))


def _alt_pkey_index(case: Case, index: int) -> None:
    """The alternate path's own index; on Ethernet and iWARP there is no such path, which addressing.py says."""
    number, driver = case.given.get("alt_port_num"), case.driver
    facts = case.request.port_facts(number) if type(number) is int else None
    if case.iwarp or case.ethernet or (facts is not None and facts.link_layer is LinkLayer.ETHERNET):
        return
    length = facts.pkey_tbl_len if facts is not None else None
    if length is None:
        case.report.skip("pkey-range", f"ports[{number}].pkey_tbl_len")
    elif index >= length:
        checked = driver.checks_alt_pkey
        case.report.find("pkey-range", "alt_pkey_index", f"{index} is past the end of port {number}'s P_Key table"
                         + ("" if checked else ": the alternate path can never be taken"),
                         severity="error" if checked else "warning", given=index, allowed=f"0…{length - 1}",
                         fix="alt_pkey_index=0", source=driver.source or None)


def _full_member(request: Request) -> str:
    index = next((index for index, key in request.pkeys.items() if key & _LIMITED and key & 0x7FFF), None)
    if index is None:
        return "the index of a partition of this port: /sys/class/infiniband/*/ports/*/pkeys/ lists them"
    return f"pkey_index={index} is {request.pkeys[index]:#06x}, a full member"


def _path_mtu(case: Case, asked: int) -> None:
    active, driver, report = case.port.active_mtu, case.driver, case.report
    if not driver.mtu_low <= asked <= driver.mtu_high:
        report.find("value-driver", "path_mtu", f"{driver.name} has no MTU of {asked}", given=asked,
                    allowed=f"{driver.mtu_low}…{driver.mtu_high}", source=driver.source)
    if case.iwarp:
        return
    if active is None:
        report.skip("mtu-over-active", "port.active_mtu")
    elif asked > active:
        report.find("mtu-over-active", "path_mtu", f"{asked} is above the port's active MTU, {active}", given=asked,
                    allowed=f"256…{active}", fix=f"path_mtu={active}, or less where the peer's port carries less")


def _path_mig_state(case: Case, state: int) -> None:
    goals = case.driver.mig_goals
    if goals is None or case.goal is None or case.goal in goals.get(MigState(state), ()):
        return
    allowed = ", ".join(mig.name for mig in MigState if case.goal in goals.get(mig, ()))
    case.report.find("value-driver", "path_mig_state", f"{case.driver.name} does not take {MigState(state).name} in "
                     f"{case.arrow}", given=MigState(state).name, allowed=allowed or None,
                     fix=f"path_mig_state={allowed.split(', ')[-1]}" if allowed else "leave it out",
                     source=case.driver.source)


def _access_flags(case: Case, flags: int) -> None:
    if flags & REMOTE_ATOMIC:
        atomics(case.report, case.request, "qp_access_flags", flags)
    driver, kernel = case.driver, case.request.kernel
    refused = flags & ~driver.access_flags
    if refused and driver.access_since is not None and kernel is not None and kernel >= driver.access_since:
        names = ", ".join(str(flag.name) for flag in AccessFlag if flag & refused) or f"{refused:#x}"
        case.report.find("value-driver", "qp_access_flags", f"{driver.name} refuses {names} for a queue pair",
                         given=f"{flags:#x}", fix=f"leave {names} out", source=driver.source)


def _timeout(case: Case, code: int) -> None:
    report = case.report
    if code == 0:
        report.find("timeout-infinite", "timeout", "0 waits for ever: a dead peer is never noticed", given=0,
                    fix="timeout=14 (67 ms) is customary")
        return
    if code > case.driver.timeout_high:
        report.find("value-driver", "timeout", f"some {case.driver.name} devices do not program more than "
                    f"{case.driver.timeout_high}", severity="note", given=code, source=case.driver.source)
    retries = case.given.get("retry_cnt")
    if code > 17 and type(retries) is int and 0 <= retries <= 7:
        seconds = (timeout_seconds(code) or 0) * (retries + 1)
        report.find("dead-peer-time", "timeout", f"a dead peer is noticed after {seconds:.0f} s and more ({retries} "
                    f"retries)", severity="note", given=code)


def _min_rnr_timer(case: Case, code: int) -> None:
    if code == 0:
        case.report.find("rnr-timer-longest", "min_rnr_timer", "0 is the longest wait, 655 ms, not the shortest",
                         given=0, fix="min_rnr_timer=12 (0.64 ms) is customary; 1 is the shortest")


def _retry_cnt(case: Case, count: int) -> None:
    if count == 0:
        case.report.find("retry-none", "retry_cnt", "0 gives up at the first loss", given=0,
                         fix="retry_cnt=7 is customary")


def _rnr_retry(case: Case, count: int) -> None:
    if count == 0:
        case.report.find("retry-none", "rnr_retry", "0 gives up at the first receiver that is not ready", given=0,
                         fix="rnr_retry=7 (for ever) is customary")


def _qkey(case: Case, key: int) -> None:
    if not key & 0x80000000:
        return
    privileged = case.request.process.privileged
    if case.driver.refuses_high_qkeys:
        case.report.find("qkey-privileged", "qkey", f"{key:#x} has bit 31 set, which {case.driver.name} takes from the "
                         "kernel's own queue pairs only", severity="error", given=f"{key:#x}", allowed="0…0x7fffffff",
                         fix="a key below 0x80000000", source=case.driver.source)
    elif not privileged:
        case.report.find(
            "qkey-privileged", "qkey", f"{key:#x} has bit 31 set, which needs CAP_NET_RAW"
            + ("" if privileged is None else ", and this process has it not"),
            severity="warning" if privileged is None else "error", given=f"{key:#x}", allowed="0…0x7fffffff",
            fix="a key below 0x80000000, CAP_NET_RAW, or `rdma system set privileged-qkey on`",
        )


def _dest_qp_num(case: Case, number: int) -> None:
    if number < 2:
        case.report.find("qpn-reserved", "dest_qp_num", f"{number} is a management queue pair, never a peer",
                         given=number, allowed="2…0xffffff", fix="give the number that the peer says")


#: Attribute -> what is said to its value.
LIMITS: Mapping[str, Callable[[Case, int], None]] = {
    "port_num": _port_num, "alt_port_num": _alt_port_num, "pkey_index": _pkey_index,
    "alt_pkey_index": _alt_pkey_index, "path_mtu": _path_mtu, "path_mig_state": _path_mig_state,
    "max_rd_atomic": max_rd_atomic, "max_dest_rd_atomic": max_dest_rd_atomic, "qp_access_flags": _access_flags,
    "timeout": _timeout, "min_rnr_timer": _min_rnr_timer, "retry_cnt": _retry_cnt, "rnr_retry": _rnr_retry,
    "qkey": _qkey, "dest_qp_num": _dest_qp_num,
}  # fmt: skip


def queues(case: Case) -> None:
    """What becomes of the work that is, or is not, posted; whether the port is up."""
    qp, goal = case.request.qp, case.goal
    if not case.mask & STATE or goal is None:
        return
    if goal is RESET:
        if qp.outstanding and case.state is not RESET:
            case.report.find("reset-loses-completions", "qp_state", f"{qp.outstanding} sends are outstanding: RESET "
                             "drops them without completions", given="RESET",
                             fix="go to ERR first and reap the flushed completions")
        return
    if goal is RTR and case.state is INIT and qp.recv_posted == 0 and qp.srq is False:
        _no_receive(case)
    if case.port.state is not _ACTIVE and goal in _BRING_UP:
        inactive(case.report, case.port, "port_num")


_BRING_UP = frozenset({INIT, RTR, RTS})
_WITHOUT_RECEIVES = frozenset({QPType.XRC_SEND, QPType.XRC_RECV})


def _no_receive(case: Case) -> None:
    qp = case.request.qp
    own = qp.driver_type is not None and qp.driver_type.name != "SRD"
    if case.type in _WITHOUT_RECEIVES or own or (qp.cap is not None and qp.cap.max_recv_wr == 0):
        return
    case.report.find("recv-queue-empty", "qp_state", "no receive is posted: the peer's first message finds no buffer",
                     given="RTR", fix="post receives in INIT")


def inactive(report: Report, facts: PortFacts, name: str) -> None:
    """A port that carries nothing now."""
    state = facts.state
    if state is not None and state is not PortState.ACTIVE and state is not PortState.NOP:
        report.find("port-inactive", name, f"port {facts.num if facts.num is not None else ''} is {state.name}, not "
                    "ACTIVE: nothing goes through it", given=facts.num, fix="bring the link up; `rdmaqp devices` "
                    "shows the ports")
