"""The program is as it would be without a guard: its streams, its end, and with a judge that dies, stalls or goes."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from preload.conftest import compiled
from preload.mistakes import GID, ROCE
from preload.watching import PATIENCE, serving, watch
from rdmaqp import cli
from rdmaqp.cli.guard_show import Teller
from rdmaqp.preload import launch
from rdmaqp.preload.judge import Judge
from rdmaqp.preload.server import Server, sweep
from stub import NullDevice

RDMAQP = [sys.executable, "-m", "rdmaqp"]
#: Of a shell: end the processes in $all once each has brought its queue pair up, which the null device's log tells.
UNTIL_ALL = (
    'until [ "$(grep -c ibv_modify_qp "$RDMAQP_STUB_LOG")" -ge 120 ]; do sleep 0.2; done; sleep 1; kill $all; wait'
)
#: The machine may stall for longer than the usual deadline.
GUARD = [*RDMAQP, "guard", "--deadline", "60"]


def guard(
    device: NullDevice, *words: str | Path, given: str = "", **settings: object
) -> subprocess.CompletedProcess[str]:
    """Run the command; *words* are its options and the program."""
    return subprocess.run(
        [*GUARD, *map(str, words)], env=device.environment(**settings), input=given, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def started(device: NullDevice, *words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*GUARD, *map(str, words)], env=device.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


# ---------------------------------------------------------------------- the command


def test_what_it_says_at_the_end(programs: Path, null_device: NullDevice) -> None:
    done = guard(null_device, "--", programs / "linked", "fork")
    assert (done.returncode, done.stdout) == (0, "")
    first, *rest = done.stderr.splitlines()
    assert first == "rdmaqp guard: 3 queue pairs in 2 processes, 9 modify calls: 0 failed, 0 refused"
    for line in rest[::2]:
        assert re.fullmatch(r"  QP 0x4\d RC on null0, linked\[\d+\] → QP 0x4\d at LID 0x11", line)
    for line in rest[1::2]:
        assert re.fullmatch(r" {6}RESET → INIT \([\d.e-]+ ms\) → RTR \([\d.e-]+ ms\) → RTS \([\d.e-]+ ms\)", line)
    assert len(rest) == 6


def test_a_finding_and_a_failure_on_standard_error(programs: Path, null_device: NullDevice) -> None:
    done = guard(null_device, "--", programs / "mistakes", GID, "no_min_rnr_timer", **ROCE, MODIFY_ERRNO="RTR=22")
    assert done.returncode == 0
    assert done.stdout == "no_min_rnr_timer 65 22\n"
    text = done.stderr
    assert re.search(r"guard: error in ibv_modify_qp, called from make_call \(mistakes.c:\d+\), process mistakes", text)
    assert "RC queue pair 0x41 on null0, INIT → RTR: missing MIN_RNR_TIMER" in text
    assert "ibv_modify_qp is called all the same; with --enforce it would be answered with EINVAL." in text
    assert "ibv_modify_qp was not called" not in text
    assert "rdmaqp guard: failed in ibv_modify_qp" in text
    assert re.search(r"× proved +mask-missing: min_rnr_timer", text)
    assert re.search(r"error +mask-missing, min_rnr_timer: 1 time\n", text)


def test_quiet(programs: Path, null_device: NullDevice) -> None:
    done = guard(null_device, "--quiet", "--", programs / "linked")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nobody_reads_what_it_says(programs: Path, null_device: NullDevice) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [*GUARD, "--", str(programs / "mistakes"), GID, "no_grh", "none"]
    done = subprocess.run(
        words, env=null_device.environment(**ROCE), stdout=subprocess.PIPE, stderr=writer, timeout=PATIENCE, check=False
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"none 65 0\nno_grh 66 0\n")


def test_no_queue_pair_at_all(null_device: NullDevice) -> None:
    done = guard(null_device, "--", "sh", "-c", "cat; exit 3", given="through\n")
    assert (done.returncode, done.stdout) == (3, "through\n")
    assert done.stderr.startswith("rdmaqp guard: no queue pair was modified by ibv_modify_qp in ")


def test_the_trace_and_check(programs: Path, null_device: NullDevice, tmp_path: Path) -> None:
    trace = tmp_path / "calls.jsonl"
    guard(null_device, "--trace", trace, "--redact", "--", programs / "linked")
    done = subprocess.run(
        [*RDMAQP, "check", str(trace)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("3 requests: 3 pass, 0 warn, 0 refused\n")


def test_a_path_is_run_as_it_was_written(tmp_path: Path, null_device: NullDevice) -> None:
    script = tmp_path / "true"  # a name that is in PATH, too
    script.write_text('#!/bin/sh\necho "$0" "$@"\n')
    script.chmod(0o755)
    for folder, word in ((tmp_path, "./true"), (tmp_path.parent, f"{tmp_path.name}/true"), (tmp_path, str(script))):
        words = [*GUARD, "--quiet", "--", word, "one"]
        own = null_device.environment() | {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(words, cwd=folder, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{word} one\n", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [("echo\n", "a script without a first line"), ("#!/no/such/shell\n", "the interpreter or loader that it names")],
)
def test_why_the_kernel_does_not_run_it(text: str, said: str, tmp_path: Path, null_device: NullDevice) -> None:
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(0o755)
    done = guard(null_device, "--", script)
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr.startswith(f"rdmaqp: {script}: ")
    assert said in done.stderr


def test_a_stream_that_is_closed_is_closed_for_the_program_too(null_device: NullDevice) -> None:
    look = 'for n in 0 1 2; do [ -e /dev/fd/$n ] || printf "%s " $n >&9; done'
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        line = f'exec 9>&1; exec "$@" {closed}'
        words = ["sh", "-c", line, "sh", *GUARD, "--", "sh", "-c", look]
        done = subprocess.run(words, env=null_device.environment(), capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout.split()) == (0, [word[0] for word in closed.split()])


def test_who_has_become_another_user_reaches_the_judge_by_a_name_that_nobody_is_told(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as name:  # tmp_path is closed to others
        server = Server(Path(name), Judge(Teller(enforce=False)))
        try:
            child = os.fork()
            if not child:
                os.setgid(65534)
                os.setuid(65534)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
                    os._exit(line.connect_ex(str(server.path)) or 10 * (os.access(name, os.R_OK)))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            bound = Path("/proc/net/unix").read_text()
            assert f"{name}/guard" in bound
            assert server.path.name not in bound
        finally:
            server.close()


@pytest.mark.parametrize(
    ("words", "status"),
    [(["status", "7"], 7), (["signal", "15"], 143), (["signal", "11"], 139)],
)
def test_its_end_is_the_programs(words: list[str], status: int, programs: Path, null_device: NullDevice) -> None:
    assert guard(null_device, "--quiet", "--", programs / "linked", *words).returncode == status


@pytest.mark.parametrize("which", ["H", "S"])
def test_more_processes_than_descriptors(which: str, programs: Path, null_device: NullDevice) -> None:
    """With the soft limit we help ourselves, and the program keeps it; with the hard one, nobody waits for nothing."""
    loop = f'for i in $(seq 40); do {programs / "linked"} wait & all="$all $!"; done'
    inner = f"ulimit -Sn; {loop}; {UNTIL_ALL}; exit 5"
    outer = 'ulimit -n 30; exec "$@"' if which == "H" else 'ulimit -Sn 30; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", outer, "sh", *GUARD, "--", "sh", "-c", inner], env=null_device.environment(), capture_output=True,
        text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert done.stdout.split() == ["30"] + 40 * ["waiting"]
    assert len(null_device.calls("ibv_modify_qp")) == 40 * 3
    if which == "S":
        assert "40 queue pairs in 40 processes, 120 modify calls: 0 failed, 0 refused" in done.stderr
    else:
        assert "Too many open files, for more than" in done.stderr


def test_a_trace_that_cannot_be_written(programs: Path, null_device: NullDevice) -> None:
    done = guard(null_device, "--quiet", "--trace", "/dev/full", "--enforce", "--", programs / "linked", "status", "7")
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr == (
        "rdmaqp guard: warning: the trace /dev/full is not whole: it ends at call 1: No space left on device\n"
    )


def test_no_place_for_the_socket(null_device: NullDevice, tmp_path: Path) -> None:
    code = (
        "import sys, tempfile\n"
        "from rdmaqp import cli\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "sys.exit(cli.run(['guard', '--', 'echo', 'hello']))\n"
    )
    done = null_device.run([sys.executable, "-c", code, tmp_path / "gone"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rdmaqp: echo cannot be watched, and was not started: ")


def test_what_a_killed_judge_left_is_swept_away_and_nothing_else() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folders = {word: place / f"guard-{word}" for word in ("killed", "served", "young", "full")}
        for folder in folders.values():
            folder.mkdir()
        for word in ("killed", "young"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
                line.bind(str(folders[word] / "line"))
        (folders["full"] / "notes").write_text("not a socket")
        (place / "other").mkdir()
        serves = Server(folders["served"], Judge(Teller(enforce=False)))
        for word in ("killed", "served", "full"):
            os.utime(folders[word], (0, 0))
        sweep(place, "guard-")
        serves.close()
        assert sorted(path.name for path in place.iterdir()) == ["guard-served", "guard-young", "other"]


def test_a_judge_that_breaks_does_not_break_the_program(null_device: NullDevice) -> None:
    code = (
        "import sys\n"
        "from rdmaqp import cli\n"
        "from rdmaqp.preload.server import Server\n"
        "def breaks(self): raise RuntimeError('something')\n"
        "Server.serve = breaks\n"
        "sys.exit(cli.run(['guard', '--', 'sh', '-c', 'sleep 1; echo all of it; exit 7']))\n"
    )
    done = null_device.python(code)
    assert (done.returncode, done.stdout) == (7, "all of it\n")
    assert "please report it: RuntimeError: something" in done.stderr


@pytest.fixture
def minded() -> Iterator[None]:
    """What is started does not ignore SIGHUP, as it would where the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.usefixtures("minded")
