"""Verdicts and metrics of Tez applications: what Dr. Elephant reads and judges of them, and the result tables made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from engine.core.view import Context, Finding, Level
from engine.job_heuristics.dr_elephant import judged, metrics
from engine.job_heuristics.dr_elephant.display import cut
from engine.job_heuristics.dr_elephant.errors import Told, grouped, root_cause
from engine.job_heuristics.dr_elephant.judged import STRIPS, Judged, JudgedJobs, findings_of, strips_of
from engine.job_heuristics.dr_elephant.sides import Jobs, totals
from engine.job_heuristics.tables import JOBS, SEVERITIES
from engine.job_heuristics.tez.model import MAP, OTHER, REDUCE, SCOPE, SIDES, App, Apps, Dag, waves_of
from engine.job_heuristics.tez.rules import (
    HIVE_KEY,
    OWN_KEYS,
    SLOW_START,
    TEZ,
    WRONG_DEFAULT,
    TezRules,
    Unit,
    container_mb,
    judge_units,
)
from engine.job_heuristics.tez.tables import COUNTED

_NULL = "java.lang.NullPointerException: "
_COUNTED = (MAP, REDUCE, SCOPE)


def heuristic_dags(app: App) -> list[Dag]:
    """Return the DAGs whose tasks Dr. Elephant looks at, in its order."""
    return [dag for dag in app.dags if dag.facts["status"] == "SUCCEEDED"]


def succeeded(app: App) -> bool:
    """Return whether Dr. Elephant takes an application for succeeded: the oldest DAG that succeeded or failed decides."""
    words = [dag.facts["status"] for dag in app.dags if dag.facts["status"] in ("SUCCEEDED", "FAILED")]
    return not words or words[-1] == "SUCCEEDED"


def fetch_error(app: App) -> str:
    """Return the exception with which Dr. Elephant fails to read an application; empty if it reads it."""
    if not app.known:
        return f"{_NULL}TezFetcher: no entity of the application"
    if app.facts["config_error"]:
        return str(app.facts["config_error"])
    if not app.dags:
        return f"{_NULL}TezFetcher: the application has no DAG"
    for dag in app.dags:
        if dag.facts["status"] is None:
            return f"{_NULL}TezFetcher$JSONFactory.getDagStatus: DAG {dag.number} has no status"
        if dag.facts["start_ms"] is None or dag.facts["end_ms"] is None:
            what = "start" if dag.facts["start_ms"] is None else "end: it runs"
            return f"{_NULL}TezFetcher$JSONFactory.getDagEndTime: DAG {dag.number} has no {what}"
    inner = [dag.number for dag in heuristic_dags(app)]
    vertices = app.vertices.filter(pl.col("dag").is_in(inner) & pl.col("processor").is_null())
    if vertices.height:
        return f"{_NULL}TezFetcher$JSONFactory.getVertexData: vertex {vertices['name'][0] or vertices['vertex'][0]} has no class"
    tasks = app.tasks.filter(pl.col("dag").is_in(inner) & pl.col("side").is_in(_COUNTED))
    broken = tasks.filter(pl.col("broken").is_not_null())
    if broken.height:
        return str(broken["broken"][0])
    if tasks.filter(pl.col("failed")).height:
        return f"{_NULL}TezFetcher$JSONFactory.getTaskFirstFailedAttempt: a task was killed or failed in a DAG that succeeded"
    if tasks.filter(pl.col("total_ms").is_null()).height:
        return f"{_NULL}TezFetcher$JSONFactory: a task without status, or an attempt without start and end"
    return ""


def unit_of(app: App, error: str, *, own: bool) -> Unit:
    """Return the DAG of an application that is judged; ``error``: why Dr. Elephant does not read it.

    It is the DAG that succeeded with most tasks on Dr. Elephant's sides, the newest among equals. If there is none, or if Dr.
    Elephant fails, it is the newest DAG with tasks.
    """
    sizes = dict(app.tasks.filter(pl.col("side").is_in(_COUNTED)).group_by("dag").len().iter_rows())
    dag = max(heuristic_dags(app), key=lambda dag: sizes.get(dag.number, 0), default=None)
    state = "SUCCEEDED" if succeeded(app) else "FAILED"
    if dag is None and (own or error) and app.dags:
        having = set(app.tasks["dag"].to_list())
        dag = next((each_ for each_ in app.dags if each_.number in having), app.dags[0])
        state = "RUNNING" if dag.state == "RUNNING" else state
    oldest = app.dags[-1].facts["start_ms"] if app.dags else None
    tasks = app.tasks.filter(
        (pl.col("dag") == (dag.number if dag is not None else -1))
        & pl.col("total_ms").is_not_null()
        & (pl.lit(own) | pl.col("side").is_in(_COUNTED))
    )
    return Unit(app.app_id, app, state, tasks, dag.facts["start_ms"] if own and dag is not None else oldest, own)


def judge(apps: Mapping[str, App], rules: TezRules, *, own: bool = False) -> Judged:
    """Return the result frames of ``apps`` under ``rules``.

    ``own``: use official counters, true container sizes and tasks of every processor, which Dr. Elephant does not.
    """
    listed = list(apps.values())
    errors = [fetch_error(app) for app in listed]
    units = [unit_of(app, error, own=own) for app, error in zip(listed, errors, strict=True)]
    jobs, made, heuristics, counted = judge_units(units, rules)
    worst, score = totals(jobs, made)
    unread = [_before_rules(unit, error, jobs, k) for k, (unit, error) in enumerate(zip(units, errors, strict=True))]
    thrown = [(rule, rule.heuristic.error(jobs)) for rule in rules.rules]
    of_rules = [
        next((found[k] for rule, found in thrown if k in found and kind not in rule.excluded), "")
        for k, kind in enumerate(jobs.types)
    ]
    says = [
        quiet or error or of_rule or metrics.slow_start_error(app.conf.get(SLOW_START))
        for app, error, quiet, of_rule in zip(listed, errors, unread, of_rules, strict=True)
    ]
    shown = _jobs(units, worst, score, counted, says)
    names = [app.app_id for app in listed]
    strips = pl.DataFrame({"job_id": names, "strip": strips_of(names, heuristics, rules.names)}, STRIPS)
    findings = findings_of(shown, heuristics)
    findings |= {app.app_id: (*_failures(app), *findings[app.app_id]) for app in listed}
    return Judged(shown, heuristics, strips, findings)


MOST_FAILURES = 20  # DAGs of an application that did not succeed and are findings of their own, the newest first


def _failures(app: App) -> list[Finding]:
    """Return a finding for each DAG that failed or was killed: Dr. Elephant says nothing about them."""
    found = []
    for dag in [dag for dag in app.dags if dag.state in ("FAILED", "KILLED", "ERROR")][:MOST_FAILURES]:
        level: Level = "low" if dag.state == "KILLED" else "moderate"
        name = dag.name or str(dag.number)
        of = "" if app.facts["name"] in (None, name) else f" of {app.facts['name']}"
        text = f"{dag.state}: {failure_of(app, dag) or 'no reason is given'}; open the job for its vertices"
        found.append(Finding(level, f"DAG {name}{of}", text, ("jobs", (app.app_id,))))
    return found


def errors_of(app: App, dag: Dag) -> list[Told]:
    """Return the errors of a DAG: of failed attempts, of failed vertices, and its own diagnostics."""
    failed = (pl.col("dag") == dag.number) & (pl.col("status") == "FAILED")
    attempts = app.attempts.filter(failed).sort("end_ms", nulls_last=True, maintain_order=True)
    names = dict(app.vertices.filter(pl.col("dag") == dag.number).select("vertex", "name").iter_rows())
    found = [
        (text or error or "", 1, f"{names.get(vertex) or f'vertex {vertex}'}, task {task}")
        for text, error, vertex, task in attempts.select("diagnostics", "error", "vertex", "task").iter_rows()
    ]
    vertices = app.vertices.filter(failed).select("diagnostics", "name").iter_rows()
    found += [(text or "", 0, name or "vertex") for text, name in vertices]
    return [*found, (dag.facts["diagnostics"] or "", 0, f"DAG {dag.number}")]


def failure_of(app: App, dag: Dag) -> str:
    """Return why a DAG did not succeed: the most frequent cause of its failed attempts, else what its first vertex that failed
    says, else the DAG; then the DAG's own words."""
    told = [one for one in errors_of(app, dag) if one[0]]
    cause = next((cause for cause, *_ in grouped([one for one in told if one[1]] or told[:1], 1)), "")
    own = root_cause(dag.facts["diagnostics"] or "").rstrip("; ")
    return cut("; ".join(dict.fromkeys(part for part in (cause.rstrip("; "), own) if part)), 400)


