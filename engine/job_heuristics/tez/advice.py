"""True cost of Tez applications by cause, and settings that should pay, with their savings."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import (
    LEAST_MB,
    STEP_MB,
    Advice,
    Setting,
    frame_of,
    passed,
)
from engine.job_heuristics.dr_elephant.display import integer
from engine.job_heuristics.dr_elephant.gates import MB
from engine.job_heuristics.dr_elephant.metrics import Part, costs_of
from engine.job_heuristics.tez.insight import CACHE_SIZE, COPIES, START_LATER, WAIT_NEAR
from engine.job_heuristics.tez.model import App
from engine.job_heuristics.tez.rules import AM_KEY, HIVE_KEY, OWN_KEYS, TASK_KEY, TezRules, true_mb

CAUSES = (
    "useful",
    "over-sizing",
    "idle containers",
    "failures",
    "speculation",
    "killed",
    "running",
    "application master",
)
"""Causes in the order they are shown."""
_SPLITS, _PER_REDUCER = "tez.grouping.min-size", "hive.exec.reducers.bytes.per.reducer"


def _not_hive(app: App) -> str:
    return "" if app.job_type == "Hive-Tez" else "Hive did not plan this application"


def _unknown(app: App) -> str:
    return "" if app.known else "the configuration, which states the size, is not in the files"


def _not_in_daemons(app: App) -> str:
    return "" if is_llap(app) else "its tasks did not run in daemons of LLAP"


def _in_mb(key: str) -> Setting:
    return Setting(
        idle=lambda app: _unknown(app) or _overruled(app, key),
        default=lambda app: str(true_mb(app, "map")),
        least=LEAST_MB,
    )


def _overruled(app: App, key: str) -> str:
    """Return why the size of containers is not taken from ``key``."""
    if key != HIVE_KEY and app.job_type == "Hive-Tez" and (integer(app.conf.get(HIVE_KEY)) or 0) > 0:
        return f"{HIVE_KEY} is set"
    return _not_hive(app) if key in (HIVE_KEY, OWN_KEYS["map"]) else ""


SETTINGS: Mapping[str, Setting] = {
    **{key: _in_mb(key) for key in (HIVE_KEY, TASK_KEY)},
    _SPLITS: Setting(default=lambda app: str(50 * MB), least=1),
    _PER_REDUCER: Setting(idle=_not_hive, default=lambda app: "256000000", least=1),
    "tez.runtime.io.sort.mb": Setting(default=lambda app: "100", least=1),
    "tez.am.container.reuse.enabled": Setting(default=lambda app: "true"),
    "tez.am.container.idle.release-timeout-min.millis": Setting(default=lambda app: "5000"),
    "hive.tez.auto.reducer.parallelism": Setting(idle=_not_hive, default=lambda app: "false"),
    START_LATER: Setting(default=lambda app: "0.25"),
    COPIES: Setting(default=lambda app: "20", least=1),
    WAIT_NEAR: Setting(default=lambda app: "250", least=0),
    CACHE_SIZE: Setting(idle=_not_in_daemons, least=1),
    "hive.optimize.skewjoin": Setting(idle=_not_hive, default=lambda app: "false"),
    "hive.auto.convert.join.noconditionaltask.size": Setting(idle=_not_hive, default=lambda app: "10000000", least=1),
}
"""The properties that advice on Tez applications names; their functions take the application."""


def is_llap(app: App) -> bool:
    """Return whether tasks ran in shared daemons, whose containers are not the application's."""
    return bool(app.vertices["plugin"].fill_null("").str.to_uppercase().str.contains("LLAP", literal=True).any())


def peak_mb(app: App) -> int:
    """Return the largest physical memory of a task in MB, 0 if it was not measured."""
    return math.ceil(int(app.tasks["physical_bytes"].fill_null(0).to_numpy().max(initial=0)) / MB)


def split(app: App, headroom: float) -> dict[str, Part]:
    """Return attempts, MB ms and core ms by cause. A task needed at most ``headroom`` times the largest known memory of any;
    a container is held from when it was given to the end of its last attempt, or until it was stopped."""
    attempts = app.attempts.filter(pl.col("start_ms").is_not_null())
    if is_llap(app):
        return {}
    times = (attempts[name].fill_null(0).to_numpy() for name in ("start_ms", "end_ms"))
    newest = int(np.maximum.reduce([each.max(initial=0) for each in times]))
    chosen = app.tasks.select("dag", "vertex", "task", pl.col("chosen").alias("named"))
    good = (pl.col("status") == "SUCCEEDED") & (pl.col("attempt") == pl.col("named")).fill_null(value=True)
    raced = pl.col("error").fill_null("").str.contains("SPECULATION", literal=True)
    cause = (
        pl.when(pl.col("end_ms").is_null()).then(pl.lit("running")).when(good).then(pl.lit("useful"))
        .when(raced).then(pl.lit("speculation")).when(pl.col("status") == "KILLED").then(pl.lit("killed"))
        .otherwise(pl.lit("failures"))
    )  # fmt: skip
    found = attempts.join(chosen, on=("dag", "vertex", "task"), how="left").with_columns(
        end=pl.col("end_ms").fill_null(newest), cause=cause
    )
    found = found.with_columns(ms=(pl.col("end") - pl.col("start_ms")).clip(0, 2**42))
    mb, cores = true_mb(app, "map"), max(1, min(integer(app.conf.get("hive.tez.cpu.vcores")) or 1, 2**10))
    peak = peak_mb(app)
    needed = min(mb, math.ceil(peak * headroom)) if peak else mb
    parts: dict[str, Part] = {}
    for cause, count, ms in found.group_by("cause").agg(pl.len(), pl.col("ms").sum()).iter_rows():
        parts[cause] = (count, (needed if cause == "useful" else mb) * ms, cores * ms)
        if cause == "useful" and needed < mb:
            parts["over-sizing"] = (count, (mb - needed) * ms, 0)
    begin = pl.min_horizontal(pl.col("start_ms").min(), pl.col("allocated_ms").min())
    lives = found.filter(pl.col("container").is_not_null()).group_by("container")
    held_for = lives.agg(begin=begin, end=pl.col("end").max(), ms=pl.col("ms").sum())
    stopped = app.containers.select("container", pl.col("end_ms").alias("stopped"))
    held_for = held_for.join(stopped, on="container", how="left")
    idle = (pl.max_horizontal("end", "stopped") - pl.col("begin") - pl.col("ms")).clip(0, 2**42)
    idle_ms = int(held_for.select(idle.sum()).item() or 0)
    parts["idle containers"] = (held_for.height, mb * idle_ms, cores * idle_ms)
    start, finish = app.span()
    if start is not None:
        ms = min(max(0, (finish if finish is not None else newest) - start), 2**42)
        parts["application master"] = (1, max(0, min(integer(app.conf.get(AM_KEY)) or 1024, 2**20)) * ms, ms)
    return parts


