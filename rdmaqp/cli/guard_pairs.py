"""What became of a watched program's queue pairs: of each where they are few, else of those of one fate together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.errors import errno_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rdmaqp.model.enums import QPState
    from rdmaqp.preload.seen import QueuePair

#: So many queue pairs are listed one by one; so many fates, where there are more of them.
_LISTED = 16
#: So many calls of each, and so many queue pairs are named of one fate.
_STEPS, _NAMED = 16, 4


def count(number: int, what: str, plural: str = "s") -> str:
    """``1 queue pair``, ``2 queue pairs``."""
    return f"{number} {what}{'' if number == 1 else plural}"


def rows(pairs: Sequence[QueuePair]) -> Iterator[str]:
    """The lines that tell of *pairs*."""
    if len(pairs) > _LISTED:
        yield from _fates(pairs)
        return
    for pair in pairs:
        yield f"QP {pair.number:#x} {_kind(pair)}, {pair.process}{_peer(pair)}"
        yield f"    {_path(pair, timed=True)}{_end(pair)}"


def _fates(pairs: Sequence[QueuePair]) -> Iterator[str]:
    """Those of one fate together; the rarest first, for they are what is looked for."""
    fates: dict[tuple[str, str], list[QueuePair]] = {}
    for pair in pairs:
        fates.setdefault((_kind(pair), _path(pair, timed=False) + _end(pair)), []).append(pair)
    ordered = sorted(fates.items(), key=lambda fate: len(fate[1]))
    for (kind, path), same in ordered[:_LISTED]:
        numbers = ", ".join(f"{pair.number:#x}" for pair in same[:_NAMED]) + (", …" if len(same) > _NAMED else "")
        owners = list(dict.fromkeys(str(pair.process) for pair in same))
        who = owners[0] if len(owners) == 1 else count(len(owners), "process", "es")
        yield f"{count(len(same), 'queue pair')} {kind}, {who}: QP {numbers}"
        yield f"    {path}"
    if len(ordered) > _LISTED:
        rest = sum(len(same) for _, same in ordered[_LISTED:])
        yield f"and {count(rest, 'queue pair')} that went {len(ordered) - _LISTED} other ways"


def _kind(pair: QueuePair) -> str:
    return f"{pair.type.name if pair.type is not None else '?'} on {pair.device}"


def _peer(pair: QueuePair) -> str:
    gid, lid, number = pair.destination()
    if number is None:
        return ""
    where = f" at {gid}" if gid is not None else f" at LID {lid:#x}" if lid else ""
    return f" → QP {number:#x}{where}"


def _end(pair: QueuePair) -> str:
    goals = ", ".join(dict.fromkeys(map(_name, pair.refused)))
    return (f"; {goals} refused" if goals else "") + ("" if pair.destroyed else "; never destroyed")


class _Leg(NamedTuple):
    """Calls in a row that asked for the same and got the same."""

    start: QPState | None
    goal: QPState | None
    error: int
    took_ns: list[int]
    stays: bool


def _path(pair: QueuePair, *, timed: bool) -> str:
    """The states that it went through; *timed*: with how long each call took."""
    here: QPState | None = None
    words: list[str] = []
    legs = _legs(pair)
    for leg in legs[:_STEPS]:
        if leg.start is not here or not words:  # the first, or it has moved by itself
            words.append(("… " if words else "") + _name(leg.start))
        words.append(_leg(leg, timed=timed))
        here = leg.start if leg.stays else leg.goal
    if len(legs) > _STEPS:
        words.append(f"and {len(legs) - _STEPS} more")
    return " ".join(words) or "no call returned"


def _legs(pair: QueuePair) -> list[_Leg]:
    legs: list[_Leg] = []
    for step in pair.steps:
        stays = bool(step.error) or step.goal is None or step.goal is step.start
        last = legs[-1] if legs else None
        if last and stays and (last.start, last.goal, last.error) == (step.start, step.goal, step.error) and last.stays:
            last.took_ns.append(step.took_ns)
        else:
            legs.append(_Leg(step.start, step.goal, step.error, [step.took_ns], stays))
    return legs


def _leg(leg: _Leg, *, timed: bool) -> str:
    times = len(leg.took_ns)
    notes = [errno_name(leg.error)] if leg.error else []
    if times > 1:
        notes.append(f"{times} times")
    if timed:
        notes.append(f"{sum(leg.took_ns) / times / 1e6:.3g} ms{' each' if times > 1 else ''}")
    goal = _name(leg.goal) if leg.goal is not None else "(attributes)"
    said = f" ({', '.join(notes)})" if notes else ""
    return f"→ {goal}{' failed' if leg.error else ''}{said}"


def _name(state: QPState | None) -> str:
    return state.name if state is not None else "?"
