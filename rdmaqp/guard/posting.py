"""Does the queue pair take this work request: its state, its queues, its type, the memory it names?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.guard import posted_memory
from rdmaqp.guard.case import kind_of
from rdmaqp.guard.driver_rows import driver_of
from rdmaqp.guard.posted_memory import WRITES_HERE, owner
from rdmaqp.guard.report import Report
from rdmaqp.guard.values import out_of_range, wrong_type
from rdmaqp.model.acts import GRH_BYTES, Post, WROpcode
from rdmaqp.model.attributes import as_int, enum_value
from rdmaqp.model.enums import DriverType, QPState, QPType

if TYPE_CHECKING:
    from rdmaqp.guard.drivers import Driver
    from rdmaqp.model.request import Request

_Op = WROpcode
RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState
_TOO_EARLY = {"send": frozenset({RESET, INIT, RTR}), "recv": frozenset({RESET})}
_FLUSHES = {"send": frozenset({ERR, SQE}), "recv": frozenset({ERR})}
_NO_RECEIVE_QUEUE = frozenset({QPType.XRC_SEND, QPType.XRC_RECV})

_DATAGRAM = frozenset({_Op.SEND, _Op.SEND_WITH_IMM})
_UNRELIABLE = _DATAGRAM | {
    _Op.RDMA_WRITE, _Op.RDMA_WRITE_WITH_IMM, _Op.LOCAL_INV, _Op.BIND_MW, _Op.SEND_WITH_INV, _Op.DRIVER1,
}
_ATOMICS = frozenset({_Op.ATOMIC_CMP_AND_SWP, _Op.ATOMIC_FETCH_AND_ADD})
_RELIABLE = _UNRELIABLE | _ATOMICS | {_Op.RDMA_READ, _Op.FLUSH, _Op.ATOMIC_WRITE}

#: What each type sends: the table of ibv_post_send(3), and the opcodes that have come since. What is not here
#: (``DRIVER`` of unknown make) is not judged.
OPCODES: dict[QPType | DriverType, frozenset[WROpcode]] = {
    QPType.RC: _RELIABLE, QPType.UC: _UNRELIABLE, QPType.UD: _DATAGRAM | {_Op.TSO, _Op.DRIVER1},
    QPType.RAW_PACKET: frozenset({_Op.SEND, _Op.TSO, _Op.DRIVER1}), QPType.XRC_SEND: _RELIABLE,
    QPType.XRC_RECV: frozenset(), DriverType.DCI: _RELIABLE, DriverType.DCT: frozenset(),
}  # fmt: skip


def opcodes_of(kind: QPType, driver_name: str | None) -> tuple[int, dict[str, frozenset[QPState]]]:
    """What queue pairs of type *kind* send with that driver, as a bit an opcode; the states in which it takes no post.

    For compares in C, which let through what this module would: where it does not judge, all bits are set.
    """
    driver = driver_of(driver_name)
    takes = driver.opcodes.get(kind, OPCODES.get(kind))
    refused = {
        queue: frozenset(state for which, state in driver.post_refused if which == queue) for queue in ("send", "recv")
    }
    return 0xFFFFFFFF if takes is None else sum(1 << opcode for opcode in takes), refused


_NO_INLINE = WRITES_HERE | {_Op.LOCAL_INV, _Op.BIND_MW}

class _About:
    """The words of a posting's report."""

    def __init__(self, request: Request, post: Post) -> None:
        self.request, self.post = request, post

    def subject(self) -> str:
        qp, name = self.request.qp, self.request.device.name
        number = f" {qp.qp_num:#x}" if qp.qp_num is not None else ""
        state = f", in {qp.state.name}" if qp.state is not None else ""
        where = f" on {name}" if name else ""
        if self.post.queue == "srq":
            return f"shared receive queue{where}, post_srq_recv"
        return f"{kind_of(self.request)} queue pair{number}{where}{state}, post_{self.post.queue}"

    def present(self) -> tuple[str, ...]:
        return ()

    def tail(self) -> str:
        verb = "srq_recv" if self.post.queue == "srq" else self.post.queue
        return f"ibv_post_{verb} was not called; nothing was posted."


