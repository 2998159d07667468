"""Three mistakes that people lose days to, and what the guard says. It needs no device, and not even libibverbs.

    python examples/mask_error.py
"""

from __future__ import annotations

import rdmaqp
from rdmaqp import GID, AddressVector, GidEntry, GidType, GlobalRoute, LinkLayer, QPAttr, QPState, QPType

# What rdmaqp reads from a device before each modify; here it is written down: a RoCE port of a ConnectX.
DEVICE = rdmaqp.DeviceFacts(
    name="mlx5_0", driver="mlx5", phys_port_cnt=1, max_qp_rd_atom=16, max_qp_init_rd_atom=16,
)
PORT = rdmaqp.PortFacts(num=1, link_layer=LinkLayer.ETHERNET, active_mtu=1024, gid_tbl_len=256, pkey_tbl_len=1)
GIDS = {
    0: GidEntry(0, GID.parse("fe80::a00:6"), GidType.ROCE_V2, "eth0"),
    3: GidEntry(3, GID.parse("192.0.2.6"), GidType.ROCE_V2, "eth0"),
}


def judge(title: str, attr: QPAttr, state: QPState) -> None:
    request = rdmaqp.Request(
        qp=rdmaqp.QPFacts(type=QPType.RC, state=state, qp_num=0x11, port_num=1),
        attr=attr, device=DEVICE, port=PORT, gids=GIDS, gids_complete=True,
    )
    print(f"\n# {title}\n{rdmaqp.check(request)}")


def to_rtr(address: AddressVector, **changes: int) -> QPAttr:
    given = {"path_mtu": 1024, "dest_qp_num": 0x12, "rq_psn": 0, "max_dest_rd_atomic": 1, "min_rnr_timer": 12} | changes
    return QPAttr(qp_state=QPState.RTR, ah_attr=address, **given)


good = AddressVector(grh=GlobalRoute(dgid="192.0.2.7", sgid_index=3))

wrong_mask = to_rtr(good, sq_psn=0)
wrong_mask.min_rnr_timer = None
judge("A mask copied from another example: one bit missing, one too many", wrong_mask, QPState.INIT)

judge("Code written for InfiniBand on a RoCE port, and the largest MTU there is",
      to_rtr(AddressVector(dlid=1), path_mtu=4096), QPState.INIT)

judge("Straight from RESET to RTS", QPAttr(qp_state=QPState.RTS, timeout=32, sq_psn=1 << 24), QPState.RESET)
