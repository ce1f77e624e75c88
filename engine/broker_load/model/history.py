"""From input tables to sampling rounds, computed once per interval and kept in the session's memo.

A new scrape makes only the intervals it falls into be built again; the others come from the memo.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.model import identity, rounds, topology
from engine.broker_load.model.identity import Identity
from engine.broker_load.model.rounds import Round
from engine.broker_load.model.samples import Samples
from engine.broker_load.model.scrapes import Scrapes
from engine.broker_load.model.topology import Broker, Topology
from engine.broker_load.model.windows import Aggregate, Window
from engine.broker_load.tables import raw_metrics
from engine.inputs import FILE, Inputs
from engine.view import Context

_MEMO = "broker-load"


_TICK: dict[str, Any] = {
    FILE: pl.UInt32,
    "version": pl.Int64,
    "host": pl.String,
    "broker": pl.Int32,
    "time_ms": pl.Int64,
    "counter": pl.Boolean,
}


Members = list[tuple[int, int, tuple[Any, ...]]]
"""Files of an interval: number, version, and which brokers its hosts are taken for."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What each interval is made of, in order of time; made for ``key``. ``earlier``: where counters need the tick before,
    the files of the broker's last interval that has counters. ``newest`` is the interval that may still grow, and
    ``before`` what was known of each broker at its beginning. ``good``: rounds found in order, for ``good_for``."""

    key: Any
    members: dict[int, Members]
    earlier: dict[int, set[tuple[int, int]]]
    newest: int
    before: dict[int, tuple[int, set[tuple[int, int]], set[tuple[int, int]]]]
    good_for: Any = None
    good: Mapping[int, tuple[Any, Round]] = field(default_factory=dict)


@dataclass(slots=True)
class Book:
    """What is remembered between computations: which file has which ticks, and finished rounds by their key."""

    seen: dict[int, int] = field(default_factory=dict)
    ticks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_TICK))
    rounds: dict[int, tuple[Any, Round]] = field(default_factory=dict)
    scrapes: Scrapes = field(default_factory=Scrapes)
    plan: Plan | None = None
    touched_ms: int | None = None
    """Earliest time of a tick that came or went since ``plan`` was made."""
    filled: dict[int, Any] = field(default_factory=dict)
    """Rounds that need sizes from kafka-log-dirs, and of which files these were."""
    base: Any = None
    topologies: dict[int, Topology] = field(default_factory=dict)
    """Topology by the number of descriptions it knows, for ``base``: everything else it is made from."""
    samples: dict[int, tuple[Any, Samples]] = field(default_factory=dict)
    windows: dict[int, Window] = field(default_factory=dict)
    window_topology: dict[int, Topology] = field(default_factory=dict)
    aggregate: Aggregate | None = None


@dataclass(frozen=True, eq=False)
class History:
    """Rounds in order of time up to ``at``, the topology that holds at the end, who is who, and CPU counts by broker
    index of the final topology."""

    rounds: tuple[Round, ...]
    topology: Topology
    identity: Identity
    node_cpus: dict[int, int]
    filled_sizes: bool
    newest_ms: int | None


def book_of(context: Context) -> Book:
    """The book in the session's memo."""
    book = context.memo.get(_MEMO)
    if not isinstance(book, Book):
        book = context.memo[_MEMO] = Book()
    return book


def known_brokers(listed: pl.DataFrame, answers: pl.DataFrame, hosts: dict[int, str]) -> dict[int, Broker]:
    """Brokers by id from broker lists, then hosts from load answers and scrapes for those not listed."""
    known: dict[int, Broker] = {}
    for row in listed.iter_rows(named=True):
        known[row["broker"]] = Broker(row["host"] or "", row["rack"] or "", bool(row["alive"]), True)
    if known:
        return known
    for row in answers.iter_rows(named=True):
        if row["host"] and row["broker"] is not None:
            known[row["broker"]] = Broker(row["host"], row["rack"] or "", row["state"] != "DEAD", False)
    for broker, host in sorted(hosts.items()):
        known.setdefault(broker, Broker(host, "", True, False))
    return known