def test_signals_are_passed_on(number: int, programs: Path, null_device: NullDevice) -> None:
    with started(null_device, "--", programs / "linked", "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert "1 queue pair in 1 process, 3 modify calls" in err  # it still tells


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "which program?"),
        (["--redact", "--", "true"], 2, "--redact is about the trace"),
        (["--deadline", "0", "--", "true"], 2, "no number of seconds"),
        (["--report", "--enforce", "--", "true"], 2, "not allowed with"),
        (["--", "no-such-program-here"], 127, "there is no such program"),
        (["--", "/etc/passwd"], 126, "it may not be run"),
        (["--trace", "/nowhere/at/all", "--", "true"], 2, "/nowhere/at/all: No such file"),
    ],
)
def test_wrong_usage(words: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        returned = cli.run(["guard", *words])
    except SystemExit as error:  # argparse's way
        returned = error.code  # type: ignore[assignment]
    out, err = capfd.readouterr()
    assert (returned, out) == (status, "")
    assert said in err


# ---------------------------------------------------------------------- what cannot be watched


def test_a_static_program_is_refused_in_words(tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }\n")
    for flag in ("-static", "-static-pie"):
        subprocess.run(["cc", flag, str(source), "-o", str(tmp_path / "static")], check=True)
        with pytest.raises(launch.LaunchError, match="is statically linked"):
            launch.require_watchable(tmp_path / "static")


def test_a_script_is_judged_by_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    launch.require_watchable(script)


def test_setuid_and_setgid_programs_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755 | stat.S_ISUID | stat.S_ISGID)
    launch.require_watchable(program)  # its owner gains nothing by it
    monkeypatch.setattr(os, "geteuid", lambda: program.stat().st_uid + 1)
    with pytest.raises(launch.LaunchError, match="is setuid or setgid"):
        launch.require_watchable(program)
    monkeypatch.undo()
    monkeypatch.setattr(os, "getegid", lambda: program.stat().st_gid + 1)
    with pytest.raises(launch.LaunchError, match="is setuid or setgid"):
        launch.require_watchable(program)


