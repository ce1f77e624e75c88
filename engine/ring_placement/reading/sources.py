"""Several files, one cluster: which ring, which rules and which load source are used, and the keys they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from engine.inputs import Inputs
from engine.ring_placement.pyroscope.hashing import xxh64_column
from engine.ring_placement.pyroscope.keys import FINGERPRINT, FIXED, SPREAD, Keys
from engine.ring_placement.pyroscope.limits import DEFAULTS, ROUND_ROBIN, Limits, Rule
from engine.ring_placement.pyroscope.ring import Member, Ring

SOURCES = ("stats", "usage", "table", "ingest", "sent", "blocks")
"""Load sources, the best first."""

UNITS = {
    "stats": "encoded bytes in segments per second",
    "usage": "encoded bytes in segments per second",
    "table": "bytes per second as the table gives them",
    "ingest": "uncompressed profile bytes",
    "sent": "pushed bytes (perhaps compressed)",
    "blocks": "bytes in blocks",
}
"""What a byte is in each source. They are never mixed."""

_SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""An odd multiplier that carries every bit upwards (2^64 over the golden ratio)."""
_SLOT_BITS = 21

_KIND_RANK = {"page": 0, "memberlist": 1, "memberlist-binary": 2}
_USAGE_SHARD = "pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second"
_USAGE = "pyroscope_adaptive_placement_dataset_shard_usage_bytes_per_second"
_LIMIT = "pyroscope_adaptive_placement_dataset_shard_limit"
_SENT = "pyroscope_segment_writer_client_sent_bytes_sum"
_INGEST = "pyroscope_segment_writer_segment_ingest_bytes_sum"


@dataclass(frozen=True, eq=False)
class RingFile:
    """The ring file in use: its label, kind, own time (ns), and its members as written."""

    label: str
    kind: str
    now_ns: int
    members: tuple[Member, ...]
    others: int = 0


