"""Devices and ports: which there are, which is taken, what they say of themselves."""

from __future__ import annotations

import os
import re
import resource
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from null_side import calls, connected, error_of, native, rdmaqp, said

from rdmaqp.verbs.device import driver_of_provider

if TYPE_CHECKING:
    from conftest import Null

WAYS_ON = ("modprobe rdma_rxe", "rdma link add", "rdmaqp lab run")


def listed() -> list[Any]:
    return [[device.name, device.node_guid, device.transport.name] for device in rdmaqp.devices()]


def test_devices_are_listed_in_the_librarys_order(null: Null) -> None:
    assert null.run(listed, DEVICES="b,a") == [["b", 0x0200000000000001, "IB"], ["a", 0x0200000000000002, "IB"]]
    assert len(null.calls("ibv_get_device_list")) == len(null.calls("ibv_free_device_list")) == 1


@pytest.mark.parametrize("settings", [{"NO_DEVICES": 1}, {"GET_DEVICE_LIST_ERRNO": 38}], ids=["none", "no uverbs"])
def test_a_machine_without_a_device_has_an_empty_list(null: Null, settings: dict[str, int]) -> None:
    assert null.run(listed, **settings) == []


def opened(name: str | None) -> list[Any]:
    try:
        context = rdmaqp.open(name)
    except rdmaqp.RdmaqpError as error:
        return [type(error).__name__, str(error)]
    return [context.name, context.device.name, context.closed, [call["device"] for call in calls("ibv_close_device")]]


@pytest.mark.parametrize("settings", [{"NO_DEVICES": 1}, {"GET_DEVICE_LIST_ERRNO": 38}], ids=["none", "no uverbs"])
@pytest.mark.parametrize("name", [None, "mlx5_0"])
def test_no_device_says_the_ways_on(null: Null, settings: dict[str, int], name: str | None) -> None:
    kind, text = null.run(opened, name, **settings)
    assert kind == "DeviceError"
    assert "this machine has no RDMA device" in text.splitlines()[0]
    assert (name or "") in text
    assert all(way in text for way in WAYS_ON)


def test_an_unknown_device_names_those_there_are(null: Null) -> None:
    assert null.run(opened, "rxe1", DEVICES="rxe0,mlx5_0") == [
        "DeviceError", "there is no device 'rxe1'; there are: rxe0, mlx5_0"
    ]  # fmt: skip


def test_a_device_is_opened_by_its_name(null: Null) -> None:
    assert null.run(opened, "b", DEVICES="a,b,c") == ["b", "b", False, []]


@pytest.mark.parametrize(
    ("settings", "taken", "closed"),
    [
        ({}, "a", []),
        ({"PORT_STATE": "DOWN", "b_PORT_STATE": "ACTIVE"}, "b", ["a"]),
        ({"PORT_STATE": "DOWN", "c_PORT_STATE": "ACTIVE"}, "c", ["b", "a"]),
        ({"PORT_STATE": "DOWN"}, "a", ["b", "c"]),
        ({"PORTS": 2, "PORT_STATE": "DOWN", "b_PORT_STATE": "INIT,ACTIVE"}, "b", ["a"]),
        ({"PORT_STATE": "ARMED", "c_PORT_STATE": "ACTIVE"}, "c", ["b", "a"]),
    ],
)
def test_the_first_device_with_an_active_port_is_taken(
    null: Null, settings: dict[str, Any], taken: str, closed: list[str]
) -> None:
    assert null.run(opened, None, DEVICES="a,b,c", **settings) == [taken, taken, False, closed]


def one_does_not_open(which: str, verb: str) -> list[Any]:
    """The library refuses one device."""
    from rdmaqp.verbs import device

    lib = native().lib

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def ibv_open_device(self, pointer: Any) -> Any:
            name = native().ffi.string(lib.ibv_get_device_name(pointer)).decode()
            return native().ffi.NULL if name in which.split(",") else lib.ibv_open_device(pointer)

    device.native = lambda: native()._replace(lib=Refusing())
    return opened(None)


def test_a_device_that_does_not_open_is_passed_over(null: Null) -> None:
    assert null.run(one_does_not_open, "a", "", DEVICES="a,b")[:3] == ["b", "b", False]
    kind, text = null.run(one_does_not_open, "a,b", "", DEVICES="a,b")
    assert kind == "VerbsError"
    assert text.startswith("device a: ibv_open_device failed")


