"""Is the mask complete, not excessive, and in step with the values?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard.case import STATE
from rdmaqp.guard.drivers import UNKNOWN
from rdmaqp.model.attributes import FIELD_OF_BIT, FIELDS
from rdmaqp.model.enums import MASK_NAMES, AttrMask, QPState, QPType
from rdmaqp.model.table import belongs_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.guard.case import Case
    from rdmaqp.model.table import Rule

_CAP, _AV, _PORT = int(AttrMask.CAP), int(AttrMask.AV), int(AttrMask.PORT)
_ALT_PATH, _RATE_LIMIT = int(AttrMask.ALT_PATH), int(AttrMask.RATE_LIMIT)
_DEFINED = int(sum(AttrMask)) & ~_CAP
_LOW = (1 << 64) - 1
_RTR = QPState.RTR

#: "IB/core: Extend rate limit support for RC QPs", January 2026, added these to the rows of RC; 7.0 is the first
#: release that can have it. Kernels before know RATE_LIMIT for RAW_PACKET only, which is what the table says.
_RATE_LIMIT_RC = frozenset({(QPState.INIT, _RTR), (_RTR, QPState.RTS), (QPState.RTS, QPState.RTS)})
_RATE_LIMIT_SINCE = (7, 0)


def check(case: Case) -> None:
    """Unknown bits, bits without values, values without bits, then the table's row."""
    mask = case.mask
    if mask & ~_DEFINED:
        _unknown(case)
    if case.derived_mask != mask or mask & _ALT_PATH:
        _agreement(case)
    if mask & _RATE_LIMIT:
        _rate_limit(case)
    if case.stripped:
        for bit in bits(case.stripped):
            case.report.find("mask-ignored", keyword(bit), f"the kernel ignores it for {case.kind}",
                             given=MASK_NAMES[bit], fix="leave it out")
    if case.iwarp or not case.driver.asks_table:
        _without_table(case)
    elif case.is_unchecked:
        _unchecked(case)
    elif case.rule is not None:
        _row(case, case.rule)


def _row(case: Case, rule: Rule) -> None:
    """The mask against the table's row, and what uverbs and the driver make of it."""
    mask, takes = case.mask, rule.required | rule.optional
    missing = rule.required & ~mask
    excess = mask & _DEFINED & ~(takes | STATE | case.stripped | _RATE_LIMIT)
    if missing:
        for bit in bits(missing):
            _missing(case, bit)
    if excess:
        for bit in bits(excess):
            _excess(case, bit)
    if mask & _AV and not (mask & STATE and case.goal is _RTR):
        _port_added_by_uverbs(case, takes)
    if case.driver.excess:
        _refused_by_driver(case, mask & ~excess)


def _unknown(case: Case) -> None:
    if case.mask & _CAP:
        case.report.find("mask-unknown", "cap", "capacities are fixed at creation; modify cannot carry them",
                         given="CAP", fix="leave it out")
    rest = case.mask & ~_DEFINED & ~_CAP
    if rest:
        places = [bit.bit_length() - 1 for bit in bits(rest & _LOW)] + ([64] if rest & ~_LOW else [])
        which = ", ".join(map(str, places[:6])) + (", …" if len(places) > 6 or places[-1] == 64 else "")
        case.report.find("mask-unknown", "mask", f"{'bits' if len(places) > 1 else 'bit'} {which}: not of this "
                         "interface", given=f"{rest & _LOW:#x}", fix="leave it out")


def _agreement(case: Case) -> None:
    """An explicit mask against the values given."""
    for bit in bits(case.mask & _DEFINED & ~case.derived_mask):
        _no_value(case, keyword(bit), MASK_NAMES[bit])
    if case.mask & case.derived_mask & _ALT_PATH:
        for name in ("alt_ah_attr", "alt_port_num"):
            if name not in case.given:
                _no_value(case, name, "ALT_PATH")
    for name in case.ignored:
        bit = FIELDS[name].mask
        if bit & _DEFINED:
            case.report.find("value-without-mask", name, f"{MASK_NAMES[bit]} is not in the mask: the value is ignored",
                             given=MASK_NAMES[bit], fix="leave mask= out: it follows from the values")


def _no_value(case: Case, name: str, flag: str) -> None:
    case.report.find("mask-without-value", name, f"{flag} is in the mask, and no value was given: whatever is in the "
                     "struct would be used", given=flag, fix=f"give {name}=…, or take {flag} out of the mask")


