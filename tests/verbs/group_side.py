"""Queue pairs by the hundred on the null device: made and brought up, and all that one says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from null_side import rdmaqp

from rdmaqp.model.encode import encode
from rdmaqp.verbs import bringing, following

MADE, MOVED, ENDED = "ibv_create_qp", "ibv_modify_qp", "ibv_destroy_qp"


def made(count: int = 5, **options: Any) -> tuple[rdmaqp.Context, rdmaqp.CompletionQueue, rdmaqp.QueuePairs]:
    context = rdmaqp.open()
    cq = context.create_cq(64)
    return context, cq, context.alloc_pd().create_qps(count, cq, **options)


def up(count: int = 5, **options: Any) -> tuple[rdmaqp.CompletionQueue, rdmaqp.QueuePairs]:
    _, cq, qps = made(count, **options)
    qps.connect(qps.endpoints(psn=range(10, 10 + count)), peers(qps, count))
    return cq, qps


def peers(qps: rdmaqp.QueuePairs, count: int = 5) -> rdmaqp.Endpoints:
    return rdmaqp.Endpoints(qps.endpoints(psn=0).like, range(100, 100 + count), range(20, 20 + count))


def once_the_first_is_up(act: Any) -> None:
    """Call *act* when the first of a bring-up has gone alone."""
    whole = following.Way.of

    def of(*args: Any) -> Any:
        way = whole(*args)
        if not done:
            done.append(1)
            act()
        return way

    done: list[int] = []
    bringing.Way.of = of  # type: ignore[method-assign]


def asked(request: rdmaqp.Request | None) -> dict[str, Any]:
    """A request as data, but for the queue pair's own number."""
    assert request
    return encode(replace(request, qp=replace(request.qp, qp_num=0)))


def told(qp: rdmaqp.QueuePair) -> dict[str, Any]:
    """All that a queue pair says of itself, but times and its own number."""
    return {
        "state": qp.state.name, "last": qp.last_state.name, "port": qp.port_num, "pkey": qp.pkey_index,
        "serves": qp.max_dest_rd_atomic, "draining": qp.sq_draining, "cap": repr(qp.cap), "type": qp.type.name,
        "local": repr(qp.local and replace(qp.local, qp_num=0)), "report": repr(qp.report and qp.report.to_dict()),
        "transitions": [[at.start.name, at.goal.name, at.bits] for at in qp.transitions],
        "history": [
            [at.start.name, at.goal.name, repr(at.attr), at.given_mask, at.result, at.error, at.errno]
            for at in qp.history
        ],
        "requests": [at.request and asked(at.request) for at in qp.history],
        "calls": {state.name: asked(call) for state, call in qp.calls.items()},
        "room": [qp.outstanding, qp.recv_posted, qp.raw.sq.room, qp.raw.rq.room, qp.raw.sq.mask],
        "account": [
            getattr(qp.raw, name) for name in (
                "state", "send_states", "recv_states", "opcodes", "max_send_sge", "max_recv_sge", "max_inline_data",
                "sq_sig_all", "datagram", "extended", "failures",
            )
        ],
    }  # fmt: skip
