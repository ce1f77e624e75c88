"""One DAG in depth: its vertices in waves, the critical path through their attempts, and numbers beside their limits.

The formulas are those of Tez's own analyzers where it has one; see docs/models/job-heuristics.md, "Tez: beyond".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import CERTAIN, PROVISIONAL, Insight, level
from engine.job_heuristics.dr_elephant.display import integer
from engine.job_heuristics.dr_elephant.errors import grouped
from engine.job_heuristics.dr_elephant.gates import MB, Array
from engine.job_heuristics.tez.model import MAP, REDUCE, App, Dag, waves_of

LEAST_MS = 1000  # median of a vertex's tasks below which their spread says nothing: starting them takes as long
LEAST_TASKS = 4
WAIT_NEAR, CACHE_SIZE = "tez.am.container.reuse.locality.delay-allocation-millis", "hive.llap.io.memory.size"
START_LATER, COPIES = "tez.shuffle-vertex-manager.min-src-fraction", "tez.runtime.shuffle.parallel.copies"
MOST_STEPS = 10_000


class Step(msgspec.Struct, frozen=True):
    """One attempt on the critical path: its vertex, ms it waited for a container, until it ran, and ran until the next
    step needed it; ``known``: whether the waiting is."""

    vertex: str
    task: int
    wait_ms: int
    launch_ms: int
    run_ms: int
    known: bool


class Vertex(msgspec.Struct, frozen=True, eq=False):
    """One vertex. ``wave``: 0 without inputs, else one more than the latest of them; ``inputs``: (name, how data move);
    ``planned``: tasks, ``first_planned``: when it was initialised; ``tasks``: its rows of the model, those that ended;
    ``critical_ms``: its part of the critical path."""

    name: str
    number: int
    side: int
    state: str
    wave: int
    inputs: tuple[tuple[str, str], ...]
    planned: int | None
    first_planned: int | None
    start_ms: int | None
    end_ms: int | None
    tasks: pl.DataFrame
    critical_ms: int

    @property
    def took(self) -> Array:
        """Run times of its ended tasks, ms."""
        return np.maximum(self.tasks["total_ms"].to_numpy(), 0)

    @property
    def data(self) -> Array:
        """Bytes that its tasks read or fetched; 0: not counted."""
        return self.tasks["shuffle_bytes" if self.inputs else "input_bytes"].fill_null(0).to_numpy()


class InDepth(msgspec.Struct, frozen=True, eq=False):
    """A DAG with its vertices by wave, the steps of its critical path (the first one first), names of vertices on a cycle."""

    dag: Dag
    vertices: tuple[Vertex, ...]
    path: tuple[Step, ...]
    circle: tuple[str, ...]
    insights: tuple[Insight, ...]


def in_depth(app: App, dag: Dag) -> InDepth:
    """Look into one DAG."""
    rows = app.vertices.filter(pl.col("dag") == dag.number)
    names = {row["vertex"]: row["name"] or f"vertex {row['vertex']}" for row in rows.iter_rows(named=True)}
    waves, circle = waves_of(dag, list(names.values()))
    path = critical_path(app, dag, names)
    on_path: dict[str, int] = {}
    for step in path:
        on_path[step.vertex] = on_path.get(step.vertex, 0) + step.wait_ms + step.launch_ms + step.run_ms
    tasks = app.tasks.filter(pl.col("dag") == dag.number)
    by_vertex = {number: part for (number,), part in tasks.partition_by("vertex", as_dict=True).items()}
    vertices = []
    for row in rows.iter_rows(named=True):
        name, of = names[row["vertex"]], by_vertex.get(row["vertex"], tasks.clear())
        ended = of.filter(pl.col("total_ms").is_not_null())
        begun = ended["begin_ms"].min()
        last = ended["finish_ms"].max()
        vertices.append(
            Vertex(
                name, row["vertex"], int(of["own_side"][0]) if of.height else MAP,
                row["status"] or ("RUNNING" if row["start_ms"] else "NEW"), waves.get(name, 0),
                tuple((a, how) for a, b, how in dag.edges if b == name), row["tasks"], row["planned"],
                begun if isinstance(begun, int) else row["start_ms"], last if isinstance(last, int) else row["end_ms"],
                ended, on_path.get(name, 0),
            )
        )  # fmt: skip
    vertices.sort(key=lambda vertex: (vertex.wave, vertex.start_ms or 0, vertex.number))
    found = InDepth(dag, tuple(vertices), path, circle, ())
    return msgspec.structs.replace(found, insights=tuple(sorted(_insights(app, found), key=lambda one: -one.level)))


def critical_path(app: App, dag: Dag, names: Mapping[int, str]) -> tuple[Step, ...]:
    """Return the attempts that decided when a DAG ended, from the last one back: to the attempt that sent it the last data, to
    the one because of which it was made, or to the last one of an input vertex that ended before it."""
    ended = app.attempts.filter(
        (pl.col("dag") == dag.number) & pl.col("end_ms").is_not_null() & pl.col("start_ms").is_not_null()
    )
    good = ended.filter(pl.col("status") == "SUCCEEDED").sort("end_ms", "vertex", "task")
    if not good.height:
        return ()
    by_id = {
        f"attempt_{dag.dag_id[4:]}_{row['vertex']:02d}_{row['task']:06d}_{row['attempt']}": row
        for row in ended.iter_rows(named=True)
    }
    last_of: dict[str, dict[str, Any]] = {names.get(row["vertex"], ""): row for row in good.iter_rows(named=True)}
    at: dict[str, Any] | None = good.row(-1, named=True)
    assert at is not None
    until: int = at["end_ms"]
    steps: list[Step] = []
    seen = set()
    while at is not None and (key := (at["vertex"], at["task"], at["attempt"])) not in seen and len(steps) < MOST_STEPS:
        seen.add(key)
        name = names.get(at["vertex"], f"vertex {at['vertex']}")
        created, allocated = at["created_ms"], at["allocated_ms"]
        given = allocated if allocated is not None else at["start_ms"]
        before: dict[str, Any] | None = None
        if at["last_data_ms"] is not None and at["last_data_ms"] > (created or 0):
            before = by_id.get(str(at["last_data"]))
        before = before or by_id.get(str(at["cause"]))
        if before is None:
            sources = [last_of[a] for a, b, _ in dag.edges if b == name and a in last_of]
            before = max(
                (row for row in sources if row["end_ms"] <= until), key=lambda row: row["end_ms"], default=None
            )
        since = min(max(at["start_ms"], before["end_ms"] if before else at["start_ms"]), until)
        waits = before is None or (created or 0) >= before["end_ms"]
        steps.append(
            Step(
                name, at["task"], max(0, given - created) if waits and created is not None else 0,
                max(0, at["start_ms"] - given) if waits else 0, max(0, until - since), created is not None,
            )
        )  # fmt: skip
        at, until = before, before["end_ms"] if before else 0
    return tuple(reversed(steps))


def setting(app: App, key: str, default: float) -> float:
    """Return a number of the configuration, or Tez's or Hive's default."""
    value = units.finite(app.conf.get(key, ""))
    return value if value is not None and 0 <= value < 1e15 else default


def _insights(app: App, found: InDepth) -> Iterator[Insight]:
    """Yield what was found in a DAG, within its limits or beyond."""
    dag = found.dag
    subject = dag.name or f"DAG {dag.number}"
    yield from _path(subject, found)
    yield from _containers(app, dag, subject)
    yield from _attempts(app, dag, subject)
    yield from _counted(dag, subject)
    for vertex in found.vertices:
        if vertex.tasks.height:
            status = CERTAIN if vertex.state in ("SUCCEEDED", "FAILED", "KILLED") else PROVISIONAL
            own = (_shuffle, _reducers) if vertex.inputs and vertex.side == REDUCE else (_shuffle, _splits)
            for one in (_spread, _spilled, *own):
                insight = one(app, vertex, status)
                if insight is not None:
                    yield insight
    yield from _edges(app, found)


def _path(subject: str, found: InDepth) -> Iterator[Insight]:
    if not found.path:
        return
    names = [name for name, _ in groupby(step.vertex for step in found.path)]
    waited, launched = sum(step.wait_ms for step in found.path), sum(step.launch_ms for step in found.path)
    whole = waited + launched + sum(step.run_ms for step in found.path)
    longest = max(found.vertices, key=lambda vertex: vertex.critical_ms)
    yield Insight(
        "critical path", subject, units.duration(whole), "", 0,
        f"{' → '.join(names[-8:])}: of {units.duration(whole)} on the way to the end, {longest.name} takes "
        f"{units.duration(longest.critical_ms)}. Making any vertex outside of it faster does not end the DAG sooner.",
    )  # fmt: skip
    share = waited / whole if whole else 0.0
    if not any(step.known for step in found.path):
        return  # older versions of Tez do not say when attempts were made
    yield Insight(
        "wait", subject, f"{100 * share:.0f}%", "10%", level(share, 0.1, 0.25, 0.5, 0.75),
        f"On the critical path attempts waited {units.duration(waited)} for a container and {units.duration(launched)} for it to "
        "start. Where the queue is full, give it more room, or keep containers between DAGs.",
        "tez.am.container.idle.release-timeout-min.millis" if share >= 0.1 else "", "more" if share >= 0.1 else "",
    )  # fmt: skip


def _containers(app: App, dag: Dag, subject: str) -> Iterator[Insight]:
    ran = app.attempts.filter(
        (pl.col("dag") == dag.number) & pl.col("container").is_not_null() & pl.col("start_ms").is_not_null()
    )
    count = ran["container"].n_unique()
    if ran.height < LEAST_TASKS or not count:
        return
    first = ran.sort("start_ms").unique("container", keep="first")
    start_ms = int((first["start_ms"] - first["allocated_ms"]).clip(lower_bound=0).sum() or 0)
    off = app.conf.get("tez.am.container.reuse.enabled") == "false"
    reuse = ran.height / count
    yield Insight(
        "container reuse", subject, f"{reuse:.1f} tasks a container", "2.0", 2 if off and reuse < 2 else 0,
        f"{units.plural(ran.height, 'attempt')} ran in {units.plural(count, 'container')}"
        + (f"; starting those took {units.duration(start_ms)} in all." if start_ms else ".")
        + (" Reuse is switched off: each task starts a Java machine of its own." if off else ""),
        "tez.am.container.reuse.enabled" if off else "", "true" if off else "",
    )  # fmt: skip


def _attempts(app: App, dag: Dag, subject: str) -> Iterator[Insight]:
    ran = app.attempts.filter((pl.col("dag") == dag.number) & pl.col("end_ms").is_not_null()).with_columns(
        ms=(pl.col("end_ms") - pl.col("start_ms")).clip(lower_bound=0)
    )
    bad = ran.filter(pl.col("status").is_in(["FAILED", "KILLED"]))
    whole = int(ran["ms"].sum() or 0)
    if bad.height and whole:
        lost = int(bad["ms"].sum() or 0)
        told = bad.select(pl.coalesce("diagnostics", "error", pl.lit("no reason given")), "error").iter_rows()
        why, count, enum, _ = grouped((text, 1, error or "") for text, error in told)[0]
        share = lost / whole
        yield Insight(
            "lost attempts", subject, f"{100 * share:.0f}%", "5%", level(share, 0.05, 0.15, 0.3, 0.5),
            f"Attempts that failed or were killed: {bad.height:,}, in {units.duration(lost)} of {units.duration(whole)}; "
            f"{count:,} of them: {why.rstrip('.')}" + (f" ({enum})." if enum not in ("", why) else "."),
        )  # fmt: skip
    good = ran.filter((pl.col("status") == "SUCCEEDED") & pl.col("node").is_not_null())
    usual = good.with_columns(usual=pl.col("ms").median().over("vertex"), n=pl.len().over("vertex"))
    usual = usual.filter((pl.col("usual") >= LEAST_MS) & (pl.col("n") >= LEAST_TASKS))
    hosts = (
        usual.group_by("node").agg(pl.len(), ratio=(pl.col("ms") / pl.col("usual")).median()).filter(pl.col("len") >= 3)
    )
    if hosts.height > 1:
        host, count, ratio = hosts.sort("ratio", "node").row(-1)
        yield Insight(
            "slow host", host, f"{ratio:.2f} x", "1.50 x", level(ratio, 1.5, 2, 3, 4),
            f"On {host} {units.plural(count, 'task')} took {ratio:.2f} times the median of their vertices "
            "(the median of those ratios).",
        )  # fmt: skip


def _counted(dag: Dag, subject: str) -> Iterator[Insight]:
    """Yield what counters of the DAG tell: where its tasks ran, and how much the daemons of LLAP had in memory."""
    counts: Mapping[str, int] = json.loads(dag.facts["counters"] or "{}")
    near, rack, other = (counts.get(f"{name}_LOCAL_TASKS") or 0 for name in ("DATA", "RACK", "OTHER"))
    placed = near + rack + other
    if near + rack and placed >= LEAST_TASKS:
        share = near / placed
        yield Insight(
            "locality", subject, f"{share:.0%}", "50%", level(1 - share, 0.5, 0.75, 0.9, 1.01),
            f"{near:,} of {placed:,} tasks ran on a host that has their data, {rack:,} in its rack, {other:,} elsewhere.",
            WAIT_NEAR if share < 0.5 else "", "more" if share < 0.5 else "",
        )  # fmt: skip
    hit, miss = (counts.get(f"CACHE_{name}_BYTES") or 0 for name in ("HIT", "MISS"))
    if hit + miss:
        share = hit / (hit + miss)
        waited = counts.get("TOTAL_IO_TIME_NS")
        yield Insight(
            "LLAP cache", subject, f"{share:.0%}", "50%", level(1 - share, 0.5, 0.8, 1.01, 1.01),
            f"The daemons had {units.size(hit)} of {units.size(hit + miss)} in their cache"
            + (f"; reading took {units.duration(waited / 1e6)} of their threads" if waited else "")
            + ". The first query over new data finds none of them there.",
            CACHE_SIZE if share < 0.5 else "", "more" if share < 0.5 else "",
        )  # fmt: skip


def _shuffle(app: App, vertex: Vertex, status: str) -> Insight | None:
    """Find what the fetching of a vertex waits for: what Tez's analyzers call slow by its parent, and slow by shuffle."""
    known = vertex.tasks.filter(pl.col("shuffle_ms").is_not_null() & (pl.col("total_ms") > 0))
    if (
        not known.height
        or vertex.start_ms is None
        or vertex.end_ms is None
        or vertex.end_ms - vertex.start_ms < LEAST_MS
    ):
        return None
    run = vertex.end_ms - vertex.start_ms
    fetching, last = (int(known[name].max() or 0) / run for name in ("shuffle_ms", "last_event_ms"))  # type: ignore[arg-type]
    many = known.filter(pl.col("records") > 10_000)
    merged = float((many["merge_ms"] / many["total_ms"]).max() or 0.0)  # type: ignore[arg-type]
    failed = int(known["failed_inputs"].sum() or 0)
    of = ", ".join(name for name, _ in vertex.inputs) or "its inputs"
    late = fetching > 0.5 and last > 0.5
    reason = f"The slowest task had fetched its inputs after {fetching:.0%} of the vertex's {units.duration(run)}"
    if late:
        reason += f", as the last output of {of} came after {last:.0%}: these tasks held containers and waited."
    elif fetching > 0.5 or merged > 0.5:
        reason += f", the last output of {of} came after {last:.0%}: fetching and merging take longer than the work."
    else:
        reason += "."
    if failed:
        reason += f" {failed:,} fetch{'' if failed == 1 else 'es'} failed: look at the hosts of {of}."
    key = START_LATER if late else COPIES if fetching > 0.5 else ""
    bad = max(level(max(fetching, merged), 0.5, 0.75, 0.9, 1.01), 2 if failed else 0)
    return Insight("shuffle", vertex.name, f"{fetching:.0%}", "50%", bad, reason, key, "more" if key else "", status)


