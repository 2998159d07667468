"""Why each attribute is there, what its codes mean, and where it travels when it is not a field of its own."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rdmaqp.model.attributes import AV_RANGES, FIELDS, GRH_RANGES, RATES
from rdmaqp.model.enums import MTU, AccessFlag
from rdmaqp.model.timers import RNR_TIMER_MS, timeout_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Why a modify call has to bring it, or may want to.
WHY: Mapping[str, str] = MappingProxyType({
    "qp_state": "where to go; a call without it changes attributes and stays",
    "cur_qp_state": "for hardware that moves by itself: the caller says where it believes the queue pair to be. Rarely "
                    "useful; some drivers believe a false one",
    "path_mtu": "both ends cut messages into packets of this size, and each refuses what the other cuts differently",
    "path_mig_state": "arms the alternate path, so that the hardware moves there when the first one fails",
    "qkey": "a datagram that brings another key is dropped",
    "rq_psn": "the first packet of the peer's is recognised by it: with another number it is taken for a duplicate, or "
              "for the sign of a loss",
    "sq_psn": "where our count begins. A fresh random one keeps packets of an earlier life apart",
    "dest_qp_num": "which of the peer's queue pairs each packet is for",
    "qp_access_flags": "which RDMA the peer may do through this queue pair, on top of what each region allows",
    "cap": "fixed when the queue pair is made; modify cannot carry it",
    "ah_attr": "where packets go: port, LID or GID, service level. On RoCE the kernel looks the MAC address up here",
    "alt_ah_attr": "the path to take when the first one fails (automatic path migration)",
    "pkey_index": "the partition: both ends' keys must match, or packets are dropped",
    "alt_pkey_index": "the alternate path's partition",
    "en_sqd_async_notify": "asks for the event that says that the send queue is drained",
    "max_rd_atomic": "how many reads and atomics we may have under way; the peer must serve as many",
    "max_dest_rd_atomic": "how many of the peer's reads and atomics we hold resources for",
    "min_rnr_timer": "how long a peer shall wait that found no receive posted here, before it sends again",
    "port_num": "the port that the queue pair is bound to",
    "timeout": "how long to wait for an acknowledge before sending again; without it a lost packet is lost for good",
    "retry_cnt": "how often to send again before the connection counts as broken (RETRY_EXC_ERR)",
    "rnr_retry": "how often to send again to a peer that was not ready (RNR_RETRY_EXC_ERR after that)",
    "alt_port_num": "the alternate path's port",
    "alt_timeout": "the alternate path's timeout",
    "rate_limit": "slows sending down to a fixed rate",
})


class Part(NamedTuple):
    """A part of an address vector or of its route."""

    struct: str
    meaning: str


PARTS: Mapping[str, Part] = MappingProxyType({
    "dlid": Part("ah_attr", "the destination's LID, 1…0xBFFF on InfiniBand; RoCE does not look at it"),
    "sl": Part("ah_attr", "service level; on RoCE only 0…7 survive (it becomes the priority of the Ethernet frame)"),
    "src_path_bits": Part("ah_attr", "low bits of our own LID, 0…2**lmc − 1; InfiniBand only"),
    "static_rate": Part("ah_attr", "how fast to send on this path, an ibv_rate code; 0 is as fast as the port"),
    "is_global": Part("ah_attr", "whether a global route header goes with each packet: always 1 on RoCE"),
    "dgid": Part("ah_attr.grh", "the destination's GID; on RoCE v2 its IP address (::ffff:192.0.2.7 is 192.0.2.7)"),
    "sgid_index": Part("ah_attr.grh", "which entry of our own port's GID table to send from. It decides RoCE v1 or v2, "
                       "IPv4 or IPv6, and differs from host to host: `rdmaqp gids` shows the table"),
    "flow_label": Part("ah_attr.grh", "20 bits that keep a flow on one path; on RoCE v2 the UDP source port follows "
                       "from it"),
    "hop_limit": Part("ah_attr.grh", "routers that a packet may pass; on RoCE the kernel writes the route's own for "
                      "connected queue pairs"),
    "traffic_class": Part("ah_attr.grh", "on RoCE v2 the IP header's DSCP (× 4) and ECN"),
})


def seconds(value: float) -> str:
    """A time in words, three digits."""
    for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if value < size * 1000:
            return f"{value / size:.3g} {unit}"
    return f"{value / 60:.0f} min"


def _timeouts() -> dict[int, str]:
    return {code: "for ever" if code == 0 else seconds(timeout_seconds(code) or 0) for code in range(32)}


#: Attribute -> code -> what it means.
CONVERSIONS: Mapping[str, Mapping[int, str]] = MappingProxyType({
    "timeout": _timeouts(),
    "alt_timeout": _timeouts(),
    "min_rnr_timer": {code: f"{RNR_TIMER_MS[code]:g} ms" for code in range(32)},
    "path_mtu": {int(code): f"{128 << code} bytes" for code in MTU},
    "static_rate": dict(sorted((code, name.replace("_GBPS", " Gbit/s").replace("2_5", "2.5").replace(
        "MAX", "as fast as the port")) for name, code in RATES.items())),
    "rnr_retry": {0: "never", **{count: f"{count} ×" for count in range(1, 7)}, 7: "for ever"},
    "retry_cnt": {0: "never", **{count: f"{count} ×" for count in range(1, 8)}},
})

#: What is worth knowing of a conversion.
REMARKS: Mapping[str, str] = MappingProxyType({
    "timeout": "4.096 µs × 2**code. Hardware may wait up to four times as long; a dead peer is noticed after about "
               "(retry_cnt + 1) of these",
    "alt_timeout": "4.096 µs × 2**code",
    "min_rnr_timer": "0 is the longest, not the shortest",
    "path_mtu": "rdmaqp takes bytes or the code; the C struct holds the code, and 1024 put there is cut to 0",
    "static_rate": "there is no code 1; the numbers do not grow with the rate",
    "rnr_retry": "7 is for ever, not seven times",
    "path_mig_state": "MIGRATED and REARM are for you to set; the hardware says ARMED, and hfi1 and qib refuse it",
    "rate_limit": "before Linux 7.0 the table has it for RAW_PACKET only; from then on for RC too, where the driver "
                  "takes it (bnxt_re)",
})


_UNICAST = 0xBFFF


def range_of(name: str) -> str:
    """The values that an attribute, or a part of the address vector, may have."""
    if name in FIELDS:
        return FIELDS[name].allowed
    if name == "static_rate":
        return "0, 2…24"
    low, high = {**AV_RANGES, **GRH_RANGES}.get(name, (0, 0))
    return "a GID" if not high else f"{low}…{high:#x}" if high > 0xFFFF else f"{low}…{high}"


def meaning_of(name: str, value: int) -> str:
    """What *value* is, given for that attribute; that it is none of its values."""
    codes, field = CONVERSIONS.get(name, {}), FIELDS.get(name)
    if value in codes:
        return f"{value} is {codes[value]}"
    if name == "path_mtu" and value in [128 << code for code in MTU]:
        return f"{value} bytes is code {value.bit_length() - 8}"
    if codes:
        return f"{value} is not among them"
    if field is not None and field.enum is not None:
        known = {int(member): member.name for member in field.enum}
        return f"{value} is {known[value]}" if value in known else f"{value} is none of them"
    if name in ("ah_attr", "alt_ah_attr", "cap", "dgid"):
        return f"a number such as {value} is none"
    low, high = (field.low, field.high) if field is not None else {**AV_RANGES, **GRH_RANGES}.get(name, (0, 0))
    if not low <= value <= high:
        return f"{value} is outside its range"
    if name == "qp_access_flags":
        names = [str(flag.name) for flag in AccessFlag if flag & value]
        rest = value & ~int(sum(AccessFlag))
        names += [f"{rest:#x} without a name"] if rest else []
        return f"{value:#x} is {', '.join(names) or 'no access at all'}"
    if name == "dlid" and (value == 0 or value > _UNICAST):
        return f"{value:#x} is no unicast LID: no connected queue pair of InfiniBand sends there"
    return f"{value} is in its range" if value < 0x10000 else f"{value:#x} is in its range"
