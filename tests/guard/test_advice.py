"""What to do about a wrong value is concrete: the very value that was meant, or the custom; and never another fault."""

from __future__ import annotations

from typing import Any

import pytest

from rdmaqp import Policy, QPAttr, QPFacts, QPState, QPType, Request, check, policy, safe_modify_qp
from rdmaqp.guard.policy import current
from rdmaqp.model.attributes import AddressVector, GlobalRoute
from rdmaqp.model.enums import GidType, LinkLayer
from rdmaqp.model.facts import DeviceFacts, PortFacts
from rdmaqp.model.gid import GID, GidEntry


def advice(state: QPState, *, units: Any = None, **attr: Any) -> str | None:
    (name,) = [name for name in attr if name != "qp_state"] or ["qp_state"]
    report = check(Request(qp=QPFacts(type=QPType.RC, state=state), attr=QPAttr(**attr), units=units))
    (finding,) = [f for f in report.findings if f.field == name and f.rule.startswith("value-")]
    return finding.fix


@pytest.mark.parametrize(
    ("given", "fix"),
    [("4096", "path_mtu=4096"), (1500, "path_mtu=1024"), (9000, "path_mtu=4096"),
     (256.0, "path_mtu=256, a whole number"), (7, None),
     (0, None), (1 << 80, "path_mtu=4096"), ("٣", None), ("MTU_9", None), (True, None)],
)  # fmt: skip
def test_an_mtu(given: Any, fix: str | None) -> None:
    assert advice(QPState.INIT, path_mtu=given) == fix
    if fix is not None:
        meant = QPAttr(path_mtu=int(fix.partition("=")[2].partition(",")[0]))
        mended = check(Request(qp=QPFacts(type=QPType.RC, state=QPState.INIT), attr=meant))
        assert not [f for f in mended.findings if f.rule.startswith("value-")]


def test_an_mtu_in_a_c_struct_is_its_code() -> None:
    assert advice(QPState.INIT, units="abi", path_mtu=1024) == "path_mtu=3, IBV_MTU_1024"


@pytest.mark.parametrize(
    ("name", "given", "fix"),
    [("timeout", 32, "timeout=14 (67 ms) is customary"), ("retry_cnt", 9, "retry_cnt=7 is customary"),
     ("timeout", "14", "timeout=14, a whole number"), ("timeout", 14.0, "timeout=14, a whole number"),
     ("timeout", 14.5, None), ("timeout", float("inf"), None), ("timeout", float("nan"), None),
     ("sq_psn", 1 << 24, "sq_psn=0x0, its low 24 bits, at both ends"), ("sq_psn", -1, "sq_psn: random"),
     ("min_rnr_timer", 32, "min_rnr_timer=12 (0.64 ms) is customary"), ("dest_qp_num", 1 << 24,
      "dest_qp_num: as the peer says"), ("qp_access_flags", "LOCAL_WRITE", 'qp_access_flags=["LOCAL_WRITE"]'),
     ("qp_state", "IBV_QPS_RTR", 'qp_state="RTR"'), ("qp_state", "READY", None),
     ("path_mig_state", "IBV_MIG_REARM", 'path_mig_state="REARM"')],
)  # fmt: skip
def test_a_value(name: str, given: Any, fix: str | None) -> None:
    assert advice(QPState.RTR, **{name: given}) == fix


TABLE = (
    (0, "fe80::6", GidType.ROCE_V1), (1, "fe80::6", GidType.ROCE_V2), (2, "::ffff:192.0.2.6", GidType.ROCE_V1),
    (3, "::ffff:192.0.2.6", GidType.ROCE_V2),
)  # fmt: skip


