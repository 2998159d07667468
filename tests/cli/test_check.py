"""``rdmaqp check``: answers in order, exit statuses, streams of any length, and whatever else may be in a file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rdmaqp.cli.lines import CHUNK, LONGEST, Batch, batches
from rdmaqp.guard import check
from rdmaqp.model import codec

from .conftest import Rdmaqp

CASES = Path(__file__).parent.parent / "cases"
GOOD = {"qp": {"type": "RC", "state": "RESET"}, "device": {"driver": "rxe"},
        "attr": {"qp_state": "INIT", "pkey_index": 0, "port_num": 1, "qp_access_flags": []}}  # fmt: skip
SMELLS = GOOD | {"attr": {"qp_state": "RESET"}}
BAD = GOOD | {"attr": {"qp_state": "RTS"}}


def cases() -> list[dict[str, Any]]:
    text = "".join((CASES / f"{name}.jsonl").read_text() for name in ("reports", "synthetic"))
    return [{"id": case["id"], **case["request"]} for case in map(json.loads, text.strip().split("\n"))]


def lines(*requests: object) -> str:
    return "".join(request if isinstance(request, str) else json.dumps(request) + "\n" for request in requests)


def answers(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def test_each_request_is_answered_as_the_guard_answers_it(rdmaqp: Rdmaqp) -> None:
    requests = cases()
    done = rdmaqp("check", "--json", "-", text=lines(*requests))
    assert answers(done) == [{"id": request["id"], **check(codec.decode(request)).to_dict()} for request in requests]
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("requests", "status"),
    [([GOOD], 0), ([GOOD, SMELLS], 0), ([GOOD, BAD, GOOD], 1), ([BAD, "x\n", GOOD], 2), ([], 2), (["\n \n"], 2)],
)
def test_exit_status(rdmaqp: Rdmaqp, requests: list[object], status: int) -> None:
    for more in ((), ("--json",)):
        assert rdmaqp("check", *more, "-", text=lines(*requests)).returncode == status


@pytest.mark.parametrize("identity", ["12", 12, 0, -1, 1.5, 1 << 80, "", "é→\u2028", "\ud800", '"\\\n'])
def test_the_id_is_given_back_as_it_came(rdmaqp: Rdmaqp, identity: object) -> None:
    (answer,) = answers(rdmaqp("check", "--json", "-", text=lines(GOOD | {"id": identity})))
    assert answer["id"] == identity
    assert type(answer["id"]) is type(identity)


def test_no_id_is_no_id(rdmaqp: Rdmaqp) -> None:
    assert list(answers(rdmaqp("check", "--json", "-", text=lines(GOOD)))[0]) == ["verdict", "findings", "skipped"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nope", "not JSON"),
        (b"\x7fELF\x02\x01\x00", "not JSON"),
        (b"\x80\x81", "not JSON: byte 0x80 at column 1 is not UTF-8"),
        (b"[1]", "a list is not an object"),
        (b"{", "a request is on one line: jq -c . makes it so"),
        (b'{"qp": {}, "attr": {"timeot": 1}}', "attr: unknown key 'timeot'; did you mean 'timeout'?"),
        (b'{"qp": {}, "qp": {}, "attr": {}}', "the key 'qp' is there twice"),
        (b'{"qp": {}, "attr": {}, "id": NaN}', "NaN"),
        (b'{"qp": {}, "attr": {}, "id": 1e999}', "id: inf"),
        (b'{"qp": {"qp_num": -Infinity}, "attr": {}}', "-Infinity"),
        (b'{"qp": {"qp_num": "12"}, "attr": {}}', "qp.qp_num: '12' is not a whole number"),
        (b'{"qp": {}}', "a request has exactly one act"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"qp":' * 100_000, "nested too deeply"),
        (b"7" * 5000, "not JSON"),
        (b"x" * (LONGEST + 1), "a line of 1,048,578 bytes"),
        (b"x" * (LONGEST * 3), "a line of 3,145,729 bytes"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_the_others_are_answered(
    rdmaqp: Rdmaqp, tmp_path: Path, line: bytes, message: str
) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_bytes(lines(GOOD, "\n", BAD).encode() + line + b"\r\n" + lines(SMELLS).encode().rstrip())
    done = rdmaqp("check", "--json", file)
    assert [answer["verdict"] for answer in answers(done)] == ["pass", "refuse", "warn"]
    assert done.stderr.startswith(f"rdmaqp: {file}:4: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 500
    assert done.returncode == 2


def test_files_that_cannot_be_read(rdmaqp: Rdmaqp, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    done = rdmaqp("check", "--json", tmp_path / "none", tmp_path, empty, "-", text=lines(GOOD))
    assert done.stderr.splitlines() == [
        f"rdmaqp: {tmp_path / 'none'}: No such file or directory", f"rdmaqp: {tmp_path}: Is a directory",
        f"rdmaqp: {empty}: it is empty: no request in it",
    ]  # fmt: skip
    assert [answer["verdict"] for answer in answers(done)] == ["pass"]
    assert done.returncode == 2


def test_a_byte_order_mark_is_no_trouble(rdmaqp: Rdmaqp) -> None:
    assert rdmaqp("check", "-", text=b"\xef\xbb\xbf" + lines(GOOD).encode()).returncode == 0


def test_where_nothing_could_be_read_no_summary_counts_it_as_a_request(rdmaqp: Rdmaqp) -> None:
    for arguments, text in (("nosuch",), ""), (("-",), "x\n"):
        done = rdmaqp("check", *arguments, text=text)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


def test_human_output(rdmaqp: Rdmaqp) -> None:
    done = rdmaqp("check", "-", text=lines(GOOD | {"id": "first"}, BAD, "x\n"))
    assert done.stdout.startswith("passes  stdin:1  id first\n  RC queue pair, RESET → INIT: nothing wrong\n")
    assert "REFUSED  stdin:2\n  RC queue pair, RESET → RTS: " in done.stdout
    assert "the way there: RESET → INIT → RTR → RTS" in done.stdout
    assert done.stdout.endswith("\n2 requests: 1 pass, 0 warn, 1 refused; 1 could not be read\n")
    assert "\x1b" not in done.stdout


def on_a_terminal(file: Path, **environment: str) -> str:
    """What a terminal of 80 columns is sent."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rdmaqp", "check", file.name], cwd=file.parent, stdout=theirs, stderr=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "80", "TERM": "xterm-256color"} | environment,
    )  # fmt: skip
    os.close(theirs)
    sent = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that nobody is at the other end any more
            break
        if not part:
            break
        sent += part
    os.close(ours)
    process.wait(30)
    return sent.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_lines_that_fit(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(lines(*cases()[:20]))
    sent = on_a_terminal(file)
    plain = re.sub("\x1b\\[[0-9;]*m", "", sent)
    assert "\x1b[1;7;31m REFUSED \x1b[0m" in sent
    assert max(map(len, plain.splitlines())) <= 80
    without = on_a_terminal(file, NO_COLOR="1")
    assert "\x1b" not in without
    assert "".join(plain.split()) == "".join(without.split())


# ---------------------------------------------------------------------- streams


def test_many_processes_answer_as_one_and_name_the_same_lines(rdmaqp: Rdmaqp, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    once = lines(*cases())
    file.write_text((once + "garbage\n") * 8)
    one, three = rdmaqp("check", "--json", "-j", 1, file), rdmaqp("check", "--json", "-j", 3, file)
    assert file.stat().st_size > 6 * CHUNK
    assert len(answers(one)) == 8 * len(cases())
    assert three.stdout == one.stdout
    assert three.stderr == one.stderr
    assert three.returncode == one.returncode == 2
    assert f":{316 * 8}: " in one.stderr


@pytest.mark.parametrize("before", [0, 2000])
def test_a_writer_that_waits_for_each_answer_gets_it(before: int) -> None:
    """Also once other processes have come in, which work on more than one line at a time."""
    command = [sys.executable, "-m", "rdmaqp", "check", "--json", "-j", "2", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        flood = lines(GOOD | {"device": {"driver": "rxe", "name": "x" * 500}}).encode()
        for _ in range(0, before, 100):
            process.stdin.write(flood * 100)
            process.stdin.flush()
            for _ in range(100):
                process.stdout.readline()
        for number in range(5):
            process.stdin.write(lines(GOOD | {"id": number}).encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait(30) == 0


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A hundred megabytes on one line, then as much in lines: neither is ever held."""
    file = tmp_path / "requests.jsonl"
    with file.open("wb") as out:
        for _ in range(100):
            out.write(b"x" * (1 << 20))
        out.write(b"\n" + lines(*cases()).encode() * 20)
    # Not ru_maxrss: that counts what this process, which forks, had in memory before the child's own program began.
    code = "import pathlib, re, sys; from rdmaqp.cli import run; status = run(sys.argv[1:]);" \
           "peak = re.search(r'VmHWM:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1];" \
           "print(peak, file=sys.stderr); sys.exit(status)"
    done = subprocess.run(
        [sys.executable, "-c", code, "check", "--json", "-j", "1", file], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert b":1: a line of 104,857,600 bytes" in done.stderr
    assert int(done.stderr.splitlines()[-1]) < 80 << 10, "kilobytes"


def test_a_reader_that_has_enough_ends_it_and_its_processes(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(lines(*cases()) * 20)
    command = [sys.executable, "-m", "rdmaqp", "check", "--json", "-j", "2", str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 128 + signal.SIGPIPE
        assert process.stderr
        assert process.stderr.read() == b""
        assert group_is_gone(process.pid)


def test_its_processes_end_with_it(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(lines(*cases()) * 40)
    command = [sys.executable, "-m", "rdmaqp", "check", "--json", "-j", "2", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        for _ in range(315 * 12):  # until others have come in
            process.stdout.readline()
        process.kill()
        process.wait(30)
        assert group_is_gone(process.pid)


def group_is_gone(group: int) -> bool:
    """Whether every process of the group has ended, or does so soon."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_batches_are_whole_lines_however_they_arrive() -> None:
    text = b"".join(b"%d %s\n" % (number, b"x" * (number * 37 % 900)) for number in range(2000)) + b"last"
    reader, writer = os.pipe()
    if os.fork() == 0:
        for start in range(0, len(text), 4093):
            os.write(writer, text[start : start + 4093])
        os._exit(0)
    os.close(writer)
    got = [batch for batch in batches(reader) if batch is not None]
    os.close(reader)
    os.wait()
    assert b"".join(batch.data for batch in got) == text
    for batch in got:
        assert batch.data.startswith(b"%d " % (batch.first - 1)) or batch.data == b"last"


def test_a_line_too_long_is_counted_and_the_next_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\n" + b"x" * (LONGEST + CHUNK + 5) + b"\nb\n" + b"y" * (LONGEST * 2))
    with file.open("rb") as opened:
        got = [batch for batch in batches(opened.fileno()) if batch is not None]
    assert got == [
        Batch(1, b"a\n"), Batch(2, b"", LONGEST + CHUNK + 5), Batch(3, b"b\n"), Batch(4, b"", LONGEST * 2),
    ]  # fmt: skip


def test_a_full_disk_is_said(rdmaqp: Rdmaqp) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rdmaqp", "check", "--json", "-"], input=lines(GOOD).encode(), stdout=full,
            stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"cannot write to standard output: No space left on device" in done.stderr
    assert b"stdin" not in done.stderr, "the input is not to blame"
    assert b"Traceback" not in done.stderr