def costs(
    apps: Mapping[str, App], headroom: float, price_gb_h: float | None, price_vcore_h: float | None
) -> pl.DataFrame:
    """Return the rows of ``COSTS``; none for applications in daemons of LLAP."""
    return costs_of({app_id: split(app, headroom) for app_id, app in apps.items()}, CAUSES, price_gb_h, price_vcore_h)


def recommendations(apps: Mapping[str, App], rules: TezRules, headroom: float) -> pl.DataFrame:
    """Return RECOMMENDATIONS rows of ended applications, most saving first within one."""
    rows = []
    for app_id, app in apps.items():
        parts = split(app, headroom)
        found = advise(app, parts, rules, headroom) if app.state != "RUNNING" else []
        rows.append((app_id, sum(mb_ms for _, mb_ms, _ in parts.values()) / 1000, found))
    return frame_of(rows)


def advise(app: App, parts: Mapping[str, Part], rules: TezRules, headroom: float) -> list[Advice]:
    """Return the recommendations for an ended application, most saving first."""
    found = [_container(app, parts, rules, headroom), _grouping(app, rules)]
    good = passed([one for one in found if one is not None], SETTINGS, app.conf, app)
    return sorted(good, key=lambda one: (-one.saving_mb_s, one.key))


def _container(app: App, parts: Mapping[str, Part], rules: TezRules, headroom: float) -> Advice | None:
    """Recommend smaller containers, from the largest memory of any task."""
    current, peak = true_mb(app, "map"), peak_mb(app)
    wanted = max(LEAST_MB, math.ceil(peak * headroom / STEP_MB) * STEP_MB)
    spent = sum(mb_ms for cause, (_, mb_ms, _) in parts.items() if cause != "application master") / 1000
    if not peak or wanted > 0.9 * current or not spent:
        return None
    memory = rules.by_heuristic.get("Tez Mapper Memory" if app.job_type != "Pig-Tez" else "Scope Memory")
    name = memory.heuristic.name if memory is not None else ""
    mean = float(app.tasks["physical_bytes"].mean() or 0.0)  # type: ignore[arg-type]

    def level(mb: int) -> int:
        return memory.level(n=1, measured=1, avg_physical_bytes=mean, container_mb=mb) if memory is not None else 0

    key = HIVE_KEY if app.job_type == "Hive-Tez" else TASK_KEY
    return Advice(
        "container", key, str(wanted), str(current), spent * (current - wanted) / current, 0, name, level(current), level(wanted),
        f"No task used more than {peak:,} of {current:,} MB; {wanted:,} MB leave {headroom - 1:.0%} head-room."
        + (f" Set hive.tez.java.opts to -Xmx{int(wanted * 0.8)}m with it." if key == HIVE_KEY else ""),
    )  # fmt: skip


def _grouping(app: App, rules: TezRules) -> Advice | None:
    """Recommend larger groups of splits where many tasks that read files are short."""
    reading = app.tasks.filter(
        (pl.col("own_side") != 1) & pl.col("total_ms").is_not_null() & (pl.col("input_bytes") > 0)
    )
    rule = rules.by_heuristic.get("Tez Mapper Time" if app.job_type != "Pig-Tez" else "Scope Time")
    judged = reading.group_by("dag", "vertex").agg(pl.len(), pl.col("total_ms").mean(), pl.col("input_bytes").mean())
    if rule is None or not judged.height:
        return None
    _, vertex, count, took, data = judged.sort("len", "vertex", descending=[True, False]).row(0)
    now = rule.level(n=count, avg_total_ms=took)
    if now < 2 or took >= 60_000 or took <= 0:
        return None
    factor = min(count, math.ceil(300_000 / took))
    start_ms = float(np.minimum(reading.filter(pl.col("vertex") == vertex)["total_ms"].to_numpy(), 2000).mean())
    fewer = math.ceil(count / factor)
    value = int(min(data * factor, 2**30))
    return Advice(
        "split size", _SPLITS, str(value), "", (count - fewer) * start_ms * true_mb(app, "map") / 1000, None, rule.heuristic.name,
        now, rule.level(n=fewer, avg_total_ms=took * count / fewer),
        f"{count:,} tasks of one vertex run only {units.duration(took)} and read {units.size(data)} each: groups of splits of "
        f"{units.size(value)} make about {fewer:,} of them. Raise tez.grouping.max-size where it is smaller.",
    )  # fmt: skip
