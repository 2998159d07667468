"""The sdist and the wheel: what is in them, where they install, and what is said where they cannot be built or loaded.

Built as any front end does, by the hooks of the build backend, without a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from build_module import load_build_ffi

from stub import NullDevice

ROOT = Path(__file__).parents[2]
C_FOLDERS = ("rdmaqp/verbs/_c", "rdmaqp/preload/_c")
C_INPUTS = {"build_ffi.py", *(str(file.relative_to(ROOT)) for name in C_FOLDERS for file in (ROOT / name).iterdir())}
PRELOADED = {"rdmaqp/preload/_shim.abi3.so", "rdmaqp/preload/_audit.abi3.so"}
GOOD_REQUEST = """
import rdmaqp
request = rdmaqp.Request(
    qp=rdmaqp.QPFacts(type=rdmaqp.QPType.RC, state=rdmaqp.QPState.RESET), attr=rdmaqp.QPAttr(qp_state="RTR")
)
print(rdmaqp.check(request).verdict)
"""


def hook(name: str, source: Path, into: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Call a hook of the build backend (PEP 517) in *source*."""
    into.mkdir(exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RDMAQP_", "CC", "CFLAGS"))}
    return subprocess.run(
        [sys.executable, "-c", f"from setuptools import build_meta; print(build_meta.{name}({str(into)!r}))"],
        cwd=source, env=environment | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def built(name: str, source: Path, into: Path, **variables: str) -> Path:
    done = hook(name, source, into, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")


def checkout(place: Path, name: str) -> Path:
    """The sources that a build takes, without what earlier builds left in the working tree."""
    copy = place / name
    shutil.copytree(
        ROOT / "rdmaqp", copy / "rdmaqp", ignore=shutil.ignore_patterns("*.so", "__pycache__"), dirs_exist_ok=True
    )
    for file in ("pyproject.toml", "setup.py", "build_ffi.py", "MANIFEST.in", "LICENSE", "README.md", "CHANGELOG.md"):
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, copy)
    return copy


@pytest.fixture(scope="module")
def sdist(place: Path) -> Path:
    return built("build_sdist", checkout(place, "checkout"), place / "sdist")


def unpacked(sdist: Path, into: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    (source,) = into.iterdir()
    return source


@pytest.fixture(scope="module")
def wheel(sdist: Path, place: Path) -> Path:
    """Built from the sdist alone, as pip does."""
    return built("build_wheel", unpacked(sdist, place / "from-sdist"), place / "wheel")


@pytest.fixture(scope="module")
def site(wheel: Path, place: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    return place / "site"


@pytest.fixture(scope="module")
def pure_wheel(sdist: Path, place: Path) -> Path:
    source = unpacked(sdist, place / "pure-from-sdist")
    return built("build_wheel", source, place / "pure-wheel", RDMAQP_PURE="1", CC="/nonexistent/cc")


def python(site: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code with the rdmaqp in *site*. -S: an editable rdmaqp would lend its extension to one without."""
    others = {"PYTHONPATH": sysconfig.get_path("purelib")}
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import rdmaqp\nassert rdmaqp.__file__.startswith({str(site)!r})\n{code}"],
        cwd=site, env=os.environ | others | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def names(archive: Path) -> set[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return set(wheel.namelist())
    with tarfile.open(archive) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def modules() -> set[str]:
    return {str(file.relative_to(ROOT)) for file in (ROOT / "rdmaqp").rglob("*.py")}


def test_the_sdist_has_all_that_it_is_built_from(sdist: Path) -> None:
    inside = names(sdist)
    assert modules() | C_INPUTS | {"pyproject.toml", "setup.py", "LICENSE", "rdmaqp/py.typed"} <= inside
    assert {str(file.relative_to(ROOT)) for file in (ROOT / "rdmaqp").rglob("*.sh")} <= inside
    assert not [name for name in inside if name.endswith((".so", ".o", ".pyc"))]


def test_an_sdist_made_without_the_compiled_half_has_its_sources(place: Path) -> None:
    sdist = built("build_sdist", checkout(place, "pure-checkout"), place / "pure-sdist", RDMAQP_PURE="1")
    assert names(sdist) >= C_INPUTS


def test_the_wheel_has_what_runs_and_not_what_it_was_built_from(wheel: Path) -> None:
    assert wheel.name == f"rdmaqp-{version()}-cp311-abi3-{platform()}.whl"
    inside = names(wheel)
    data = {str(file.relative_to(ROOT)) for pattern in ("*.sh", "*.pyi") for file in (ROOT / "rdmaqp").rglob(pattern)}
    assert modules() | data | PRELOADED | {"rdmaqp/py.typed", "rdmaqp/_verbs.abi3.so"} <= inside
    assert {name for name in inside if not name.startswith(("rdmaqp/", f"rdmaqp-{version()}.dist-info/"))} == set()
    assert not [name for name in inside if name.endswith((".c", ".h", ".o", ".map")) or "build_ffi" in name]


def version() -> str:
    import rdmaqp

    return rdmaqp.__version__


def platform() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def test_the_wheel_works(site: Path, null_device: NullDevice) -> None:
    done = python(
        site, "print([d.name for d in rdmaqp.devices()], rdmaqp.open().attr.fw_ver)\n" + GOOD_REQUEST,
        **{k: v for k, v in null_device.environment().items() if k.startswith(("RDMAQP_", "LD_"))},
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (["['null0'] 0.0.0", "refuse"], "")


def test_the_wheel_watches_programs(site: Path, null_device: NullDevice) -> None:
    program = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r}); import rdmaqp; rdmaqp.open()"]
    done = python(
        site, f"from rdmaqp.cli import run\nrun(['guard', '--', *{program!r}])",
        **{k: v for k, v in null_device.environment().items() if k.startswith(("RDMAQP_", "LD_"))},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    said = "rdmaqp guard: no queue pair was modified by ibv_modify_qp in 1 process"
    assert done.stderr.partition(";")[0].strip() == said  # behind it stands where there is no device


def test_the_pure_wheel_says_that_it_watches_no_program(pure_wheel: Path, place: Path) -> None:
    site = place / "pure-site-to-watch-from"
    with zipfile.ZipFile(pure_wheel) as archive:
        archive.extractall(site)
    done = python(site, "from rdmaqp.cli import run\nraise SystemExit(run(['guard', '--', 'true']))")
    assert done.returncode == 1
    assert "rdmaqp was installed without its compiled half, and the shim is of it" in done.stderr


def test_the_pure_wheel_judges_and_opens_no_device(pure_wheel: Path, place: Path) -> None:
    assert pure_wheel.name == f"rdmaqp-{version()}-py3-none-any.whl"
    assert not [name for name in names(pure_wheel) if name.endswith((".so", ".c", ".h"))]
    site = place / "pure-site"
    with zipfile.ZipFile(pure_wheel) as archive:
        archive.extractall(site)
    done = python(site, GOOD_REQUEST)
    assert (done.stdout, done.stderr) == ("refuse\n", "")
    for use in ("rdmaqp.devices()", "rdmaqp.open()", "rdmaqp.open('rxe0')"):
        done = python(site, f"try:\n    {use}\nexcept rdmaqp.DeviceError as error:\n    print(error)")
        first, *rest = done.stdout.splitlines()
        assert first == "rdmaqp was installed without its compiled half, so it can judge requests but open no device"
        assert_says_how_to_build("\n".join(rest))


def assert_says_how_to_build(text: str) -> None:
    for word in ("libibverbs-dev", "python3-dev", "Debian", "rdma-core-devel", "python3-devel", "Fedora", "gcc"):
        assert word in text


# ---------------------------------------------------------------------- cannot be built


def failed_build(place: Path, name: str, **variables: str) -> str:
    done = hook("build_wheel", checkout(place, name), place / "nothing", **variables)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_a_compiler(place: Path) -> None:
    text = failed_build(place, "no-compiler", CC="/nonexistent/cc")
    assert "needs a C compiler, and '/nonexistent/cc' says:" in text
    assert "No such file or directory" in text
    assert_says_how_to_build(text)
    assert "RDMAQP_PURE=1 pip install" in text


def cc_without(place: Path, missing: str) -> str:
    """A compiler whose system headers are those of this machine but for *missing*."""
    includes = place / f"include-without-{Path(missing).name}"
    includes.mkdir()
    for entry in Path("/usr/include").iterdir():
        if entry.name != missing:
            (includes / entry.name).symlink_to(entry)
    multiarch = subprocess.run(["cc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    own = subprocess.run(["cc", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    return f"cc -nostdinc -isystem {own} -isystem {includes} -isystem {includes / multiarch}"


def test_without_the_headers_of_libibverbs(place: Path) -> None:
    text = failed_build(place, "no-headers", CC=cc_without(place, "infiniband"))
    assert "needs the headers of libibverbs, and 'cc' says:" in text
    assert "infiniband/verbs.h: No such file or directory" in text
    assert_says_how_to_build(text)
    assert "RDMAQP_PURE=1 pip install" in text


@pytest.fixture
def build_ffi() -> Any:
    return load_build_ffi()


def test_without_the_headers_of_python(build_ffi: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_ffi.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("CC", f"cc -nostdinc -isystem {tmp_path}")
    with pytest.raises(SystemExit) as stopped:
        build_ffi.make()
    text = str(stopped.value)
    assert "needs Python's headers, and 'cc' says:" in text
    assert "Python.h: No such file or directory" in text
    assert_says_how_to_build(text)


def test_headers_in_another_place_are_found(build_ffi: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.h").touch()
    assert not build_ffi.compiles("#include <elsewhere.h>\n")[0]
    monkeypatch.setenv("CFLAGS", f"-I{tmp_path}")
    assert build_ffi.compiles("#include <elsewhere.h>\n")[0]


# ---------------------------------------------------------------------- cannot be loaded


def patched(site: Path, place: Path, name: str, old: bytes, new: bytes) -> str:
    """What is said where the extension wants something of libibverbs that is not there: its strings are changed."""
    copy = place / name
    shutil.copytree(site, copy)
    extension = copy / "rdmaqp" / "_verbs.abi3.so"
    content = extension.read_bytes()
    assert len(old) == len(new)
    assert old in content
    extension.write_bytes(content.replace(old, new))
    judged = python(copy, GOOD_REQUEST)
    assert (judged.stdout, judged.stderr) == ("refuse\n", "")
    done = python(copy, "try:\n    rdmaqp.devices()\nexcept rdmaqp.DeviceError as error:\n    print(error)")
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("absent", b"\0libibverbs.so.1\0", b"\0libibverbs.so.9\0", "libibverbs.so.9: cannot open shared object file"),
        ("old", b"\0IBVERBS_1.1\0", b"\0IBVERBS_9.9\0", "version `IBVERBS_9.9' not found"),
        ("symbol", b"\0ibv_alloc_pd\0", b"\0ibv_alloc_xx\0", "undefined symbol: ibv_alloc_xx"),
    ],
)
def test_without_libibverbs_the_message_names_the_package(
    site: Path, place: Path, name: str, old: bytes, new: bytes, reason: str
) -> None:
    first, *rest = patched(site, place, name, old, new).splitlines()
    assert first.startswith("libibverbs is not installed on this machine, or is too old: ")
    assert reason in first
    assert rest == [
        "Debian, Ubuntu:  apt-get install libibverbs1 ibverbs-providers", "RHEL, Fedora:    dnf install libibverbs"
    ]  # fmt: skip


def test_a_broken_extension_is_not_taken_for_a_missing_one(site: Path, place: Path) -> None:
    text = patched(site, place, "broken", b"\x7fELF", b"\x7fELK")
    assert text.startswith("rdmaqp's compiled half cannot be loaded: ")
    assert "invalid ELF header" in text.splitlines()[0]
    assert_says_how_to_build(text)


def test_an_extension_of_another_version_is_stale(site: Path, place: Path) -> None:
    mark = version().encode()
    other = mark[:-1] + (b"8" if mark[-1:] != b"8" else b"9")
    text = patched(site, place, "stale", b"\0" + mark + b"\0", b"\0" + other + b"\0")
    assert text.startswith(f"rdmaqp is {version()} and its compiled half is {other.decode()}: the build is stale")
    assert_says_how_to_build(text)
