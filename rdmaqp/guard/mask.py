"""Is the mask complete, not excessive, and in step with the values?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.model.attributes import FIELD_OF_BIT, FIELDS
from rdmaqp.model.enums import MASK_NAMES, AttrMask, QPState, QPType
from rdmaqp.model.table import belongs_to

if TYPE_CHECKING:
    from rdmaqp.guard.case import Case

_DEFINED = int(sum(AttrMask)) & ~AttrMask.CAP

#: Bits that uverbs takes away before the table is asked (``modify_qp_mask``): tolerated, and without effect.
_STRIPPED = {
    QPType.XRC_SEND: int(AttrMask.MAX_DEST_RD_ATOMIC | AttrMask.MIN_RNR_TIMER),
    QPType.XRC_RECV: int(AttrMask.MAX_QP_RD_ATOMIC | AttrMask.RETRY_CNT | AttrMask.RNR_RETRY),
}


def check(case: Case) -> None:
    """Unknown bits, bits without values, values without bits, then the table's row."""
    _unknown(case)
    _agreement(case)
    if case.rule is None:
        return
    if case.is_unchecked:
        excess = case.mask & _DEFINED & ~(case.rule.required | case.rule.optional)
        if excess:
            case.find(
                "driver-unchecked", ", ".join(_keyword(bit) for bit in _bits(excess)),
                f"without STATE, {case.request.device.driver} applies it unchecked in {case.arrow.split()[0]}; "
                "others refuse it",
            )
        return
    stripped = case.mask & _STRIPPED.get(case.type, 0) if case.type is not None else 0
    for bit in _bits(stripped):
        case.find("mask-ignored", _keyword(bit), f"the kernel ignores it for {_type(case)}")
    for bit in _bits(case.rule.required & ~case.mask):
        _missing(case, bit)
    excess = case.mask & _DEFINED & ~(case.rule.required | case.rule.optional | AttrMask.STATE | stripped)
    for bit in _bits(excess):
        _excess(case, bit)
    _port_added_by_uverbs(case)


def _unknown(case: Case) -> None:
    for bit in _bits(case.mask & ~_DEFINED):
        if bit == AttrMask.CAP:
            message = "capacities are fixed at creation; modify cannot carry them"
        else:
            message = f"bit {bit.bit_length() - 1} is not a mask bit of this interface"
        case.find("mask-unknown", "cap" if bit == AttrMask.CAP else "mask", message,
                  given=MASK_NAMES.get(bit, f"{bit:#x}"), fix="leave it out")


def _agreement(case: Case) -> None:
    """An explicit mask against the values given."""
    if case.request.mask is None:
        return
    for bit in _bits(case.mask & _DEFINED & ~case.derived_mask):
        case.find("mask-without-value", _keyword(bit), f"{MASK_NAMES[bit]} is in the mask, and no value was given: "
                  "whatever is in the struct would be used", given=MASK_NAMES[bit],
                  fix=f"give {_keyword(bit)}=…, or take {MASK_NAMES[bit]} out of the mask")
    for name in case.given:
        bit = FIELDS[name].mask
        if not case.mask & bit and bit & _DEFINED:
            case.find("value-without-mask", name, f"{MASK_NAMES[bit]} is not in the mask: the value is ignored",
                      given=case.given[name], fix="leave mask= out: it follows from the values")


def _missing(case: Case, bit: int) -> None:
    field = FIELD_OF_BIT[bit]
    custom = f" ({field.custom})" if field.custom else ""
    case.find("mask-missing", field.name, f"{field.allowed}{custom}: {field.meaning}", given=MASK_NAMES[bit],
              allowed=field.allowed, fix=f"give {field.name}=…")


def _excess(case: Case, bit: int) -> None:
    if bit == AttrMask.RATE_LIMIT:
        case.find("rate-limit-unsupported", "rate_limit", f"{_type(case)} has no packet pacing in {case.arrow}",
                  given=case.given.get("rate_limit"), fix="leave it out")
        return
    arrows = belongs_to(case.type, bit) if case.type is not None else ()
    where = ", ".join(f"{start.name} → {goal.name}" for start, goal in arrows[:3])
    message = f"belongs to {where}" if where else f"{_type(case)} queue pairs never take it"
    case.find("mask-excess", _keyword(bit), message, given=MASK_NAMES[bit],
              fix=f"leave {_keyword(bit)} out here" + (f", give it in {where}" if where else ""))


def _port_added_by_uverbs(case: Case) -> None:
    """uverbs adds PORT to an address vector that does not go to RTR; UC in SQD takes no PORT, so it always fails."""
    if case.rule is None or not case.sets(AttrMask.AV) or case.goal is QPState.RTR:
        return
    takes = case.rule.required | case.rule.optional
    if takes & AttrMask.AV and not takes & AttrMask.PORT:
        case.find("mask-excess", "ah_attr", "the kernel adds PORT to an address vector here, and "
                  f"{_type(case)} does not take PORT in {case.arrow}", given="PORT",
                  source="Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp()")


def _type(case: Case) -> str:
    return case.type.name if case.type is not None else "this type"


def _keyword(bit: int) -> str:
    field = FIELD_OF_BIT.get(bit)
    return field.name if field is not None else MASK_NAMES.get(bit, f"{bit:#x}")


def _bits(mask: int) -> list[int]:
    return [bit for bit in (1 << place for place in range(mask.bit_length())) if mask & bit]