def _before_rules(unit: Unit, error: str, jobs: Jobs, k: int) -> str:
    """Return what Dr. Elephant shows of an application that it reads without judging it, in words; else empty."""
    if error or unit.state != "SUCCEEDED" or jobs.side("map")["n"][k] or jobs.side("reduce")["n"][k]:
        return ""
    return "No Data Received: it counts no task of Pig" if jobs.side("scope")["n"][k] else ""


def _jobs(
    units: Sequence[Unit],
    worst: Sequence[int | None],
    score: Sequence[int],
    counted: Mapping[str, Any],
    says: Sequence[str],
) -> pl.DataFrame:
    made: list[dict[str, Any]] = []
    for unit, level, points, error in zip(units, worst, score, says, strict=True):
        app, newest = unit.app, unit.app.dags[0] if unit.app.dags else None
        facts: Mapping[str, Any] = newest.facts if newest is not None else {}
        start, finish = app.span()
        counts = dict(unit.tasks["own_side" if unit.own else "side"].value_counts().iter_rows())
        ended = app.state in ("SUCCEEDED", "FAILED", "KILLED", "ERROR")
        made.append(
            {
                "job_id": app.app_id,
                "name": app.facts["name"] or (newest.name if newest is not None else ""),
                "user": app.facts["user"] or facts.get("user") or app.facts["am_user"],
                "queue": app.facts["queue"] or facts.get("queue"),
                "job_type": app.job_type,
                "state": app.state,
                "submit_ms": start,
                "launch_ms": app.dags[-1].facts["start_ms"] if app.dags else None,
                "finish_ms": finish,
                "maps": counts.get(MAP, 0) + counts.get(SCOPE, 0),
                "reduces": counts.get(REDUCE, 0),
                "severity": SEVERITIES[level] if level is not None else "NONE" if ended and not error else None,
                "score": points if level is not None or (ended and not error) else None,
                "runtime_ms": finish - start if start is not None and finish is not None else None,
                "upstream_says": error,
                "error": failure_of(app, newest)
                if newest is not None and app.state in ("FAILED", "KILLED", "ERROR")
                else "",
                "source": TEZ,
                "notes": "; ".join(notes(unit)),
            }
        )
    frame = pl.DataFrame(made, infer_schema_length=None)
    return JOBS.frame(
        frame.with_columns(**{name: pl.Series(values, dtype=pl.Int64) for name, values in counted.items()})
    )


