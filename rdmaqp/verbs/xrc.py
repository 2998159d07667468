"""XRC domains: what lets one XRC_RECV queue pair serve many shared receive queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.enums import DeviceCap
from rdmaqp.verbs._native import check, check_pointer, native
from rdmaqp.verbs._resource import Resource

if TYPE_CHECKING:
    from rdmaqp.verbs.device import Context


class XRCDomain(Resource):
    """``struct ibv_xrcd``, of this process alone. Its XRC_RECV queue pairs reach its shared receive queues.

    ``pd.create_qp(qp_type="XRC_RECV", xrcd=xrcd)`` · ``pd.create_srq(64, xrcd=xrcd, cq=cq)``. A sender,
    ``pd.create_qp(cq, qp_type="XRC_SEND")``, names the queue in each request: ``Send(…, remote_srqn=srq.number)``.
    """

    kind = "XRC domain"
    _rank = 3

    def __init__(self, context: Context) -> None:
        def make() -> Any:
            about = f"device {context.name}"
            try:
                return check_pointer("ibv_open_xrcd", native().lib.rdmaqp_open_xrcd(context.handle), about)
            except VerbsError as error:
                if context.attr.device_cap_flags & DeviceCap.XRC:
                    raise
                note = f"{context.name} has no XRC: its device_cap_flags are without IBV_DEVICE_XRC."
                raise VerbsError("ibv_open_xrcd", error.errno or 0, about, (note,)) from None

        self.context = context
        super().__init__(make, context)

    def _destroy(self, handle: Any) -> None:
        check("ibv_close_xrcd", native().lib.rdmaqp_close_xrcd(handle), self.kind)