def _note_ticks(book: Book, inputs: Inputs, table: pl.DataFrame) -> None:
    """Bring ``book.ticks`` and ``book.scrapes`` up to date: one row per file, instance and time."""
    book.scrapes.follow(inputs, book.seen.keys())
    files = inputs.files
    now = {number: info.version for number, info in files.items()}
    fresh = [number for number, version in now.items() if book.seen.get(number) != version]
    gone = set(book.seen) - set(now)
    if not fresh and not gone:
        return
    drop = pl.Series(sorted(gone | set(fresh)), dtype=pl.UInt32)
    ticks = book.ticks.filter(~pl.col(FILE).is_in(drop.implode()))
    rows = table if len(fresh) == len(now) else book.scrapes.of(fresh)
    if rows.height:
        tick = (FILE, "host", "broker", "time_ms")
        # A scrape is one long run of equal ticks: only where a run begins is there something to group.
        runs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in (*tick, "counter"))
        begins = rows.select(*tick, "counter").filter(runs | (pl.int_range(pl.len()) == 0))
        new = begins.group_by(tick, maintain_order=True).agg(pl.col("counter").any())
        versions = pl.DataFrame({FILE: fresh, "version": [now[n] for n in fresh]}, schema_overrides={FILE: pl.UInt32})
        new = new.join(versions, on=FILE, how="left", maintain_order="left").select(list(_TICK))
        ticks = pl.concat([ticks, new], rechunk=True)
    changed = [book.ticks.filter(pl.col(FILE).is_in(drop.implode()))["time_ms"].min(), book.touched_ms]
    if rows.height:
        changed.append(new["time_ms"].min())
    book.touched_ms = min((int(time) for time in changed if time is not None), default=None)  # type: ignore[arg-type]
    book.ticks = ticks
    book.seen = now


