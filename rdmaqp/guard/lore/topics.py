"""What there is to say of a word: an arrow, a state, a type, an attribute, a rule, an error number, a status, a driver.

Each topic is a dictionary of plain data with a ``kind``, for a program as well as for the eye. What may be posted, what
a driver refuses and which rules answer an error number is asked of the judge and of its tables.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rdmaqp.guard import check
from rdmaqp.guard.completions import MEANINGS, Meaning
from rdmaqp.guard.driver_errnos import ANSWERS as DRIVER_ANSWERS
from rdmaqp.guard.driver_rows import ALIASES, DRIVERS, driver_of
from rdmaqp.guard.errnos import ANSWERS
from rdmaqp.guard.lore.attributes import CONVERSIONS, PARTS, REMARKS, WHY, meaning_of, range_of
from rdmaqp.guard.lore.drivers import words_of
from rdmaqp.guard.lore.errnos import ERRNOS, name_of
from rdmaqp.guard.lore.folklore import FOLKLORE, Claim, about
from rdmaqp.guard.lore.machine import (
    Arrow,
    Kind,
    arrows,
    facts_of,
    has_type,
    owner,
    parts_of,
    rules_of,
    types_of,
)
from rdmaqp.guard.lore.states import BY_HARDWARE, STATES, TYPES
from rdmaqp.guard.posting import OPCODES
from rdmaqp.guard.rules import RULES
from rdmaqp.model.acts import Post
from rdmaqp.model.attributes import FIELD_OF_BIT, FIELDS, QPAttr
from rdmaqp.model.enums import MASK_NAMES, AttrMask, DriverType, QPState, WCStatus, mask_names
from rdmaqp.model.facts import DeviceFacts
from rdmaqp.model.request import Request
from rdmaqp.model.table import TABLE, belongs_to, path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rdmaqp.model.table import Arrow as Pair

Topic = dict[str, Any]


def arrow(start: QPState, goal: QPState, kind: Kind, driver: str | None = None) -> Topic:
    """An arrow: what it requires and takes, each with why; or that there is none, and the way there."""
    rule = rules_of(kind).get((start, goal))
    topic: Topic = {"kind": "arrow", "from": start.name, "to": goal.name, "type": kind.name, "owner": owner(kind)}
    topic["exists"] = rule is not None
    if rule is None:
        way = way_to(kind, start, goal)
        topic["next"] = [known.goal.name for known in arrows(kind) if known.start is start]
        topic["way"] = [state.name for state in way] if way else None
        topic["why"] = _why_not(start, goal, kind)
    else:
        topic["required"] = [_attribute_of(bit) for bit in _bits(rule.required)]
        topic["optional"] = [_attribute_of(bit) for bit in _bits(rule.optional)]
        topic["happens"] = STATES[goal].entered if start is not goal else "attributes change, the state stays"
    refused = {name: reason for name in DRIVERS if (reason := _refusal(name, start, goal, kind))}
    topic["drivers"] = {name: reason for name, reason in refused.items() if driver in (None, name)}
    topic["source"] = _source_of(kind)
    names = (f"{start.name}-{goal.name}", *({start.name} if goal is start else ()))
    topic["folklore"] = [_claim(claim) for claim in about(*names)]
    return topic


def way_to(kind: Kind, start: QPState, goal: QPState) -> tuple[QPState, ...] | None:
    """The shortest way of *kind* from *start* to *goal*; ``None`` where there is none."""
    qp_type, own = parts_of(kind)
    return path(qp_type, start, goal, own)


def _source_of(kind: Kind) -> str:
    """Where the table of *kind* stands."""
    return _SOURCES[kind] if isinstance(kind, DriverType) else RULES["transition-illegal"].source


_SOURCES = {
    DriverType.DCI: "Linux drivers/infiniband/hw/mlx5/qp.c, modify_dci_qp_is_ok()",
    DriverType.DCT: "Linux drivers/infiniband/hw/mlx5/qp.c, mlx5_ib_modify_dct()",
    DriverType.SRD: "Linux drivers/infiniband/hw/efa/efa_verbs.c, srd_qp_state_table",
}


def _why_not(start: QPState, goal: QPState, kind: Kind) -> str:
    """In the words that the judge has for it."""
    report = check(Request(qp=facts_of(kind, state=start), attr=QPAttr(qp_state=goal)))
    return next((finding.message for finding in report.errors if finding.rule in _NO_ARROW), "")


_NO_ARROW = ("transition-illegal", "transition-driver")


def _refusal(driver: str, start: QPState, goal: QPState, kind: Kind) -> str | None:
    if not has_type(kind, driver):
        return None
    found = next((known for known in arrows(kind, driver) if (known.start, known.goal) == (start, goal)), None)
    return found.missing if found is not None else None


def _attribute_of(bit: int) -> Topic:
    field = FIELD_OF_BIT[bit]
    return {
        "mask": MASK_NAMES[bit], "attribute": field.name, "meaning": field.meaning, "why": WHY[field.name],
        "allowed": field.allowed, "custom": field.custom or None,
    }


def _bits(mask: int) -> list[int]:
    return [int(AttrMask[name]) for name in mask_names(mask)]


def state(name: QPState, kind: Kind, driver: str | None = None) -> Topic:
    """A state: its picture, what may be posted, what happens to work, the ways in and out."""
    lore = STATES[name]
    known = arrows(kind, driver)
    moved, when = BY_HARDWARE.get(kind, (None, ""))
    return {
        "kind": "state", "state": name.name, "type": kind.name, "owner": owner(kind),
        "picture": lore.picture, "story": lore.story,
        "post_send": posting(name, "send", kind, driver), "post_recv": posting(name, "recv", kind, driver),
        "sends": lore.sends, "receives": lore.receives, "entered": lore.entered,
        "ways_out": [_way(way, way.goal) for way in known if way.start is name],
        "ways_in": [way.start.name for way in known if way.goal is name and way.start is not name and not way.missing],
        "by_hardware": {"from": moved[0].name, "to": moved[1].name, "when": when} if moved and name in moved else None,
        "source": lore.source, "folklore": [_claim(claim) for claim in about(name.name)],
    }


def _way(way: Arrow, goal: QPState) -> Topic:
    return {
        "to": goal.name, "required": list(mask_names(way.required)), "optional": list(mask_names(way.optional)),
        "refused_by_driver": way.missing,
    }


def posting(state: QPState, queue: str, kind: Kind, driver: str | None = None) -> Topic:
    """Whether *queue* takes work in *state*: the judge's own answer to a post there."""
    post = Post(queue="send" if queue == "send" else "recv", opcode="SEND" if queue == "send" else None, num_sge=0)
    report = check(Request(qp=facts_of(kind, state=state), post=post, device=DeviceFacts(driver=driver)))
    found = next((finding for finding in report.findings if finding.rule.startswith("post-")), None)
    taken = "no" if found and found.severity == "error" else "flushed" if found else "yes"
    return {"taken": taken, "why": found.message if found else None}


