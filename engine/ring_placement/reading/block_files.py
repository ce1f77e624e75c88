"""``block.bin`` files of segments and compacted blocks: the metadata footer, read and written.

Source: ``BlockMeta`` of ``metastore/v1`` in ``grafana/pyroscope``. The file ends in the message, its length (4 bytes, big
endian) and the CRC-32C over both. All texts are indices into the message's string table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from engine.formats.protobuf import (
    BYTES,
    VARINT,
    WireError,
    expect,
    fields,
    scalars,
    signed,
    text,
    write_bytes,
    write_int,
)
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.reading.document import SANE_RATE, Document, columns_of, unreadable
from engine.ring_placement.reading.placement_files import entry_at
from engine.text import clean

MAX_FOOTER_BYTES = 64 << 20
"""Largest metadata footer that is believed."""


class Blocks(Document):
    """``block.bin`` of segments and compacted blocks: only the footer is used."""

    id = "block"
    title = "block.bin of segments and blocks (metadata footer)"
    tables = (tables.BLOCKS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it has the name Pyroscope gives it, or begins like Parquet and is not called so."""
        if name == "block.bin" or name.endswith((".block.bin", "-block.bin")):
            return True
        return head.startswith(b"PAR1") and not name.endswith((".parquet", ".pq"))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per dataset; ordinary Parquet under a name of its own gives none."""
        if data.endswith(b"PAR1") and not source.path.endswith("block.bin"):
            return Reading()
        try:
            block = block_footer(data)
        except NoFooter as error:
            return unreadable(source, "no-footer", str(error))
        except WireError as error:
            return unreadable(source, "bad-footer", str(error), error.byte)
        problems: list[Problem] = []
        rows = []
        for dataset in block.datasets:
            if dataset.size > SANE_RATE or not 0 <= block.shard < 2**31:
                problems.append(Problem.at(source.path, "bad-size", f"{dataset.name}: impossible size or shard"))
                continue
            rows.append((clean(block.id, 64), block.shard, block.level if block.level < 2**31 else None, block.min_ms,
                         block.max_ms, clean(dataset.tenant), "" if dataset.index else clean(dataset.name),
                         dataset.size, clean(block.created_by, 512) or None))  # fmt: skip
        return Reading({"blocks": columns_of(tables.BLOCKS, rows)}, problems)


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
    """Raised for a file that ends without metadata: a segment from before 2025, or one that is cut."""


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


_CRC = _crc32c_table()
"""CRC-32C of each single byte."""


def crc32c(data: bytes) -> int:
    """Compute the CRC-32C (Castagnoli) of ``data``."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def block_footer(data: bytes) -> Block:
    """Read the metadata at the end of a ``block.bin``. Raises NoFooter or WireError."""
    if len(data) < 8:
        raise NoFooter("the file is shorter than a footer")
    length, checksum = struct.unpack(">II", data[-8:])
    if length == 0:
        raise NoFooter("the block has no metadata footer (written before 2025)")
    if length > len(data) - 8 or length > MAX_FOOTER_BYTES:
        raise NoFooter("the footer's length does not fit the file: cut, or not a block")
    start = len(data) - 8 - length
    if crc32c(data[start:-4]) != checksum:
        raise WireError("the footer's checksum is wrong", start)
    return _read_meta(data[start:-8])


def _read_meta(meta: bytes) -> Block:
    numbers = {4: 0, 5: 0, 6: 0, 7: 0, 8: 0}
    block_id = ""
    strings: list[str] = []
    rows: list[tuple[dict[int, Any], int]] = []
    for number, kind, at, stop in fields(meta):
        if number in numbers:
            expect(kind, VARINT, number, stop)
            numbers[number] = at
        elif number == 2:
            expect(kind, BYTES, number, at)
            block_id = text(meta, at, stop)
        elif number == 10:
            expect(kind, BYTES, number, at)
            rows.append((scalars(meta, at, stop, numbers=(1, 2, 6, 9)), at))
        elif number == 11:
            expect(kind, BYTES, number, at)
            strings.append(text(meta, at, stop))
    datasets = tuple(
        BlockDataset(entry_at(strings, row[1], "text", at), entry_at(strings, row[2], "text", at), row[6], row[9] == 1)
        for row, at in rows
    )
    created_by = entry_at(strings, numbers[8], "text", 0) if numbers[8] else ""
    return Block(block_id, numbers[4], numbers[5], signed(numbers[6]), signed(numbers[7]), created_by, datasets)


def write_block(block: Block, content: bytes) -> bytes:
    """Encode a block file: ``content``, metadata, footer."""
    strings = [""]

    def index_of(name: str) -> int:
        if name not in strings:
            strings.append(name)
        return strings.index(name)

    created_by = index_of(block.created_by)
    datasets = b""
    for d in block.datasets:
        body = write_int(1, index_of(d.tenant)) + write_int(2, index_of(d.name))
        datasets += write_bytes(10, body + write_int(6, d.size) + write_int(9, int(d.index)), always=True)
    meta = (
        write_int(1, 1)
        + write_bytes(2, block.id.encode())
        + write_int(4, block.shard)
        + write_int(5, block.level)
        + write_int(6, block.min_ms)
        + write_int(7, block.max_ms)
        + write_int(8, created_by)
        + datasets
        + b"".join(write_bytes(11, string.encode(), always=True) for string in strings)
    )
    body = meta + struct.pack(">I", len(meta))
    return content + body + struct.pack(">I", crc32c(body))
