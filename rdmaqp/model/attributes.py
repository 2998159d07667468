"""The attributes of a modify call: what each is, its mask bit, its range, its unit, what is customary.

``None`` means "not set", and the mask follows from what is set, so that value and bit cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rdmaqp.model.brief import brief
from rdmaqp.model.enums import MTU, AccessFlag, AttrMask, MigState, QPState

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Mapping
    from enum import IntEnum

    from rdmaqp.model.gid import GID


@dataclass(slots=True)
class GlobalRoute:
    """The global route header of an address vector (``struct ibv_global_route``).

    Attributes:
        dgid: the destination's GID; text, 16 bytes, or a :class:`~rdmaqp.model.gid.GID`.
        sgid_index: our own entry in the port's GID table, 0…255.
        flow_label: 20 bits.
        hop_limit: 0…255; on RoCE the kernel overwrites it with the route's for connected queue pairs.
        traffic_class: 0…255; on RoCE v2 the IP header's DSCP (× 4) and ECN.
    """

    dgid: GID | str | bytes
    sgid_index: int = 0
    flow_label: int = 0
    hop_limit: int = 64
    traffic_class: int = 0

    __repr__ = brief


@dataclass(slots=True)
class AddressVector:
    """Where to send (``struct ibv_ah_attr``).

    Attributes:
        port_num: the local port, the one that the queue pair is bound to.
        dlid: the destination's LID, 1…0xBFFF on InfiniBand; RoCE does not look at it.
        sl: service level, 0…15 (on RoCE 0…7 count).
        src_path_bits: 0…2**lmc − 1, InfiniBand only.
        static_rate: an ``ibv_rate`` code; 0 is as fast as the port.
        grh: the global route; RoCE always needs one.
        is_global: whether *grh* is used; follows from *grh* where not given.
    """

    port_num: int = 1
    dlid: int = 0
    sl: int = 0
    src_path_bits: int = 0
    static_rate: int = 0
    grh: GlobalRoute | None = None
    is_global: int | None = None

    __repr__ = brief

    @property
    def uses_grh(self) -> bool:
        """Whether a global route header goes with each packet."""
        return self.grh is not None if self.is_global is None else bool(self.is_global)


@dataclass(slots=True, kw_only=True)
class QPAttr:
    """The fields of ``struct ibv_qp_attr`` that a modify call can carry; ``None`` is not set.

    Enumerations may be given as members, names (``"RTR"``) or numbers; MTUs also in bytes (1024).
    :data:`FIELDS` has the range, the unit and the custom of each.
    """

    qp_state: QPState | str | int | None = None
    cur_qp_state: QPState | str | int | None = None
    path_mtu: MTU | int | None = None
    path_mig_state: MigState | str | int | None = None
    qkey: int | None = None
    rq_psn: int | None = None
    sq_psn: int | None = None
    dest_qp_num: int | None = None
    qp_access_flags: AccessFlag | int | None = None
    cap: object | None = None
    ah_attr: AddressVector | None = None
    alt_ah_attr: AddressVector | None = None
    pkey_index: int | None = None
    alt_pkey_index: int | None = None
    en_sqd_async_notify: int | None = None
    max_rd_atomic: int | None = None
    max_dest_rd_atomic: int | None = None
    min_rnr_timer: int | None = None
    port_num: int | None = None
    timeout: int | None = None
    retry_cnt: int | None = None
    rnr_retry: int | None = None
    alt_port_num: int | None = None
    alt_timeout: int | None = None
    rate_limit: int | None = None

    __repr__ = brief

    def given(self) -> ItemsView[str, Any]:
        """The fields that are set, as ``(name, value)``, in the order of the C struct."""
        return what_is_set(self)[0].items()

    @property
    def mask(self) -> int:
        """The ``ibv_qp_attr_mask`` that follows from the fields set."""
        return what_is_set(self)[1]

    def copied(self, **changes: Any) -> QPAttr:
        """Another with the same fields, but for *changes*."""
        made = _copied(self)
        for name, value in changes.items():
            setattr(made, name, value)
        return made


class Field(NamedTuple):
    """What is known of one attribute.

    Attributes:
        name: as in ``ibv_qp_attr``.
        mask: its bit.
        low, high: the range of the field itself; device and port may narrow it.
        enum: its enumeration, where it has one.
        meaning: what it is for, with the unit.
        custom: what most programs give, where there is a custom.
    """

    name: str
    mask: int
    low: int
    high: int
    meaning: str
    custom: str = ""
    enum: type[IntEnum] | None = None

    @property
    def flag(self) -> str:
        """The mask bit's name."""
        return str(AttrMask(self.mask).name)

    @property
    def allowed(self) -> str:
        """The range or the members, in words."""
        if self.name == "path_mtu":
            return "256, 512, 1024, 2048, 4096"
        if self.enum is not None:
            return ", ".join(member.name for member in self.enum)
        if self.name in _STRUCTS:
            return _STRUCTS[self.name]
        high = f"{self.high:#x}" if self.high > 0xFFFF else str(self.high)
        return f"{self.low}…{high}"


