"""Whatever is thrown at reader and guard: an answer, never a traceback; and what the table refuses never passes."""

from __future__ import annotations

import contextlib
import json
import warnings
from typing import Any

from guard_requests import modify, post, rtr, rts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rdmaqp import AddressVector, GlobalRoute, QPAttr, QPFacts, QPState, QPType, Request, check
from rdmaqp.errors import RequestError
from rdmaqp.guard.report import Report
from rdmaqp.model import codec
from rdmaqp.model.attributes import QP_ATTR_NAMES
from rdmaqp.model.encode import encode
from rdmaqp.model.table import TABLE

INTEGERS = st.integers(-(2**70), 2**70) | st.integers(-2, 260)
WORDS = st.sampled_from(
    ["RTS", "rtr", "IBV_QPS_RTR", "1", "0x7", "", "::", "fe80::1", "::ffff:192.0.2.1", "MTU_1024", "é\ud800"]
)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats() | WORDS | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)
KEYS = st.sampled_from(
    ["type", "state", "port_num", "qp_num", "grh", "dgid", "sgid_index", "dlid", "index", "gid", "netdev", "num", "lmc",
     "link_layer", "active_mtu", "driver", "transport", "queue", "opcode", "sge", "length", "lkey", "access", "errno",
     "memlock", "psn", "sees_psn", "max_send_wr", "phys_port_cnt", *QP_ATTR_NAMES]
)  # fmt: skip
SHAPES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=12
)
PARTS = ["id", "device", "port", "ports", "gids", "pkeys", "qp", "attr", "mask", "peer", "kernel", "process", "post",
         "create", "reg_mr", "ah", "mrs", "units", "failed", "completion"]  # fmt: skip
MANY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def answered(report: Report) -> None:
    """The report can be said in every form."""
    json.dumps(report.to_dict(), allow_nan=False)
    assert len(report.headline()) < 2000
    assert report.render()
    assert report.verdict in ("pass", "warn", "refuse")


@MANY
@given(st.dictionaries(st.sampled_from(PARTS), SHAPES, max_size=6))
def test_objects_that_look_like_requests(value: dict[str, Any]) -> None:
    with contextlib.suppress(RequestError):
        answered(check(codec.decode(value)))


@MANY
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_text_of_any_kind(text: str | bytes) -> None:
    with contextlib.suppress(RequestError):
        answered(check(codec.loads(text)))


TEXTS = [json.dumps(make(), separators=spaces) for make in (rtr, rts, post) for spaces in ((", ", ": "), (",", ":"))]
BITS = st.text('{}[]",:\\ \n01n', max_size=3) | st.sampled_from(
    ["null", "true", "NaN", '"qp": {},', ', "qp": {}', '"attr": {}', "\u00a0", '"id": 1,', ', "peer": null'],
)


SPOILT = st.lists(st.tuples(st.integers(0, 1200), st.sampled_from([0, 0, 1, 30]), BITS), max_size=3)


@MANY
@given(st.sampled_from(TEXTS), SPOILT)
def test_a_text_taken_part_by_part_is_read_as_strictly(text: str, spoilt: list[tuple[int, int, str]]) -> None:
    for place, cut, bit in spoilt:
        text = text[:place] + bit + text[place + cut :]
    found: list[object] = []
    for read in (codec.loads, lambda text: codec.decode(codec._parsed(text))):
        try:
            found.append(read(text))
        except RequestError as error:
            found.append(str(error))
    assert found[0] == found[1]


@MANY
@given(
    st.sampled_from(list(TABLE)), st.sampled_from(list(QPState)), st.sampled_from(list(QPState)),
    st.dictionaries(st.sampled_from(QP_ATTR_NAMES), ANYTHING, max_size=5),
    st.sampled_from([None, "mlx5", "rxe", "siw", "efa", "hns", "irdma", "nobody"]),
    st.none() | st.integers(0, 2**30) | INTEGERS, st.booleans(),
)  # fmt: skip
def test_wrong_values_in_a_complete_call(
    kind: QPType, start: QPState, goal: QPState, spoilt: dict[str, Any], driver: str | None, mask: int | None, abi: bool
) -> None:
    base = codec.decode(modify(kind.name, start.name, goal.name, driver=driver))
    attr = QPAttr(**(dict(base.attr.given() if base.attr else ()) | spoilt))
    request = Request(qp=base.qp, attr=attr, mask=mask, device=base.device, port=base.port, gids=base.gids,
                      units="abi" if abi else None)  # fmt: skip
    answered(check(request))


@MANY
@given(st.lists(ANYTHING, min_size=11, max_size=11))
def test_address_vectors_of_anything(parts: list[Any]) -> None:
    grh = GlobalRoute(*parts[:5])
    address = AddressVector(*parts[5:10], grh, parts[10])
    request = codec.decode(modify("RC", "INIT", "RTR"))
    answered(check(Request(qp=request.qp, attr=QPAttr(qp_state="RTR", ah_attr=address), port=request.port)))
    answered(check(Request(qp=QPFacts(), ah=address, port=request.port, gids=request.gids)))


@MANY
@given(
    st.sampled_from(list(TABLE)), st.sampled_from(list(QPState)), st.sampled_from(list(QPState)),
    st.dictionaries(st.sampled_from(QP_ATTR_NAMES[1:]), st.integers(0, 40), max_size=4),
)  # fmt: skip
def test_what_the_table_refuses_never_passes(
    kind: QPType, start: QPState, goal: QPState, more: dict[str, int]
) -> None:
    rule = TABLE[kind].get((start, goal))
    attr = QPAttr(qp_state=goal, **more)
    report = check(Request(qp=QPFacts(type=kind, state=start), attr=attr))
    takes = rule is not None and not rule.required & ~attr.mask
    if not takes:
        assert report.refused


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["attr", "post", "create", "reg_mr", "ah"]), SHAPES)
def test_what_was_read_can_be_written_and_read_again(act: str, value: Any) -> None:
    try:
        request = codec.decode({"qp": {}, act: value})
    except RequestError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = codec.decode(encode(request))
    assert repr(check(again).to_dict()) == repr(check(request).to_dict())
