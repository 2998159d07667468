"""What people see of an object that they print: names, and only what it says."""

from __future__ import annotations

import json
import pickle

import pytest

from rdmaqp import (
    GID,
    MTU,
    AccessFlag,
    AddressVector,
    AttrMask,
    Endpoint,
    GlobalRoute,
    QPAttr,
    QPFacts,
    QPState,
    QPType,
    Request,
    WCStatus,
)
from rdmaqp.model import enums
from rdmaqp.model.codec import decode
from rdmaqp.model.encode import encode
from rdmaqp.model.enums import AtomicCap, GidType, LinkLayer, PortState, Reported, Transport
from rdmaqp.model.facts import PortFacts


def test_an_enumeration_prints_its_name_and_counts_as_its_number() -> None:
    assert [str(QPState.RTS), f"{QPType.RC}", f"{WCStatus.SUCCESS:>8}"] == ["RTS", "RC", " SUCCESS"]
    assert f"{MTU.MTU_1024:d}" == "3"
    assert (QPState.RTS == 3, f"{QPState.RTS:#x}", json.dumps([QPState.RTS])) == (True, "0x3", "[3]")
    assert str(AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_READ) == "LOCAL_WRITE|REMOTE_READ"
    assert [str(AccessFlag(0)), str(AttrMask(1 << 27 | 1)), f"{AttrMask.AV:#x}"] == ["0x0", "STATE|0x8000000", "0x80"]


def test_every_enumeration_of_the_interface_does() -> None:
    kinds = [kind for kind in vars(enums).values() if isinstance(kind, type) and issubclass(kind, int)]
    kinds = [kind for kind in kinds if kind.__module__ == enums.__name__]
    for kind in kinds:
        for member in kind:
            assert str(member) == member.name, member
        assert issubclass(kind, (enums.Named, enums.NamedFlag))


@pytest.mark.parametrize("kind", [PortState, LinkLayer, GidType, AtomicCap, Transport])
def test_a_newer_kernels_number_is_shown_and_no_error(kind: type[Reported]) -> None:
    new = kind(77)
    assert (new.name, str(new), int(new), new == 77) == ("77", "77", 77, True)
    assert new not in set(kind)
    assert pickle.loads(pickle.dumps(new)) == 77
    with pytest.raises(ValueError, match="not a valid"):
        kind("ACTIVE")


def test_a_request_with_a_newer_number_is_written_as_the_number() -> None:
    request = Request(qp=QPFacts(), attr=QPAttr(qp_state="INIT"), port=PortFacts(num=1, state=PortState(77)))
    assert encode(request)["port"] == {"num": 1, "state": 77}
    assert decode(encode(request)).port.state == 77


def test_data_prints_what_it_says() -> None:
    route = GlobalRoute(dgid=GID.parse("192.0.2.7"), sgid_index=3)
    attr = QPAttr(qp_state=QPState.RTR, path_mtu=1024, dest_qp_num=0x12, ah_attr=AddressVector(grh=route),
                  qp_access_flags=5)  # fmt: skip
    assert repr(attr) == (
        "QPAttr(qp_state=RTR, path_mtu=1024, dest_qp_num=0x12, qp_access_flags=LOCAL_WRITE|REMOTE_READ, "
        "ah_attr=AddressVector(grh=GlobalRoute(dgid=GID('::ffff:192.0.2.7'), sgid_index=3)))"
    )
    assert repr(QPAttr()) == "QPAttr()"
    assert repr(Endpoint(qp_num=17, psn=1, qp_type=QPType.RC)) == "Endpoint(qp_num=0x11, psn=0x1, qp_type=RC)"
    assert repr(Request(qp=QPFacts(state=QPState.ERR))) == "Request(qp=QPFacts(state=ERR))"