_STRUCTS = {"ah_attr": "an AddressVector", "alt_ah_attr": "an AddressVector", "cap": "nothing: query only"}

_24_BITS = 0xFFFFFF
_32_BITS = 0xFFFFFFFF
_M = AttrMask

#: Sources of the widths: the InfiniBand Architecture Specification's field sizes as ``mlx5_ifc.h`` (``ads_bits``,
#: ``qpc_bits``) has them, ``struct ib_uverbs_modify_qp`` for what travels to the kernel.
_ALL = (
    Field("qp_state", _M.STATE, 0, 6, "the state to go to", enum=QPState),
    Field("cur_qp_state", _M.CUR_STATE, 2, 5, "the state that the caller believes the QP to be in", enum=QPState),
    Field("path_mtu", _M.PATH_MTU, 1, 5, "largest payload of a packet, bytes", "the port's active_mtu", MTU),
    Field("path_mig_state", _M.PATH_MIG_STATE, 0, 2, "automatic path migration", enum=MigState),
    Field("qkey", _M.QKEY, 0, _32_BITS, "key that datagrams must carry; bit 31 needs CAP_NET_RAW", "0x11111111"),
    Field("rq_psn", _M.RQ_PSN, 0, _24_BITS, "first packet number expected: the peer's sq_psn", "as the peer says"),
    Field("sq_psn", _M.SQ_PSN, 0, _24_BITS, "first packet number sent: the peer's rq_psn", "random"),
    Field("dest_qp_num", _M.DEST_QPN, 0, _24_BITS, "the peer's QP number", "as the peer says"),
    Field("qp_access_flags", _M.ACCESS_FLAGS, 0, _32_BITS, "what the peer may do to our memory", "LOCAL_WRITE"),
    Field("cap", _M.CAP, 0, 0, "capacities; modify cannot carry them"),
    Field("ah_attr", _M.AV, 0, 0, "address vector: where to send"),
    Field("alt_ah_attr", _M.ALT_PATH, 0, 0, "alternate path's address vector, InfiniBand only"),
    Field("pkey_index", _M.PKEY_INDEX, 0, 0xFFFF, "index into the port's P_Key table", "0"),
    Field("alt_pkey_index", _M.ALT_PATH, 0, 0xFFFF, "alternate path's P_Key index", "0"),
    Field("en_sqd_async_notify", _M.EN_SQD_ASYNC_NOTIFY, 0, 1, "ask for the SQ_DRAINED event", "1"),
    Field("max_rd_atomic", _M.MAX_QP_RD_ATOMIC, 0, 0xFF, "reads and atomics we keep in flight", "1…16"),
    Field("max_dest_rd_atomic", _M.MAX_DEST_RD_ATOMIC, 0, 0xFF, "reads and atomics we serve at once", "1…16"),
    Field("min_rnr_timer", _M.MIN_RNR_TIMER, 0, 31, "wait asked of a sender that finds no receive, code",
          "12 is 0.64 ms"),
    Field("port_num", _M.PORT, 1, 0xFF, "local port", "1"),
    Field("timeout", _M.TIMEOUT, 0, 31, "wait for an acknowledge, 4.096 µs × 2**code; 0 is for ever",
          "14 is 67 ms"),
    Field("retry_cnt", _M.RETRY_CNT, 0, 7, "resends without an acknowledge before giving up", "7"),
    Field("rnr_retry", _M.RNR_RETRY, 0, 7, "resends to a receiver that was not ready; 7 is for ever", "7"),
    Field("alt_port_num", _M.ALT_PATH, 1, 0xFF, "alternate path's local port"),
    Field("alt_timeout", _M.ALT_PATH, 0, 31, "alternate path's timeout code", "14 is 67 ms"),
    Field("rate_limit", _M.RATE_LIMIT, 0, _32_BITS, "packet pacing, kbit/s; 0 is unlimited"),
)

