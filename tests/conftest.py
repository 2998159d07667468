"""What all tests share: the null device, and the real one that device tests run on."""

from __future__ import annotations

import os
import signal

import pytest

from stub.fixtures import null_device, stub_library

__all__ = ["null_device", "stub_library"]


# A shell ignores SIGINT for what it starts in the background, and whatever we start would inherit that: the tests of
# Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", metavar="NAME", help="the RDMA device for tests marked 'device' (default: the first)")


@pytest.fixture(scope="session")
def device_name(request: pytest.FixtureRequest) -> str:
    """The RDMA device to test on. No device is an error, never a skip: these tests are only run where there is one."""
    import rdmaqp

    name = request.config.getoption("--device") or os.environ.get("RDMAQP_TEST_DEVICE")
    names = [device.name for device in rdmaqp.devices()]
    if not names or (name and name not in names):
        pytest.fail(f"device tests need an RDMA device ({name or 'any'}); there are: {names}. Run them in the lab.")
    return str(name or names[0])