def gone() -> dict[str, Any]:
    (device,) = rdmaqp.devices()
    os.environ["RDMAQP_STUB_DEVICES"] = "other"
    return said(error_of(device.open))


def test_a_device_that_has_gone_since_it_was_listed(null: Null) -> None:
    came = null.run(gone)
    assert (came["type"], came["text"]) == ("DeviceError", "there is no device 'null0'; there are: other")


# ---------------------------------------------------------------------- what a device says


def attributes() -> dict[str, Any]:
    context = rdmaqp.open()
    values = asdict(context.attr)
    raw = native().ffi.new("struct ibv_device_attr *")
    assert native().lib.ibv_query_device(context.handle, raw) == 0
    fields = [name for name, _ in native().ffi.typeof("struct ibv_device_attr").fields]
    return {"ours": {k: v if isinstance(v, str) else int(v) for k, v in values.items()}, "fields": fields}


def test_all_of_ibv_device_attr_is_there(null: Null) -> None:
    # Each has a value of its own, so that none can be another's.
    names = [
        "max_qp", "max_qp_wr", "max_sge", "max_sge_rd", "max_cq", "max_cqe", "max_mr", "max_pd", "max_qp_rd_atom",
        "max_ee_rd_atom", "max_res_rd_atom", "max_qp_init_rd_atom", "max_ee_init_rd_atom", "max_ee", "max_rdd",
        "max_mw",
        "max_raw_ipv6_qp", "max_raw_ethy_qp", "max_mcast_grp", "max_mcast_qp_attach", "max_total_mcast_qp_attach",
        "max_ah", "max_fmr", "max_map_per_fmr", "max_srq", "max_srq_wr", "max_srq_sge", "max_pkeys", "vendor_id",
        "vendor_part_id", "max_mr_size",
    ]  # fmt: skip
    settings = {name.upper(): 1000 + number for number, name in enumerate(names)}
    came = null.run(
        attributes, PORTS=3, ATOMIC_CAP=2, DEVICE_CAP_FLAGS=1 << 17 | 1 << 31, LOCAL_CA_ACK_DELAY=31, **settings
    )
    assert came["ours"] == {name: 1000 + number for number, name in enumerate(names)} | {
        "fw_ver": "0.0.0", "node_guid": 0x0200000000000001, "sys_image_guid": 0x0200000000000001,
        "page_size_cap": 4096, "hw_ver": 0, "device_cap_flags": 1 << 17 | 1 << 31, "atomic_cap": 2,
        "local_ca_ack_delay": 31, "phys_port_cnt": 3,
    }  # fmt: skip
    assert set(came["ours"]) == set(came["fields"]) == fields_of_the_header("ibv_device_attr")


def fields_of_the_header(struct: str) -> set[str]:
    """The fields that the system's header has, read as text."""
    text = Path("/usr/include/infiniband/verbs.h").read_text()
    body = re.search(rf"struct {struct} {{(.*?)}};", text, re.DOTALL)
    assert body is not None
    return set(re.findall(r"(\w+)(?:\[\d+\])?;", re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)))


def port_attributes(num: int) -> dict[str, Any]:
    values = asdict(rdmaqp.open().port(num).query())
    return {name: int(value) for name, value in values.items()}


def test_all_of_ibv_port_attr_is_there(null: Null) -> None:
    came = null.run(
        port_attributes, 2, PORTS=2, LID="1,0x1234", SM_LID="2,3", LMC="0,7", ACTIVE_MTU="256,2048", MAX_MTU=4096,
        MAX_MSG_SZ="1,0x80000000", GID_TBL_LEN="3,5", PKEYS="ffff,7fff", GRH_REQUIRED="0,1", PORT_STATE="ACTIVE,INIT",
    )  # fmt: skip
    wanted = {
        "state": 2, "max_mtu": 4096, "active_mtu": 2048, "gid_tbl_len": 5, "max_msg_sz": 0x80000000, "pkey_tbl_len": 2,
        "lid": 0x1234, "sm_lid": 3, "lmc": 7, "link_layer": 1, "grh_required": 1,
    }  # fmt: skip
    assert {name: came[name] for name in wanted} == wanted
    # grh_required is a flag of its own, out of flags; the other came after rdma-core 56.
    assert set(came) - {"grh_required"} == fields_of_the_header("ibv_port_attr") - {"active_speed_ex"}