def _missing(case: Case, bit: int) -> None:
    field = FIELD_OF_BIT[bit]
    custom = f" ({field.custom}, customary)" if field.custom else ""
    message = f"{case.kind} needs STATE in every mask" if bit == STATE else f"{field.allowed}{custom}"
    case.report.find("mask-missing", field.name, message, given=MASK_NAMES[bit], allowed=field.allowed,
                     fix=f"give {field.name}=…: {field.meaning}")


def _excess(case: Case, bit: int) -> None:
    arrows = belongs_to(case.type, bit, case.request.qp.driver_type) if case.type is not None else ()
    where = ", ".join(f"{start.name} → {goal.name}" for start, goal in arrows[:3])
    message = f"belongs to {where}" if where else f"{case.kind} queue pairs never take it"
    if where and not case.mask & STATE:
        message += "; STATE is not in the mask, so the state stays"
    case.report.find("mask-excess", keyword(bit), message, given=MASK_NAMES[bit],
                     fix=f"leave {keyword(bit)} out here" + (f", give it in {where}" if where else ""))


def _port_added_by_uverbs(case: Case, takes: int) -> None:
    """uverbs adds PORT to an address vector that does not go to RTR; UC in SQD takes no PORT, so it always fails."""
    if takes & _AV and not takes & _PORT:
        case.report.find(
            "mask-excess", "ah_attr", "the kernel adds PORT to an address vector here, and "
            f"{case.kind} does not take PORT in {case.arrow}", given="PORT", fix="set the address on the way to RTR",
            source="Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp()",
        )


def _refused_by_driver(case: Case, mask: int) -> None:
    refused = 0
    if case.state is not None and case.goal is not None:
        refused = mask & case.driver.excess.get((case.state, case.goal), 0)
    for bit in bits(refused):
        case.report.find("mask-excess", keyword(bit), f"{case.driver.name} refuses it in {case.arrow}",
                         given=MASK_NAMES[bit], fix=f"leave {keyword(bit)} out", source=case.driver.source)


def _without_table(case: Case) -> None:
    """Drivers that never ask the table ignore what they do not know."""
    if case.driver.needs_state and not case.mask & STATE:
        case.report.find("mask-missing", "qp_state", f"{case.driver.name} needs STATE in every mask", given="STATE",
                         fix="give qp_state=…", source=case.driver.source)


def _unchecked(case: Case) -> None:
    """Without STATE, this driver applies whatever it is given; what the row has no place for, others refuse."""
    driver, rule = case.driver, case.rule
    refused = case.mask & driver.refused_unchecked.get(case.type, 0) if case.type is not None else 0
    for bit in bits(refused):
        _excess(case, bit)
    excess = case.mask & _DEFINED & ~(refused | case.stripped | _RATE_LIMIT)
    if rule is not None:
        excess &= ~(rule.required | rule.optional)
        if excess and case.state is not None:
            case.report.find(
                "driver-unchecked", ", ".join(keyword(bit) for bit in bits(excess)),
                f"without STATE, {driver.name} applies it unchecked in {case.state.name}; others refuse it",
                fix="for other drivers, give it on the way here", source=driver.source,
            )


def _rate_limit(case: Case) -> None:
    """Packet pacing needs a kernel, a user library and a driver that take it for this type."""
    driver, kind, kernel = case.driver, case.type, case.request.kernel
    if kind is None or (case.rule is None and not case.is_unchecked):
        return
    in_table = case.rule is not None and bool(case.rule.optional & _RATE_LIMIT)
    arrow = (case.state, case.goal)
    if driver is UNKNOWN:
        takes = in_table or (
            kind is QPType.RC and arrow in _RATE_LIMIT_RC and (kernel is None or kernel >= _RATE_LIMIT_SINCE)
        )
        why = f"{case.kind} has no packet pacing in {case.arrow}"
    else:
        since = driver.rate_limit.get(kind)
        new_enough = since is not None and (kernel is None or kernel >= since)
        takes = new_enough and (in_table or (kind is QPType.RC and arrow in _RATE_LIMIT_RC))
        why = f"{driver.name} has no packet pacing for {case.kind}" + (
            f" in {case.arrow}" if new_enough
            else f" before Linux {since[0]}.{since[1]}" if since is not None and since > (0, 0) else ""
        )
    if not takes:
        case.report.find("rate-limit-unsupported", "rate_limit", why, given=case.given.get("rate_limit"),
                         fix="leave it out", source=driver.source or None)


def keyword(bit: int) -> str:
    """The attribute that a bit stands for."""
    field = FIELD_OF_BIT.get(bit)
    return field.name if field is not None else MASK_NAMES.get(bit, f"{bit:#x}")


def bits(mask: int) -> Iterator[int]:
    """The bits of *mask*, lowest first."""
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit
