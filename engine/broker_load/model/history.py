"""History: raw metrics and descriptions to sampling rounds.

The inputs of a round are known before it is built, so that only needed and changed rounds are.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.model import cluster_facts, identity, rounds, ticks, topology
from engine.broker_load.model.identity import Identity
from engine.broker_load.model.rounds import Round
from engine.broker_load.model.topology import Broker, Ints, Partitions, Topology
from engine.broker_load.reading.metric_names import GONE_MS
from engine.broker_load.tables import raw_metrics
from engine.core.incremental import Partials
from engine.core.view import FILE, Context, Inputs

MOST_ROWS = 1_000_000  # most raw metrics turned into rounds in one pass: it bounds memory
MOST_LEFT_OUT = 0.1  # share of the partitions with a size that may be missing in a description of the whole cluster
MOST_ROUNDS = 2_000  # most rounds built at once

Stamp = Hashable  # identifies the inputs of a round: equal stamps mean equal rounds


class History(msgspec.Struct, frozen=True, eq=False):
    """The history up to the moment looked at.

    ``stamps`` of its rounds, also of later ones, by moment (epoch ms) in order of time; the ``topology`` at that moment; the
    brokers of scraped hosts; the number of CPUs by broker id. ``unknown``: what the topology lacks, in words, if it is made
    from exporters' series.

    A moment is the end of a sampling interval or, in the last one, the moment looked at. ``build`` makes the rounds of some
    moments from their raw metrics, of which there are ``rows``; ``at`` returns the topology of a moment.
    """

    stamps: Mapping[int, Stamp]
    rows: Mapping[int, int]
    at: Callable[[int], Topology]
    build: Callable[[Collection[int]], dict[int, Round]]
    topology: Topology
    identity: Identity
    node_cpus: Mapping[int, int]
    unknown: str = ""


def known_brokers(listed: pl.DataFrame, answers: pl.DataFrame, hosts: dict[int, str]) -> dict[int, Broker]:
    """Return brokers by id: from broker lists, else from load answers and the ``hosts`` scraped."""
    brokers = {
        row["broker"]: Broker(row["host"] or "", row["rack"], bool(row["alive"]), True)
        for row in listed.sort(pl.col("rack").fill_null("") != "", maintain_order=True).iter_rows(named=True)
    }  # the last one counts, preferably one that names the rack
    if brokers:
        return brokers
    for row in answers.iter_rows(named=True):
        if row["host"] and row["broker"] is not None:
            brokers[row["broker"]] = Broker(row["host"], row["rack"] or "", row["state"] != "DEAD", False)
    for broker, host in sorted(hosts.items()):
        brokers.setdefault(broker, Broker(host, "", True, False))
    return brokers


def gather(inputs: Inputs, context: Context, until_ms: int | None, interval_ms: int) -> History | None:
    """Return the history up to ``until_ms`` (inclusive; None for all), or None where no topology is known."""
    every = ticks.of(inputs, context)
    past = every if until_ms is None else every.filter(pl.col("time_ms") <= until_ms)
    listed = inputs.table("reassigning")
    listed = listed if until_ms is None else listed.filter(pl.col("time_ms") <= until_ms)
    placements, unknown = _reassigned(inputs.table("topology"), listed), ""
    if partial(inputs, context):
        placements = placements.clear()
    if not placements.height:
        placements, unknown = _of_exporters(inputs, past, until_ms)
        if not placements.height:
            return None
    reported = inputs.table("log_dirs")
    reported = reported if until_ms is None else reported.filter(pl.col("time_ms") <= until_ms)
    sizes = inputs.table("log_dir_sizes")
    placements, lost = _in_failed_dirs(placements, failed_dirs(inputs, until_ms), sizes)
    who, brokers = _identify(inputs, past, topology.newest(placements, until_ms))
    lately = past.filter(pl.col("time_ms") >= pl.col("time_ms").max() - GONE_MS)
    heard = frozenset(ticks.by_broker(lately, who.ids)["broker"].drop_nulls()) | frozenset(reported["broker"])
    repeats = ticks.repeats(every)
    by_broker = ticks.by_broker(ticks.counting(every, repeats), who.ids)
    by_broker = by_broker.with_columns((pl.col("time_ms") // interval_ms).alias("interval"))
    # A round holds what was measured until its moment: the end of its interval or, in the last one, the moment looked at.
    sources = _sources(by_broker, interval_ms)
    if until_ms is not None:
        before = _sources(by_broker.filter(pl.col("time_ms") <= until_ms), interval_ms)
        sources.update((until_ms, source) for moment, source in before.items() if moment > until_ms)
    sources = dict(sorted(sources.items()))
    at = _topologies(inputs, context, placements, [*sources, until_ms], brokers, heard, lost)
    size_stamp = inputs.stamp(sizes[FILE].unique().to_list())
    stamps = {moment: (source, at(moment), () if source.sized else size_stamp) for moment, source in sources.items()}

    def build(moments: Collection[int]) -> dict[int, Round]:
        made: dict[int, Round] = {}
        for batch in _batches(moments, sources, at, until_ms):
            context.check()
            if len(moments) > 4:
                context.progress(len(made) / len(moments), "sampling rounds")
            files = {file for moment in batch for file in sources[moment].files}
            timely = pl.col("time_ms").is_between(min(sources[moment].since for moment in batch), batch[-1])
            rows = ticks.readings(pl.concat(inputs.parts("metrics", files, timely)), who.ids, interval_ms, repeats)
            intervals = [moment // interval_ms for moment in batch]
            rows = rows.filter(pl.col("interval") >= intervals[0])
            if len(batch) <= intervals[-1] - intervals[0]:  # with gaps in between
                rows = rows.filter(
                    pl.col("interval").is_in(pl.Series(intervals, dtype=rows.schema["interval"]).implode())
                )
            if sizes.height and not all(sources[moment].sized for moment in batch):
                by_interval = rows.partition_by("interval", as_dict=True, maintain_order=True)
                rows = pl.concat([rows.head(0), *(
                    ticks.add_sizes(by_interval[interval,], sizes, end)
                    for interval, end in zip(intervals, batch, strict=True) if (interval,) in by_interval
                )])  # fmt: skip
            made.update(zip(batch, rounds.build(intervals, rows, at(batch[0])), strict=True))
        return made

    rows_of = {moment: source.rows for moment, source in sources.items()}
    return History(stamps, rows_of, at, build, at(until_ms), who, ticks.cpu_counts(every, who.ids), unknown)


REASSIGNED_MS = 600_000
"""A list of reassignments without brokers counts for a description that is at most this much younger."""


def _reassigned(rows: pl.DataFrame, moving: pl.DataFrame) -> pl.DataFrame:
    """Return ``rows`` of input table ``topology`` with the reassignments that input table ``reassigning`` names.

    A list that names other replicas than the description counts only if it is the younger one.
    """
    if not moving.height or not rows.height:
        return rows
    last = moving.sort("time_ms").unique(["topic", "partition"], keep="last").drop(FILE)
    both = rows.join(last, on=["topic", "partition"], how="left", maintain_order="left", suffix="_listed")
    same = pl.col("replicas").list.set_symmetric_difference("all_replicas").list.len() == 0
    younger, names = pl.col("time_ms_listed") >= pl.col("time_ms"), pl.col("all_replicas")
    fresh = names.is_null() & (pl.col("time_ms_listed") >= pl.col("time_ms") - REASSIGNED_MS)
    told = (names.is_not_null() & (same | younger)) | fresh
    none = pl.lit([], pl.List(pl.Int32))
    # Where nothing names the added replicas, those that are not in sync are taken for them.
    copied = pl.when(names.is_null()).then(pl.col("replicas").list.set_difference("isr")).otherwise(none)
    return both.with_columns(
        pl.when(younger).then(pl.coalesce(names, "replicas")).otherwise("replicas").alias("replicas"),
        *(
            pl.coalesce(name, pl.when(told).then(pl.coalesce(listed, guess))).alias(name)
            for name, listed, guess in (("adding", "to", copied), ("removing", "off", none))
        ),
    ).select(rows.columns)


def failed_dirs(inputs: Inputs, until_ms: int | None) -> pl.DataFrame:
    """Return the rows of input table ``log_dirs`` whose directory's newest report, not after ``until_ms``, names an error."""
    reported = inputs.table("log_dirs")
    if not reported.height:
        return reported
    return (
        reported.filter(pl.col("time_ms") <= (2**62 if until_ms is None else until_ms))
        .sort("time_ms").unique(["broker", "log_dir"], keep="last").drop_nulls("error")
    )  # fmt: skip


def _in_failed_dirs(rows: pl.DataFrame, failed: pl.DataFrame, sizes: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return ``rows`` of input table ``topology`` with the replicas in failed log directories as offline, and a hash of these.

    kafka-log-dirs does not list the content of a failed directory. It is taken to be the replicas of its broker that are out of
    sync or without a leader, and lie in none of the broker's other directories.
    """
    if not failed.height:
        return rows, 0
    elsewhere = sizes.join(failed, on=["broker", "log_dir"], how="anti").select("topic", "partition", "broker").unique()
    out = pl.when(pl.col("leader") < 0).then("replicas").otherwise(pl.col("replicas").list.set_difference("isr"))
    of = ["time_ms", "topic", "partition"]
    lost = (
        rows.select(*of, out.alias("broker")).explode("broker").join(failed, on="broker", how="semi")
        .join(elsewhere, on=["topic", "partition", "broker"], how="anti")
        .group_by(of).agg(pl.col("broker").unique().sort().alias("lost"))
    )  # fmt: skip
    rows = rows.join(lost, on=of, how="left", maintain_order="left")
    offline = pl.col("offline").fill_null([]).list.set_union(pl.col("lost").fill_null([]))
    return rows.with_columns(offline.alias("offline")).drop("lost"), int(lost.hash_rows().sum() or 0)


def partial(inputs: Inputs, context: Context) -> str:
    """Return in words why the descriptions are those of a part of the cluster; empty if they are not, or there are none."""
    return context.memo.value("broker load parts", inputs.version, lambda: _partial(inputs, context))


def _partial(inputs: Inputs, context: Context) -> str:
    rows = inputs.table("topology")
    if not rows.height:
        return ""
    keys = [pl.col("topic").str.replace_all(".", "_", literal=True), pl.col("partition").cast(pl.Int32)]
    described = rows.select(keys).unique()
    sizes = [part.filter(pl.col("metric") == raw_metrics.SIZE).select(keys).unique()
             for part in inputs.parts("metrics", ticks.newest_files(ticks.of(inputs, context)))]  # fmt: skip
    sized = pl.concat([inputs.table("log_dir_sizes").select(keys), *sizes]).unique()
    sized = sized.filter(~pl.col("topic").is_in(["__cluster_metadata"])).drop_nulls()
    left = sized.join(described, on=["topic", "partition"], how="anti").height
    if left > MOST_LEFT_OUT * sized.height:
        return f"it covers {sized.height - left:,} of {sized.height:,} partitions that have a size"
    wrong = (pl.col("leader") < 0) | (pl.col("isr").list.len() < pl.col("replicas").list.len())
    told = {inputs.files[file].kind for file in rows[FILE].unique().to_list() if file in inputs.files}
    if (
        told == {"topic-description"}
        and not sized.height
        and rows.select((wrong & pl.col("topic_id").is_null()).all()).item()
    ):
        return "no topic has its head line and every partition in it lacks a replica"
    return ""


def _batches(
    moments: Collection[int], sources: Mapping[int, _Source], at: Callable[[int], Topology], until_ms: int | None
) -> Iterator[list[int]]:
    """Yield ``moments`` in order, in batches of one topology and bounded size.

    The moment looked at is a batch of its own: later readings of its interval must not be used.
    """
    batch: list[int] = []
    rows = 0
    for moment in sorted(moments):
        fits = rows + sources[moment].rows <= MOST_ROWS and len(batch) < MOST_ROUNDS
        if batch and not (fits and moment != until_ms and batch[-1] != until_ms and at(moment) is at(batch[0])):
            yield batch
            batch, rows = [], 0
        batch.append(moment)
        rows += sources[moment].rows
    if batch:
        yield batch


class _Source(msgspec.Struct, frozen=True):
    """Inputs of a round: ``files`` at ``versions``, the broker each is taken for, whether every broker reports partition sizes
    (else sizes from kafka-log-dirs are used), the number of ``rows`` and the first moment (``since``, epoch ms)."""

    files: tuple[int, ...]
    versions: tuple[int, ...]
    brokers: tuple[int, ...]
    sized: bool
    rows: int
    since: int


def _sources(by_broker: pl.DataFrame, interval_ms: int) -> dict[int, _Source]:
    """Return the inputs of each sampling interval, by its last moment (epoch ms)."""
    unsized = by_broker.group_by("interval", "broker").agg(pl.col("sized").any()).filter(~pl.col("sized"))
    bare = set(unsized["interval"].to_list())
    return {
        (interval + 1) * interval_ms - 1: _Source(
            tuple(files), tuple(versions), tuple(brokers), interval not in bare, rows, since
        )
        for interval, files, versions, brokers, rows, since in ticks.sources(by_broker).iter_rows()
    }


def _of_exporters(inputs: Inputs, past: pl.DataFrame, until_ms: int | None) -> tuple[pl.DataFrame, str]:
    """Return rows of ``topology`` made from exporters' series, and in words what these lack; no rows without leaders."""
    facts = cluster_facts.facts(inputs, until_ms)
    if not facts.height:
        return inputs.table("topology").clear(), ""
    leads = cluster_facts.placements(cluster_facts.leaders(facts, {}), facts)
    who, _ = _identify(inputs, past, topology.newest(leads, until_ms))
    placed = cluster_facts.placements(
        cluster_facts.leaders(facts, who.ids), facts, cluster_facts.holders(inputs, past, who.ids)
    )
    return placed, cluster_facts.unknown(placed, facts)


def _identify(inputs: Inputs, past: pl.DataFrame, placed: pl.DataFrame) -> tuple[Identity, dict[int, Broker]]:
    """Match scraped hosts with brokers by the newest scrape of each host; also return all known brokers by id."""
    listed, answers = inputs.table("broker_list"), inputs.table("answer_brokers")
    who = Identity({}, {}, (), ())
    if files := ticks.newest_files(past):
        rows = identity.evidence(inputs.parts("metrics", files))
        who = identity.resolve(rows, placed, known_brokers(listed, answers, {}), inputs.table("machines"))
    hosts = {broker: identity.bare(host) for host, ids in reversed([*who.ids.items()]) for broker in ids}
    return who, known_brokers(listed, answers, hosts)


def _topologies(
    inputs: Inputs, context: Context, placements: pl.DataFrame, moments: Collection[int | None],
    brokers: dict[int, Broker], heard: frozenset[int], lost: int,
) -> Callable[[int | None], Topology]:  # fmt: skip
    """Return a function that gives the topology at one of ``moments`` (epoch ms; None: after all descriptions).

    All moments between two descriptions share one topology. If a new description says the same, the topology stays the same
    object, and rounds built on it stay valid.
    """
    changes = placements["time_ms"].unique().sort().to_list()
    partials: Partials[int, Topology] = context.memo.state("broker load topologies", Partials)
    before = dict(partials.items())

    def described(moment: int | None) -> int:
        """Return when the description that holds at ``moment`` was made; -1 before all of them."""
        place = len(changes) if moment is None else bisect.bisect_right(changes, moment)
        return int(changes[place - 1]) if place else -1

    def build(times: Collection[int]) -> dict[int, Topology]:
        made: dict[int, Topology] = {}
        rows: pl.DataFrame | None = None
        for time, found in topology.newest_at(placements, times):
            if found is not rows:
                rows, one = found, topology.build(found, brokers, heard)
                candidates = [before.get(time), *list(made.values())[-1:], *list(before.values())[-1:]]
                one = next((old for old in candidates if old is not None and old.same(one)), one)
            made[time] = one
        return made

    times = sorted({described(moment) for moment in moments} | {described(None)})
    # Rows made from exporters' series belong to no file.
    stamp = (
        inputs.stamp([*placements[FILE].unique().to_list(), *inputs.table("reassigning")[FILE].unique().to_list()])
        if FILE in placements.columns
        else placements.hash_rows().sum()
    )
    partials.update(dict.fromkeys(times), build, key=(stamp, tuple(sorted(brokers.items())), heard, lost))
    return lambda moment: partials[described(moment)]


def partition_map(old: Partitions, new: Partitions) -> np.ndarray | None:
    """Return the index [P of ``old``] of each partition in ``new``, -1 where it is gone; None where both are the same."""
    if old is new or (
        old.topics == new.topics
        and np.array_equal(old.topic, new.topic)
        and np.array_equal(old.partition, new.partition)
    ):
        return None
    place = {name: number for number, name in enumerate(new.topics)}
    code = np.array([place.get(name, -1) for name in old.topics], np.int64)[old.topic]
    width = int(max(old.partition.max(initial=0), new.partition.max(initial=0))) + 1
    keys = new.topic.astype(np.int64) * width + new.partition
    wanted = np.where(code >= 0, code * width + old.partition, -1)
    if not len(keys):
        return np.full(old.size, -1, np.int32)
    where = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[where] == wanted, where, -1).astype(np.int32)


def broker_cores(ids: Ints, final: Topology, cores: np.ndarray) -> np.ndarray:
    """Return the cores of the brokers ``ids``, taken from those [B] of the ``final`` topology; NaN unknown."""
    if ids is final.ids:
        return cores
    if not final.brokers:
        return np.full(len(ids), np.nan)
    where = final.index_of(ids)
    return np.where(where >= 0, cores[np.maximum(where, 0)], np.nan)
