"""RoCE v2's UDP port on this machine: does anything in the kernel's packet filter stand before it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmaqp.host.answers import Refused, Unknown, ask_json, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The destination port of RoCE v2 (IANA; InfiniBand Architecture Specification, annex A17).
ROCE_PORT = 4791


def is_loaded(root: Path = Path("/")) -> bool:
    """Whether the kernel has a packet filter at all: nftables, or iptables of old."""
    return any((root / f"sys/module/{name}").is_dir() for name in ("nf_tables", "ip_tables", "ip6_tables"))


def closed_chains() -> tuple[str, ...] | Unknown:
    """Chains of nftables that drop what comes in by themselves, and have no rule that names the port.

    A device of hardware takes its packets past them; Soft-RoCE and siw do not.
    """
    found = ask_json("nft", "-j", "list", "ruleset")
    if isinstance(found, Unknown):
        return found
    if isinstance(found, Refused):
        return Unknown(f"nft: {found.why}")
    return tuple(_closed(found))


def _closed(ruleset: Any) -> Iterator[str]:
    entries = ruleset.get("nftables", []) if isinstance(ruleset, dict) else []
    rules = [entry["rule"] for entry in entries if isinstance(entry, dict) and "rule" in entry]
    for entry in entries:
        chain = entry.get("chain", {}) if isinstance(entry, dict) else {}
        if chain.get("hook") != "input" or chain.get("policy") != "drop":
            continue
        family = chain.get("family")
        there = [rule.get("expr", "") for rule in rules if rule.get("family") == family]
        if not any(str(ROCE_PORT) in json.dumps(expression) for expression in there):
            yield f"{family} {chain.get('table')} {chain.get('name')}"


def listens(root: Path = Path("/")) -> bool | Unknown:
    """Whether the kernel has a socket on the port, as Soft-RoCE has as long as it has a device."""
    tables = [read_text(root / f"proc/net/{name}") for name in ("udp", "udp6")]
    known = [table for table in tables if isinstance(table, str)]
    if not known:
        return Unknown("/proc/net/udp cannot be read")
    return any(f":{ROCE_PORT:04X} " in table for table in known)
