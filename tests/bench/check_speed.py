"""How long one judgement takes, and how many requests a second go from text to answer: not a test, run it by hand.

    python tests/bench/check_speed.py

The smallest of many short runs counts: everything else is the machine's other work.
"""

from __future__ import annotations

import json
import sys
import timeit
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "guard"))

from guard_requests import modify, post, rtr, rts, to_init, with_
from rule_triggers import PEER

from rdmaqp.guard import check
from rdmaqp.model import codec

REQUESTS = {
    "RESET → INIT": to_init(),
    "INIT → RTR, full": rtr(),
    "INIT → RTR, with the peer's record": with_(rtr(), peer=PEER),
    "RTR → RTS, full": rts(),
    "RTS → ERR": modify("RC", "RTS", "ERR"),
    "post_send": post(),
    "INIT → RTR, refused": rtr(timeout=32, dest_qp_num=0),
}


def best(function: Callable[[], object], number: int = 300, repeat: int = 100) -> float:
    """Microseconds a call."""
    return min(timeit.repeat(function, number=number, repeat=repeat)) / number * 1e6


def main() -> None:
    scale = best(lambda: sum(range(1000)))
    print(f"sum(range(1000)) takes {scale:.1f} µs here, for comparison between machines\n")
    print(f"{'':36} {'check':>9} {'read':>9} {'text to answer':>16}")
    for name, value in REQUESTS.items():
        request, text = codec.decode(value), json.dumps(value)
        judged = best(lambda request=request: check(request))  # type: ignore[misc]
        read = best(lambda text=text: codec.loads(text))  # type: ignore[misc]
        whole = best(lambda text=text: json.dumps(check(codec.loads(text)).to_dict()))  # type: ignore[misc]
        print(f"{name:36} {judged:6.1f} µs {read:6.1f} µs {whole:6.1f} µs {1e6 / whole:6.0f}/s")


if __name__ == "__main__":
    main()
