"""After a failure: what is proved, what is likely, what is ruled out. First the public cases, then kind by kind."""

from __future__ import annotations

import errno
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from guard_requests import LOCAL, modify, post, route, rtr, rts, to_init, with_
from public_cases import ALL, Case

from rdmaqp import safe_modify_qp
from rdmaqp.errors import RequestError
from rdmaqp.guard import Cause, check
from rdmaqp.guard.cause import CAUSES
from rdmaqp.guard.diagnosis import diagnose
from rdmaqp.guard.errnos import ANSWERS, ENOTSUPP, GROUPS
from rdmaqp.guard.given import rows
from rdmaqp.guard.rules import RULES
from rdmaqp.host.answers import Unknown
from rdmaqp.host.network import Neighbour, NetDevice, NoDevice, NoRoute, Route
from rdmaqp.host.path import PathAnswers
from rdmaqp.model import codec
from rdmaqp.model.enums import WCStatus

FAILED = [case for case in ALL if case.request.get("failed") or case.request.get("completion")]


def causes_of(request: dict[str, Any], machine: PathAnswers | None = None) -> dict[str, Cause]:
    decoded = codec.decode(request)
    return {cause.cause: cause for cause in diagnose(decoded, check(decoded), machine)}


def failing(request: dict[str, Any], number: int, machine: PathAnswers | None = None) -> dict[str, str]:
    """The standing of each cause when the call failed with *number*."""
    found = causes_of(request | {"failed": {"errno": number}}, machine)
    return {cause.cause: cause.standing for cause in found.values()}


def completing(request: dict[str, Any], status: int | str) -> dict[str, str]:
    found = causes_of(request | {"completion": {"status": status}})
    return {cause.cause: cause.standing for cause in found.values()}


def named(standings: dict[str, str], *wanted: str) -> set[str]:
    return {cause for cause, standing in standings.items() if standing in (wanted or ("proved", "likely"))}


# ---------------------------------------------------------------------- the public cases


def has(wanted: str, pool: list[dict[str, str]]) -> bool:
    if not wanted.startswith("re:"):
        return any(entry["cause"] == wanted for entry in pool)
    pattern = re.compile(wanted[3:], re.IGNORECASE)
    return any(pattern.search(entry["cause"]) or pattern.search(entry["why"]) for entry in pool)


def test_there_are_cases_to_diagnose() -> None:
    assert len(FAILED) == 43


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_causes_of_the_public_cases(case: Case) -> None:
    answer = json.loads(json.dumps(check(codec.decode(case.request)).to_dict()))
    assert ("causes" in answer) == (case in FAILED)
    causes = answer.get("causes", [])
    possible = [entry for entry in causes if entry["standing"] != "ruled-out"]
    out = [entry for entry in causes if entry["standing"] == "ruled-out"]
    text = f"{case.story}\n{json.dumps(causes, indent=1)}"
    for wanted in case.expect.get("causes") or ():
        assert has(wanted, possible), text
    for wanted in case.expect.get("ruled_out") or ():
        assert has(wanted, out), text
        assert not has(wanted, possible), text


# ---------------------------------------------------------------------- what holds for all of them

NUMBERS = sorted({number for act in ANSWERS.values() for number in act} | {1, 5, 9, 13, 14, 62, 74, 121, ENOTSUPP})
KNOWN = set(RULES) | set(CAUSES) | set(GROUPS) | {"psn", "dest_qp_num", "lid", "min_rnr_timer"}


@pytest.mark.parametrize("case", ALL, ids=str)
def test_whatever_happened_there_is_an_answer_in_known_words(case: Case) -> None:
    request = {key: value for key, value in case.request.items() if key not in ("failed", "completion")}
    decoded = codec.decode(request)
    for key, values in (("failed", NUMBERS), ("completion", [*range(1, 25), 99])):
        for value in values:
            word = {"errno": value} if key == "failed" else {"status": value}
            causes = diagnose(codec.decode(request | {key: word}), check(decoded))
            assert [cause for cause in causes if cause.standing != "ruled-out"], (key, value)
            assert {cause.cause for cause in causes} <= KNOWN
            assert len({cause.cause for cause in causes}) == len(causes)
            assert all(cause.why for cause in causes)


