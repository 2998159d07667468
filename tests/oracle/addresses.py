"""Address vectors at and beyond their boundaries: ports, families, slots, destinations, and what RoCE does not use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oracle import values
from oracle.calls import Call, Scene
from rdmaqp.model.attributes import AddressVector
from rdmaqp.model.enums import AttrMask, QPState, QPType
from rdmaqp.model.gid import GID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

_AV, _PORT, _ALT_PATH = int(AttrMask.AV), int(AttrMask.PORT), int(AttrMask.ALT_PATH)
#: Lists of calls that take the kernel a second each, since nobody answers.
NO_ANSWER = ("unreachable", "loopback")
_SILENT = 0xFD  # the last byte of an address on the lab's link that nobody has

#: Parts of an address vector -> the numbers tried.
PARTS: dict[str, tuple[int, ...]] = {
    "port_num": (0, 1, 2, 255, 256, 257, -1),
    "dlid": (0, 1, 0xBFFF, 0xC000, 0xFFFF, 0x10000, -1),
    "sl": (0, 1, 7, 8, 15, 16, 255, 256, -1),
    "src_path_bits": (0, 1, 127, 128, 255, 256, -1),
    "static_rate": (*range(27), 255, 256, -1),
    "is_global": (0, 1, 2, 255, 256, -1),
    "sgid_index": (0, 1, 2, 3, 127, 254, 255, 256, 257, -1),
    "flow_label": (0, 1, 0xFFFFF, 0x100000, 0xFFFFFFFF, 1 << 32, -1),
    "hop_limit": (0, 1, 2, 63, 64, 65, 255, 256, -1),
    "traffic_class": (0, 1, 4, 255, 256, -1),
}

#: Destinations that the kernel takes or refuses at once.
DESTINATIONS = (
    "::", "::1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1",
    "ff02::1:ff00:1", "2001:db8::1", "::192.0.2.1",
)  # fmt: skip


def vectors(scene: Scene, kind: QPType, random: Random, *, whole: bool) -> Iterator[Call]:
    """All of them, for one type."""
    for vector, group in _each(scene):
        for place in values.places(kind, _AV, random, whole=whole):
            yield values.call_at(scene, kind, place, _AV, group, ah_attr=vector)
        place = random.choice(values.places(kind, _AV, random, whole=whole))
        yield values.call_at(scene, kind, place, _AV, group, None, ah_attr=vector)
    yield from _ports(scene, kind)
    yield from _alternates(scene, kind, random, whole)
    if kind is QPType.RC:
        yield from _unreachable(scene)


def _each(scene: Scene) -> Iterator[tuple[AddressVector, str]]:
    for name, numbers in PARTS.items():
        for number in numbers:
            yield scene.vector(**{name: number}), f"ah_attr.{name}"
    yield AddressVector(), "ah_attr.grh"
    yield AddressVector(dlid=5), "ah_attr.grh"
    yield scene.vector(sgid_index=scene.empty), "ah_attr.sgid_index"
    for text in DESTINATIONS:
        for index in (scene.here, scene.other):
            if index is not None:
                yield scene.vector(dgid=GID.parse(text), sgid_index=index), "ah_attr.dgid"
    for last in (1, 2, 255):  # the lab's own address, its peer's, and the broadcast address of the link
        yield scene.vector(dgid=GID(bytes(scene.own[:15]) + bytes([last]))), "ah_attr.dgid"
    if scene.other is not None and scene.other_own is not None:
        yield scene.vector(dgid=scene.other_own, sgid_index=scene.other), "ah_attr.dgid"
        yield scene.vector(dgid=scene.other_own), "ah_attr.dgid"
        yield scene.vector(sgid_index=scene.other), "ah_attr.dgid"


def _ports(scene: Scene, kind: QPType) -> Iterator[Call]:
    """The address vector's port against the attribute's, and against the one bound at INIT."""
    for place in ((QPState.SQD, QPState.SQD), (QPState.SQD, None), (QPState.INIT, QPState.RTR), (QPState.RTS, None),
                  (QPState.INIT, None)):
        for port, theirs in ((1, 1), (1, 2), (2, 1), (2, 2), (0, 0), (1, 0), (0, 1)):
            vector = scene.vector(port_num=theirs)
            yield values.call_at(scene, kind, place, _AV | _PORT, "ports", ah_attr=vector, port_num=port)


def _alternates(scene: Scene, kind: QPType, random: Random, whole: bool) -> Iterator[Call]:
    """RoCE has no alternate path, whatever is in it."""
    given: tuple[dict[str, Any], ...] = (
        {}, {"alt_ah_attr": scene.vector(sgid_index=scene.empty)}, {"alt_ah_attr": scene.vector(port_num=2)},
        {"alt_port_num": 2}, {"alt_ah_attr": scene.vector(port_num=2), "alt_port_num": 2},
        {"alt_ah_attr": AddressVector(dlid=5)}, {"alt_timeout": 32}, {"alt_pkey_index": 1},
    )  # fmt: skip
    for more in given:
        for place in values.places(kind, _ALT_PATH, random, whole=whole):
            yield values.call_at(scene, kind, place, _ALT_PATH, "alt_ah_attr", **more)


def _unreachable(scene: Scene) -> Iterator[Call]:
    """Where nobody answers. Each of these takes the kernel a second, so there are few."""
    silent = GID(bytes(scene.own[:15]) + bytes([_SILENT]))
    elsewhere = GID.parse("198.51.100.1")  # TEST-NET-2: no route leads there
    for kind in (QPType.RC, QPType.UC):
        for dgid in (silent, elsewhere):
            yield values.call_at(scene, kind, (QPState.INIT, QPState.RTR), _AV, "unreachable",
                                 ah_attr=scene.vector(dgid=dgid))
        yield values.call_at(scene, kind, (QPState.INIT, QPState.RTR), _AV, "loopback",
                             ah_attr=scene.vector(dgid=GID.parse("127.0.0.1")))
    if scene.other is not None:
        gone = GID.parse("fe80::dead:beef")
        yield values.call_at(scene, QPType.RC, (QPState.INIT, QPState.RTR), _AV, "unreachable",
                             ah_attr=scene.vector(dgid=gone, sgid_index=scene.other))
