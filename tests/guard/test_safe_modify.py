"""``safe_modify_qp`` on objects that have pyverbs' attributes: judged first, passed on as they are."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from rdmaqp import GuardError, GuardWarning, InvalidStateTransition, QPState, query_qp_state, safe_modify_qp
from rdmaqp.model.enums import AttrMask, DriverType

STATE, AV = AttrMask.STATE, AttrMask.AV
RTR = (STATE | AV | AttrMask.PATH_MTU | AttrMask.DEST_QPN | AttrMask.RQ_PSN | AttrMask.MAX_DEST_RD_ATOMIC
       | AttrMask.MIN_RNR_TIMER)  # fmt: skip


class QP:
    """What pyverbs' QP shows to Python: qp_type, qp_num, query() and modify()."""

    def __init__(self, state: QPState = QPState.INIT, qp_type: int = 2) -> None:
        self.state, self.qp_type, self.qp_num = state, qp_type, 17
        self.calls: list[tuple[Any, int]] = []

    def query(self, attr_mask: int) -> tuple[Any, Any]:
        assert attr_mask == STATE  # wide masks are refused on some drivers
        return SimpleNamespace(qp_state=int(self.state)), SimpleNamespace()

    def modify(self, qp_attr: Any, in_mask: int) -> None:
        self.calls.append((qp_attr, in_mask))


def attr(**fields: Any) -> SimpleNamespace:
    """pyverbs' QPAttr: a whole C struct, zero where nothing was set."""
    zero = dict.fromkeys(
        ("qp_state", "cur_qp_state", "path_mtu", "path_mig_state", "qkey", "rq_psn", "sq_psn", "dest_qp_num",
         "qp_access_flags", "pkey_index", "alt_pkey_index", "en_sqd_async_notify", "sq_draining", "max_rd_atomic",
         "max_dest_rd_atomic", "min_rnr_timer", "port_num", "timeout", "retry_cnt", "rnr_retry", "alt_port_num",
         "alt_timeout", "rate_limit"), 0,
    )  # fmt: skip
    return SimpleNamespace(**(zero | {"ah_attr": address(), "alt_ah_attr": address()} | fields))


def address(**fields: Any) -> SimpleNamespace:
    grh = dict.fromkeys(("dgid", "sgid_index", "flow_label", "hop_limit", "traffic_class"))
    return SimpleNamespace(
        **({"port_num": 1, "dlid": 0, "sl": 0, "src_path_bits": 0, "static_rate": 0, "is_global": 0} | grh | fields)
    )


def to_rtr(**fields: Any) -> SimpleNamespace:
    route = address(is_global=1, dgid="0000:0000:0000:0000:0000:ffff:c000:0207", sgid_index=3, flow_label=0,
                    hop_limit=1, traffic_class=0)  # fmt: skip
    whole = {"qp_state": 2, "path_mtu": 3, "dest_qp_num": 18, "max_dest_rd_atomic": 1, "min_rnr_timer": 12}
    return attr(**(whole | {"ah_attr": route} | fields))


def test_a_good_call_goes_through_as_it_is() -> None:
    qp, given = QP(), to_rtr()
    report = safe_modify_qp(qp, given, RTR, port_num=1)
    assert report.verdict == "pass"
    assert qp.calls == [(given, RTR)]
    assert query_qp_state(qp) is QPState.INIT


@pytest.mark.parametrize(
    ("given", "mask", "rules"),
    [
        (to_rtr(), RTR & ~AV, {"mask-missing"}),
        (to_rtr(), RTR | AttrMask.TIMEOUT, {"mask-excess"}),
        (to_rtr(path_mtu=1024), RTR, {"value-enum"}),
        (to_rtr(dest_qp_num=0), RTR, {"qpn-reserved"}),
        (to_rtr(ah_attr=address(is_global=1, dgid="::", sgid_index=0, flow_label=0, hop_limit=1, traffic_class=0)),
         RTR, {"dgid-invalid"}),
    ],
)  # fmt: skip
def test_a_bad_one_does_not(given: Any, mask: int, rules: set[str]) -> None:
    qp = QP()
    with pytest.raises(GuardError) as error:
        safe_modify_qp(qp, given, mask, port_num=1)
    assert {finding.rule for finding in error.value.report.errors} == rules
    assert qp.calls == []


def test_what_the_mask_does_not_name_is_not_looked_at() -> None:
    qp = QP(QPState.RTS)
    assert safe_modify_qp(qp, attr(qp_state=6, path_mtu=99, timeout=77), STATE).verdict == "pass"
    assert len(qp.calls) == 1


def test_no_such_arrow() -> None:
    qp = QP(QPState.ERR)
    with pytest.raises(InvalidStateTransition, match="ERR → RESET → INIT → RTR → RTS"):
        safe_modify_qp(qp, attr(qp_state=3), STATE)
    assert qp.calls == []


def test_the_mask_must_be_given() -> None:
    with pytest.raises(TypeError, match="needs the mask"):
        safe_modify_qp(QP(), to_rtr())


def test_policies_hold_here_too() -> None:
    qp = QP(QPState.ERR)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        safe_modify_qp(qp, attr(qp_state=3), STATE, policy="warn")
        safe_modify_qp(qp, attr(qp_state=3), STATE, policy="off")
    assert [entry.category for entry in caught] == [GuardWarning]
    assert len(qp.calls) == 2


def test_a_drivers_own_type_can_be_named() -> None:
    qp = QP(QPState.RTS, 255)
    with pytest.raises(GuardError, match="DCI"):
        safe_modify_qp(qp, attr(qp_state=4), STATE, driver_type=DriverType.DCI)
    assert safe_modify_qp(qp, attr(qp_state=4), STATE).skipped[0].needs == "device.driver"