def test_success_has_no_causes() -> None:
    assert completing(rts(), "SUCCESS") == {}
    assert check(codec.decode(rtr())).causes is None


def test_every_rule_that_may_answer_exists() -> None:
    assert {rule for act in ANSWERS.values() for rules in act.values() for rule in rules} <= set(RULES)


# ---------------------------------------------------------------------- the address look-up


@pytest.mark.parametrize("driver", ["mlx5", "rxe", "bnxt_re", "irdma", None])
@pytest.mark.parametrize("spoilt", [{}, {"path_mtu": 4096}, {"min_rnr_timer": ...}, {"qp_state": "RTS"}])
def test_a_timeout_at_rtr_on_roce_is_the_neighbour_whatever_else_is_wrong(
    driver: str | None, spoilt: dict[str, Any]
) -> None:
    found = failing(rtr(driver=driver, **spoilt), errno.ETIMEDOUT)
    assert "neighbour-unresolved" in named(found)
    assert named(found, "ruled-out") >= {"path_mtu", "psn", "dest_qp_num", "lid", "mask", "transition", "rd_atomic"}
    assert not named(found) & {"mask-missing", "transition-illegal", "mtu-over-active", "device-missing"}


def test_ipv4_without_a_route_times_out_too() -> None:
    """The look-up is tied to the net device, and takes the peer to be on its link (measured, 6.1 and 6.12)."""
    def way(route: Route | NoRoute | Unknown) -> PathAnswers:
        return PathAnswers(NetDevice("eth0", True, True, 1500), route, Neighbour("192.0.2.7", "eth0", "FAILED"))

    ways = {Route("eth0"): "ruled-out", NoRoute("Network is unreachable"): "likely", Unknown("no ip"): "likely"}
    for answer, standing in ways.items():
        assert failing(rtr(), errno.ETIMEDOUT, way(answer))["route-missing"] == standing
    six = rtr(ah_attr={"is_global": 1, "port_num": 1, "grh": {"dgid": "2001:db8::7", "sgid_index": 3}})
    assert failing(six, errno.ETIMEDOUT)["route-missing"] == "ruled-out"


def test_the_ruled_out_says_that_it_is_wrong_all_the_same() -> None:
    found = causes_of(rtr(min_rnr_timer=...) | {"failed": {"errno": errno.ETIMEDOUT}})
    assert found["mask"].why.endswith("it is wrong too, and would be refused next")
    assert "wrong" not in found["transition"].why


def test_what_this_machine_says_proves_it() -> None:
    def machine(state: str) -> PathAnswers:
        return PathAnswers(
            NetDevice("eth0", True, True, 1500), Route("eth0"), Neighbour("192.0.2.7", "eth0", state)
        )  # fmt: skip

    states = {"FAILED": "proved", "INCOMPLETE": "proved", "NONE": "likely", "REACHABLE": "likely"}
    for state, standing in states.items():
        assert failing(rtr(), errno.ETIMEDOUT, machine(state))["neighbour-unresolved"] == standing
    unsure = PathAnswers(Unknown("x"), Route("eth0"), Unknown("ip is not installed"))
    assert failing(rtr(), errno.ETIMEDOUT, unsure)["neighbour-unresolved"] == "likely"
    assert failing(rtr(), errno.ENODEV, unsure)["netdev-missing"] == "likely"
    gone = PathAnswers(NoDevice("eth0"), NoRoute("Network is unreachable"), None)
    assert failing(rtr(), errno.ENODEV, gone)["netdev-missing"] == "proved"
    found = causes_of(rtr() | {"failed": {"errno": errno.ENETUNREACH}}, gone)["route-missing"]
    assert (found.standing, "Network is unreachable" in found.why) == ("proved", True)
    assert "route-missing" not in named(failing(rtr(), errno.EINVAL, gone))
    blackhole = PathAnswers(NetDevice("eth0", True, True, 1500), NoRoute("Invalid argument"), None)
    assert failing(rtr(), errno.EINVAL, blackhole)["route-missing"] == "likely"


@pytest.mark.parametrize("number", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL])
def test_no_route(number: int) -> None:
    found = failing(rtr(), number)
    assert named(found) == {"route-missing"}
    assert named(found, "ruled-out") >= {"path_mtu", "psn", "mask", "neighbour-unresolved"}