def ports() -> list[Any]:
    context = rdmaqp.devices()[0].open()
    wrong = {str(num): said(error_of(context.port, num)) for num in (0, -1, 3, 256, 2**70)}
    return [[port.num for port in context.ports], str(context.port(2)), wrong]


def test_a_port_that_is_not_there_names_those_that_are(null: Null) -> None:
    numbers, text, wrong = null.run(ports, PORTS=2)
    assert (numbers, text) == ([1, 2], "port 2 of null0")
    for number, answer in wrong.items():
        assert answer["type"] == "DeviceError"
        assert answer["text"] == f"device null0 has no port {number}; its ports are 1…2"
    assert null.calls("ibv_query_port") == []


def only_port() -> str:
    return str(error_of(rdmaqp.open().port, 2))


def test_the_only_port_is_said_to_be_it(null: Null) -> None:
    assert null.run(only_port) == "device null0 has no port 2; its only port is 1"


def down() -> list[Any]:
    port = rdmaqp.open().port(1)
    return [port.query().state.name, port.facts.state.name]  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"])
def test_each_port_state_is_said(null: Null, state: str) -> None:
    assert null.run(down, PORT_STATE=state) == [state, state]


# ---------------------------------------------------------------------- tables


def tables() -> list[Any]:
    return [
        [[entry.index, str(entry.gid), entry.type.name, entry.netdev] for entry in port.gids()]  # type: ignore[union-attr]
        for port in rdmaqp.open().ports
    ]


def test_each_port_has_its_own_gids(null: Null) -> None:
    assert null.run(
        tables, PORTS=2, LINK="infiniband,ethernet",
        GIDS="2=fe80::7/IB,0=fe80::200:0:0:1/IB;5=::ffff:192.0.2.9/ROCE_V2@lo,1=fe80::9/ROCE_V1",
    ) == [
        [[0, "fe80::200:0:0:1", "IB", None], [2, "fe80::7", "IB", None]],
        [[1, "fe80::9", "ROCE_V1", ""], [5, "::ffff:192.0.2.9", "ROCE_V2", "lo"]],
    ]  # fmt: skip


@pytest.mark.parametrize("settings", [{"GIDS": ";"}, {"GID_TBL_LEN": 0, "GIDS": ";"}], ids=["empty", "no table"])
def test_an_empty_table_is_empty(null: Null, settings: dict[str, Any]) -> None:
    assert null.run(tables, LINK="ethernet", **settings) == [[]]


def room_asked_for() -> list[int]:
    from rdmaqp.verbs import port

    lib, asked = native().lib, []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def ibv_query_gid_table(self, context: Any, entries: Any, room: int, flags: int) -> int:
            asked.append(room)
            return int(lib.ibv_query_gid_table(context, entries, room, flags))

    port.native = lambda: native()._replace(lib=Watching())
    for each in rdmaqp.open().ports:
        each.gids()
    return asked


@pytest.mark.parametrize(("lengths", "room"), [("8,3", 11), ("0", 1)])
def test_the_table_of_all_ports_has_room_and_the_kernel_is_never_asked_for_none(
    null: Null, lengths: str, room: int
) -> None:
    gids = ";" if lengths == "0" else "7=fe80::1/IB;2=fe80::2/IB"
    assert null.run(room_asked_for, PORTS=2, GID_TBL_LEN=lengths, GIDS=gids) == [room, room]


def net_device_elsewhere() -> list[Any]:
    from rdmaqp.verbs.port import _netdev

    return [_netdev(number).decode() for number in (1, 2**31 - 1, 0)]


def test_a_net_device_of_another_namespace_is_none_here(null: Null) -> None:
    assert null.run(net_device_elsewhere) == ["lo", "", ""]