def notes(unit: Unit) -> list[str]:
    """Return assumptions made for an application, and where Dr. Elephant's numbers mislead."""
    app, tasks, other = unit.app, unit.tasks, not unit.own
    present = set(tasks["side"].to_list())
    sizes = {side: container_mb(app.conf, side) for side in SIDES[:2]} if other and app.known else {}
    wrong = [side for k, side in enumerate(sizes) if k in present and sizes[side] == WRONG_DEFAULT]
    unknown = app.tasks.filter(pl.col("side") == OTHER).height
    told = (
        (not app.known, "no entity of the application was found: its configuration is unknown"),
        (len(app.dags) > 1,
         f"{len(app.dags)} DAGs: Dr. Elephant judges one, by most tasks; table tez_dags judges each by itself"),
        (wrong, f"no readable {HIVE_KEY} or {OWN_KEYS[wrong[0]] if wrong else ''}: Dr. Elephant takes its default of "
         f"{WRONG_DEFAULT:,} bytes for MB, and used and wasted are 2^20 times too large"),
        (not wrong and any(mb < 0 for mb in sizes.values()),
         f"{OWN_KEYS['map']} is negative: Dr. Elephant's used memory is, too, and it finds no waste"),
        *(_of_tasks(tasks, other) if tasks.height else ()),
        (unknown and other,
         f"{unknown:,} task(s) of processors that Dr. Elephant does not know do not count: mode=corrected judges them"),
        (app.state == "RUNNING", "still running: verdicts and metrics are over the tasks that have ended so far"),
    )  # fmt: skip
    return [*(words for so, words in told if so), *missing(app)]


