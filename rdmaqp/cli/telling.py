"""What a command with a connection says on standard error while it runs, and the bar of one that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rdmaqp.cli.console import err, progress_bar

if TYPE_CHECKING:
    from rdmaqp.model.gid import GidChoice
    from rdmaqp.verbs.device import Context
    from rdmaqp.verbs.port import Port, PortAttr


class Telling:
    """The half of an observer that each command shares; it stands before the observer's own class among the bases."""

    def __init__(self, title: str, total: int, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar = None if quiet or not err.is_terminal else progress_bar(title, total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _say(self, text: str) -> None:
        if not self._quiet:
            err.print(text, soft_wrap=True)

    def chose(self, context: Context, port: Port, attr: PortAttr, gid: GidChoice | None) -> None:
        """Which device, port and address."""
        self._say(f"device  {context.name} ({context.driver or 'driver unknown'}), port {port.num}: {attr.state.name}, "
                  f"{attr.link_layer.name}, active MTU {attr.active_mtu}")
        if gid is not None:
            self._say(f"source  {gid.entry} – {gid.reason}")
