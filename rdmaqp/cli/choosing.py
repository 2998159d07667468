"""The devices that a listing is about: those named, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmaqp.errors import DeviceError
from rdmaqp.verbs.device import devices, no_device

if TYPE_CHECKING:
    import argparse

    from rdmaqp.verbs.device import Device


def add_devices(parser: argparse.ArgumentParser) -> None:
    """``[NAME ...]``."""
    parser.add_argument("devices", nargs="*", metavar="NAME", help="only these; all by themselves")


def chosen(args: argparse.Namespace) -> list[Device]:
    """The devices named, as often as they are there; all where none is named.

    Raises:
        DeviceError: one of that name is not there. Or there is none at all, and no program reads the answer: to that
            an empty list says it.
    """
    known = devices()
    names = [device.name for device in known]
    for name in args.devices:
        if name not in names:
            raise DeviceError(f"there is no device {name!r}; there are: {', '.join(names) or 'none at all'}")
    if not known and not args.json:
        raise no_device()
    return [device for device in known if not args.devices or device.name in args.devices]
