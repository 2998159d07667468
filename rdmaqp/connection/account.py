"""Which messages are where: numbered by the sender, counted by the receiver. Nothing here touches a device.

RC delivers in order and without gaps. So the receiver's count says of every message whether it arrived, also where the
acknowledgement was lost.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Parcel(NamedTuple):
    """A message on its way: its number, from 1; the slot that its bytes stand in; how many they are."""

    number: int
    slot: int
    length: int


class Account:
    """One end's.

    Attributes:
        sent: messages posted so far, each once, however often it had to be posted.
        acknowledged: those known to have arrived: the first so many.
        received: messages that have come from the peer.
        under_way: those that were posted and are not known to have arrived, oldest first.
        free: slots for messages to send.
    """

    def __init__(self, slots: int) -> None:
        self.sent = self.acknowledged = self.received = 0
        self.under_way: deque[Parcel] = deque()
        self.free = deque(range(slots))

    def post(self, length: int) -> Parcel:
        """Number the next message, and give it a slot: there must be a free one."""
        self.sent += 1
        parcel = Parcel(self.sent, self.free.popleft(), length)
        self.under_way.append(parcel)
        return parcel

    def acknowledge(self) -> None:
        """The oldest that is under way has arrived."""
        parcel = self.under_way.popleft()
        self.acknowledged = parcel.number
        self.free.append(parcel.slot)

    def settle(self, received_there: int) -> list[Parcel]:
        """The peer has received so many: those are done. Returns the others, which are to be posted again, in order.

        Raises:
            ValueError: it cannot have received so many, or so few.
        """
        if not self.acknowledged <= received_there <= self.sent:
            raise ValueError(
                f"the peer counts {received_there} messages received; {self.acknowledged} were acknowledged, and "
                f"{self.sent} sent"
            )
        while self.under_way and self.under_way[0].number <= received_there:
            self.acknowledge()
        return list(self.under_way)
