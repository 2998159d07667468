"""The working paper of one judgement: what was asked, resolved once, and the findings as they come."""

from __future__ import annotations

from typing import Any

from rdmaqp.guard.drivers import driver_of
from rdmaqp.guard.report import Finding, Report, Skipped
from rdmaqp.guard.rules import RULES, Severity
from rdmaqp.model.attributes import QPAttr, enum_value
from rdmaqp.model.enums import AttrMask, LinkLayer, QPState, QPType, Transport
from rdmaqp.model.request import Request
from rdmaqp.model.table import TABLE, Rule


class Case:
    """A modify request with the questions that every concern asks answered once.

    Attributes:
        mask: the bits that count: those given, or those that follow from the attributes.
        goal: where the call leads; the present state where STATE is not in the mask; ``None`` unknown.
        rule: the table's row for this arrow; ``None`` where there is none or the arrow is unknown.
    """

    def __init__(self, request: Request) -> None:
        assert request.attr is not None
        self.request = request
        self.attr: QPAttr = request.attr
        self.given: dict[str, Any] = dict(self.attr.given())
        self.derived_mask = self.attr.mask
        self.mask = self.derived_mask if request.mask is None else request.mask
        self.type: QPType | None = request.qp.type
        self.state: QPState | None = request.qp.state
        self.goal = self._goal()
        self.rule = self._rule()
        self.driver = driver_of(request.device.driver)
        self.report = Report()

    def _goal(self) -> QPState | None:
        if not self.mask & AttrMask.STATE:
            return self.state
        value = enum_value(QPState, self.attr.qp_state)
        return None if value is None else QPState(value)

    def _rule(self) -> Rule | None:
        if self.type is None or self.state is None or self.goal is None:
            return None
        return TABLE.get(self.type, {}).get((self.state, self.goal))

    # ------------------------------------------------------------------ questions

    def sets(self, bit: int) -> bool:
        """Whether the call carries *bit*."""
        return bool(self.mask & bit)

    def value(self, name: str, bit: int) -> Any:
        """The value of *name* where it is given and counts, else ``None``."""
        return self.given.get(name) if self.mask & bit else None

    @property
    def is_ethernet(self) -> bool | None:
        """Whether the port is RoCE; ``None`` unknown. iWARP is never: no rule of RoCE applies to it."""
        if self.request.device.transport is Transport.IWARP:
            return False
        layer = self.request.port.link_layer
        return None if layer is None or layer is LinkLayer.UNSPECIFIED else layer is LinkLayer.ETHERNET

    @property
    def is_infiniband(self) -> bool:
        """Whether the port is known to be InfiniBand."""
        return self.request.port.link_layer is LinkLayer.INFINIBAND

    @property
    def is_unchecked(self) -> bool:
        """Whether driver and kernel are known not to look at this mask, since STATE is not in it."""
        since = self.driver.unchecked_without_state
        if self.mask & AttrMask.STATE or since is None:
            return False
        kernel = self.request.kernel
        return kernel is None or kernel >= since

    @property
    def arrow(self) -> str:
        """The arrow in words."""
        start = self.state.name if self.state is not None else "?"
        if self.goal is None:
            given = self.given.get("qp_state", "?")
            return f"{start} → {given if isinstance(given, (str, int)) else '?'}"
        return f"{start} → {self.goal.name}"

    # ------------------------------------------------------------------ findings

    def find(self, rule: str, field: str, message: str, *, severity: Severity | None = None, **more: Any) -> None:
        """Note a finding, with the rule's usual severity unless another is given."""
        self.report.findings.append(Finding(rule, severity or RULES[rule].severity, field, message, **more))

    def skip(self, rule: str, needs: str) -> None:
        """Note that *rule* could not be checked."""
        self.report.skipped.append(Skipped(rule, needs))
