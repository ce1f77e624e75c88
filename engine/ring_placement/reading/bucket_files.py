"""Files of the bucket: placement rules and distribution stats (``adaptive_placement/*.binpb``), and blocks (``block.bin``).

Source: ``PlacementRules`` and ``DistributionStats`` of ``adaptive_placementpb``, ``BlockMeta`` of ``metastore/v1`` in
``grafana/pyroscope``. Names are stored once, as lists that the other messages refer to by index. A block ends in its
metadata message, the message's length (4 bytes, big endian) and the CRC-32C over both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, ClassVar, TypeVar

import msgspec

from engine.core.reading import Document, Reading, Source, clean
from engine.formats.protobuf import BYTES, VARINT, WireError, expect, fields, packed, scalars, signed, text, varint
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.adaptive_placement import DatasetStats, DistributionStats, Rule, Rules
from engine.ring_placement.reading.document import SANE_RATE, Found, columns_of, unreadable

MAX_FOOTER_BYTES = 16 << 20  # largest plausible metadata footer

T = TypeVar("T")


class _PlacementFile(Document):
    """One of the bucket's two placement files; its rows are those of the one table."""

    kind: ClassVar[str]
    closes = True  # no line ends it

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is this file by content, or by name if the beginning is undecided (only tenants, or damaged)."""
        kind = _placement_kind(head)
        return kind == self.kind if kind else name.endswith(".binpb") and self.kind in name

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read all rows. A file that lists nothing gives one row with its time, since it replaces older files."""
        found = _Names(source.path)
        try:
            rows, created_at = self.rows(data, found)
        except WireError as error:
            return unreadable(source, "bad-protobuf", str(error), error.byte)
        table = self.tables[0]
        if created_at and not rows and not found.problems:
            rows = [(*[None] * (len(table.columns) - 1), created_at)]
        return Reading({self.kind: columns_of(table, rows)}, found.problems)

    def rows(self, data: bytes, found: _Names) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows of the file and its time (epoch ns). Raises WireError."""
        raise NotImplementedError


class PlacementRules(_PlacementFile):
    """``adaptive_placement/placement_rules.binpb`` of the bucket: one row per rule."""

    id = "placement-rules"
    title = "placement_rules.binpb from the bucket"
    tables = (tables.RULES,)
    kind = "rules"

    def rows(self, data: bytes, found: _Names) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows of the file and its time (epoch ns). Raises WireError."""
        rules = placement_rules(data, found.damaged)
        rows: list[tuple[Any, ...]] = []
        for rule in rules.datasets:
            tenant, name = found.name(rule.tenant), found.name(rule.name)
            if max(rule.tenant_limit, rule.dataset_limit) > 2**31:
                found.problem("bad-limit", f"rule of {tenant}/{name}: limit too large")
                continue
            rows.append(
                (tenant, name, rule.tenant_limit, rule.dataset_limit, min(rule.load_balancing, 99), rules.created_at)
            )
        return rows, rules.created_at


class PlacementStats(_PlacementFile):
    """``adaptive_placement/placement_stats.binpb`` of the bucket: one row per dataset and shard entry."""

    id = "placement-stats"
    title = "placement_stats.binpb from the bucket"
    tables = (tables.STATS,)
    kind = "stats"

    def rows(self, data: bytes, found: _Names) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows of the file and its time (epoch ns). Raises WireError."""
        stats = placement_stats(data, found.damaged)
        rows: list[tuple[Any, ...]] = []
        for dataset in stats.datasets:
            tenant, name = found.name(dataset.tenant), found.name(dataset.name)
            for (shard, owner), usage in zip(dataset.shards, dataset.usage, strict=True):
                if usage > SANE_RATE or shard > 2**31 or dataset.std_dev > SANE_RATE:
                    found.problem(
                        "bad-rate", f"{tenant}/{name}: shard {shard} has an impossible rate or ID and is left out"
                    )
                elif len(rows) >= MOST_ENTRIES:
                    found.problem("too-many", f"more than {MOST_ENTRIES} shard entries: the rest is left out")
                else:
                    rows.append((tenant, name, shard, found.name(owner), usage, dataset.std_dev, stats.created_at))
        return rows, stats.created_at


MOST_ENTRIES = 1 << 20  # most shard entries read from one file
LONGEST_NAME = 512
"""Characters read of a name. Files refer to names by number, so that one long name could be repeated endlessly."""


class _Names(Found):
    """The problems of one file, and its names made harmless, each once."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._names: dict[str, str] = {}

    def damaged(self, error: WireError) -> None:
        """Record a message that cannot be read; others are kept."""
        self.problem("bad-record", f"an entry that cannot be read is left out: {error}", error.byte)

    def name(self, text: str) -> str:
        if text not in self._names:
            self._names[text] = clean(text, LONGEST_NAME)
        return self._names[text]


Complain = Callable[[WireError], None]


def _refuse(error: WireError) -> None:
    raise error