def net_device_unasked() -> list[Any]:
    from rdmaqp.verbs.port import _netdev, entry_of

    raw = native().ffi.new("struct ibv_gid_entry *", {"gid_type": 2, "ndev_ifindex": 1})
    there = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (there, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return [entry_of(native().ffi.buffer(raw)[:], _netdev(1)).netdev]


def test_a_net_device_that_cannot_be_asked_for_is_not_taken_for_none(null: Null) -> None:
    assert null.run(net_device_unasked) == [None]  # to ask takes a descriptor, and none is left


def picked() -> list[Any]:
    choice = rdmaqp.open().port(1).pick_gid()
    return [choice.entry.index, choice.reason] if choice else []


@pytest.mark.parametrize(
    ("settings", "index"),
    [
        ({"GIDS": ";"}, None),
        ({"GIDS": "4=fe80::1/IB"}, 4),
        ({"LINK": "ethernet", "GIDS": "0=fe80::1/ROCE_V2@lo,1=192.0.2.1/ROCE_V1@lo,2=::ffff:192.0.2.1/ROCE_V2@lo"}, 2),
        ({"LINK": "ethernet", "GIDS": "0=fe80::1/ROCE_V2@lo,1=::ffff:192.0.2.1/ROCE_V1@lo"}, 0),
        ({"LINK": "ethernet", "GIDS": "0=::ffff:192.0.2.1/ROCE_V1@lo"}, 0),
    ],
)
def test_the_picker_looks_at_the_ports_own_table(null: Null, settings: dict[str, Any], index: int | None) -> None:
    settings = {name: str(value).replace("=192.", "=::ffff:192.") for name, value in settings.items()}
    came = null.run(picked, **settings)
    assert came[:1] == ([] if index is None else [index])


def keys() -> list[Any]:
    port = rdmaqp.open().port(1)
    return [
        {str(index): key for index, key in port.pkeys().items()}, [port.pkey(0), port.pkey(3)],
        said(error_of(port.pkey, 4)),
    ]  # fmt: skip


def test_partition_keys_by_index(null: Null) -> None:
    table, some, past = null.run(keys, PKEYS="ffff,0,7fff,8001")
    assert table == {"0": 0xFFFF, "2": 0x7FFF, "3": 0x8001}
    assert some == [0xFFFF, 0x8001]
    assert (past["type"], past["errno"]) == ("VerbsError", 2)  # ibv_query_pkey returns -1: errno has the reason
    assert past["text"].startswith("port 1 of null0: ibv_query_pkey failed: No such file or directory (ENOENT, 2)")


def endpoint(port_num: int, gid_index: int | None) -> list[Any]:
    context = rdmaqp.open()
    qp = context.alloc_pd().create_qp(context.create_cq(4), max_recv_wr=7)
    try:
        end = qp.endpoint(port_num, psn=5, gid_index=gid_index)
    except rdmaqp.DeviceError as error:
        return [str(error)]
    return [end.lid, end.gid_index, str(end.gid), end.path_mtu, end.rx_depth, end.port_num, end.qp_num == qp.qp_num]


TWO = {"LINK": "ethernet", "GIDS": "0=fe80::1/ROCE_V2@lo,3=::ffff:192.0.2.1/ROCE_V2@lo"}


@pytest.mark.parametrize(
    ("settings", "port", "index", "answer"),
    [
        ({}, 1, None, [17, 0, "fe80::200:0:0:1", 4096, 7, 1, True]),
        ({"GIDS": ";"}, 1, None, [17, None, "None", 4096, 7, 1, True]),  # InfiniBand needs none on its own subnet
        (TWO, 1, None, [0, 3, "::ffff:192.0.2.1", 1024, 7, 1, True]),
        (TWO, 1, 0, [0, 0, "fe80::1", 1024, 7, 1, True]),
        (TWO, 1, 1, ["GID index 1 of port 1 of null0 is empty or past its end; in use: 0, 3"]),
        (TWO, 1, 99, ["GID index 99 of port 1 of null0 is empty or past its end; in use: 0, 3"]),
        (TWO, 1, -1, ["GID index -1 of port 1 of null0 is empty or past its end; in use: 0, 3"]),
        ({"GIDS": ";"}, 1, 0, ["GID index 0 of port 1 of null0 is empty or past its end; in use: none"]),
        ({"LINK": "ethernet", "GIDS": ";"}, 1, None, [
            "port 1 of null0 has an empty GID table, so RoCE has no address to send from\n"
            "Bring its net device up and give it an IP address."
        ]),
        ({}, 0, None, ["device null0 has no port 0; its only port is 1"]),
        ({"PORTS": 2, "LID": "5,6"}, 2, None, [6, 0, "fe80::200:0:0:1", 4096, 7, 2, True]),
    ],
)  # fmt: skip
def test_what_an_end_says_of_itself(
    null: Null, settings: dict[str, Any], port: int, index: int | None, answer: list[Any]
) -> None:
    assert null.run(endpoint, port, index, **settings) == answer


# ---------------------------------------------------------------------- the driver


@pytest.mark.parametrize(
    ("file", "driver"),
    [
        ("/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so", "mlx5"),
        ("/usr/lib64/libibverbs/libmlx5-rdmav57.so", "mlx5"),
        ("/usr/lib/x86_64-linux-gnu/libmlx5.so.1", "mlx5"),
        ("/usr/lib/x86_64-linux-gnu/libmlx5.so.1.24.44.0", "mlx5"),
        ("libmlx4.so.1", "mlx4"),
        ("/opt/libibverbs/librxe-rdmav34.so", "rxe"),
        ("libsiw-rdmav34.so", "siw"),
        ("libbnxt_re-rdmav34.so", "bnxt_re"),
        ("libirdma-rdmav34.so", "irdma"),
        ("libhns-rdmav34.so", "hns"),
        ("libefa.so.1.2.44.0", "efa"),
        ("libmana.so.1", "mana"),
        ("libcxgb4-rdmav34.so", "cxgb4"),
        ("libhfi1verbs-rdmav34.so", "hfi1"),
        ("libipathverbs-rdmav34.so", "qib"),
        ("libvmw_pvrdma-rdmav34.so", "pvrdma"),
        ("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", None),
        ("libibverbs.so.1.14.44.0", None),
        ("/usr/lib/python3/_verbs.abi3.so", None),
        ("a.out", None),
        ("", None),
    ],
)
def test_the_driver_is_named_by_its_providers_file(file: str, driver: str | None) -> None:
    assert driver_of_provider(file) == driver


def test_every_provider_installed_here_has_a_driver() -> None:
    files = [*Path("/usr/lib").glob("*/libibverbs/lib*-rdmav*.so"), *Path("/usr/lib64").glob("libibverbs/*.so")]
    drivers = {driver_of_provider(str(file)) for file in files}
    assert None not in drivers
    assert not any(driver.endswith("verbs") for driver in drivers if driver)


def driver() -> list[Any]:
    context = rdmaqp.open()
    return [context.driver, repr(context), context.facts.driver]


def test_a_driver_that_nothing_names_is_unknown(null: Null) -> None:
    assert null.run(driver) == [None, "<Context null0, driver unknown>", None]


def transport_of_another_day() -> str:
    from rdmaqp.verbs import device

    name = native().ffi.new("char[]", b"new")
    names = SimpleNamespace(ibv_get_device_name=lambda _: name, ibv_get_device_guid=lambda _: 1)
    device.native = lambda: native()._replace(lib=names)
    return device._describe(SimpleNamespace(transport_type=9)).transport.name


def test_a_transport_that_is_newer_than_we_are_is_unknown(null: Null) -> None:
    assert null.run(transport_of_another_day) == "UNKNOWN"


def printed() -> list[str]:
    """What a user sees who prints each object."""
    first, second = connected()
    wc = rdmaqp.WorkCompletion(0x1F, 0, 128, 64, 0x41, 0, 0, 3, 0x10, 0, 0, 0, None)
    failed = rdmaqp.WorkCompletion(2, 12, 77, 99, 0x41, 5, 0x81, 0, None, 0, 0, 0, None)
    step = first.qp.transitions[0]
    things = [first.context.device, first.context.port(1), first.pd, first.cq, first.qp, step, wc, failed]
    said = [repr(thing) for thing in things]
    first.qp.close()
    return [*said, repr(first.qp), str(second.qp.state), repr(second.qp.query(0x1))]


def test_every_object_prints_what_it_is(null: Null) -> None:
    device, port, pd, cq, qp, step, wc, failed, closed, state, attr = null.run(printed)
    assert device == "Device(name='null0', node_guid=0x200000000000001, transport=IB)"
    assert (port, pd) == ("<port 1 of null0>", "<protection domain on null0>")
    assert (cq, qp) == ("<completion queue on null0>", "<RC queue pair 0x41 on null0>")
    assert step.startswith("Transition(RESET → INIT, STATE, ACCESS_FLAGS, PKEY_INDEX, PORT, time_ns=")
    assert wc == (
        "WorkCompletion(wr_id=0x1f, status=SUCCESS, qp_num=0x41, opcode=RECV, byte_len=64, wc_flags=0x3, imm=0x10)"
    )
    assert failed == "WorkCompletion(wr_id=0x2, status=RETRY_EXC_ERR, qp_num=0x41, vendor_err=0x81)"
    assert (closed, state, attr) == ("<RC queue pair 0x41 on null0, closed>", "RTS", "QPAttr(qp_state=RTS)")
