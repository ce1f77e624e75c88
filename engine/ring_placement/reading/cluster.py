"""Several files, one cluster: which ring, which limits, which rules and which load source are in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from engine.inputs import Inputs
from engine.ring_placement.pyroscope.limits import DEFAULTS, Limits, Rule
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.load_sources import LOAD_SCHEMA, LoadSources, conform, with_file_times
from engine.ring_placement.reading.metric_files import SHARD_LIMIT

_KIND_RANK = {"page": 0, "memberlist": 1, "memberlist-binary": 2}
"""Kinds of ring files, the preferred one first."""


@dataclass(frozen=True, eq=False)
class RingFile:
    """The ring file in use: its label, kind, own time (ns), its members as written, and how many ``others`` there are."""

    label: str
    kind: str
    now_ns: int
    members: tuple[Member, ...]
    others: int = 0


@dataclass(frozen=True, eq=False)
class Cluster:
    """What the files say that does not depend on a scenario.

    ``limits`` per tenant from overrides, ``rule_rows`` the stored rules; ``load``: rows of ``LOAD_SCHEMA`` from
    ``load_source`` (one of ``SOURCES``, or ""), ``unit`` its byte; ``observed``: rows of ``OBSERVED_SCHEMA``; ``stats``:
    rows of the input table.
    """

    ring: RingFile | None
    limits: Mapping[str, Limits]
    rule_rows: pl.DataFrame
    load: pl.DataFrame
    load_source: str
    unit: str
    observed: pl.DataFrame
    stats: pl.DataFrame
    notes: tuple[str, ...] = ()

    @cached_property
    def rules(self) -> Mapping[tuple[str, str], Rule]:
        """Stored rules by (tenant, dataset)."""
        columns = ("tenant", "dataset", "tenant_limit", "dataset_limit", "load_balancing")
        return {(r[0], r[1]): Rule(*r) for r in self.rule_rows.select(columns).iter_rows()}

    @cached_property
    def written(self) -> Mapping[str, int]:
        """Bytes by instance in the best source that names who wrote them."""
        named = self.observed.filter(pl.col("instance").is_not_null())
        source = next((x for x in ("stats", "usage", "ingest", "sent", "blocks") if (named["source"] == x).any()), "")
        rows = named.filter(pl.col("source") == source)
        return dict(rows.group_by("instance", maintain_order=True).agg(pl.col("bytes").sum()).iter_rows())


def read_cluster(inputs: Inputs, wanted_ring: str, wanted_load: str, at_ms: int | None) -> Cluster:
    """Combine all input tables.

    ``wanted_ring``: part of a ring file's label, or "" for the newest; ``wanted_load``: one of ``SOURCES``, or ``auto``
    for the best there is; ``at_ms``: use only what was there then (epoch ms).
    """
    ring = choose_ring(inputs, wanted_ring, at_ms)
    stats = _newest_file(inputs.table("stats"), inputs, at_ms)
    limits = _tenant_limits(inputs)
    rules = _newest_file(inputs.table("rules"), inputs, at_ms)
    rules = _with_limit_gauges(rules, inputs, limits)
    sources = LoadSources.read(inputs, stats, ring.members if ring else ())
    names = sources.names
    source = wanted_load if wanted_load != "auto" else next(iter(names), "")
    notes: list[str] = []
    if source and source not in names:
        notes.append(f"no load of source {source} in the files; {', '.join(names) or 'none'} there")
    others = [name for name in names if name != source]
    if others and source in names:
        notes.append(f"load from {source}; also there, not mixed in: {', '.join(others)}")
    load = conform(sources.loads[source], LOAD_SCHEMA) if source in names else pl.DataFrame(schema=LOAD_SCHEMA)
    return Cluster(
        ring, limits, rules, load, source if source in names else "", sources.units.get(source, ""), sources.observed,
        stats, tuple(notes),
    )  # fmt: skip


def _tenant_limits(inputs: Inputs) -> dict[str, Limits]:
    """Return the limits of each tenant that override files name; the newest file of a tenant wins."""
    ranks = {number: (info.mtime_ms, info.label) for number, info in inputs.files.items()}
    newest: dict[str, tuple[Any, Limits]] = {}
    for row in inputs.table("overrides").iter_rows(named=True):
        rank = ranks.get(row["file"], (0, ""))
        tenant = row["tenant"]
        if tenant in newest and newest[tenant][0] > rank:
            continue
        values = {k: v for k, v in row.items() if k not in ("tenant", "file") and v is not None}
        newest[tenant] = (rank, replace(DEFAULTS, **values))
    return {tenant: limits for tenant, (_, limits) in newest.items()}


def _newest_file(frame: pl.DataFrame, inputs: Inputs, at_ms: int | None) -> pl.DataFrame:
    """Return the rows of the one file with the latest ``created_at`` (ties: latest modified, then label) up to ``at_ms``."""
    if not frame.height:
        return frame
    files = frame.group_by("file", maintain_order=True).agg(pl.col("created_at").max())
    ranked = []
    for number, created in files.iter_rows():
        if at_ms is None or created <= at_ms * 1_000_000:
            info = inputs.files.get(number)
            ranked.append((created, info.mtime_ms if info else 0, info.label if info else "", number))
    return frame.filter(pl.col("file") == (max(ranked)[3] if ranked else -1))


def choose_ring(inputs: Inputs, wanted: str, at_ms: int | None) -> RingFile | None:
    """Choose the ring file in use, of those whose label contains ``wanted`` and whose time is not after ``at_ms``: the one
    with the newest heartbeat; a page before a memberlist dump, since it has its own clock; then the later one.

    Returns None where there is none.
    """
    rings, members = inputs.table("rings"), inputs.table("members")
    newest = {}
    if members.height:
        grouped = members.group_by("file", maintain_order=True).agg(pl.col("heartbeat_s").max())
        newest = dict(grouped.iter_rows())
    ranked = []
    for row in rings.iter_rows(named=True):
        info = inputs.files.get(row["file"])
        label = info.label if info else ""
        if wanted and wanted not in label:
            continue
        now_ns = row["now_ns"] if row["now_ns"] is not None else (info.mtime_ms * 1_000_000 if info else 0)
        if at_ms is not None and now_ns > at_ms * 1_000_000 + 999_999:
            continue
        beat = newest.get(row["file"])
        rank = (
            row["members"] > 0,
            beat if beat is not None else -1,
            -_KIND_RANK.get(row["kind"], 9),
            now_ns,
            row["members"],
        )
        ranked.append((rank, label, row["file"], row["kind"], now_ns))
    if not ranked:
        return None
    _, label, file, kind, now_ns = max(ranked)
    own = members.filter(pl.col("file") == file) if members.height else members
    listed = tuple(
        Member(r["id"], r["state"], r["zone"], r["tokens"], r["address"], r["heartbeat_s"], r["registered_s"],
               bool(r["read_only"]))
        for r in own.iter_rows(named=True)
    )  # fmt: skip
    return RingFile(label, kind, now_ns, listed, len(ranked) - 1)


def _with_limit_gauges(rules: pl.DataFrame, inputs: Inputs, limits: Mapping[str, Limits]) -> pl.DataFrame:
    """Add to ``rules``, for datasets without one, what the shard limit gauges say: the newest series of each dataset,
    with its tenant's own limit."""
    metrics = inputs.table("metrics")
    gauges = metrics.filter(
        (pl.col("metric") == SHARD_LIMIT) & pl.col("dataset").is_not_null() & (pl.col("value") >= 1)
    )
    if not gauges.height:
        return rules
    key = ["tenant", "dataset"]
    tenant_limits = {tenant: limit.tenant_limit for tenant, limit in limits.items()}
    tenant_limit = pl.col("tenant").replace_strict(tenant_limits, default=DEFAULTS.tenant_limit, return_dtype=pl.Int64)
    rows = (
        with_file_times(gauges, inputs)
        .with_columns(pl.col("tenant").fill_null(""))
        .unique(key, keep="last", maintain_order=True)
        .select(
            *key,
            tenant_limit.alias("tenant_limit"),
            pl.col("value").cast(pl.Int64).alias("dataset_limit"),
            pl.col("load_balancing").cast(pl.Int64, strict=False).fill_null(0),
        )
        .join(rules, on=key, how="anti", maintain_order="left")
    )
    return pl.concat([rules, rows], how="diagonal_relaxed")
