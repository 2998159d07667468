"""What devices themselves tell whoever has them open: ports, GIDs, the device's end. ``rdmaqp watch`` listens."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.text import Text

from rdmaqp.errors import DeviceError, RdmaqpError, VerbsError
from rdmaqp.host import sysfs
from rdmaqp.model.enums import AsyncEventType
from rdmaqp.verbs import device

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.events import AsyncEvent

#: How the names of events end that are no good news.
_BAD = ("ERR", "FATAL")


def named(event: AsyncEvent) -> str:
    """Its type's name; its number where it is newer than we are."""
    return event.type.name if isinstance(event.type, AsyncEventType) else str(event.type)


def told(name: str, event: AsyncEvent) -> Text:
    """An event in words."""
    port = f"/{event.port_num}" if event.port_num else ""
    return Text.assemble(f"{name}{port} ", (named(event), "bold red" if named(event).endswith(_BAD) else "bold"))


class DeviceEvents:
    """The asynchronous events of *devices*, all where none is named. Queue pairs' own go to their processes alone.

    Attributes:
        deaf: why a device is not listened to, by its name; the compiled half may be missing, or the permission.
    """

    def __init__(self, devices: Sequence[str] = ()) -> None:
        self.deaf: dict[str, str] = {}
        self._open: dict[str, Context] = {}
        self._stack = ExitStack()
        for name in devices or sysfs.names():
            try:
                self._open[name] = self._stack.enter_context(device.open(name))
            except (DeviceError, VerbsError) as error:
                self.deaf[name] = error.headline()

    def poll(self) -> list[tuple[str, AsyncEvent]]:
        """The device's name and the event, of all that have come. A device that cannot be read is heard no more."""
        found = []
        for name, context in list(self._open.items()):
            try:
                while (event := context.async_events.poll()) is not None:
                    found.append((name, event))
            except RdmaqpError as error:
                self.deaf[name] = error.headline()
                del self._open[name]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