def gather(
    inputs: Inputs, context: Context, until_ms: int | None, interval_ms: int, fill_sizes: bool = True
) -> History | None:
    """All rounds up to ``until_ms`` (inclusive). None where there is no topology at all."""
    book = book_of(context)
    _note_ticks(book, inputs, inputs.table("metrics"))
    places = inputs.table("topology")
    ticks = book.ticks
    if until_ms is not None:
        ticks = ticks.filter(pl.col("time_ms") <= until_ms)
    if not places.height:
        book.scrapes.keep(_near(book, interval_ms))
        return None
    answers = inputs.table("answer_brokers")
    who = Identity({}, {}, (), ())
    scraped = _identity_rows(book, ticks)
    if scraped.height:
        listed = known_brokers(inputs.table("broker_list"), answers, {})
        who = identity.resolve(scraped, topology.newest(places, until_ms), listed)
    hosts = {broker: identity.bare(host) for host, found in who.ids.items() for broker in found}
    known = known_brokers(inputs.table("broker_list"), answers, hosts)
    heard = frozenset(hosts) | frozenset(ticks["broker"].drop_nulls().unique().to_list())
    heard |= frozenset(inputs.table("log_dirs")["broker"].unique().to_list())
    base = (tuple(sorted(known.items())), heard, _frame_key(inputs, places), tuple(sorted(who.ids.items())))

    ticks = ticks.with_columns((pl.col("time_ms") // interval_ms).alias("interval"))
    changes = places["time_ms"].unique().sort().to_list()
    sizes = inputs.table("log_dir_sizes") if fill_sizes else None
    if sizes is not None and not sizes.height:
        sizes = None
    sized = _frame_key(inputs, sizes) if sizes is not None else ()
    _renew(book, base)
    rebuild: dict[int, tuple[Any, int]] = {}
    plan = _plan(book, ticks, who, interval_ms, until_ms)
    by_interval, earlier = plan.members, plan.earlier
    good_for = (fill_sizes, base, sized)
    good: Mapping[int, tuple[Any, Round]] = plan.good if plan.good_for == good_for else {}
    for interval, members in by_interval.items():
        if interval in good and book.rounds.get(interval) is good[interval]:
            continue
        end = (interval + 1) * interval_ms - 1
        cut = until_ms if until_ms is not None and until_ms < end else None
        moment = end if cut is None else cut
        key = (interval_ms, tuple(members), tuple(sorted(earlier.get(interval, ()))), cut, fill_sizes)
        have = book.rounds.get(interval)
        if (
            have is None
            or have[0] != key
            or have[1].topology is not _topology_at(book, places, changes, moment, known, heard)
            or book.filled.get(interval, sized) != sized
        ):
            rebuild[interval] = (key, moment)
    if rebuild:
        rows = _rows_for(book, ticks, set(rebuild), who, interval_ms, until_ms)
        parts: dict[tuple[object, ...], pl.DataFrame] = {}
        if rows.height:
            one = len(rebuild) == 1
            parts = (
                {(next(iter(rebuild)),): rows}
                if one
                else rows.partition_by("interval", as_dict=True, maintain_order=True)
            )
        for place, (interval, (key, end)) in enumerate(sorted(rebuild.items())):
            context.check()
            if len(rebuild) > 4:
                context.progress(place / len(rebuild), "sampling rounds")
            found_topology = _topology_at(book, places, changes, end, known, heard)
            part = parts.get((interval,))
            if part is None:
                part = rows.head(0)
            book.filled.pop(interval, None)
            if silent := _unsized(part):
                book.filled[interval] = sized
                if sizes is not None:
                    part = _fill(part, silent, sizes, end)
            book.rounds[interval] = (key, rounds.build(interval, part, found_topology))
    found = [book.rounds[interval][1] for interval in by_interval]
    for interval in set(book.rounds) - set(by_interval):
        if until_ms is None:
            del book.rounds[interval]
            book.filled.pop(interval, None)
    if until_ms is None:
        good = {interval: book.rounds[interval] for interval in by_interval if interval < plan.newest}
        book.plan = dataclasses.replace(plan, good_for=good_for, good=good)
        book.touched_ms = None
    book.scrapes.keep(_near(book, interval_ms))
    final = _topology_at(book, places, changes, until_ms, known, heard)
    book.topologies = {epoch: one for epoch, one in book.topologies.items() if epoch >= 0}
    cpus: dict[int, int] = {}
    for host, count in book.scrapes.cpu_counts():
        for broker in who.ids.get(host, ()) if host is not None else ():
            index = int(final.index_of([broker])[0])
            if index >= 0:
                cpus[index] = int(count)
    newest = int(ticks["time_ms"].max()) if ticks.height else None  # type: ignore[arg-type]
    return History(tuple(found), final, who, cpus, sizes is not None, newest)


def _frame_key(inputs: Inputs, frame: pl.DataFrame) -> tuple[tuple[int, int], ...]:
    files = frame[FILE].unique().sort().to_list() if FILE in frame.columns else []
    return tuple((number, inputs.files[number].version) for number in files if number in inputs.files)


def _plan(book: Book, ticks: pl.DataFrame, who: Identity, interval_ms: int, until_ms: int | None) -> Plan:
    """What each interval of ``ticks`` is made of. Where nothing came or went before the newest interval of the last plan,
    only that and later ones are looked at."""
    key = (interval_ms, tuple(sorted(who.ids.items())))
    have = book.plan if until_ms is None else None
    members: dict[int, Members] = {}
    earlier: dict[int, set[tuple[int, int]]] = {}
    last: dict[int, tuple[int, set[tuple[int, int]], set[tuple[int, int]]]] = {}
    good_for: Any = None
    good: Mapping[int, tuple[Any, Round]] = {}
    begin = have.newest * interval_ms if have is not None else 0
    if have is not None and have.key == key and (book.touched_ms is None or book.touched_ms >= begin):
        ticks = ticks.filter(pl.col("interval") >= have.newest)
        members = {interval: found for interval, found in have.members.items() if interval < have.newest}
        earlier = {interval: found for interval, found in have.earlier.items() if interval < have.newest}
        last = dict(have.before)
        good_for, good = have.good_for, have.good
    newest = int(ticks["interval"].max()) if ticks.height else 0  # type: ignore[arg-type]
    start = dict(last)
    pairs = (
        ticks.group_by("interval", FILE, "version")
        .agg(
            pl.col("host").drop_nulls().unique(),
            pl.col("host").filter("counter").drop_nulls().unique().alias("counting"),
        )
        .sort("interval", FILE)
    )
    for interval, number, version, hosts, counting in pairs.iter_rows():
        if interval == newest and interval not in members:
            start = dict(last)
        named = tuple((host, who.ids.get(host)) for host in sorted(hosts))
        members.setdefault(interval, []).append((number, version, named))
        for broker in {broker for host in counting for broker in who.ids.get(host, ())}:
            at, now, before = last.get(broker, (interval, set(), set()))
            if at != interval:
                now, before = set(), now
            now.add((number, version))
            last[broker] = (interval, now, before)
            earlier.setdefault(interval, set()).update(before)
    return Plan(key, members, earlier, newest, start, good_for, good)


def _newest_files(ticks: pl.DataFrame) -> set[int]:
    """Files of the newest scrape of each instance."""
    named = ticks.filter(pl.col("host").is_not_null())
    last = named.group_by("host").agg(pl.col("time_ms").max())
    return set(named.join(last, on=["host", "time_ms"])[FILE].unique().to_list()) if named.height else set()


def _identity_rows(book: Book, ticks: pl.DataFrame) -> pl.DataFrame:
    """Rows that tell who is who: the newest scrape of each instance."""
    return book.scrapes.of(_newest_files(ticks))


def _near(book: Book, interval_ms: int) -> set[int]:
    """Files that one more scrape will need again: of the two newest intervals, and the newest of each instance."""
    newest = (book.ticks["time_ms"] // interval_ms).unique().sort()[-2:]
    if not len(newest):
        return set()
    files = book.ticks.filter(pl.col("time_ms") >= newest[0] * interval_ms)[FILE].unique().to_list()
    return {*files, *_newest_files(book.ticks)}


def _renew(book: Book, base: Any) -> None:
    """Forget which topology held when, where a file changed that topologies are made from; but keep the topologies, as
    a new description nearly always says the same, and then every round made on it stays good."""
    if book.base != base:
        book.base = base
        kept = dict.fromkeys(book.topologies.values())
        book.topologies = {-1 - place: one for place, one in enumerate(kept)}


def _topology_at(
    book: Book, places: pl.DataFrame, times: list[int], until: int | None, known: dict[int, Broker],
    heard: frozenset[int],
) -> Topology:  # fmt: skip
    # Every moment between two descriptions sees the same rows, so one topology serves them all.
    epoch = len(times) if until is None else bisect.bisect_right(times, until)
    if epoch not in book.topologies:
        made = topology.build(topology.newest(places, until), known, heard)
        book.topologies[epoch] = next((one for one in book.topologies.values() if one.same(made)), made)
    return book.topologies[epoch]


def _counting(ticks: pl.DataFrame, ids: Mapping[str, tuple[int, ...]]) -> pl.DataFrame:
    """Ticks with counters, by the broker that they are counters of."""
    moving = ticks.filter(pl.col("counter"))
    return _of_brokers(moving, ids).filter(pl.col("broker").is_not_null()) if moving.height else moving


def _of_brokers(rows: pl.DataFrame, ids: Mapping[str, tuple[int, ...]]) -> pl.DataFrame:
    """``rows`` with the broker that their host is taken for, where they name none themselves."""
    pairs = [(host, broker) for host, found in ids.items() for broker in found]
    if not pairs:
        return rows
    names = pl.DataFrame(pairs, schema={"host": pl.String, "_broker": pl.Int32}, orient="row")
    rows = rows.join(names, on="host", how="left", maintain_order="left")
    return rows.with_columns(pl.coalesce("broker", "_broker").alias("broker")).drop("_broker")


def _rows_for(
    book: Book,
    ticks: pl.DataFrame,
    wanted: set[int],
    who: Identity,
    interval_ms: int,
    until_ms: int | None,
) -> pl.DataFrame:
    """Rows of the ``wanted`` intervals with broker ids, counters turned into rates, in file order."""
    chosen = ticks.filter(pl.col("interval").is_in(sorted(wanted)))
    files = set(chosen[FILE].to_list())
    previous: set[int] = set()
    if chosen["counter"].any():
        counting = _counting(ticks, who.ids)
        # The rate of a tick needs the broker's tick before it, wherever that lies and however many files have it.
        moments = counting.select("broker", "time_ms", "interval").unique().sort("broker", "time_ms")
        before = moments.select(
            "broker", pl.col("time_ms").shift(1).over("broker", order_by="time_ms").alias("time_ms"), "interval"
        ).filter(pl.col("interval").is_in(sorted(wanted)))
        previous = set(counting.join(before, on=["broker", "time_ms"], how="semi")[FILE].to_list())
    every = files | previous
    # Every file with rows has ticks.
    rows = book.scrapes.of(every) if len(every) < book.ticks[FILE].n_unique() else book.scrapes.every()
    if until_ms is not None:
        rows = rows.filter(pl.col("time_ms") <= until_ms)
    whole = measured_rows(rows, who.ids, interval_ms)
    return whole.filter(pl.col("interval").is_in(sorted(wanted)))


def measured_rows(rows: pl.DataFrame, ids: Mapping[str, tuple[int, ...]], interval_ms: int) -> pl.DataFrame:
    """Raw metrics with broker ids (by ``ids`` of their hosts) and sampling interval; counters turned into rates."""
    rows = _of_brokers(rows, ids)
    rows = rows.filter(pl.col("broker").is_not_null())
    place = ["broker", "metric", "topic", "partition"]
    counters = rows.filter(pl.col("counter"))
    gauges = rows.filter(~pl.col("counter"))
    sources = gauges.select("broker", "time_ms", "host", FILE).unique()
    if sources.height > sources.select("broker", "time_ms").unique().height:
        # Two scrapes of one broker at one moment (a host listed twice, a file copied) are one reading.
        gauges = gauges.unique([*place, "time_ms"], keep="first", maintain_order=True)
    columns = ["time_ms", "broker", "metric", "topic", "partition", "value"]
    parts = [gauges.select(columns)]
    if counters.height:
        parts.append(_rates(counters, place).select(columns))
    whole = pl.concat(parts) if len(parts) > 1 else parts[0]
    return whole.with_columns((pl.col("time_ms") // interval_ms).alias("interval"))


def _rates(counters: pl.DataFrame, place: list[str]) -> pl.DataFrame:
    """Increase per second since the broker's tick before; a counter that fell was reset and counts from 0 (as ``irate``),
    one that the tick before has not is new and has no rate yet.

    Idle seconds become the busy fraction of the node: 1 − mean over its CPUs.
    """
    by = [*place, "time_ms"]
    frame = counters.unique(by, keep="first", maintain_order=True).sort(by, nulls_last=False)
    moments = frame.select("broker", "time_ms").unique().sort("broker", "time_ms")
    moments = moments.with_columns(pl.col("time_ms").shift(1).over("broker", order_by="time_ms").alias("_before"))
    frame = frame.join(moments, on=["broker", "time_ms"], how="left", maintain_order="left")
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in place)
    same &= pl.col("time_ms").shift(1) == pl.col("_before")
    rise = pl.col("value") - pl.col("value").shift(1)
    rise = pl.when(rise < 0).then("value").otherwise(rise)
    seconds = (pl.col("time_ms") - pl.col("time_ms").shift(1)) / 1000
    rated = frame.with_columns(pl.when(same).then(rise / seconds).alias("value")).filter(
        pl.col("value").is_not_null() & pl.col("value").is_finite()
    )
    idle = pl.col("metric") == raw_metrics.NODE_IDLE_SECONDS
    nodes = (
        rated.filter(idle)
        .group_by("time_ms", "broker", "metric", maintain_order=True)
        .agg((1 - pl.col("value").mean()).alias("value"))
        .with_columns(pl.lit(None, pl.String).alias("topic"), pl.lit(None, pl.Int32).alias("partition"))
    )
    columns = ["time_ms", "broker", "metric", "topic", "partition", "value"]
    return pl.concat([rated.filter(~idle).select(columns), nodes.select(columns)])


def _unsized(rows: pl.DataFrame) -> list[int]:
    """Brokers that report rates but no size at all."""
    sized = set(rows.filter(pl.col("metric") == raw_metrics.SIZE)["broker"].unique().to_list())
    return [broker for broker in rows["broker"].unique().sort().to_list() if broker not in sized]


def _fill(rows: pl.DataFrame, silent: list[int], sizes: pl.DataFrame, end: int) -> pl.DataFrame:
    """Add the sizes of the ``silent`` brokers from kafka-log-dirs: the newest not after ``end``, else the oldest."""
    late = pl.col("time_ms") > end
    chosen = (
        sizes.filter(pl.col("broker").is_in(silent))
        .with_columns(late.alias("_late"), pl.when(late).then("time_ms").otherwise(-pl.col("time_ms")).alias("_rank"))
        .sort("_late", "_rank", maintain_order=True)
        .unique(["broker", "topic", "partition"], keep="first", maintain_order=True)
    )
    time = int(rows["time_ms"].max() or 0)  # type: ignore[arg-type]
    added = chosen.select(
        pl.lit(time, pl.Int64).alias("time_ms"),
        "broker",
        pl.lit(raw_metrics.SIZE, pl.UInt8).alias("metric"),
        "topic",
        "partition",
        pl.col("size").cast(pl.Float64).alias("value"),
    )
    interval = rows["interval"][0]
    return pl.concat(
        [rows, added.with_columns(pl.lit(interval, rows.schema["interval"]).alias("interval")).select(rows.columns)]
    )


def partition_map(old: Topology, new: Topology) -> np.ndarray | None:
    """[P of old] index of each partition in ``new``, -1 where it is gone; None where both are the same."""
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


def broker_cores(target: Topology, final: Topology, cores: np.ndarray) -> np.ndarray:
    """[B of target] cores by broker id, taken from the final topology's."""
    if target is final:
        return cores
    where = final.index_of(target.ids)
    return (
        np.where(where >= 0, cores[np.maximum(where, 0)], np.nan) if final.brokers else np.full(target.brokers, np.nan)
    )


def intervals(found: Iterable[Round]) -> list[int]:
    """Interval numbers of rounds in order."""
    return [one.interval for one in found]
