"""Which rule answers which error number, verb by verb: data, and the drivers that are exceptions to it.

Sources: the order of checks as read in Linux 6.12 and rdma-core 65 (``ibv_modify_qp``: library, uverbs, address, table,
driver, firmware, the first that objects answers), and measured on rxe of 6.1 and 6.12.
"""

from __future__ import annotations

import errno
from types import MappingProxyType
from typing import TYPE_CHECKING

from rdmaqp.guard.driver_errnos import SAYS_STATE
from rdmaqp.guard.driver_rows import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rdmaqp.guard.cause import Standing
    from rdmaqp.guard.report import Finding
    from rdmaqp.guard.scene import Act, Scene

#: The kernel's own ENOTSUPP, which some drivers let out; C libraries have no name for it.
ENOTSUPP = 524

#: From the core's look-up of an address (``rdma_resolve_ip``, ``rdma_get_gid_attr``), and from nowhere else in
#: ``ibv_modify_qp`` but a firmware's own time-out.
OF_ADDRESS = frozenset({
    errno.ENODATA, errno.ENODEV, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EADDRNOTAVAIL,
    errno.ENETDOWN, errno.EHOSTDOWN,
})  # fmt: skip
OF_ROUTE = frozenset({
    errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN,
})  # fmt: skip
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, ENOTSUPP, errno.EPROTONOSUPPORT})
#: No more of something.
EXHAUSTED = frozenset({errno.EBUSY, errno.EAGAIN, errno.ENOSPC})


def _all(standing: Standing, *rules: str) -> dict[str, Standing]:
    return dict.fromkeys(rules, standing)


_ADDRESS_INVALID = _all(
    "proved", "port-range", "grh-missing", "sgid-range", "sgid-empty", "sgid-driver", "gid-family-mismatch"
) | _all("likely", "dgid-invalid", "dlid-invalid", "sgid-netdev", "value-range", "value-type", "value-driver")
_ROUTE = _all("proved", "dgid-invalid") | _all("likely", "port-inactive", "sgid-link-local", "sgid-moved")
_UNREACHED = {
    errno.ENODATA: _all("proved", "sgid-empty"),
    errno.ENODEV: _all("proved", "sgid-netdev", "dgid-invalid") | _all("likely", "port-inactive"),
    errno.ETIMEDOUT: _all(
        "likely", "sgid-link-local", "port-inactive", "peer-gid", "sgid-moved", "dgid-invalid", "peer-port-inactive"
    ),
} | dict.fromkeys(OF_ROUTE, _ROUTE)
_INVALID = _ADDRESS_INVALID | _all(
    "proved", "transition-illegal", "transition-driver", "transition-needs-cm", "cur-state-mismatch", "mask-missing",
    "mask-excess", "mask-unknown", "qp-type-unsupported", "port-mismatch", "pkey-range", "rd-atomic-over-device",
    "alt-path-roce", "rate-limit-unsupported", "value-enum", "mtu-over-active",
) | _all("likely", "mask-without-value", "rd-atomic-budget")  # fmt: skip
_NOT_SUPPORTED = _all("proved", "mask-unknown", "rate-limit-unsupported", "qp-type-unsupported") | _all(
    "likely", "atomic-unsupported", "alt-path-roce"
)
_POST = ("post-state", "post-srq", "post-opcode", "post-sge", "post-inline", "post-full")
_VALUES = ("value-range", "value-type", "value-enum")

#: Act -> error number -> the rules whose breach it answers. ``proved``: the rule's breach explains it.
ANSWERS: Mapping[Act, Mapping[int, Mapping[str, Standing]]] = MappingProxyType({
    "modify": {
        errno.EINVAL: _INVALID, errno.EPERM: _all("proved", "qkey-privileged"),
        **_UNREACHED, **dict.fromkeys(UNSUPPORTED, _NOT_SUPPORTED),
        errno.EBUSY: _all("likely", "transition-driver"),
        errno.ECONNABORTED: _all("proved", "transition-needs-cm", "transition-illegal", "transition-driver"),
    },
    "ah": {errno.EINVAL: _ADDRESS_INVALID, **_UNREACHED},
    "post": {
        errno.EINVAL: _all("proved", *_POST, *_VALUES),
        errno.ENOMEM: _all("proved", "post-full", "post-sge", "post-inline", "post-state", *_VALUES),
        errno.EIO: _all("proved", "post-state"),
        **dict.fromkeys(UNSUPPORTED, _all("proved", "post-opcode", "post-srq")),
    },
    "create": {
        errno.EINVAL: _all("proved", "create-over-limit", "qp-type-unsupported", *_VALUES),
        errno.ENOMEM: _all("proved", "create-over-limit", "qp-limit"),
        **dict.fromkeys(EXHAUSTED, _all("proved", "qp-limit")),
        **dict.fromkeys(UNSUPPORTED, _all("proved", "qp-type-unsupported") | _all("likely", "create-over-limit")),
    },
    "reg_mr": {
        errno.EINVAL: _all("proved", "access-needs-local-write", *_VALUES) | _all("likely", "atomic-unsupported"),
        errno.ENOMEM: _all("proved", "memlock-limit"),
        errno.EPERM: _all("likely", "memlock-limit"),
        **dict.fromkeys(UNSUPPORTED, _all("likely", "atomic-unsupported", *_VALUES)),
    },
})  # fmt: skip

#: Rules that explain although they are warnings: the error number has confirmed them.
_CONFIRMED = frozenset({"qkey-privileged", "memlock-limit", "qp-limit"})

