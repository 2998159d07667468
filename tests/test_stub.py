"""The null device itself: that programs take it for libibverbs, and that it records what it was handed."""

from __future__ import annotations

import ctypes
import errno
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stub import NullDevice, build, compile_program
from stub.build import PROGRAMS, SONAME, real_library

RTR, RTS, ERR = 2, 3, 6
GID_IB, GID_ROCE_V2 = 0, 2

# The real library's, which no program outside rdma-core and no driver of ours refers to.
NOT_FOR_PROGRAMS = {
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_register_driver",
}


@pytest.fixture(scope="session")
def two_queue_pairs(stub_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(PROGRAMS / "two_queue_pairs.c", tmp_path_factory.mktemp("program"))


def versioned_symbols(library: Path) -> set[tuple[str, str]]:
    listing = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    # In brackets are versions kept for programs of twenty years ago; the linker takes the others.
    return set(re.findall(r" (IBVERBS_\d\S*) +(_?ibv_\S+|mult_to\S+|mbps_to\S+)$", listing, re.MULTILINE))


def test_every_symbol_of_the_real_library_is_there_in_its_version(stub_library: Path) -> None:
    real = real_library()
    assert real is not None
    wanted = {(version, name) for version, name in versioned_symbols(real) if name not in NOT_FOR_PROGRAMS}
    known = {version for version, _ in versioned_symbols(stub_library / SONAME)}
    assert len(wanted) > 70
    # Versions newer than the oldest headers that we build with belong to verbs that are not in those headers.
    assert {(v, n) for v, n in wanted if v in known} <= versioned_symbols(stub_library / SONAME)


def test_a_second_build_is_the_first(stub_library: Path) -> None:
    assert build(stub_library.parent) == stub_library


def test_a_program_connects_sends_and_closes(null_device: NullDevice, two_queue_pairs: Path) -> None:
    done = null_device.run([two_queue_pairs])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-3:] == [
        "sent SUCCESS",
        "received SUCCESS 24 through the null device",
        f"state {RTS} remembered {RTS} dest_qp_num 66",
    ]
    (closed,) = null_device.calls("ibv_close_device")
    assert (closed["alive"], closed["posts"], closed["polls"], closed["lost"]) == (0, 2, 1, 0)


def test_a_datagram_goes_through_a_shared_queue(null_device: NullDevice, tmp_path: Path) -> None:
    done = null_device.run([compile_program(PROGRAMS / "datagram.c", tmp_path)])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "sent 0",
        "received 0 length 46 flags 3 imm abcd from itself 1: hello",
        "sent 0",  # nobody had posted a receive
        f"posts 0 {errno.ENOMEM} 0 {errno.ENOMEM}",
    ]
    assert null_device.calls("ibv_close_device")[0]["lost"] == 1
    (handle,) = null_device.calls("ibv_create_ah")
    fields = null_device.fields(handle)
    assert (fields["dlid"], fields["is_global"], fields["grh.dgid"]) == (9, 1, bytes(15) + b"\x07")


def test_the_log_has_the_bytes_handed_over(null_device: NullDevice, two_queue_pairs: Path) -> None:
    done = null_device.run([two_queue_pairs], LID="0x2a")
    handed = re.findall(r"^modify (\w+) 0$", done.stdout, re.MULTILINE)
    calls = null_device.calls("ibv_modify_qp")
    assert len(handed) == 6
    assert [call["attr"] for call in calls] == handed
    rtr = null_device.fields(calls[1])
    assert rtr["qp_state"] == RTR
    assert rtr["rq_psn"] == 0x123456
    assert rtr["dest_qp_num"] == calls[3]["qp_num"]
    assert (rtr["ah_attr.dlid"], rtr["ah_attr.sl"], rtr["ah_attr.is_global"]) == (0x2A, 3, 0)
    assert rtr["ah_attr.grh.dgid"] == bytes(16)


def test_the_order_of_closing_is_in_the_log(null_device: NullDevice, two_queue_pairs: Path) -> None:
    null_device.run([two_queue_pairs])
    ends = [
        (call["call"], call["number"], call["result"])
        for call in null_device.calls()
        if re.search("destroy|dereg|dealloc|close", call["call"])
    ]
    assert ends == [
        ("ibv_destroy_cq", 1, errno.EBUSY),  # queue pairs still use it
        ("ibv_destroy_qp", 2, 0),
        ("ibv_destroy_qp", 1, 0),
        ("ibv_destroy_cq", 1, 0),
        ("ibv_destroy_comp_channel", 1, 0),
        ("ibv_dereg_mr", 1, 0),
        ("ibv_dealloc_pd", 1, 0),
        ("ibv_close_device", 1, 0),
    ]


