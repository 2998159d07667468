"""rdma_cm without a device: arguments, what is missing, and what events mean in words."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

import rdmaqp
from rdmaqp import CMEventType, DeviceError
from rdmaqp.connection.cm import fitting, place_of, told
from rdmaqp.connection.cm_options import LinkOptions
from rdmaqp.connection.cm_words import explained, failure, spoken
from rdmaqp.connection.sockets import AddressError, Deadline
from rdmaqp.errors import VerbsError
from rdmaqp.model.cm import REJECTIONS
from rdmaqp.model.enums import Transport
from rdmaqp.verbs import cm as verbs_cm
from rdmaqp.verbs._native import Native, native
from rdmaqp.verbs.cm import CMEvent


def event(kind: CMEventType | int, status: int = 0, data: bytes = b"") -> CMEvent:
    return CMEvent(kind, status, data, 0, 0, 0, None)


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("192.0.2.1", 7471), {"private_data": bytes(57)}, "private_data has room for 56 bytes here, not for 57"),
        (("192.0.2.1", 7471), {"retry_count": 8}, "retry_count is 0…7, not 8"),
        (("192.0.2.1", 7471), {"rnr_retry_count": -1}, "rnr_retry_count is 0…7, not -1"),
        (("192.0.2.1", 7471), {"min_rnr_timer": 32}, "min_rnr_timer is 0…31, not 32"),
        (("192.0.2.1", 7471), {"responder_resources": 256}, "responder_resources is 0…255, not 256"),
        (("192.0.2.1", 7471), {"initiator_depth": 256}, "initiator_depth is 0…255, not 256"),
        (("192.0.2.1", 7471), {"timeout": -1}, "a timeout is 0 s or more"),
        (("192.0.2.1", 65536), {}, "a TCP port is 0…65535, not 65536"),
    ],
)
def test_values_outside_their_range(arguments: tuple[Any, ...], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rdmaqp.cm_connect(*arguments, **options)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rdmaqp.cm_connect("192.0.2.1", "7471"), r"cm_connect\(\): port is '7471', a str; expected an int"),  # type: ignore[arg-type]
        (lambda: rdmaqp.cm_connect("192.0.2.1", 1, private_data="x"), r"private_data is 'x', a str; expected a bytes"),
        (lambda: rdmaqp.cm_connect("192.0.2.1", 1, private_date=b""), "did you mean 'private_data'"),
        (lambda: rdmaqp.cm_connect("192.0.2.1", 1, prepare=7), "prepare is 7"),
        (lambda: rdmaqp.cm_listen(1, None), r"cm_listen\(\): host is None"),  # type: ignore[arg-type]
        (lambda: rdmaqp.cm_listen(1), "host"),  # type: ignore[call-arg]
    ],
)
def test_arguments_of_the_wrong_type(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_an_acceptance_has_more_room() -> None:
    options = LinkOptions(private_data=bytes(196))
    assert options.within(196) is options
    with pytest.raises(ValueError, match="room for 196 bytes here, not for 197"):
        LinkOptions(private_data=bytes(197)).within(196)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs_cm, "LIBRARY", "librdmacm-that-is-not-here.so.1")
    for call in (lambda: rdmaqp.cm_connect("192.0.2.1", 1), lambda: rdmaqp.cm_listen(1, "192.0.2.1")):
        with pytest.raises(DeviceError, match="librdmacm is not installed on this machine") as caught:
            call()
        assert "librdmacm-that-is-not-here.so.1" in str(caught.value)
        assert "apt-get install librdmacm1" in str(caught.value)
        assert "dnf install librdmacm" in str(caught.value)


def test_a_library_that_lacks_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs_cm, "LIBRARY", "libibverbs.so.1")
    with pytest.raises(DeviceError, match="or is too old: rdma_create_event_channel"):
        rdmaqp.cm_listen(1, "192.0.2.1")


def test_built_without_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    lib = SimpleNamespace(rdmaqp_cm_built=lambda: 0)
    monkeypatch.setattr(verbs_cm, "native", lambda: Native(native().ffi, lib))
    monkeypatch.setattr(verbs_cm, "LIBRARY", "any")
    with pytest.raises(DeviceError, match=r"built without <rdma/rdma_cma\.h>") as caught:
        rdmaqp.cm_listen(1, "192.0.2.1")
    assert "librdmacm-dev" in str(caught.value)
    assert "rdma-core-devel" in str(caught.value)


def test_addresses() -> None:
    never = Deadline(1)
    assert str(place_of("192.0.2.1", 7, never)) == "192.0.2.1:7"
    assert str(place_of("2001:db8::1", 7, never)) == "[2001:db8::1]:7"
    assert place_of("fe80::1%3", 7, never) == ("fe80::1", 7, 3)
    assert place_of("fe80::1%lo", 7, never).scope == 1
    with pytest.raises(AddressError, match="this machine has no net device 'no-such-device'"):
        place_of("fe80::1%no-such-device", 7, never)


@pytest.mark.parametrize(
    ("came", "first", "more"),
    [
        (event(CMEventType.REJECTED, 8), "it rejected the connection: nobody listens on this port there", "start the"),
        (event(CMEventType.REJECTED, 28, b"too old\0\0\0"), "the program there says: too old", "status 28)"),
        (event(CMEventType.REJECTED, 28, bytes(148)), "the program there refused, without a reason", "status 28)"),
        (event(CMEventType.REJECTED, 10), "believes that this queue pair is still connected", "status 10)"),
        (event(CMEventType.REJECTED, 99), "it rejected the connection: reason 99", "status 99)"),
        (event(CMEventType.REJECTED, -errno.ECONNREFUSED), "nobody listens on this port there", "ECONNREFUSED"),
        (event(CMEventType.ADDR_ERROR, -errno.ETIMEDOUT), "the next hop does not answer", "ip neighbour"),
        (event(CMEventType.ADDR_ERROR, -errno.ENODEV), "net device without an RDMA device", "rdma link"),
        (event(CMEventType.ADDR_ERROR, -errno.EHOSTUNREACH), "there is no route to that host", "ip route get"),
        (event(CMEventType.ROUTE_ERROR, -errno.ETIMEDOUT), "the subnet manager does not answer", "sminfo"),
        (event(CMEventType.UNREACHABLE, -errno.ETIMEDOUT), "its connection manager does not answer", "4791"),
        (event(CMEventType.CONNECT_ERROR, -errno.EINVAL), "could not be set up: Invalid argument", "EINVAL"),
        (event(CMEventType.DISCONNECTED), "it disconnected", "RDMA_CM_EVENT_DISCONNECTED, status 0)"),
        (event(77, 3), "rdma_cm says event 77", "status 3)"),
    ],
)
def test_events_in_words(came: CMEvent, first: str, more: str) -> None:
    error = failure(came, "192.0.2.1:7")
    lines = str(error).splitlines()
    assert lines[0].startswith("peer 192.0.2.1:7: ")
    assert first in lines[0]
    assert more in str(error)
    assert (error.event, error.status, error.private_data, error.peer) == (
        came.type, came.status, came.private_data, "192.0.2.1:7"
    )  # fmt: skip


def test_every_reason_of_the_kernels_has_words() -> None:
    assert set(REJECTIONS) == set(range(1, 34)) | {35}  # enum ib_cm_rej_reason of Linux 6.12


def test_what_is_told_of_an_error_fits_and_is_safe() -> None:
    assert fitting("ä" * 100) == ("ä" * 74).encode()
    assert told(ValueError("first line\nsecond")) == b"first line"
    assert "\x1b" not in spoken(b"\x1b[31mred\0\0")


@pytest.mark.parametrize(
    ("verb", "number", "said"),
    [
        ("rdma_bind_addr", errno.EADDRINUSE, "192.0.2.1:7 is taken by another program"),
        ("rdma_bind_addr", errno.ENODEV, "no RDMA device of this machine has this address"),
        ("rdma_listen", errno.EACCES, "needs privileges"),
        ("rdma_resolve_addr", errno.ENODEV, "net device without an RDMA device"),
        ("rdma_resolve_route", errno.ENODEV, "net device without an RDMA device"),  # 127.0.0.1, on Linux 6.1
        ("rdma_resolve_addr", errno.ENETUNREACH, "there is no route to that network"),
    ],
)
def test_calls_that_fail_in_words(verb: str, number: int, said: str) -> None:
    error = explained(VerbsError(verb, number, "192.0.2.1:7"), "192.0.2.1:7")
    assert str(error).startswith(f"192.0.2.1:7: {verb} failed: ")
    assert said in str(error)


def test_on_iwarp_the_guard_names_this_way() -> None:
    report = rdmaqp.check(rdmaqp.Request(
        qp=rdmaqp.QPFacts(type=rdmaqp.QPType.RC, state=rdmaqp.QPState.INIT), attr=rdmaqp.QPAttr(qp_state="RTR"),
        device=rdmaqp.DeviceFacts(driver="siw", transport=Transport.IWARP),
    ))  # fmt: skip
    (finding,) = [one for one in report.errors if one.rule == "transition-needs-cm"]
    assert "rdmaqp.cm_connect(host, port)" in str(finding.fix)
    assert "rdmaqp.cm_listen(port, host)" in str(report)
