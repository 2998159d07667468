"""Memory that shows itself by DLPack alone, as the tensors of some libraries do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from null_side import AccessFlag, calls, connected, error_of, said, side

if TYPE_CHECKING:
    from conftest import Null


class Tensor:
    """A tensor without the buffer protocol. *old*: its DLPack has no version; *device*: where it says that it is."""

    def __init__(self, array: Any, old: bool = False, device: int | None = None) -> None:
        self.array, self.old, self.device = array, old, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**({} if self.old else options))

    def __dlpack_device__(self) -> tuple[int, int]:
        device, number = self.array.__dlpack_device__()
        return (device if self.device is None else self.device), number


def the_same_bytes() -> list[Any]:
    import numpy as np

    first, second = connected()
    source, target = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    out, into = first.pd.reg_mr(Tensor(source)), second.pd.reg_mr(Tensor(target))
    second.qp.recv(into)
    first.qp.send(out)
    (came,) = second.cq.wait(timeout=5)
    return [out.length, came.byte_len, target.tolist(), out.buffer.readonly]


def test_the_device_reaches_the_tensors_own_memory(null: Null) -> None:
    assert null.run(the_same_bytes) == [24, 24, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], False]


def kept_alive() -> list[int]:
    import gc
    import weakref

    import numpy as np

    class Array(np.ndarray):  # type: ignore[type-arg]
        """One that a weak reference can be made to."""

    array = np.zeros(8, "u1").view(Array)
    alive = weakref.ref(array)
    mr = side().pd.reg_mr(Tensor(array))
    del array
    gc.collect()
    before = alive() is not None
    mr.close()
    gc.collect()
    return [before, alive() is None]


def test_a_tensor_lives_as_long_as_it_is_registered(null: Null) -> None:
    assert null.run(kept_alive) == [True, True]


def unfit(kind: str, access: int) -> dict[str, Any]:
    import numpy as np

    if kind == "without NumPy":
        sys.modules["numpy"] = None  # type: ignore[assignment]
    tensor = {
        "elsewhere": lambda: Tensor(np.zeros(4), device=2), "without NumPy": lambda: Tensor(np.zeros(4)),
        "old": lambda: Tensor(np.zeros(4), old=True), "gaps": lambda: Tensor(np.zeros((4, 4))[:, 1]),
        "unreadable": lambda: Tensor(np.zeros(4, "M8[s]")), "empty": lambda: Tensor(np.zeros(0)),
    }[kind]()  # fmt: skip
    pd = side().pd
    before = len(calls("ibv_reg_mr_iova2"))
    try:
        pd.reg_mr(tensor, access)
    except (TypeError, ValueError) as error:
        return said(error) | {"native": len(calls("ibv_reg_mr_iova2")) - before}
    return {"type": None, "native": len(calls("ibv_reg_mr_iova2")) - before}


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("elsewhere", "TypeError", "this Tensor is on DLPack device (2, 0), and not in memory of the CPU"),
        ("without NumPy", "TypeError", "shows its memory by DLPack alone, which NumPy reads: install numpy"),
        ("old", "ValueError", "NumPy takes all DLPack for read-only that is older than version 1"),
        ("gaps", "ValueError", "has gaps or another order"),
        ("unreadable", "TypeError", "cannot read the DLPack of this Tensor"),
        ("empty", "ValueError", "this memory is empty"),
    ],
)
def test_what_cannot_be_registered(null: Null, kind: str, error: str, words: str) -> None:
    came = null.run(unfit, kind, int(AccessFlag.LOCAL_WRITE))
    assert (came["type"], came["native"]) == (error, 0)
    assert words in came["text"]


def test_what_cannot_be_known_to_be_writable_may_be_read(null: Null) -> None:
    assert null.run(unfit, "old", int(AccessFlag.REMOTE_READ)) == {"type": None, "native": 1}


def said_of_constants() -> str:
    return str(said(error_of(side().pd.reg_mr, b"constant"))["text"])


def test_what_has_a_buffer_is_not_told_about_dlpack(null: Null) -> None:
    assert "DLPack" not in null.run(said_of_constants)
