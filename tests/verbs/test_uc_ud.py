"""UC and UD on the null device: the bytes handed over, where datagrams go and come from, what is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, connected, error_of, rdmaqp, said, side, stub

if TYPE_CHECKING:
    from conftest import Null

# enum ibv_qp_attr_mask, as its header writes it.
STATE, ACCESS, PKEY, PORT, QKEY, AV, MTU, RQ_PSN, SQ_PSN, DEST = (1 << bit for bit in (0, 3, 4, 5, 6, 7, 8, 12, 16, 20))
GRH = 40


def moved(entries: list[dict[str, Any]], null: Null) -> list[tuple[int, dict[str, Any]]]:
    """Each modify call: its mask, and those fields that are not zero."""
    return [
        (entry["mask"], {name: value for name, value in null.fields(entry).items() if value and value != bytes(16)})
        for entry in entries
    ]


def unreliable(step_by_step: bool) -> None:
    one = side(qp_type="UC")
    local = one.qp.endpoint(psn=0x0A0B0C)
    remote = rdmaqp.Endpoint(qp_num=0x123456, psn=0x654321, lid=0x2A, path_mtu=2048, qp_type=rdmaqp.QPType.UC)
    if not step_by_step:
        one.qp.connect(local, remote, access=6)
        return
    one.qp.to_init(qp_access_flags=6)
    one.qp.to_rtr(
        dest_qp_num=0x123456, rq_psn=0x654321, path_mtu=2048, ah_attr=rdmaqp.AddressVector(port_num=1, dlid=0x2A)
    )
    one.qp.to_rts(sq_psn=0x0A0B0C)


@pytest.mark.parametrize("step_by_step", [False, True], ids=["connect", "steps"])
def test_uc_is_handed_what_the_table_asks_for(null: Null, step_by_step: bool) -> None:
    null.run(unreliable, step_by_step)
    assert moved(null.calls("ibv_modify_qp"), null) == [
        (STATE | PKEY | PORT | ACCESS, {"qp_state": 1, "port_num": 1, "qp_access_flags": 6}),
        (STATE | AV | MTU | DEST | RQ_PSN, {
            "qp_state": 2, "path_mtu": 4, "dest_qp_num": 0x123456, "rq_psn": 0x654321, "ah_attr.dlid": 0x2A,
            "ah_attr.port_num": 1,
        }),
        (STATE | SQ_PSN, {"qp_state": 3, "sq_psn": 0x0A0B0C}),
    ]  # fmt: skip


def datagrams(step_by_step: bool) -> int | None:
    one = side(qp_type="UD")
    if step_by_step:
        one.qp.to_init(qkey=0x77)
        one.qp.to_rtr()
        one.qp.to_rts(sq_psn=0x0A0B0C)
        return None
    local = one.qp.endpoint(psn=0x0A0B0C, qkey=0x77)
    one.qp.activate(local)
    return local.qkey


@pytest.mark.parametrize("step_by_step", [False, True], ids=["activate", "steps"])
def test_ud_is_handed_what_the_table_asks_for(null: Null, step_by_step: bool) -> None:
    null.run(datagrams, step_by_step)
    assert moved(null.calls("ibv_modify_qp"), null) == [
        (STATE | PKEY | PORT | QKEY, {"qp_state": 1, "port_num": 1, "qkey": 0x77}),
        (STATE, {"qp_state": 2}),
        (STATE | SQ_PSN, {"qp_state": 3, "sq_psn": 0x0A0B0C}),
    ]


def answered() -> dict[str, Any]:
    """A datagram there, and one back to where it came from."""
    asker, helper = side(qp_type="UD", size=128), side(qp_type="UD", size=128)
    records = []
    for one in (asker, helper):
        records.append(one.qp.endpoint(psn=1))
        one.qp.activate(records[-1])
        one.qp.recv(one.mr[0:GRH + 8])
    asker.mr[64:72].buffer[:] = b"question"
    to = asker.qp.destination(records[1])
    asker.qp.send(asker.mr[64:72], to=to, imm=0x01020304)
    (wc,) = helper.cq.poll()
    came = helper.mr[0:GRH + 8]
    question = rdmaqp.payload(came, wc)
    helper.mr[64:70].buffer[:] = b"answer"
    back = helper.qp.reply_to(replace(wc, slid=9), came)  # the null device says no LID of whoever sends
    helper.qp.send(helper.mr[64:70], to=back)
    (answer,) = (one for one in asker.cq.poll() if one.opcode_name == "RECV")
    numbers = [back.qp_num == asker.qp.qp_num, back.qkey, to.qp_num == helper.qp.qp_num, to.qkey]
    back.close()
    gone = said(error_of(helper.qp.send, helper.mr[64:70], to=back))
    return {
        "question": bytes(question.buffer).decode(), "offset": question.offset, "imm": wc.imm, "numbers": numbers,
        "answer": bytes(rdmaqp.payload(asker.mr[0:GRH + 8], answer).buffer).decode(), "gone": gone["text"],
    }  # fmt: skip


def test_a_datagram_is_answered(null: Null) -> None:
    came = null.run(answered)
    assert (came["question"], came["offset"], came["answer"]) == ("question", GRH, "answer")
    assert came["imm"] == 0x01020304
    assert came["numbers"] == [True, 0x11111111, True, 0x11111111]
    assert "a datagram needs a destination" in came["gone"]


def replied(wc: dict[str, int], header: str) -> None:
    one = side(qp_type="UD")
    one.qp.activate(one.qp.endpoint(psn=1))
    one.mr.buffer[:GRH] = bytes.fromhex(header)
    values = {"wr_id": 0, "status": 0, "opcode": 128, "byte_len": 48, "qp_num": one.qp.qp_num, "vendor_err": 0}
    one.qp.reply_to(rdmaqp.WorkCompletion(imm=None, invalidated_rkey=None, **(values | wc)), one.mr, qkey=5)


def test_a_reply_goes_by_the_completions_lid(null: Null) -> None:
    wc = {"src_qp": 0x123456, "wc_flags": 0, "slid": 0x2A, "sl": 5, "dlid_path_bits": 3}
    null.run(replied, wc, "ff" * GRH)
    (made,) = null.calls("ibv_create_ah")
    assert {name: value for name, value in null.fields(made).items() if value and value != bytes(16)} == {
        "dlid": 0x2A, "sl": 5, "src_path_bits": 3, "port_num": 1,
    }


def refused() -> dict[str, Any]:
    first, _ = connected()
    uc, ud = side(first.context, qp_type="UC"), side(first.context, qp_type="UD")
    record, plain = ud.qp.endpoint(psn=1), uc.qp.endpoint(psn=1)
    failures = {
        "UD connects": error_of(ud.qp.connect, record, record),
        "RC activates": error_of(first.qp.activate, record),
        "UC with retries": error_of(uc.qp.connect, plain, plain, retry_cnt=7),
        "UD with a peer": error_of(ud.qp.to_rtr, dest_qp_num=9) if not ud.qp.to_init() else None,
        "a UC's record": error_of(ud.qp.destination, plain),
        "no Q_Key": error_of(ud.qp.destination, rdmaqp.Endpoint(qp_num=9, psn=1, lid=9)),
    }
    uc.qp.reset()
    uc.qp.connect(plain, plain)
    ud.qp.to_rtr()
    ud.qp.to_rts(sq_psn=1)
    to = ud.qp.destination(record)
    remote = uc.mr.remote
    failures["UC reads"] = error_of(uc.qp.read, uc.mr, remote)
    failures["UC fetches"] = error_of(uc.qp.fetch_add, uc.mr[0:8], remote, 1)
    failures["UD writes"] = error_of(ud.qp.write, ud.mr, remote)
    failures["UD without a destination"] = error_of(ud.qp.send, ud.mr)
    to.close()
    first.context.close()
    return {name: said(error) for name, error in failures.items() if error} | {
        "sends": calls("ibv_close_device")[0]["sends"]
    }


def test_what_the_types_do_not_take(null: Null) -> None:
    came = null.run(refused)
    assert came.pop("sends") == 0
    rules = {name: [rule for rule, _ in error["errors"]] for name, error in came.items()}
    assert rules["UC with retries"] == ["mask-excess"]
    assert rules["UD with a peer"] == ["mask-excess"]
    assert rules["UC reads"] == rules["UC fetches"] == ["post-opcode"]
    assert "post-opcode" in rules["UD writes"]
    texts = {name: error["text"] for name, error in came.items() if error["type"] == "ValueError"}
    assert texts.pop("UD connects") == (
        "UD queue pairs have no peer to connect to: activate(local), and destination(remote) for each that it sends to"
    )
    assert texts.pop("RC activates") == "a RC queue pair has a peer: its record is needed"
    assert texts.pop("a UC's record") == "datagrams go to UD queue pairs, and the record is of one of type UC"
    assert texts.pop("no Q_Key").startswith("the record has no qkey")
    assert "needs a destination" in texts.pop("UD without a destination")
    assert not texts


def one_packet(way: str) -> list[Any]:
    """A datagram as long as a packet, and one byte longer, posted in each way; a receive a byte too short."""
    one = side(qp_type="UD", size=2048, max_send_sge=2)
    one.qp.activate(one.qp.endpoint(psn=1))
    to = one.qp.destination(one.qp.endpoint(psn=1, qkey=0x11111111))
    region, found = one.mr, []
    for length in (1024, 1025):
        work = rdmaqp.Send(region[0:length], to=to)
        halves = rdmaqp.Send([region[0:1000], region[1000:length]], to=to)
        records = rdmaqp.SendRecords(1)
        records[0] = work
        post = {"object": lambda work=work: one.qp.post(work), "chain": lambda work=work: one.qp.chain(work).post(),
                "records": lambda records=records: one.qp.post_sends(records),
                "pieces": lambda halves=halves: one.qp.post(halves)}[way]  # fmt: skip
        try:
            post()
            found.append(None)
        except rdmaqp.GuardError as error:
            found.append(said(error))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        one.qp.recv(region[0:40])
        short = len(warned)
        one.qp.recv(region[0:39])
    return [found, one.qp.outstanding, short, [str(each.message) for each in warned], one.qp.recv_posted]


@pytest.mark.parametrize("way", ["object", "chain", "records", "pieces"])
def test_a_datagram_is_one_packet(null: Null, way: str) -> None:
    (fits, refused), outstanding, none, (warning,), receives = null.run(one_packet, way, ACTIVE_MTU=1024)
    assert fits is None
    assert refused["errors"] == [["post-mtu", "length"]]
    assert "Nothing is sent, and the completion says SUCCESS all the same" in refused["text"]
    assert outstanding == 1
    assert none == 0
    assert warning.startswith("length: 39 bytes have no room for the 40 of the global route header")
    assert receives == 2


def grown() -> list[Any]:
    """The port's MTU is raised once the queue pair is up: what fits now is let through."""
    one = side(qp_type="UD", size=4096)
    one.qp.activate(one.qp.endpoint(psn=1))
    to = one.qp.destination(one.qp.endpoint(psn=1, qkey=0x11111111))
    stub(ACTIVE_MTU=4096)
    one.qp.send(one.mr[0:4096], to=to)
    with rdmaqp.policy("warn", ignore=["post-mtu"]):
        stub(ACTIVE_MTU=1024)
        one.qp.send(one.mr[0:4096], to=to)
    return [one.qp.outstanding, said(error_of(one.qp.send, one.mr[0:2048], to=to))["errors"]]


def test_the_ports_mtu_is_asked_for_where_it_matters(null: Null) -> None:
    assert null.run(grown, ACTIVE_MTU=1024) == [2, [["post-mtu", "length"]]]
