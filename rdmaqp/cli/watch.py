"""``rdmaqp watch``: the kernel's own view of all queue pairs, live."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rdmaqp.cli.arguments import within
from rdmaqp.cli.console import err, out, print_json
from rdmaqp.cli.watch_events import DeviceEvents, named, told
from rdmaqp.cli.watch_show import count, fitting, pair_told, port_told, stamped, table
from rdmaqp.errors import DeviceError, RdmaqpError
from rdmaqp.host import resources, sysfs
from rdmaqp.host.answers import Refused, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from rdmaqp.host.resources import Change, QueuePairView
    from rdmaqp.verbs.events import AsyncEvent

DESCRIPTION = """Shows every queue pair that the kernel knows (`rdma resource show qp`): number, type, state, packet
numbers, peer, process; on a terminal as a table that is drawn anew, otherwise a line for each that is there and for
each change, of a queue pair or of a port's state, and for each event of a device (a queue pair's own events go to its
process alone). What comes and goes within one interval is not seen. Ctrl-C ends it."""

#: Seconds for which a change is marked in the table; changes that are listed below it.
_FRESH, _LISTED = 5.0, 8


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "watch", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--once", action="store_true", help="show what is there now, and end")
    parser.add_argument("--device", action="append", default=[], metavar="NAME", help="only of this device")
    parser.add_argument("--pid", action="append", default=[], type=within(1, 1 << 22), metavar="N",
                        help="only of this process")
    parser.add_argument("--process", action="append", default=[], metavar="TEXT",
                        help="only of processes whose name has this in it")
    states, types = ", ".join(resources.STATES), ", ".join(resources.TYPES)
    parser.add_argument("--state", action="append", default=[], type=_one_of(resources.STATES, "state"),
                        metavar="STATE", help=f"only in this state, and what enters or leaves it: {states}")
    parser.add_argument("--type", action="append", default=[], type=_one_of(resources.TYPES, "type"), metavar="TYPE",
                        help=f"only of this type: {types}")
    parser.add_argument("--interval", type=within(0.05, 3600, float), default=0.5, metavar="SECONDS",
                        help="between two looks (0.5)")
    parser.add_argument("--json", action="store_true", help="with --once a list; otherwise a JSON object a line: each "
                        "queue pair that is there, then each change")
    parser.set_defaults(run=run)


def _one_of(known: Sequence[str], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        name = text.upper().removeprefix("IBV_QPS_").removeprefix("IBV_QPT_")
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no {what} {text!r}; there are: {', '.join(known)}")
        return name

    return read


def run(args: argparse.Namespace) -> int:
    """Show them until Ctrl-C, or once."""
    chosen = Chosen(args)
    there = chosen.now()
    if args.once:
        shown = [each for each in there if chosen.shows(each)]
        if args.json:
            print_json([asdict(each) for each in shown])
        else:
            out.print(table(shown, {}))
            out.print(Text(count(shown), "dim"))
        return 0
    with DeviceEvents(args.device) as heard:
        as_lines = args.json or not out.is_terminal
        watching = Lines(chosen, heard, as_json=args.json) if as_lines else Screen(chosen, heard)
        for name, why in heard.deaf.items():
            err.print(Text(f"events of {name} are not heard: {why}"), style="dim", soft_wrap=True)
        try:
            watching.run(there, args.interval)
        except KeyboardInterrupt:
            return 0  # that is how it ends
    return 0


class Chosen:
    """Which queue pairs are asked for."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._devices, self._pids, self._processes = args.device, args.pid, args.process
        self._states, self._types = args.state, args.type

    def now(self) -> list[QueuePairView]:
        """Those of the devices, types and processes asked for, in whatever state.

        Raises:
            DeviceError: there is no such device, or none at all.
            RdmaqpError: the kernel cannot be asked.
        """
        found = resources.queue_pairs()
        if isinstance(found, (Unknown, Refused)) or not found or self._devices:
            self._devices_are_there()
        if isinstance(found, Unknown):
            raise RdmaqpError(f"{found.why}; it is in iproute2: apt-get install iproute2    # RHEL: iproute")
        if isinstance(found, Refused):
            raise RdmaqpError(f"rdma resource show qp: {found.why}")
        return [each for each in found if self._is_asked_for(each)]

    def _devices_are_there(self) -> None:
        known = sysfs.names()
        if not known:
            raise DeviceError("this machine has no RDMA device: `rdmaqp doctor` says what to do about it")
        for name in self._devices:
            if name not in known:
                raise DeviceError(f"there is no device {name!r}; there are: {', '.join(known)}")

    def _is_asked_for(self, each: QueuePairView) -> bool:
        if self._devices and each.device not in self._devices:
            return False
        if self._pids and each.pid not in self._pids:
            return False
        if self._processes and not any(text in each.process for text in self._processes):
            return False
        return not self._types or each.type in self._types

    def shows(self, each: QueuePairView) -> bool:
        """Whether its state is one that is asked for."""
        return not self._states or each.state in self._states

    def ports(self) -> dict[str, str]:
        """The states of the ports of the devices asked for."""
        states = sysfs.port_states()
        return {port: state for port, state in states.items() if not self._devices or port.partition("/")[0] in
                self._devices}  # fmt: skip

    def tells(self, change: Change) -> bool:
        """Whether it is a change of such a state."""
        return not self._states or change.queue_pair.state in self._states or change.was in self._states


