"""What can go wrong, as exceptions that hold data.

Each exception keeps what it knows as attributes; the text is derived from them. ``str()`` is complete without
colours or a terminal, and its first line makes sense alone, since that is the line that reaches a log.
"""

from __future__ import annotations

import errno as _errno
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rdmaqp.guard.cause import Cause
    from rdmaqp.guard.report import Report
    from rdmaqp.model.request import Request
    from rdmaqp.verbs.reaped import Reaped, Undone


def errno_name(number: int) -> str:
    """The name that kernel sources give an error number; the number itself where it has none."""
    if number == _errno.EOPNOTSUPP:
        return "EOPNOTSUPP"  # Python prefers its twin, ENOTSUP
    return _errno.errorcode.get(number, str(number))


def _restored(kind: type[RdmaqpError], args: tuple[object, ...]) -> RdmaqpError:
    """An error of that *kind* as it was made, without its own constructor, which asks for what its state has."""
    error = kind.__new__(kind, *args)
    base = OSError if isinstance(error, OSError) else Exception
    base.__init__(error, *args)
    return error


def _travels(value: object) -> bool:
    """Whether *value* can go to another process: what belongs to a device cannot."""
    import pickle  # seldom needed, and `import rdmaqp` is to cost little

    try:
        pickle.dumps(value)
    except Exception:  # whatever it holds may raise anything
        return False
    return True


class RdmaqpError(Exception):
    """The base of every error that rdmaqp raises by itself.

    All can be pickled, so that a pool of processes hands them on; an attribute that belongs to a device is ``None``
    there.

    Attributes:
        so_far: what had come before it, in plain types, for a program that asked for JSON.
    """

    so_far: Mapping[str, Any] = MappingProxyType({})

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value if _travels(value) else None for name, value in vars(self).items()}
        return _restored, (type(self), self.args), state

    def headline(self) -> str:
        """The first line, complete by itself."""
        return str(self).partition("\n")[0]


class GuardError(RdmaqpError, ValueError):
    """The guard refused a call; the native call was not made.

    Attributes:
        report: all findings, each with its rule, field, value given, what is allowed and the fix.
        index: of a posting call: which of its requests, from 0 on; none of them was posted. Else ``None``.
    """

    index: int | None = None

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        return self.report.render()


class InvalidStateTransition(GuardError):  # noqa: N818 - the name that people look for
    """A :class:`GuardError` whose findings include that the queue pair has no such transition."""


class RequestError(RdmaqpError, ValueError):
    """A request that cannot be read: an unknown key, a fact of the wrong type, no act, or more than one.

    Attributes:
        place: where in the request, such as ``attr.ah_attr.grh``; empty for the request as a whole.
        problem: what is wrong there.
    """

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(problem, place)
        self.problem = problem
        self.place = place

    def within(self, key: str) -> RequestError:
        """The same error, seen from one level further out."""
        inner = self.place if self.place.startswith("[") or not self.place else f".{self.place}"
        self.place = f"{key}{inner}"
        return self

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem


class _Diagnosed:
    """What :class:`VerbsError` and :class:`CompletionError` have in common: why, and with what.

    Attributes:
        causes: the diagnosis: proved, likely and ruled out, in this order; empty where none was made.
        given: the call in rows of words: ``set`` (all attributes), ``ours``, ``theirs``, ``limits``, ``where``.
        request: the same as data, as the guard was asked; ``rdmaqp check`` reads it back.
        report: what the guard found in it.
        notes: further lines: what was tried, where that leaves the object.
    """

    causes: tuple[Cause, ...] = ()
    given: Mapping[str, str] = MappingProxyType({})
    request: Request | None = None
    report: Report | None = None
    notes: tuple[str, ...] = ()

    def headline(self) -> str:
        """The first line, complete by itself."""
        raise NotImplementedError

    def _render(self) -> str:
        lines = [self.headline(), *(f"    {name:8} {text}" for name, text in self.given.items())]
        for cause in self.causes:
            if cause.standing != "ruled-out":
                mark = "× proved" if cause.standing == "proved" else "? likely"
                lines.append(f"  {mark:10} {cause.cause}: {cause.why}")
        innocent = [cause.cause for cause in self.causes if cause.standing == "ruled-out"]
        if innocent:
            lines.append(f"  {'- not':10} {', '.join(innocent)}")
        return "\n".join([*lines, *self.notes])

    def one_line(self) -> str:
        """Everything but the reasons' words on one line, for a bug report or a log."""
        parts = [self.headline()]
        found = [f"{cause.cause} ({cause.standing})" for cause in self.causes if cause.standing != "ruled-out"]
        if found:
            parts.append("causes: " + ", ".join(found))
        innocent = [cause.cause for cause in self.causes if cause.standing == "ruled-out"]
        if innocent:
            parts.append("not: " + ", ".join(innocent))
        parts += [f"{name}: {text}" for name, text in self.given.items()]
        return " | ".join([*parts, *self.notes]).replace("\n", " ")


