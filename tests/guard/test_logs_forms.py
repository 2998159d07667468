"""Lines as people really have them: broken by a terminal or a mail, in containers' logs, beside what is no failure."""

from __future__ import annotations

import textwrap

import pytest

from rdmaqp.guard.cause import CAUSES
from rdmaqp.guard.logs.explain import explain
from rdmaqp.guard.logs.happened import CM, REJECTED, UNTOLD
from rdmaqp.guard.logs.reader import Failure, Reader, Stranger
from rdmaqp.guard.logs.words import read as words
from rdmaqp.guard.rules import RULES
from rdmaqp.guard.vendor_errors import sense

NCCL = ("gpu-2:8441:8600 [1] misc/ibvwrap.cc:222 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, "
        "on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.0.2.1, remote GID "
        "::ffff:192.0.2.2")  # fmt: skip


def read(text: str) -> list[Failure | Stranger]:
    reader = Reader()
    found = [each for line in text.split("\n") for each in reader.feed(line)]
    return [*found, *reader.close()]


def only(text: str) -> Failure:
    (failure,) = read(text)
    assert isinstance(failure, Failure)
    return failure


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("width", [72, 80, 100, 132])
def test_a_line_that_was_broken_at_the_edge_is_read_whole(width: int, end: str) -> None:
    failure = only(end.join(NCCL[at : at + width] for at in range(0, len(NCCL), width)))
    known = failure.known
    assert (known["errno"], known["device"], known["port"], known["gid_index"]) == (110, "mlx5_0", 1, 3)
    assert (str(known["gid"]), str(known["peer_gid"])) == ("::ffff:192.0.2.1", "::ffff:192.0.2.2")


def test_a_line_that_was_broken_between_words_is_read_whole() -> None:
    begin = "pyverbs.pyverbs_error.PyverbsRDMAError: Failed to modify QP state to"
    failure = only(f"{begin}\nRTR. Errno: 22, Invalid argument")
    assert (failure.known["errno"], failure.known["goal"].name) == (22, "RTR")


def test_a_line_that_a_mail_quotes_in_pieces_is_read_whole() -> None:
    pieces = textwrap.wrap(NCCL, 76)
    assert len(pieces) >= 3
    known = only("\n".join(f"> {each}" for each in pieces)).known
    assert (known["errno"], known["gid_index"], str(known["peer_gid"])) == (110, 3, "::ffff:192.0.2.2")


def test_a_number_that_is_none_is_left_out() -> None:
    assert words({"state_number": "0x3ype", "errno": "22"}) == {"errno": 22}


def test_lines_that_only_follow_are_not_taken_for_the_rest() -> None:
    failure = only(f"{NCCL}\n7 workers left\ntrain loss 0.1\nall is well")
    assert (failure.first, failure.last) == (1, 1)


@pytest.mark.parametrize("before", [
    "[rank3]: ", "[1,23]<stderr>:", "(VllmWorkerProcess pid=8441) ", "\x1b[36m(RayWorkerWrapper pid=1271)\x1b[0m ",
    "2025-05-16T16:39:51.208123456Z stderr F ", "Nov 29 13:06:13 node2 train[77]: ", "trainer-0  | ", "> ",
    '{"log":"',
])  # fmt: skip
def test_what_others_put_before_a_line_does_not_matter(before: str) -> None:
    assert only(before + NCCL).known["gid_index"] == 3


@pytest.mark.parametrize(("text", "status", "vendor_err", "qp_num"), [
    ("mlx5: node1: got completion with error:\n00000000 00000000 00000000 00000000\n"
     "00000000 00000000 00000000 00000000\n"
     "00000001 00000000 00000000 00000000\n00000000 00008813 08000069 000157d2", 10, 0x88, 0x69),
    ("[1.0] infiniband mlx5_0: dump_cqe:277:(pid 0): WC error: 4, Message: local protection error\n"
     "[1.0] infiniband mlx5_0: dump_cqe:278:(pid 0): dump error cqe\n"
     "[1.0] 00000000: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
     "[1.0] 00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
     "[1.0] 00000020: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
     "[1.0] 00000030: 00 00 00 00 00 00 51 04 0a 00 01 23 00 10 41 d2", 4, 0x51, 0x123),
])  # fmt: skip
def test_the_dump_of_an_error_completion_is_decoded(text: str, status: int, vendor_err: int, qp_num: int) -> None:
    known = only(text).known
    assert (int(known["status"]), known["vendor_err"], known["qp_num"]) == (status, vendor_err, qp_num)


