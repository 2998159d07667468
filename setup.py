"""What pyproject.toml cannot say: the cffi extension, the abi3 tag, and the pure build (RDMAQP_PURE=1)."""

import os

from setuptools import setup

if os.environ.get("RDMAQP_PURE") == "1":
    setup()
else:
    setup(
        cffi_modules=["build_ffi.py:ffibuilder"],
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
