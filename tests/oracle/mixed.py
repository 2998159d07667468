"""Calls in which several values are unusual at once."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from oracle.addresses import DESTINATIONS, PARTS
from oracle.calls import STATE, Call, Scene, attr_of, rule_of
from oracle.masks import UNITS, arrows
from oracle.values import NUMBERS
from rdmaqp.model.attributes import FIELDS
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.model.attributes import AddressVector

_AV = FIELDS["ah_attr"].mask


def random_values(scene: Scene, count: int, seed: int) -> Iterator[Call]:
    """*count* calls on arrows that exist, with a random choice of what is optional, and one to three odd values."""
    random = Random(seed)
    cells = [cell for cell in arrows() if rule_of(cell[0], cell[1], cell[1] if cell[2] is None else cell[2])]
    for number in range(count):
        kind, state, goal = random.choice(cells)
        rule = rule_of(kind, state, state if goal is None else goal)
        assert rule is not None
        mask = rule.required | (rule.optional & random.getrandbits(26)) | (0 if goal is None else STATE)
        given: dict[str, Any] = {"qp_state": int(state if goal is None else goal)}
        names = [name for name in NUMBERS if FIELDS[name].mask & mask]
        for name in random.sample(names, min(len(names), random.randint(1, 3))):
            given[name] = random.choice(NUMBERS[name])
        if mask & _AV and random.random() < 0.6:
            given["ah_attr"] = _vector(scene, random)
        units = UNITS[number & 1]
        yield Call(kind, state, attr_of(scene, state, mask, units, **given), mask, units, "mixed")


def _vector(scene: Scene, random: Random) -> AddressVector:
    parts: dict[str, Any] = {}
    for name in random.sample(list(PARTS), random.randint(1, 2)):
        parts[name] = random.choice(PARTS[name])
    if random.random() < 0.3:
        parts["dgid"] = GID.parse(random.choice(DESTINATIONS))
    return scene.vector(**parts)
