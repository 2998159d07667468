"""The guard for code that exists: ``safe_modify_qp(qp, attr, mask)``, for our queue pairs and for pyverbs'.

pyverbs is not imported. Its ``QP`` and ``QPAttr`` are known by their attributes, which are those of the C structs.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import DeviceError, VerbsError
from rdmaqp.guard import check, unasked
from rdmaqp.guard.policy import Policy, current
from rdmaqp.host.process import kernel_release
from rdmaqp.model.arguments import checked, wrong_type
from rdmaqp.model.attributes import FIELDS, AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.enums import AttrMask, DriverType, QPState, QPType
from rdmaqp.model.request import QPFacts, Request
from rdmaqp.verbs import device as devices
from rdmaqp.verbs.queue_pair import QueuePair

if TYPE_CHECKING:
    from rdmaqp.guard.report import Report
    from rdmaqp.model.endpoint import PeerRecord
    from rdmaqp.verbs.device import Context

_STATE, _PORT = int(AttrMask.STATE), int(AttrMask.PORT)


@checked()
def safe_modify_qp(
    qp: Any,
    attr: Any,
    mask: int | None = None,
    *,
    device: Context | str | None = None,
    port_num: int | None = None,
    driver_type: DriverType | None = None,
    peer: PeerRecord | None = None,
    policy: Policy | str | None = None,
) -> Report:
    """Judge a modify call, then make it: ``safe_modify_qp(qp, attr, IBV_QP_STATE | IBV_QP_AV | …)``.

    *qp* and *attr* are a :class:`QueuePair` and a :class:`QPAttr`, or pyverbs' ``QP`` and ``QPAttr``. pyverbs hides
    from Python which device its queue pair is on: *device* (a name, or our own context) and *port_num* (bound at INIT)
    say so, and bring in what device, port and GID table have to say. Without them the core table decides.
    *policy* is as in :meth:`QueuePair.modify`.

    Returns:
        the guard's report.

    Raises:
        GuardError: refused; nothing was called. :class:`InvalidStateTransition` where there is no such arrow.
        TypeError: *qp* is neither; a pyverbs call without *mask*: its struct does not say what is set.
        VerbsError, or what pyverbs raises: the kernel, the driver or the firmware refused. pyverbs' own error gets the
            diagnosis as a note (``__notes__``), which a traceback shows.
    """
    if isinstance(qp, QueuePair):
        return qp.modify(attr, mask=mask, policy=policy)
    if not all(hasattr(qp, name) for name in ("qp_type", "qp_num", "query", "modify")):
        raise wrong_type("safe_modify_qp", "qp", qp, "a QueuePair, or pyverbs' QP")
    if mask is None:
        raise TypeError("safe_modify_qp() needs the mask: a C struct does not say which of its fields are set")
    rules = current(policy)
    if rules.mode == "off":
        qp.modify(attr, mask)
        return unasked(Request(qp=QPFacts(), attr=QPAttr()))
    request = _request(qp, attr, int(mask), device, port_num, driver_type, peer)
    report = check(request)
    rules.settle(report)
    try:
        qp.modify(attr, mask)
    except Exception as error:
        from rdmaqp.verbs.failures import annotate  # only what has failed pays for it

        annotate(error, request)
        raise
    return report


def query_qp_state(qp: Any) -> QPState:
    """The state now, asked of the driver, of our queue pair or pyverbs'.

    Raises:
        VerbsError, or what pyverbs raises: the driver does not say.
    """
    return qp.state if isinstance(qp, QueuePair) else QPState(qp.query(_STATE)[0].qp_state)


def _request(
    qp: Any, attr: Any, mask: int, device: Context | str | None, port_num: int | None,
    driver_type: DriverType | None, peer: PeerRecord | None,
) -> Request:  # fmt: skip
    values = read_attr(attr, mask)
    facts = QPFacts(
        type=QPType(qp.qp_type), state=query_qp_state(qp), qp_num=qp.qp_num, port_num=port_num, driver_type=driver_type
    )
    context = _context(device) if isinstance(device, str) else device
    if context is None:
        return Request(qp=facts, attr=values, mask=mask, units="abi", peer=peer, kernel=kernel_release())
    number = values.port_num if mask & _PORT else port_num or getattr(values.ah_attr, "port_num", None)
    if not isinstance(number, int) or not 1 <= number <= context.attr.phys_port_cnt:
        return Request(
            qp=facts, attr=values, mask=mask, units="abi", peer=peer, kernel=kernel_release(), device=context.facts
        )
    port = context.port(number)
    return Request(
        qp=facts, attr=values, mask=mask, units="abi", peer=peer, kernel=kernel_release(), device=context.facts,
        port=port.facts, gids={entry.index: entry for entry in port.gids()}, gids_complete=True,
    )  # fmt: skip


@cache
def _context(name: str) -> Context | None:
    """Our own opening of the device, kept for the next call; none where it cannot be opened."""
    try:
        return devices.open(name)
    except (DeviceError, VerbsError):
        return None


os.register_at_fork(after_in_child=_context.cache_clear)


def read_attr(attr: Any, mask: int) -> QPAttr:
    """The masked fields of anything that has those of ``struct ibv_qp_attr``, pyverbs' ``QPAttr`` above all."""
    if isinstance(attr, QPAttr):
        return attr
    values: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if field.mask & mask and name != "cap":
            value = getattr(attr, name, None)
            values[name] = read_address(value) if name in ("ah_attr", "alt_ah_attr") else value
    return QPAttr(**values)


def read_address(address: Any) -> Any:
    """An address vector from anything that has the fields of ``struct ibv_ah_attr``."""
    if address is None or isinstance(address, AddressVector):
        return address
    route = None
    if address.is_global:
        route = GlobalRoute(
            dgid=address.dgid, sgid_index=address.sgid_index, flow_label=address.flow_label,
            hop_limit=address.hop_limit, traffic_class=address.traffic_class,
        )  # fmt: skip
    return AddressVector(
        port_num=address.port_num, dlid=address.dlid, sl=address.sl, src_path_bits=address.src_path_bits,
        static_rate=address.static_rate, is_global=address.is_global, grh=route,
    )  # fmt: skip
