"""Arguments that several commands take, each read and refused in one way."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import RdmaqpError
from rdmaqp.guard.driver_rows import ALIASES, DRIVERS
from rdmaqp.guard.lore.machine import Kind, has_type, owner, types_of
from rdmaqp.model.enums import MTU, QPType, mtu_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_KERNEL_NAMES: dict[str, Kind] = {"XRC_INI": QPType.XRC_SEND, "XRC_TGT": QPType.XRC_RECV}


TYPES = ", ".join(kind.name for kind in types_of(None))


def add_type(parser: argparse.ArgumentParser, *, alone: bool = False) -> None:
    """``--type RC``; also *alone*, where no other word can stand there."""
    if alone:
        parser.add_argument("alone", nargs="?", type=_type, metavar="TYPE", help=TYPES)
    parser.add_argument("-t", "--type", type=_type, default=QPType.RC, metavar="TYPE",
                        help="the same" if alone else f"RC by itself; {TYPES}")  # fmt: skip


def within(low: float, high: float, kind: type[int] | type[float] = int) -> Callable[[str], float]:
    """The type of an option that is a number from *low* to *high*: argparse names the option where it is not."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text[:40]} is outside {low}…{high}")
        return value

    return read


def add_mtu(parser: argparse.ArgumentParser) -> None:
    """``--mtu BYTES``."""
    parser.add_argument("-m", "--mtu", type=_mtu, metavar="BYTES",
                        help="path MTU, 256 to 4096; the port's active one by itself")  # fmt: skip


def add_bind(parser: argparse.ArgumentParser) -> None:
    """``--bind ADDRESS``: two hosts talk to each other most of the time, so that a server listens on all by itself."""
    parser.add_argument("--bind", metavar="ADDRESS", default="",
                        help="server: listen on this address of ours alone; on all by itself")  # fmt: skip


def waiting(port: int, address: str) -> str:
    """What a server says while nobody has come."""
    where = f"of {address}" if address else "of all addresses; --bind 127.0.0.1 is for this machine alone"
    return f"waiting for a client on TCP port {port} ({where})"


def add_driver(parser: argparse.ArgumentParser) -> None:
    """``--driver mlx5``."""
    parser.add_argument("--driver", type=_driver, metavar="NAME", help="as this kernel driver has it, such as mlx5")


def anywhere(parser: argparse.ArgumentParser) -> None:
    """Let the words of *parser* stand anywhere among its options, which argparse by itself takes in one place only."""
    plain = partial(argparse.ArgumentParser.parse_known_args, parser)  # leaves what is unknown for the second look

    def parse(args: Any = None, namespace: Any = None) -> Any:
        parser.parse_known_args = plain  # type: ignore[method-assign, assignment]
        try:
            found, unknown = parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = parse  # type: ignore[method-assign]
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    parser.parse_known_args = parse  # type: ignore[method-assign]


def kind_and_driver(args: argparse.Namespace) -> tuple[Kind, str | None]:
    """The type and the driver that were asked for; a driver's own type names its driver.

    Raises:
        RdmaqpError: the driver has no such type.
    """
    kind: Kind = args.alone or args.type
    driver = args.driver or owner(kind)
    if not has_type(kind, driver):
        types = ", ".join(sorted(known.name for known in types_of(driver)))
        raise RdmaqpError(f"{driver} has no {kind.name} queue pairs; it has: {types}")
    return kind, driver


def _type(text: str) -> Kind:
    name = text.upper().removeprefix("IBV_QPT_")
    known: dict[str, Kind] = {kind.name: kind for kind in types_of(None)} | _KERNEL_NAMES
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


def _mtu(text: str) -> int:
    sizes = [str(mtu_bytes(code)) for code in MTU]
    if text not in sizes:
        raise argparse.ArgumentTypeError(f"{text[:40]} is not one of {', '.join(sizes)}")
    return int(text)
