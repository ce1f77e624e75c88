"""The two placement files of the bucket: rules and distribution stats (``adaptive_placement/*.binpb``), read and written.

Source: ``PlacementRules`` and ``DistributionStats`` of ``adaptive_placementpb`` in ``grafana/pyroscope``. Names are stored
once, as lists of tenants and of (shard, owner) pairs; datasets refer to them by index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from engine.formats.protobuf import (
    BYTES,
    VARINT,
    WireError,
    expect,
    fields,
    packed,
    scalars,
    signed,
    varint,
    write_bytes,
    write_int,
    write_packed,
)
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.adaptive_placement import DatasetStats, DistributionStats, Rules
from engine.ring_placement.pyroscope.limits import Rule
from engine.ring_placement.reading.document import SANE_RATE, Document, columns_of, unreadable
from engine.text import clean

T = TypeVar("T")


class _PlacementFile(Document):
    """Recognises the bucket's two placement files."""

    kind: ClassVar[str]

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is this file, by content; by name where the beginning (only tenants, or damaged) does not tell."""
        kind = _placement_kind(head)
        if kind:
            return kind == self.kind
        return name.endswith(".binpb") and self.kind in name


class PlacementRules(_PlacementFile):
    """``adaptive_placement/placement_rules.binpb`` of the bucket."""

    id = "placement-rules"
    title = "placement_rules.binpb from the bucket"
    tables = (tables.RULES,)
    kind = "rules"

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per rule."""
        try:
            rules = placement_rules(data)
        except WireError as error:
            return unreadable(source, "bad-protobuf", str(error), error.byte)
        problems: list[Problem] = []
        rows = []
        for rule in rules.datasets:
            if max(rule.tenant_limit, rule.dataset_limit) > 2**31:
                reason = f"rule of {rule.tenant}/{rule.name}: limit too large"
                problems.append(Problem.at(source.path, "bad-limit", reason))
                continue
            strategy = min(rule.load_balancing, 99)
            rows.append((clean(rule.tenant), clean(rule.name), rule.tenant_limit, rule.dataset_limit, strategy,
                         rules.created_at))  # fmt: skip
        return Reading({"rules": columns_of(tables.RULES, rows)}, problems)


class PlacementStats(_PlacementFile):
    """``adaptive_placement/placement_stats.binpb`` of the bucket."""

    id = "placement-stats"
    title = "placement_stats.binpb from the bucket"
    tables = (tables.STATS,)
    kind = "stats"

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per dataset and shard entry."""
        try:
            stats = placement_stats(data)
        except WireError as error:
            return unreadable(source, "bad-protobuf", str(error), error.byte)
        problems: list[Problem] = []
        rows = []
        for dataset in stats.datasets:
            tenant, name = clean(dataset.tenant), clean(dataset.name)
            for (shard, owner), usage in zip(dataset.shards, dataset.usage, strict=True):
                if usage > SANE_RATE or shard > 2**31 or dataset.std_dev > SANE_RATE:
                    reason = f"{tenant}/{name}: shard {shard} has an impossible rate or ID and is left out"
                    problems.append(Problem.at(source.path, "bad-rate", reason))
                    continue
                rows.append((tenant, name, shard, clean(owner, 512), usage, dataset.std_dev, stats.created_at))
        return Reading({"stats": columns_of(tables.STATS, rows)}, problems)


def entry_at(entries: Sequence[T], index: int, what: str, at: int) -> T:
    """Return entry ``index`` of a list that a message at offset ``at`` refers to. Raises WireError."""
    if index >= len(entries):
        raise WireError(f"{what} {index} is not in the file's list of {len(entries)}", at)
    return entries[index]


def placement_rules(data: bytes) -> Rules:
    """Read stored placement rules. Raises WireError."""
    tenants: list[str] = []
    rows: list[tuple[dict[int, Any], int]] = []
    created = 0
    for number, kind, at, stop in fields(data):
        if number == 1:
            expect(kind, BYTES, number, at)
            tenants.append(scalars(data, at, stop, texts=(1,))[1])
        elif number == 2:
            expect(kind, BYTES, number, at)
            rows.append((scalars(data, at, stop, numbers=(1, 3, 4, 5), texts=(2,)), at))
        elif number == 3:
            expect(kind, VARINT, number, stop)
            created = signed(at)
    rules = tuple(Rule(entry_at(tenants, row[1], "tenant", at), row[2], row[3], row[4], row[5]) for row, at in rows)
    return Rules(tuple(tenants), rules, created)


def write_rules(rules: Rules) -> bytes:
    """Encode placement rules as Pyroscope stores them."""
    index = {tenant: i for i, tenant in enumerate(rules.tenants)}
    out = b"".join(write_bytes(1, write_bytes(1, tenant.encode()), always=True) for tenant in rules.tenants)
    for rule in rules.datasets:
        body = (
            write_int(1, index[rule.tenant])
            + write_bytes(2, rule.name.encode())
            + write_int(3, rule.tenant_limit)
            + write_int(4, rule.dataset_limit)
            + write_int(5, rule.load_balancing)
        )
        out += write_bytes(2, body, always=True)
    return out + write_int(3, rules.created_at)


def placement_stats(data: bytes) -> DistributionStats:
    """Read stored distribution stats. Raises WireError."""
    tenants: list[str] = []
    shards: list[tuple[int, str]] = []
    rows: list[tuple[dict[int, Any], list[int], list[int], int]] = []
    created = 0
    for number, kind, at, stop in fields(data):
        if number == 1:
            expect(kind, BYTES, number, at)
            tenants.append(scalars(data, at, stop, texts=(1,))[1])
        elif number == 2:
            expect(kind, BYTES, number, at)
            rows.append((scalars(data, at, stop, numbers=(1, 5), texts=(2,)), *_shard_usage(data, at, stop), at))
        elif number == 3:
            expect(kind, BYTES, number, at)
            shard = scalars(data, at, stop, numbers=(1,), texts=(2,))
            shards.append((shard[1], shard[2]))
        elif number == 4:
            expect(kind, VARINT, number, stop)
            created = signed(at)
    datasets = []
    for row, indices, usage, at in rows:
        if len(indices) != len(usage):
            raise WireError(f"a dataset has {len(indices)} shards and {len(usage)} usages", at)
        if any(i >= len(shards) for i in indices):
            raise WireError(f"a shard index is not in the file's list of {len(shards)}", at)
        tenant = entry_at(tenants, row[1], "tenant", at)
        datasets.append(DatasetStats(tenant, row[2], tuple(shards[i] for i in indices), tuple(usage), row[5]))
    return DistributionStats(tuple(datasets), created)


def _shard_usage(data: bytes, start: int, end: int) -> tuple[list[int], list[int]]:
    """Read the shard indices and usages of one dataset's stats: packed, or one by one."""
    indices: list[int] = []
    usage: list[int] = []
    for number, kind, at, stop in fields(data, start, end):
        if number in (3, 4):
            values = indices if number == 3 else usage
            values.extend([at] if kind == VARINT else packed(data, at, stop))
    return indices, usage


