"""The records in C and here are the same, field by field; and what is not a record is said to be none."""

from __future__ import annotations

import subprocess
from ctypes import Structure, sizeof
from pathlib import Path
from typing import Any

import pytest

from preload.conftest import FLAGS
from rdmaqp.preload import wire

HEADER = Path(__file__).parents[2] / "rdmaqp/preload/_c/record.h"
RECORDS: dict[str, type[Structure]] = {
    "head": wire.Head, "hello": wire.Hello, "vector": wire.Vector, "attr": wire.Attr, "call": wire.Call,
    "gid": wire.Gid, "result": wire.Result, "destroy": wire.Destroy, "verdict": wire.Verdict,
}  # fmt: skip


def test_every_field_is_where_c_has_it(tmp_path: Path) -> None:
    ours, lines = {}, []
    for name, record in RECORDS.items():
        c = f"struct rdmaqp_{name}"
        lines.append(f'printf("{name} 0 %zu\\n", sizeof({c}));')
        ours[name] = (0, sizeof(record))
        for field, *_ in record._fields_:
            what = f"{name}.{field}"
            lines.append(f'printf("{what} %zu %zu\\n", offsetof({c}, {field}), sizeof((({c} *)0)->{field}));')
            place: Any = getattr(record, field)
            ours[what] = (place.offset, place.size)
    source = tmp_path / "layout.c"
    includes = f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\n'
    source.write_text(includes + "int main(void)\n{\n" + "\n".join(lines) + "\n}\n")
    subprocess.run(["cc", *FLAGS, source, "-o", tmp_path / "layout"], check=True)
    said = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout
    theirs = {name: (int(at), int(size)) for name, at, size in map(str.split, said.splitlines())}
    assert ours == theirs
    # No gap that a field of ours could be missing from.
    for name, record in RECORDS.items():
        assert sum(ours[f"{name}.{field}"][1] for field, *_ in record._fields_) == sizeof(record), name


def test_what_is_no_record() -> None:
    hello = wire.Hello(head=wire.Head(kind=wire.Kind.HELLO), call_size=sizeof(wire.Call), gid_size=sizeof(wire.Gid))
    assert wire.read(bytes(hello)).head.kind == wire.Kind.HELLO
    for junk in (b"", b"\1", bytes(hello)[:-1], bytes(4) + bytes(hello)[4:]):
        with pytest.raises(wire.WireError, match="are no record of the shim's"):
            wire.read(junk)
    hello.call_size += 8
    with pytest.raises(wire.WireError, match="the build is stale"):
        wire.read(bytes(hello))
    with pytest.raises(wire.WireError, match="a call with 2 GIDs"):
        wire.slots_behind(wire.Call(gid_count=2), bytes(sizeof(wire.Call) + sizeof(wire.Gid)))