def qp_type(kind: Kind) -> Topic:
    """A queue pair type: what it is, what it sends, what it needs on the way to RTS, which drivers have it."""
    way = way_to(kind, QPState.RESET, QPState.RTS) or way_to(kind, QPState.RESET, QPState.RTR) or ()
    sends = OPCODES.get(kind) or driver_of(owner(kind)).opcodes.get(parts_of(kind)[0]) or ()
    return {
        "kind": "type", "type": kind.name, "meaning": TYPES[kind], "sends": sorted(opcode.name for opcode in sends),
        "way": [
            {"from": start.name, "to": goal.name, "required": list(mask_names(rules_of(kind)[start, goal].required))}
            for start, goal in pairwise(way)
        ],
        "drivers": [name for name in DRIVERS if has_type(kind, name)],
    }


def attribute(name: str, value: int | None = None) -> Topic:
    """An attribute, or a part of the address vector: unit, range, custom, conversion, where it belongs."""
    topic: Topic = {"kind": "attribute", "attribute": name, "value": value}
    if name in PARTS:
        topic |= {"of": PARTS[name].struct, "mask": "AV", "meaning": PARTS[name].meaning, "why": None, "custom": None}
        bit = int(AttrMask.AV)
    else:
        field = FIELDS[name]
        bit = field.mask
        topic |= {"of": "ibv_qp_attr", "mask": field.flag, "meaning": field.meaning, "why": WHY[name],
                  "custom": field.custom or None}
    topic["allowed"] = range_of(name)
    topic["said"] = meaning_of(name, value) if value is not None else None
    topic["codes"] = dict(CONVERSIONS.get(name, {}))
    topic["remark"] = REMARKS.get(name)
    kinds = (*TABLE, *DriverType)
    topic["belongs"] = {kind.name: _ways(_takers(kind, bit)) for kind in kinds}
    topic["required"] = {kind.name: _ways(_where(kind, bit, optional=False)) for kind in kinds}
    topic["optional"] = {kind.name: _ways(_where(kind, bit, optional=True)) for kind in kinds}
    topic["folklore"] = [_claim(claim) for claim in about(name)]
    return topic