@pytest.mark.parametrize(
    ("number", "name", "cause"),
    [
        (errno.ETIMEDOUT, "a command timed out", "firmware-refused"),
        (errno.ENETUNREACH, "nobody asked the IP stack", "driver-refused"),
    ],
)
def test_infiniband_asks_no_neighbour(number: int, name: str, cause: str) -> None:
    found = failing(rtr(infiniband=True), number)
    assert cause in named(found)
    assert named(found, "ruled-out") >= {"neighbour-unresolved", "route-missing"}
    assert "lid" not in found


def test_calls_that_look_nothing_up() -> None:
    for request in (
        to_init(), rts(), modify("UD", "INIT", "RTR"),
        rtr(ah_attr=route("fe80::9", 0)), rtr(ah_attr=route("ff0e::1", 4)),
    ):  # fmt: skip
        found = failing(request, errno.ETIMEDOUT)
        assert found["neighbour-unresolved"] == "ruled-out"
        assert named(found) == {"firmware-refused"}
    # rxe has no firmware, and so nobody but itself
    assert named(failing(to_init(driver="rxe"), errno.ETIMEDOUT)) == {"driver-refused"}


def test_an_unknown_link_layer_leaves_both() -> None:
    request = rtr(driver=None)
    del request["port"], request["device"]
    assert named(failing(request, errno.ETIMEDOUT)) == {
        "neighbour-unresolved", "route-missing", "firmware-refused"
    }  # fmt: skip


def test_an_empty_slot_and_one_that_was_emptied() -> None:
    assert failing(rtr(ah_attr=route(sgid_index=5)), errno.ENODATA)["sgid-empty"] == "proved"
    found = causes_of(rtr() | {"failed": {"errno": errno.ENODATA}})["sgid-empty"]
    assert (found.standing, "it has changed" in found.why) == ("proved", True)
    old = failing(with_(rtr(ah_attr=route(sgid_index=5)), kernel="4.19"), errno.EINVAL)
    new = failing(with_(rtr(ah_attr=route(sgid_index=5)), kernel="6.12"), errno.EINVAL)
    assert (old["sgid-empty"], new["sgid-empty"]) == ("proved", "likely")


def test_no_net_device() -> None:
    request = rtr(ah_attr=route(sgid_index=1))
    request["gids"][1]["netdev"] = None
    assert named(failing(request, errno.ENODEV)) == {"sgid-netdev"}
    assert "netdev-missing" in named(failing(rtr(), errno.ENODEV))
    assert named(failing(to_init(), errno.ENODEV)) == {"device-missing"}


def test_an_address_handle_is_looked_up_too() -> None:
    request = {key: value for key, value in rtr().items() if key != "attr"} | {"ah": route(), "qp": {"type": "UD"}}
    assert "neighbour-unresolved" in named(failing(request, errno.ETIMEDOUT))
    assert failing(request, errno.ETIMEDOUT)["path_mtu"] == "ruled-out"
    assert failing(request | {"ah": route(sgid_index=5)}, errno.ENODATA)["sgid-empty"] == "proved"
    assert failing(request | {"ah": route("2001:db8::1")}, errno.EINVAL)["gid-family-mismatch"] == "proved"


# ---------------------------------------------------------------------- EINVAL


def test_everything_wrong_is_proved_and_the_rest_ruled_out() -> None:
    found = failing(rtr(min_rnr_timer=..., ah_attr=route("2001:db8::7")), errno.EINVAL)
    assert named(found, "proved") == {"mask-missing", "gid-family-mismatch"}
    assert named(found, "likely") == set()
    assert named(found, "ruled-out") >= {"transition", "path_mtu", "rd_atomic", "psn", "neighbour-unresolved"}
    assert not named(found, "ruled-out") & {"mask", "dgid"}


def test_every_known_check_passes() -> None:
    found = causes_of(rtr() | {"failed": {"errno": errno.EINVAL}})
    assert {cause for cause in found if found[cause].standing == "likely"} == {"firmware-refused", "driver-refused"}
    assert found["firmware-refused"].why.startswith("every known check passes: the firmware may have refused. Look at")
    assert "syndrome" in found["firmware-refused"].why
    assert found["mask"].standing == "ruled-out"
    soft = rtr(driver="rxe") | {"kernel": "6.12"}
    assert named(failing(soft, errno.EINVAL)) == {"driver-refused"}