def _spread(app: App, vertex: Vertex, status: str) -> Insight | None:
    took, data = vertex.took, vertex.data
    median = float(np.median(took))
    if len(took) < LEAST_TASKS or median < LEAST_MS:
        return None
    worst = int(took.argmax())
    ratio, middle = float(took[worst]) / median, float(np.median(data))
    more = float(data[worst]) / middle if middle > 0 else 0.0
    p75, p99 = (float(np.percentile(took, share)) for share in (75, 99))
    found = level(ratio, 2, 4, 8, 16)
    by_data = more >= ratio / 2 and more >= 2
    why = (
        f"and read {units.size(float(data[worst]))} where the median read {units.size(middle)}: the data are uneven"
        if by_data else "but read no more than others: look at its host and at what its rows cost"
    )  # fmt: skip
    key = "hive.optimize.skewjoin" if by_data and found and vertex.inputs and app.job_type == "Hive-Tez" else ""
    return Insight(
        "skew", vertex.name, f"{ratio:.1f} x", "2.0 x", found,
        f"Task {vertex.tasks['task'][worst]} ran {units.duration(float(took[worst]))} on {vertex.tasks['host'][worst] or '?'}, "
        f"the median {units.duration(median)}, {why}."
        + (" Few tasks hold up the vertex (p75 / p99 below 0.5)." if p99 and p75 / p99 < 0.5 else ""),
        key, "true" if key else "", status,
    )  # fmt: skip


