"""The numbers and layouts written in Python are those of the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build_module import load_build_ffi
from null_side import native

from rdmaqp.model import enums

if TYPE_CHECKING:
    from conftest import Null


#: The prefix of each enumeration's constants in <infiniband/verbs.h>.
PREFIXES = {
    "QPType": "IBV_QPT_", "QPState": "IBV_QPS_", "AttrMask": "IBV_QP_", "AccessFlag": "IBV_ACCESS_", "MTU": "IBV_",
    "MigState": "IBV_MIG_", "LinkLayer": "IBV_LINK_LAYER_", "PortState": "IBV_PORT_", "GidType": "IBV_GID_TYPE_",
    "Transport": "IBV_TRANSPORT_", "AtomicCap": "IBV_ATOMIC_", "DeviceCap": "IBV_DEVICE_", "WCStatus": "IBV_WC_",
    "WCOpcode": "IBV_WC_", "AsyncEventType": "IBV_EVENT_",
}  # fmt: skip

#: In the header and, on purpose, not in Python.
LEFT_OUT = {"IBV_QPS_UNKNOWN"}

#: sizeof on 64-bit machines, measured with a C program against rdma-core 44; 65 has the same.
SIZES = {"ibv_qp_attr": 144, "ibv_ah_attr": 32, "ibv_global_route": 24, "ibv_qp_cap": 20, "ibv_wc": 48, "ibv_gid": 16}


def constants_of_the_compiler() -> dict[str, int]:
    lib = native().lib
    return {name: getattr(lib, name) for name in dir(lib) if name.startswith("IBV_")}


def sizes_of_the_compiler(names: list[str]) -> dict[str, int]:
    ffi = native().ffi
    return {name: ffi.sizeof(("union " if name == "ibv_gid" else "struct ") + name) for name in names}


def extension_file() -> str:
    import rdmaqp._verbs as extension

    return str(extension.__file__)


@pytest.fixture(scope="module")
def build_ffi() -> Any:
    """The build's own module; to import it is to make the builder."""
    return load_build_ffi()


def test_every_member_has_the_number_of_the_header(null: Null, build_ffi: Any) -> None:
    compiled = null.run(constants_of_the_compiler)
    classes = [
        value for value in vars(enums).values()
        if isinstance(value, type) and issubclass(value, int) and value.__module__ == enums.__name__ and list(value)
    ]
    assert {cls.__name__ for cls in classes} == set(PREFIXES)
    ours = {PREFIXES[cls.__name__] + member.name: int(member) for cls in classes for member in cls}
    assert len(ours) > 130
    newer = set(build_ffi.PROBED) - compiled.keys()
    assert {name: compiled.get(name) for name in ours if name not in newer} == {
        name: value for name, value in ours.items() if name not in newer
    }


def test_no_constant_of_a_known_enumeration_is_left_out(null: Null) -> None:
    compiled = null.run(constants_of_the_compiler)
    ours = {prefix + member for cls, prefix in PREFIXES.items() for member in getattr(enums, cls).__members__}
    prefixes = (*{*PREFIXES.values()} - {"IBV_"}, "IBV_MTU_")
    assert {name for name in compiled if name.startswith(prefixes)} - ours <= LEFT_OUT | {
        "IBV_WC_FLUSH", "IBV_WC_ATOMIC_WRITE"  # newer headers
    }  # fmt: skip


def test_what_these_headers_have_of_the_newer_constants_is_compiled_in(null: Null, build_ffi: Any) -> None:
    assert set(build_ffi.probe()) == set(build_ffi.PROBED) & null.run(constants_of_the_compiler).keys()


def test_a_constant_that_no_header_has_is_not_found(build_ffi: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_ffi, "PROBED", ("IBV_QPT_RC", "IBV_OF_ANOTHER_DAY"))
    assert build_ffi.probe() == ["IBV_QPT_RC"]


def test_structs_have_the_sizes_measured(null: Null) -> None:
    assert null.run(sizes_of_the_compiler, list(SIZES)) == SIZES


def test_the_extension_serves_every_python_from_3_11_on(null: Null) -> None:
    assert null.run(extension_file).endswith("/_verbs.abi3.so")
