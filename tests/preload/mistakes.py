"""The mistakes of ``programs/mistakes.c``, and what each is to be called."""

from __future__ import annotations

#: RoCE, with a GID table like most machines': both kinds of each address, on a net device that every machine has.
ROCE = {
    "LINK": "ethernet", "GID_TBL_LEN": 256,
    "GIDS": "0=fe80::ff:fe00:1/ROCE_V1@lo,1=fe80::ff:fe00:1/ROCE_V2@lo,"
            "2=::ffff:192.0.2.1/ROCE_V1@lo,3=::ffff:192.0.2.1/ROCE_V2@lo",
}  # fmt: skip
GID = "3"

#: Name -> the rule that says it, and the attribute.
NAMED = {
    "init_left_out": ("transition-illegal", "qp_state"),
    "rtr_left_out": ("transition-illegal", "qp_state"),
    "no_min_rnr_timer": ("mask-missing", "min_rnr_timer"),
    "sq_psn_at_rtr": ("mask-excess", "sq_psn"),
    "mtu_in_bytes": ("value-enum", "path_mtu"),
    "mtu_over_active": ("mtu-over-active", "path_mtu"),
    "no_grh": ("grh-missing", "ah_attr"),
    "empty_gid": ("sgid-empty", "ah_attr.grh.sgid_index"),
    "zero_dgid": ("dgid-invalid", "ah_attr.grh.dgid"),
    "other_family": ("gid-family-mismatch", "ah_attr.grh.dgid"),
    "no_such_port": ("port-range", "port_num"),
    "other_port": ("port-range", "ah_attr.port_num"),
    "reserved_qpn": ("qpn-reserved", "dest_qp_num"),
    "psn_of_25_bits": ("value-range", "rq_psn"),
    "too_many_reads": ("rd-atomic-over-device", "max_dest_rd_atomic"),
    "timeout_32": ("value-range", "timeout"),
    "retry_cnt_8": ("value-range", "retry_cnt"),
    "no_timeout": ("mask-missing", "timeout"),
    "false_state": ("cur-state-mismatch", "cur_qp_state"),
}


def results(out: str) -> dict[str, tuple[int, int]]:
    """What the program printed: the queue pair's number, and what the last call returned, by name."""
    return {name: (int(number), int(error)) for name, number, error in map(str.split, out.splitlines())}
