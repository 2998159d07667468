"""Where a queue pair goes: the steps of its state machine by name, and all of them at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rdmaqp.errors import VerbsError
from rdmaqp.model.arguments import checked
from rdmaqp.model.enums import QPState, QPType
from rdmaqp.model.steps import CUSTOMARY, BringUp, address_vector, as_agreed, bring_up, is_connected, step_to
from rdmaqp.verbs import datagrams
from rdmaqp.verbs.work_queues import WorkQueues

if TYPE_CHECKING:
    from rdmaqp.guard import Policy, Report
    from rdmaqp.model.attributes import AddressVector, QPAttr
    from rdmaqp.model.endpoint import Endpoint
    from rdmaqp.model.facts import PortFacts
    from rdmaqp.verbs.memory import MemoryRegion
    from rdmaqp.verbs.slices import Slice
    from rdmaqp.verbs.work import Destination
    from rdmaqp.verbs.work_completion import WorkCompletion


class Moves(WorkQueues):
    """What moves a :class:`~rdmaqp.QueuePair`. All raise as its ``modify``: GuardError, VerbsError.

    A step's arguments are ``ibv_qp_attr`` fields. Those that are not given get a customary value where the type needs
    them (:data:`rdmaqp.model.steps.CUSTOMARY`); those that the type has no place for are refused by the guard.
    """

    port_num: int | None
    local: Endpoint | None

    def to_init(
        self, *, port_num: int = 1, pkey_index: int | None = None, qp_access_flags: int | None = None,
        qkey: int | None = None,
    ) -> None:
        """RESET → INIT: bind it to a port. Receives may be posted from here on.

        RC, UC and XRC take *qp_access_flags* (LOCAL_WRITE where not given), UD a *qkey* (0x11111111).
        """
        self._modify(step_to(self.type, QPState.INIT, {
            "port_num": port_num, "pkey_index": pkey_index, "qp_access_flags": qp_access_flags, "qkey": qkey,
        }))  # fmt: skip

    def to_rtr(
        self, *, dest_qp_num: int | None = None, rq_psn: int | None = None, ah_attr: AddressVector | None = None,
        path_mtu: int | None = None, max_dest_rd_atomic: int | None = None, min_rnr_timer: int | None = None,
    ) -> None:
        """INIT → RTR: it receives from here on.

        RC, UC and XRC are told who the peer is, by the first four; RC and XRC_RECV also take *max_dest_rd_atomic* (1
        where not given) and *min_rnr_timer* (12). UD takes nothing.
        """
        self._modify(step_to(self.type, QPState.RTR, {
            "dest_qp_num": dest_qp_num, "rq_psn": rq_psn, "ah_attr": ah_attr, "path_mtu": path_mtu,
            "max_dest_rd_atomic": max_dest_rd_atomic, "min_rnr_timer": min_rnr_timer,
        }))  # fmt: skip

    def to_rts(
        self, *, sq_psn: int | None = None, timeout: int | None = None, retry_cnt: int | None = None,
        rnr_retry: int | None = None, max_rd_atomic: int | None = None,
    ) -> None:
        """RTR → RTS: it sends from here on.

        All but RAW_PACKET take *sq_psn*; RC and XRC_SEND also *timeout* (14 where not given), *retry_cnt* (6),
        *rnr_retry* (7) and *max_rd_atomic* (1); XRC_RECV *timeout* alone.
        """
        self._modify(step_to(self.type, QPState.RTS, {
            "sq_psn": sq_psn, "timeout": timeout, "retry_cnt": retry_cnt, "rnr_retry": rnr_retry,
            "max_rd_atomic": max_rd_atomic,
        }))  # fmt: skip

    def reset(self) -> None:
        """To RESET, from any state. Work that is outstanding ends without completions."""
        self.modify(qp_state=QPState.RESET)

    def error(self) -> None:
        """To ERR, from any state but RESET. Work that is outstanding completes as WR_FLUSH_ERR."""
        self.modify(qp_state=QPState.ERR)

    @checked(bring_up)
    def connect(self, local: Endpoint, remote: Endpoint, **options: Any) -> BringUp:
        """Bring an RC, UC or XRC queue pair from where it is (RESET, INIT or RTR) to RTS, towards *remote*.

        The attributes are those of :func:`~rdmaqp.model.steps.bring_up`, which takes *options*; the guard
        compares them with both records as well. Returns them.

        Raises:
            GuardError, VerbsError: as :meth:`modify`. Steps taken before stay taken: ``transitions`` names them.
            ValueError: its type has no peer; see :meth:`activate`.
        """
        if not is_connected(self.type):
            raise ValueError(
                f"{self.type.name} queue pairs have no peer to connect to: activate(local)"
                + (", and destination(remote) for each that it sends to" if self.type.name == "UD" else "")
            )
        local = local if local.qp_type is self.type else replace(local, qp_type=self.type)
        steps, peer = bring_up(local, remote, **options), as_agreed(local, remote)
        for attr in self._ahead(steps):
            self._modify(attr, None, peer)
        self.local = local
        return steps

    @checked()
    def activate(self, local: Endpoint) -> BringUp:
        """Bring a UD or RAW_PACKET queue pair, which has no peer, from where it is to RTS, as *local* says of it.

        A datagram is taken where it carries ``local.qkey``. Another is dropped by the receiving device: neither end
        hears of it.

        Raises:
            GuardError, VerbsError: as :meth:`connect`.
            ValueError: its type has a peer: :meth:`connect`.
        """
        local = local if local.qp_type is self.type else replace(local, qp_type=self.type)
        steps = bring_up(local)
        for attr in self._ahead(steps):
            self._modify(attr)
        self.local = local
        return steps

    def _ahead(self, steps: BringUp) -> list[QPAttr]:
        """Those steps that are not behind it; of a state past all of them all, for the guard to say what is wrong."""
        state = self.ask_state()
        return list(steps[state:] if state <= QPState.RTR else steps)

    # ------------------------------------------------------------------ datagrams

    @checked(address_vector)
    def destination(self, remote: Endpoint, **options: Any) -> Destination:
        """Where *remote* is, for the datagrams sent there: ``qp.send(region[0:64], to=qp.destination(remote))``.

        It has an address handle, which ``close()`` ends; *options* are those of
        :func:`~rdmaqp.model.steps.address_vector`.

        Raises:
            ValueError: the record is no UD queue pair's, or has no Q_Key.
            GuardError, VerbsError: as ``pd.create_ah``.
        """
        local = self.local or self.endpoint(self.port_num or 1, psn=0)
        return datagrams.destination(self.pd, local, remote, **options)

    @checked()
    def reply_to(
        self, wc: WorkCompletion, received: MemoryRegion | Slice, *, qkey: int | None = None
    ) -> Destination:  # fmt: skip
        """Where a datagram came from (ibv_create_ah_from_wc(3)): *wc* is its completion, *received* its whole receive.

        A datagram does not tell its sender's Q_Key: *qkey* is ours where not given.

        Raises:
            VerbsError: the address that it was sent to is no longer this port's.
            GuardError: as ``pd.create_ah``.
        """
        if qkey is None:
            qkey = None if self.local is None else self.local.qkey
        return datagrams.reply(self.pd, self.port_num or 1, wc, received, CUSTOMARY["qkey"] if qkey is None else qkey)

    def port_facts(self) -> PortFacts:
        """Of the port that a datagram leaves by, which is one packet of that port's; else nothing is known."""
        if self.type is not QPType.UD or self.port_num is None:
            return super().port_facts()
        try:
            return self.pd.context.port(self.port_num).facts
        except VerbsError:  # the judge then says that it does not know the MTU
            return super().port_facts()

    # ------------------------------------------------------------------ what a queue pair has besides

    @abstractmethod
    def endpoint(self, port_num: int = 1, *, psn: int, gid_index: int | None = None, **more: Any) -> Endpoint:
        """What to tell the peer."""

    @abstractmethod
    def modify(
        self, attr: QPAttr | None = None, *, mask: int | None = None, policy: Policy | str | None = None, **fields: Any
    ) -> Report:
        """Move, or change attributes."""

    @abstractmethod
    def _modify(
        self, attr: QPAttr, mask: int | None = None, peer: Endpoint | None = None, policy: Policy | str | None = None
    ) -> Report: ...