class Lines:
    """A line for each that is there, and for each change: for a log, a pipe, a program."""

    def __init__(self, chosen: Chosen, heard: DeviceEvents, *, as_json: bool) -> None:
        self._chosen, self._heard, self._as_json = chosen, heard, as_json

    def run(self, there: list[QueuePairView], interval: float) -> None:
        """Until it is interrupted, or nobody reads."""
        for each in there:
            if self._chosen.shows(each):
                self._tell("there", each, None)
        sys.stdout.flush()
        ports = self._chosen.ports()
        while True:
            time.sleep(interval)
            now, ports_now = self._chosen.now(), self._chosen.ports()
            for port, was, state in moved_ports(ports, ports_now):
                self._port(port, was, state)
            for name, event in self._heard.poll():
                self._event(name, event)
            for change in resources.changes(there, now):
                if self._chosen.tells(change):
                    self._tell(change.what, change.queue_pair, change.was)
            sys.stdout.flush()
            there, ports = now, ports_now

    def _port(self, port: str, was: str, state: str) -> None:
        if self._as_json:
            told = {"time": round(time.time(), 3), "what": "port", "port": port, "was": was, "state": state}
            print(json.dumps(told))
        else:
            out.print(stamped(port_told(port, was, state)), soft_wrap=True)

    def _event(self, device: str, event: AsyncEvent) -> None:
        if self._as_json:
            line = {"time": round(time.time(), 3), "what": "event", "device": device, "event": named(event),
                    "port": event.port_num}  # fmt: skip
            print(json.dumps(line))
        else:
            out.print(stamped(told(device, event)), soft_wrap=True)

    def _tell(self, what: str, each: QueuePairView, was: str | None) -> None:
        if self._as_json:
            told: dict[str, Any] = {"time": round(time.time(), 3), "what": what, **asdict(each)}
            print(json.dumps(told | ({"was": was} if was else {}), ensure_ascii=False))
        else:
            out.print(stamped(pair_told(what, each, was)), soft_wrap=True)


class Screen:
    """A table on a terminal, drawn anew; below it the last changes."""

    def __init__(self, chosen: Chosen, heard: DeviceEvents) -> None:
        self._chosen, self._heard = chosen, heard
        self._fresh: dict[tuple[str, int, int | None], tuple[float, str]] = {}
        self._last: deque[Text] = deque(maxlen=_LISTED)

    def run(self, there: list[QueuePairView], interval: float) -> None:
        """Until it is interrupted."""
        from rich.live import Live  # loaded here: it costs more than all else that `--once` prints with

        ports = self._chosen.ports()
        live = Live(self._picture(there), console=out, auto_refresh=False, vertical_overflow="ellipsis")
        with _told_to_end(), live:
            while True:
                time.sleep(interval)
                now, ports_now = self._chosen.now(), self._chosen.ports()
                for change in moved_ports(ports, ports_now):
                    self._last.append(stamped(port_told(*change)))
                for name, event in self._heard.poll():
                    self._last.append(stamped(told(name, event)))
                self.note(there, now)
                there, ports = now, ports_now
                live.update(self._picture(there), refresh=True)

    def note(self, before: list[QueuePairView], now: list[QueuePairView]) -> None:
        """Mark what has changed."""
        clock = time.monotonic()
        for change in resources.changes(before, now):
            if self._chosen.tells(change):
                self._last.append(stamped(pair_told(change.what, change.queue_pair, change.was)))
                self._fresh[change.queue_pair.key] = (clock, change.was or "new")
        self._fresh = {key: mark for key, mark in self._fresh.items() if clock - mark[0] < _FRESH}

    def _picture(self, there: list[QueuePairView]) -> RenderableType:
        from rich.console import Group

        shown = [each for each in there if self._chosen.shows(each)]
        marks = {key: was for key, (_, was) in self._fresh.items()}
        # A head above them, the sum and the changes below; what is too long for the screen would be cut off below.
        fit = fitting(shown, marks, out.height - 3 - len(self._last))
        hidden = len(shown) - len(fit)
        more = f"; {hidden} of them do not fit (--state, --pid, …)" if hidden else ""
        return Group(table(fit, marks), Text(count(shown) + more, "dim"), *self._last)


@contextmanager
def _told_to_end() -> Iterator[None]:
    """Let SIGTERM unwind the stack: the cursor, which is hidden meanwhile, comes back."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def moved_ports(before: dict[str, str], now: dict[str, str]) -> list[tuple[str, str, str]]:
    """Each port whose state is another, or that came or went: which, what it was, what it is."""
    names = dict.fromkeys((*before, *now))
    states = ((name, before.get(name, "absent"), now.get(name, "gone")) for name in names)
    return [(name, was, state) for name, was, state in states if before.get(name) != now.get(name)]
