"""Guard and kernel, side by side."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from oracle.calls import UNSAYABLE, Answer, Call
from oracle.kinds import KINDS, NOT_SHOWN, Difference
from oracle.raw import as_given, unprivileged
from rdmaqp.guard import check
from rdmaqp.model.attributes import FIELDS, as_int, enum_value
from rdmaqp.model.enums import AttrMask, mtu_code
from rdmaqp.model.facts import ProcessFacts
from rdmaqp.verbs import modify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import rdmaqp
    from rdmaqp.guard import Finding, Report
    from rdmaqp.model.request import Request

_TABLES = int(AttrMask.AV | AttrMask.ALT_PATH | AttrMask.PKEY_INDEX | AttrMask.PORT | AttrMask.QKEY)


class Outcome(NamedTuple):
    """How a call compares: ``agreed`` in one of its ways, ``explained`` by kinds, or ``unexplained``."""

    standing: str
    way: str


_READ_AS_0 = tuple(name for name in NOT_SHOWN if name != "cur_qp_state")
BOTH_TAKE, BOTH_REFUSE, CUT = "both take it", "both refuse it", "the kernel changes it, the guard refuses it"
UNSAID = "Python cannot say it in C, the guard refuses it"


class Judge:
    """Builds the guard's request from the device's own facts, and compares the answers."""

    def __init__(self, check: Callable[[Request], Report] = check) -> None:
        self.check = check
        self._bases: dict[tuple[Any, ...], Request] = {}

    def request(self, call: Call, qp: rdmaqp.QueuePair) -> Request:
        """What the library would ask the guard about this call.

        :func:`rdmaqp.verbs.modify.request` reads the device's tables. What it reads depends on few things, and none
        of them changes here, so each is asked once.
        """
        attr, bits = call.attr, call.attr.mask | call.mask
        vector = attr.ah_attr
        place = (call.kind, call.state, call.ability, call.units, bits & _TABLES, attr.port_num, attr.pkey_index,
                 vector.port_num if vector is not None else None)
        base = self._bases.get(place)
        if base is None:
            with unprivileged() if "unprivileged" in call.ability else nullcontext():
                base = modify.request(qp, attr, call.mask, None, call.state)
            base = replace(base, units=call.units)
            if call.ability == "told unprivileged":
                base = replace(base, process=ProcessFacts(privileged=False))
            self._bases[place] = base
        return replace(base, attr=attr, mask=call.mask)

    def compare(self, call: Call, answer: Answer, request: Request) -> Outcome:
        """The verdict on the verdict."""
        report = self.check(request)
        changed = [] if answer.errno else changes(call, answer)
        difference = Difference(call, answer, request, report, changed)
        surprise = [name for name in _READ_AS_0 if answer.seen.get(name)]
        if surprise:
            return Outcome("unexplained", f"{', '.join(surprise)}: shown after all")
        if answer.errno:
            return _refused(difference)
        for name in [name for name in changed if is_rounded(call, answer, name)]:
            if not any(finding.rule == "value-rounded" and finding.field == name for finding in report.findings):
                return Outcome("unexplained", f"{name} is rounded, and the guard has no note of it")
            changed.remove(name)
        if changed:
            return _changed(difference)
        return _explained(difference, report.errors) if report.refused else Outcome("agreed", BOTH_TAKE)


def _refused(difference: Difference) -> Outcome:
    answer, report = difference.answer, difference.report
    if answer.touched:
        return Outcome("unexplained", "the kernel refused it, and changed the queue pair")
    if report.refused:
        return Outcome("agreed", UNSAID if answer.errno == UNSAYABLE else BOTH_REFUSE)
    for kind in KINDS:
        if kind.by_kernel and kind.holds(difference, None):
            return Outcome("explained", kind.name)
    return Outcome("unexplained", f"the kernel refuses it (errno {answer.errno}), the guard takes it")


def _changed(difference: Difference) -> Outcome:
    """What the kernel takes and does not carry out as given: each such attribute must be refused, or of a kind."""
    report, names = difference.report, []
    for name in difference.changed:
        if any(_covers(finding.field, name) for finding in report.errors):
            continue
        kind = next((kind for kind in KINDS if kind.of_change and kind.holds(difference, name)), None)
        if kind is None:
            given, seen = as_numbers(difference.call)[name], difference.answer.seen[name]
            return Outcome("unexplained", f"the kernel makes {seen} of {name}={given}, the guard takes it")
        names.append(kind.name)
    rest = [finding for finding in report.errors if not any(_covers(finding.field, n) for n in difference.changed)]
    return _explained(difference, rest, names) if rest or names else Outcome("agreed", CUT)


def _explained(difference: Difference, errors: Iterable[Finding], names: Iterable[str] = ()) -> Outcome:
    """The kernel takes it, the guard does not: each of these errors of its must be of a kind."""
    found = set(names)
    for finding in errors:
        kind = next((kind for kind in KINDS if kind.rules and finding.rule in kind.rules
                     and kind.holds(difference, finding)), None)
        if kind is None:
            return Outcome("unexplained", f"the kernel takes it, the guard refuses it: {finding.one_line()[:160]}")
        found.add(kind.name)
    return Outcome("explained", ", ".join(sorted(found)))


def _covers(field: str, name: str) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in field.split(", ")) or (
        field == "mask" and name == "cap"
    )


def changes(call: Call, answer: Answer) -> list[str]:
    """The attributes given whose value is not what ``ibv_query_qp`` shows after the call; not those never shown."""
    given, seen = as_numbers(call), answer.seen
    return [name for name, value in given.items() if name not in NOT_SHOWN and seen[name] != value]


def as_numbers(call: Call) -> dict[str, Any]:
    """What was given, in C's units."""
    given = as_given(call.attr, call.mask)
    if call.units is None:
        for name, value in given.items():
            if name == "path_mtu":
                code = mtu_code(value) if isinstance(value, int) else None
                given[name] = value if code is None else code
            elif isinstance(value, str):
                field = FIELDS[name]
                given[name] = value if field.enum is None else enum_value(field.enum, value)
    return given


def is_rounded(call: Call, answer: Answer, name: str) -> bool:
    """Whether *name* is a depth that became the next power of two, which is documented."""
    value = as_int(as_numbers(call).get(name))
    return name in ("max_rd_atomic", "max_dest_rd_atomic") and value is not None and 0 < value <= 128 and (
        answer.seen[name] == 1 << (value - 1).bit_length()
    )
