"""The guard's answer: findings, what was not checked, a verdict, and the words for all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from rdmaqp.guard.rules import RULES, Severity

if TYPE_CHECKING:
    from rdmaqp.guard.cause import Cause

Verdict = Literal["pass", "warn", "refuse"]


class GuardWarning(UserWarning):
    """Something legal that usually is a mistake. Filter it with :mod:`warnings`, as any other."""


class Finding(NamedTuple):
    """One thing that the guard has to say.

    Attributes:
        rule: its stable name.
        severity: ``error``, ``warning`` or ``note``.
        field: the attribute concerned, in the caller's own keyword.
        message: what is wrong with it.
        given: the value given, where there is one.
        allowed: what would be right.
        fix: what to do.
        source: where it is decided: a kernel function, a man page, a clause of the specification.
    """

    rule: str
    severity: Severity
    field: str
    message: str
    given: Any = None
    allowed: str | None = None
    fix: str | None = None
    source: str | None = None

    def one_line(self) -> str:
        """Everything but the source, on one line."""
        text = f"{self.field}: {self.message}"
        if self.allowed:
            text += f"; allowed: {self.allowed}"
        if self.fix:
            text += f" → {self.fix}"
        return f"{text} [{self.rule}]"

    def to_dict(self) -> dict[str, Any]:
        """The finding in the form of the check contract."""
        rule, severity, field, message, given, allowed, fix, source = self
        done: dict[str, Any] = {"rule": rule, "severity": severity, "field": field}
        if given is not None:
            done["given"] = given
        if allowed is not None:
            done["allowed"] = allowed
        done["message"] = f"{field}: {message}"
        if fix is not None:
            done["fix"] = fix
        done["source"] = source or RULES[rule].source
        return done


class Skipped(NamedTuple):
    """A check that was not made, since something it needs is unknown."""

    rule: str
    needs: str


class About(Protocol):
    """What a report is about. It is only asked when somebody reads the report."""

    def subject(self) -> str:
        """Whose call, and which: ``"RC queue pair 0x11 on rxe0, INIT → RTR"``."""

    def present(self) -> tuple[str, ...]:
        """The attributes that were given, for the reader's orientation."""

    def tail(self) -> str:
        """The last line of a refusal: that nothing was called, and where the queue pair is."""


