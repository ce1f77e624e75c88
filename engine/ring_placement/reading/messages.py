"""Upstream's protobuf messages that are read here: memberlist ring, placement rules and stats, block metadata."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from engine.formats.protobuf import (
    BYTES,
    VARINT,
    WireError,
    expect,
    fields,
    packed,
    signed,
    varint,
    write_bytes,
    write_int,
    write_packed,
)
from engine.ring_placement.pyroscope.distribution import DatasetStats, DistributionStats
from engine.ring_placement.pyroscope.limits import Rule
from engine.ring_placement.pyroscope.ruler import Rules

MAX_TOKENS = 1 << 20
"""Most tokens counted of one member; more is damage."""


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("a text is not UTF-8", start) from error


@dataclass(slots=True)
class Instance:
    """One entry of the memberlist ring as stored: numbers raw, ``state`` 0 ACTIVE .. 4 LEFT, tokens counted."""

    id: str = ""
    address: str = ""
    timestamp: int = 0
    state: int = 0
    tokens: int = 0
    zone: str = ""
    registered: int = 0
    read_only: bool = False


def ring_desc(data: bytes) -> list[tuple[Instance, int]]:
    """Instances of a ring descriptor with the byte each begins at. Raises WireError."""
    found = []
    for number, kind, start, end in fields(data):
        if number != 1:
            continue
        expect(kind, BYTES, number, start)
        instance = Instance()
        key = ""
        for inner, inner_kind, at, stop in fields(data, start, end):
            if inner == 1:
                expect(inner_kind, BYTES, inner, at)
                key = _text(data, at, stop)
            elif inner == 2:
                expect(inner_kind, BYTES, inner, at)
                _instance(data, at, stop, instance)
        # The map key is the ID; the field of the same name is newer and only repeats it.
        instance.id = key
        found.append((instance, start))
    return found


def _instance(data: bytes, start: int, end: int, out: Instance) -> None:
    for number, kind, at, stop in fields(data, start, end):
        if number in (1, 7, 9):
            expect(kind, BYTES, number, at)
            if number == 1:
                out.address = _text(data, at, stop)
            elif number == 7:
                out.zone = _text(data, at, stop)
        elif number == 6:
            # Packed, or one by one from an old writer.
            out.tokens += 1 if kind == VARINT else len(packed(data, at, stop))
            if out.tokens > MAX_TOKENS:
                raise WireError(f"a member has more than {MAX_TOKENS} tokens", at)
        elif number in (2, 3, 8, 10, 11):
            expect(kind, VARINT, number, stop)
            if number == 2:
                out.timestamp = signed(at)
            elif number == 3:
                out.state = signed(at)
            elif number == 8:
                out.registered = signed(at)
            elif number == 11:
                out.read_only = bool(at)


def _tenants(data: bytes, start: int, end: int) -> str:
    tenant = ""
    for number, kind, at, stop in fields(data, start, end):
        if number == 1:
            expect(kind, BYTES, number, at)
            tenant = _text(data, at, stop)
    return tenant


def _index(values: list[str], index: int, what: str, at: int) -> str:
    if index >= len(values):
        raise WireError(f"{what} {index} is not in the file's list of {len(values)}", at)
    return values[index]


def placement_rules(data: bytes) -> Rules:
    """Stored placement rules. Raises WireError."""
    tenants: list[str] = []
    rows: list[tuple[int, str, int, int, int, int]] = []
    created = 0
    for number, kind, at, stop in fields(data):
        if number == 1:
            expect(kind, BYTES, number, at)
            tenants.append(_tenants(data, at, stop))
        elif number == 2:
            expect(kind, BYTES, number, at)
            numbers, name = {1: 0, 3: 0, 4: 0, 5: 0}, ""
            for inner, inner_kind, value, end in fields(data, at, stop):
                if inner == 2:
                    expect(inner_kind, BYTES, inner, value)
                    name = _text(data, value, end)
                elif inner in numbers:
                    expect(inner_kind, VARINT, inner, end)
                    numbers[inner] = value
            rows.append((numbers[1], name, numbers[3], numbers[4], numbers[5], at))
        elif number == 3:
            expect(kind, VARINT, number, stop)
            created = signed(at)
    rules = tuple(Rule(_index(tenants, t, "tenant", at), name, *limits) for t, name, *limits, at in rows)
    return Rules(tuple(tenants), rules, created)


def write_rules(rules: Rules) -> bytes:
    """Placement rules as upstream stores them."""
    index = {t: i for i, t in enumerate(rules.tenants)}
    out = b"".join(write_bytes(1, write_bytes(1, t.encode()), always=True) for t in rules.tenants)
    for r in rules.datasets:
        body = (
            write_int(1, index[r.tenant])
            + write_bytes(2, r.name.encode())
            + write_int(3, r.tenant_limit)
            + write_int(4, r.dataset_limit)
            + write_int(5, r.load_balancing)
        )
        out += write_bytes(2, body, always=True)
    return out + write_int(3, rules.created_at)


def placement_stats(data: bytes) -> DistributionStats:
    """Stored distribution stats. Raises WireError."""
    tenants: list[str] = []
    shards: list[tuple[int, str]] = []
    rows: list[tuple[int, str, list[int], list[int], int, int]] = []
    created = 0
    for number, kind, at, stop in fields(data):
        if number == 1:
            expect(kind, BYTES, number, at)
            tenants.append(_tenants(data, at, stop))
        elif number == 2:
            expect(kind, BYTES, number, at)
            rows.append(_dataset_stats(data, at, stop))
        elif number == 3:
            expect(kind, BYTES, number, at)
            shard, owner = 0, ""
            for inner, inner_kind, value, end in fields(data, at, stop):
                if inner == 1:
                    expect(inner_kind, VARINT, inner, end)
                    shard = value
                elif inner == 2:
                    expect(inner_kind, BYTES, inner, value)
                    owner = _text(data, value, end)
            shards.append((shard, owner))
        elif number == 4:
            expect(kind, VARINT, number, stop)
            created = signed(at)
    datasets = []
    for tenant, name, indices, usage, std_dev, at in rows:
        if len(indices) != len(usage):
            raise WireError(f"a dataset has {len(indices)} shards and {len(usage)} usages", at)
        if any(i >= len(shards) for i in indices):
            raise WireError(f"a shard index is not in the file's list of {len(shards)}", at)
        placed = tuple(shards[i] for i in indices)
        datasets.append(DatasetStats(_index(tenants, tenant, "tenant", at), name, placed, tuple(usage), std_dev))
    return DistributionStats(tuple(datasets), created)


def _dataset_stats(data: bytes, start: int, end: int) -> tuple[int, str, list[int], list[int], int, int]:
    tenant, name, std_dev = 0, "", 0
    indices: list[int] = []
    usage: list[int] = []
    for number, kind, at, stop in fields(data, start, end):
        if number in (3, 4):
            into = indices if number == 3 else usage
            into.extend([at] if kind == VARINT else packed(data, at, stop))
        elif number == 2:
            expect(kind, BYTES, number, at)
            name = _text(data, at, stop)
        elif number in (1, 5):
            expect(kind, VARINT, number, stop)
            if number == 1:
                tenant = at
            else:
                std_dev = at
    return tenant, name, indices, usage, std_dev, start


def write_stats(stats: DistributionStats) -> bytes:
    """Distribution stats as upstream stores them."""
    tenants, shards = stats.indexed()
    tenant_at = {t: i for i, t in enumerate(tenants)}
    shard_at = {s: i for i, s in enumerate(shards)}
    out = b"".join(write_bytes(1, write_bytes(1, t.encode()), always=True) for t in tenants)
    for d in stats.datasets:
        body = (
            write_int(1, tenant_at[d.tenant])
            + write_bytes(2, d.name.encode())
            + write_packed(3, [shard_at[s] for s in d.shards])
            + write_packed(4, d.usage)
            + write_int(5, d.std_dev)
        )
        out += write_bytes(2, body, always=True)
    out += b"".join(write_bytes(3, write_int(1, i) + write_bytes(2, o.encode()), always=True) for i, o in shards)
    return out + write_int(4, stats.created_at)


@dataclass(frozen=True, slots=True)
class BlockDataset:
    """One dataset of a block: ``size`` in bytes, ``index`` whether it is the tenant's index pseudo-dataset."""

    tenant: str
    name: str
    size: int
    index: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A block's metadata. ``created_by``: the writer's host name, empty in compacted blocks."""

    id: str
    shard: int
    level: int
    min_ms: int
    max_ms: int
    created_by: str
    datasets: tuple[BlockDataset, ...]


class NoFooter(ValueError):
    """The file ends without metadata: a segment from before 2025, or one that is cut."""


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


_CRC = _crc32c_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of ``data``."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def block_footer(data: bytes) -> Block:
    """Metadata at the end of a ``block.bin``. Raises NoFooter or WireError."""
    if len(data) < 8:
        raise NoFooter("the file is shorter than a footer")
    length, checksum = struct.unpack(">II", data[-8:])
    if length == 0:
        raise NoFooter("the block has no metadata footer (written before 2025)")
    if length > len(data) - 8 or length > 64 << 20:
        raise NoFooter("the footer's length does not fit the file: cut, or not a block")
    start = len(data) - 8 - length
    if crc32c(data[start:-4]) != checksum:
        raise WireError("the footer's checksum is wrong", start)
    return _block(data[start:-8])


def write_block(block: Block, content: bytes) -> bytes:
    """A block file: ``content``, metadata, footer."""
    strings = [""]

    def at(text: str) -> int:
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    created = at(block.created_by)
    rows = b"".join(
        write_bytes(
            10,
            write_int(1, at(d.tenant)) + write_int(2, at(d.name)) + write_int(6, d.size) + write_int(9, int(d.index)),
            always=True,
        )
        for d in block.datasets
    )
    meta = (
        write_int(1, 1)
        + write_bytes(2, block.id.encode())
        + write_int(4, block.shard)
        + write_int(5, block.level)
        + write_int(6, block.min_ms)
        + write_int(7, block.max_ms)
        + write_int(8, created)
        + rows
        + b"".join(write_bytes(11, s.encode(), always=True) for s in strings)
    )
    body = meta + struct.pack(">I", len(meta))
    return content + body + struct.pack(">I", crc32c(body))


def _block(meta: bytes) -> Block:
    numbers = {4: 0, 5: 0, 6: 0, 7: 0, 8: 0}
    block_id = ""
    strings: list[str] = []
    rows: list[tuple[dict[int, int], int]] = []
    for number, kind, at, stop in fields(meta):
        if number in numbers:
            expect(kind, VARINT, number, stop)
            numbers[number] = at
        elif number == 2:
            expect(kind, BYTES, number, at)
            block_id = _text(meta, at, stop)
        elif number == 10:
            expect(kind, BYTES, number, at)
            row = {1: 0, 2: 0, 6: 0, 9: 0}
            for inner, inner_kind, value, end in fields(meta, at, stop):
                if inner in row:
                    expect(inner_kind, VARINT, inner, end)
                    row[inner] = value
            rows.append((row, at))
        elif number == 11:
            expect(kind, BYTES, number, at)
            strings.append(_text(meta, at, stop))
    datasets = tuple(
        BlockDataset(_index(strings, r[1], "text", at), _index(strings, r[2], "text", at), r[6], r[9] == 1)
        for r, at in rows
    )
    created = _index(strings, numbers[8], "text", 0) if numbers[8] else ""
    return Block(block_id, numbers[4], numbers[5], signed(numbers[6]), signed(numbers[7]), created, datasets)


def looks_like_ring_desc(data: bytes) -> bool:
    """Whether ``data`` (perhaps cut) begins like a ring descriptor: a map entry of a printable ID and a member."""
    try:
        if not data.startswith(b"\x0a"):
            return False
        _, at = varint(data, 1, len(data))
        if data[at : at + 1] != b"\x0a":
            return False
        length, at = varint(data, at + 1, len(data))
        text = data[at : at + length]
        return (
            0 < len(text) <= 512
            and text.isascii()
            and text.decode().isprintable()
            and (data[at + length : at + length + 1] in (b"\x12", b""))
        )
    except (WireError, UnicodeDecodeError):
        return False


def placement_kind(data: bytes) -> str:
    """``rules``, ``stats`` or ``""``: what the beginning of a placement file (perhaps cut) is.

    Both begin with tenants, then datasets; a dataset of the stats has packed shard indices where one of the rules has
    a number.
    """
    try:
        at, tenants = 0, 0
        while at < len(data):
            key, body = varint(data, at, len(data))
            if key == 0x18 or key == 0x20:
                # Nothing but the time: an empty file of either kind, told apart by its field number. 0x20 is also a
                # blank, with which many a text begins: the number must be all there is.
                _, end = varint(data, body, len(data))
                return ("rules" if key == 0x18 else "stats") if at == 0 and end == len(data) else ""
            if key not in (0x0A, 0x12):
                return ""
            length, body = varint(data, body, len(data))
            end = min(body + length, len(data))
            if key == 0x0A:
                if length == 0:
                    at, tenants = end, tenants + 1
                    continue
                if data[body : body + 1] != b"\x0a":
                    return ""
                inner, text = varint(data, body + 1, len(data))
                if text + inner != body + length:
                    return ""
                data[text : min(text + inner, end)].decode("utf-8")
                tenants, at = tenants + 1, body + length
                continue
            if not tenants:
                return ""
            for number, kind, _, _ in fields(data, body, end):
                if number == 3 and kind == BYTES:
                    return "stats"
                if number in (3, 4) and kind == VARINT:
                    return "rules"
                if number == 4 and kind == BYTES:
                    return "stats"
                if number not in (1, 2, 5):
                    return ""
            at = body + length
    except (WireError, UnicodeDecodeError):
        return ""
    return ""