def _of_tasks(tasks: pl.DataFrame, other: bool) -> Iterator[tuple[Any, str]]:
    """Yield notes on how the tasks were counted, each with whether it applies. ``other``: as Dr. Elephant reads them."""
    names = [name for name in COUNTED if name != "input_bytes"]
    edges = sum(int((tasks[f"first_{name}"] != tasks[name]).fill_null(value=False).any()) for name in names)
    instant, failed = tasks.filter(pl.col("total_ms") == 0).height, tasks.filter(pl.col("failed")).height
    yield (
        edges and other,
        f"{edges} of {len(COUNTED)} counters that Dr. Elephant reads are those of single edges, not of tasks",
    )
    yield not tasks["physical_bytes"].is_not_null().any(), "memory was not measured: all of it would count as wasted"
    yield instant, f"{instant:,} task(s) of 0 ms are left out of speeds"
    yield failed, f"{failed:,} task(s) did not succeed: their first attempt that ended counts"


def missing(app: App) -> list[str]:
    """Return circles among vertices, and which entities of an application the files do not hold though others name them."""
    words = [
        f"the plan of DAG {dag.number} has a circle, these wait for each other: {', '.join(circle[:5])}"
        for dag in app.dags
        if (circle := waves_of(dag, [])[1])
    ]
    for dag in app.dags:
        have = app.vertices.filter(pl.col("dag") == dag.number)
        named = set(json.loads(dag.facts["vertices"] or "[]"))
        lacking = sorted(named - set(have["name"].drop_nulls().to_list()))
        if lacking:
            several = f"{len(lacking)} of {len(named)} vertices ({', '.join(lacking[:3])})"
            words.append(f"DAG {dag.number}: {several} are not in the files")
        planned, found = have["tasks"].sum(), app.tasks.filter(pl.col("dag") == dag.number).height
        if dag.state == "SUCCEEDED" and found < planned:
            several = f"only {found:,} of {planned:,} tasks are in the files"
            words.append(f"DAG {dag.number}: {several}: ask for them with limit=500000")
    numbers = [dag.number for dag in app.dags]
    if numbers and max(numbers) < 10_000 and max(numbers) > len(numbers):
        words.append(
            f"only {len(numbers)} of at least {max(numbers)} DAGs are in the files: ask for them with a higher limit"
        )
    return words


def judge_apps(apps: Apps, rules: TezRules, context: Context, *, own: bool = False) -> JudgedJobs:
    """Judge all applications, see ``judge``; only those that changed since the last call are judged again."""
    return judged.judge_apps("tez", apps, lambda some: judge(some, rules, own=own), (own, rules.key), context)