def test_modify_answers_the_error_asked_for_and_leaves_the_state(
    null_device: NullDevice, two_queue_pairs: Path
) -> None:
    done = null_device.run([two_queue_pairs], MODIFY_ERRNO="RTR=22,RTS=-110")
    assert re.findall(r"^modify \w+ (\S+)$", done.stdout, re.MULTILINE) == ["0", "22", "-110"] * 2
    assert "state 1 remembered 1 dest_qp_num 0" in done.stdout
    assert [call["result"] for call in null_device.calls("ibv_modify_qp")] == [0, 22, -110] * 2


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"REG_MR_ERRNO": 12}, "mr errno 12"),
        ({"CREATE_QP_ERRNO": -12}, "qp errno 12"),
        ({"QUERY_QP_ERRNO": 95}, "state errno 95"),
        ({"NO_DEVICES": 1}, "device errno 0"),
        ({"GET_DEVICE_LIST_ERRNO": 38}, "list errno 38"),
    ],
)
def test_a_verb_answers_the_error_asked_for(
    null_device: NullDevice, two_queue_pairs: Path, settings: dict[str, object], line: str
) -> None:
    assert line in null_device.run([two_queue_pairs], **settings).stdout.splitlines()


def test_a_failed_send_moves_the_queue_pair_behind_the_programs_back(
    null_device: NullDevice, two_queue_pairs: Path
) -> None:
    done = null_device.run([two_queue_pairs], WC_STATUS="RETRY_EXC_ERR")
    assert "sent RETRY_EXC_ERR" in done.stdout
    assert "received" not in done.stdout
    assert f"state {ERR} remembered {RTS}" in done.stdout


def test_a_dropped_message_completes_at_the_sender_alone(null_device: NullDevice, two_queue_pairs: Path) -> None:
    done = null_device.run([two_queue_pairs], DROP=1)
    assert "sent SUCCESS" in done.stdout
    assert "received" not in done.stdout


def test_a_misspelt_setting_stops_the_program(null_device: NullDevice, two_queue_pairs: Path) -> None:
    done = null_device.run([two_queue_pairs], PORT_STATE="ACTIV")
    assert done.returncode < 0
    assert '"ACTIV" in the environment: expected a port state' in done.stderr


# Tables: asked through ctypes, of a library that is no libibverbs to this process.


class GidEntry(ctypes.Structure):
    _fields_ = (
        ("gid", ctypes.c_uint8 * 16),
        ("gid_index", ctypes.c_uint32),
        ("port_num", ctypes.c_uint32),
        ("gid_type", ctypes.c_uint32),
        ("ndev_ifindex", ctypes.c_uint32),
    )


class Opened:
    """The first device, by ctypes."""

    def __init__(self, library: Path) -> None:
        self.lib = ctypes.CDLL(str(library / SONAME), use_errno=True)
        self.lib.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
        self.lib.ibv_get_device_name.restype = ctypes.c_char_p
        self.lib.ibv_open_device.restype = ctypes.c_void_p
        self.lib._ibv_query_gid_table.restype = ctypes.c_ssize_t
        count = ctypes.c_int()
        self.list = self.lib.ibv_get_device_list(ctypes.byref(count))
        devices = [ctypes.c_void_p(self.list[index]) for index in range(count.value)]
        self.names = [self.lib.ibv_get_device_name(device).decode() for device in devices]
        self.context = ctypes.c_void_p(self.lib.ibv_open_device(devices[0]))

    def gid(self, port: int, index: int) -> GidEntry | int:
        entry = GidEntry()
        size = ctypes.c_size_t(ctypes.sizeof(entry))
        result: int = self.lib._ibv_query_gid_ex(self.context, port, index, ctypes.byref(entry), 0, size)
        return result or entry

    def gid_table(self, room: int) -> list[GidEntry] | int:
        entries = (GidEntry * room)()
        count: int = self.lib._ibv_query_gid_table(
            self.context, entries, ctypes.c_size_t(room), 0, ctypes.c_size_t(ctypes.sizeof(GidEntry))
        )
        return count if count < 0 else entries[:count]

    def pkey(self, port: int, index: int) -> int | None:
        pkey = (ctypes.c_uint8 * 2)()
        if self.lib.ibv_query_pkey(self.context, port, index, pkey):
            return None
        return int.from_bytes(bytes(pkey), "big")

    def close(self) -> None:
        self.lib.ibv_close_device(self.context)
        self.lib.ibv_free_device_list(self.list)


