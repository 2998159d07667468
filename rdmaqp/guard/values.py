"""Is each value of its type, in its field's range, a member of its enumeration?

Values are looked at as the caller gave them, before anything is narrowed to C: 256 must not become 0. What is right
in itself goes into ``case.numbers``, and then to what device and port have to say about it (:mod:`.limits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.guard import addressing
from rdmaqp.guard.limits import LIMITS
from rdmaqp.guard.report import shown
from rdmaqp.model.attributes import (
    AV_RANGES,
    CODES,
    FIELDS,
    GRH_RANGES,
    RATES,
    AddressVector,
    GlobalRoute,
    as_int,
    enum_value,
)
from rdmaqp.model.enums import MTU, AccessFlag, MigState, QPState, mtu_bytes, mtu_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rdmaqp.guard.case import Case
    from rdmaqp.guard.report import Report
    from rdmaqp.model.attributes import Field

#: 0 and 1 that may as well be False and True.
_SWITCHES = frozenset({"en_sqd_async_notify", "is_global"})
#: Every access flag that the kernel defines, those for "optional" features (20…29) included.
_ACCESS = int(sum(AccessFlag)) | 0x3FF00000
_PORTS = frozenset({"port_num", "alt_port_num"})  # limits.py knows the device's

_APART = frozenset({"static_rate", "is_global"})
_VECTORS = ("ah_attr", "alt_ah_attr")
#: What may be given for an enumeration, and the number meant; MTUs in bytes, and given in bytes too.
_WORDS: dict[str, Mapping[Any, int]] = {**CODES, "path_mtu": (
    {word: 128 << code for word, code in CODES["path_mtu"].items()} | {128 << code: 128 << code for code in range(1, 6)}
)}


def _how(field: Field) -> tuple[int, int, Mapping[Any, int] | None, Callable[[Case, int], None] | None]:
    """What the passing path asks of an attribute: its plain range, its words, its limits. The rest is for _field()."""
    words, limit = _WORDS.get(field.name), LIMITS.get(field.name)
    if words is not None or field.name in _VECTORS:
        return 1, 0, words, limit
    return field.low, 0x3FF if field.name == "qp_access_flags" else field.high, None, limit


_HOW = {name: _how(field) for name, field in FIELDS.items()}
_CODED = frozenset({int, str, QPState, MTU, MigState})
_RATE_CODES = frozenset(RATES.values())


def check(case: Case) -> None:
    """Every value that counts, then what device and port say to it."""
    numbers, given, plain = case.numbers, case.given, case.request.units is None
    for name, value in given.items():
        low, high, words, limit = _HOW[name]
        known: int | None
        if type(value) is int and low <= value <= high:
            known = value
        elif plain and words is not None and type(value) in _CODED and value in words:
            known = words[value]
        elif name in _VECTORS:
            continue
        else:
            known = _field(case, FIELDS[name], value)
            if known is None:
                continue
        numbers[name] = known
        if limit is not None:
            limit(case, known)
    for name in _VECTORS:
        if name in given and vector(case.report, name, given[name]):
            addressing.check(case, name, given[name])


def _field(case: Case, field: Field, value: Any) -> int | None:
    """The number that *value* is; ``None`` with a finding where it is none, or the wrong one."""
    name = field.name
    if name == "cap":
        return None
    if field.enum is not None:
        return _enum(case, field, value)
    number = int(value) if type(value) is bool and name in _SWITCHES else as_int(value)
    if number is None:
        if name == "qp_access_flags" and isinstance(value, (list, tuple)):
            return access_names(case.report, name, value)
        wrong_type(case.report, name, value, _range(field.low, field.high))
    elif name in _PORTS:
        return number
    elif not field.low <= number <= field.high:
        out_of_range(case.report, name, number, field.low, field.high)
    else:
        if name == "qp_access_flags" and number & ~_ACCESS:
            _access(case.report, name, number)
        return number
    return None


def _enum(case: Case, field: Field, value: Any) -> int | None:
    assert field.enum is not None
    number, abi = as_int(value), case.request.units is not None
    if number is None and not isinstance(value, str):
        wrong_type(case.report, field.name, value, field.allowed)
        return None
    known = enum_value(field.enum, value)
    if known is None and field.name == "path_mtu" and number is not None and not abi:
        known = mtu_bytes(number)
    if known is None:
        abi_mtu = abi and field.name == "path_mtu"
        why = "is not one of its values"
        if number is not None and number > 0xFF:
            why += f"; libibverbs would cut it to {number & 0xFF}"
        case.report.find("value-enum", field.name, f"{_word(value)} {why}", given=value,
                         allowed="1…5 (256…4096 bytes)" if abi_mtu else field.allowed,
                         fix=_mtu_of_bytes(number) if abi_mtu else None)
        return None
    return mtu_bytes(known) if field.name == "path_mtu" else known


def _mtu_of_bytes(number: int | None) -> str | None:
    """The constant for who has written the bytes where C takes a number from 1 to 5."""
    code = None if number is None else mtu_code(number)
    return None if code is None else f"path_mtu={code}, IBV_MTU_{number}"


def _access(report: Report, name: str, number: int) -> None:
    report.find("value-enum", name, f"{number & ~_ACCESS & 0xFFFFFFFF:#x} is no access flag", given=f"{number:#x}",
                allowed=", ".join(AccessFlag.__members__))


def access_names(report: Report, name: str, value: Any) -> int | None:
    """The flags of a list of names; ``None`` with a finding where one is unknown."""
    bits = 0
    for word in value:
        flag = AccessFlag.__members__.get(word) if isinstance(word, str) else as_int(word)
        if flag is None:
            report.find("value-enum", name, f"{_word(word)} is no access flag", given=word,
                        allowed=", ".join(AccessFlag.__members__))
            return None
        bits |= flag
    return bits


def access(report: Report, name: str, value: Any) -> int | None:
    """The access flags of a value outside a modify call; ``None`` with a finding where they are none."""
    if isinstance(value, (list, tuple)):
        return access_names(report, name, value)
    number = as_int(value)
    if number is None:
        wrong_type(report, name, value, "a list of names")
    elif number & ~_ACCESS:
        _access(report, name, number)
    else:
        return number
    return None


# ---------------------------------------------------------------------- address vectors


def vector(report: Report, name: str, value: Any) -> bool:
    """Whether *value* is an address vector; its parts are judged by the way."""
    if not isinstance(value, AddressVector):
        wrong_type(report, name, value, "an AddressVector")
        return False
    dlid, level, bits, number = value.dlid, value.sl, value.src_path_bits, value.static_rate
    if not (type(value.port_num) is type(dlid) is type(level) is type(bits) is type(number) is int
            and not (dlid >> 16 or level >> 4 or bits >> 7 or number)):  # what is negative stays so  # fmt: skip
        _parts(report, name, value, AV_RANGES)
        rate(report, name, number)
    on = value.is_global
    if on is not None and not (type(on) is int and 0 <= on <= 1):
        _part(report, f"{name}.is_global", on, 0, 1)
    return value.grh is None or _route(report, f"{name}.grh", value.grh)


def _route(report: Report, name: str, route: Any) -> bool:
    if not isinstance(route, GlobalRoute):
        wrong_type(report, name, route, "a GlobalRoute")
        return False
    index, label, hops, traffic = route.sgid_index, route.flow_label, route.hop_limit, route.traffic_class
    if not (type(index) is type(label) is type(hops) is type(traffic) is int
            and not (index >> 8 or label >> 20 or hops >> 8 or traffic >> 8)):  # fmt: skip
        _parts(report, name, route, GRH_RANGES)
    return True


def _parts(report: Report, name: str, holder: Any, ranges: Mapping[str, tuple[int, int]]) -> None:
    for part, (low, high) in ranges.items():
        if part not in _APART:
            _part(report, f"{name}.{part}", getattr(holder, part), low, high)


def _part(report: Report, place: str, value: Any, low: int, high: int) -> None:
    if value is None:
        return  # unknown, or follows from the rest
    number = int(value) if type(value) is bool and place.endswith(".is_global") else as_int(value)
    if number is None:
        wrong_type(report, place, value, _range(low, high))
    elif not low <= number <= high and not place.endswith("port_num"):
        out_of_range(report, place, number, low, high)


def rate(report: Report, name: str, value: Any) -> int | None:
    """The code of a static rate, given as such or by its name."""
    if value is None:
        return None
    number = RATES.get(value) if isinstance(value, str) else as_int(value)
    if number is None and not isinstance(value, str):
        wrong_type(report, f"{name}.static_rate", value, "0, 2…24")
    elif number not in _RATE_CODES:
        report.find("value-enum", f"{name}.static_rate", f"{_word(value)} is not an ibv_rate code", given=value,
                    allowed="0, 2…24", fix="0 is as fast as the port")
        number = None
    return number


# ---------------------------------------------------------------------- words


def wrong_type(report: Report, name: str, value: Any, allowed: str) -> None:
    """That *value* is not of the type that the field takes."""
    report.find("value-type", name, f"{_word(value)} is a {type(value).__name__}", given=value, allowed=allowed)


def out_of_range(report: Report, name: str, number: int, low: int, high: int) -> None:
    """That *number* does not fit."""
    why = f"is below {low}" if number < low else f"does not fit its {high.bit_length()} bits"
    report.find("value-range", name, f"{_word(number)} {why}", given=number, allowed=_range(low, high))


def _range(low: int, high: int) -> str:
    return f"{low}…{high:#x}" if high > 0xFFFF else f"{low}…{high}"


def _word(value: Any) -> str:
    short = shown(value)
    if isinstance(short, int) and not isinstance(short, bool) and abs(short) > 0xFFFF:
        return f"{short:#x}"
    return repr(short) if isinstance(value, str) else str(short)
