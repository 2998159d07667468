"""Each rule by the request that calls for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from guard_requests import V6, modify, route, rtr, rts, with_
from rule_triggers import TRIGGERS, judge, peer

from rdmaqp.guard import check
from rdmaqp.guard.rules import RULES


@pytest.mark.parametrize(("rule", "severity", "request_"), TRIGGERS, ids=[f"{rule}-{how}" for rule, how, _ in TRIGGERS])
def test_a_rule_speaks_and_nothing_louder_does(rule: str, severity: str, request_: dict[str, Any]) -> None:
    report = judge(request_)
    found = [finding.severity for finding in report.findings if finding.rule == rule]
    assert severity in found, report.render()
    if severity != "error":
        assert [finding.one_line() for finding in report.errors] == []
    for finding in report.findings:
        assert finding.message
        assert RULES[finding.rule].source


def test_each_rule_has_a_trigger() -> None:
    assert {rule for rule, _, _ in TRIGGERS} == set(RULES)


CONTRACT = """\
transition-illegal transition-driver transition-needs-cm transition-pointless cur-state-mismatch qp-type-unsupported
mask-missing mask-excess mask-unknown mask-without-value value-without-mask mask-ignored value-range value-enum
value-type port-range port-mismatch port-inactive pkey-range pkey-limited grh-missing sgid-range sgid-empty
sgid-driver sgid-link-local sgid-roce-v1 sgid-netdev sgid-moved dgid-invalid gid-family-mismatch dlid-invalid
grh-ignored hop-limit-low mtu-over-active rd-atomic-over-device rd-atomic-disables rd-atomic-budget
atomic-unsupported value-driver timeout-infinite rnr-timer-longest retry-none qpn-reserved alt-path-roce
rate-limit-unsupported qkey-privileged recv-queue-empty reset-loses-completions peer-gid peer-lid peer-qp-type
peer-link-layer peer-gid-type peer-gid-family peer-mtu peer-psn peer-qpn peer-pkey peer-qkey peer-rd-atomic
peer-port-inactive peer-stale post-srq post-state post-flushes post-pd post-opcode post-sge post-inline post-full
create-over-limit access-needs-local-write post-key memlock-limit qp-limit driver-unchecked
""".split()  # noqa: SIM905 - a list of words


def test_the_names_of_the_contract_are_all_there() -> None:
    assert set(CONTRACT) <= set(RULES)
    ours = set(RULES) - set(CONTRACT)
    assert ours == {"driver-unknown", "value-rounded", "src-path-bits", "dead-peer-time", "post-access", "post-stuck",
                    "rd-atomic-raised", "post-mtu", "post-grh"}


def test_no_rule_is_found_under_a_name_that_is_not_listed() -> None:
    guard = Path(check.__code__.co_filename).parent
    named = re.compile(r'\.find\(\s*"([a-z0-9-]+)"')
    found = {name for path in guard.glob("*.py") for name in named.findall(path.read_text())}
    assert found <= set(RULES)
    assert len(found) > 60


def test_everything_is_found_in_one_go() -> None:
    spoilt = rtr(timeout=32, path_mtu=1500, dest_qp_num=0, min_rnr_timer=..., ah_attr=route("::", 5) | {"port_num": 9})
    found = {finding.rule for finding in judge(spoilt).errors}
    assert found == {
        "value-range", "mask-excess", "value-enum", "qpn-reserved", "mask-missing", "dgid-invalid", "sgid-empty",
        "port-range", "port-mismatch",
    }  # fmt: skip


def test_the_fix_is_concrete() -> None:
    fixes = {
        "sgid-empty": (rtr(ah_attr=route(sgid_index=5)), "sgid_index=3 is ::ffff:192.0.2.6"),
        "mtu-over-active": (rtr(path_mtu=4096), "path_mtu=1024"),
        "gid-family-mismatch": (rtr(ah_attr=route("2001:db8::7")), "sgid_index=4 is IPv6"),
        "transition-illegal": (modify("RC", "ERR", "RTS"), "ERR → RESET → INIT → RTR → RTS"),
        "mask-excess": (rtr(sq_psn=1), "RTR → RTS"),
        "rd-atomic-over-device": (rts(max_rd_atomic=99), "max_rd_atomic=16"),
        "peer-psn": (peer(rtr(rq_psn=1)), "rq_psn=0x7"),
        "sgid-moved": (with_(rtr(), qp={"sgid": V6}), "sgid_index=4"),
    }
    for rule, (request, words) in fixes.items():
        finding = next(finding for finding in judge(request).findings if finding.rule == rule)
        assert words in (finding.fix or ""), finding
