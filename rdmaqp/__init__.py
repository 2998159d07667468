"""rdmaqp brings RDMA queue pairs up from Python, and says what is wrong before the hardware does.

Everything a program needs is here. Importing it loads neither libibverbs nor rich; the guard works without either.
"""

from __future__ import annotations

__version__ = "0.1.0"

from rdmaqp.connection.exchange import Exchange, Listener
from rdmaqp.errors import (
    ClosedError,
    CompletionError,
    DeadlineError,
    DeviceError,
    GuardError,
    InvalidStateTransition,
    PeerError,
    RdmaqpError,
    VerbsError,
)
from rdmaqp.guard import Finding, GuardWarning, Report, check
from rdmaqp.model.attributes import AddressVector, GlobalRoute, QPAttr
from rdmaqp.model.endpoint import BringUp, Endpoint, bring_up
from rdmaqp.model.enums import (
    MTU,
    AccessFlag,
    AttrMask,
    GidType,
    LinkLayer,
    MigState,
    PortState,
    QPState,
    QPType,
    WCOpcode,
    WCStatus,
)
from rdmaqp.model.gid import GID, GidChoice, GidEntry, pick_gid
from rdmaqp.model.request import DeviceFacts, PortFacts, QPCap, QPFacts, Request
from rdmaqp.model.table import TABLE, Rule
from rdmaqp.verbs.completion import CompletionChannel, CompletionQueue, WorkCompletion
from rdmaqp.verbs.device import Context, Device, devices
from rdmaqp.verbs.device import open_device as open  # noqa: A004 - rdmaqp.open() reads as what it is
from rdmaqp.verbs.memory import MemoryRegion, ProtectionDomain
from rdmaqp.verbs.port import Port
from rdmaqp.verbs.queue_pair import QueuePair, Transition

__all__ = [
    "GID", "MTU", "TABLE", "AccessFlag", "AddressVector", "AttrMask", "BringUp", "ClosedError", "CompletionChannel",
    "CompletionError", "CompletionQueue", "Context", "DeadlineError", "Device", "DeviceError", "DeviceFacts",
    "Endpoint", "Exchange", "Finding", "GidChoice", "GidEntry", "GidType", "GlobalRoute", "GuardError",
    "GuardWarning", "InvalidStateTransition", "LinkLayer", "Listener", "MemoryRegion", "MigState", "PeerError",
    "Port", "PortFacts", "PortState", "ProtectionDomain", "QPAttr", "QPCap", "QPFacts", "QPState", "QPType",
    "QueuePair", "RdmaqpError", "Report", "Request", "Rule", "Transition", "VerbsError", "WCOpcode", "WCStatus",
    "WorkCompletion", "bring_up", "check", "devices", "open", "pick_gid",
]  # fmt: skip
