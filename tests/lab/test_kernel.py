"""Which kernel is chosen, and why another is not."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from rdmaqp.lab import LabError, kernel

from .helpers import ALL_MODULES, make_kernel


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-9-amd64")
    return "6.1.0-9-amd64"


def test_the_running_kernel_comes_first(tmp_path: Path, cache: Path, running: str) -> None:
    make_kernel(tmp_path, running)
    make_kernel(tmp_path, "6.12.1-amd64")
    chosen, rejected = kernel.choose(tmp_path)
    assert chosen is not None
    assert (chosen.version, chosen.origin, chosen.has_9p, rejected) == (running, "running", True, [])


def test_the_newest_installed_kernel_with_rxe_comes_next(tmp_path: Path, cache: Path, running: str) -> None:
    make_kernel(tmp_path, running, modules=("veth",))
    make_kernel(tmp_path, "6.9.0-1-amd64")
    make_kernel(tmp_path, "6.12.1-amd64")
    chosen, rejected = kernel.choose(tmp_path)
    assert chosen is not None
    assert (chosen.version, chosen.origin) == ("6.12.1-amd64", "installed")
    assert "lack rdma_rxe, ib_uverbs" in rejected[0].why


def test_a_fetched_kernel_serves_where_none_is_installed(tmp_path: Path, cache: Path, running: str) -> None:
    make_kernel(cache / "kernels" / "6.1.0-50-amd64", "6.1.0-50-amd64")
    chosen, rejected = kernel.choose(tmp_path)
    assert chosen is not None
    assert (chosen.version, chosen.origin) == ("6.1.0-50-amd64", "cache")
    assert "there is no such file" in str(rejected[0])


def test_none_at_all(tmp_path: Path, cache: Path, running: str) -> None:
    chosen, rejected = kernel.choose(tmp_path)
    assert chosen is None
    assert running in rejected[0].what


def test_fedora_keeps_the_image_beside_the_modules(tmp_path: Path, cache: Path, running: str) -> None:
    image = make_kernel(tmp_path, running)
    image.rename(tmp_path / "lib/modules" / running / "vmlinuz")
    chosen, _ = kernel.choose(tmp_path)
    assert chosen is not None
    assert chosen.image.name == "vmlinuz"


def test_virtiofs_serves_instead_of_9p(tmp_path: Path, cache: Path, running: str) -> None:
    make_kernel(tmp_path, running, modules=(*ALL_MODULES[:-2], "virtiofs"))
    chosen, _ = kernel.choose(tmp_path)
    assert chosen is not None
    assert not chosen.has_9p


@pytest.mark.parametrize(
    ("modules", "image", "why"),
    [
        (ALL_MODULES[1:], None, "lack rdma_rxe"),
        (ALL_MODULES[:-2], None, "neither 9p nor virtiofs"),
        (ALL_MODULES, b"#!/bin/sh\nexit 0\n", "not a Linux kernel image"),
        (ALL_MODULES, b"", "not a Linux kernel image"),
    ],
)
def test_a_named_kernel_that_cannot_serve_says_why(
    tmp_path: Path, cache: Path, modules: tuple[str, ...], image: bytes | None, why: str
) -> None:
    path = make_kernel(tmp_path, "6.1.0-9-amd64", modules, image)
    with pytest.raises(LabError, match=why) as caught:
        kernel.explicit(str(path))
    assert str(path) in str(caught.value)
    assert "What to do" in str(caught.value)


def test_a_named_version_that_is_not_here(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(LabError, match=r"'9\.9\.9' cannot serve") as caught:
        kernel.explicit("9.9.9", tmp_path)
    assert str(tmp_path / "boot/vmlinuz-9.9.9") in str(caught.value)


def test_a_named_file_that_is_not_there(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(LabError, match="there is no such file"):
        kernel.explicit(str(tmp_path / "vmlinuz"))


def test_modules_without_an_index(tmp_path: Path, cache: Path) -> None:
    path = make_kernel(tmp_path, "6.1.0-9-amd64")
    (tmp_path / "lib/modules/6.1.0-9-amd64/modules.dep").unlink()
    with pytest.raises(LabError, match="depmod never ran"):
        kernel.explicit(str(path))


def test_modules_built_in_count(tmp_path: Path, cache: Path) -> None:
    path = make_kernel(tmp_path, "6.1.0-9-amd64", ALL_MODULES[:-2])
    built_in = tmp_path / "lib/modules/6.1.0-9-amd64/modules.builtin"
    built_in.write_text("kernel/fs/9p/9p.ko\nkernel/net/9pnet-virtio.ko\n")
    assert kernel.explicit(str(path)).has_9p