def test_what_could_not_be_checked_stays_possible() -> None:
    request = rtr()
    del request["gids"], request["port"]["active_mtu"]
    found = causes_of(request | {"failed": {"errno": errno.EINVAL}})
    assert found["sgid-empty"].why == "not checked: it needs gids[3]"
    assert found["mtu-over-active"].standing == "likely"
    assert "path_mtu" not in found
    assert "sgid_index" not in found
    assert found["firmware-refused"].why.startswith("every check that could be made passes: ")


def test_what_hangs_on_something_unknown_is_not_ruled_out() -> None:
    bare = {"qp": {}, "attr": rtr()["attr"], "failed": {"errno": errno.EINVAL}}
    found = {cause: entry.standing for cause, entry in causes_of(bare).items()}
    assert named(found) >= {"transition-illegal", "mask-missing", "mask-excess", "gid-family-mismatch", "sgid-empty"}
    assert not named(found, "ruled-out") & {"mask", "transition", "dgid", "sgid_index", "path_mtu", "port_num"}
    assert "sgid-empty" not in named({c: e.standing for c, e in causes_of(bare | {"kernel": "6.12"}).items()})
    illegal = failing(modify("RC", "ERR", "RTS", sq_psn=1), errno.EINVAL)
    assert illegal["transition-illegal"] == "proved"
    assert "mask" not in illegal


def test_what_no_kernel_refuses_is_not_the_reason_though_the_guard_refuses_it() -> None:
    for wrong in ({"rq_psn": 1 << 24}, {"dest_qp_num": 1}, {"dest_qp_num": 1 << 24}):
        found = failing(rtr(**wrong), errno.EINVAL)
        assert "firmware-refused" in named(found)
        assert not named(found) & {"value-range", "qpn-reserved"}
        assert named(found, "ruled-out") >= {"psn", "dest_qp_num"}
    peer = failing(with_(rtr(), peer={"psn": 99, "qp_num": 18}), errno.EINVAL)
    assert peer["peer-psn"] == "ruled-out"


def test_a_driver_that_does_not_compare_is_not_blamed() -> None:
    wide = {"path_mtu": 4096}
    assert "mtu-over-active" not in named(failing(rtr(driver="rxe", **wide), errno.EINVAL))
    assert failing(rtr(driver="mlx5", **wide), errno.EINVAL)["mtu-over-active"] == "likely"
    assert failing(rtr(driver="hns", **wide), errno.EINVAL)["mtu-over-active"] == "proved"


# ---------------------------------------------------------------------- the other numbers


@pytest.mark.parametrize(
    ("driver", "number", "cause", "standing"),
    [
        ("mlx5", errno.EREMOTEIO, "firmware-refused", "proved"),
        ("bnxt_re", errno.EIO, "firmware-refused", "proved"),
        ("mlx4", errno.EBADF, "firmware-refused", "proved"),
        ("mlx4", errno.ENXIO, "firmware-refused", "proved"),
        ("mlx5", errno.EAGAIN, "firmware-refused", "proved"),
        ("mlx5", errno.EIO, "device-missing", "likely"),
        (None, errno.EIO, "firmware-refused", "likely"),
        ("rxe", errno.EIO, "device-missing", "likely"),
        ("rxe", errno.ENOMEM, "driver-refused", "proved"),
        ("siw", errno.ECONNABORTED, "transition-needs-cm", "proved"),
        ("erdma", errno.ECONNABORTED, "driver-refused", "proved"),
        ("mlx5", errno.EPERM, "not-permitted", "likely"),
        ("mlx5", errno.EOPNOTSUPP, "driver-refused", "likely"),
        ("mlx5", errno.EOPNOTSUPP, "provider-missing", "likely"),
        ("mlx5", errno.EFAULT, "provider-missing", "likely"),
        (None, errno.EREMOTEIO, "firmware-refused", "proved"),
        (None, errno.EBADMSG, "driver-refused", "likely"),
    ],
)
def test_what_a_driver_means_by_a_number(driver: str | None, number: int, cause: str, standing: str) -> None:
    found = failing(rts(driver=driver), number)
    assert found[cause] == standing
    assert found["psn"] == "ruled-out"