class VerbsError(_Diagnosed, RdmaqpError, OSError):
    """A verb failed in libibverbs, the kernel, the driver or the firmware.

    Attributes:
        verb: the C function, for example ``"ibv_modify_qp"``.
        errno: the error number, positive whichever way the driver returned it.
        about: the object concerned, in words (``"RC queue pair 0x11 on rxe0"``).
        notes: further lines: what was tried, what to look at.
        causes, given, request, report: of a modify call and of what could not be made: why. Causes are proved, likely
            or ruled out; ``given`` is the call in words; ``request`` and ``report`` are the guard's.
    """

    #: Of a posting call: how many of its requests the driver had taken, so the number of the first that it had not.
    posted = 0

    def __init__(self, verb: str, error: int, about: str = "", notes: Sequence[str] = ()) -> None:
        self.verb = verb
        self.about = about
        self.notes = tuple(notes)
        super().__init__(abs(error), os.strerror(abs(error)))

    def headline(self) -> str:
        """Whose call failed, which, and with what."""
        number = self.errno or 0
        where = f"{self.about}: " if self.about else ""
        return f"{where}{self.verb} failed: {self.strerror} ({errno_name(number)}, {number})"

    def __str__(self) -> str:
        return self._render()


class CompletionError(_Diagnosed, RdmaqpError):
    """A work request completed with another status than success.

    Attributes:
        status: the ``ibv_wc_status`` number; ``status_name`` is its name without the prefix.
        vendor_err: the vendor's syndrome.
        wr_id: the work request's own number.
        qp_num: the local queue pair's number.
        peer: the other end, in words.
        index: which request of the chain that was run, or of the stream or sink, from 0 on; ``None`` where it was
            posted by itself.
        notes: further lines.
        causes, given, request, report: as those of :class:`VerbsError`, of the calls that connected the queue pair.
    """

    index: int | None = None

    def __init__(
        self, status: int, status_name: str, *, wr_id: int, vendor_err: int, qp_num: int,
        peer: str = "", notes: Sequence[str] = (),
    ) -> None:
        super().__init__(status, status_name)
        self.status = status
        self.status_name = status_name
        self.wr_id = wr_id
        self.vendor_err = vendor_err
        self.qp_num = qp_num
        self.peer = peer
        self.notes = tuple(notes)

    def headline(self) -> str:
        """Whose work request failed, and how."""
        towards = f" (peer {self.peer})" if self.peer else ""
        return (
            f"queue pair {self.qp_num:#x}{towards}: work request {self.wr_id:#x} completed with "
            f"{self.status_name} ({self.status}), vendor error {self.vendor_err:#x}"
        )

    def __str__(self) -> str:
        return self._render()


class ClosedError(RdmaqpError):
    """An object was used after its ``close()``, or after its parent's."""


class DeviceError(RdmaqpError):
    """No such device or port, none at all, or libibverbs itself is missing. ``notes`` says the ways on."""

    def __init__(self, message: str, notes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes)

    def __str__(self) -> str:
        return "\n".join([str(self.args[0]), *self.notes])


class DeadlineError(RdmaqpError, TimeoutError):
    """A wait reached its deadline."""


class UnaccountedError(DeadlineError):
    """Posted work of which nobody had heard by the deadline of ``reap`` or ``drain``.

    Attributes:
        reaped: what had come until then; nothing of it comes again.
        unaccounted: the requests that are missing, in the order of posting.
    """

    def __init__(self, message: str, reaped: Reaped, unaccounted: Sequence[Undone]) -> None:
        super().__init__(message)
        self.reaped = reaped
        self.unaccounted = tuple(unaccounted)


class PeerError(RdmaqpError, ConnectionError):
    """The other end of an exchange went away, never answered, or spoke something else.

    Attributes:
        peer: the other end's TCP address.
    """

    def __init__(self, message: str, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer
