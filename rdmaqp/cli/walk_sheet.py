"""What a walker types, read into attributes: ``RTR -min_rnr_timer path_mtu=4096 +sq_psn``."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rdmaqp.guard.lore.attributes import PARTS
from rdmaqp.guard.lore.machine import rules_of
from rdmaqp.model.attributes import AV_RANGES, FIELD_OF_BIT, FIELDS, GRH_RANGES, AddressVector, QPAttr
from rdmaqp.model.enums import AccessFlag, AttrMask, MigState, QPState, mask_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rdmaqp.guard.lore.machine import Kind

#: What most programs give; the address is the machine's.
CUSTOM: dict[str, Any] = {
    "pkey_index": 0, "port_num": 1, "qp_access_flags": AccessFlag.LOCAL_WRITE, "qkey": 0x11111111, "path_mtu": 1024,
    "dest_qp_num": 0x12, "rq_psn": 0, "max_dest_rd_atomic": 1, "min_rnr_timer": 12, "timeout": 14, "retry_cnt": 7,
    "rnr_retry": 7, "sq_psn": 0, "max_rd_atomic": 1, "path_mig_state": MigState.MIGRATED, "en_sqd_async_notify": 1,
    "rate_limit": 0, "alt_pkey_index": 0, "alt_port_num": 1, "alt_timeout": 14, "cap": 1,
}  # fmt: skip
_NAMES = {str(flag.name).lower(): FIELD_OF_BIT[int(flag)].name for flag in AttrMask if int(flag) in FIELD_OF_BIT}
_NAMES |= {name: name for name in FIELDS} | {name: name for name in PARTS}
_CHANGE = re.compile(r"(?P<sign>[-+]?)(?P<name>[A-Za-z_.]+)(?:=(?P<value>.*))?")


class WordError(ValueError):
    """A word that cannot be read; the text says what could be meant."""


def sheet(start: QPState, goal: QPState, kind: Kind, custom: Mapping[str, Any]) -> QPAttr:
    """The attributes that the arrow requires, each as *custom* has it."""
    rule = rules_of(kind).get((start, goal))
    wanted = [FIELD_OF_BIT[int(AttrMask[name])].name for name in mask_names(rule.required if rule else 0)]
    values = {name: usual(name, start, custom) for name in wanted if name != "qp_state"}
    return QPAttr(qp_state=goal, **values)


def usual(name: str, state: QPState, custom: Mapping[str, Any]) -> Any:
    """What is given for an attribute unless told otherwise."""
    if name in ("ah_attr", "alt_ah_attr"):
        address: AddressVector = custom["ah_attr"]
        return replace(address, grh=address.grh and replace(address.grh))
    return state if name == "cur_qp_state" else custom[name]


def change(attr: QPAttr, words: Sequence[str], state: QPState, custom: Mapping[str, Any]) -> None:
    """Change *attr* by each of *words*. Raises WordError."""
    for word in words:
        match = _CHANGE.fullmatch(word)
        if match is None:
            raise WordError(f"{word!r} is no change: -name leaves out, name=value sets, +name adds")
        name = known(match["name"])
        if match["sign"] == "-":
            _leave_out(attr, name)
        elif match["value"] is not None:
            _set(attr, name, value_of(name, match["value"]), state, custom)
        elif name in PARTS:
            raise WordError(f"{word}: to which value? Such as {name}=1")
        else:
            _set(attr, name, usual(name, state, custom), state, custom)


def known(word: str) -> str:
    """The attribute, or the part of an address vector, that *word* means. Raises WordError."""
    name = word.lower().rpartition(".")[2].removeprefix("ibv_qp_")
    if name in _NAMES:
        return _NAMES[name]
    near = get_close_matches(name, _NAMES, 1, 0.5)
    raise WordError(f"there is no attribute {word!r}" + (f"; did you mean {near[0]}?" if near else ""))


def value_of(name: str, text: str) -> Any:
    """A value as the guard is to see it: a number where it is one, else the text as it is."""
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]{1,64}|\d{1,60})", text):
        return int(text, 0) if "x" in text.lower() else int(text)
    if name == "qp_access_flags":
        flags = 0
        for part in filter(None, re.split(r"[|,]", text.upper().replace("IBV_ACCESS_", ""))):
            if part not in AccessFlag.__members__:
                near = get_close_matches(part, AccessFlag.__members__, 1, 0.5)
                raise WordError(f"there is no access flag {part!r}" + (f"; did you mean {near[0]}?" if near else ""))
            flags |= AccessFlag[part]
        return flags
    return text


def _leave_out(attr: QPAttr, name: str) -> None:
    if name not in PARTS:
        setattr(attr, name, None)
    elif not isinstance(attr.ah_attr, AddressVector):
        raise WordError(f"{name} is a part of ah_attr, which is not given here")
    elif name == "dgid" or name in GRH_RANGES:
        attr.ah_attr.grh = None
    else:
        setattr(attr.ah_attr, name, 0)


def _set(attr: QPAttr, name: str, value: Any, state: QPState, custom: Mapping[str, Any]) -> None:
    if name not in PARTS:
        setattr(attr, name, value)
        return
    if attr.ah_attr is None:
        attr.ah_attr = usual("ah_attr", state, custom)
    if not isinstance(attr.ah_attr, AddressVector):
        raise WordError(f"{name} is a part of an address, and ah_attr is {attr.ah_attr!r}")
    if name in AV_RANGES:
        setattr(attr.ah_attr, name, value)
    elif attr.ah_attr.grh is None:
        raise WordError(f"{name} is a part of the global route, and this address has none")
    else:
        setattr(attr.ah_attr.grh, name, value)


def shown(attr: QPAttr) -> list[tuple[str, str]]:
    """The attributes that are set, for the eye."""
    return [(name, _text(name, value)) for name, value in attr.given() if name != "qp_state"]


def _text(name: str, value: Any) -> str:
    if isinstance(value, AddressVector):
        route = value.grh
        if route is None or not value.uses_grh:
            return f"dlid={value.dlid}, no global route"
        return f"dgid={route.dgid!s}, sgid_index={route.sgid_index}"
    if name == "qp_access_flags" and isinstance(value, int):
        return "|".join(str(flag.name) for flag in AccessFlag if flag & value) or "0"
    if name in ("qkey", "dest_qp_num") and isinstance(value, int):
        return f"{value:#x}"
    return str(getattr(value, "name", value))
