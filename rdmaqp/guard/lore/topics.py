"""What there is to say of a word: an arrow, a state, a type, an attribute, a rule, an error number, a status, a driver.

Each topic is a dictionary of plain data with a ``kind``, for a program as well as for the eye. What may be posted, what
a driver refuses and which rules answer an error number is asked of the judge and of its tables.
"""

from __future__ import annotations

import errno
import os
from dataclasses import fields
from enum import Enum
from itertools import pairwise
from typing import Any

from rdmaqp.guard import check
from rdmaqp.guard.completions import MEANINGS, Meaning
from rdmaqp.guard.driver_errnos import ANSWERS as DRIVER_ANSWERS
from rdmaqp.guard.driver_rows import ALIASES, DRIVERS
from rdmaqp.guard.drivers import UNKNOWN
from rdmaqp.guard.errnos import ANSWERS
from rdmaqp.guard.lore.attributes import CONVERSIONS, PARTS, REMARKS, WHY
from rdmaqp.guard.lore.errnos import ERRNOS
from rdmaqp.guard.lore.folklore import FOLKLORE, Claim, about
from rdmaqp.guard.lore.machine import Arrow, arrows, has_type
from rdmaqp.guard.lore.states import BY_HARDWARE, STATES, TYPES
from rdmaqp.guard.posting import OPCODES
from rdmaqp.guard.rules import RULES
from rdmaqp.model.acts import Post
from rdmaqp.model.attributes import AV_RANGES, FIELD_OF_BIT, FIELDS, GRH_RANGES, QPAttr
from rdmaqp.model.enums import MASK_NAMES, AttrMask, QPState, QPType, WCStatus, mask_names
from rdmaqp.model.facts import DeviceFacts, QPFacts
from rdmaqp.model.request import Request
from rdmaqp.model.table import TABLE, belongs_to, next_states, path, table_of

Topic = dict[str, Any]


def arrow(start: QPState, goal: QPState, qp_type: QPType, driver: str | None = None) -> Topic:
    """An arrow: what it requires and takes, each with why; or that there is none, and the way there."""
    rule = table_of(qp_type).get((start, goal))
    topic: Topic = {"kind": "arrow", "from": start.name, "to": goal.name, "type": qp_type.name}
    topic["exists"] = rule is not None
    if rule is None:
        way = path(qp_type, start, goal)
        topic["next"] = [state.name for state in next_states(qp_type, start)]
        topic["way"] = [state.name for state in way] if way else None
        topic["why"] = _why_not(start, goal, qp_type)
    else:
        topic["required"] = [_attribute_of(bit) for bit in _bits(rule.required)]
        topic["optional"] = [_attribute_of(bit) for bit in _bits(rule.optional)]
        topic["happens"] = STATES[goal].entered if start is not goal else "attributes change, the state stays"
    refused = {name: reason for name in DRIVERS if (reason := _refusal(name, start, goal, qp_type))}
    topic["drivers"] = {name: reason for name, reason in refused.items() if driver in (None, name)}
    topic["source"] = RULES["transition-illegal"].source
    names = (f"{start.name}-{goal.name}", *({start.name} if goal is start else ()))
    topic["folklore"] = [_claim(claim) for claim in about(*names)]
    return topic


def _why_not(start: QPState, goal: QPState, qp_type: QPType) -> str:
    """In the words that the judge has for it."""
    report = check(Request(qp=QPFacts(type=qp_type, state=start), attr=_attr(goal)))
    return next((finding.message for finding in report.errors if finding.rule == "transition-illegal"), "")


def _attr(goal: QPState) -> Any:
    return QPAttr(qp_state=goal)


def _refusal(driver: str, start: QPState, goal: QPState, qp_type: QPType) -> str | None:
    if not has_type(qp_type, driver):
        return None
    found = next((known for known in arrows(qp_type, driver) if (known.start, known.goal) == (start, goal)), None)
    return found.missing if found is not None else None