class Report:
    """All that the guard found in one request.

    Attributes:
        findings: what it has to say, in the order in which it asked.
        skipped: the checks that were not made, each with what it needs.
        causes: why it failed, where the request says that it did (:mod:`.diagnosis`); else ``None``.
        remark: the caller's own word, after the last line of a refusal.
    """

    __slots__ = ("_about", "causes", "findings", "remark", "skipped")

    def __init__(self, about: About) -> None:
        self._about = about
        self.findings: list[Finding] = []
        self.skipped: list[Skipped] = []
        self.causes: tuple[Cause, ...] | None = None
        self.remark = ""

    def __repr__(self) -> str:
        return f"<Report {self.verdict}: {self.headline()}>"

    def find(
        self, rule: str, field: str, message: str, *, severity: Severity | None = None, given: Any = None,
        allowed: str | None = None, fix: str | None = None, source: str | None = None,
    ) -> None:  # fmt: skip
        """Note a finding, with the rule's usual severity unless another is given."""
        found = Finding(rule, severity or RULES[rule].severity, field, message, shown(given), allowed, fix, source)
        self.findings.append(found)

    def skip(self, rule: str, needs: str) -> None:
        """Note that *rule* could not be checked."""
        self.skipped.append(Skipped(rule, needs))

    @property
    def subject(self) -> str:
        """Whose call, and which."""
        return self._about.subject()

    @property
    def present(self) -> tuple[str, ...]:
        """The attributes given that belong here."""
        wrong = {finding.field for finding in self.findings if finding.severity == "error"}
        return tuple(name for name in self._about.present() if name not in wrong)

    @property
    def tail(self) -> str:
        """The last line of a refusal."""
        return self._about.tail() + self.remark

    @property
    def errors(self) -> list[Finding]:
        """The findings for which the call is refused."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """The findings that are legal and smell."""
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def refused(self) -> bool:
        """Whether the native call must not be made."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def verdict(self) -> Verdict:
        """``refuse``, ``warn`` or ``pass``."""
        if not self.findings:
            return "pass"
        severities = [finding.severity for finding in self.findings]
        return "refuse" if "error" in severities else "warn" if "warning" in severities else "pass"

    def to_dict(self) -> dict[str, Any]:
        """The answer in the form of the check contract, without the request's id."""
        done: dict[str, Any] = {
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "skipped": [{"rule": skip.rule, "needs": skip.needs} for skip in self.skipped],
        }
        if self.causes is not None:
            done["causes"] = [cause.to_dict() for cause in self.causes]
        return done

    def headline(self) -> str:
        """The first line: whose call, and all that is wrong with it, in short."""
        errors = [finding for finding in self._told() if finding.severity == "error"]
        missing = [f.given for f in errors if f.rule == "mask-missing"]
        excess = [f.given for f in errors if f.rule == "mask-excess"]
        parts = [f"{f.field}: {f.message}" for f in errors if f.rule not in _GATHERED]
        if missing:
            parts.append("missing " + ", ".join(missing))
        if excess:
            parts.append(", ".join(excess) + (" is" if len(excess) == 1 else " are") + " not allowed here")
        shown = "; ".join(parts[:3]) + (f"; and {len(parts) - 3} more" if len(parts) > 3 else "")
        return f"{self.subject}: {shown or _harmless(len(self.warnings))}"

    def render(self) -> str:
        """The whole text, plain: the headline, a row a finding with its fix, and where that leaves the queue pair."""
        lines = [self.headline()]
        if self.present:
            lines.append(f"    {'set':8} {', '.join('av' if name == 'ah_attr' else name for name in self.present)}")
        told = self._told()
        for finding in sorted(told, key=lambda f: _ORDER[f.severity]):
            lines += _rows(finding)
        if any(finding.message is _LEFT_OUT for finding in told):
            lines.append("    → leave mask= out: it follows from the values")
        if self.tail and self.refused:
            lines.append(self.tail)
        return "\n".join(lines)

    def _told(self) -> list[Finding]:
        """The findings for the eye: where a mask and the values disagree, one an attribute says it."""
        there = {(finding.rule, finding.field) for finding in self.findings}
        return [
            finding._replace(message=_LEFT_OUT)
            if finding.rule == "mask-missing" and ("value-without-mask", finding.field) in there else finding
            for finding in self.findings if (_SAID_BY.get(finding.rule), finding.field) not in there
        ]

    def __str__(self) -> str:
        return self.render()


def _harmless(warnings: int) -> str:
    return "nothing wrong" if not warnings else f"nothing refused, {warnings} warning{'s' if warnings > 1 else ''}"


#: What another finding about the same attribute says better. To a program all of them are told.
_SAID_BY = {"value-without-mask": "mask-missing", "mask-without-value": "mask-excess"}
_LEFT_OUT = "its value is given, and its bit is not in the mask"
_GATHERED = ("mask-missing", "mask-excess")
_ORDER = {"error": 0, "warning": 1, "note": 2}
_MARKS = {"mask-missing": "- missing", "mask-excess": "+ excess"}
_MARK_OF = {"error": "× wrong", "warning": "! warning", "note": "· note"}


def shown(value: Any) -> Any:
    """*value* as it goes into a finding: short, and of a kind that JSON knows."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        number = int(value)
        return f"a number of {number.bit_length()} bits" if number.bit_length() > 63 else number
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _rows(finding: Finding) -> list[str]:
    mark = _MARKS.get(finding.rule, _MARK_OF[finding.severity])
    row = f"  {mark:10} {finding.field:18} {finding.message}"
    if finding.allowed and finding.rule not in _GATHERED:
        row += f"; allowed: {finding.allowed}"
    return [row, f"{'':31} → {finding.fix}"] if finding.fix and finding.rule not in _GATHERED else [row]