def _spilled(app: App, vertex: Vertex, status: str) -> Insight | None:
    spilled, written = (int(vertex.tasks[name].sum() or 0) for name in ("spilled_records", "output_records"))
    if not spilled or not written:
        return None
    ratio, buffer = spilled / written, int(setting(app, "tez.runtime.io.sort.mb", 100))
    bad = level(ratio, 2.01, 2.2, 2.5, 3.0)
    return Insight(
        "spill", vertex.name, f"{ratio:.2f} x", "2.01 x", bad,
        f"Each of {written:,} output records was written to disk {ratio:.2f} times; the sort buffer has {buffer:,} MB.",
        "tez.runtime.io.sort.mb" if bad else "", str(min(2 * buffer, 2047)) if bad else "", status,
    )  # fmt: skip


def _splits(app: App, vertex: Vertex, status: str) -> Insight | None:
    known = vertex.tasks["input_bytes"].drop_nulls()
    if vertex.inputs or len(known) < LEAST_TASKS:
        return None
    median, took = float(known.median() or 0), float(np.median(vertex.took))  # type: ignore[arg-type]
    least = setting(app, "tez.grouping.min-size", 50 * MB)
    bad = level(len(known), 50, 101, 500, 1000) if median < least and took < 60_000 else 0
    return Insight(
        "split size", vertex.name, units.size(median), units.size(least), bad,
        f"{len(known):,} tasks read {units.size(median)} in the median and run {units.duration(took)}.",
        "tez.grouping.min-size" if bad else "", str(int(max(least, 128 * MB))) if bad else "", status,
    )  # fmt: skip


