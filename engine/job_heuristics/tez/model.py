"""Applications assembled from their facts: merged by id over all files, with their DAGs, vertices, tasks and attempts.

Several forms of one application are one: later facts win. Only applications whose files changed are assembled again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.incremental import Partials
from engine.core.view import FILE, Context, Inputs
from engine.job_heuristics.dr_elephant import judged
from engine.job_heuristics.tez import tables
from engine.job_heuristics.tez.reading.kinds import KINDS

MAP, REDUCE, SCOPE, OTHER = range(4)  # sides of an application by the class of a vertex's processor
SIDES = ("map", "reduce", "scope")
_SIDES = {
    "org.apache.hadoop.hive.ql.exec.tez.MapTezProcessor": MAP,
    "org.apache.hadoop.hive.ql.exec.tez.ReduceTezProcessor": REDUCE,
    "org.apache.pig.backend.hadoop.executionengine.tez.runtime.PigProcessor": SCOPE,
}
ENDED = ("SUCCEEDED", "FAILED", "KILLED", "ERROR")
_KINDS = frozenset(kind.id for kind in KINDS)
_KEYS = {
    "tez_app_facts": (), "tez_dag_facts": ("dag",), "tez_vertex_facts": ("dag", "vertex"),
    "tez_task_facts": ("dag", "vertex", "task"), "tez_attempt_facts": ("dag", "vertex", "task", "attempt"),
    "tez_edge_facts": ("dag", "vertex", "task", "edge"), "tez_container_facts": ("container",),
}  # fmt: skip


class Dag(msgspec.Struct, frozen=True, eq=False):
    """One DAG. ``facts``: DAG_FACTS as far as known; ``edges``: names of vertices, from and to, and how data move."""

    dag_id: str
    number: int
    facts: Mapping[str, Any]
    edges: tuple[tuple[str, str, str], ...]

    @property
    def state(self) -> str:
        """SUCCEEDED, FAILED, KILLED, ERROR or RUNNING."""
        status = self.facts.get("status")
        return status if status in ENDED else "RUNNING"

    @property
    def name(self) -> str:
        """Its name, or that of its caller."""
        return self.facts.get("name") or self.facts.get("caller") or ""


class App(msgspec.Struct, frozen=True, eq=False):
    """One application. ``facts``: APP_FACTS as far as known; ``conf``: its configuration, empty if unknown; ``known``:
    whether Tez's own entity was found; ``dags``: the newest first. ``vertices``, ``attempts``, ``edges``, ``containers``:
    facts by id; ``tasks``: as well, with ``side`` (by Dr. Elephant), ``own_side``, and the times of the attempt that counts
    (``begin_ms``, ``finish_ms``; ``host``, ``container`` of it), ``lost`` where Dr. Elephant finds no such times.
    """

    app_id: str
    facts: Mapping[str, Any]
    conf: Mapping[str, str]
    known: bool
    dags: tuple[Dag, ...]
    vertices: pl.DataFrame
    tasks: pl.DataFrame
    attempts: pl.DataFrame
    edges: pl.DataFrame
    containers: pl.DataFrame

    @property
    def state(self) -> str:
        """The state of the newest DAG; without a DAG, the one that YARN tells."""
        if self.dags:
            return self.dags[0].state
        state = self.facts.get("state")
        return state if state in ENDED else "RUNNING" if state in ("RUNNING", "ACCEPTED", "SUBMITTED") else "UNKNOWN"

    @property
    def job_type(self) -> str:
        """Dr. Elephant's type of the job."""
        engine = self.conf.get("hive.execution.engine")
        if self.conf.get("exectype") == "TEZ":
            return "Pig-Tez"
        return "Hive-Tez" if engine is not None and "\n" not in engine and "\r" not in engine else "Unknown"

    def span(self) -> tuple[int | None, int | None]:
        """Return start and finish as YARN tells them, else those of the DAGs; the finish is None while it runs."""
        starts, ends = (
            [dag.facts[key] for dag in self.dags if dag.facts[key] is not None] for key in ("start_ms", "end_ms")
        )
        over = self.state != "RUNNING" and len(ends) == len(self.dags)
        start, finish = self.facts.get("start_ms"), self.facts.get("finish_ms")
        return (
            start if start is not None else min(starts, default=None),
            finish if finish is not None else max(ends, default=None) if over else None,
        )


