"""The seven states: an everyday picture of each, and what happens to work in it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.model.enums import DriverType, QPState, QPType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.guard.lore.machine import Kind
    from rdmaqp.model.table import Arrow

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState


class StateLore(NamedTuple):
    """One state.

    Attributes:
        picture: the everyday picture, a few words.
        story: the same, a sentence or two.
        sends: what happens to work in the send queue.
        receives: what happens to work in the receive queue, and to what the peer sends.
        entered: what happens on the way in.
        source: where that stands.
    """

    picture: str
    story: str
    sends: str
    receives: str
    entered: str
    source: str


_RVT = "Linux drivers/infiniband/sw/rdmavt/qp.c, ib_rvt_state_ops"

STATES: Mapping[QPState, StateLore] = MappingProxyType({
    RESET: StateLore(
        "power off",
        "The machine is built and stands there without power. ibv_create_qp leaves every queue pair here.",
        "there are none, and none can be posted",
        "there are none, and none can be posted; packets of the peer are dropped without a word",
        "both queues are emptied without a single completion, and libraries take this queue pair's completions out of "
        "the completion queue too: count what is outstanding before you go here",
        f"{_RVT}; sw/rxe/rxe_qp.c, rxe_qp_reset(); rdma-core providers/mlx5/verbs.c, mlx5_modify_qp()",
    ),
    INIT: StateLore(
        "standby",
        "Power is on, and the queue pair is bound to a port and a partition. It can be filled with receives, and does "
        "nothing yet.",
        "none can be posted",
        "receives are posted here, so that the peer's first message finds one; packets are still dropped",
        "port, P_Key index and access flags (datagrams: the Q_Key) take effect",
        f"{_RVT}; sw/rxe/rxe_verbs.c, rxe_post_recv(), which cites C10-97.2.1",
    ),
    RTR: StateLore(
        "doors closed, listening",
        "Ready to receive: the doors are closed around one peer, whose number, address and first packet number are "
        "known. It listens and answers; it does not speak first.",
        "none can be posted",
        "receives complete, and the peer's RDMA reads, writes and atomics are served",
        "the address vector, where the type has one, is looked up: on RoCE this call asks for the neighbour's MAC "
        "address, and waits up to a second",
        f"{_RVT}; core/addr.c, process_one_req()",
    ),
    RTS: StateLore(
        "running",
        "Ready to send: both directions work. A connection spends its life here.",
        "are carried out and complete",
        "receives complete, and the peer's requests are served",
        "sends may be posted from here on; timeout and retry counts, where the type has them, take effect",
        _RVT,
    ),
    SQD: StateLore(
        "paused for service",
        "Send queue drained: what has begun is finished, nothing new begins. Only here can the path of a connection "
        "be changed.",
        "what was started finishes and completes; what was not waits, and goes on after SQD → RTS. New work can be "
        "posted, and waits as well",
        "go on as in RTS: receives complete, the peer's requests are served",
        "sending stops. It is drained when IBV_EVENT_SQ_DRAINED comes, or ibv_query_qp says sq_draining 0; some "
        "drivers have neither, so count completions where it must work everywhere",
        f"{_RVT} (no PROCESS_NEXT_SEND_OK); sw/rxe/rxe_req.c, req_next_wqe()",
    ),
    SQE: StateLore(
        "sending stalled, ears open",
        "Send queue error: a send has failed on an unreliable queue pair, and only sending has stopped. Only the "
        "hardware leads here; you lead back, to RTS.",
        "the failed one completes with its own status, those behind it as WR_FLUSH_ERR",
        "go on: receives complete",
        "by hardware alone; a reliable queue pair (RC, XRC) goes to ERR instead",
        f"{_RVT}; Shanley, InfiniBand Network Architecture, chapter 12",
    ),
    ERR: StateLore(
        "emergency brake",
        "Everything stops. You can pull it from any state but RESET, and the hardware pulls it when a reliable "
        "connection breaks.",
        "the one that failed completes with its own status, all others as WR_FLUSH_ERR. What is posted now is flushed "
        "as well",
        "all complete as WR_FLUSH_ERR (with a shared receive queue: the event QP_LAST_WQE_REACHED instead)",
        "reap the flushed completions: the first with another status than WR_FLUSH_ERR has the reason",
        "sw/rxe/rxe_comp.c, flush_send_queue(); sw/rxe/rxe_resp.c; sw/rdmavt/qp.c, rvt_error_qp()",
    ),
})

#: Where a queue pair goes by itself when a send fails. Reliable types break; of the others only sending stops. A DCT
#: never sends, and nothing is known of SRD.
_STALLS: tuple[Arrow, str] = ((RTS, SQE), "a send fails")
_BREAKS: tuple[Arrow, str] = ((RTS, ERR), "a send fails")
BY_HARDWARE: Mapping[Kind, tuple[Arrow, str]] = MappingProxyType({
    QPType.RC: _BREAKS, QPType.XRC_SEND: _BREAKS, QPType.XRC_RECV: _BREAKS, DriverType.DCI: _BREAKS,
    QPType.UC: _STALLS, QPType.UD: _STALLS, QPType.RAW_PACKET: _STALLS,
})

TYPES: Mapping[Kind, str] = MappingProxyType({
    QPType.RC: "reliable connection: one peer, everything arrives once and in order; sends, RDMA, atomics",
    QPType.UC: "unreliable connection: one peer, nothing is acknowledged; sends and RDMA writes",
    QPType.UD: "unreliable datagram: any peer, each send names it by an address handle; messages of one packet",
    QPType.RAW_PACKET: "raw Ethernet frames, headers and all",
    QPType.XRC_SEND: "the sending end of an extended reliable connection (the kernel's XRC_INI)",
    QPType.XRC_RECV: "the receiving end of an extended reliable connection (the kernel's XRC_TGT); it feeds many "
                     "shared receive queues",
    QPType.DRIVER: "a type of the driver's own: mlx5's DCI and DCT, EFA's SRD",
    DriverType.DCI: "the sending end of a dynamically connected transport: any peer, each send names it by an address "
                    "handle; reliable all the same",
    DriverType.DCT: "the receiving end of a dynamically connected transport: it serves many senders from a shared "
                    "receive queue",
    DriverType.SRD: "scalable reliable datagram: any peer, each send names it by an address handle; everything "
                    "arrives, in any order",
})
