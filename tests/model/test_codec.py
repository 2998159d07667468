"""Requests as JSON: strict about facts, generous with values, and the same after a round trip."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rdmaqp.errors import RequestError
from rdmaqp.guard import check
from rdmaqp.model import codec
from rdmaqp.model.attributes import AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.encode import encode
from rdmaqp.model.enums import AccessFlag, DriverType, LinkLayer, PortState, QPState, QPType, Transport
from rdmaqp.model.facts import UNLIMITED, PortFacts, QPFacts
from rdmaqp.model.gid import GID, GidEntry
from rdmaqp.model.request import Request

CASES = Path(__file__).parent.parent / "cases"
REQUESTS = [
    json.loads(line)["request"]
    for name in ("reports", "synthetic")
    for line in (CASES / f"{name}.jsonl").read_text().splitlines()
]


def read(**parts: Any) -> Any:
    return codec.decode({"qp": {}, "attr": {}} | parts)


def test_round_trips() -> None:
    for request in REQUESTS:
        first = codec.decode(request)
        again = codec.loads(json.dumps(encode(first)))
        assert again == first
        assert encode(again) == encode(first)


def test_a_rich_request() -> None:
    request = read(
        id=7.5,
        kernel="6.12.117-1",
        units="abi",
        device={"transport": "IB", "max_qp": "0x10", "device_cap_flags": ["XRC", "0x400000000"]},
        port={"link_layer": 2, "state": "ACTIVE", "active_mtu": 3, "max_mtu": 4096, "lmc": 7},
        ports=[{"num": 2, "state": 1}],
        gids=[{"index": 0, "gid": "::"}, {"index": 1, "gid": "fe80::1", "type": 1, "netdev": None}],
        pkeys={"0": "0xffff", "0x1": 5},
        qp={
            "type": 255, "driver_type": "DCI", "state": 2, "access_flags": ["REMOTE_READ"], "was": ["INIT"],
            "cap": {"max_send_wr": 1}, "srq": 0, "sgid": "192.0.2.1",
        },
        attr={"dest_qp_num": "0x12", "ah_attr": {"dlid": 5}, "qp_access_flags": ["LOCAL_WRITE", "REMOTE_READ"]},
        mask=["STATE", "0x4000000", 2],
        mrs=[{"lkey": "0x1"}],
        peer={"qp_num": 1, "path_mtu": 5, "lmc": 1},
        process={"memlock": None, "privileged": True},
        failed={"errno": -22},
        completion={"status": "RETRY_EXC_ERR"},
    )  # fmt: skip
    assert request.id == 7.5
    assert request.kernel == (6, 12)
    assert request.device.transport is Transport.IB
    assert request.device.max_qp == 16
    assert request.device.device_cap_flags == 1 << 20 | 1 << 34
    assert request.port.link_layer is LinkLayer.ETHERNET
    assert (request.port.state, request.port.active_mtu, request.port.lmc) == (PortState.ACTIVE, 1024, 7)
    assert request.port_facts(2) is request.ports[0]
    assert (request.gids[1].netdev, request.gids[0].netdev) == ("", None)
    assert request.pkeys == {0: 0xFFFF, 1: 5}
    assert (request.qp.type, request.qp.driver_type) == (QPType.DRIVER, DriverType.DCI)
    assert (request.qp.state, request.qp.was, request.qp.srq) == (QPState.RTR, (QPState.INIT,), False)
    assert request.qp.access_flags == AccessFlag.REMOTE_READ
    assert request.attr is not None
    assert request.attr.dest_qp_num == 18
    assert request.attr.qp_access_flags == 5
    assert request.attr.ah_attr is not None
    assert (request.attr.ah_attr.dlid, request.attr.ah_attr.port_num) == (5, None)
    assert request.mask == 1 | 2 | 1 << 26
    assert request.peer is not None
    assert request.peer.path_mtu == 4096
    assert request.process.memlock == UNLIMITED
    assert request.failed is not None
    assert request.failed.errno == 22
    assert request.completion is not None
    assert request.completion.status == 12
    assert read(qp={"state": "UNKNOWN"}).qp.state is None
    assert codec.decode(encode(request)) == request


def test_an_empty_slot_that_is_named_is_written_down() -> None:
    route = GlobalRoute(dgid=GID.parse("::ffff:192.0.2.2"), sgid_index=3)
    request = Request(
        attr=QPAttr(qp_state="RTR", ah_attr=AddressVector(port_num=1, grh=route)),
        qp=QPFacts(type=QPType.RC, state=QPState.INIT), port=PortFacts(num=1, gid_tbl_len=4),
        gids={0: GidEntry(index=0, gid=GID.parse("::ffff:192.0.2.1"))}, gids_complete=True,
    )  # fmt: skip
    again = codec.decode(encode(request))
    assert [str(entry.gid) for entry in again.gids.values()] == ["::ffff:192.0.2.1", "::"]
    for one in (request, again):
        assert "sgid-empty" in {finding.rule for finding in check(one).errors}
    unknown = codec.decode(encode(replace(request, gids_complete=False)))
    assert list(unknown.gids) == [0]
    assert "sgid-empty" not in {finding.rule for finding in check(unknown).errors}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"atr": 1}, "unknown key 'atr'; did you mean 'attr'?"),
        ({"zzz": None}, "unknown key 'zzz'; known: "),
        ({"attr": {"timout": 1}}, "attr: unknown key 'timout'; did you mean 'timeout'?"),
        ({"attr": {"ah_attr": {"grh": {"dgdi": 1}}}}, "attr.ah_attr.grh: unknown key 'dgdi'; did you mean 'dgid'?"),
        ({"attr": []}, "attr: a list is not an object"),
        ({"qp": {"type": "XRC"}}, "qp.type: unknown name 'XRC'"),
        ({"qp": {"type": True}}, "qp.type: unknown name True"),
        ({"qp": {"qp_num": -1}}, "qp.qp_num: -1 is not a whole number of 0 or more"),
        ({"qp": {"qp_num": 1.0}}, "qp.qp_num: 1.0 is not"),
        ({"qp": {"qp_num": "12"}}, "qp.qp_num: '12' is not"),
        ({"qp": {"qp_num": float("nan")}}, "qp.qp_num: nan is not"),
        ({"qp": {"srq": 2}}, "qp.srq: 2 is neither true nor false"),
        ({"qp": {"was": ["INIT", "IN"]}}, "qp.was[1]: unknown name 'IN'; did you mean 'INIT'?"),
        ({"qp": {"driver_type": "DCX"}}, "qp.driver_type: unknown name 'DCX'; did you mean 'DCT'?"),
        ({"mask": ["STATE", "TIMEOT"]}, "mask[1]: unknown name 'TIMEOT'; did you mean 'TIMEOUT'?"),
        ({"mask": ["IBV_QP_STATE"]}, "mask[0]: unknown name 'IBV_QP_STATE'; did you mean 'STATE'?"),
        ({"mask": [1.5]}, "mask[0]: 1.5 is not a whole number"),
        ({"gids": [{"index": 0, "gid": "::"}, {"gid": "::"}]}, "gids[1]: an entry has an index and a gid"),
        ({"gids": [{"index": 0, "gid": "x"}]}, "gids[0].gid: 'x' is not a GID"),
        ({"gids": [{"index": 0, "gid": "::"}] * 2}, "gids[1]: index 0 is there twice"),
        ({"pkeys": {"a": 1}}, "pkeys.'a': 'a' is not a whole number"),
        ({"port": {"active_mtu": 1500}}, "port.active_mtu: 1500 is no MTU: 256, 512, 1024, 2048, 4096"),
        ({"port": {"lmc": 8}}, "port.lmc: 8 is no LMC: 0…7"),
        ({"kernel": "new"}, "kernel: 'new' is not a kernel release such as \"6.12\""),
        ({"units": "si"}, "units: unknown word 'si'"),
        ({"id": []}, "id: a list is neither text nor a number"),
        ({"failed": {}}, "failed: it says how"),
        ({"failed": {"errno": "EFOO"}}, "failed.errno: 'EFOO' is no error number"),
        ({"completion": {"status": "RETRY"}}, "completion.status: unknown status 'RETRY'"),
        ({"post": {"queue": "send"}}, "this has attr and post"),
        ({"device": {"name": 1}}, "device.name: 1 is not text"),
        ({"peer": {"gid_type": "V2"}}, "peer.gid_type: unknown name 'V2'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(parts: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError) as error:
        read(**parts)
    assert str(error.value).startswith(text) or str(error.value).endswith(text), str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: "),
        ("nope", "not JSON: "),
        ('{"qp": {}', "not JSON: "),
        ("[1]", "a list is not an object"),
        ("12", "12 is not an object"),
        ("{}", "a request has exactly one act"),
        ('{"qp": {}, "ah": null}', "a request has exactly one act"),
        (',"qp": {}, "attr": {}}', "not JSON: "),
        ('{"qp": {}, "attr": {}', "not JSON: "),
        ('{"qp": {}{"attr": {}}', "not JSON: "),
        ('{"qp": {}, "attr": {},}', "not JSON: "),
        ('{"qp": {}, "attr": {}}}', "not JSON: "),
        ('{"peer": null, "peer": null, "attr": {}}', "the key 'peer' is there twice"),
        ('{"qp": {}, "qp": {}}', "the key 'qp' is there twice"),
        ('{"qp": {"type": "RC", "type": "UC"}, "attr": {}}', "the key 'type' is there twice"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":' * 100_000, "it is nested too deeply"),
        ("9" * 5000, "not JSON: "),
        (b"\xff\xfe\x00", "not JSON: "),
    ],
)
def test_what_is_not_a_request(text: str | bytes, message: str) -> None:
    with pytest.raises(RequestError, match=r".") as error:
        codec.loads(text)
    assert str(error.value).startswith(message)
    assert len(str(error.value)) < 400


def test_a_wrong_value_of_an_act_is_not_a_parse_error() -> None:
    for value in ("14", 14.5, True, [], {}, 1 << 70, -1, float("nan"), "zz"):
        request = read(attr={"timeout": value, "ah_attr": {"dlid": value, "grh": value if value != {} else 1}})
        assert request.attr is not None
        assert request.attr.timeout is value
    assert read(attr={"ah_attr": 5}).attr.ah_attr == 5
    assert read(attr={"timeout": None}).attr.timeout is None


def test_the_same_facts_are_read_once() -> None:
    text = '{"port": {"num": 1, "state": "ACTIVE"}, "qp": {}, "attr": {"timeout": %d}}'
    first, second = codec.loads(text % 14), codec.loads(text % 15)
    assert second.port is first.port
    assert (first.attr, second.attr) == (QPAttr(timeout=14), QPAttr(timeout=15))
    assert codec.loads(text.replace("1,", "2,") % 14).port.num == 2


def test_a_part_ends_where_json_says_however_often_it_comes() -> None:
    """Brackets in strings and parts within parts: a guess at the end may be wrong, the answer may not."""
    request = REQUESTS[0] | {
        "device": {"name": "a}b", "driver": "]"}, "gids": [{"index": 0, "gid": "::1", "netdev": "e]0"}],
        "qp": {"cap": {"max_send_wr": 1}, "qp_num": 5}, "pkeys": {}, "mask": "0x81",
    }  # fmt: skip
    for separators in ((", ", ": "), (",", ":"), (" ,\n ", "\t:  ")):
        text = json.dumps(request, separators=separators)
        for _ in range(3):
            assert codec.loads(text) == codec.decode(request)
            assert codec.loads(f" {text}\r\n") == codec.decode(request)