#: Every attribute by name, in the order of the C struct.
FIELDS: Mapping[str, Field] = MappingProxyType(
    {field.name: field._replace(mask=int(field.mask)) for field in _ALL}
)

QP_ATTR_NAMES: tuple[str, ...] = tuple(field.name for field in fields(QPAttr))


def _written_out() -> Mapping[str, Callable[[QPAttr], Any]]:
    """Functions written out attribute by attribute, as :mod:`dataclasses` writes a constructor.

    Each modify call pays for them: to look for all 25 in a loop takes a fifth of a judgement.
    """
    lines = ["def what_is_set(attr):", " given, mask = {}, 0"]
    for name in QP_ATTR_NAMES:
        lines += [f" if (value := attr.{name}) is not None:", f"  given[{name!r}] = value",
                  f"  mask |= {FIELDS[name].mask}"]
    lines += [" return given, mask", "def copied(attr):", " made = new(kind)"]
    lines += [f" made.{name} = attr.{name}" for name in QP_ATTR_NAMES]
    made: dict[str, Any] = {"new": object.__new__, "kind": QPAttr}
    exec("\n".join([*lines, " return made"]), made)  # noqa: S102 - all of it stands here
    return made


#: What is set in a ``QPAttr``: the values by name, and the mask bits that follow.
what_is_set: Callable[[QPAttr], tuple[dict[str, Any], int]] = _written_out()["what_is_set"]
_copied: Callable[[QPAttr], QPAttr] = _written_out()["copied"]

#: Mask bit -> the attribute whose value it stands for (ALT_PATH covers four; the address vector leads).
FIELD_OF_BIT: Mapping[int, Field] = MappingProxyType(
    {FIELDS[name].mask: FIELDS[name] for name in reversed(QP_ATTR_NAMES) if not name.startswith("alt_")}
    | {int(AttrMask.STATE): FIELDS["qp_state"], int(AttrMask.ALT_PATH): FIELDS["alt_ah_attr"]}
)

#: The parts of an address vector and of its route: name -> (low, high).
AV_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType({
    "port_num": (1, 0xFF), "dlid": (0, 0xFFFF), "sl": (0, 15), "src_path_bits": (0, 0x7F),
    "static_rate": (0, 0xFF), "is_global": (0, 1),
})
GRH_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType({
    "sgid_index": (0, 0xFF), "flow_label": (0, 0xFFFFF), "hop_limit": (0, 0xFF), "traffic_class": (0, 0xFF),
})

#: ``enum ibv_rate`` of rdma-core 44…65, without its prefix: there is no code 1.
RATES: Mapping[str, int] = MappingProxyType({
    "MAX": 0, "2_5_GBPS": 2, "5_GBPS": 5, "10_GBPS": 3, "20_GBPS": 6, "30_GBPS": 4, "40_GBPS": 7, "60_GBPS": 8,
    "80_GBPS": 9, "120_GBPS": 10, "14_GBPS": 11, "56_GBPS": 12, "112_GBPS": 13, "168_GBPS": 14, "25_GBPS": 15,
    "100_GBPS": 16, "200_GBPS": 17, "300_GBPS": 18, "28_GBPS": 19, "50_GBPS": 20, "400_GBPS": 21, "600_GBPS": 22,
    "800_GBPS": 23, "1200_GBPS": 24,
})
RATE_CODES = frozenset(RATES.values())


def _codes(enum: type[IntEnum]) -> Mapping[Any, int]:
    words: dict[Any, int] = {name: int(member) for name, member in enum.__members__.items()}
    return MappingProxyType(words | {name.lower(): code for name, code in words.items()} | {
        int(member): int(member) for member in enum
    })


#: Attribute with an enumeration -> what may be given for it, names and numbers, and the number meant.
CODES: Mapping[str, Mapping[Any, int]] = MappingProxyType(
    {name: _codes(field.enum) for name, field in FIELDS.items() if field.enum is not None}
)


def as_int(value: object) -> int | None:
    """*value* as an integer where it is one (NumPy's too); ``None`` for everything else, ``bool`` included."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def enum_value(enum: type[IntEnum], value: object) -> int | None:
    """The number of *value*, a member, a name or a number of *enum*; ``None`` where it is none of them."""
    if type(value) is enum:
        return int(value)
    if isinstance(value, str):
        member = enum.__members__.get(value.upper())
        return None if member is None else int(member)
    number = as_int(value)
    return number if number in enum._value2member_map_ else None