def _attribute_of(bit: int) -> Topic:
    field = FIELD_OF_BIT[bit]
    return {
        "mask": MASK_NAMES[bit], "attribute": field.name, "meaning": field.meaning, "why": WHY[field.name],
        "allowed": field.allowed, "custom": field.custom or None,
    }


def _bits(mask: int) -> list[int]:
    return [int(AttrMask[name]) for name in mask_names(mask)]


def state(name: QPState, qp_type: QPType, driver: str | None = None) -> Topic:
    """A state: its picture, what may be posted, what happens to work, the ways in and out."""
    lore = STATES[name]
    known = arrows(qp_type, driver)
    moved, when = BY_HARDWARE[qp_type]
    return {
        "kind": "state", "state": name.name, "type": qp_type.name, "picture": lore.picture, "story": lore.story,
        "post_send": posting(name, "send", qp_type, driver), "post_recv": posting(name, "recv", qp_type, driver),
        "sends": lore.sends, "receives": lore.receives, "entered": lore.entered,
        "ways_out": [_way(way, way.goal) for way in known if way.start is name],
        "ways_in": [way.start.name for way in known if way.goal is name and way.start is not name and not way.missing],
        "by_hardware": {"from": moved[0].name, "to": moved[1].name, "when": when} if name in moved else None,
        "source": lore.source, "folklore": [_claim(claim) for claim in about(name.name)],
    }


def _way(way: Arrow, goal: QPState) -> Topic:
    return {
        "to": goal.name, "required": list(mask_names(way.required)), "optional": list(mask_names(way.optional)),
        "refused_by_driver": way.missing,
    }


def posting(state: QPState, queue: str, qp_type: QPType, driver: str | None = None) -> Topic:
    """Whether *queue* takes work in *state*: the judge's own answer to a post there."""
    post = Post(queue="send" if queue == "send" else "recv", opcode="SEND" if queue == "send" else None, num_sge=0)
    qp = QPFacts(type=qp_type, state=state)
    report = check(Request(qp=qp, post=post, device=DeviceFacts(driver=driver)))
    found = next((finding for finding in report.findings if finding.rule.startswith("post-")), None)
    taken = "no" if found and found.severity == "error" else "flushed" if found else "yes"
    return {"taken": taken, "why": found.message if found else None}


def qp_type(kind: QPType) -> Topic:
    """A queue pair type: what it is, what it sends, what it needs on the way to RTS, which drivers have it."""
    way = path(kind, QPState.RESET, QPState.RTS) or ()
    return {
        "kind": "type", "type": kind.name, "meaning": TYPES[kind],
        "sends": sorted(opcode.name for opcode in OPCODES.get(kind, ())),
        "way": [
            {"from": start.name, "to": goal.name, "required": list(mask_names(TABLE[kind][start, goal].required))}
            for start, goal in pairwise(way)
        ],
        "drivers": [row.name for row in DRIVERS.values() if row.types is None or kind in row.types],
    }


def attribute(name: str, value: int | None = None) -> Topic:
    """An attribute, or a part of the address vector: unit, range, custom, conversion, where it belongs."""
    topic: Topic = {"kind": "attribute", "attribute": name, "value": value}
    if name in PARTS:
        low, high = {**AV_RANGES, **GRH_RANGES}.get(name, (None, None))
        topic |= {"of": PARTS[name].struct, "mask": "AV", "meaning": PARTS[name].meaning, "why": None, "custom": None,
                  "allowed": "a GID" if low is None else f"{low}…{high}"}
        bit = int(AttrMask.AV)
    else:
        field = FIELDS[name]
        bit = field.mask
        topic |= {"of": "ibv_qp_attr", "mask": field.flag, "meaning": field.meaning, "why": WHY[name],
                  "custom": field.custom or None, "allowed": field.allowed}
    topic["codes"] = dict(CONVERSIONS.get(name, {}))
    topic["remark"] = REMARKS.get(name)
    topic["belongs"] = {
        kind.name: [f"{start.name} → {goal.name}" for start, goal in belongs_to(kind, bit)] for kind in TABLE
    }
    topic["folklore"] = [_claim(claim) for claim in about(name)]
    return topic