def write_stats(stats: DistributionStats) -> bytes:
    """Encode distribution stats as Pyroscope stores them."""
    tenants, shards = stats.indexed()
    tenant_at = {tenant: i for i, tenant in enumerate(tenants)}
    shard_at = {shard: i for i, shard in enumerate(shards)}
    out = b"".join(write_bytes(1, write_bytes(1, tenant.encode()), always=True) for tenant in tenants)
    for dataset in stats.datasets:
        body = (
            write_int(1, tenant_at[dataset.tenant])
            + write_bytes(2, dataset.name.encode())
            + write_packed(3, [shard_at[shard] for shard in dataset.shards])
            + write_packed(4, dataset.usage)
            + write_int(5, dataset.std_dev)
        )
        out += write_bytes(2, body, always=True)
    for shard, owner in shards:
        out += write_bytes(3, write_int(1, shard) + write_bytes(2, owner.encode()), always=True)
    return out + write_int(4, stats.created_at)


_TENANT, _DATASET, _RULES_TIME, _STATS_TIME = 0x0A, 0x12, 0x18, 0x20
"""Field keys (number and wire type) that a placement file can begin with."""


def _placement_kind(data: bytes) -> str:
    """Tell what the beginning of a placement file (perhaps cut) is. Returns ``rules``, ``stats`` or ``""``.

    Both begin with tenants, then datasets; a dataset of the stats has packed shard indices where one of the rules has
    a number.
    """
    try:
        at, tenants = 0, 0
        while at < len(data):
            key, body = varint(data, at, len(data))
            if key in (_RULES_TIME, _STATS_TIME):
                # Nothing but the time: an empty file of either kind, told apart by its field number. 0x20 is also a
                # blank, with which many a text begins: the number must be all there is.
                _, end = varint(data, body, len(data))
                return ("rules" if key == _RULES_TIME else "stats") if at == 0 and end == len(data) else ""
            length, start = varint(data, body, len(data)) if key in (_TENANT, _DATASET) else (0, body)
            end = min(start + length, len(data))
            if key == _TENANT and _is_tenant(data, start, length):
                tenants, at = tenants + 1, start + length
            elif key == _DATASET and tenants:
                kind = _dataset_kind(data, start, end)
                if kind is not None:
                    return kind
                at = start + length
            else:
                return ""
    except (WireError, UnicodeDecodeError):
        return ""
    return ""


def _is_tenant(data: bytes, start: int, length: int) -> bool:
    """Whether the message at ``start`` (perhaps cut) is empty or holds one text that fills it. Raises UnicodeDecodeError."""
    if length == 0:
        return True
    if data[start : start + 1] != b"\x0a":
        return False
    inner, at = varint(data, start + 1, len(data))
    if at + inner != start + length:
        return False
    data[at : min(start + length, len(data))].decode("utf-8")
    return True


def _dataset_kind(data: bytes, start: int, end: int) -> str | None:
    """Tell a dataset of stats from one of rules. Returns ``rules``, ``stats``, ``""`` for neither, None if undecided."""
    for number, kind, _, _ in fields(data, start, end):
        if number in (3, 4) and kind == VARINT:
            return "rules"
        if number in (3, 4) and kind == BYTES:
            return "stats"
        if number not in (1, 2, 5):
            return ""
    return None
