"""Every arrow, with each bit dropped and each bit added; and seeded random masks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from oracle.calls import STATE, STATES, TYPES, Call, Scene, Units, attr_of, rule_of
from rdmaqp.model.enums import AttrMask, QPState, QPType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.model.table import Rule

#: The bits that libibverbs' ABI defines, RATE_LIMIT (25) apart, and the four that never were.
_DEFINED_BITS, _ALL_BITS = 21, 26
_CUR_STATE = int(AttrMask.CUR_STATE)
UNITS: tuple[Units, Units] = ("abi", None)


def arrows() -> Iterator[tuple[QPType, QPState, QPState | None]]:
    """Each type, each state that rxe can be in, each goal; ``None`` for a mask without STATE."""
    for kind in TYPES:
        for state in STATES:
            yield kind, state, None
            for goal in QPState:
                yield kind, state, goal


def systematic(scene: Scene) -> Iterator[Call]:
    """Each arrow with what it requires, each required bit dropped, each other bit of 0…25 added."""
    for kind, state, goal in arrows():
        rule = rule_of(kind, state, state if goal is None else goal)
        base = (rule.required if rule is not None else 0) | (0 if goal is None else STATE)
        yield _call(scene, kind, state, goal, base, "arrow")
        for place in range(_ALL_BITS):
            bit = 1 << place
            if bit == STATE:
                continue
            yield _call(scene, kind, state, goal, base ^ bit, "dropped" if base & bit else "added")
        if rule is not None and rule.optional:
            yield _call(scene, kind, state, goal, base | rule.optional, "all optional")


def random_masks(scene: Scene, count: int, seed: int) -> Iterator[Call]:
    """*count* different masks: half of them near a row of the table, the others anywhere."""
    random = Random(seed)
    cells = list(arrows())
    seen: set[tuple[QPType, QPState, QPState | None, int]] = set()
    while len(seen) < count:
        kind, state, goal = cell = random.choice(cells)
        mask = _mask(random, rule_of(kind, state, state if goal is None else goal))
        mask = mask & ~STATE if goal is None else mask | STATE
        claim = random.choice(tuple(QPState)) if mask & _CUR_STATE and random.random() < 0.5 else state
        if (*cell, mask) not in seen:
            seen.add((*cell, mask))
            yield _call(scene, kind, state, goal, mask, "random", UNITS[len(seen) & 1], cur_qp_state=int(claim))


def _mask(random: Random, rule: Rule | None) -> int:
    dice = random.random()
    if rule is not None and dice < 0.55:
        mask = rule.required | (rule.optional & random.getrandbits(_ALL_BITS))
        for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
            mask ^= 1 << random.randrange(1, _DEFINED_BITS)
        return mask
    if dice < 0.7:
        return random.getrandbits(_DEFINED_BITS) & random.getrandbits(_DEFINED_BITS)
    return random.getrandbits(_DEFINED_BITS if dice < 0.9 else random.choice((_ALL_BITS, 31)))


def _call(
    scene: Scene, kind: QPType, state: QPState, goal: QPState | None, mask: int, group: str, units: Units = "abi",
    **given: int,
) -> Call:  # fmt: skip
    attr = attr_of(scene, state, mask, units, qp_state=int(state if goal is None else goal), **given)
    return Call(kind, state, attr, mask, units, group)