def check(request: Request, post: Post) -> Report:
    """Judge one work request."""
    report, driver = Report(_About(request, post)), driver_of(request.device.driver)
    opcode = _opcode(report, request, driver, post) if post.queue == "send" else None
    _own_queue(report, request, post)
    if post.queue != "srq":  # which has no state
        _state(report, request, driver, post)
    _room(report, request, post)
    if request.qp.type is QPType.UD:
        _datagram(report, request, post, opcode)
    inline = bool(post.inline) and post.queue == "send"
    pieces = _pieces(report, request, post)
    if inline:
        _inline(report, request, post, opcode)
    else:  # inline bytes are copied by the call itself: no region is asked
        for place, piece in enumerate(post.sge or ()):
            posted_memory.piece(report, request, f"sge[{place}]", piece, post, opcode)
    if opcode in _ATOMICS and (length := as_int(post.length)) is not None and length < 8:
        report.find("post-sge", "length", f"an atomic brings 8 bytes back, and {length} is too short", given=length,
                    allowed="8", fix="length=8")
    return pieces


def _opcode(report: Report, request: Request, driver: Driver, post: Post) -> WROpcode | None:
    kind = request.qp.driver_type if request.qp.type is QPType.DRIVER else request.qp.type
    known = None if post.opcode is None else enum_value(WROpcode, post.opcode)
    takes = OPCODES.get(kind) if kind is not None else None
    if request.qp.type is not None and request.qp.type in driver.opcodes:
        takes = driver.opcodes[request.qp.type]
    if known is None and post.opcode is not None:
        report.find("post-opcode", "opcode", f"{repr(post.opcode)[:40]} is no opcode of ibv_post_send",
                    given=post.opcode, allowed=", ".join(op.name for op in sorted(takes or WROpcode)))
        return None
    if takes is None:
        report.skip("post-opcode", "qp.type" if request.qp.type is None else "qp.driver_type")
    elif not takes:
        report.find("post-opcode", "opcode", f"{kind_of(request)} queue pairs have no send queue",
                    given=post.opcode, fix="post it to the other end")
    elif known is None:
        report.skip("post-opcode", "post.opcode")
    elif known not in takes:
        with_driver = f" on {driver.name}" if request.qp.type in driver.opcodes else ""
        report.find("post-opcode", "opcode", f"{kind_of(request)} queue pairs do not send {WROpcode(known).name}"
                    f"{with_driver}", given=WROpcode(known).name,
                    allowed=", ".join(op.name for op in sorted(takes)), fix=_who_sends(WROpcode(known)))
    return None if known is None else WROpcode(known)


def _who_sends(opcode: WROpcode) -> str | None:
    kinds = [kind.name for kind, takes in OPCODES.items() if opcode in takes]
    return f"{opcode.name} is for {', '.join(kinds)}" if kinds else None


def _own_queue(report: Report, request: Request, post: Post) -> None:
    qp = request.qp
    if post.queue != "recv":
        return
    if qp.srq:
        report.find("post-srq", "queue", "this queue pair takes its receives from a shared receive queue", given="recv",
                    fix="post to that: ibv_post_srq_recv")
    elif qp.type in _NO_RECEIVE_QUEUE or qp.driver_type in (DriverType.DCI, DriverType.DCT):
        report.find("post-srq", "queue", f"{kind_of(request)} queue pairs have no receive queue", given="recv",
                    fix="post to the shared receive queue of the target: ibv_post_srq_recv")


def _belongs_elsewhere(request: Request, post: Post) -> bool:
    """Whether it is a receive for another queue, which has a room and limits of its own."""
    return post.queue == "recv" and (bool(request.qp.srq) or request.qp.type in _NO_RECEIVE_QUEUE)


def _state(report: Report, request: Request, driver: Driver, post: Post) -> None:
    state, queue = request.qp.state, post.queue
    if state is None:
        return report.skip("post-state", "qp.state")
    if state in _TOO_EARLY[queue]:
        allowed = "RTS, SQD" if queue == "send" else "INIT, RTR, RTS, SQD"
        more = f"; move it to {'RTS' if queue == 'send' else 'INIT'} first"
        return report.find("post-state", "qp.state", f"in {state.name} nothing can be posted to the {queue} queue",
                           given=state.name, allowed=allowed, fix=f"the queue pair is in {state.name}{more}")
    if (queue, state) in driver.post_refused:
        return report.find("post-state", "qp.state", f"{driver.name} takes no {queue} in {state.name}",
                           given=state.name, source=driver.source, fix="bring the queue pair up again")
    if state in _FLUSHES[queue]:
        again = "RESET, INIT, RTR, RTS" if state is ERR else "RTS"
        return report.find("post-flushes", "qp.state", f"in {state.name} the work only completes as WR_FLUSH_ERR",
                           given=state.name, fix=f"reap what was flushed, then go to {again}")
    return None


