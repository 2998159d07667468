"""What a connection manager says: its events and its reasons to reject, as the kernel numbers them."""

from __future__ import annotations

from enum import IntEnum

MAX_CONNECT_DATA = 56
"""Bytes of private data with a connection request: IB_CM_REQ_PRIVATE_DATA_SIZE (92), less rdma_cm's own header (36)."""
MAX_ACCEPT_DATA = 196
"""Bytes of private data with an acceptance: IB_CM_REP_PRIVATE_DATA_SIZE (Linux include/rdma/ib_cm.h)."""
MAX_REJECT_DATA = 148
"""Bytes of private data with a rejection: IB_CM_REJ_PRIVATE_DATA_SIZE."""


class CMEventType(IntEnum):
    """``enum rdma_cm_event_type``, without the prefix (rdma_get_cm_event(3))."""

    ADDR_RESOLVED = 0
    ADDR_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVAL = 11
    MULTICAST_JOIN = 12
    MULTICAST_ERROR = 13
    ADDR_CHANGE = 14
    TIMEWAIT_EXIT = 15


#: Why the other end's connection manager said no: the reasons that InfiniBand and RoCE give (enum ib_cm_rej_reason of
#: Linux include/rdma/ib_cm.h; InfiniBand Architecture 12.6.7.2).
REJECTIONS = {
    1: "it has no queue pair left", 2: "it has no end-to-end context left", 3: "it has no resources left",
    4: "it waited too long for the next message of this connection", 5: "it does not support what was asked for",
    6: "it does not know this connection", 7: "it does not know this instance of the connection",
    8: "nobody listens on this port there", 9: "it does not take this transport",
    10: "it believes that this queue pair is still connected to it", 11: "there is no such datagram domain",
    12: "it does not take our GID", 13: "it does not take our LID", 14: "it does not take the service level",
    15: "it does not take the traffic class", 16: "it does not take the hop limit",
    17: "it does not take the packet rate", 18: "it does not take the alternate GID",
    19: "it does not take the alternate LID", 20: "it does not take the alternate service level",
    21: "it does not take the alternate traffic class", 22: "it does not take the alternate hop limit",
    23: "it does not take the alternate packet rate", 24: "its connection manager is elsewhere",
    25: "it is to be reached by another port", 26: "it does not take the path MTU",
    27: "it has too few responder resources", 28: "the program there refused",
    29: "it does not take the RNR retry count",
    30: "it has a connection with this local number already", 31: "it speaks another version of the protocol",
    32: "it does not take the flow label", 33: "it does not take the alternate flow label",
    35: "it does not support the vendor option",
}  # fmt: skip
NOBODY_LISTENS = 8
REFUSED_BY_PROGRAM = 28
