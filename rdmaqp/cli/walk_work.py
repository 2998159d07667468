"""What becomes of the work that an imagined queue pair was given: as hardware does it, connected to itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rdmaqp.model.enums import DriverType, QPState, QPType

if TYPE_CHECKING:
    from rdmaqp.guard.lore.machine import Kind

RESET, INIT, RTR, RTS, SQD, SQE, ERR = QPState

#: They acknowledge: a message that finds no receive is not lost, and its send waits.
_RELIABLE = frozenset({QPType.RC, DriverType.SRD})
#: What they send meets another type's shared receive queue, which is taken to be full.
_TO_OTHERS = frozenset({QPType.XRC_SEND, DriverType.DCI})


@dataclass(frozen=True)
class Facts:
    """All that changes while a queue pair is walked.

    Attributes:
        sends, receives: posted and not completed.
        rnr_retry: how often a message is sent again that found no receive; 7 is for ever.
    """

    state: QPState = RESET
    port_num: int | None = None
    sends: int = 0
    receives: int = 0
    rnr_retry: int = 7
    was: tuple[QPState, ...] = ()


def carried_out(now: Facts, kind: Kind) -> tuple[Facts, str]:
    """What is left once the hardware has done what it can, and what it did; nothing where it did nothing."""
    if now.state in (RESET, ERR, SQE):
        return _emptied(now)
    if now.state is not RTS or not now.sends:
        return now, ""
    if kind in _TO_OTHERS:
        return replace(now, sends=0), f"{_it(now.sends)}, into the peer's shared receive queue: SUCCESS"
    met = min(now.sends, now.receives)
    rest = replace(now, sends=now.sends - met, receives=now.receives - met)
    meets = "it goes out and meets a receive" if met == 1 else f"{met} sends go out and meet a receive each"
    said = [f"{meets}: both complete, SUCCESS"] if met else []
    if rest.sends and kind not in _RELIABLE:
        said.append(f"{_it(rest.sends)}: SUCCESS. No receive is posted, so the message is dropped without a word: type "
                    "recv before you send")
        return replace(rest, sends=0), "; ".join(said)
    if rest.sends and rest.rnr_retry < 7:
        said.append(f"no receive is posted: the peer says not ready {rest.rnr_retry + 1} times, and the send completes "
                    "as RNR_RETRY_EXC_ERR. The hardware moves to ERR. Type recv before you send, or give rnr_retry=7")
        return replace(rest, state=ERR, sends=0, receives=0, was=(*now.was, RTS)), "; ".join(said)
    if rest.sends:
        said.append(f"no completion: the peer, which is this queue pair itself, has no receive posted, and "
                    f"{_they(rest.sends)} tried again for ever (rnr_retry 7). Type recv, and it completes")
    return rest, "; ".join(said)


def _emptied(now: Facts) -> tuple[Facts, str]:
    receives = 0 if now.state is not SQE else now.receives  # in SQE only sending has stopped
    gone = ((now.sends, "send"), (now.receives - receives, "receive"))
    work = " and ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in gone if count)
    fate = "gone, without any completion" if now.state is RESET else "flushed: WR_FLUSH_ERR"
    is_one = sum(count for count, _ in gone) == 1
    return replace(now, sends=0, receives=receives), f"{work} {'is' if is_one else 'are'} {fate}" if work else ""


def _it(count: int) -> str:
    return "it goes out" if count == 1 else f"{count} sends go out"


def _they(count: int) -> str:
    return "the send is" if count == 1 else f"{count} sends are"
