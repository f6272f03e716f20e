"""Write OpenStreetMap's PBF, which no library here writes (https://wiki.openstreetmap.org/wiki/PBF_Format)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

Node = tuple[int, float, float]
"""Number, latitude, longitude."""
Way = tuple[int, list[int], dict[str, str]]
"""Number, its nodes, its tags."""
Relation = tuple[int, list[tuple[int, str]], dict[str, str]]
"""Number, its ways with their roles, its tags."""
WAY = 1


def pbf(nodes: Sequence[Node], ways: Sequence[Way], relations: Sequence[Relation] = ()) -> bytes:
    """One block of nodes, ways and relations."""
    texts = [""]

    def number(text: str) -> int:
        if text not in texts:
            texts.append(text)
        return texts.index(text)

    def tags(held: dict[str, str]) -> bytes:
        return _packed(2, [number(key) for key in held]) + _packed(3, [number(value) for value in held.values()])

    dense = _packed(1, _steps([one for one, _, _ in nodes]))
    dense += _packed(8, _steps([round(lat * 1e7) for _, lat, _ in nodes]))
    dense += _packed(9, _steps([round(lon * 1e7) for _, _, lon in nodes]))
    drawn = b"".join(_field(3, _field(1, one) + tags(held) + _packed(8, _steps(refs))) for one, refs, held in ways)
    joined = b"".join(
        _field(
            4,
            _field(1, one)
            + tags(held)
            + _packed(8, [number(role) for _, role in members])
            + _packed(9, _steps([way for way, _ in members]))
            + _packed(10, [WAY] * len(members)),
        )
        for one, members, held in relations
    )
    table = _field(1, b"".join(_field(1, text.encode()) for text in texts))
    groups = [_field(2, group) for group in (_field(2, dense), drawn, joined) if group]
    header = _field(4, b"OsmSchema-V0.6") + _field(4, b"DenseNodes")
    return _blob(b"OSMHeader", header) + _blob(b"OSMData", table + b"".join(groups))


def _blob(kind: bytes, content: bytes) -> bytes:
    body = _field(2, len(content)) + _field(3, zlib.compress(content))
    head = _field(1, kind) + _field(3, len(body))
    return struct.pack(">i", len(head)) + head + body


def _field(place: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(place << 3) + _varint(value)
    return _varint(place << 3 | 2) + _varint(len(value)) + value


def _packed(place: int, values: Sequence[int]) -> bytes:
    return _field(place, b"".join(map(_varint, values))) if values else b""


def _steps(values: Sequence[int]) -> list[int]:
    """Differences to the value before, with the sign in the last bit."""
    steps = [one - before for one, before in zip(values, [0, *values], strict=False)]
    return [step << 1 if step >= 0 else (-step << 1) - 1 for step in steps]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
