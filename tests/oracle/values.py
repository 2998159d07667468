"""Each attribute at, between and beyond its boundaries, on each arrow that takes it, and without STATE."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any

from oracle import addresses
from oracle.calls import STATE, STATES, TYPES, Call, Scene, Units, attr_of, rule_of
from rdmaqp.model.attributes import FIELDS
from rdmaqp.model.enums import AttrMask, QPState, QPType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_U8 = (255, 256, 257)
_PSN = (0, 1, 1 << 23, (1 << 24) - 1, 1 << 24, (1 << 24) + 5, (1 << 25) - 1, (1 << 32) - 1, 1 << 32)
_DEPTH = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 65, 100, 127, 128, 129, 130, 192, 254, *_U8)
_FIVE_BITS = (0, 1, 14, 16, 17, 18, 30, 31, 32, 33, 63, 64, 128, *_U8)
_THREE_BITS = (*range(9), 15, 16, *_U8)

#: Attribute -> the numbers tried; -1 comes on top. A C struct holds what is left of them after the cut.
NUMBERS: dict[str, tuple[int, ...]] = {
    "path_mtu": (*range(8), 128, *_U8, 261, 512, 1000, 1024, 1500, 2048, 4096, 8192, (1 << 32) - 1),
    "path_mig_state": (0, 1, 2, 3, 4, 127, *_U8),
    "qkey": (0, 1, (1 << 31) - 1, 1 << 31, 0x80010000, (1 << 32) - 1, 1 << 32, (1 << 32) + 5),
    "rq_psn": _PSN,
    "sq_psn": _PSN,
    "dest_qp_num": (*_PSN, 2, 3),
    "qp_access_flags": (0, *(1 << bit for bit in range(33)), 0xF, 0x35F, 0x3FF, 0x3FF0035F, 0xFFFFF, (1 << 32) - 1),
    "pkey_index": (0, 1, 2, 127, 128, 255, 0x7FFF, 0xFFFF, 0x10000),
    "en_sqd_async_notify": (0, 1, 2, *_U8),
    "max_rd_atomic": _DEPTH,
    "max_dest_rd_atomic": _DEPTH,
    "min_rnr_timer": _FIVE_BITS,
    "timeout": _FIVE_BITS,
    "port_num": (0, 1, 2, 3, 127, 128, *_U8),
    "retry_cnt": _THREE_BITS,
    "rnr_retry": _THREE_BITS,
    "alt_port_num": (0, 1, 2, 255),
    "alt_pkey_index": (0, 1, 0xFFFF),
    "alt_timeout": (0, 31, 32, 255),
    "rate_limit": (0, 1, 1000, (1 << 32) - 1),
}  # fmt: skip
_STATE_NUMBERS = (*range(9), 127, *range(255, 264), 1 << 31, (1 << 32) - 1, (1 << 32) + 3, -1)
_CUR_STATE = int(AttrMask.CUR_STATE)


def boundaries(scene: Scene, seed: int, *, whole: bool) -> Iterator[Call]:
    """All of it; unless *whole*, an attribute that is optional on several arrows is tried on two of them each time."""
    random = Random(seed)
    for kind in TYPES:
        for name in NUMBERS:
            yield from _numbers(scene, kind, name, random, whole)
        yield from addresses.vectors(scene, kind, random, whole=whole)
    yield from _states(scene)
    yield from _claims(scene, random, whole)
    yield from _privilege(scene)


def places(kind: QPType, bit: int, random: Random, *, whole: bool) -> Sequence[tuple[QPState, QPState | None]]:
    """Where a value is tried: on the arrows that take its bit, and without STATE."""
    rows = [(state, goal) for state in STATES for goal in QPState if (rule := rule_of(kind, state, goal)) is not None
            and (rule.required | rule.optional) & bit]
    silent: list[tuple[QPState, QPState | None]] = [(state, None) for state in STATES]
    if whole:
        return [*rows, *silent]
    needed = [row for row in rows if rule_of(kind, *row).required & bit]  # type: ignore[union-attr]
    others = [row for row in rows if row not in needed]
    return [*needed, *random.sample(others, min(len(others), 1)), *random.sample(silent, 1)]


def call_at(
    scene: Scene, kind: QPType, place: tuple[QPState, QPState | None], bit: int, group: str, units: Units = "abi",
    **given: Any,
) -> Call:  # fmt: skip
    """The call of an arrow with what it requires, *bit*, and the values *given*."""
    state, goal = place
    rule = rule_of(kind, state, state if goal is None else goal)
    mask = bit | (0 if goal is None else STATE) | (rule.required if rule is not None else 0)
    given = {"qp_state": int(state if goal is None else goal)} | given
    return Call(kind, state, attr_of(scene, state, mask, units, **given), mask, units, group)


def _numbers(scene: Scene, kind: QPType, name: str, random: Random, whole: bool) -> Iterator[Call]:
    bit = FIELDS[name].mask
    for number in chain(NUMBERS[name], (-1,)):
        for place in places(kind, bit, random, whole=whole):
            yield call_at(scene, kind, place, bit, name, "abi", **{name: number})
        place = random.choice(places(kind, bit, random, whole=whole))
        yield call_at(scene, kind, place, bit, name, None, **{name: number})


def _states(scene: Scene) -> Iterator[Call]:
    """``qp_state`` beyond its enumeration; libibverbs cuts it to eight bits, so 257 is INIT to the kernel."""
    for kind in TYPES:
        for state in STATES:
            for number in _STATE_NUMBERS:
                rule = rule_of(kind, state, QPState(number & 0xFF)) if number & 0xFF <= 6 else None
                mask = STATE | (rule.required if rule is not None else 0)
                yield Call(kind, state, attr_of(scene, state, mask, "abi", qp_state=number), mask, "abi",
                           "qp_state")


def _claims(scene: Scene, random: Random, whole: bool) -> Iterator[Call]:
    """``cur_qp_state``, true and false, with what the arrow from the claimed state would require."""
    for kind in TYPES:
        for state in STATES:
            for claim in (*range(8), 255, 259):
                goals = tuple(QPState) if whole else (QPState.RTS, random.choice(tuple(QPState)))
                for goal in goals:
                    rule = rule_of(kind, QPState(claim & 0xFF), goal) if claim & 0xFF <= 6 else None
                    mask = STATE | _CUR_STATE | (rule.required if rule is not None else 0)
                    attr = attr_of(scene, state, mask, "abi", qp_state=int(goal), cur_qp_state=claim)
                    yield Call(kind, state, attr, mask, "abi", "cur_qp_state")
                bit = random.choice((0, *(1 << place for place in range(3, 20))))
                for mask in (_CUR_STATE, _CUR_STATE | bit):
                    attr = attr_of(scene, state, mask, "abi", cur_qp_state=claim)
                    yield Call(kind, state, attr, mask, "abi", "cur_qp_state")


def _privilege(scene: Scene) -> Iterator[Call]:
    """A Q_Key with its highest bit set needs CAP_NET_RAW, whatever else is wrong with the call."""
    bit = FIELDS["qkey"].mask
    for kind in TYPES:
        for number in (0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
            for state in STATES:
                for goal in (QPState.INIT, QPState.RTR, QPState.RTS, None):
                    call = call_at(scene, kind, (state, goal), bit, "qkey", qkey=number)
                    yield call._replace(ability="unprivileged")
                    yield call._replace(ability="told unprivileged")


def draining(scene: Scene) -> Iterator[Call]:
    """Out of SQD while a send is under way: each goal, and without STATE."""
    for goal in (*QPState, None):
        yield call_at(scene, QPType.RC, (QPState.SQD, goal), 0, "draining")._replace(ability="draining")
        claimed = call_at(scene, QPType.RC, (QPState.SQD, goal), _CUR_STATE, "draining", cur_qp_state=4)
        yield claimed._replace(ability="draining")
