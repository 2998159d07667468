"""What people read when a call, or its work, has failed: whole texts, and the line for a bug report."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from guard_requests import post, rtr, with_

from rdmaqp import __version__
from rdmaqp.errors import CompletionError, VerbsError
from rdmaqp.guard import check
from rdmaqp.guard.given import rows
from rdmaqp.model import codec
from stub import NullDevice

ABOUT = "RC queue pair 0x11 on dev0, INIT → RTR"


def diagnosed(request: dict[str, Any], error: Callable[[], Any], **how: Any) -> Any:
    decoded = codec.decode(request | how)
    made, report = error(), check(decoded)
    made.request, made.report, made.causes, made.given = decoded, report, report.causes, rows(decoded, report)
    return made


def refused(number: int) -> VerbsError:
    return VerbsError("ibv_modify_qp", number, ABOUT, ("the queue pair is in INIT now",))


def test_an_error_number_in_words() -> None:
    request = rtr(driver="rxe") | {"kernel": "6.12"}
    error = diagnosed(request, lambda: refused(110), failed={"errno": 110})
    assert str(error) == """\
RC queue pair 0x11 on dev0, INIT → RTR: ibv_modify_qp failed: Connection timed out (ETIMEDOUT, 110)
    set      qp_state RTR, path_mtu 1024, rq_psn 0x7, dest_qp_num 0x12, ah_attr (port_num 1, dgid ::ffff:192.0.2.7, \
sgid_index 3, hop_limit 64), max_dest_rd_atomic 1, min_rnr_timer 12
    ours     QP 0x11, GID 3 (::ffff:192.0.2.6, RoCE v2), eth0, port 1 (ETHERNET, ACTIVE)
    theirs   QP 0x12, GID ::ffff:192.0.2.7
    limits   active_mtu 1024, max_qp_rd_atom 16, max_qp_init_rd_atom 16, gid_tbl_len 256, pkey_tbl_len 1
    where    dev0, driver rxe, kernel 6.12
  × proved   neighbour-unresolved: nobody answered for ::ffff:192.0.2.7 from ::ffff:192.0.2.6 over eth0 (ARP or \
neighbour discovery, for one second). Is the peer up, on that network and rail, with that address? \
`ping -I eth0 192.0.2.7`, `ip neigh`
  ? likely   route-missing: or there is no route: an IPv4 address is then looked for on the net device's own link, \
where nobody answers. `ip route get 192.0.2.7`
  - not      path_mtu, psn, dest_qp_num, lid, rd_atomic, pkey_index, min_rnr_timer, mask, transition, port_num, grh
the queue pair is in INIT now"""


def test_one_line_has_it_all() -> None:
    error = diagnosed(rtr(driver="rxe", min_rnr_timer=...), lambda: refused(22), failed={"errno": 22})
    line = error.one_line()
    assert "\n" not in line
    assert line.startswith(f"{ABOUT}: ibv_modify_qp failed: Invalid argument (EINVAL, 22) | causes: "
                           "mask-missing (proved) | not: psn, dest_qp_num, lid, ")
    for part in (
        "set: qp_state RTR", "path_mtu 1024", "ours: QP 0x11, GID 3 (::ffff:192.0.2.6", "theirs: QP 0x12, GID ::ffff:",
        "limits: active_mtu 1024, max_qp_rd_atom 16", "where: dev0, driver rxe", "the queue pair is in INIT now",
    ):  # fmt: skip
        assert part in line


def test_a_completion_in_words() -> None:
    def lost() -> CompletionError:
        return CompletionError(13, "RNR_RETRY_EXC_ERR", wr_id=7, vendor_err=0x87, qp_num=0x11, peer="QP 0x12")

    error = diagnosed(rtr(), lost, completion={"status": 13, "vendor_err": 135, "wr_id": 7})
    assert str(error) == """\
