"""Arguments that several commands take, each read and refused in one way."""

from __future__ import annotations

import argparse
from difflib import get_close_matches

from rdmaqp.guard.driver_rows import ALIASES, DRIVERS
from rdmaqp.model.enums import QPType

_KERNEL_NAMES = {"XRC_INI": QPType.XRC_SEND, "XRC_TGT": QPType.XRC_RECV}


def add_type(parser: argparse.ArgumentParser) -> None:
    """``--type RC``."""
    parser.add_argument("-t", "--type", type=_type, default=QPType.RC, metavar="TYPE",
                        help="RC (by itself), UC, UD, RAW_PACKET, XRC_SEND, XRC_RECV")  # fmt: skip


def add_driver(parser: argparse.ArgumentParser) -> None:
    """``--driver mlx5``."""
    parser.add_argument("--driver", type=_driver, metavar="NAME", help="as this kernel driver has it, such as mlx5")


def _type(text: str) -> QPType:
    name = text.upper().removeprefix("IBV_QPT_")
    known = {kind.name: kind for kind in QPType if kind is not QPType.DRIVER} | _KERNEL_NAMES
    if name not in known:
        near = [kind for kind in known if kind.startswith(name)] or get_close_matches(name, known, 1, 0.4)
        raise argparse.ArgumentTypeError(
            f"there is no queue pair type {text!r}" + (f"; did you mean {near[0]}?" if near else "")
        )
    return known[name]


def _driver(text: str) -> str:
    name = ALIASES.get(text.lower(), text.lower())
    if name not in DRIVERS:
        near = get_close_matches(name, [*DRIVERS, *ALIASES], 1, 0.5)
        raise argparse.ArgumentTypeError(
            f"nothing is known of a driver {text!r}" + (f"; did you mean {near[0]}?" if near else "") +
            f" (known: {', '.join(DRIVERS)})"
        )
    return name
