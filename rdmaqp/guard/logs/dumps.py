"""The 64 bytes of mlx5's error completion, as libmlx5 and the kernel dump them: status, vendor's word, queue pair.

The layout is that of ``struct mlx5_err_cqe`` (rdma-core providers/mlx5/mlx5dv.h; Linux include/linux/mlx5/device.h):
the vendor's syndrome is byte 54, the syndrome byte 55, and the queue pair's number bytes 57 to 59.
"""

from __future__ import annotations

import re

#: The message that a dump stands behind.
HEADS = frozenset({"mlx5-dump", "mlx5-dump-head", "mlx5-wc"})
#: Lines of a dump, and one more between its head and it.
_LINES = 5
#: Four words of 32 bits a line (libmlx5), the fourth line being bytes 48 to 63.
_WORDS = re.compile(r"(?:^|\s)([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8}) ([0-9a-f]{8})\s*$")
#: ``print_hex_dump()``: offset and sixteen bytes a line, behind whatever the kernel log has before it.
_BYTES = re.compile(r"\b00000030: ((?:[0-9a-f]{2} ){15}[0-9a-f]{2})\s*$")


class Dump:
    """Follows the lines behind a message that announces a dump."""

    def __init__(self) -> None:
        self._left, self._rows, self.opened = 0, 0, ""

    @property
    def is_open(self) -> bool:
        """Whether lines of a dump may still come."""
        return self._left > 0

    def begin(self, name: str) -> None:
        """The message *name* was read: a dump may follow."""
        if name in HEADS:
            self._left, self._rows, self.opened = _LINES, 0, name

    def read(self, line: str) -> dict[str, str]:
        """What *line* says, as text by token; empty for a line that is not the one that tells."""
        self._left -= 1
        words, row = _WORDS.search(line), _BYTES.search(line)
        if words is not None:
            self._rows += 1
            if self._rows < 4:
                return {}
            data = "".join(words.groups())
        elif row is not None:
            data = row[1].replace(" ", "")
        else:
            return {}
        self._left = 0
        if data[14:16] == "00":
            return {}
        return {"hex_vendor": data[12:14], "hex_status": data[14:16], "hex_qpn": data[18:24]}
