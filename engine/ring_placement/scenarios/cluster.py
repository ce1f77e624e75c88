"""One cluster from several files: choose the ring, the limits, the rules and the load source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import clean
from engine.core.view import Inputs, UnknownName
from engine.ring_placement.dskit.replicas import Partition
from engine.ring_placement.dskit.tokens import MAX_INSTANCE, spread_minimizing_tokens
from engine.ring_placement.pyroscope.adaptive_placement import DEFAULTS, Limits, Rule
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.load_table import DSKIT, SHARD_LIMIT
from engine.ring_placement.scenarios.load_sources import (
    LOAD_SCHEMA,
    OBSERVED_SCHEMA,
    LoadSources,
    TenantLoads,
    conform,
    with_file_times,
)
from engine.ring_placement.scenarios.settings import Settings, partition_shards, read_settings, system_of, tenant_limits

Strategy = Literal["", "segment-writer", "token-ring", "partition-ring"]
"""Kinds of rings: Pyroscope's segment writers; the token ring of Mimir, Loki and Tempo; a ring of partitions that ingesters
own; "" if unknown."""

_KIND_RANK = {"page": 0, "memberlist": 1, "memberlist-binary": 2, "store": 3, "html": 4}
"""Kinds of ring files, the preferred one first."""
_KINDS = ("segment-writer", "token-ring", "partition-ring", "")  # kinds of rings, the preferred one first
_SAME_TIME_S = 600  # seconds within which the heartbeats of rings of different kinds count as equally new
_WORDS: tuple[tuple[str, Strategy], ...] = (
    ("segment-writer", "segment-writer"), ("ingester", "token-ring"), ("mimir", "token-ring"), ("loki", "token-ring"),
    ("tempo", "token-ring"), ("cortex", "token-ring"),
)  # fmt: skip
"""Words in paths and member IDs that indicate a kind, the most certain first."""
_OTHERS = (
    "store-gateway", "compactor", "ruler", "alertmanager", "distributor", "query-scheduler", "index-gateway", "bloom",
    "pattern-ingester", "overrides-exporter", "metrics-generator", "backend-scheduler",
)  # fmt: skip
"""Components whose rings take no writes, by words in keys, file names and member IDs."""


class RingFile(msgspec.Struct, frozen=True, eq=False):
    """The ring in use.

    ``label`` and ``kind`` of its file; ``now_ns``: its own time; ``members`` as written; ``others``: number of other rings;
    ``key``: its name in its store; ``strategy``: its kind, and ``why``; ``partitions`` and ``partition_label``: the ring of
    partitions beside it; ``labels`` of all files with rings; ``component``: the component whose ring it is, if that takes no
    writes; ``times_ms`` of all rings of this kind, ascending; ``lists_members``: False for a ring of partitions alone;
    ``disagreements``: labels of other pages of the same ring, and what they tell otherwise.
    """

    label: str
    kind: str
    now_ns: int
    members: tuple[Member, ...]
    others: int = 0
    key: str = ""
    strategy: Strategy = ""
    why: str = ""
    partitions: tuple[Partition, ...] = ()
    partition_label: str = ""
    labels: tuple[str, ...] = ()
    component: str = ""
    times_ms: tuple[int, ...] = ()
    lists_members: bool = True
    disagreements: tuple[tuple[str, str], ...] = ()


class Cluster(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The cluster as the files describe it, whatever the scenario.

    ``limits`` per tenant from overrides, ``rule_rows`` the stored rules; ``load``: rows of ``LOAD_SCHEMA`` from
    ``load_source`` (one of ``SOURCES``, or ""), ``unit`` its byte; ``observed``: rows of ``OBSERVED_SCHEMA``; ``stats``:
    rows of the input table; ``tenants``: loads and keys of token rings; ``partition_shards``: partitions per tenant;
    ``settings``: of the ring of ingesters.
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
    tenants: TenantLoads = msgspec.field(default_factory=TenantLoads)
    partition_shards: Mapping[str, int] = msgspec.field(default_factory=dict)
    settings: Settings = msgspec.field(default_factory=Settings)

    @cached_property
    def rules(self) -> Mapping[tuple[str, str], Rule]:
        """Stored rules by (tenant, dataset)."""
        columns = ("tenant", "dataset", "tenant_limit", "dataset_limit", "load_balancing")
        return {(r[0], r[1]): Rule(*r) for r in self.rule_rows.select(columns).iter_rows()}

    @cached_property
    def written(self) -> Mapping[str, int]:
        """Bytes by instance, from the best source that names the writer."""
        named = self.observed.filter(pl.col("instance").is_not_null())
        source = next((x for x in ("stats", "usage", "ingest", "sent", "blocks") if (named["source"] == x).any()), "")
        rows = named.filter(pl.col("source") == source)
        return dict(rows.group_by("instance", maintain_order=True).agg(pl.col("bytes").sum()).iter_rows())


def read_cluster(
    inputs: Inputs, wanted_ring: str, wanted_load: str, at_ms: int | None, wanted_strategy: str = "auto"
) -> Cluster:
    """Combine all input tables.

    ``wanted_ring``: part of a ring's label or key, or "" for the newest; ``wanted_load``: one of ``SOURCES``, or ``auto``
    for the best; ``at_ms``: ignore later files (epoch ms); ``wanted_strategy``: the kind of ring, or ``auto`` to derive it.
    """
    ring, several = choose_ring(inputs, wanted_ring, at_ms, wanted_strategy)
    inputs = _beside(inputs, ring) if several and ring is not None else inputs
    stats = _newest_file(inputs.table("stats"), inputs, at_ms)
    strategy = "" if ring is None else ring.strategy
    names = [] if ring is None else [ring.label, ring.key, " ".join(m.id for m in ring.members[:50])]
    system = (
        "pyroscope" if strategy == "segment-writer" else system_of(names, inputs, _folder(ring.label) if ring else "")
    )
    settings = read_settings(inputs, system, strategy)
    limits = tenant_limits(inputs, settings.tenant_shards or 0)
    rules = _with_limit_gauges(_newest_file(inputs.table("rules"), inputs, at_ms), inputs, limits)
    nothing = pl.DataFrame(schema=LOAD_SCHEMA)
    if strategy in ("token-ring", "partition-ring"):
        tenants = TenantLoads.read(inputs, wanted_load)
        return Cluster(
            ring, limits, rules.clear(), nothing, tenants.source, tenants.unit, pl.DataFrame(schema=OBSERVED_SCHEMA),
            stats.clear(), tenants.notes, tenants, partition_shards(inputs), settings,
        )  # fmt: skip
    sources = LoadSources.read(inputs, stats, ring.members if ring else ())
    names = sources.names
    source = wanted_load if wanted_load != "auto" else next(iter(names), "")
    others = ", ".join(name for name in names if name != source)
    if source not in names:
        missing = f"no load from {source} in the files; there is load from: {others or 'nothing'}"
        return Cluster(ring, limits, rules, nothing, "", sources.units.get(source, ""), sources.observed, stats,
                       (missing,) if source else (), settings=settings)  # fmt: skip
    note = f"load from {source}; also in the files, not used: {others}"
    return Cluster(
        ring, limits, rules, conform(sources.loads[source], LOAD_SCHEMA), source, sources.units.get(source, ""),
        sources.observed, stats, (note,) if others else (), settings=settings,
    )  # fmt: skip


def _newest_file(frame: pl.DataFrame, inputs: Inputs, at_ms: int | None) -> pl.DataFrame:
    """Return the rows of the one file with the latest ``created_at`` (ties: latest modified, then label) up to ``at_ms``.

    A file that lists nothing has one row without names: it replaces older files by nothing.
    """
    if not frame.height:
        return frame
    files = frame.group_by("file", maintain_order=True).agg(pl.col("created_at").max())
    ranks = {number: (info.mtime_ms, info.label) for number, info in inputs.files.items()}
    ranked = [
        (created, *ranks.get(number, (0, "")), number)
        for number, created in files.iter_rows()
        if at_ms is None or created <= at_ms * 1_000_000
    ]
    return frame.filter((pl.col("file") == (max(ranked)[3] if ranked else -1)) & pl.col("tenant").is_not_null())


def _beside(inputs: Inputs, ring: RingFile) -> Inputs:
    """Return the files that belong to ``ring`` where there are rings of several kinds: those in its folder and below, without
    deeper folders that have a ring of their own."""
    own, folders = _folder(ring.label), {_folder(label) for label in ring.labels}

    def home(label: str) -> str:
        """Return the deepest folder with a ring around a file."""
        folder = _folder(label)
        while folder not in folders and folder:
            folder = _folder(folder)
        return folder

    ids = {number for number, info in inputs.files.items() if home(info.label) == own}
    files = {number: info for number, info in inputs.files.items() if number in ids}
    root = next((info.path.removesuffix(info.label) for info in files.values()), "")
    problems = tuple(problem for problem in inputs.problems if home(problem.path.removeprefix(root)) == own)
    return Inputs(inputs.version, files, problems, lambda name: inputs.of(name, ids))


def _folder(label: str) -> str:
    return label.rpartition("/")[0]


Listed = dict[str, Any]
"""A ring as listed: its row of the input table, and ``label``, ``beat`` (its newest heartbeat, -1 without one), ``ids`` of its
first members, the kind that the files tell (``told``), and the kind in use (``strategy``) with its reason (``why``)."""


def choose_ring(
    inputs: Inputs, wanted: str, at_ms: int | None, wanted_strategy: str = "auto"
) -> tuple[RingFile | None, bool]:
    """Choose the ring in use: among those whose label or key contains ``wanted`` and whose time is not after ``at_ms``, the one
    that is left after the steps below.

    Returns it, or None without any, and whether there are rings of several kinds. Raises UnknownName where there are rings, but
    none fits ``wanted``.
    """
    rings = _listed_rings(inputs, at_ms, wanted_strategy)
    everything = _of_members(rings)
    if not everything:
        return None, False
    several = len({row["told"] for row in everything} - {""}) > 1
    listed = named(rings, clean(wanted)) if wanted else everything  # as labels and keys are cleaned
    if not listed:
        names = ", ".join(sorted({clean(row["label"]) for row in everything})[:10])
        raise UnknownName(f"ring: no file or key of a ring contains {clean(wanted)!r}; there are: {names}")
    if several:
        listed = of_kind(listed, wanted_strategy)
    left = fresh(kind_known(writable(listed)), max(row["beat"] for row in listed))
    left = main(first_kind(left) if several else left)
    return _ring_file(inputs, newest(left), listed, rings, several, wanted_strategy == "auto"), several


def _fitting_or_all(rings: list[Listed], fits: Callable[[Listed], bool]) -> list[Listed]:
    """Return the rings that fit, or all where none does."""
    return [row for row in rings if fits(row)] or rings


def _of_members(rings: list[Listed]) -> list[Listed]:
    return _fitting_or_all(rings, lambda row: not row["partitions"])


def named(rings: list[Listed], wanted: str) -> list[Listed]:
    """Keep rings whose label or key is ``wanted``, or else contains it."""
    containing = _of_members([row for row in rings if wanted in row["label"] or wanted in row["key"]])
    return _fitting_or_all(containing, lambda row: wanted in (row["label"], row["key"]))


def of_kind(rings: list[Listed], wanted: str) -> list[Listed]:
    """Keep rings that may be of the kind ``wanted``: partitions lie beside a token ring. ``auto``: all."""
    replicated = {"token-ring", "partition-ring"}
    fits = replicated if wanted in replicated else {wanted}
    return rings if wanted == "auto" else _fitting_or_all(rings, lambda row: row["told"] in fits or not row["told"])


def writable(rings: list[Listed]) -> list[Listed]:
    """Keep rings with members, which alone can take writes."""
    return _fitting_or_all(rings, lambda row: row["members"] > 0)


def kind_known(rings: list[Listed]) -> list[Listed]:
    """Keep rings whose kind is known."""
    return _fitting_or_all(rings, lambda row: row["strategy"] != "")


def fresh(rings: list[Listed], beat: int) -> list[Listed]:
    """Keep rings whose newest heartbeat is about as new as ``beat`` (epoch seconds), the newest of all."""
    return _fitting_or_all(rings, lambda row: row["beat"] >= beat - _SAME_TIME_S)


def first_kind(rings: list[Listed]) -> list[Listed]:
    """Keep rings of one kind: the first of ``_KINDS`` that any ring has."""
    first = min(_KINDS.index(row["strategy"]) for row in rings)
    return [row for row in rings if row["strategy"] == _KINDS[first]]


def main(rings: list[Listed]) -> list[Listed]:
    """Keep rings under the key that the writing component uses, not those under another name in the same store."""
    return _fitting_or_all(rings, lambda row: row["key"].rpartition("/")[2] in ("", "ring", "segment-writer-ring"))


def newest(rings: list[Listed]) -> Listed:
    """Return the ring with the newest heartbeat; then a page before a memberlist dump, since it has its own clock; then the
    later one."""
    return max(rings, key=lambda row: (row["beat"], -_KIND_RANK.get(row["kind"], 9), row["now_ns"], row["members"],
                                       row["label"], row["file"]))  # fmt: skip


def _ring_file(
    inputs: Inputs, row: Listed, listed: list[Listed], rings: list[Listed], several: bool, auto: bool
) -> RingFile:
    """Read the chosen ring ``row``, with the ring of partitions beside it. ``auto``: that makes a token ring a partition ring."""
    everything = _of_members(rings)
    strategy, why = row["strategy"], row["why"]
    times_ms = sorted({other["now_ns"] // 1_000_000 for other in listed if other["strategy"] == strategy})
    partitions = _partition_ring(inputs, rings, row["label"], several) if strategy != "segment-writer" else None
    component = _component(row)
    if partitions and auto and strategy in ("", "token-ring") and not component:
        strategy, why = "partition-ring", f"a ring of partitions lies beside it ({partitions[0]})"
    label, partition_list = partitions if partitions and strategy == "partition-ring" else ("", ())
    members = () if row["partitions"] else _members_of(inputs, row["file"], row["key"])
    return RingFile(
        row["label"], row["kind"], row["now_ns"], members, len(everything) - 1, row["key"], strategy, why, partition_list,
        label, tuple(sorted({row["label"] for row in everything})), component, tuple(times_ms), not row["partitions"],
        () if row["partitions"] else _disagreements(inputs, row, members, listed),
    )  # fmt: skip


def _listed_rings(inputs: Inputs, at_ms: int | None, wanted_strategy: str) -> list[Listed]:
    """List all rings up to ``at_ms``, those of members and those of partitions."""
    members, evidence = inputs.table("members"), _Evidence(inputs)
    heads = members.group_by("file", "key", maintain_order=True).agg(pl.col("heartbeat_s").max(), pl.col("id").head(50))
    known = {(file, key): (beat, ids) for file, key, beat, ids in heads.iter_rows()}
    listed = []
    for row in inputs.table("rings").iter_rows(named=True):
        info, now_ns = inputs.files.get(row["file"]), row["now_ns"]
        if now_ns is None:  # the file has no time of its own
            now_ns = info.mtime_ms * 1_000_000 if info else 0
        if at_ms is not None and now_ns > at_ms * 1_000_000 + 999_999:
            continue
        beat, ids = known.get((row["file"], row["key"]), (None, []))
        ring = {
            **row,
            "label": info.label if info else "",
            "now_ns": now_ns,
            "beat": -1 if beat is None else beat,
            "ids": ids,
        }
        told, why = evidence.of(ring)
        strategy, why = (told, why) if wanted_strategy == "auto" else (wanted_strategy, "-o strategy")
        listed.append({**ring, "told": told, "strategy": strategy, "why": why})
    return listed


def _component(row: dict[str, Any]) -> str:
    """Return the component that key, file name or members name, if it takes no writes; else ""."""
    names = row["key"].rpartition("/")[2], row["label"].rpartition("/")[2].lower()
    found = (
        word
        for word in _OTHERS
        if any(word in name for name in names) or (row["ids"] and all(word in name.lower() for name in row["ids"]))
    )
    return next(found, "")


class _Evidence:
    """Derives the kind of a ring from its key, path and members, and from the files beside it."""

    def __init__(self, inputs: Inputs) -> None:
        metrics, overrides = inputs.table("metrics"), inputs.table("overrides")
        of_segments = pl.any_horizontal(
            pl.col("tenant_shards", "default_dataset_shards", "load_balancing", "unit_size").is_not_null()
        )
        frames: tuple[tuple[Strategy, str, pl.DataFrame], ...] = (
            ("segment-writer", "placement rules", inputs.table("rules")),
            ("segment-writer", "placement stats", inputs.table("stats")),
            ("segment-writer", "blocks", inputs.table("blocks")),
            ("segment-writer", "a table of datasets", inputs.table("loads")),
            ("segment-writer", "limits of adaptive placement", overrides.filter(of_segments)),
            ("segment-writer", "Pyroscope's metrics", metrics.filter(pl.col("metric").str.starts_with("pyroscope_"))),
            ("token-ring", "a table of keys", inputs.table("keys")),
            ("token-ring", "metrics of Mimir, Loki or Tempo", metrics.filter(pl.col("metric").is_in(list(DSKIT)))),
            ("token-ring", "limits of partitions", overrides.filter(pl.col("partition_shards").is_not_null())),
        )
        labels = {number: info.label for number, info in inputs.files.items()}
        self._beside: list[tuple[str, Strategy, str]] = [
            (labels.get(number, ""), strategy, what)
            for strategy, what, frame in frames
            if frame.height
            for number in frame["file"].unique().sort().to_list()
        ]

    def of(self, row: dict[str, Any]) -> tuple[Strategy, str]:
        """Return the kind of a ring and the reason; the kind is "" if unknown."""
        if row["partitions"]:
            return "partition-ring", "it lists partitions"
        component = _component(row)
        if component:
            return "", f"this is a ring of the {component}, which takes no writes"
        key = row["key"].rpartition("/")[2]
        if "segment-writer" in key or key == "ring":
            return "token-ring" if key == "ring" else "segment-writer", f"its key is {row['key']}"
        for names, why in (([row["label"]], "its path names"), (row["ids"], "its members are called")):
            for word, strategy in _WORDS:
                if names and all(word in name.lower() for name in names):
                    return strategy, f"{why} {word}"
        folder = _folder(row["label"])
        for found in ([entry for entry in self._beside if _folder(entry[0]).startswith(folder)], self._beside):
            kinds = {strategy for _, strategy, _ in found}
            if len(kinds) == 1:
                return found[0][1], f"{found[0][2]} beside it ({found[0][0]})"
            if kinds:
                return "", "files of both Pyroscope and Mimir, Loki or Tempo lie beside it"
        return "", "no key, path, member or file beside it says which"


def _members_of(inputs: Inputs, file: int, key: str) -> tuple[Member, ...]:
    rows = inputs.table("members").filter((pl.col("file") == file) & (pl.col("key") == key))
    values = [None if v is None else v.to_numpy().astype(np.int64) for v in rows["values"]]
    return tuple(
        Member(r["id"], r["state"], r["zone"], r["tokens"], r["address"], r["heartbeat_s"], r["registered_s"],
               bool(r["read_only"]), r["read_only_s"] or 0, values=tokens, owned=r["owned"])
        for r, tokens in zip(rows.drop("values").iter_rows(named=True), values, strict=True)
    )  # fmt: skip


_OWN_STATES = ("page", "html")  # kinds of files whose states are judged by their heartbeats already
_ONE_MOMENT_S = 60  # seconds within which two pages of one ring should be equal


def _disagreements(
    inputs: Inputs, row: Listed, members: Sequence[Member], listed: list[Listed]
) -> tuple[tuple[str, str], ...]:
    """Compare the chosen ring with other files of the same ring from about the same time. Returns their labels, and in words what
    they tell otherwise: members and states at one moment, or older heartbeats in a later file. The processes that made them are
    then parts of a split memberlist."""
    found = []
    here = {m.id: m for m in members if m.state != "LEFT"}
    for other in listed:
        apart = (other["now_ns"] - row["now_ns"]) / 10**9
        of_one_kind = other["key"] == row["key"] and (other["kind"] in _OWN_STATES) == (row["kind"] in _OWN_STATES)
        if other["label"] == row["label"] or other["partitions"] or not of_one_kind or abs(apart) > _SAME_TIME_S:
            continue
        there = {m.id: m for m in _members_of(inputs, other["file"], other["key"]) if m.state != "LEFT"}
        common = here.keys() & there.keys()
        if not any(here[name].address == there[name].address for name in common):
            continue  # of another cluster
        beats = {n: (there[n].heartbeat_s, here[n].heartbeat_s) for n in common}
        behind = [n for n, (beat, ours) in beats.items() if beat and ours and apart * (beat - ours) < 0]
        differing: dict[str, list[str]] = {}
        for name in sorted(here.keys() | there.keys()) if abs(apart) < _ONE_MOMENT_S else sorted(behind):
            states = [ring[name].state if name in ring else "not listed" for ring in (here, there)]
            if states[0] != states[1] or name in behind:
                words = " in one, ".join(states) + " in the other" if states[0] != states[1] else "older heartbeats"
                differing.setdefault(words, []).append(name)
        if differing:
            what = "; ".join(
                f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}: {w}" for w, names in differing.items()
            )
            text = (
                f"disagrees with {row['label']} on {what} (a split memberlist? compare /memberlist of both processes)"
            )
            found.append((other["label"], text))
    return tuple(found)


def _partition_ring(
    inputs: Inputs, rings: list[Listed], label: str, several: bool
) -> tuple[str, tuple[Partition, ...]] | None:
    """Return label and partitions of the newest ring of partitions in ``rings``, or None without one. With rings of ``several``
    kinds only those below the folder of ``label`` count. Missing tokens are computed."""
    near = [
        (row["now_ns"], -_KIND_RANK.get(row["kind"], 9), row["label"], row["file"], row["key"])
        for row in rings
        if row["partitions"] and (not several or _folder(row["label"]).startswith(_folder(label)))
    ]
    if not near:
        return None
    _, _, label, file, key = max(near)
    rows = inputs.table("partition_rings").filter((pl.col("file") == file) & (pl.col("key") == key))
    partitions = tuple(
        Partition(
            r["partition"], r["state"],
            spread_minimizing_tokens(0, r["partition"]) if r["values"] is None and r["partition"] <= MAX_INSTANCE
            else np.array(r["values"] or [], dtype=np.int64),
            r["changed_s"], bool(r["locked"]), tuple(r["owners"] or ()),
        )
        for r in rows.iter_rows(named=True)
    )  # fmt: skip
    return label, partitions


def _with_limit_gauges(rules: pl.DataFrame, inputs: Inputs, limits: Mapping[str, Limits]) -> pl.DataFrame:
    """Add to ``rules`` the newest shard limit gauge of each dataset without a rule, with its tenant's own limit."""
    gauges = inputs.table("metrics").filter(
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
