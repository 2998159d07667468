"""Bringing many queue pairs up: the first of those that are alike goes alone, judged; the others follow it in C."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import RdmaqpError
from rdmaqp.model.endpoints import is_reply
from rdmaqp.verbs._native import native
from rdmaqp.verbs.completion import SLICE_NS
from rdmaqp.verbs.following import Way
from rdmaqp.verbs.history import is_told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.endpoints import Endpoints
    from rdmaqp.verbs.group import QueuePairs


class BringingUp:
    """One bring-up of a group; *options* are those of :func:`~rdmaqp.model.steps.bring_up`."""

    def __init__(self, group: QueuePairs, options: dict[str, Any]) -> None:
        self._group = group
        self._options = options
        #: By what the records of both ends have in common.
        self._ways: dict[tuple[Endpoint, Endpoint], Way] = {}
        self._told = is_told()  # each call is then logged or traced as it is made

    def connect(self, at: int, local: Endpoints, remote: Endpoints) -> None:
        """The queue pairs from number *at* on, each towards its own of *remote*."""
        done = 0
        while done < len(local):
            way = self._ways.get((local.like, remote.like))
            if way is not None:
                done += self._follow(way, at + done, local[done:], remote[done:])
            if done < len(local):
                with self._numbered(at + done):
                    self._go_alone(at + done, local[done], remote[done], (local.like, remote.like))
                done += 1

    def _go_alone(self, at: int, local: Endpoint, remote: Endpoint, key: tuple[Endpoint, Endpoint]) -> None:
        group = self._group
        one = group[at]
        # Another's first steps may have been others, its capacities too; and a reply expects one queue pair alone.
        is_example = not (self._told or one.history or is_reply(remote)) and one.cap == group[0].cap
        one.connect(local, remote, **self._options)
        way = Way.of(one, remote, len(group._ways) + 1) if is_example else None
        if way is not None:
            group._ways.append(way)
            self._ways[key] = way

    def _follow(self, way: Way, at: int, local: Endpoints, remote: Endpoints) -> int:
        """Move those in C that find what the first of *way* found. Returns how many; the next has to go alone."""
        ffi, lib = native()
        group, raw, done = self._group, way.raw, 0
        columns = [ffi.from_buffer("uint32_t[]", column) for column in (remote.qp_nums, remote.psns, local.psns)]
        most = group._next_moved(at, at + len(local)) - at
        while done < most:
            raw.dest_qp_nums, raw.rq_psns, raw.sq_psns = (column + done for column in columns)
            raw.done = raw.result = 0
            try:
                lib.rdmaqp_follow(raw, group._accounts + at + done, group._followers + at + done, most - done, SLICE_NS)
                self._tell(way, at + done)
            except BaseException:  # Ctrl-C, also while they were told: each says how it is
                self._tell(way, at + done)
                raise
            done += raw.done
            if raw.result == lib.RDMAQP_VERB:
                with self._numbered(at + done):
                    raise group._failed(at + done, raw.error)
            if raw.result:
                break
        return done

    def _tell(self, way: Way, start: int) -> None:
        """Tell those that C has just moved; the last of them perhaps not all the way."""
        has_failed = way.raw.result == native().lib.RDMAQP_VERB
        self._group._tell(start, start + way.raw.done + has_failed)

    @contextmanager
    def _numbered(self, at: int) -> Iterator[None]:
        try:
            yield
        except RdmaqpError as error:
            error.add_note(
                f"This is queue pair {at} of {len(self._group)}: those before it are in RTS, those behind it are as "
                "they were."
            )
            raise
