"""What two groups of queue pairs agree on: by one record and one verdict, since each group's records are alike."""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rdmaqp.connection.agreement import Agreement, follow_gid
from rdmaqp.connection.talk import Plan
from rdmaqp.model.endpoints import Endpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rdmaqp.connection.talk import Heard
    from rdmaqp.connection.wire import Setting
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.verbs.group import QueuePairs

#: As many as one message has room for.
MOST = 7000
#: What the two columns are called among what is told.
_COLUMNS = ("rdmaqp qp_nums", "rdmaqp psns")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedMany:
    """What two groups have agreed on; all of both are in RTS, number i of the one with number i of the other.

    Attributes:
        local: our records, with the GID index that was used.
        remote: the peer's.
        settings: those that the peer named.
        told: what the peer told besides.
    """

    local: Endpoints
    remote: Endpoints
    settings: dict[str, Setting]
    told: dict[str, Setting]


class AgreementMany:
    """This end's part, for ``Exchange.agree_all``, whose arguments these are."""

    def __init__(self, qps: QueuePairs, local: Endpoints | None, options: Mapping[str, Any]) -> None:
        if len(qps) > MOST:
            raise ValueError(f"{len(qps)} queue pairs are more than agree at a time; {MOST} do")
        self._qps = qps
        self._options = options
        self._local = qps.endpoints(psn=[secrets.randbits(24) for _ in qps.qp_nums]) if local is None else local
        if len(self._local) != len(qps):
            raise ValueError(f"local: there are {len(self._local)} records for {len(qps)} queue pairs")
        self._remote: Endpoints | None = None
        self._first = Agreement(qps[0], self._local[0], None, options)

    def begin(self, settings: Mapping[str, Setting] | None, told: Mapping[str, Setting] | None) -> Plan:
        """What the conversation needs."""
        columns = dict(zip(_COLUMNS, map(_packed, (self._local.qp_nums, self._local.psns)), strict=True))
        first = self._first
        return Plan(first.local, settings or {}, {**(told or {}), **columns}, first.judge, self._bring_up, self._hear)

    def _hear(self, heard: Heard) -> str | None:
        columns = [heard.told.pop(name, None) for name in _COLUMNS]
        if None in columns:
            return "this end brings many queue pairs up at once (agree_all), and the other end one (agree)"
        numbers, psns = map(_unpacked, columns)
        if numbers is None or psns is None or len(numbers) != len(psns) or not numbers:
            return "the numbers of the peer's queue pairs cannot be read"
        if len(numbers) != len(self._qps):
            return f"the one end has {len(self._qps)} queue pairs, the other {len(numbers)}: agree on as many"
        # What the peer took our first record for is judged with that one.
        self._remote = Endpoints(replace(heard.remote, sees_qp_num=None, sees_psn=None), numbers, psns)
        return None

    def _bring_up(self, remote: Endpoint) -> None:  # noqa: ARG002 - it is the first of those that were heard
        assert self._remote is not None
        self._local = Endpoints(follow_gid(self._qps[0], self._local[0]), self._local.qp_nums, self._local.psns)
        self._qps.connect(self._local, self._remote, **self._options)

    def result(self, heard: Heard) -> AgreedMany:
        """What it came to."""
        assert self._remote is not None
        return AgreedMany(local=self._local, remote=self._remote, settings=heard.settings, told=heard.told)


def _packed(column: Iterable[int]) -> str:
    return base64.b64encode(b"".join(number.to_bytes(3, "big") for number in column)).decode()


def _unpacked(text: Setting) -> list[int] | None:
    """The numbers; ``None`` where that is no column."""
    if not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    column = [int.from_bytes(raw[at : at + 3], "big") for at in range(0, len(raw), 3)]
    return column if _packed(column) == text else None
