"""The records of many queue pairs at once: what they have in common stands once, their numbers in columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from rdmaqp.model.arguments import checked, require
from rdmaqp.model.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_24_BITS = 0xFFFFFF
#: What is each queue pair's own.
_OWN = frozenset({"qp_num", "psn"})


class Endpoints(Sequence[Endpoint]):
    """Records that differ in ``qp_num`` and ``psn`` alone. A sequence of :class:`~rdmaqp.Endpoint`; it can be pickled.

    Attributes:
        like: what all of them say; its own two numbers are 0.
        qp_nums, psns: the numbers, 24 bits each, one a record.

    Raises:
        ValueError: there are not as many of the one as of the other, or a number does not have 24 bits.
    """

    __slots__ = ("like", "psns", "qp_nums")

    @checked()
    def __init__(self, like: Endpoint, qp_nums: Iterable[int], psns: Iterable[int]) -> None:
        self.like = _shape(like)
        self.qp_nums, self.psns = _column("qp_nums", qp_nums), _column("psns", psns)
        if len(self.qp_nums) != len(self.psns):
            raise ValueError(f"there are {len(self.qp_nums)} qp_nums and {len(self.psns)} psns: each record has both")

    @classmethod
    def of(cls, records: Iterable[Endpoint]) -> Endpoints:
        """*records* as columns: ``Endpoints.of(pickle.loads(data))``.

        Raises:
            TypeError: one is no record.
            ValueError: there is none, or they differ in more than their numbers; the first that does is named.
        """
        if isinstance(records, Endpoints):
            return records
        rows = list(records)
        for at, row in enumerate(rows):
            require("Endpoints.of", f"record {at}", row, Endpoint)
        runs = list(alike(rows))
        if not runs:
            raise ValueError("there is no record")
        if len(runs) > 1:
            at = len(runs[0])
            names = [
                name for name in Endpoint.__dataclass_fields__
                if name not in _OWN and getattr(rows[at], name) != getattr(rows[0], name)
            ]  # fmt: skip
            if not names:
                raise ValueError(f"record {at} says what it expects of one peer: sees_qp_num, sees_psn")
            raise ValueError(f"record {at} differs from record 0 in {', '.join(names)}")
        return runs[0]

    def __len__(self) -> int:
        return len(self.qp_nums)

    @overload
    def __getitem__(self, index: int) -> Endpoint: ...
    @overload
    def __getitem__(self, index: slice) -> Endpoints: ...
    def __getitem__(self, index: int | slice) -> Endpoint | Endpoints:
        if isinstance(index, slice):
            return Endpoints(self.like, self.qp_nums[index], self.psns[index])
        return replace(self.like, qp_num=self.qp_nums[index], psn=self.psns[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Endpoints):
            return NotImplemented
        return (self.like, self.qp_nums, self.psns) == (other.like, other.qp_nums, other.psns)

    __hash__ = None  # type: ignore[assignment]  # its columns can be changed

    def __reduce__(self) -> tuple[type[Endpoints], tuple[Endpoint, list[int], list[int]]]:
        return Endpoints, (self.like, list(self.qp_nums), list(self.psns))  # machines differ in how an array looks

    def __repr__(self) -> str:
        return f"<{len(self)} records like {self.like!r}>"


def alike(records: Iterable[Endpoint]) -> Iterator[Endpoints]:
    """*records* in their order, as runs of those that differ in their numbers alone."""
    if isinstance(records, Endpoints):
        yield from (records[at : at + 1] for at in range(len(records))) if is_reply(records.like) else (records,)
        return
    like: Endpoint | None = None
    qp_nums: list[int] = []
    psns: list[int] = []
    for at, record in enumerate(records):
        _require_numbers(at, record)
        shape = _shape(record)
        if like is not None and (shape != like or is_reply(shape)):
            yield Endpoints(like, qp_nums, psns)
            qp_nums, psns = [], []
        like = shape
        qp_nums.append(record.qp_num)
        psns.append(record.psn)
    if like is not None:
        yield Endpoints(like, qp_nums, psns)


def side_by_side(
    local: Iterable[Endpoint], remote: Iterable[Endpoint]
) -> Iterator[tuple[Endpoints, Endpoints]]:  # fmt: skip
    """Both, which are of one length, in pieces of which all are alike."""
    ours, theirs = alike(local), alike(remote)
    some = others = None
    while (some := some or next(ours, None)) and (others := others or next(theirs, None)):
        n = min(len(some), len(others))
        yield some[:n], others[:n]
        some, others = some[n:], others[n:]


def _require_numbers(at: int, record: Endpoint) -> None:
    for name, number in (("qp_num", record.qp_num), ("psn", record.psn)):
        if not (hasattr(number, "__index__") and 0 <= number <= _24_BITS):
            raise ValueError(f"record {at}: its {name} is {number!r}, and not a number of 24 bits")


def _shape(record: Endpoint) -> Endpoint:
    """What it says besides its own numbers."""
    return replace(record, qp_num=0, psn=0)


def is_reply(record: Endpoint) -> bool:
    """Whether it says what it expects of its peer: so it is one queue pair's alone."""
    return record.sees_qp_num is not None or record.sees_psn is not None


def _column(name: str, numbers: Iterable[int]) -> array[int]:
    try:
        column = array("I", iter(numbers))  # of bytes themselves it would take four for one number
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{name}: {error}; each is a number of 24 bits") from None
    if column and max(column) > _24_BITS:
        at, number = next((at, number) for at, number in enumerate(column) if number > _24_BITS)
        raise ValueError(f"{name}[{at}]: {number:#x} does not fit 24 bits; the largest is {_24_BITS:#x}")
    return column
