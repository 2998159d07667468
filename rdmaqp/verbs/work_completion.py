"""Work completions as small objects."""

from __future__ import annotations

from dataclasses import dataclass, fields
from socket import ntohl
from typing import TYPE_CHECKING, Any

from rdmaqp.model.enums import WCOpcode, WCStatus
from rdmaqp.verbs._native import native

if TYPE_CHECKING:
    from rdmaqp.verbs.completion import CompletionQueue

_WITH_IMM, _WITH_INV = 2, 8  # enum ibv_wc_flags

#: What a completion prints only where there is something in it.
_SELDOM = ("src_qp", "wc_flags", "imm", "invalidated_rkey")


@dataclass(frozen=True)
class WorkCompletion:
    """``struct ibv_wc``: the end of one work request. *opcode* and *byte_len* count only where *status* is SUCCESS.

    *imm* is the sender's immediate data, in host byte order; ``None`` where it sent none. *src_qp*, *slid*, *sl* and
    *dlid_path_bits* tell of whom a datagram came (``QueuePair.reply_to``). *invalidated_rkey* is the key of ours that a
    SEND_WITH_INV has ended, or ``None``.
    """

    # Written out, since one of them is no field: the queue that it came from is nobody's business but an error's.
    __slots__ = (
        "_queue", "byte_len", "dlid_path_bits", "imm", "invalidated_rkey", "opcode", "qp_num", "sl", "slid", "src_qp",
        "status", "vendor_err", "wc_flags", "wr_id",
    )  # fmt: skip

    wr_id: int
    status: int
    opcode: int
    byte_len: int
    qp_num: int
    src_qp: int
    vendor_err: int
    wc_flags: int
    imm: int | None
    slid: int
    sl: int
    dlid_path_bits: int
    invalidated_rkey: int | None

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == WCStatus.SUCCESS

    @property
    def status_name(self) -> str:
        """The status' name, without the prefix."""
        return wc_status_name(self.status)

    @property
    def opcode_name(self) -> str:
        """What has completed, in the field's words."""
        known = self.opcode in WCOpcode._value2member_map_
        return WCOpcode(self.opcode).name if known else str(self.opcode)

    def raise_for_status(self) -> None:
        """Raise :class:`~rdmaqp.errors.CompletionError` where the work request failed; it says why."""
        if not self.ok:
            from rdmaqp.verbs.failures import completion_error  # only what has failed pays for it

            queue = getattr(self, "_queue", None)
            raise completion_error(self, None if queue is None else queue.queue_pair(self.qp_num))

    @classmethod
    def from_c(cls, wc: Any, queue: CompletionQueue | None = None) -> WorkCompletion:
        """Copy one ``struct ibv_wc``, which came from *queue*."""
        flags = wc.wc_flags
        made = cls(
            wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num, wc.src_qp, wc.vendor_err, flags,
            ntohl(wc.imm_data) if flags & _WITH_IMM else None, wc.slid, wc.sl, wc.dlid_path_bits,
            wc.invalidated_rkey if flags & _WITH_INV else None,
        )  # fmt: skip
        object.__setattr__(made, "_queue", queue)
        return made

    def __repr__(self) -> str:
        """What counts, by name: a failed one has no opcode and no length, but the vendor's word."""
        status = WCStatus(self.status).name if self.status in WCStatus._value2member_map_ else str(self.status)
        parts = [f"wr_id={self.wr_id:#x}", f"status={status}", f"qp_num={self.qp_num:#x}"]
        if not self.ok:
            return f"WorkCompletion({', '.join(parts)}, vendor_err={self.vendor_err:#x})"
        parts += [f"opcode={self.opcode_name}", f"byte_len={self.byte_len}"]
        parts += [f"{name}={value:#x}" for name in _SELDOM if (value := getattr(self, name) or 0)]
        return f"WorkCompletion({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkCompletion, tuple(getattr(self, field.name) for field in fields(self))


def wc_status_name(status: int) -> str:
    """The name of a completion status; libibverbs' text where it is newer than we are."""
    if status in WCStatus._value2member_map_:
        return WCStatus(status).name
    ffi, lib = native()
    return str(ffi.string(lib.ibv_wc_status_str(status)).decode())