def rule(name: str) -> Topic:
    """A rule of the guard's."""
    info = RULES[name]
    numbers = sorted({number for answers in ANSWERS.values() for number, rules in answers.items() if name in rules})
    return {
        "kind": "rule", "rule": name, "severity": info.severity, "says": info.says, "source": info.source,
        "answered_with": [errno.errorcode.get(number, str(number)) for number in numbers],
        "folklore": [_claim(claim) for claim in about(name)],
    }


def error_number(number: int) -> Topic:
    """An error number: at which call it says what, which rules it may answer, what drivers mean by it."""
    name = errno.errorcode.get(number, "ENOTSUPP" if number == 524 else str(number))
    return {
        "kind": "errno", "errno": number, "name": name, "text": os.strerror(number),
        "calls": dict(ERRNOS.get(number, {})),
        "rules": {act: sorted(answers[number]) for act, answers in ANSWERS.items() if number in answers},
        "drivers": [
            {"driver": row.driver, "why": row.why, "source": row.source}
            for row in DRIVER_ANSWERS if row.number == number
        ],
        "folklore": [_claim(claim) for claim in about(name)],
    }


def status(number: int) -> Topic:
    """A completion status: what it comes from, what it rules out."""
    found = MEANINGS.get(number, Meaning(()))
    return {
        "kind": "status", "status": number, "name": WCStatus(number).name,
        "causes": [said._asdict() for said in found.causes], "rules": sorted(found.rules),
        "ruled_out": list(found.ruled_out), "because": found.because,
    }


def driver(name: str) -> Topic:
    """A driver: its row, and which arrows of each of its types it has not."""
    row = DRIVERS[ALIASES.get(name, name)]
    kinds = [kind for kind in TABLE if row.types is None or kind in row.types]
    differs = {
        field.name: _plain(value) for field in fields(row)
        if field.name not in _SHOWN_APART and (value := getattr(row, field.name)) != getattr(UNKNOWN, field.name)
    }
    missing: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        for way in arrows(kind, row.name):
            if way.missing:
                missing.setdefault((f"{way.start.name} → {way.goal.name}", way.missing), []).append(kind.name)
    return {
        "kind": "driver", "driver": row.name,
        "also": sorted(alias for alias, real in ALIASES.items() if real == row.name),
        "types": [kind.name for kind in QPType if row.types is None or kind in row.types],
        "missing": [{"arrow": way, "why": why, "types": types} for (way, why), types in missing.items()],
        "differs": differs, "source": row.source,
        "errnos": [
            {"errno": errno.errorcode.get(said.number, str(said.number)), "why": said.why}
            for said in DRIVER_ANSWERS if said.driver == row.name
        ],
        "folklore": [_claim(claim) for claim in about(row.name)],
    }


_SHOWN_APART = frozenset({"name", "source", "types", "missing_arrows", "missing_by_type"})


def _plain(value: Any) -> Any:
    """A driver's field as plain data."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (frozenset, set)):
        return sorted(map(str, map(_plain, value)))
    if isinstance(value, tuple):
        parts = [str(_plain(item)) for item in value]
        return ".".join(parts) if all(part.isdigit() for part in parts) else " → ".join(parts)
    if hasattr(value, "items"):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return value


def folklore() -> Topic:
    """All claims."""
    return {"kind": "folklore", "folklore": [_claim(claim) for claim in FOLKLORE]}


def _claim(claim: Claim) -> Topic:
    return {"said": claim.said, "verdict": claim.verdict, "truth": claim.truth, "known": claim.known}