@dataclass(frozen=True, eq=False)
class Cluster:
    """Everything known from the files that does not depend on a scenario.

    ``load``: rows (tenant, tenant_hash, dataset, dataset_hash, bytes, fingerprint, shard), ``load_source`` one of
    SOURCES or "", ``unit`` its byte; ``limits`` per tenant from overrides, ``rule_rows`` the stored rules.
    ``observed``: rows (source, tenant, dataset, shard, instance, bytes).
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
    memo: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def rules(self) -> Mapping[tuple[str, str], Rule]:
        """Stored rules by (tenant, dataset)."""
        columns = ("tenant", "dataset", "tenant_limit", "dataset_limit", "load_balancing")
        return {(r[0], r[1]): Rule(*r) for r in self.rule_rows.select(columns).iter_rows()}


_LOAD_SCHEMA: dict[str, Any] = {
    "tenant": pl.String,
    "tenant_hash": pl.UInt64,
    "dataset": pl.String,
    "dataset_hash": pl.UInt64,
    "bytes": pl.Float64,
    "fingerprint": pl.UInt64,
    "shard": pl.Int64,
}
_OBSERVED_SCHEMA: dict[str, Any] = {
    "source": pl.String,
    "tenant": pl.String,
    "dataset": pl.String,
    "shard": pl.Int64,
    "instance": pl.String,
    "bytes": pl.Int64,
}


def _conform(frame: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    return frame.select(
        pl.col(name).cast(kind) if name in frame.columns else pl.lit(None, dtype=kind).alias(name)
        for name, kind in schema.items()
    )


def _limits(inputs: Inputs) -> dict[str, Limits]:
    """Limits of each tenant named in overrides; the newest file of a tenant wins."""
    frame = inputs.table("overrides")
    order = {i: (info.mtime_ms, info.label) for i, info in inputs.files.items()}
    found: dict[str, tuple[Any, Limits]] = {}
    for row in frame.iter_rows(named=True):
        rank = order.get(row["file"], (0, ""))
        tenant = row["tenant"]
        if tenant in found and found[tenant][0] > rank:
            continue
        given = {k: v for k, v in row.items() if k not in ("tenant", "file") and v is not None}
        found[tenant] = (rank, replace(DEFAULTS, **given))
    return {tenant: limits for tenant, (_, limits) in found.items()}


def _newest(frame: pl.DataFrame, inputs: Inputs, at_ms: int | None) -> pl.DataFrame:
    """Rows of the one file with the latest ``created_at`` (ties: latest modified, then label), not after ``at_ms``."""
    if not frame.height:
        return frame
    files = frame.group_by("file", maintain_order=True).agg(pl.col("created_at").max())
    ranked = [
        (
            created,
            inputs.files[i].mtime_ms if i in inputs.files else 0,
            inputs.files[i].label if i in inputs.files else "",
            i,
        )
        for i, created in files.iter_rows()
        if at_ms is None or created <= at_ms * 1_000_000
    ]
    return frame.filter(pl.col("file") == (max(ranked)[3] if ranked else -1))


def choose_ring(inputs: Inputs, wanted: str, at_ms: int | None) -> RingFile | None:
    """The ring file in use: of those whose label contains ``wanted`` and whose time is not after ``at_ms``, the one with
    the newest heartbeat; a page before a memberlist dump, since it has its own clock; then the later one."""
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


def _counters(metrics: pl.DataFrame, inputs: Inputs, name: str) -> tuple[pl.DataFrame, bool]:
    """Rows (tenant, shard, instance, bytes) of one counter, and whether they are rates: series seen in two scrapes of
    different time give a rate, one scrape alone only its total."""
    frame = metrics.filter((pl.col("metric") == name) & pl.col("shard").is_not_null())
    if not frame.height:
        return frame, False
    times = {i: info.mtime_ms for i, info in inputs.files.items()}
    frame = frame.with_columns(
        pl.coalesce("time_ms", pl.col("file").replace_strict(times, default=0, return_dtype=pl.Int64)).alias("t")
    ).sort("t", "file", maintain_order=True)
    series = ["tenant", "shard", "instance"]
    ends = frame.group_by(series, maintain_order=True).agg(
        pl.col("value").first().alias("first"),
        pl.col("value").last().alias("last"),
        ((pl.col("t").last() - pl.col("t").first()) / 1000).alias("seconds"),
    )
    rated = bool(((ends["seconds"] >= 1) & (ends["last"] >= ends["first"])).all())
    value = (pl.col("last") - pl.col("first")) / pl.col("seconds") if rated else pl.col("last")
    return ends.with_columns(value.round().alias("bytes")).sort(series, nulls_last=True), rated


def _whole_usage(split: pl.DataFrame, sums: pl.DataFrame) -> pl.DataFrame:
    """Load rows of the usage gauges: a dataset's breakdown by shard where it adds up to the dataset's own gauge (each
    shard is rounded), else that sum alone: series of shards that moved stay behind, and a scrape may lack some."""
    key = ["tenant", "dataset"]
    parts = split.group_by(key, maintain_order=True).agg(pl.col("bytes").sum().alias("parts"), pl.len().alias("n"))
    told = sums.join(parts, on=key, how="left", maintain_order="left", nulls_equal=True)
    good = ((pl.col("bytes") - pl.col("parts")).abs() <= pl.col("n")).fill_null(False)
    alone = told.filter(~good).select(sums.columns)
    kept = split.join(alone, on=key, how="anti", maintain_order="left", nulls_equal=True)
    return pl.concat([kept, alone], how="vertical_relaxed")


def _with_limit_gauges(
    rules: pl.DataFrame, metrics: pl.DataFrame, inputs: Inputs, limits: Mapping[str, Limits]
) -> pl.DataFrame:
    """``rules`` and, for datasets without one, what the shard limit gauges tell: the newest series of each, with its
    tenant's own limit."""
    found = metrics.filter((pl.col("metric") == _LIMIT) & pl.col("dataset").is_not_null() & (pl.col("value") >= 1))
    if not found.height:
        return rules
    times = {i: info.mtime_ms for i, info in inputs.files.items()}
    found = found.with_columns(pl.col("file").replace_strict(times, default=0, return_dtype=pl.Int64).alias("t"))
    key = ["tenant", "dataset"]
    own = {tenant: limit.tenant_limit for tenant, limit in limits.items()}
    told = (
        found.sort("t", "file", maintain_order=True)
        .with_columns(pl.col("tenant").fill_null(""))
        .unique(key, keep="last", maintain_order=True)
        .select(
            *key,
            pl.col("tenant")
            .replace_strict(own, default=DEFAULTS.tenant_limit, return_dtype=pl.Int64)
            .alias("tenant_limit"),
            pl.col("value").cast(pl.Int64).alias("dataset_limit"),
            pl.col("load_balancing").cast(pl.Int64, strict=False).fill_null(0),
        )
        .join(rules, on=key, how="anti", maintain_order="left")
    )
    return pl.concat([rules, told], how="diagonal_relaxed")