def test_the_privileged_key() -> None:
    request = modify("UD", "RESET", "INIT", qkey=0x80010000)
    assert failing(request, errno.EPERM)["qkey-privileged"] == "proved"
    assert failing(with_(request, process={"privileged": False}), errno.EPERM)["qkey-privileged"] == "proved"
    assert "qkey-privileged" not in failing(modify("UD", "RESET", "INIT"), errno.EPERM)


def test_bits_that_are_not_supported() -> None:
    assert failing(with_(rtr(), mask=["STATE", "0x4000000"]), errno.EOPNOTSUPP)["mask-unknown"] == "proved"
    efa = modify("UD", "RESET", "INIT", driver="efa", port_num=2)
    assert failing(efa, errno.EOPNOTSUPP)["port-range"] == "proved"


def test_a_denied_partition_or_route() -> None:
    assert named(failing(rtr(), errno.EACCES)) == {"route-missing"}
    assert named(failing(rtr(infiniband=True), errno.EACCES)) == {"not-permitted"}


def registering(number: int, access: list[str], length: int = 1 << 20, **process: Any) -> dict[str, str]:
    act = {"qp": {}, "reg_mr": {"access": access, "length": length}, "process": process}
    return failing(act, number)


def test_memory_regions() -> None:
    low = {"memlock": 65536, "ipc_lock": False}
    assert registering(errno.ENOMEM, ["LOCAL_WRITE"], **low) == {"memlock-limit": "proved"}
    assert registering(errno.ENOMEM, ["LOCAL_WRITE"], 4096, **low)["memlock-limit"] == "likely"  # all regions together
    assert registering(errno.ENOMEM, ["LOCAL_WRITE"])["memlock-limit"] == "likely"
    for free in ({"memlock": None}, {"memlock": 65536, "ipc_lock": True}):
        found = registering(errno.ENOMEM, ["LOCAL_WRITE"], **free)
        assert found["memlock-limit"] == "ruled-out"
        assert found["driver-refused"] == "likely"
    assert registering(errno.ENOMEM, ["LOCAL_WRITE", "ON_DEMAND"], **low)["memlock-limit"] == "ruled-out"
    assert registering(errno.EPERM, ["LOCAL_WRITE"], memlock=0, ipc_lock=False)["memlock-limit"] == "proved"
    assert registering(errno.EFAULT, ["LOCAL_WRITE"])["memory-not-pinnable"] == "proved"
    assert registering(errno.EINVAL, ["REMOTE_WRITE"])["access-needs-local-write"] == "proved"
    assert registering(errno.EINVAL, ["LOCAL_WRITE"])["driver-refused"] == "likely"


def creating(number: int, kind: str = "RC", device: dict[str, Any] | None = None, **cap: int) -> dict[str, str]:
    act = {"qp": {"type": kind}, "create": {"max_send_wr": 16, "max_send_sge": 1} | cap}
    return failing(act | {"device": {"max_qp_wr": 1024, "max_sge": 30, "max_qp": 10} | (device or {})}, number)


def test_queue_pairs() -> None:
    assert creating(errno.EINVAL, max_send_wr=4096) == {"create-over-limit": "proved"}
    assert creating(errno.EINVAL, max_inline_data=900)["post-inline"] == "likely"
    assert creating(errno.EINVAL)["post-inline"] == "ruled-out"
    assert creating(errno.ENOMEM)["memlock-limit"] == "likely"
    for number in (errno.EBUSY, errno.EAGAIN, errno.ENOSPC):
        assert creating(number)["qp-limit"] == "likely"
        assert creating(number, device={"qp_in_use": 10}) == {"qp-limit": "proved"}
    assert creating(errno.EPERM, "RAW_PACKET")["not-permitted"] == "proved"
    assert creating(errno.EOPNOTSUPP, device={"driver": "efa"}) == {"qp-type-unsupported": "proved"}
    assert creating(errno.EOPNOTSUPP)["qp-type-unsupported"] == "likely"


def test_posts() -> None:
    assert failing(post(num_sge=3), errno.EINVAL) == {"post-sge": "proved"}
    assert failing(post(num_sge=3), errno.ENOMEM)["post-sge"] == "proved"
    assert failing(post(state="RTR"), errno.ENOMEM)["post-state"] == "proved"  # mlx5's way of saying it
    assert failing(post(inline=True, length=65), errno.EINVAL)["post-inline"] == "proved"
    unknown = post(num_sge=2)
    del unknown["qp"]["cap"]
    assert named(failing(unknown, errno.ENOMEM)) == {"post-full", "post-sge"}
    assert failing(unknown, errno.ENOMEM)["post-inline"] == "ruled-out"


