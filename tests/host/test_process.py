"""Limits and capabilities of a process, RDMA's modules and character devices: made-up trees, and this machine."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from rdmaqp.host import process, rdma
from rdmaqp.host.answers import Unknown
from rdmaqp.host.rdma import CharacterDevices
from rdmaqp.model.facts import UNLIMITED, ProcessFacts

WHOLE = "         0          0 4294967295"
MAPPED = "         0       1000          1"


def proc(root: Path, cap: str = "0000000000000000", users: str | None = WHOLE, **files: str) -> Path:
    place = root / "proc/self"
    place.mkdir(parents=True)
    (place / "status").write_text(f"Name:\tpython\nCapPrm:\t0\nCapEff:\t{cap}\nCapBnd:\t000001ffffffffff\n")
    if users is not None:
        (place / "uid_map").write_text(users + "\n")
    return root


@pytest.mark.parametrize(
    ("cap", "users", "ipc_lock", "privileged"),
    [
        ("000001ffffffffff", WHOLE, True, True),
        ("0000000000004000", WHOLE, True, None),
        ("0000000000002000", WHOLE, False, True),
        ("0000000000000000", WHOLE, False, None),
        # In a user namespace of one's own they do not count.
        ("000001ffffffffff", MAPPED, False, None),
    ],
)
def test_capabilities(tmp_path: Path, cap: str, users: str, ipc_lock: bool, privileged: bool | None) -> None:
    facts = process.facts(proc(tmp_path, cap, users))
    assert (facts.ipc_lock, facts.privileged) == (ipc_lock, privileged)
    assert facts.memlock == process.memlock()


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert process.facts(tmp_path) == ProcessFacts(memlock=process.memlock())
    (tmp_path / "a").mkdir()
    assert isinstance(process.capabilities(proc(tmp_path / "a", users=None)), Unknown)
    status = proc(tmp_path / "b") / "proc/self/status"
    status.write_text("Name:\tpython\n")
    assert process.capabilities(tmp_path / "b") == Unknown("/proc/self/status has no CapEff")


def test_the_lock_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.memlock() in (resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], UNLIMITED)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert process.memlock() == UNLIMITED
    monkeypatch.setattr(resource, "getrlimit", lambda what: (65536, resource.RLIM_INFINITY))
    assert process.memlock() == 65536


def test_this_process_is_known() -> None:
    facts = process.facts()
    assert facts.memlock is not None
    assert facts.ipc_lock is not None


# ---------------------------------------------------------------------- RDMA


def test_modules(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text(
        "rdma_rxe 200704 0 - Live 0x0\nib_uverbs 188416 1 rdma_rxe, Live 0x0\next4 1 0 - Live 0x0\n"
    )
    (tmp_path / "sys/module/ib_core").mkdir(parents=True)  # built in
    (tmp_path / "sys/module/ext4").mkdir()
    assert rdma.modules(tmp_path) == {"rdma_rxe", "ib_uverbs", "ib_core"}
    assert isinstance(rdma.modules(tmp_path / "nowhere"), Unknown)


def test_character_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rdma.character_devices(tmp_path) == CharacterDevices((), ())
    place = tmp_path / "dev/infiniband"
    place.mkdir(parents=True)
    for name in ("uverbs1", "uverbs0", "rdma_cm"):
        (place / name).touch()
    found = rdma.character_devices(tmp_path)
    assert found == CharacterDevices(("rdma_cm", "uverbs0", "uverbs1"), ())
    assert isinstance(found, CharacterDevices)
    assert found.uverbs == ("uverbs0", "uverbs1")
    monkeypatch.setattr(rdma.os, "access", lambda path, mode: Path(path).name != "uverbs1")  # root may open all
    assert rdma.character_devices(tmp_path) == CharacterDevices(("rdma_cm", "uverbs0", "uverbs1"), ("uverbs1",))
    (tmp_path / "a/dev").mkdir(parents=True)
    (tmp_path / "a/dev/infiniband").touch()
    assert isinstance(rdma.character_devices(tmp_path / "a"), Unknown)


def test_known_to_the_kernel(tmp_path: Path) -> None:
    assert isinstance(rdma.known_to_kernel("rxe0", tmp_path), Unknown)
    (tmp_path / "sys/class/infiniband/rxe0").mkdir(parents=True)
    assert rdma.known_to_kernel("rxe0", tmp_path) is True
    assert rdma.known_to_kernel("rxe1", tmp_path) is False
    assert isinstance(rdma.known_to_kernel("../rxe0", tmp_path), Unknown)


def test_this_machine_answers_without_raising() -> None:
    assert isinstance(rdma.modules(), (frozenset, Unknown))
    assert isinstance(rdma.character_devices(), (CharacterDevices, Unknown))