def entry_at(entries: Sequence[T | None], index: int, what: str, at: int) -> T:
    """Return entry ``index`` of a list that a message at offset ``at`` refers to. Raises WireError."""
    if index >= len(entries):
        raise WireError(f"{what} {index} is not in the file's list of {len(entries)}", at)
    entry = entries[index]
    if entry is None:
        raise WireError(f"{what} {index} cannot be read", at)
    return entry


def _decoded(
    spans: Iterable[tuple[int, int, int]], decode: Callable[[int, int], T], complain: Complain
) -> Iterator[T | None]:
    """Decode the messages at ``spans`` (wire type, start, end). Yields None for a message that cannot be read, after passing its
    error to ``complain``."""
    for kind, at, stop in spans:
        try:
            expect(kind, BYTES, 1, at)
            decoded = decode(at, stop)
        except WireError as error:
            complain(error)
            decoded = None
        yield decoded


def _spans(data: bytes, messages: Iterable[int]) -> tuple[dict[int, list[tuple[int, int, int]]], dict[int, int]]:
    """Find the fields of a file: those with numbers ``messages`` as (wire type, start, end), and the last value of each
    other number. Raises WireError."""
    found: dict[int, list[tuple[int, int, int]]] = {number: [] for number in messages}
    numbers: dict[int, int] = {}
    for number, kind, at, stop in fields(data):
        if number in found:
            found[number].append((kind, at, stop))
        elif kind == VARINT:
            numbers[number] = at
    return found, numbers


def placement_rules(data: bytes, complain: Complain = _refuse) -> Rules:
    """Read stored placement rules; ``complain`` takes the error of a single rule. Raises WireError."""
    spans, numbers = _spans(data, (1, 2))
    tenants = list(_decoded(spans[1], lambda at, stop: str(scalars(data, at, stop, texts=(1,))[1]), complain))

    def rule(at: int, stop: int) -> Rule:
        row = scalars(data, at, stop, numbers=(1, 3, 4, 5), texts=(2,))
        return Rule(entry_at(tenants, row[1], "tenant", at), row[2], row[3], row[4], row[5])

    rules = tuple(each for each in _decoded(spans[2], rule, complain) if each is not None)
    return Rules(tuple(tenant or "" for tenant in tenants), rules, signed(numbers.get(3, 0)))


def placement_stats(data: bytes, complain: Complain = _refuse) -> DistributionStats:
    """Read stored distribution stats; ``complain`` takes the error of a single dataset. Raises WireError."""
    spans, numbers = _spans(data, (1, 2, 3))
    tenants = list(_decoded(spans[1], lambda at, stop: str(scalars(data, at, stop, texts=(1,))[1]), complain))

    def shard(at: int, stop: int) -> tuple[int, str]:
        row = scalars(data, at, stop, numbers=(1,), texts=(2,))
        return row[1], row[2]

    shards = list(_decoded(spans[3], shard, complain))

    def dataset(at: int, stop: int) -> DatasetStats:
        row = scalars(data, at, stop, numbers=(1, 5), texts=(2,))
        indices, usage = _shard_usage(data, at, stop)
        if len(indices) != len(usage):
            raise WireError(f"a dataset has {len(indices)} shards and {len(usage)} usages", at)
        own = tuple(entry_at(shards, index, "shard", at) for index in indices)
        return DatasetStats(entry_at(tenants, row[1], "tenant", at), row[2], own, tuple(usage), row[5])

    datasets = tuple(each for each in _decoded(spans[2], dataset, complain) if each is not None)
    return DistributionStats(datasets, signed(numbers.get(4, 0)))


def _shard_usage(data: bytes, start: int, end: int) -> tuple[list[int], list[int]]:
    """Read the shard indices and usages of one dataset's stats: packed, or one by one. Raises WireError."""
    found: dict[int, list[int]] = {3: [], 4: []}
    for number, kind, at, stop in fields(data, start, end):
        if number in found:
            found[number].extend([at] if kind == VARINT else packed(data, at, stop))
    return found[3], found[4]


_TENANT, _DATASET, _RULES_TIME, _STATS_TIME = 0x0A, 0x12, 0x18, 0x20
"""Field keys (number and wire type) that a placement file can begin with."""


def _placement_kind(data: bytes) -> str:
    """Tell the kind of a placement file from its beginning (perhaps cut): ``rules``, ``stats`` or ``""``.

    Both begin with tenants, then datasets; a dataset of the stats has packed shard indices in the field that is a number in
    the rules.
    """
    try:
        at, tenants = 0, 0
        while at < len(data):
            key, body = varint(data, at, len(data))
            if key in (_RULES_TIME, _STATS_TIME):
                # Only the time: an empty file; its field number tells the kind. 0x20 is also a blank, as texts begin
                # with: nothing else may follow the number.
                _, end = varint(data, body, len(data))
                return ("rules" if key == _RULES_TIME else "stats") if at == 0 and end == len(data) else ""
            length, start = varint(data, body, len(data)) if key in (_TENANT, _DATASET) else (0, body)
            end = min(start + length, len(data))
            if key == _TENANT and _is_tenant(data, start, length):
                tenants, at = tenants + 1, start + length
            elif key == _DATASET and tenants:
                told = ((number, kind) for number, kind, _, _ in fields(data, start, end) if number not in (1, 2, 5))
                kinds = {(n, kind): what for n in (3, 4) for kind, what in ((VARINT, "rules"), (BYTES, "stats"))}
                kind = next((kinds.get(each, "") for each in told), None)
                if kind is not None:
                    return kind
                at = start + length
            else:
                return ""
    except (WireError, UnicodeDecodeError):
        return ""
    return ""