def gather(inputs: Inputs, wanted_ring: str, wanted_load: str, at_ms: int | None) -> Cluster:
    """Combine all input tables. ``wanted_load``: one of SOURCES, or ``auto`` for the best there is."""
    ring = choose_ring(inputs, wanted_ring, at_ms)
    notes: list[str] = []
    rules = _newest(inputs.table("rules"), inputs, at_ms)
    stats = _newest(inputs.table("stats"), inputs, at_ms)
    metrics = inputs.table("metrics")
    limits = _limits(inputs)
    rules = _with_limit_gauges(rules, metrics, inputs, limits)
    blocks = inputs.table("blocks")
    loads: dict[str, pl.DataFrame] = {}
    observed: list[pl.DataFrame] = []
    units = dict(UNITS)
    addresses = {m.address: m.id for m in ring.members if m.address} if ring else {}
    addresses |= {a.rsplit(":", 1)[0]: i for a, i in addresses.items() if ":" in a}

    if stats.height:
        rows = stats.select("tenant", "dataset", "shard", "instance", pl.col("usage").alias("bytes"))
        loads["stats"] = rows
        observed.append(rows.with_columns(pl.lit("stats").alias("source")))
    if metrics.height:
        times = {i: info.mtime_ms for i, info in inputs.files.items()}
        ordered = metrics.with_columns(
            pl.col("file").replace_strict(times, default=0, return_dtype=pl.Int64).alias("t")
        ).sort("t", "file", maintain_order=True)
        usages: tuple[tuple[str, str, list[str]], ...] = (
            (_USAGE_SHARD, "usage", ["tenant", "dataset", "shard", "instance"]),
            (_USAGE, "usage", ["tenant", "dataset"]),
        )
        for metric, name, series in usages:
            found = ordered.filter(pl.col("metric") == metric)
            found = found.unique(series, keep="last", maintain_order=True).sort(series, nulls_last=True)
            if not found.height:
                continue
            rows = found.select("tenant", "dataset", "shard", "instance", pl.col("value").round().alias("bytes"))
            if metric == _USAGE_SHARD:
                observed.append(rows.with_columns(pl.lit("usage").alias("source")))
                loads[name] = rows
                continue
            split = loads.get(name, rows.clear())
            whole = rows.join(split, on=["tenant", "dataset"], how="anti", maintain_order="left", nulls_equal=True)
            observed.append(whole.with_columns(pl.lit("usage").alias("source")))
            loads[name] = _whole_usage(split, rows)
        for metric, name in ((_SENT, "sent"), (_INGEST, "ingest")):
            rows, rated = _counters(metrics, inputs, metric)
            if not rows.height:
                continue
            rows = rows.with_columns(
                pl.col("instance").replace(addresses) if addresses else pl.col("instance"),
            )
            known = {m.id for m in ring.members} if ring else set()
            rows = rows.with_columns(
                pl.when(pl.col("instance").is_in(sorted(known))).then("instance").alias("instance")
            )
            observed.append(rows.with_columns(pl.lit(name).alias("source")))
            loads[name] = rows.group_by("tenant", "shard", maintain_order=True).agg(pl.col("bytes").sum())
            units[name] += " per second" if rated else " since the writers started (one scrape gives no rate)"
    if blocks.height:
        rows = blocks.select("tenant", "dataset", "shard", "instance", "block", pl.col("size").alias("bytes"), "level")
        rows = rows.unique(["block", "tenant", "dataset", "shard"], keep="first", maintain_order=True)
        summed = rows.group_by("tenant", "dataset", "shard", "instance", maintain_order=True).agg(pl.col("bytes").sum())
        observed.append(summed.with_columns(pl.lit("blocks").alias("source")))
        # Compacted blocks repeat what segments held: count one level, the youngest that is there.
        level = rows["level"].min()
        loads["blocks"] = (
            rows.filter(pl.col("level") == level)
            .group_by("tenant", "dataset", "shard", maintain_order=True)
            .agg(pl.col("bytes").sum())
        )
    table = inputs.table("loads")
    if table.height:
        loads["table"] = table.rename({"bytes_per_s": "bytes"})

    source = wanted_load if wanted_load != "auto" else next((s for s in SOURCES if s in loads), "")
    if source and source not in loads:
        notes.append(
            f"no load of source {source} in the files; {', '.join(s for s in SOURCES if s in loads) or 'none'} there"
        )
    load = _conform(loads[source], _LOAD_SCHEMA) if source in loads else pl.DataFrame(schema=_LOAD_SCHEMA)
    seen = [_conform(o, _OBSERVED_SCHEMA) for o in observed]
    order = ["source", "tenant", "dataset", "shard", "instance", "bytes"]
    joined = (
        pl.concat(seen).sort(order, nulls_last=True, maintain_order=True)
        if seen
        else pl.DataFrame(schema=_OBSERVED_SCHEMA)
    )
    more = [s for s in SOURCES if s in loads and s != source]
    if more and source in loads:
        notes.append(f"load from {source}; also there, not mixed in: {', '.join(more)}")
    return Cluster(
        ring, limits, rules, load, source if source in loads else "", units.get(source, ""), joined, stats,
        tuple(notes),
    )  # fmt: skip


