"""The null device: a stand-in for libibverbs.so.1.

It costs nothing, records what it was handed, and answers what the environment says; ``lib/settings.c`` has the
list of what it listens to.

It shows which bytes reach ``ibv_modify_qp``, in which order objects are closed, and what we do when a verb
fails. It does not show what would work: no transition is refused here. That is asked of a kernel.

A ``conftest.py`` takes the fixtures by ``from stub.fixtures import null_device, stub_library``.
"""

from __future__ import annotations

from .build import BuildError, build, compile_program, missing
from .null_device import NullDevice

__all__ = ["BuildError", "NullDevice", "build", "compile_program", "missing"]