@pytest.mark.parametrize("text", [
    "gpu1:10:22 [3] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    "gpu1:10:22 [3] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
    "[rdma] rdma.c: 577:nvmf_rdma_connect: Listen Id was 0x1b22d70 with verbs 0x1b25aa0. ListenAddr: 0x1b25260",
    "        max_qp_rd_atom:                 16",
    " remote address: LID 0x01 QPN 0x003a PSN 0xc0fd7e RKey 0x002442 VAddr 0x007f443b2f8000",
    "[   12.345678] nvme nvme0: mapped 32/0/0 default/read/poll queues.",
    "[   12.345678] bnxt_en 0000:12:00.0 bnxt_re0: Device registered with IB successfully",
    " QP 0x7f0a640414e8 state was change to RTS",
    'INFO 12-16 08:39:36 logger.py:37] Received request cmpl-24: prompt: "how do I fix ibv_modify_qp failing?"',
    "ERROR 404 GET /docs/rdma/status=12/vendor_err",
    "curl: (28) Failed to connect to example.com port 443: Connection timed out",
    'psql: error: connection to server at "192.0.2.5", port 5432 failed: Connection refused',
    "job finished with status 12 (mlx5_0 was idle)",
    "Test rdma_modify_qp_timeout ... ok",
    "0 errors, 0 failures: 128 QPs created on mlx5_0, all in RTS",
    "make: *** [Makefile:12: rdma_server] Error 2",
    "ib_write_bw: completed with status success (0)", "wc.status=0 success", "cq completion: 64 entries, all status 0",
    "Failed to modify quota for user: Invalid argument", "Failed to create queue for worker: Permission denied",
    "job failed: gcc: fatal error: no input files", "the build failed with a general error",
    "upload failed: operation aborted by the user", "test status: response timeout error (http)",
])  # fmt: skip
def test_nothing_is_claimed_of_what_is_no_failure(text: str) -> None:
    assert read(text) == []


def test_the_reason_of_a_rejection_is_no_error_number() -> None:
    failure = only("cma event RDMA_CM_EVENT_REJECTED, error 8")
    assert "errno" not in failure.known
    assert failure.known["reject"] == 8
    assert [cause.cause for cause in explain(failure).causes if cause.standing == "likely"] == ["peer-not-ready"]


@pytest.mark.parametrize("text", [
    "failed to modify QP to RTR: Invalid argument (os error 22)", "panic: ibv_modify_qp failed: invalid argument",
    "ibv_modify_qp failed: Das Argument ist ungültig (errno 22)", "ibv_modify_qp failed, errno=-22",
    "ibv_modify_qp: Invalid argument",
])  # fmt: skip
def test_an_error_number_is_read_however_it_is_written(text: str) -> None:
    assert only(text).known["errno"] == 22


def test_the_causes_of_the_tables_are_known() -> None:
    for reasons in (*CM.values(), *REJECTED.values(), *UNTOLD.values()):
        assert all(cause in RULES or cause in CAUSES for cause, _, _ in reasons)


@pytest.mark.parametrize(("vendor_err", "words", "cause"), [
    (0x51, "PCIe error when data was gathered", "memory-not-pinnable"),
    (0x52, "another protection domain", "local-key"),
    (0x3C, "past the end of the region of an RDMA write", "local-key"), (0x81, "retries are used up", ""),
    (0x85, "the peer told of missing packets", "peer-unreachable"), (0xA5, "no receive posted", ""),
    (0x8E, "path MTU", "peer-mtu"), (0xF5, "moved to ERR by a command", ""),
])  # fmt: skip
def test_a_syndrome_of_mlx5_is_put_into_words(vendor_err: int, words: str, cause: str) -> None:
    found = sense("mlx5", vendor_err)
    assert found is not None
    assert words in found.words
    assert found.cause == cause
    assert not cause or cause in RULES or cause in CAUSES


@pytest.mark.parametrize(("driver", "vendor_err"), [
    ("bnxt_re", 0x51), (None, 0x81), ("mlx5", None), ("mlx5", 0), ("mlx5", 0xFF), ("mlx5", 0x30),
])  # fmt: skip
def test_a_number_that_nobody_has_explained_is_not_explained(driver: str | None, vendor_err: int | None) -> None:
    assert sense(driver, vendor_err) is None


def test_a_syndrome_stands_in_the_title_and_is_hedged_where_the_device_is_not_told() -> None:
    line = "Got completion from peer 192.0.2.9<4791> with status=12 opcode=0 len=0 vendor err 133 (Send){0}"
    words = "the peer told of missing packets, and the retries are used up"
    assert f"({words})" in explain(only(line.format(" localGid :: remoteGids:: hca mlx5_3"))).title
    assert f"(on mlx5: {words})" in explain(only(line.format(""))).title
    assert words not in explain(only(line.format(" localGid :: remoteGids:: hca bnxt_re3"))).title