def merged(rows: pl.DataFrame, keys: Iterable[str]) -> pl.DataFrame:
    """Return one row per value of ``keys``: of each column the last value that is known, in the order of ``rows``."""
    names = list(keys)
    columns = [name for name in rows.columns if name not in names]
    if not rows.height or not names:
        return rows.select(pl.col(columns).drop_nulls().last()) if rows.height else rows
    code = rows.select(pl.struct(names).rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    count = int(code.max()) + 1
    last = np.zeros(count, dtype=np.int64)
    last[code] = np.arange(rows.height)  # of several the last
    made = rows[last]
    if count == rows.height:
        return made
    missing = rows.select(pl.col(columns).is_null())  # one query for all columns
    for name in columns:
        unknown = missing[name].to_numpy()
        known = np.flatnonzero(unknown[last][code] & ~unknown)
        if len(known):
            best = last.copy()
            best[code[known]] = known
            made.replace_column(made.get_column_index(name), rows[name][best])
    return made


_TIMES = {
    "tez_dag_facts": ("start_ms", ("end_ms", "status")), "tez_vertex_facts": ("start_ms", ("end_ms", "status")),
    "tez_task_facts": ("start_ms", ("end_ms", "status", "chosen")), "tez_attempt_facts": ("start_ms", ("end_ms", "status")),
    "tez_app_facts": ("start_ms", ("finish_ms", "state")),
}  # fmt: skip
"""What is not known yet before the end of each thing."""


def _until(name: str, rows: pl.DataFrame, at_ms: int) -> pl.DataFrame:
    """Return facts as they were known at a time."""
    if name not in _TIMES:
        return rows
    start, later = _TIMES[name]
    kept = rows.filter(pl.col(start).is_null() | (pl.col(start) <= at_ms))
    open_ = pl.col(later[0]) > at_ms
    return kept.with_columns(
        pl.when(open_).then(None).otherwise(pl.col(column)).alias(column) for column in reversed(later)
    )


def waves_of(dag: Dag, names: list[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the wave of each vertex of a plan, and the vertices that wait for each other in a circle."""
    inputs: dict[str, set[str]] = {name: set() for name in names}
    for a, b, _ in dag.edges:
        inputs.setdefault(a, set())
        inputs.setdefault(b, set()).add(a)
    waves: dict[str, int] = {}
    left = dict(inputs)
    while ready := [name for name, of in left.items() if of <= waves.keys()]:
        for name in ready:
            waves[name] = max((waves[a] + 1 for a in left.pop(name)), default=0)
    return waves | dict.fromkeys(left, max(waves.values(), default=-1) + 1), tuple(sorted(left))


Apps = judged.Apps[App]


def current_apps(inputs: Inputs, context: Context) -> Apps:
    """Return all Tez applications in ``inputs`` as of ``context.at_ms``."""
    return judged.current_apps("tez", inputs, context, _named_apps)


def _named_apps(inputs: Inputs, context: Context) -> tuple[Mapping[str, Hashable], judged.Assemble[App]]:
    """Return the stamps of the applications that files name, and what assembles them."""
    versions = {n: info.version for n, info in inputs.files.items() if info.kind in _KINDS}
    named: Partials[int, frozenset[str]] = context.memo.state("tez applications by file", Partials)
    named.update(versions, lambda files: _named(inputs, files))
    files: dict[str, list[int]] = defaultdict(list)
    oldest_first = sorted(versions, key=lambda n: (inputs.files[n].mtime_ms, inputs.files[n].path))
    for number in oldest_first:
        for app in named[number]:
            files[app].append(number)

    def assemble(wanted: Collection[str]) -> Mapping[str, App | None]:
        numbers = {number for app in wanted for number in files[app]}
        order = {number: k for k, number in enumerate(oldest_first)}
        rows: dict[str, dict[str, pl.DataFrame]] = {}
        for table in tables.FACTS:
            frame = inputs.of(table.name, frozenset(numbers))
            if len(numbers) > 1 or not frame["seq"].is_sorted():
                frame = frame.with_columns(pl.col(FILE).replace_strict(order, return_dtype=pl.UInt32)).sort(FILE, "seq")
            if frame.height:
                parts = frame.drop(FILE, "seq").partition_by(
                    "app_id", as_dict=True, include_key=False, maintain_order=True
                )
                rows[table.name] = {str(app): part for (app,), part in parts.items()}
        return {app: _app(app, {name: parts.get(app) for name, parts in rows.items()}, context.at_ms) for app in wanted}

    return {app: tuple((n, versions[n]) for n in numbers) for app, numbers in sorted(files.items())}, assemble


def _named(inputs: Inputs, files: Collection[int]) -> dict[int, frozenset[str]]:
    found: dict[int, set[str]] = {number: set() for number in files}
    for table in tables.FACTS:
        for number, app in inputs.of(table.name, frozenset(files)).select(FILE, "app_id").unique().iter_rows():
            found[number].add(app)
    return {number: frozenset(apps) for number, apps in found.items()}


def _app(app_id: str, rows: Mapping[str, pl.DataFrame | None], at_ms: int | None) -> App | None:
    """Assemble one application; None if only a container or YARN knows of it, or if it had not begun."""
    one: dict[str, pl.DataFrame] = {}
    for table in tables.FACTS:
        found = rows.get(table.name)
        frame = table.empty().drop("seq", "app_id") if found is None else merged(found, _KEYS[table.name])
        one[table.name] = frame if at_ms is None else _until(table.name, frame, at_ms)
    app, dags = one["tez_app_facts"], one["tez_dag_facts"]
    facts = app.row(0, named=True) if app.height else dict.fromkeys(app.columns)
    inner = ("tez_dag_facts", "tez_vertex_facts", "tez_task_facts", "tez_attempt_facts")
    if facts["config"] is None and not any(one[name].height for name in inner):
        return None
    cluster = app_id.removeprefix("application_")
    by_number = {row["dag"]: row for row in dags.iter_rows(named=True)}
    made = []
    for number in sorted({number for name in inner for number in one[name]["dag"].unique().to_list()}):
        of_dag = by_number.get(number) or dict.fromkeys(dags.columns)
        edges = tuple((a, b, how or "") for a, b, how in json.loads(of_dag["edges"] or "[]"))
        made.append(Dag(f"dag_{cluster}_{number}", number, of_dag, edges))
    made.sort(key=lambda dag: (-_order(dag), dag.dag_id))
    vertices = one["tez_vertex_facts"].sort("dag", "vertex")
    tasks = _tasks(one["tez_task_facts"], one["tez_attempt_facts"], _sided(vertices, made))
    return App(
        app_id, facts, json.loads(facts["config"] or "{}"), facts["config"] is not None, tuple(made), vertices, tasks,
        one["tez_attempt_facts"], one["tez_edge_facts"], one["tez_container_facts"],
    )  # fmt: skip


def _order(dag: Dag) -> int:
    """Return when a DAG was submitted, or the next best time."""
    return next(
        (dag.facts[key] for key in ("order_ms", "init_ms", "start_ms", "end_ms") if dag.facts[key] is not None),
        dag.number,
    )


def _sided(vertices: pl.DataFrame, dags: Iterable[Dag]) -> pl.DataFrame:
    """Return DAG, vertex, its side by Dr. Elephant and its own: of another processor, roots are maps and the others reduces.
    A vertex without a class has the side null."""
    fed = {(dag.number, to) for dag in dags for _, to, _ in dag.edges}
    sides, own = [], []
    for row in vertices.select("dag", "name", "processor").iter_rows():
        side = None if row[2] is None else _SIDES.get(row[2], OTHER)
        sides.append(side)
        own.append(side if side in (MAP, REDUCE, SCOPE) else REDUCE if (row[0], row[1]) in fed else MAP)
    made = {"side": pl.Series(sides, dtype=pl.Int64), "own_side": pl.Series(own, dtype=pl.Int64)}
    return vertices.select("dag", "vertex", pl.col("name").alias("vertex_name")).with_columns(**made)


def _tasks(tasks: pl.DataFrame, attempts: pl.DataFrame, sided: pl.DataFrame) -> pl.DataFrame:
    """Return the tasks with their sides and the times of the attempt that counts.

    If a task succeeded, that is the attempt it names; else the first attempt that ended.
    """
    of_task = ("dag", "vertex", "task")
    first = (
        attempts.filter((pl.col("status") != "SUCCEEDED") & pl.col("end_ms").is_not_null())
        .sort("end_ms", "attempt")
        .unique(of_task, keep="first", maintain_order=True)
    )
    good = pl.col("status") == "SUCCEEDED"
    columns = [*of_task, pl.col("start_ms").alias("begin_ms"), pl.col("end_ms").alias("finish_ms"),
               pl.col("node").alias("host"), "container", "allocated_ms", "created_ms", pl.col("diagnostics").alias("why"),
               pl.col("attempt").alias("counts")]  # fmt: skip
    named = tasks.filter(good).join(
        attempts.select(columns),
        left_on=(*of_task, "chosen"),
        right_on=(*of_task, "counts"),
        how="left",
        maintain_order="left",
    )
    other = tasks.filter(~good | pl.col("status").is_null()).join(
        first.select(columns).drop("counts"), on=of_task, how="left", maintain_order="left"
    )
    made = pl.concat([named, other], how="diagonal").join(
        sided, on=("dag", "vertex"), how="left", maintain_order="left"
    )
    failed = (~good | pl.col("status").is_null()) & pl.col("begin_ms").is_not_null()
    return made.sort(*of_task).with_columns(
        own_side=pl.col("own_side").fill_null(MAP),
        total_ms=pl.col("finish_ms") - pl.col("begin_ms"),
        failed=failed,
    )