def _is_tenant(data: bytes, start: int, length: int) -> bool:
    """Whether the message at ``start`` (perhaps cut) is empty or one text. Raises UnicodeDecodeError."""
    if length == 0:
        return True
    if data[start : start + 1] != b"\x0a":
        return False
    inner, at = varint(data, start + 1, len(data))
    if at + inner != start + length:
        return False
    data[at : min(start + length, len(data))].decode("utf-8")
    return True


class Blocks(Document):
    """``block.bin`` of segments and compacted blocks: only the footer is used."""

    id = "block"
    title = "block.bin of segments and blocks (metadata footer)"
    tables = (tables.BLOCKS,)
    closes = True  # by its footer

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it has Pyroscope's name, or begins like Parquet without the name of a Parquet file."""
        if name == "block.bin" or name.endswith((".block.bin", "-block.bin")):
            return True
        return head.startswith(b"PAR1") and not name.endswith((".parquet", ".pq"))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per dataset; ordinary Parquet gives none."""
        if data.endswith(b"PAR1") and not source.path.endswith("block.bin"):
            return Reading()
        found = _Names(source.path)
        try:
            block = block_footer(data, found.damaged)
        except (NoFooter, WireError) as error:
            kind = "no-footer" if isinstance(error, NoFooter) else "bad-footer"
            return unreadable(source, kind, str(error), getattr(error, "byte", None))
        rows = []
        created_by = found.name(block.created_by) or None
        for dataset in block.datasets:
            tenant, name = found.name(dataset.tenant), "" if dataset.index else found.name(dataset.name)
            if dataset.size > SANE_RATE or not 0 <= block.shard < 2**31:
                found.problem("bad-size", f"{name}: impossible size or shard")
                continue
            rows.append((clean(block.id, 64), block.shard, block.level if block.level < 2**31 else None, block.min_ms,
                         block.max_ms, tenant, name, dataset.size, created_by))  # fmt: skip
        return Reading({"blocks": columns_of(tables.BLOCKS, rows)}, found.problems)


class BlockDataset(msgspec.Struct, frozen=True):
    """One dataset of a block: ``size`` in bytes, ``index`` whether it is the tenant's index pseudo-dataset."""

    tenant: str
    name: str
    size: int
    index: bool


class Block(msgspec.Struct, frozen=True):
    """A block's metadata. ``created_by``: the writer's host name, empty in compacted blocks."""

    id: str
    shard: int
    level: int
    min_ms: int
    max_ms: int
    created_by: str
    datasets: tuple[BlockDataset, ...]


class NoFooter(ValueError):
    """Raised for a file without metadata at its end: a segment from before 2025, or a cut one."""


_CRC = [reduce(lambda value, _: value >> 1 ^ 0x82F63B78 * (value & 1), range(8), byte) for byte in range(256)]
"""CRC-32C of each single byte."""


def crc32c(data: bytes) -> int:
    """Compute the CRC-32C (Castagnoli) of ``data``."""
    return reduce(lambda value, byte: _CRC[(value ^ byte) & 0xFF] ^ value >> 8, data, 0xFFFFFFFF) ^ 0xFFFFFFFF


def block_footer(data: bytes, complain: Complain = _refuse) -> Block:
    """Read the metadata at the end of a ``block.bin``; ``complain`` takes the error of a single dataset.

    Raises NoFooter or WireError.
    """
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
    return _read_meta(data[start:-8], complain)


def _read_meta(meta: bytes, complain: Complain) -> Block:
    own = scalars(meta, 0, len(meta), numbers=(4, 5, 6, 7, 8), texts=(2,))
    spans, _ = _spans(meta, (10, 11))
    strings = list(_decoded(spans[11], lambda at, stop: text(meta, at, stop), complain))

    def dataset(at: int, stop: int) -> BlockDataset:
        row = scalars(meta, at, stop, numbers=(1, 2, 6, 9))
        tenant, name = (entry_at(strings, row[number], "text", at) for number in (1, 2))
        return BlockDataset(tenant, name, row[6], row[9] == 1)

    datasets = tuple(each for each in _decoded(spans[10], dataset, complain) if each is not None)
    created_by = entry_at(strings, own[8], "text", 0) if own[8] else ""
    return Block(own[2], own[4], own[5], signed(own[6]), signed(own[7]), created_by, datasets)
