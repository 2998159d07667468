"""The public names of rdmaqp, and where each lives. ``__init__.py`` loads a name's module when it is first used."""

from .connection.agreement import (
    Agreed as Agreed,
)
from .connection.agreement_many import (
    AgreedMany as AgreedMany,
)
from .connection.aio import (
    AsyncExchange as AsyncExchange,
)
from .connection.aio_listener import (
    AsyncListener as AsyncListener,
)
from .connection.aio_listener import (
    listen as listen,
)
from .connection.alone import (
    BusyError as BusyError,
)
from .connection.cm import (
    cm_connect as cm_connect,
)
from .connection.cm_link import (
    CMLink as CMLink,
)
from .connection.cm_listener import (
    CMListener as CMListener,
)
from .connection.cm_listener import (
    CMRequest as CMRequest,
)
from .connection.cm_listener import (
    cm_listen as cm_listen,
)
from .connection.cm_words import (
    CMError as CMError,
)
from .connection.connection import (
    Connection as Connection,
)
from .connection.exchange import (
    Exchange as Exchange,
)
from .connection.exchange import (
    Listener as Listener,
)
from .connection.happening import (
    ConnectionEndedError as ConnectionEndedError,
)
from .connection.happening import (
    ConnectionLostError as ConnectionLostError,
)
from .connection.happening import (
    Happening as Happening,
)
from .connection.recovery import (
    Recovered as Recovered,
)
from .connection.recovery import (
    RecoveryError as RecoveryError,
)
from .connection.refusals import (
    NotUpError as NotUpError,
)
from .connection.refusals import (
    RefusedError as RefusedError,
)
from .connection.refusals import (
    SettingsError as SettingsError,
)
from .connection.secrecy import (
    SecretError as SecretError,
)
from .connection.sockets import (
    AddressError as AddressError,
)
from .errors import (
    ClosedError as ClosedError,
)
from .errors import (
    CompletionError as CompletionError,
)
from .errors import (
    DeadlineError as DeadlineError,
)
from .errors import (
    DeviceError as DeviceError,
)
from .errors import (
    GuardError as GuardError,
)
from .errors import (
    InvalidStateTransition as InvalidStateTransition,
)
from .errors import (
    PeerError as PeerError,
)
from .errors import (
    RdmaqpError as RdmaqpError,
)
from .errors import (
    RequestError as RequestError,
)
from .errors import (
    UnaccountedError as UnaccountedError,
)
from .errors import (
    VerbsError as VerbsError,
)
from .guard import (
    Cause as Cause,
)
from .guard import (
    Finding as Finding,
)
from .guard import (
    GuardWarning as GuardWarning,
)
from .guard import (
    Policy as Policy,
)
from .guard import (
    Report as Report,
)
from .guard import (
    check as check,
)
from .guard import (
    is_valid_transition as is_valid_transition,
)
from .guard import (
    policy as policy,
)
from .model.acts import (
    GRH_BYTES as GRH_BYTES,
)
from .model.acts import (
    SendFlag as SendFlag,
)
from .model.acts import (
    WROpcode as WROpcode,
)
from .model.attributes import (
    AddressVector as AddressVector,
)
from .model.attributes import (
    GlobalRoute as GlobalRoute,
)
from .model.attributes import (
    QPAttr as QPAttr,
)
from .model.cm import (
    CMEventType as CMEventType,
)
from .model.endpoint import (
    Endpoint as Endpoint,
)
from .model.endpoints import (
    Endpoints as Endpoints,
)
from .model.enums import (
    MTU as MTU,
)
from .model.enums import (
    AccessFlag as AccessFlag,
)
from .model.enums import (
    AsyncEventType as AsyncEventType,
)
from .model.enums import (
    AttrMask as AttrMask,
)
from .model.enums import (
    GidType as GidType,
)
from .model.enums import (
    LinkLayer as LinkLayer,
)
from .model.enums import (
    MigState as MigState,
)
from .model.enums import (
    PortState as PortState,
)
from .model.enums import (
    QPState as QPState,
)
from .model.enums import (
    QPType as QPType,
)
from .model.enums import (
    WCOpcode as WCOpcode,
)
from .model.enums import (
    WCStatus as WCStatus,
)
from .model.gid import (
    GID as GID,
)
from .model.gid import (
    GidChoice as GidChoice,
)
from .model.gid import (
    GidEntry as GidEntry,
)
from .model.gid import (
    pick_gid as pick_gid,
)
from .model.request import (
    DeviceFacts as DeviceFacts,
)
from .model.request import (
    PortFacts as PortFacts,
)
from .model.request import (
    QPCap as QPCap,
)
from .model.request import (
    QPFacts as QPFacts,
)
from .model.request import (
    Request as Request,
)
from .model.steps import (
    BringUp as BringUp,
)
from .model.steps import (
    bring_up as bring_up,
)
from .model.table import (
    TABLE as TABLE,
)
from .model.table import (
    Rule as Rule,
)
from .verbs.chain import (
    Chain as Chain,
)
from .verbs.channel import (
    CompletionChannel as CompletionChannel,
)
from .verbs.completion import (
    CompletionQueue as CompletionQueue,
)
from .verbs.datagrams import (
    payload as payload,
)
from .verbs.device import (
    Context as Context,
)
from .verbs.device import (
    Device as Device,
)
from .verbs.device import (
    devices as devices,
)
from .verbs.device import (
    open as open,
)
from .verbs.domain import (
    ProtectionDomain as ProtectionDomain,
)
from .verbs.events import (
    AsyncEvent as AsyncEvent,
)
from .verbs.events import (
    AsyncEvents as AsyncEvents,
)
from .verbs.group import (
    QueuePairs as QueuePairs,
)
from .verbs.history import (
    Attempt as Attempt,
)
from .verbs.memory import (
    MemoryRegion as MemoryRegion,
)
from .verbs.modify import (
    Transition as Transition,
)
from .verbs.multicast import (
    MULTICAST_QPN as MULTICAST_QPN,
)
from .verbs.port import Port as Port
from .verbs.queue_pair import (
    QueuePair as QueuePair,
)
from .verbs.reaped import (
    Reaped as Reaped,
)
from .verbs.reaped import (
    Undone as Undone,
)
from .verbs.records import (
    RECV_DTYPE as RECV_DTYPE,
)
from .verbs.records import (
    SEND_DTYPE as SEND_DTYPE,
)
from .verbs.records import (
    Completions as Completions,
)
from .verbs.records import (
    RecvRecords as RecvRecords,
)
from .verbs.records import (
    SendRecords as SendRecords,
)
from .verbs.safe import (
    query_qp_state as query_qp_state,
)
from .verbs.safe import (
    safe_modify_qp as safe_modify_qp,
)
from .verbs.slices import (
    RemoteMemory as RemoteMemory,
)
from .verbs.slices import (
    Slice as Slice,
)
from .verbs.srq import (
    SharedReceiveQueue as SharedReceiveQueue,
)
from .verbs.srq import (
    SRQAttr as SRQAttr,
)
from .verbs.stream import (
    Sink as Sink,
)
from .verbs.stream import (
    Stream as Stream,
)
from .verbs.stream import (
    Watch as Watch,
)
from .verbs.trace import (
    trace as trace,
)
from .verbs.transfer import (
    transfer as transfer,
)
from .verbs.window import (
    Bind as Bind,
)
from .verbs.window import (
    MemoryWindow as MemoryWindow,
)
from .verbs.work import (
    CompareSwap as CompareSwap,
)
from .verbs.work import (
    Destination as Destination,
)
from .verbs.work import (
    FetchAdd as FetchAdd,
)
from .verbs.work import (
    LocalInvalidate as LocalInvalidate,
)
from .verbs.work import (
    Read as Read,
)
from .verbs.work import (
    Recv as Recv,
)
from .verbs.work import (
    Send as Send,
)
from .verbs.work import (
    Work as Work,
)
from .verbs.work import (
    Write as Write,
)
from .verbs.work_completion import (
    WorkCompletion as WorkCompletion,
)
from .verbs.xrc import (
    XRCDomain as XRCDomain,
)

__version__: str