#: Attributes that no kernel refuses, whatever they hold: the core masks PSNs to 24 bits, and says so in dmesg only;
#: nobody looks at the peer's number, since only the peer knows it (rdmavt: its width).
NEVER_REFUSED = frozenset({"rq_psn", "sq_psn", "dest_qp_num"})
_CHECKED_BY_RXE = frozenset({"timeout", "alt_timeout", "port_num", "qp_state", "cur_qp_state"})
#: Drivers that compare path_mtu with the port's, and answer EINVAL.
_COMPARE_MTU = frozenset({"hns", "bnxt_re", "mthca"})
_RDMAVT = frozenset({"hfi1", "qib"})
_CHECKED_BY_RDMAVT = frozenset({"retry_cnt", "rnr_retry", "min_rnr_timer"})


def standing(scene: Scene, number: int, finding: Finding) -> Standing | None:
    """How *finding* stands as the reason of error *number*; ``None`` where it cannot be."""
    usual = ANSWERS[scene.act].get(number, {}).get(finding.rule) or _of_efa(scene, number, finding.rule)
    exception = _EXCEPTIONS.get(finding.rule) if scene.act in ("modify", "ah") else None
    if usual is None or finding.severity == "note":
        return None
    if finding.rule == "post-state" and number not in SAYS_STATE.get(scene.driver or "", (number,)):
        return None  # that is not how this library says it
    if scene.unasked and number in OF_ADDRESS and number != errno.ENODATA:
        return None  # nobody looked there
    if exception is not None and number == errno.EINVAL:
        usual = exception(scene, finding)
    if usual == "proved" and finding.severity == "warning" and finding.rule not in _CONFIRMED:
        return "likely"
    return usual


def _of_efa(scene: Scene, number: int, rule: str) -> Standing | None:
    """EFA says "not supported" where others say "invalid" (``efa_modify_qp_validate``)."""
    is_so = scene.driver == "efa" and number == errno.EOPNOTSUPP and scene.act == "modify"
    return "proved" if is_so and rule in ("mask-excess", "port-range", "pkey-range") else None


def _range(scene: Scene, finding: Finding) -> Standing | None:
    if finding.field in NEVER_REFUSED:
        return "proved" if finding.field == "dest_qp_num" and scene.driver in _RDMAVT else None
    if finding.field in _CHECKED_BY_RXE and scene.driver == "rxe":
        return "proved"
    if finding.field in _CHECKED_BY_RDMAVT and scene.driver in _RDMAVT:
        return "proved"
    return None if scene.driver == "rxe" and not finding.field.startswith("ah_attr") else "likely"


def _enum(scene: Scene, finding: Finding) -> Standing | None:
    return "likely" if scene.driver == "rxe" and finding.field in ("path_mtu", "path_mig_state") else "proved"


def _mtu(scene: Scene, _: Finding) -> Standing | None:
    if scene.driver == "rxe":
        return None  # measured: it takes what its port cannot carry
    return "proved" if scene.driver in _COMPARE_MTU else "likely"


def _pkey(_: Scene, finding: Finding) -> Standing | None:
    return "proved" if finding.severity == "error" else None  # a warning: this driver does not look


def says_enodata(scene: Scene) -> bool:
    """Whether the kernel answers an empty slot with ENODATA: measured on 6.1 and 6.12. Older ones said EINVAL."""
    return scene.request.kernel is not None and scene.request.kernel >= (6, 1)


def _budget(scene: Scene, _: Finding) -> Standing | None:
    """ionic's device keeps the sum (seen at RTR, kvcache-ai/Mooncake#3977); of the drivers read, none does."""
    return None if scene.driver in DRIVERS and scene.driver != "ionic" else "likely"


def _empty(scene: Scene, _: Finding) -> Standing | None:
    return "likely" if says_enodata(scene) else "proved"


_EXCEPTIONS = {
    "value-range": _range, "value-enum": _enum, "mtu-over-active": _mtu, "pkey-range": _pkey, "sgid-empty": _empty,
    "rd-atomic-budget": _budget,
}  # fmt: skip

#: What is ruled out, by the name that people give it: the rules and the attributes that it stands for.
GROUPS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = MappingProxyType({
    "mask": (frozenset({"mask-missing", "mask-excess", "mask-unknown", "mask-without-value"}), frozenset()),
    "transition": (
        frozenset({"transition-illegal", "transition-driver", "transition-needs-cm", "cur-state-mismatch"}),
        frozenset({"qp_state", "cur_qp_state"}),
    ),
    "path_mtu": (frozenset({"mtu-over-active"}), frozenset({"path_mtu"})),
    "rd_atomic": (
        frozenset({"rd-atomic-over-device", "rd-atomic-budget"}), frozenset({"max_rd_atomic", "max_dest_rd_atomic"})
    ),
    "port_num": (frozenset({"port-range", "port-mismatch"}), frozenset({"port_num", "ah_attr.port_num"})),
    "pkey_index": (frozenset({"pkey-range"}), frozenset({"pkey_index"})),
    "grh": (frozenset({"grh-missing"}), frozenset()),
    "sgid_index": (
        frozenset({"sgid-range", "sgid-empty", "sgid-driver", "sgid-netdev"}), frozenset({"ah_attr.grh.sgid_index"})
    ),
    "dgid": (frozenset({"dgid-invalid", "gid-family-mismatch"}), frozenset({"ah_attr.grh.dgid"})),
})  # fmt: skip

#: The mask bits' attributes that must be in a modify call for a group to be worth a word.
OF_GROUP: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "path_mtu": ("path_mtu",), "rd_atomic": ("max_rd_atomic", "max_dest_rd_atomic"), "pkey_index": ("pkey_index",),
    "port_num": ("port_num", "ah_attr"), "grh": ("ah_attr",), "sgid_index": ("ah_attr",), "dgid": ("ah_attr",),
})  # fmt: skip
