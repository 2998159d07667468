"""What pyproject.toml cannot say: the cffi extension, the shim, the abi3 tag, and the pure build (RDMAQP_PURE=1)."""

import os

from setuptools import Extension, setup

PRELOAD = "rdmaqp/preload/_c"


def preloaded(name, *files, flags=()):
    """A shared library for the loader to take into any program; built as if it were Python's."""
    return Extension(
        f"rdmaqp.preload.{name}",
        [f"{PRELOAD}/{file}" for file in files],
        depends=[f"{PRELOAD}/{header}" for header in ("record.h", "shim.h", "shim.map")],
        extra_compile_args=["-O2", "-std=gnu11", "-Wall", "-fno-lto"],
        extra_link_args=["-pthread", "-fno-lto", *flags],
        py_limited_api=True,
    )


if os.environ.get("RDMAQP_PURE") == "1":
    setup()
else:
    setup(
        cffi_modules=["build_ffi.py:ffibuilder"],
        ext_modules=[
            preloaded(
                "_shim", "shim.c", "line.c", "asking.c", "real.c", flags=[f"-Wl,--version-script={PRELOAD}/shim.map"]
            ),
            preloaded("_audit", "audit.c", flags=["-nostdlib"]),
        ],
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
