"""Settings of a ring: what a configuration in the files says, else what its system does by default, and who said it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from engine.core.view import Inputs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.limits import DEFAULTS, Limits
from engine.ring_placement.scenarios.load_sources import with_file_times


@dataclass(frozen=True, slots=True)
class System:
    """What a system does unless its configuration says otherwise: replication factor, heartbeat timeout, the operation of its
    queries, whether they ask only the shard of their tenant, and how far back they ask former members of it."""

    name: str
    replication: int = 3
    timeout_s: float = 60.0
    reads: str = "mimir"
    shards_reads: bool = True
    lookback_s: float = 46_800.0


SYSTEMS: Mapping[str, System] = {
    "mimir": System("Mimir"),
    "loki": System("Loki", reads="read"),
    "tempo": System("Tempo", 1, 300.0, "read", False, 3_600.0),
    "pyroscope": System("Pyroscope", 1, reads="active"),
    "cortex": System("Cortex", reads="read", shards_reads=False),
}
"""Systems by the words that name them. Sources: their documented flags, ``modules/ingester/config.go`` and
``modules/querier`` of Tempo, ``pkg/distributor`` of Pyroscope."""
UNKNOWN = System("")
"""What is assumed where nothing names the system."""
_HINTS = {"live-store": "tempo"}
"""Words of single systems that are not their names."""


def system_of(names: Sequence[str], inputs: Inputs) -> str:
    """Return the system that the ``names`` of a ring tell, the first of them that does; else the only one that the files beside
    it tell, or ""."""
    for name in (name.lower() for name in names):
        told = {word: word for word in SYSTEMS} | _HINTS
        found = next((told[word] for word in told if word in name), "")
        if found:
            return found
    metrics, paths = inputs.table("metrics"), [info.label.lower() for info in inputs.files.values()]
    beside = {*inputs.table("settings")["system"].to_list(), *inputs.table("keys")["system"].unique().to_list()}
    beside |= {word for word in SYSTEMS if any(word in path for path in paths)}
    beside |= {name.partition("_")[0].replace("cortex", "mimir") for name in metrics["metric"].unique().to_list()}
    beside &= SYSTEMS.keys()
    return beside.pop() if len(beside) == 1 else ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a ring in the configurations; None or () if not set. ``label`` of their files, ``system``: what holds by
    default; the others as in the input table ``settings``."""

    label: str = ""
    system: System = UNKNOWN
    replication: int | None = None
    zone_aware: bool | None = None
    timeout_s: float | None = None
    tenant_shards: int | None = None
    partition_shards: int | None = None
    tokens: str | None = None
    zones: tuple[str, ...] = ()
    exclude_le: bool | None = None
    read_sharding: bool | None = None
    lookback_s: float | None = None
    excluded: tuple[str, ...] = ()


_GIVEN = [name for name in Settings.__slots__ if name not in ("label", "system")]


