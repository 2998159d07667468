"""What people read: the whole text of a report, and its JSON."""

from __future__ import annotations

from rdmaqp import AddressVector, AttrMask, GlobalRoute, QPAttr, QPFacts, QPState, QPType, Request, check

EXAMPLE = """\
RC queue pair 0x11, INIT → RTR: missing MIN_RNR_TIMER; SQ_PSN is not allowed here
    set      av, path_mtu, rq_psn, max_dest_rd_atomic, dest_qp_num
  - missing  min_rnr_timer      0…31 (12 is 0.64 ms, customary)
  + excess   sq_psn             belongs to RTR → RTS
ibv_modify_qp was not called; the queue pair is still in INIT."""


def test_the_example_of_the_design() -> None:
    attr = QPAttr(
        qp_state="RTR",
        path_mtu=1024,
        dest_qp_num=0x12,
        rq_psn=0,
        sq_psn=0,
        max_dest_rd_atomic=1,
        ah_attr=AddressVector(grh=GlobalRoute(dgid="::ffff:192.0.2.7", sgid_index=3)),
    )
    report = check(Request(qp=QPFacts(type=QPType.RC, state=QPState.INIT, qp_num=0x11, port_num=1), attr=attr))
    assert report.render() == EXAMPLE
    assert str(report) == EXAMPLE


def test_a_wrong_value_has_its_row_its_range_and_its_fix() -> None:
    qp = QPFacts(type=QPType.RC, state=QPState.RTR, qp_num=0x11)
    attr = QPAttr(qp_state="RTS", timeout=32, retry_cnt=7, rnr_retry=7, sq_psn=0, max_rd_atomic=1)
    report = check(Request(qp=qp, attr=attr))
    assert report.render() == """\
RC queue pair 0x11, RTR → RTS: timeout: 32 does not fit its 5 bits
    set      retry_cnt, rnr_retry, max_rd_atomic, sq_psn
  × wrong    timeout            32 does not fit its 5 bits; allowed: 0…31
                                → timeout=14 (67 ms) is customary
ibv_modify_qp was not called; the queue pair is still in RTR."""
    assert report.to_dict()["findings"] == [
        {
            "rule": "value-range",
            "severity": "error",
            "field": "timeout",
            "given": 32,
            "allowed": "0…31",
            "message": "timeout: 32 does not fit its 5 bits",
            "fix": "timeout=14 (67 ms) is customary",
            "source": "InfiniBand Architecture Specification, volume 1",
        }
    ]


def test_the_words_are_made_when_they_are_read_and_a_remark_goes_last() -> None:
    report = check(Request(qp=QPFacts(type=QPType.RC, state=QPState.ERR), attr=QPAttr(qp_state="RTS")))
    report.remark = " (The last known state.)"
    assert report.render() == """\
RC queue pair, ERR → RTS: qp_state: RC queue pairs have no ERR → RTS
  × wrong    qp_state           RC queue pairs have no ERR → RTS; allowed: RESET, ERR
                                → the way there: ERR → RESET → INIT → RTR → RTS
ibv_modify_qp was not called; the queue pair is still in ERR. (The last known state.)"""


def test_what_was_skipped_says_what_it_needs() -> None:
    report = check(Request(qp=QPFacts(type=QPType.RC, state=QPState.INIT), attr=QPAttr(qp_state="INIT", port_num=1)))
    assert {"rule": "port-range", "needs": "device.phys_port_cnt"} in report.to_dict()["skipped"]
    assert report.verdict == "pass"
    assert report.render() == "RC queue pair, INIT → INIT: nothing wrong\n    set      port_num"


def test_a_mask_that_disagrees_with_the_values_is_one_row_an_attribute() -> None:
    attr = QPAttr(qp_state="RTS", timeout=14, retry_cnt=7, rnr_retry=7, sq_psn=0, max_rd_atomic=1)
    mask = AttrMask.STATE | AttrMask.SQ_PSN | AttrMask.TIMEOUT | AttrMask.PATH_MTU
    report = check(Request(qp=QPFacts(type=QPType.RC, state=QPState.RTR, qp_num=0x11), attr=attr, mask=int(mask)))
    assert report.render() == """\
RC queue pair 0x11, RTR → RTS: missing RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC; PATH_MTU is not allowed here
    set      timeout, sq_psn
  - missing  retry_cnt          its value is given, and its bit is not in the mask
  - missing  rnr_retry          its value is given, and its bit is not in the mask
  - missing  max_rd_atomic      its value is given, and its bit is not in the mask
  + excess   path_mtu           belongs to INIT → RTR
    → leave mask= out: it follows from the values
ibv_modify_qp was not called; the queue pair is still in RTR."""
    rules = [(found["rule"], found["field"]) for found in report.to_dict()["findings"]]
    for name in ("retry_cnt", "rnr_retry", "max_rd_atomic"):
        assert {("mask-missing", name), ("value-without-mask", name)} <= set(rules), "a program is told both"
    assert {("mask-excess", "path_mtu"), ("mask-without-value", "path_mtu")} <= set(rules)


def test_the_headline_counts_warnings_where_nothing_is_refused() -> None:
    qp = QPFacts(type=QPType.RC, state=QPState.RTR, qp_num=0x11)
    attr = QPAttr(qp_state="RTS", timeout=0, retry_cnt=7, rnr_retry=7, sq_psn=0, max_rd_atomic=1)
    report = check(Request(qp=qp, attr=attr))
    assert (report.verdict, report.headline()) == ("warn", "RC queue pair 0x11, RTR → RTS: nothing refused, 1 warning")
    attr.rnr_retry = 0
    assert check(Request(qp=qp, attr=attr)).headline().endswith(": nothing refused, 2 warnings")
    attr.timeout, attr.rnr_retry = 14, 7
    assert check(Request(qp=qp, attr=attr)).headline().endswith(": nothing wrong")