@pytest.mark.parametrize(("driver", "state", "number", "cause", "how"), [
    ("mlx5", "INIT", errno.ENOMEM, "post-state", "proved"), ("mlx5", "RTS", errno.ENOMEM, "post-full", "likely"),
    ("mlx5", "RTS", errno.EINVAL, "post-opcode", "likely"), ("rxe", "RTR", errno.EINVAL, "post-state", "proved"),
    ("rxe", "RTR", errno.ENOMEM, "post-state", None), ("rxe", "RTS", errno.EINVAL, "post-state", "likely"),
    ("efa", "ERR", errno.EINVAL, "post-state", "proved"), ("erdma", "ERR", errno.EIO, "post-state", "proved"),
    ("mlx4", "INIT", errno.EINVAL, "post-state", None), ("irdma", "RESET", errno.EINVAL, "post-state", None),
    ("siw", "RTS", errno.ENOMEM, "post-full", "likely"), ("qedr", "RTS", errno.EINVAL, "post-state", "likely"),
])  # fmt: skip
def test_what_a_user_library_means_when_it_takes_no_work(
    driver: str, state: str, number: int, cause: str, how: str | None
) -> None:
    """facts of each library: how it says "too early", if at all, and what its ENOMEM is in RTS."""
    request = post(state=state, driver=driver) | {"device": {"driver": driver}}
    assert failing(request, number).get(cause) == how


def test_a_post_that_was_too_early_says_how_its_library_says_so() -> None:
    found = causes_of(post(state="INIT") | {"failed": {"errno": errno.ENOMEM}})
    assert found["post-state"].why.endswith("mlx5 says so by ENOMEM")
    assert "Look at" not in found["post-state"].why


# ---------------------------------------------------------------------- completions


@pytest.mark.parametrize(
    ("status", "likely", "out"),
    [
        ("LOC_LEN_ERR", {"post-sge", "peer-mtu"}, {"neighbour-unresolved"}),
        ("LOC_QP_OP_ERR", {"post-opcode"}, {"peer-unreachable"}),
        ("LOC_PROT_ERR", {"local-key"}, {"peer-unreachable", "remote-key", "path_mtu"}),
        ("WR_FLUSH_ERR", {"flush-consequence"}, set()),
        ("LOC_ACCESS_ERR", {"access-denied", "local-key"}, {"route-missing"}),
        ("REM_INV_REQ_ERR", {"peer-mtu", "access-denied"}, {"peer-unreachable", "dest_qp_num"}),
        ("REM_ACCESS_ERR", {"access-denied", "remote-key"}, {"psn", "path_mtu", "dest_qp_num"}),
        ("REM_OP_ERR", {"peer-not-ready", "remote-key"}, {"peer-unreachable"}),
        ("RETRY_EXC_ERR", {"peer-unreachable", "peer-not-ready"}, {"receiver-not-ready", "remote-key", "mask"}),
        ("RNR_RETRY_EXC_ERR", {"receiver-not-ready"}, {"psn", "dest_qp_num", "neighbour-unresolved"}),
        ("FATAL_ERR", {"firmware-refused", "device-missing"}, {"path_mtu"}),
        ("GENERAL_ERR", {"firmware-refused"}, set()),
    ],
)
def test_what_a_status_says(status: str, likely: set[str], out: set[str]) -> None:
    found = completing(rts(), status)
    assert named(found) >= likely
    assert named(found, "ruled-out") >= out


def test_every_status_has_a_meaning() -> None:
    for status in WCStatus:
        assert bool(named(completing(rts(), int(status)))) == (status is not WCStatus.SUCCESS)
    assert named(completing(rts(), 77)) == {"firmware-refused"}


def test_what_the_guard_finds_explains_a_lost_connection() -> None:
    peer = {"qp_num": 19, "psn": 7}
    found = completing(with_(rtr(), peer=peer), "RETRY_EXC_ERR")
    assert found["peer-qpn"] == "proved"
    assert "peer-qpn" not in completing(with_(rtr(), peer=peer), "LOC_PROT_ERR")
    assert completing(rtr(ah_attr=route(LOCAL, 1)), "RETRY_EXC_ERR")["sgid-link-local"] == "likely"