def read_settings(inputs: Inputs, system: str, strategy: str) -> Settings:
    """Read the settings of a ring of ``system`` ("" if unknown) and of kind ``strategy``, each of the newest configuration that
    has it."""
    component = "segment-writer" if strategy == "segment-writer" else ""
    rows = with_file_times(inputs.table("settings"), inputs)
    rows = rows.filter((pl.col("component") == component) & (pl.col("system").is_in([system, ""]) | (system == "")))
    given: dict[str, object] = {}
    labels: list[str] = []
    for row in reversed(rows.rows(named=True)):
        new = {name: row[name] for name in _GIVEN if row[name] is not None and name not in given}
        given |= {name: tuple(value) if isinstance(value, list) else value for name, value in new.items()}
        if new and row["file"] in inputs.files:
            labels.append(inputs.files[row["file"]].label)
    return Settings(", ".join(labels), SYSTEMS.get(system, UNKNOWN), **given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings in force on a ring with replicas. ``replication_from`` and ``zones_from``: who says so, "" for an assumption;
    ``reads``: the operation of queries, which ask former members of a shard up to ``lookback_s`` back, or everyone where not
    ``shards_reads``; ``system``: its name, "" if unknown; ``request_series``: keys of one write request."""

    replication: int
    replication_from: str
    zone_aware: bool
    zones_from: str
    reads: str
    shards_reads: bool
    lookback_s: int
    system: str
    request_series: int

    @classmethod
    def of(cls, settings: Settings, p: RingParameters, gauge: int | None, zoned: bool) -> InForce:
        """Choose each setting: the option, else the configuration, else a gauge, else what the system does. ``gauge``: the
        replication factor of one; ``zoned``: whether every member has a zone."""
        system, label = settings.system, settings.label
        asked = ((p.replication_factor, "option"), (settings.replication, label), (gauge, "gauge"))
        default = system.replication, f"default of {system.name}" if system.name else ""
        replication, source = next(((n, who) for n, who in asked if n), default)
        zones = (zoned, "") if settings.zone_aware is None else (settings.zone_aware, label)
        if p.zone_awareness != "auto":
            zones = p.zone_awareness == "on", "option"
        lookbacks = (p.lookback, settings.lookback_s, system.lookback_s)
        lookback_s = next(seconds for seconds in lookbacks if seconds is not None)
        sharded = settings.read_sharding or system.shards_reads or p.lookback is not None
        if settings.read_sharding is False or (p.lookback is None and lookback_s == 0):
            sharded = False
        if p.read_sharding != "auto":
            sharded = p.read_sharding == "on"
        reads = p.read_operation if p.read_operation != "auto" else system.reads
        return cls(replication, source, *zones, reads, bool(sharded), int(lookback_s), system.name, p.request_series)

    @property
    def factor(self) -> str:
        """Name the replication factor."""
        return self.assumed or f"replication factor {self.replication}"

    @property
    def assumed(self) -> str:
        """Name the replication factor if nothing in the files gives it; "" if something does."""
        is_told = self.replication_from and not self.replication_from.startswith("default")
        return "" if is_told else f"replication factor {self.replication} assumed"

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on the settings and where each is from."""
        zones = self.zones_from or ("every member has a zone" if self.zone_aware else "a member has no zone")
        asked = "the shard of their tenant" if self.shards_reads else "the whole ring"
        return (
            f"replication factor {self.replication} ({self.replication_from or 'assumed'}), zone awareness "
            f"{'on' if self.zone_aware else 'off'} ({zones})",
            f"queries by the operation {self.reads} ask {asked}, lookback {self.lookback_s} s",
        )


def tenant_limits(inputs: Inputs, tenant_shards: int = 0) -> dict[str, Limits]:
    """Return the limits of each tenant in the overrides; the newest file wins. ``tenant_shards``: default shard size of a token
    ring."""
    defaults = replace(DEFAULTS, ingestion_shards=tenant_shards)
    ranks = {number: (info.mtime_ms, info.label) for number, info in inputs.files.items()}
    newest: dict[str, tuple[Any, Limits]] = {}
    for row in inputs.table("overrides").iter_rows(named=True):
        rank = ranks.get(row["file"], (0, ""))
        tenant = row["tenant"]
        if tenant in newest and newest[tenant][0] > rank:
            continue
        values = {k: v for k, v in row.items() if k not in ("tenant", "file", "partition_shards") and v is not None}
        newest[tenant] = (rank, replace(defaults, **values))
    return {tenant: limits for tenant, (_, limits) in newest.items()}


def partition_shards(inputs: Inputs) -> dict[str, int]:
    """Return the number of partitions of each tenant that override files name; the newest file of a tenant wins."""
    rows = with_file_times(inputs.table("overrides"), inputs).filter(pl.col("partition_shards").is_not_null())
    return dict(rows.select("tenant", "partition_shards").iter_rows())