queue pair 0x11 (peer QP 0x12): work request 0x7 completed with RNR_RETRY_EXC_ERR (13), vendor error 0x87
    set      qp_state RTR, path_mtu 1024, rq_psn 0x7, dest_qp_num 0x12, ah_attr (port_num 1, dgid ::ffff:192.0.2.7, \
sgid_index 3, hop_limit 64), max_dest_rd_atomic 1, min_rnr_timer 12
    ours     QP 0x11, GID 3 (::ffff:192.0.2.6, RoCE v2), eth0, port 1 (ETHERNET, ACTIVE)
    theirs   QP 0x12, GID ::ffff:192.0.2.7
    limits   active_mtu 1024, max_qp_rd_atom 16, max_qp_init_rd_atom 16, gid_tbl_len 256, pkey_tbl_len 1
    where    dev0, driver mlx5
  × proved   receiver-not-ready: the peer said that no receive was posted, more often than rnr_retry allows: post more \
receives before the sender starts, or rnr_retry 7 (for ever)
  - not      peer-unreachable, route-missing, neighbour-unresolved, dest_qp_num, transition, mask, psn, path_mtu, \
remote-key, access-denied, local-key"""


def test_an_error_without_a_diagnosis_is_as_short_as_before() -> None:
    error = VerbsError("ibv_query_qp", errno.EOPNOTSUPP, "RC queue pair 0x11 on dev0", ("it was asked for STATE",))
    assert str(error) == """\
RC queue pair 0x11 on dev0: ibv_query_qp failed: Operation not supported (EOPNOTSUPP, 95)
it was asked for STATE"""
    assert (error.causes, error.request, dict(error.given)) == ((), None, {})
    assert error.one_line().count("|") == 1


def test_a_mask_of_its_own_and_other_acts_have_their_rows() -> None:
    def of(request: dict[str, Any]) -> dict[str, str]:
        decoded = codec.decode(request)
        return rows(decoded, check(decoded))

    assert of(with_(rtr(), mask=["STATE", "0x4000000"]))["mask"] == "STATE, 0x4000000"
    assert "mask" not in of(rtr())
    assert of(post(inline=True))["set"] == "queue send, opcode SEND, num_sge 1, length 64, inline True"
    assert of(post())["ours"].startswith("QP 0x11, state RTS")
    act = {"access": ["LOCAL_WRITE", "0x4000000"], "length": 9}
    region = of({"qp": {}, "reg_mr": act, "process": {"memlock": None}})
    assert (region["set"], region["limits"]) == ("access LOCAL_WRITE|0x4000000, length 9", "memlock unlimited")
    lid = of(rtr(infiniband=True))
    assert (lid["ours"], lid["theirs"]) == ("QP 0x11, LID 0x4, port 1 (INFINIBAND, ACTIVE)", "QP 0x12, LID 0x5")


# ---------------------------------------------------------------------- on the null device

CONNECT = """
from dataclasses import replace
import rdmaqp
context = rdmaqp.open()
cq, pd = context.create_cq(16), context.alloc_pd()
qp, mr = pd.create_qp(cq), pd.alloc_mr(64)
here = qp.endpoint(psn=1)
there = replace(here, qp_num=0x99, **({{"gid": rdmaqp.GID.parse("192.0.2.7")}} if {roce} else {{}}))
try:
    qp.connect(here, there)
    qp.post_send(mr)
    cq.poll()[0].raise_for_status()
except rdmaqp.RdmaqpError as error:
    print(type(error).__name__, [cause[:2] for cause in error.causes if cause.standing != "ruled-out"])
    print([cause.cause for cause in error.causes if cause.standing == "ruled-out"])
    print(error.request.attr.dest_qp_num, error.request.attr.timeout, error.given["where"])
    print(error)
