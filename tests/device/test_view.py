"""``rdmaqp watch`` and ``rdmaqp doctor`` on the kernel's own answers: our queue pairs, and mistakes that we make."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rdmaqp
from device.rc_ends import End
from rdmaqp import cli
from rdmaqp.cli.watch_events import DeviceEvents, named
from rdmaqp.host import sysfs
from rdmaqp.host.resources import changes, queue_pairs

ADDRESS, PEER = "198.51.100.1", "198.51.100.7"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The command in this process: an interpreter of its own takes seconds in the lab."""
    capsys.readouterr()
    status = cli.run(arguments)
    return status, capsys.readouterr().out


def test_watch_sees_our_queue_pairs(ends: tuple[End, End], capsys: pytest.CaptureFixture[str]) -> None:
    status, text = shown(capsys, "watch", "--once", "--json", "--pid", str(os.getpid()), "--type", "RC")
    assert status == 0
    found = {each["number"]: each for each in json.loads(text)}
    one, other = (end.qp.qp_num for end in ends)
    assert {found[one]["state"], found[other]["state"]} == {"RTS"}
    assert (found[one]["peer"], found[other]["peer"]) == (other, one)
    assert found[one]["pid"] == os.getpid()
    status, text = shown(capsys, "watch", "--once", "--pid", str(os.getpid()), "--state", "RTS")
    assert f"{one:#x}" in text
    status, text = shown(capsys, "watch", "--once", "--pid", str(os.getpid()), "--state", "ERR")
    assert "0 queue pairs" in text


def test_watch_sees_a_move(ends: tuple[End, End]) -> None:
    before = queue_pairs()
    ends[0].qp.modify(qp_state="ERR")
    after = queue_pairs()
    assert isinstance(before, tuple)
    assert isinstance(after, tuple)
    moved = [each for each in changes(before, after) if each.queue_pair.pid == os.getpid()]
    assert [(each.what, each.was, each.queue_pair.state, each.queue_pair.number) for each in moved] == [
        ("moved", "RTS", "ERR", ends[0].qp.qp_num)
    ]


def test_sysfs_is_read_as_libibverbs_reads_it(context: rdmaqp.Context) -> None:
    (view,) = sysfs.devices(only=[context.name])
    assert view.driver == context.driver
    assert view.ports[0].gids == context.port(1).gids()
    assert view.ports[0].state == context.port(1).query().state.name


def test_doctor_says_ok_for_the_device(device_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = shown(capsys, "doctor", device_name, "--json")
    lines = json.loads(text)["lines"]
    assert [line for line in lines if line["level"] == "error"] == []
    assert status == 0
    assert {line["check"]: line["level"] for line in lines if line["about"].startswith(device_name)}["port"] == "ok"


def run(command: str) -> None:
    subprocess.run(["sh", "-ec", command], check=True, capture_output=True)


@pytest.fixture
def own_device() -> Iterator[str]:
    """A Soft-RoCE device of its own, to be broken: the others' addresses must not move."""
    if os.geteuid() or not Path("/sys/module/rdma_rxe").is_dir():
        pytest.skip("needs root and Soft-RoCE")
    run(f"ip link add dv0 type veth peer name dv1; ip addr add {ADDRESS}/24 dev dv0")
    run("ip link set dv0 up; ip link set dv1 up; rdma link add rxe9 type rxe netdev dv0")
    try:
        yield "rxe9"
    finally:
        run("rdma link delete rxe9; ip link delete dv0")


def test_watch_hears_the_device(own_device: str) -> None:
    with DeviceEvents([own_device]) as heard:
        assert heard.deaf == {}
        run("ip link set dv0 down")
        end, found = time.monotonic() + 30, set()
        while "PORT_ERR" not in found and time.monotonic() < end:
            found |= {named(event) for name, event in heard.poll() if name == own_device and event.port_num == 1}
            time.sleep(0.1)
        assert "PORT_ERR" in found


def test_doctor_names_mistakes(own_device: str, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        status, text = shown(capsys, "doctor", own_device, "--json", *arguments)
        return status, {line["check"]: line for line in json.loads(text)["lines"]}

    status, lines = said("--peer", PEER)
    assert status == 1
    assert f"nobody answers for {PEER} on dv0" in lines["peer"]["says"]
    assert lines["port"]["level"] == lines["net device"]["level"] == lines["addresses"]["level"] == "ok"
    run(f"ip neigh replace {PEER} lladdr 02:00:00:00:00:07 dev dv0")
    status, lines = said("--peer", PEER)
    assert (status, lines["peer"]["level"]) == (0, "ok"), lines
    run("ip link set dv0 down")
    status, lines = said()
    assert status == 1
    assert lines["port"]["level"] == lines["net device"]["level"] == "error"
    assert lines["net device"]["mend"] == "ip link set dv0 up"
    run(f"ip link set dv0 up; ip addr del {ADDRESS}/24 dev dv0")
    status, lines = said()
    assert lines["addresses"]["level"] in ("warning", "error")
    assert lines["addresses"]["mend"] == "ip addr add ADDRESS/PREFIX dev dv0"