def test_a_flush_is_never_the_root_and_names_who_may_be() -> None:
    found = completing(with_(rtr(), peer={"qp_num": 19, "psn": 7}), "WR_FLUSH_ERR")
    assert found == {"flush-consequence": "proved", "peer-qpn": "likely"}
    assert completing(post(state="ERR"), "WR_FLUSH_ERR")["post-flushes"] == "likely"


def test_each_retry_counter_has_its_status() -> None:
    acks, receives = rts(retry_cnt=0), rts(rnr_retry=0)
    assert completing(acks, "RETRY_EXC_ERR")["retry-none"] == "likely"
    assert "retry-none" not in completing(acks, "RNR_RETRY_EXC_ERR")
    assert completing(receives, "RNR_RETRY_EXC_ERR")["retry-none"] == "likely"
    assert "retry-none" not in completing(receives, "RETRY_EXC_ERR")


def test_how_long_it_was_tried() -> None:
    why = causes_of(rts(timeout=4, retry_cnt=1) | {"completion": {"status": 12}})["peer-unreachable"].why
    assert "2 tries of 0.0655 ms each or more (timeout 4, retry_cnt 1), which is short" in why


def test_efa_has_its_own_use_of_old_statuses() -> None:
    srd = modify("UD", "RTR", "RTS", driver="efa")
    assert completing(srd, "REM_INV_RD_REQ_ERR")["peer-qpn"] == "likely"
    assert completing(rts(), "REM_INV_RD_REQ_ERR") == {"firmware-refused": "likely"}


# ---------------------------------------------------------------------- pyverbs, and whatever a request may hold


def test_somebody_elses_error_is_told_why() -> None:
    class PyverbsRDMAError(Exception):
        error_code = 110

    class QP:
        qp_type, qp_num = 2, 17

        def query(self, attr_mask: int) -> tuple[Any, Any]:
            return SimpleNamespace(qp_state=1), None

        def modify(self, attr: Any, mask: int) -> None:
            raise error

    attr = codec.decode(rtr(path_mtu=3)).attr  # a C struct holds the code
    assert attr is not None
    error: Exception = PyverbsRDMAError("Failed to modify QP")
    with pytest.raises(PyverbsRDMAError) as caught:
        safe_modify_qp(QP(), attr, attr.mask, port_num=1)
    (note,) = caught.value.__notes__
    assert note.startswith("RC queue pair 0x11, INIT → RTR: ibv_modify_qp failed: Connection timed out (ETIMEDOUT")
    assert "neighbour-unresolved" in note
    error = ValueError("no number in it")
    with pytest.raises(ValueError, match="no number") as other:
        safe_modify_qp(QP(), attr, attr.mask, port_num=1)
    assert not hasattr(other.value, "__notes__")


ODD = [None, True, -1, 1 << 70, 1.5, "x", "0xffffffffffffffffffff", [], {}]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_values_are_diagnosed_like_all_others(value: Any) -> None:
    requests = [rtr(**{name: value}) for name in ("path_mtu", "dest_qp_num", "rq_psn", "qp_state", "timeout")]
    requests += [rtr(ah_attr=route(value, value) | {"port_num": value, "dlid": value})]
    requests += [rts(timeout=value, retry_cnt=value), modify("UD", "RESET", "INIT", qkey=value)]
    requests += [post(num_sge=value, length=value, inline=value), post("recv", num_sge=value)]
    requests += [{"qp": {}, "reg_mr": {"length": value, "access": value}},
                 {"qp": {"type": "RC"}, "create": {"max_inline_data": value, "max_send_wr": value}}]  # fmt: skip
    judged = 0
    for request in requests:
        try:
            made = [codec.decode(request | {"failed": {"errno": number}}) for number in (1, 12, 14, 22, 61, 95, 110)]
            made += [codec.decode(request | {"completion": {"status": status}}) for status in (4, 5, 10, 12, 77)]
        except RequestError:
            continue  # not even a request
        for one in made:
            report = check(one)
            assert report.causes
            json.dumps(report.to_dict())
            assert all(len(text) < 2000 for text in rows(one, report).values())
            judged += 1
    assert judged
