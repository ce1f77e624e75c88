"""Settings of a ring: what a configuration in the files says, else what its system does by default, and who said it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from engine.core.view import Inputs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.adaptive_placement import DEFAULTS, Limits
from engine.ring_placement.scenarios.load_sources import with_file_times


class System(msgspec.Struct, frozen=True):
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
UNKNOWN = System("")  # what is assumed where nothing names the system
UNREAD = frozenset(("bad-yaml", "bad-setting", "too-large"))
"""Kinds of problems that leave out settings of a configuration."""
_HINTS = {"live-store": "tempo"}  # words of single systems that are not their names


def system_of(names: Sequence[str], inputs: Inputs, folder: str) -> str:
    """Return the system that the ``names`` of a ring tell, the first of them that does; else the only one that the files in its
    ``folder`` tell, or all files where none there tells one; or ""."""
    for name in (name.lower() for name in names):
        told = {word: word for word in SYSTEMS} | _HINTS
        found = next((told[word] for word in told if word in name), "")
        if found:
            return found
    near = {number for number, info in inputs.files.items() if info.label.startswith(folder)}
    beside = _named_systems(inputs, near) or _named_systems(inputs, set(inputs.files))
    return beside.pop() if len(beside) == 1 else ""


def _named_systems(inputs: Inputs, files: set[int]) -> set[str]:
    settings, keys, metrics = (inputs.of(name, files) for name in ("settings", "keys", "metrics"))
    told = {*settings["system"].to_list(), *keys["system"].unique().to_list()}
    told |= {word for word in SYSTEMS for number in files if word in inputs.files[number].label.lower()}
    told |= {name.partition("_")[0].replace("cortex", "mimir") for name in metrics["metric"].unique().to_list()}
    return told & SYSTEMS.keys()


class Settings(msgspec.Struct, frozen=True):
    """Settings of a ring in the configurations; None or () if not set. ``label`` of their files, ``system``: what holds by
    default; ``doubt``: why they may be wrong, ``choice``: which of several files was taken, "" for none; the others as in the
    input table ``settings``."""

    label: str = ""
    system: System = UNKNOWN
    doubt: str = ""
    choice: str = ""
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


_WORDS = {"replication": "replication_factor", "zone_aware": "zone awareness", "timeout_s": "heartbeat timeout in s",
          "tenant_shards": "tenant shard size", "partition_shards": "tenant shard size", "tokens": "token strategy",
          "zones": "zones of tokens", "exclude_le": "exclusion of le", "read_sharding": "sharding of queries",
          "lookback_s": "lookback in s", "excluded": "excluded zones"}  # fmt: skip
"""Names of the settings, by their columns."""
_GIVEN = list(_WORDS)


def read_settings(inputs: Inputs, system: str, strategy: str) -> Settings:
    """Return the settings of a ring of ``system`` ("" if unknown) and of kind ``strategy``.

    Each comes from the newest configuration that has it. If there are configurations of several systems and the ring does not
    tell which is its own, none is used.
    """
    component = "segment-writer" if strategy == "segment-writer" else ""
    rows = with_file_times(inputs.table("settings"), inputs)
    rows = rows.filter(pl.col("component") == component)
    doubt, named = _unread(inputs, system), set(rows["system"].to_list()) - {""}
    if not system and len(named) > 1:
        files = rows.group_by("system").agg(pl.col("file").unique())
        listed = {
            system: ", ".join(sorted({inputs.files[n].label for n in numbers if n in inputs.files}))
            for system, numbers in files.iter_rows()
        }
        which = [f"{SYSTEMS[name].name} ({listed[name]})" for name in sorted(named)]
        doubt = f"the files beside the ring are of {' and '.join(which)}, and nothing says which it is of"
        named = set()
    elif system:
        named = {system}
    rows = rows.filter(pl.col("system").is_in([*named, ""]))
    given: dict[str, tuple[Any, str]] = {}
    differing: dict[str, str] = {}
    for row in reversed(rows.rows(named=True)):
        label = inputs.files[row["file"]].label if row["file"] in inputs.files else ""
        for name in _GIVEN:
            value = tuple(row[name]) if isinstance(row[name], list) else row[name]
            newest, source = given.setdefault(name, (value, label)) if value not in (None, ()) else (value, label)
            if newest != value and source != label:
                differing.setdefault(
                    label, f"{source}, the newest file with it, counts: {_WORDS[name]} {newest}, not {value}"
                )
    labels = ", ".join(dict.fromkeys(label for _, label in given.values()))
    choice = "; ".join(f"{text} of {label}" for label, text in differing.items())
    return Settings(
        labels, SYSTEMS.get(system, UNKNOWN), doubt, choice, **{name: value for name, (value, _) in given.items()}
    )


def _unread(inputs: Inputs, system: str) -> str:
    """Say which configurations, other than those named after another system, could not be read; "" without one."""
    paths = {problem.path for problem in inputs.problems if problem.kind in UNREAD}
    names = sorted(path.rpartition("/")[2] for path in paths)
    names = [name for name in names if not any(word in name.lower() for word in SYSTEMS.keys() - {system} if system)]
    part = "in full" if {info.path for info in inputs.files.values()} >= paths else ""
    return f"{' and '.join(names)} could not be read {part}".strip() if names else ""


class InForce(msgspec.Struct, frozen=True):
    """The settings in force on a ring with replicas. ``replication_from`` and ``zones_from``: who says so, "" for an assumption;
    ``doubt``: why they may be wrong, "" for nothing, ``choice``: which of several files was taken;
    ``reads``: the operation of queries, which ask former members of a shard up to ``lookback_s`` back, or everyone where not
    ``shards_reads``; ``system``: its name, "" if unknown; ``request_series``: keys of one write request."""

    replication: int
    replication_from: str
    doubt: str
    zone_aware: bool
    zones_from: str
    reads: str
    shards_reads: bool
    lookback_s: int
    system: str
    request_series: int
    choice: str

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
        if settings.read_sharding is False or (p.lookback is None and lookback_s == 0) or p.read_sharding != "auto":
            sharded = p.read_sharding == "on"
        reads = p.read_operation if p.read_operation != "auto" else system.reads
        doubt = "" if source == "option" else settings.doubt
        return cls(replication, source, doubt, *zones, reads, bool(sharded), int(lookback_s), system.name, p.request_series,
                   settings.choice)  # fmt: skip

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
    defaults = msgspec.structs.replace(DEFAULTS, ingestion_shards=tenant_shards)
    ranks = {number: (info.mtime_ms, info.label) for number, info in inputs.files.items()}
    rows = [*inputs.table("overrides").iter_rows(named=True)]
    newest: dict[str, Limits] = {}
    for row in sorted(rows, key=lambda row: ranks.get(row["file"], (0, ""))):
        values = {k: v for k, v in row.items() if k not in ("tenant", "file", "partition_shards") and v is not None}
        newest[row["tenant"]] = msgspec.structs.replace(defaults, **values)
    return {row["tenant"]: newest[row["tenant"]] for row in rows}


def partition_shards(inputs: Inputs) -> dict[str, int]:
    """Return the number of partitions of each tenant that override files name; the newest file of a tenant wins."""
    rows = with_file_times(inputs.table("overrides"), inputs).filter(pl.col("partition_shards").is_not_null())
    return dict(rows.select("tenant", "partition_shards").iter_rows())
