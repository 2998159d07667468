"""Is each value of its type, in its field's range, and within what the device and the port can?

Values are looked at as the caller gave them, before anything is narrowed to C: 256 must not become 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.model.attributes import AV_RANGES, FIELDS, GRH_RANGES, RATE_CODES, AddressVector, Field, as_int, enum_value
from rdmaqp.model.enums import AccessFlag, AtomicCap, AttrMask, PortState, QPState, mtu_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.guard.case import Case

#: 0 and 1 that may as well be False and True.
_SWITCHES = frozenset({"en_sqd_async_notify", "is_global"})


def check(case: Case) -> None:
    """Every value that counts, then the limits of device and port."""
    for name, value in case.given.items():
        field = FIELDS[name]
        if case.sets(field.mask) and name != "cap":
            _field(case, field, value)
    _ports(case)
    _pkey(case)
    _mtu(case)
    _rd_atomic(case)
    _access(case)
    _habits(case)
    _queues(case)


def _field(case: Case, field: Field, value: Any) -> None:
    if field.name in ("ah_attr", "alt_ah_attr"):
        _address(case, field.name, value)
    elif field.enum is not None:
        _enum(case, field, value)
    else:
        _number(case, field.name, value, field.low, field.high)


def _enum(case: Case, field: Field, value: Any) -> None:
    assert field.enum is not None
    number = as_int(value)
    if not isinstance(value, str) and number is None:
        case.find("value-type", field.name, f"{value!r} is a {type(value).__name__}", given=_show(value),
                  allowed=field.allowed)
        return
    known = enum_value(field.enum, value)
    if field.name == "path_mtu" and number is not None:
        known = mtu_bytes(number)
    if known is None:
        case.find("value-enum", field.name, f"{value!r} is not one of its values", given=_show(value),
                  allowed=field.allowed)


def _number(case: Case, name: str, value: Any, low: int, high: int) -> None:
    number = int(value) if isinstance(value, bool) and name.rsplit(".", 1)[-1] in _SWITCHES else as_int(value)
    if number is None:
        case.find("value-type", name, f"{value!r} is a {type(value).__name__}, not a whole number",
                  given=_show(value), allowed=_range(low, high))
    elif not low <= number <= high and not name.endswith("port_num"):  # _ports() knows the device's
        case.find("value-range", name, f"{_show(number)} does not fit its {high.bit_length()} bits"
                  if number > high else f"{_show(number)} is below {low}",
                  given=_show(number), allowed=_range(low, high))


def _address(case: Case, name: str, value: Any) -> None:
    if not isinstance(value, AddressVector):
        case.find("value-type", name, f"a {type(value).__name__} is not an AddressVector", given=_show(value))
        return
    _parts(case, name, value, AV_RANGES)
    if value.grh is not None:
        _parts(case, f"{name}.grh", value.grh, GRH_RANGES)
    if as_int(value.static_rate) is not None and 0 <= value.static_rate <= 0xFF and value.static_rate not in RATE_CODES:
        case.find("value-enum", f"{name}.static_rate", f"{value.static_rate} is not an ibv_rate code",
                  given=value.static_rate, allowed="0, 2…24", fix="0 is as fast as the port")


def _parts(case: Case, name: str, holder: Any, ranges: Mapping[str, tuple[int, int]]) -> None:
    for part, (low, high) in ranges.items():
        value = getattr(holder, part)
        if value is not None or part != "is_global":
            _number(case, f"{name}.{part}", value, low, high)


def _range(low: int, high: int) -> str:
    return f"{low}…{high:#x}" if high > 0xFFFF else f"{low}…{high}"


def _show(value: Any) -> Any:
    """*value* as it goes into a finding: short, and of a kind that JSON knows."""
    if isinstance(value, int) and abs(value) > 0xFFFF:
        return f"{value:#x}" if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"
    return value if isinstance(value, (int, str)) else repr(value)[:80]


# ---------------------------------------------------------------------- limits


def _ports(case: Case) -> None:
    count = case.request.device.phys_port_cnt
    for name, bit, value in _port_numbers(case):
        number = as_int(value)
        if number is None:
            continue
        if count is None and 1 <= number <= 0xFF:
            case.skip("port-range", "device.phys_port_cnt")
        elif number < 1 or number > (0xFF if count is None else count):
            case.find("port-range", name, f"the device has no port {_show(number)}", given=_show(number),
                      allowed="1" if count == 1 else f"1…{count or 255}")
        elif bit == AttrMask.PORT and case.request.port.num == number:
            _active(case)


def _port_numbers(case: Case) -> list[tuple[str, int, Any]]:
    numbers: list[tuple[str, int, Any]] = []
    if case.sets(AttrMask.PORT) and "port_num" in case.given:
        numbers.append(("port_num", AttrMask.PORT, case.given["port_num"]))
    if case.sets(AttrMask.ALT_PATH) and "alt_port_num" in case.given:
        numbers.append(("alt_port_num", AttrMask.ALT_PATH, case.given["alt_port_num"]))
    for name, bit in (("ah_attr", AttrMask.AV), ("alt_ah_attr", AttrMask.ALT_PATH)):
        address = case.value(name, bit)
        if isinstance(address, AddressVector):
            numbers.append((f"{name}.port_num", bit, address.port_num))
    return numbers


def _active(case: Case) -> None:
    state = case.request.port.state
    if state is not None and state is not PortState.ACTIVE:
        case.find("port-inactive", "port_num", f"port {case.request.port.num} is {state.name}, not ACTIVE: nothing "
                  "will go through it", given=case.request.port.num, fix="bring the link up; `rdmaqp devices` shows it")


def _pkey(case: Case) -> None:
    index = as_int(case.value("pkey_index", AttrMask.PKEY_INDEX))
    if index is None:
        return
    length = 1 if case.is_ethernet else case.request.port.pkey_tbl_len
    if length is None:
        case.skip("pkey-range", "port.pkey_tbl_len")
    elif index >= length:
        ignored = case.driver.ignores_pkey_index
        case.find("pkey-range", "pkey_index", f"{index} is past the end of the port's P_Key table"
                  + ("; this driver ignores it, others refuse it" if ignored else ""),
                  severity="warning" if ignored else "error", given=index, allowed=_range(0, length - 1))
    elif index in case.request.pkeys and not case.request.pkeys[index] & 0x8000:
        key = case.request.pkeys[index]
        case.find("pkey-limited", "pkey_index", f"the key at {index} is {key:#06x}, a limited member: two limited "
                  "members cannot talk to each other" if key else f"the key at {index} is empty", given=index)


def _mtu(case: Case) -> None:
    value = as_int(case.value("path_mtu", AttrMask.PATH_MTU))
    asked = None if value is None else mtu_bytes(value)
    if asked is None:
        return
    active = case.request.port.active_mtu
    if active is None:
        case.skip("mtu-over-active", "port.active_mtu")
    elif asked > active:
        case.find("mtu-over-active", "path_mtu", f"{asked} is above the port's active MTU, {active}", given=asked,
                  allowed=f"256…{active}", fix=f"path_mtu={active}, or less where the peer's port carries less")


def _rd_atomic(case: Case) -> None:
    for name, bit, limit in (
        ("max_rd_atomic", AttrMask.MAX_QP_RD_ATOMIC, case.driver.initiator_limit),
        ("max_dest_rd_atomic", AttrMask.MAX_DEST_RD_ATOMIC, case.driver.responder_limit),
    ):
        value = as_int(case.value(name, bit))
        if value is None:
            continue
        most = getattr(case.request.device, limit)
        if most is None:
            case.skip("rd-atomic-over-device", f"device.{limit}")
        elif most < value <= 0xFF:
            case.find("rd-atomic-over-device", name, f"{value} is above the device's {limit}, {most}", given=value,
                      allowed=f"0…{most}", fix=f"{name}={most}")


def _access(case: Case) -> None:
    flags = as_int(case.value("qp_access_flags", AttrMask.ACCESS_FLAGS))
    if flags is not None and flags & AccessFlag.REMOTE_ATOMIC and case.request.device.atomic_cap is AtomicCap.NONE:
        case.find("atomic-unsupported", "qp_access_flags", "REMOTE_ATOMIC is allowed, and the device has no atomics",
                  given="REMOTE_ATOMIC")
    if flags is None and case.request.qp.access_flags is not None:
        flags = int(case.request.qp.access_flags)
    served = case.value("max_dest_rd_atomic", AttrMask.MAX_DEST_RD_ATOMIC)
    if served == 0 and flags is not None and flags & (AccessFlag.REMOTE_READ | AccessFlag.REMOTE_ATOMIC):
        case.find("rd-atomic-disables", "max_dest_rd_atomic", "0 serves no remote read or atomic, which the access "
                  "flags allow", given=0, fix="max_dest_rd_atomic=1 or more")


def _habits(case: Case) -> None:
    """Legal values that surprise."""
    if case.value("timeout", AttrMask.TIMEOUT) == 0:
        case.find("timeout-infinite", "timeout", "0 waits for ever: a dead peer is never noticed", given=0,
                  fix="timeout=14 (67 ms) is customary")
    if case.value("min_rnr_timer", AttrMask.MIN_RNR_TIMER) == 0:
        case.find("rnr-timer-longest", "min_rnr_timer", "0 is the longest wait, 655 ms, not the shortest", given=0,
                  fix="min_rnr_timer=12 (0.64 ms) is customary; 1 is the shortest")
    for name, bit in (("retry_cnt", AttrMask.RETRY_CNT), ("rnr_retry", AttrMask.RNR_RETRY)):
        if case.value(name, bit) == 0:
            case.find("retry-none", name, "0 gives up at the first loss", given=0, fix=f"{name}=7 is customary")
    key = as_int(case.value("qkey", AttrMask.QKEY))
    if key is not None and 0x80000000 <= key <= 0xFFFFFFFF:
        case.find("qkey-privileged", "qkey", f"{key:#x} has bit 31 set, which needs CAP_NET_RAW", given=f"{key:#x}")


def _queues(case: Case) -> None:
    qp = case.request.qp
    if case.goal is QPState.RESET and case.rule is not None and case.state is not QPState.RESET and qp.outstanding:
        case.find("reset-loses-completions", "qp_state", f"{qp.outstanding} sends are outstanding: RESET drops them "
                  "without completions", given="RESET", fix="go to ERR first and reap the flushed completions")
    if case.goal is QPState.RTR and case.state is QPState.INIT and qp.recv_posted == 0 and qp.srq is False:
        case.find("recv-queue-empty", "qp_state", "no receive is posted: the peer's first message finds no buffer",
                  given="RTR", fix="post receives in INIT")