def _reducers(app: App, vertex: Vertex, status: str) -> Insight | None:
    fetched = int(vertex.tasks["shuffle_bytes"].sum() or 0)
    each = setting(app, "hive.exec.reducers.bytes.per.reducer", 256_000_000)
    if app.job_type != "Hive-Tez" or not fetched or each < 1 or status != CERTAIN:
        return None
    count, wanted = vertex.tasks.height, max(1, -(-fetched // int(each)))
    off = app.conf.get("hive.tez.auto.reducer.parallelism", "false") != "true"
    many, few = level(count / wanted, 8, 16, 64, 256) if count >= 8 else 0, level(wanted / count, 2, 4, 8, 16)
    key = (
        "hive.tez.auto.reducer.parallelism"
        if many and off
        else "hive.exec.reducers.bytes.per.reducer"
        if many or few
        else ""
    )
    value = "true" if many and off else str(int(each * (4 if many else 0.5))) if key else ""
    return Insight(
        "reducers", vertex.name, f"{count:,}", f"{wanted:,}", max(many, few),
        f"{count:,} task{'' if count == 1 else 's'} fetched {units.size(fetched)}; at {units.size(each)} each, {wanted:,} would "
        f"do. Automatic parallelism is {'off' if off else 'on'}{_changed(vertex)}.", key, value, status,
    )  # fmt: skip


def _changed(vertex: Vertex) -> str:
    """Say how Tez changed the number of tasks of a vertex while it ran; empty if the files do not tell."""
    first, then = vertex.first_planned, vertex.planned
    if first is None or then is None:
        return ""
    return (
        f": Tez made {then:,} of the {units.plural(first, 'planned task')}"
        if first != then
        else f": Tez left the {units.plural(first, 'planned task')}"
    )


def _edges(app: App, found: InDepth) -> Iterator[Insight]:
    by_name = {vertex.name: vertex for vertex in found.vertices}
    limit = integer(app.conf.get("hive.auto.convert.join.noconditionaltask.size")) or 10_000_000
    for a, b, how in found.dag.edges:
        source, target = by_name.get(a), by_name.get(b)
        if how == "BROADCAST" and source is not None and target is not None:
            sent = int(source.tasks["output_bytes"].sum() or 0)
            if sent:
                bad = level(sent / limit, 2, 4, 8, 16)
                yield Insight(
                    "broadcast", f"{a} → {b}", units.size(sent), units.size(limit), bad,
                    f"{a} sends {units.size(sent)} to each of {target.tasks.height:,} tasks of {b}.",
                    "hive.auto.convert.join.noconditionaltask.size" if bad else "", str(limit // 2) if bad else "",
                )  # fmt: skip
    names = {vertex.number: vertex.name for vertex in found.vertices}
    edges = app.edges.filter((pl.col("dag") == found.dag.number) & pl.col("edge").str.contains('"INPUT"', literal=True))
    summed = (
        edges.group_by("vertex", "edge")
        .agg(pl.col("shuffle_bytes", "groups", "records").sum(), pl.len())
        .sort("vertex", "edge")
    )
    for vertex, edge, fetched, keys, records, _ in summed.sort("vertex", "edge").iter_rows():
        share = keys / records if records else 1.0
        if fetched > 900 * MB and share < 0.4:
            source_name = edge.split('"')[5].replace("_", " ")
            hot = share < 0.2
            yield Insight(
                "hot keys" if hot else "keys", f"{source_name} → {names.get(vertex, vertex)}", f"{share:.2f} keys a record",
                "0.20" if hot else "0.40", 3 if hot else 1,
                f"{records:,} records have {keys:,} keys over {units.size(fetched)}: "
                + ("more reducers do not help, a skew join or a combiner does." if hot else "more reducers help."),
                "hive.optimize.skewjoin" if hot else "hive.exec.reducers.bytes.per.reducer", "true" if hot else "less",
            )  # fmt: skip