def _room(report: Report, request: Request, post: Post) -> None:
    qp = request.qp
    sends = post.queue == "send"
    posted = qp.outstanding if sends else qp.recv_posted
    limit = "max_send_wr" if sends else "max_recv_wr"
    if _belongs_elsewhere(request, post):
        return
    if posted is None or qp.cap is None:
        report.skip("post-full", "qp.cap" if qp.cap is None else "qp.outstanding" if sends else "qp.recv_posted")
        return
    room = getattr(qp.cap, limit)
    if posted >= room:
        name = "max_wr" if post.queue == "srq" else limit
        report.find("post-full", "queue", f"{posted} are posted, and {name} is {room}: the queue is full",
                    given=posted, allowed=f"0…{max(room - 1, 0)}",
                    fix="reap completions first" + (" (unsignalled sends are freed by the next signalled one)"
                                                    if sends else ""))
    elif sends and posted == room - 1:
        _stuck(report, request, post)


def _stuck(report: Report, request: Request, post: Post) -> None:
    """It fills the queue: will any completion tell that there is room again?"""
    under_way = request.qp.signaled if request.qp.outstanding else False
    if post.signaled is None or (under_way is None and not post.signaled):
        report.skip("post-stuck", "post.signaled" if post.signaled is None else "qp.signaled")
    elif not post.signaled and not under_way:
        report.find("post-stuck", "signaled", "this send fills the queue, and none of those under way is signaled: "
                    "nothing will free it", given=False, allowed="one in max_send_wr at least", fix="signaled=True")


def _pieces(report: Report, request: Request, post: Post) -> Report:
    """The number of pieces and the length, against the queue pair's and the device's limits."""
    count, limit = as_int(post.num_sge), "max_send_sge" if post.queue == "send" else "max_recv_sge"
    for name, value in (("num_sge", post.num_sge), ("length", post.length)):
        number = as_int(value)
        if value is not None and number is None:
            wrong_type(report, name, value, "0…")
        elif number is not None and not 0 <= number <= 0xFFFFFFFF:
            out_of_range(report, name, number, 0, 0xFFFFFFFF)
    if _belongs_elsewhere(request, post):
        return report
    if count is None:
        count = None if post.sge is None else len(post.sge)
    most, whose = (getattr(request.qp.cap, limit), limit) if request.qp.cap else (request.device.max_sge, "max_sge")
    whom = owner(post)
    if post.queue == "srq":
        limit = whose = "max_sge"
    if count is None or most is None:
        report.skip("post-sge", "post.num_sge" if count is None else "qp.cap")
    elif count > most and count > 0:
        report.find("post-sge", "num_sge", f"{count} pieces, and "
                    f"{f'the {whom} was made for' if request.qp.cap else 'the device takes'} {most} ({whose})",
                    given=count, allowed=f"0…{most}", fix=f"at most {most}, or a {whom} with a larger {limit}")
    return report


def _datagram(report: Report, request: Request, post: Post, opcode: WROpcode | None) -> None:
    """A datagram is one packet, and its receive begins with room for the route header."""
    length, mtu = as_int(post.length), request.port.active_mtu
    if length is None:
        return
    if post.queue == "recv" and length < GRH_BYTES:
        report.find("post-grh", "length", f"{length} bytes have no room for the {GRH_BYTES} of the global route "
                    "header, which come before every datagram", given=length, allowed=f"{GRH_BYTES}…",
                    fix=f"length={GRH_BYTES} and as many as the message has")
    elif opcode in _DATAGRAM and mtu is None:
        report.skip("post-mtu", "port.active_mtu")
    elif opcode in _DATAGRAM and mtu is not None and length > mtu:
        report.find("post-mtu", "length", f"{length} bytes do not fit into one packet: the port's MTU is {mtu}. "
                    "Nothing is sent, and the completion says SUCCESS all the same", given=length, allowed=f"0…{mtu}",
                    fix=f"send at most {mtu} bytes a datagram, or raise the MTU of the port and its net device")


def _inline(report: Report, request: Request, post: Post, opcode: WROpcode | None) -> None:
    if opcode in _NO_INLINE:
        report.find("post-inline", "inline", f"{opcode.name} carries none of our bytes, and IBV_SEND_INLINE is for "
                    "those that do: SEND and RDMA_WRITE", given=True, allowed="0", fix="without IBV_SEND_INLINE")
    length, cap = as_int(post.length), request.qp.cap
    if length is None or cap is None:
        report.skip("post-inline", "post.length" if length is None else "qp.cap")
    elif length > cap.max_inline_data:
        report.find("post-inline", "length", f"{length} bytes inline, and max_inline_data is {cap.max_inline_data}",
                    given=length, allowed=f"0…{cap.max_inline_data}",
                    fix="without IBV_SEND_INLINE, or a queue pair with a larger max_inline_data")
