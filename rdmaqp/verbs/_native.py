"""The one place that touches the compiled extension, and the conventions by which verbs report failure.

Importing this module loads nothing. :func:`native` does, at the first use of a device, and says what to install
where it cannot.
"""

from __future__ import annotations

import errno
import resource
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.errors import DeviceError, VerbsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rdmaqp.model.request import Request

BUILD_AGAIN = (
    "Install gcc, python3-dev and libibverbs-dev (Debian, Ubuntu) or gcc, python3-devel and rdma-core-devel",
    "(RHEL, Fedora), then install rdmaqp again without RDMAQP_PURE.",
)


class Native(NamedTuple):
    """cffi's two objects. Both are untyped: what they return is ``Any``, and stays in this room."""

    ffi: Any
    lib: Any


@cache
def native() -> Native:
    """Load the extension, and with it libibverbs.

    Raises:
        DeviceError: libibverbs is not installed, rdmaqp was installed without its compiled half, or the half is of
            another version. The message says what to do.
    """
    try:
        _verbs: Any = import_module("rdmaqp._verbs")
    except ImportError as error:
        raise DeviceError(*_why_not_loaded(error)) from error
    from rdmaqp import __version__

    built = _verbs.ffi.string(_verbs.lib.rdmaqp_version()).decode()
    if built != __version__:
        raise DeviceError(
            f"rdmaqp is {__version__} and its compiled half is {built}: the build is stale", BUILD_AGAIN
        )
    return Native(_verbs.ffi, _verbs.lib)


def _why_not_loaded(error: ImportError) -> tuple[str, Sequence[str]]:
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "rdmaqp._verbs":
        return "rdmaqp was installed without its compiled half, so it can judge requests but open no device", (
            BUILD_AGAIN
        )
    if "libibverbs" in text or "IBVERBS_" in text:  # no such file, no such version, no such symbol in it
        return "libibverbs is not installed on this machine, or is too old: " + text, (
            "Debian, Ubuntu:  apt-get install libibverbs1 ibverbs-providers",
            "RHEL, Fedora:    dnf install libibverbs",
        )
    return "rdmaqp's compiled half cannot be loaded: " + text, BUILD_AGAIN


def pinned(view: memoryview, kind: str = "char *") -> Any:
    """A pointer to the bytes of *view*, which neither move nor end while it is held.

    An export of the view itself is not held, as ``from_buffer`` would: CPython up to 3.12 crashes where its collector
    clears a memoryview that has one (``memory_clear`` in Objects/memoryobject.c), and a traceback may well hold both.
    ``ffi.release`` of the pointer, or its end, lets go.
    """
    ffi, own = native().ffi, memoryview(view)
    with ffi.from_buffer(own) as there:
        return ffi.gc(ffi.cast(kind, there), lambda _: own.release())


#: Verbs that return −1 and set errno. Those that return a pointer set errno too. All others return the error
#: number, which a few drivers return negative.
MINUS_ONE = frozenset({
    "ibv_query_gid", "ibv_query_pkey", "ibv_get_cq_event", "ibv_get_async_event", "ibv_init_ah_from_wc",
})  # fmt: skip


def check(verb: str, result: int, about: str = "", notes: Sequence[str] = ()) -> None:
    """Raise :class:`VerbsError` where *result*, returned by *verb*, is a failure."""
    if result == 0:
        return
    error = native().ffi.errno if verb in MINUS_ONE and result == -1 else result
    raise VerbsError(verb, error, about, notes)


def check_pointer(
    verb: str, pointer: Any, about: str = "", asked: Callable[[], Request] | None = None
) -> Any:  # fmt: skip
    """*pointer*, or :class:`VerbsError` with errno where it is NULL; with why, where *asked* says what was wanted."""
    ffi = native().ffi
    if pointer == ffi.NULL:
        raise create_failed(verb, ffi.errno, about, asked)
    return pointer


def create_failed(
    verb: str, number: int, about: str, asked: Callable[[], Request] | None = None
) -> VerbsError:  # fmt: skip
    """The error of *verb*, which made nothing, with error *number*; with why, where *asked* says what was wanted."""
    error = VerbsError(verb, number, about, _memlock_notes() if number == errno.ENOMEM else ())
    if asked is None:
        return error
    from rdmaqp.verbs.failures import explain  # only what has failed pays for it

    return explain(error, asked)


def _memlock_notes() -> tuple[str, ...]:
    """What to say of the lock limit where memory was refused: regions and queues are locked into memory."""
    from rdmaqp.host import process  # only what has failed pays for it

    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or process.facts().ipc_lock:
        return ()
    top = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,} bytes"
    return (
        f"This process may lock {soft:,} bytes of memory in all (RLIMIT_MEMLOCK; the hard limit is {top}).",
        "Raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit,",
        "--ulimit memlock=-1 for a container, or a line in /etc/security/limits.conf.",
    )
