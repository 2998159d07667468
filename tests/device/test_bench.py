"""The benchmark on a real kernel's RDMA stack: each operation and type, loopback and two processes, small counts."""

from __future__ import annotations

from typing import Any

import pytest

import rdmaqp
from device.conftest import finish, result
from forked import Forked
from rdmaqp.connection.bench import run_loopback
from rdmaqp.connection.bench_plan import Options
from rdmaqp.model.enums import QPType

CAN = {"RC": ("send", "write", "read", "atomic"), "UC": ("send", "write"), "UD": ("send",)}
PAIRS = [(kind, op) for kind, ops in CAN.items() for op in ops]


def bench(*arguments: object) -> Forked:
    return Forked(["bench", *map(str, arguments)])


@pytest.mark.parametrize(("kind", "op"), PAIRS)
def test_loopback(device_name: str, kind: str, op: str) -> None:
    done = run_loopback(
        Options(device=device_name, qp_type=QPType[kind], operations=(op,), sizes=(1, 64, 1000), iterations=40)
    )
    assert not done.skipped
    assert [row.messages for row in done.rows] == [40] * len(done.rows)
    for row in done.rows:
        if row.case.kind == "latency":
            assert len(row.latencies_us) == 39
            assert min(row.latencies_us) > 0
        else:
            assert row.messages_per_s


@pytest.mark.parametrize(("kind", "op"), PAIRS)
def test_two_processes(device_name: str, free_port: int, kind: str, op: str) -> None:
    server = bench("-d", device_name, "-p", free_port)
    common = ("-d", device_name, "-p", free_port)
    said = result(bench("127.0.0.1", *common, "-c", kind, "--op", op, "-n", 50, "-s", 64, "--json"))
    assert len(said["rows"]) == 2
    for row in said["rows"]:
        assert row["messages"] + row["lost"] == 50
        assert row["messages"] == 50 or kind != "RC"
    assert "served 2 measurements" in finish(server)[0]


def test_long_messages_batches_and_few_signals(device_name: str) -> None:
    options = Options(
        device=device_name, kinds=("bandwidth",), operations=("send", "write", "read"), sizes=(70_000,), iterations=64,
        tx_depth=32, rx_depth=16, post_list=8, cq_mod=20,
    )  # fmt: skip
    assert [row.messages for row in run_loopback(options).rows] == [64] * 3


def test_atomics_add(device_name: str) -> None:
    """What the loop posts is what happens: a hundred times one is added to the peer's eight bytes."""
    with rdmaqp.open(device_name) as context, context.alloc_pd() as pd:
        cq = context.create_cq(128)
        access = rdmaqp.AccessFlag.LOCAL_WRITE | rdmaqp.AccessFlag.REMOTE_ATOMIC
        ours, theirs = pd.alloc_mr(8), pd.alloc_mr(8, access)
        pairs = [pd.create_qp(cq) for _ in range(2)]
        ends = [qp.endpoint(psn=number) for number, qp in enumerate(pairs)]
        for qp, local, remote in zip(pairs, ends, reversed(ends), strict=True):
            qp.connect(local, remote, access=access)
        work = rdmaqp.FetchAdd(ours[0:8], theirs.remote, 1)
        rdmaqp.Stream(pairs[0], work, count=100, signal_every=5).run(timeout=60)
        assert int.from_bytes(theirs.buffer, "little") == 100
        assert int.from_bytes(ours.buffer, "little") == 99


def not_allowed(context: rdmaqp.Context, access: int) -> tuple[rdmaqp.Stream, Any]:
    pd, cq = context.alloc_pd(), context.create_cq(64)
    region = pd.alloc_mr(64)
    pairs = [pd.create_qp(cq) for _ in range(2)]
    ends = [qp.endpoint(psn=number) for number, qp in enumerate(pairs)]
    for qp, local, remote in zip(pairs, ends, reversed(ends), strict=True):
        qp.connect(local, remote, access=access)
    work = rdmaqp.Write(region[0:64], rdmaqp.RemoteMemory(region.addr, 64, region.rkey), wr_id=500)
    return rdmaqp.Stream(pairs[0], work, count=100, window=8), pairs[0]


@pytest.mark.parametrize(
    ("access", "status"),
    [
        # The queue pair takes no WRITE at all: no such request (rxe_resp.c, check_op_valid) …
        (rdmaqp.AccessFlag.LOCAL_WRITE, "REM_INV_REQ_ERR"),
        # … it does, and the region does not (check_rkey).
        (rdmaqp.AccessFlag.LOCAL_WRITE | rdmaqp.AccessFlag.REMOTE_WRITE, "REM_ACCESS_ERR"),
    ],
)
def test_a_refused_write_is_named(context: rdmaqp.Context, access: int, status: str) -> None:
    stream, qp = not_allowed(context, access)
    with pytest.raises(rdmaqp.CompletionError, match="It was request 0") as caught:
        stream.run(timeout=60)
    assert caught.value.status_name == status
    assert "access-denied" in {cause.cause for cause in caught.value.causes}
    assert caught.value.wr_id == 500
    assert stream.completed == 0
    assert qp.state is rdmaqp.QPState.ERR