@pytest.fixture
def opened(
    null_device: NullDevice, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Opened]:
    for name, value in null_device.environment(**request.param).items():
        if name.startswith("RDMAQP_STUB_"):
            monkeypatch.setenv(name, value)
    device = Opened(null_device.library)
    yield device
    device.close()


@pytest.mark.parametrize("opened", [{"DEVICES": "mlx5_0,mlx5_1"}], indirect=True)
def test_devices_have_the_names_given(opened: Opened) -> None:
    assert opened.names == ["mlx5_0", "mlx5_1"]


@pytest.mark.parametrize(
    "opened", [{"PORTS": 2, "GIDS": "0=fe80::7/IB,2=::ffff:192.0.2.9/ROCE_V2@lo;1=fec0::1/IB"}], indirect=True
)
def test_the_gid_table_is_the_one_given(opened: Opened) -> None:
    first = opened.gid(1, 2)
    assert isinstance(first, GidEntry)
    assert bytes(first.gid)[-6:] == b"\xff\xff\xc0\x00\x02\x09"
    assert (first.gid_type, first.gid_index, first.port_num, first.ndev_ifindex) == (GID_ROCE_V2, 2, 1, 1)
    assert opened.gid(1, 1) == errno.ENODATA
    assert opened.gid(1, 8) == opened.gid(3, 0) == errno.EINVAL
    table = opened.gid_table(8)
    assert not isinstance(table, int)
    assert [(e.port_num, e.gid_index, e.gid_type) for e in table] == [
        (1, 0, GID_IB),
        (1, 2, GID_ROCE_V2),
        (2, 1, GID_IB),
    ]
    assert opened.gid_table(2) == -errno.EINVAL


@pytest.mark.parametrize("opened", [{"GIDS": ";"}], indirect=True)
def test_the_gid_table_may_be_empty(opened: Opened) -> None:
    assert opened.gid(1, 0) == errno.ENODATA
    assert opened.gid_table(8) == []


@pytest.mark.parametrize("opened", [{"PKEYS": "ffff,7fff", "PKEY_TBL_LEN": 3}], indirect=True)
def test_the_pkey_table_is_the_one_given(opened: Opened) -> None:
    assert [opened.pkey(1, index) for index in range(4)] == [0xFFFF, 0x7FFF, 0, None]
    assert opened.pkey(2, 0) is None
    assert ctypes.get_errno() == errno.ENOENT
    assert opened.lib.ibv_get_pkey_index(opened.context, 1, int.from_bytes(b"\x7f\xff", "little")) == 1


# ibv_devinfo: a program of rdma-core's own, which uses its private symbols as well.


def devinfo(null_device: NullDevice, *arguments: str, **settings: object) -> dict[str, str]:
    if shutil.which("ibv_devinfo") is None:
        pytest.skip("ibv_devinfo is not installed (Debian: ibverbs-utils)")
    done = null_device.run(["ibv_devinfo", *arguments], **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(re.findall(r"^\s*(\S[^:]*):\s+(\S.*?)\s*$", done.stdout, re.MULTILINE))


def test_ibv_devinfo_sees_an_infiniband_port(null_device: NullDevice) -> None:
    said = devinfo(null_device, "-v", LID=0x1234, LMC=2, ACTIVE_MTU=2048, MAX_QP_RD_ATOM=4, GRH_REQUIRED=1)
    assert said["hca_id"] == "null0"
    assert said["link_layer"] == "InfiniBand"
    assert said["state"] == "PORT_ACTIVE (4)"
    assert (said["port_lid"], said["port_lmc"]) == (str(0x1234), "0x02")
    assert said["active_mtu"] == "2048 (4)"
    assert said["max_qp_rd_atom"] == "4"
    assert said["max_qp_init_rd_atom"] == "16"
    assert said["GID[  0]"] == "fe80:0000:0000:0000:0200:0000:0000:0001"


def test_ibv_devinfo_sees_an_ethernet_port_that_is_down(null_device: NullDevice) -> None:
    said = devinfo(null_device, LINK="ethernet", PORTS=2, PORT_STATE="ACTIVE,DOWN")
    assert said["link_layer"] == "Ethernet"
    assert said["state"] == "PORT_DOWN (1)"  # the second port's, which is printed last
    assert said["phys_port_cnt"] == "2"


def test_a_setting_may_be_one_devices(null_device: NullDevice) -> None:
    settings = {"DEVICES": "a,b", "PORT_STATE": "DOWN", "b_PORT_STATE": "INIT"}
    assert devinfo(null_device, "-d", "a", **settings)["state"] == "PORT_DOWN (1)"
    assert devinfo(null_device, "-d", "b", **settings)["state"] == "PORT_INIT (2)"