@pytest.mark.parametrize(
    ("index", "dgid", "rule", "fix"),
    [
        (0, "::ffff:192.0.2.7", "sgid-roce-v1", "sgid_index=3 is ::ffff:192.0.2.6 (RoCE v2, routable, IPv4)"),
        (0, "fe80::7", "sgid-roce-v1", "sgid_index=3 is ::ffff:192.0.2.6 (RoCE v2, routable, IPv4); with the peer's "
                                       "IPv4 GID as dgid"),
        (1, "fe80::7", "sgid-link-local", "sgid_index=3 is ::ffff:192.0.2.6 (RoCE v2, routable, IPv4); with the peer's "
                                          "IPv4 GID as dgid"),
        (2, "::ffff:192.0.2.7", "sgid-roce-v1", "sgid_index=3"),
    ],
)  # fmt: skip
def test_a_better_source_is_one_that_can_reach_the_peer(index: int, dgid: str, rule: str, fix: str) -> None:
    address = AddressVector(grh=GlobalRoute(dgid=dgid, sgid_index=index))
    report = check(Request(
        qp=QPFacts(type=QPType.RC, state=QPState.INIT, port_num=1), attr=QPAttr(qp_state="RTR", ah_attr=address),
        port=PortFacts(num=1, link_layer=LinkLayer.ETHERNET, gid_tbl_len=16),
        gids={at: GidEntry(at, GID.parse(gid), kind, "eth0") for at, gid, kind in TABLE},
    ))  # fmt: skip
    assert [finding.fix for finding in report.findings if finding.rule == rule] == [fix]


def test_what_is_left_of_the_budget_is_advised() -> None:
    for in_use, allowed, fix in (
        (14, "0…2", "max_dest_rd_atomic=2, or less at the other queue pairs"),
        (16, "0", "less at the other queue pairs, or fewer of them"),
        (99, "0", "less at the other queue pairs, or fewer of them"),
    ):
        device = DeviceFacts(max_res_rd_atom=16, res_rd_atom_in_use=in_use)
        report = check(Request(qp=QPFacts(type=QPType.RC, state=QPState.INIT), attr=QPAttr(max_dest_rd_atomic=4),
                               device=device))  # fmt: skip
        (finding,) = [finding for finding in report.findings if finding.rule == "rd-atomic-budget"]
        assert (finding.allowed, finding.fix) == (allowed, fix)


# ---------------------------------------------------------------------- arguments that are no values of an act


@pytest.mark.parametrize(
    ("request_of", "words"),
    [
        (lambda: Request(qp=QPFacts(type="RC", state="INIT"), attr=QPAttr(qp_state="RTS")),
         "request.qp.type is 'RC', a str; expected QPType.RC"),
        (lambda: Request(qp=QPFacts(type=2, state=1), attr=QPAttr(qp_state="RTS")), "expected QPType.RC"),
        (lambda: Request(qp=QPFacts(type=QPType.RC, state="INIT"), attr=QPAttr(qp_state="RTS")), "QPState.INIT"),
        (lambda: Request(qp=QPFacts(), attr={"qp_state": "RTS"}), "request.attr is"),
        (lambda: Request(qp=None, attr=QPAttr()), "request.qp is None; expected QPFacts"),
        (lambda: Request(qp=QPFacts(), attr=QPAttr(), mask="x"), "request.mask is 'x', a str; expected int"),
        (lambda: Request(qp=QPFacts(), device="mlx5_0", attr=QPAttr()), "request.device is 'mlx5_0'"),
        (lambda: Request(qp=QPFacts(), port=None, attr=QPAttr(port_num=1)), "request.port is None"),
        (lambda: Request(qp=QPFacts(), peer={"qp_num": 1}, attr=QPAttr()), "request.peer is"),
        (lambda: Request(qp=QPFacts(), port=PortFacts(active_mtu="4096"), attr=QPAttr(path_mtu=1024)),
         "request.port.active_mtu is '4096', a str; expected int"),
    ],
)  # fmt: skip
def test_a_fact_of_the_wrong_class_is_named(request_of: Any, words: str) -> None:
    with pytest.raises(TypeError) as error:
        check(request_of())
    assert words in str(error.value)


@pytest.mark.parametrize("given", [None, 5, b"off", [], ("warn",), object()])
def test_a_policy_is_text_or_a_policy(given: Any) -> None:
    with pytest.raises(TypeError, match="expected a Policy, or text"), policy(given):
        pass
    if given is not None:
        with pytest.raises(TypeError, match="expected a Policy, or text"):
            current(given)
    with policy(Policy("warn")) as chosen:
        assert current() is chosen


@pytest.mark.parametrize("qp", [None, 5, "qp", object(), QPFacts()])
@pytest.mark.parametrize("mask", [None, 1])
def test_a_queue_pair_is_ours_or_pyverbs(qp: Any, mask: int | None) -> None:
    with pytest.raises(TypeError, match="expected a QueuePair, or pyverbs' QP"):
        safe_modify_qp(qp, QPAttr(qp_state="RTS"), mask)