def build_keys(cluster: Cluster, ring: Ring) -> tuple[Keys, pl.DataFrame]:
    """Keys of the cluster's load (or, without any, of the datasets that rules name, at no load), and per dataset the
    texts (tenant, dataset, limits_from), in the keys' order."""
    load = cluster.load
    if not load.height and cluster.rule_rows.height:
        names = sorted(cluster.rules)
        load = _conform(
            pl.DataFrame(
                {"tenant": [n[0] for n in names], "dataset": [n[1] for n in names], "bytes": [0.0] * len(names)}
            ),
            _LOAD_SCHEMA,
        )
    load = load.with_columns(pl.col("tenant").fill_null(""))
    whole = load["dataset"].null_count() == load.height and load.height > 0 and load["shard"].null_count() == 0
    by = ["tenant", "tenant_hash", "dataset", "dataset_hash"]
    extra = ["shard"] if whole else []
    if load["tenant_hash"].null_count() == load.height and load["dataset_hash"].null_count() == load.height:
        by = ["tenant", "dataset"]
    columns = [*by, *extra]
    datasets, row_dataset = _distinct(load.select(columns))
    tenants = datasets.select("tenant", *(["tenant_hash"] if "tenant_hash" in by else [])).unique(maintain_order=True)
    tenants = tenants.with_row_index("number")
    on = [c for c in tenants.columns if c != "number"]
    tenant_of = datasets.join(tenants, on=on, how="left", maintain_order="left", nulls_equal=True)["number"].to_numpy()
    tenant_names = tenants["tenant"].to_list()
    tenant_hash = _hashes(tenants["tenant"], tenants["tenant_hash"] if "tenant_hash" in by else None)
    texts = datasets["dataset"].fill_null("")
    name_hash = _hashes(texts, datasets["dataset_hash"] if "dataset_hash" in by else None)

    per_tenant = [cluster.limits.get(t, DEFAULTS) for t in tenant_names]
    tenant_limit = np.array([x.tenant_limit for x in per_tenant], dtype=np.int64)[tenant_of]
    dataset_limit = np.array([x.default_dataset_shards for x in per_tenant], dtype=np.int64)[tenant_of]
    origin = np.array([t in cluster.limits for t in tenant_names], dtype=np.int8)[tenant_of]
    spread = np.zeros(len(texts), dtype=bool)
    if cluster.rule_rows.height and not whole:
        rule_rows = cluster.rule_rows.join(
            datasets.select("tenant", pl.col("dataset").fill_null("")).with_row_index("at"),
            on=["tenant", "dataset"], how="inner", maintain_order="left",
        )  # fmt: skip
        at = rule_rows["at"].to_numpy()
        tenant_limit[at] = rule_rows["tenant_limit"].to_numpy()
        dataset_limit[at] = rule_rows["dataset_limit"].to_numpy()
        spread[at] = (rule_rows["load_balancing"] == ROUND_ROBIN).to_numpy()
        origin[at] = 2

    values = load["bytes"].to_numpy()
    weight = values.astype(np.int64) if (values == np.floor(values)).all() else values.astype(np.float64)
    kind = np.full(load.height, SPREAD, dtype=np.uint8)
    value = np.zeros(load.height, dtype=np.uint64)
    if load["fingerprint"].null_count() < load.height:
        given = load["fingerprint"].is_not_null().to_numpy()
        kind[given] = FINGERPRINT
        value = load["fingerprint"].fill_null(0).to_numpy().astype(np.uint64)
    total = ring.total
    keys = Keys(
        tuple(tenant_names), tenant_of.astype(np.int32), tenant_hash, name_hash, tenant_limit,
        dataset_limit, spread, row_dataset, kind, value, weight, limit=max(64, total + total // 4),
    )  # fmt: skip
    if whole and total:
        shard = datasets["shard"].to_numpy()
        keys = replace(keys, pinned=(shard - 1) % total, pinned_total=total)
    elif load["shard"].null_count() < load.height and total:
        _fix_offsets(keys, load, total)
    labels = pl.Series("limits_from", ["default", "override", "rule"]).gather(pl.Series(origin.astype(np.uint32)))
    return keys, datasets.select("tenant", texts.alias("dataset")).with_columns(labels)


def _distinct(frame: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
    """The distinct rows of ``frame`` in order, and for each row the number (int32) of its distinct one."""
    columns = frame.columns
    if not frame.height:
        return frame, np.empty(0, dtype=np.int32)
    # Comparing one number is cheaper than comparing texts. Equal numbers of different rows are possible, so look.
    leader = _leaders(_row_hashes(frame))
    leaders = pl.Series(leader.astype(np.uint32))
    if not all(frame.select(pl.col(c).gather(leaders).eq_missing(pl.col(c)).all() for c in columns).row(0)):
        leader = frame.with_row_index("at").select(pl.col("at").first().over(columns))["at"].to_numpy().astype(np.int64)
    leads = np.zeros(frame.height, dtype=bool)
    leads[leader] = True
    first = np.flatnonzero(leads)
    distinct = frame[pl.Series(first.astype(np.uint32))]
    order = distinct.select(pl.arg_sort_by(columns, nulls_last=True)).to_series()
    number = np.empty(frame.height, dtype=np.int32)
    number[first[order.to_numpy()]] = np.arange(distinct.height, dtype=np.int32)
    return distinct[order], number[leader]


def _row_hashes(frame: pl.DataFrame) -> np.ndarray:
    """One number (uint64) per row, equal for equal rows; which number it is does not matter."""
    rows = np.zeros(frame.height, dtype=np.uint64)
    for column in frame.select(pl.all().hash()).iter_columns():
        rows = (rows ^ column.to_numpy()) * _SCATTER
    return rows


def _leaders(hashes: np.ndarray) -> np.ndarray:
    """For each of ``hashes`` (uint64) the index (int64) of one that is equal, the same for all equal ones.

    All write their index into a slot of a table and read who stays there; those that find another hash try again
    among themselves with other bits. Where few are distinct that is much less work than sorting or a hash table.
    """
    bits = min(max(len(hashes).bit_length() + 1, 8), _SLOT_BITS)
    slots = np.empty(1 << bits, dtype=np.int64)
    out = left = np.arange(len(hashes))
    wanted = state = hashes
    while len(left):
        # A signed view, not a copy: indexing by what NumPy indexes with itself is several times faster.
        at = (state >> np.uint64(64 - bits)).view(np.int64)
        slots[at] = left
        found = slots[at]
        if left is out:
            out = found
        else:
            out[left] = found
        again = np.flatnonzero(hashes[found] != wanted)
        left, wanted, state = left[again], wanted[again], state[again]
        state = (state ^ (state >> np.uint64(29))) * _SCATTER
    return out


def _hashes(texts: pl.Series, raw: pl.Series | None) -> np.ndarray:
    unique = texts.unique(maintain_order=True)
    if len(unique) < len(texts):
        table = pl.DataFrame({texts.name: unique, "hash": pl.Series(xxh64_column(unique), dtype=pl.UInt64)})
        hashes = texts.to_frame().join(table, on=texts.name, how="left", maintain_order="left")["hash"]
    else:
        hashes = pl.Series("hash", xxh64_column(texts), dtype=pl.UInt64)
    if raw is not None:
        hashes = pl.select(pl.coalesce(raw, hashes)).to_series()
    return hashes.to_numpy().astype(np.uint64)


def _fix_offsets(keys: Keys, load: pl.DataFrame, total: int) -> None:
    """Rows whose shard is known use that shard's offset, if the dataset may use it on this ring; the others (written
    before a change, or elsewhere) are spread over the dataset's shards."""
    ranges = keys.ranges(total)
    rows = keys.row_dataset
    shard = load["shard"].fill_null(0).to_numpy().astype(np.int64)
    in_tenant = (shard - 1 - ranges.a[rows]) % total
    tenant_size = np.maximum(ranges.tenant_size[rows], 1)
    offset = (in_tenant - (ranges.c[rows] - ranges.a[rows])) % tenant_size
    known = (
        (shard >= 1) & (shard <= total) & (in_tenant < ranges.tenant_size[rows]) & (offset < ranges.dataset_size[rows])
    )
    keys.row_kind[known] = FIXED
    keys.row_value[known] = offset[known].astype(np.uint64)
