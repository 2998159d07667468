"""What ``import rdmaqp`` does not load: it has to be cheap, and to work where nothing native is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import rdmaqp

HEAVY = ("rich", "argparse", "cffi", "_cffi_backend", "rdmaqp._verbs", "rdmaqp.cli", "rdmaqp.lab")
ALL_NAMES = "[getattr(rdmaqp, name) for name in rdmaqp.__all__]"


def loaded(code: str) -> list[str]:
    """The modules that *code* loads, in an interpreter that has loaded nothing else of ours."""
    start, end = "import sys, json\nbefore = set(sys.modules)\n", "print(json.dumps(sorted(set(sys.modules) - before)))"
    program = f"{start}{code}\n{end}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize(
    "code",
    [
        "import rdmaqp",
        f"import rdmaqp; {ALL_NAMES}",
        "import rdmaqp; rdmaqp.check(rdmaqp.Request(qp=rdmaqp.QPFacts(), attr=rdmaqp.QPAttr(qp_state='RTR')))",
        "import rdmaqp.verbs.device, rdmaqp.verbs.loop, rdmaqp.connection.pingpong",
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    modules = loaded(code)
    assert "rdmaqp" in modules
    assert [name for name in modules if name in HEAVY] == []


def test_the_first_use_of_a_device_loads_the_extension() -> None:
    """And the tests above would see it."""
    code = "import rdmaqp\ntry:\n    rdmaqp.devices()\nexcept rdmaqp.DeviceError:\n    import rdmaqp._verbs"
    assert {"_cffi_backend", "rdmaqp._verbs"} <= set(loaded(code))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("AccessFlags", "Did you mean: 'AccessFlag'?"), ("PD", "here it is context.alloc_pd()"), ("nothing_like_it", "")],
)
def test_a_name_that_is_not_there(name: str, hint: str) -> None:
    code = f"import rdmaqp; rdmaqp.{name}"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = process.stderr.strip().rpartition("\n")[2]
    assert last.startswith(f"AttributeError: module 'rdmaqp' has no attribute {name!r}")
    assert last.endswith(hint)


def test_names_that_are_hinted_at_are_no_names_and_lead_somewhere() -> None:
    hinted = vars(rdmaqp)["_HERE"]
    assert not hinted.keys() & set(rdmaqp.__all__)
    for expression in (hinted[name] for name in ("connect", "get_device_list", "open_device", "Server", "version")):
        first = expression.partition(" or ")[0].partition("(")[0].partition(".")[0]
        assert hasattr(rdmaqp, first)