def test_a_program_for_another_word_size(tmp_path: Path) -> None:
    program = tmp_path / "program"
    data = bytearray(Path("/bin/true").read_bytes())
    data[4] ^= 3  # EI_CLASS: 32 for 64, 64 for 32
    program.write_bytes(data)
    with pytest.raises(launch.LaunchError, match="another processor or word size"):
        launch.require_watchable(program)


# ---------------------------------------------------------------------- a judge that fails


def talk(process: subprocess.Popen[str]) -> str:
    """One more queue pair, please; what the program says of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stalled"])
def test_a_judge_that_dies_or_stalls_in_the_middle(what: int, programs: Path, null_device: NullDevice) -> None:
    process = started(null_device, "--enforce", "--deadline", "0.5", "--", programs / "linked", "slowly", "3")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up 0\n"
        process.send_signal(what)
        assert talk(process) == "up 0\n"  # past a deadline, and then without asking
        assert talk(process) == "up 0\n"
        assert process.stderr is not None
        if what == signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
            assert "goes on unwatched: no verdict came to it in time" in process.stderr.readline()
        talk(process)
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert len(null_device.calls("ibv_modify_qp")) == 9
    if what == signal.SIGSTOP:
        assert process.returncode == 0


def test_what_goes_on_after_its_launcher_is_let_go(programs: Path, null_device: NullDevice) -> None:
    line = f"exec 3<&0; {programs / 'linked'} slowly 2 <&3 & exit 0"
    with serving() as (watched, led, stop):
        process = subprocess.Popen(
            ["sh", "-c", line], env=led(null_device.environment()), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up 0\n"
        stop()
        assert talk(process) == "up 0\n"
        talk(process)
        process.communicate(timeout=PATIENCE)
    assert watched.paths == [["INIT", "RTR", "RTS"]]
    assert len(null_device.calls("ibv_modify_qp")) == 6


def test_junk_on_the_socket_is_said_and_harms_nobody(programs: Path, null_device: NullDevice) -> None:
    code = (
        "import os, socket, subprocess, sys\n"
        "line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "line.connect(os.environ['RDMAQP_PRELOAD_SOCKET'])\n"
        "line.send(b'junk')\n"
        "sys.exit(subprocess.call(sys.argv[1]))\n"
    )
    done = guard(null_device, "--", sys.executable, "-c", code, programs / "linked")
    assert (done.returncode, done.stdout) == (0, "")
    assert "4 bytes, beginning with 6a756e6b, are no record of the shim's" in done.stderr
    assert "1 queue pair in 1 process, 3 modify calls: 0 failed, 0 refused" in done.stderr


def test_a_program_with_address_sanitizer(null_device: NullDevice, tmp_path: Path) -> None:
    sanitized = compiled("linked", tmp_path, "-fsanitize=address", "-libverbs", "-pthread")
    own = null_device.environment() | {"ASAN_OPTIONS": "detect_leaks=0"}
    seen = watch([sanitized, "threads", "3"], own)
    assert (seen.status, seen.err) == (0, "")
    assert seen.paths == [["INIT", "RTR", "RTS"]] * 3


def test_under_valgrind_the_shim_is_clean(programs: Path, null_device: NullDevice) -> None:
    tool = launch.shutil.which("valgrind")
    if tool is None:
        pytest.skip("valgrind is not installed (Debian: valgrind)")
    # An auditor makes the loader allocate before valgrind looks on: freed at the end, that is an error to valgrind.
    for options, audit in (([], False), (["--run-libc-freeres=no"], launch.audits())):
        words = [tool, "-q", "--error-exitcode=9", *options, programs / "linked", "threads", "3"]
        seen = watch(words, null_device.environment(), audit=audit)
        assert (seen.status, seen.err) == (0, "")
        assert seen.paths == [["INIT", "RTR", "RTS"]] * 3
