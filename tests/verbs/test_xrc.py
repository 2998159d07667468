"""XRC and RAW_PACKET on the null device: what is handed over where a device has them; the words where it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from null_side import calls, error_of, said, side, stub

if TYPE_CHECKING:
    from conftest import Null

# As their headers write them: enum ibv_qp_type, ibv_srq_type, …_init_attr_mask, and O_CREAT.
XRC_SEND, XRC_RECV, RAW_PACKET = 9, 10, 8
SRQT_XRC = 1
SRQ_TYPE, SRQ_PD, SRQ_XRCD, SRQ_CQ = 1, 2, 4, 8
QP_XRCD = 2
O_CREAT = 0o100


def extended() -> dict[str, Any]:
    one = side(size=64)
    xrcd = one.context.open_xrcd()
    srq = one.pd.create_srq(8, xrcd=xrcd, cq=one.cq)
    target = one.pd.create_qp(qp_type="XRC_RECV", xrcd=xrcd)
    sender = one.pd.create_qp(one.cq, qp_type="XRC_SEND")
    here, there = sender.endpoint(psn=1), target.endpoint(psn=2)
    sender.connect(here, there)
    target.connect(there, here)
    sender.send(one.mr[0:8], remote_srqn=srq.number)
    for _ in range(8):
        srq.recv(one.mr)
    refused = {
        "send": error_of(target.send, one.mr), "recv": error_of(target.recv, one.mr),
        "recv at the sender": error_of(sender.recv, one.mr),
    }
    number = srq.number
    one.context.close()
    return {
        "number": number, "refused": {name: said(error)["errors"] for name, error in refused.items()},
        "sends": calls("ibv_close_device")[0]["sends"], "alive": calls("ibv_close_device")[0]["alive"],
    }  # fmt: skip


def test_xrc_is_made_and_brought_up(null: Null) -> None:
    came = null.run(extended, XRC=1)
    assert came["number"] == 0x701
    assert (came["sends"], came["alive"]) == (1, 0)
    assert came["refused"]["recv"] == came["refused"]["recv at the sender"] == [["post-srq", "queue"]]
    assert ["post-opcode", "opcode"] in came["refused"]["send"]
    (opened,) = null.calls("ibv_open_xrcd")
    assert (opened["comp_mask"], opened["fd"], opened["oflags"]) == (3, -1, O_CREAT)
    (srq,) = null.calls("ibv_create_srq_ex")
    assert (srq["comp_mask"], srq["srq_type"]) == (SRQ_TYPE | SRQ_PD | SRQ_XRCD | SRQ_CQ, SRQT_XRC)
    assert (srq["xrcd"], srq["cq"]) == (1, 1)
    (wide,) = null.calls("ibv_create_qp_ex")
    assert (wide["comp_mask"], wide["xrcd"]) == (QP_XRCD, 1)
    made = [(call["qp_type"], call["send_cq"], call["max_recv_wr"]) for call in null.calls("ibv_create_qp")]
    assert made[1:] == [(XRC_RECV, 0, 0), (XRC_SEND, 1, 0)]
    masks = [call["mask"] for call in null.calls("ibv_modify_qp")]
    reset_init, init_rtr, rtr_rts = 0x39, 0x101181, 0x10001  # what both have; then what each has alone
    assert masks == [
        reset_init, init_rtr, rtr_rts | 0x2E00, reset_init, init_rtr | 0x28000, rtr_rts | 0x200,
    ]
    order = [call["call"] for call in null.calls() if call["call"].startswith(("ibv_destroy", "ibv_close", "ibv_de"))]
    assert order.index("ibv_close_xrcd") > order.index("ibv_destroy_srq")


def without() -> dict[str, Any]:
    one = side()
    return {"domain": said(error_of(one.context.open_xrcd))}


def test_a_device_without_xrc_says_so(null: Null) -> None:
    came = null.run(without)["domain"]
    assert (came["type"], came["errno"]) == ("VerbsError", 95)
    assert "ibv_open_xrcd" in came["text"]
    assert "null0 has no XRC: its device_cap_flags are without IBV_DEVICE_XRC." in came["text"]


def mismatched() -> list[str]:
    one = side()
    xrcd = one.context.open_xrcd()
    plain, wide = one.pd.create_srq(1), one.pd.create_srq(1, xrcd=xrcd, cq=one.cq)
    create = one.pd.create_qp
    attempts: list[tuple[Any, dict[str, Any]]] = [
        ((), {"qp_type": "XRC_RECV"}), ((one.cq,), {"qp_type": "XRC_RECV", "xrcd": xrcd}),
        ((), {}), ((one.cq,), {"qp_type": "RC", "xrcd": xrcd}), ((one.cq,), {"qp_type": "XRC_SEND", "srq": plain}),
        ((one.cq,), {"srq": wide}),
    ]  # fmt: skip
    texts = [f"{type(error).__name__}: {error}" for error in (error_of(create, *a, **k) for a, k in attempts)]
    return [*texts, str(error_of(one.pd.create_srq, 1, xrcd=xrcd))]


def test_parts_that_make_no_queue_pair(null: Null) -> None:
    texts = null.run(mismatched, XRC=1)
    assert texts[0] == texts[1] == (
        "ValueError: a queue pair of type XRC_RECV has an XRC domain and no completion queue"
    )
    assert texts[2] == texts[3] == "ValueError: a queue pair of type RC has a completion queue and no XRC domain"
    assert texts[4].startswith("ValueError: a queue pair of type XRC_SEND takes no receives")
    assert texts[5].startswith("ValueError: this shared receive queue is XRC's")
    assert texts[6] == "an XRC shared receive queue has an XRC domain and a completion queue, another has none"


def raw_packets() -> list[Any]:
    one = side(qp_type="RAW_PACKET")
    one.qp.activate(one.qp.endpoint(psn=0))
    stub(CREATE_QP_ERRNO=1)
    return [one.qp.state.name, said(error_of(one.pd.create_qp, one.cq, qp_type="RAW_PACKET"))["text"]]


def test_raw_packet_is_handed_its_port_alone(null: Null) -> None:
    state, refused = null.run(raw_packets)
    assert state == "RTS"
    assert [call["mask"] for call in null.calls("ibv_modify_qp")] == [0x21, 1, 1]
    assert null.calls("ibv_create_qp")[0]["qp_type"] == RAW_PACKET
    assert "a raw packet queue pair needs CAP_NET_RAW" in refused
