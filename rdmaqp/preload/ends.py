"""Two ends of one connection, both watched: do they agree? By the guard's own ``peer-*`` rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.guard import check
from rdmaqp.model.endpoint import PeerRecord
from rdmaqp.model.enums import LinkLayer, QPState, mtu_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rdmaqp.guard import Finding
    from rdmaqp.model.request import Request
    from rdmaqp.preload.seen import QueuePair

_CONNECTED = (QPState.RTR, QPState.RTS)


class Disagreement(NamedTuple):
    """What one end's calls say that the other's do not."""

    ours: QueuePair
    theirs: QueuePair
    findings: tuple[Finding, ...]


def disagreements(pairs: Iterable[QueuePair]) -> list[Disagreement]:
    """Each connected queue pair whose destination was seen too, and does not agree with it."""
    numbered: dict[int, list[QueuePair]] = {}
    for pair in pairs:
        if QPState.RTR in pair.calls:
            numbered.setdefault(pair.number, []).append(pair)
    found: dict[tuple[QueuePair, QueuePair], Disagreement] = {}
    for ours in (pair for same in numbered.values() for pair in same):
        theirs = peer_of(ours, numbered)
        if theirs is None:
            continue
        # What one end's side has told, the other's would tell once more.
        mirrored = found.get((theirs, ours))
        told = {finding.rule for finding in mirrored.findings} if mirrored else set()
        findings = tuple(finding for finding in _compare(ours, theirs) if finding.rule not in told)
        if findings:
            found[ours, theirs] = Disagreement(ours, theirs, findings)
    return list(found.values())


def peer_of(ours: QueuePair, numbered: Mapping[int, Sequence[QueuePair]]) -> QueuePair | None:
    """The queue pair that *ours* sends to, by number and address; ``None`` where it, or the only one, was not seen."""
    gid, lid, number = ours.destination()
    if number is None:
        return None
    found = [
        pair for pair in numbered.get(number, ())
        if (gid in {entry.gid for entry in pair.own_gids().values()} if gid is not None else _answers_to(pair, lid))
    ]  # fmt: skip
    # A number is given again once its queue pair is gone: then those that live, or lived at the same time, count.
    chosen = [pair for pair in found if not pair.destroyed] or found
    if len(chosen) > 1:
        chosen = [pair for pair in chosen if pair.destination()[2] == ours.number]
    return chosen[0] if len(chosen) == 1 else None


def _answers_to(pair: QueuePair, lid: int) -> bool:
    port = pair.calls[QPState.RTR].port
    return port.link_layer is LinkLayer.INFINIBAND and bool(port.lid) and lid >> (port.lmc or 0) == (
        (port.lid or 0) >> (port.lmc or 0)
    )


def record_of(pair: QueuePair, seen_as: Request) -> PeerRecord:
    """What is known of *pair*, as the other end, whose call *seen_as* is, would have been told."""
    attr, call, bound = pair.attributes(), pair.calls[QPState.RTR], pair.to_rtr()
    route = attr.ah_attr.grh if attr.ah_attr is not None and attr.ah_attr.uses_grh else None
    entry = call.gids.get(route.sgid_index) if route is not None else None
    address = seen_as.attr.ah_attr if seen_as.attr is not None else None
    # It answers to every GID of its port: which of them the other end chose is no disagreement.
    addressed = address.grh.dgid if address is not None and address.grh is not None else None
    pkeys, index = (bound.pkeys if bound is not None else {}), pair.pkey_index
    return PeerRecord(
        qp_num=pair.number, psn=attr.sq_psn, qp_type=pair.type, link_layer=call.port.link_layer, lid=call.port.lid,
        lmc=call.port.lmc, gid=addressed,  # type: ignore[arg-type]
        gid_type=entry.type if entry is not None else None,
        path_mtu=mtu_bytes(int(attr.path_mtu)) if attr.path_mtu is not None else None,
        max_rd_atomic=attr.max_rd_atomic, max_dest_rd_atomic=attr.max_dest_rd_atomic,
        pkey=pkeys.get(index) if index is not None else None, sees_qp_num=attr.dest_qp_num, sees_psn=attr.rq_psn,
    )  # fmt: skip


def _compare(ours: QueuePair, theirs: QueuePair) -> Iterator[Finding]:
    """What the rules find that compare with the other end; each once."""
    connected = ours.to_rtr()
    assert connected is not None
    told = set()
    for state in _CONNECTED:
        call = ours.calls.get(state)
        if call is None:
            continue
        request = replace(call, peer=record_of(theirs, connected), pkeys=connected.pkeys)
        request.qp = replace(call.qp, pkey_index=ours.pkey_index)
        for finding in check(request).findings:
            if finding.rule.startswith("peer-") and (key := (finding.rule, finding.field)) not in told:
                told.add(key)
                yield finding
