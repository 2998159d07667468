"""All messages that are known, the more special before the more general; and a cheap look for lines that are none."""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING

from rdmaqp.guard.logs import (
    rows_any,
    rows_cm,
    rows_drivers,
    rows_kernel,
    rows_linux,
    rows_mpi,
    rows_nccl,
    rows_nvshmem,
    rows_perftest,
    rows_programs,
    rows_rdma_core,
    rows_ucx,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdmaqp.guard.logs.pattern import Pattern

#: Messages of one program each.
SPECIAL = (
    *rows_kernel.ROWS, *rows_drivers.ROWS, *rows_linux.ROWS, *rows_nccl.ROWS, *rows_nvshmem.ROWS, *rows_ucx.ROWS,
    *rows_mpi.ROWS, *rows_programs.ROWS, *rows_perftest.ROWS, *rows_rdma_core.ROWS,
)  # fmt: skip
PATTERNS = (*SPECIAL, *rows_cm.ROWS, *rows_any.ROWS)

_NAMES = (
    "ibv_", "QP", "qp", "ueue pair", "rdma", "RDMA", "nfiniband", "nfiniBand", "RoCE", "libibverbs", "mlx", "bnxt_re",
    "rxe", "efa", "NET/IB",
)  # fmt: skip
#: One of these is in each text of a status (``any-status`` has no word of its own).
_STATUS = ("error", "exceeded", "lushed", "aborted", "IBV_WC_", "remote invalid RD", "Bad response", "Invalid request",
           "Remote ")  # fmt: skip


def _least(words: set[str]) -> tuple[str, ...]:
    """*words* without those that hold another of them: what has the longer has the shorter."""
    return tuple(sorted(word for word in words if not any(other in word for other in words - {word})))


_HAS = tuple(pattern.has for pattern in PATTERNS)
_SPECIAL_HAS = _HAS[: len(SPECIAL)]
_WORDS = _least({*_NAMES, *_STATUS, *(pattern.has for pattern in PATTERNS if pattern.has)})


def may_matter(line: str) -> bool:
    """Whether *line* may be one of the messages, or tell of a failure of RDMA: most of a log is neither."""
    return any(map(line.__contains__, _WORDS))


def all_in(line: str, *, of_programs: bool = False) -> Iterator[Pattern]:
    """The messages whose word *line* has, in their order; *of_programs* alone: the special ones."""
    patterns, words = (SPECIAL, _SPECIAL_HAS) if of_programs else (PATTERNS, _HAS)
    return compress(patterns, map(line.__contains__, words))  # two hundred looks: in C


_ABOUT = (
    r"ibv_|\b[Qq](?:ueue )?[Pp](?:air)?\b|rdma|RDMA|infiniband|InfiniBand|RoCE|libibverbs|mlx[45]|bnxt_re|\brxe|\befa\b"
    "|NET/IB"
)
_FAILED = (
    "[Ff]ail|FAIL|[Ee]rror|ERROR|[Ii]nvalid|refus|[Tt]imed? ?out|[Uu]nable|[Cc]annot|[Cc]ould ?n[o']t|[Ff]atal|FATAL"
    "|abort"
)
#: Lines that say such words without a failure: of a lower level, of a build, of a web server, of a test that passed.
_CALM = r"\b(?:INFO|DEBUG|TRACE)\b|^make\S*: |\b(?:GET|PUT|POST|HEAD) /|\.\.\. ok\s*$|\b0 (?:errors|failures|failed)\b"
_IS_ABOUT, _HAS_FAILED, _IS_CALM = re.compile(_ABOUT), re.compile(_FAILED), re.compile(_CALM)


def is_suspect(line: str) -> bool:
    """Whether *line*, which is none of the messages, speaks of a failure of RDMA: that nobody here knows it is told."""
    about = _HAS_FAILED.search(line) is not None and _IS_ABOUT.search(line) is not None
    return about and _IS_CALM.search(line) is None