def _ways(pairs: Iterable[Pair]) -> list[str]:
    return [f"{start.name} → {goal.name}" for start, goal in pairs]


def _takers(kind: Kind, bit: int) -> tuple[Pair, ...]:
    if bit == AttrMask.STATE:  # no row speaks of it: what leads elsewhere says where
        return tuple(pair for pair in rules_of(kind) if pair[0] is not pair[1])
    qp_type, own = parts_of(kind)
    return belongs_to(qp_type, bit, own)


def _where(kind: Kind, bit: int, *, optional: bool) -> list[Pair]:
    """The arrows that require *bit*, or that take it as well."""
    rows = rules_of(kind).items()
    needed = [pair for pair, rule in rows if rule.required & bit]
    if bit == AttrMask.STATE:
        needed = needed or list(_takers(kind, bit))
        return needed if not optional else [pair for pair, _ in rows if pair not in needed]
    return [pair for pair, rule in rows if rule.optional & bit] if optional else needed


def rule(name: str) -> Topic:
    """A rule of the guard's."""
    info = RULES[name]
    numbers = sorted({number for answers in ANSWERS.values() for number, rules in answers.items() if name in rules})
    return {
        "kind": "rule", "rule": name, "severity": info.severity, "says": info.says, "source": info.source,
        "answered_with": [name_of(number) for number in numbers],
        "folklore": [_claim(claim) for claim in about(name)],
    }


def error_number(number: int) -> Topic:
    """An error number: at which call it says what, which rules it may answer, what drivers mean by it."""
    name = name_of(number)
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
    missing: dict[tuple[str, str], list[str]] = {}
    for kind in types_of(row.name):
        for way in arrows(kind, row.name):
            if way.missing:
                missing.setdefault((f"{way.start.name} → {way.goal.name}", way.missing), []).append(kind.name)
    return {
        "kind": "driver", "driver": row.name,
        "also": sorted(alias for alias, real in ALIASES.items() if real == row.name),
        "types": [kind.name for kind in types_of(row.name)],
        "missing": [{"arrow": way, "why": why, "types": types} for (way, why), types in missing.items()],
        "differs": words_of(row), "source": row.source,
        "errnos": [
            {"errno": name_of(said.number), "why": said.why}
            for said in DRIVER_ANSWERS if said.driver == row.name
        ],
        "folklore": [_claim(claim) for claim in about(row.name)],
    }


def folklore() -> Topic:
    """All claims."""
    return {"kind": "folklore", "folklore": [_claim(claim) for claim in FOLKLORE]}


def _claim(claim: Claim) -> Topic:
    return {"said": claim.said, "verdict": claim.verdict, "truth": claim.truth, "known": claim.known}
