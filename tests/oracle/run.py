"""The comparison on one device, whole or a share of it.

``RDMAQP_ORACLE=whole`` asks for all of it: 100,000 random masks, each value on each arrow that takes it, 20,000 calls
with several odd values; some twenty minutes in an emulated guest. Without it, the masks of the lists, each value on
some of its arrows and a seeded share of what is random take a minute or two. ``RDMAQP_ORACLE_SEED`` is a number.
"""

from __future__ import annotations

import os
import platform
import time
from itertools import chain
from typing import TYPE_CHECKING

from oracle import masks, mixed, values
from oracle.judge import Judge
from oracle.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oracle.bench import Bench
    from oracle.calls import Call
    from rdmaqp.guard import Report
    from rdmaqp.model.request import Request

#: Random masks, and calls with several odd values: in each run, and in a whole one.
MASKS, MIXED = (3_000, 100_000), (600, 20_000)


def is_whole() -> bool:
    """Whether everything is asked for."""
    return os.environ.get("RDMAQP_ORACLE") == "whole"


def all_calls(bench: Bench, *, whole: bool) -> Iterator[Call]:
    """The lists, one after the other."""
    seed, scene = int(os.environ.get("RDMAQP_ORACLE_SEED", "1")), bench.scene
    return chain(
        values.draining(scene),  # before any change of credentials: rxe's ibv_post_send then answers EACCES
        masks.systematic(scene),
        values.boundaries(scene, seed, whole=whole),
        mixed.random_values(scene, MIXED[whole], seed),
        masks.random_masks(scene, MASKS[whole], seed),
    )


def compare(bench: Bench, calls: Iterable[Call], check: Callable[[Request], Report] | None = None) -> Tally:
    """Make each call, and compare the kernel's answer with that of *check*, the guard's where not given."""
    judge, tally, begun = Judge() if check is None else Judge(check), Tally(), time.monotonic()
    for call in calls:
        request = judge.request(call, bench.ready(call.kind, call.state, call.ability))
        answer = bench.make(call)
        tally.add(call, answer.errno, judge.compare(call, answer, request))
    seconds = time.monotonic() - begun
    tally.title = f"{bench.context.name}, Linux {platform.release()}, {bench.made:,} queue pairs, {seconds:.0f} s"
    return tally