"""
ROCE = {"LINK": "ethernet", "GIDS": "3=::ffff:192.0.2.1/ROCE_V2@lo"}


def run(device: NullDevice, roce: bool = True, **settings: object) -> list[str]:
    done = device.python(CONNECT.format(roce=roce), **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_timeout_at_rtr_names_the_neighbour(null_device: NullDevice) -> None:
    first, out, data, headline, *rest = run(null_device, **ROCE, MODIFY_ERRNO="RTR=110")
    # The route is this machine's own matter: there may be one.
    assert first.removesuffix("]").removesuffix(", ('route-missing', 'likely')") == (
        "VerbsError [('neighbour-unresolved', 'likely')"
    )
    assert "'path_mtu', 'psn', 'dest_qp_num'" in out
    assert data.startswith("153 None null0, driver unknown, kernel ")
    assert data.endswith(f"rdmaqp {__version__}")
    assert headline.endswith("INIT → RTR: ibv_modify_qp failed: Connection timed out (ETIMEDOUT, 110)")
    assert rest[-1] == "the queue pair is in INIT now"
    assert any("theirs   QP 0x99, GID ::ffff:192.0.2.7" in line for line in rest)


@pytest.mark.parametrize(
    ("setting", "cause"),
    [("RTR=101", "route-missing"), ("RTR=61", "sgid-empty"), ("RTR=121", "firmware-refused"),
     ("RTR=22", "driver-refused"), ("INIT=5", "device-missing"), ("RTS=95", "driver-refused")],
)  # fmt: skip
def test_other_numbers_name_other_causes(null_device: NullDevice, setting: str, cause: str) -> None:
    first, *_ = run(null_device, **ROCE, MODIFY_ERRNO=setting)
    assert first.startswith("VerbsError ")
    assert f"'{cause}'" in first


def test_infiniband_has_no_neighbour(null_device: NullDevice) -> None:
    first, out, *_ = run(null_device, roce=False, MODIFY_ERRNO="RTR=110")
    assert first == "VerbsError [('firmware-refused', 'likely')]"
    assert "neighbour-unresolved" in out


def test_failed_work_is_explained_by_the_calls_that_connected(null_device: NullDevice) -> None:
    first, out, data, headline, *rest = run(null_device, roce=False, WC_STATUS="RETRY_EXC_ERR")
    assert first == "CompletionError [('peer-unreachable', 'likely'), ('peer-not-ready', 'likely')]"
    assert "'receiver-not-ready'" in out
    assert data.startswith("153 14 null0")  # the destination of RTR, the timeout of RTS
    assert headline.startswith("queue pair 0x41: work request 0x0 completed with RETRY_EXC_ERR (12)")
    assert any("7 tries of 67.1 ms each" in line for line in rest)


MAKE = """
import rdmaqp
context = rdmaqp.open()
cq, pd = context.create_cq(16), context.alloc_pd()
for make in (lambda: pd.create_qp(cq), lambda: pd.alloc_mr(4096), lambda: pd.create_ah(rdmaqp.AddressVector(dlid=9))):
    try:
        make()
    except rdmaqp.VerbsError as error:
        print(error.verb, [cause.cause for cause in error.causes], list(error.given))
"""


def test_what_cannot_be_made_says_why(null_device: NullDevice) -> None:
    done = null_device.python(MAKE, CREATE_QP_ERRNO=16, REG_MR_ERRNO=14, CREATE_AH_ERRNO=61)
    assert done.stdout.splitlines() == [
        "ibv_create_qp ['qp-limit'] ['set', 'limits', 'where']",
        "ibv_reg_mr ['memory-not-pinnable'] ['set', 'limits', 'where']",
        "ibv_create_ah ['sgid-empty', 'path_mtu', 'psn', 'dest_qp_num', 'lid'] ['set', 'ours', 'theirs', 'limits', "
        "'where']",
    ], done.stderr


LOST = """
import os
import rdmaqp
context = rdmaqp.open()
qp = context.alloc_pd().create_qp(context.create_cq(16))
os.environ["RDMAQP_STUB_QUERY_PORT_ERRNO"] = "{port}"
try:
    # The call alone, as when the device is lost between the guard's questions and the call.
    qp._apply(rdmaqp.QPAttr(qp_state="INIT", port_num=1, pkey_index=0, qp_access_flags=0), 57, rdmaqp.QPState.RESET)
except rdmaqp.VerbsError as error:
    print([cause.cause for cause in error.causes if cause.standing != "ruled-out"], error.errno)
    print(error)
"""


def test_the_error_arrives_though_nothing_more_can_be_asked(null_device: NullDevice) -> None:
    done = null_device.python(LOST.format(port=""), MODIFY_ERRNO=19)
    assert done.stdout.startswith("['device-missing'] 19\n"), done.stderr
    done = null_device.python(LOST.format(port=19), MODIFY_ERRNO=19)
    assert done.stdout.splitlines() == [
        "[] 19",
        "RC queue pair 0x41 on null0, RESET → INIT: ibv_modify_qp failed: No such device (ENODEV, 19)",
        "the queue pair is in RESET now",
        "(It could not be explained: port 1 of null0: ibv_query_port failed: No such device (ENODEV, 19))",
    ], done.stderr
