"""A made-up fleet result of any number of jobs: the folders that ``loadlens fleet job-heuristics`` writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

from engine import __version__
from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.fleet.tables import FILES, PROBLEMS
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS as DECLARED
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import (
    COSTS,
    DIFFERENCES,
    HEURISTICS,
    JOBS,
    LETTERS,
    LISTING,
    RECOMMENDATIONS,
    SEVERITIES,
)
from engine.output.report import settings

START_MS = 1_767_225_600_000
DAY_MS = 86_400_000
STATES = np.array(["SUCCEEDED", "FAILED", "KILLED"])


def write(folder: Path, jobs: int, days: int, seed: int = 1) -> None:
    """Write ``jobs`` jobs, as many on each of ``days``, a folder a day."""
    for day in range(days):
        number = jobs * (day + 1) // days - jobs * day // days
        date = np.datetime_as_string(np.datetime64(START_MS + day * DAY_MS, "ms"), "D")
        write_day(folder / f"day={date}", number, START_MS + day * DAY_MS, seed + day)


def write_day(folder: Path, jobs: int, begin_ms: int, seed: int) -> None:
    """Write the result of one day."""
    rng = np.random.default_rng(seed)
    rules = default_rules(DECLARED)
    ids = pl.Series([f"job_{begin_ms}_{number:06d}" for number in range(1, jobs + 1)], dtype=pl.String)
    levels = rng.choice(5, (jobs, len(rules.names)), p=[0.72, 0.1, 0.08, 0.06, 0.04]).astype(np.int8)
    listing = _listing(rng, ids, levels, begin_ms)
    tables = {
        "listing": listing,
        "jobs": JOBS.frame(listing.select(JOBS.schema.names())),
        **_verdicts(rng, ids, levels, rules.names),
        **_rest(rng, ids),
    }
    for name, frame in tables.items():
        place = folder / f"table={name}"
        place.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(place / "part-00000.parquet", compression="snappy", row_group_size=100_000)
    manifest = {
        "loadlens": __version__, "view": "job-heuristics", "at": "2026-01-01T00:00:00Z",
        "parameters": settings(JobParameters()), "paths": ["hdfs:///mr-history/done"], "files": 2 * jobs,
        "bytes": 88_000 * jobs, "rows": {name: frame.height for name, frame in tables.items()},
        "findings": dict(tables["findings"]["level"].value_counts().iter_rows()),
        "jobs_of_several_names": 0,
    }  # fmt: skip
    (folder / "manifest").mkdir(exist_ok=True)
    (folder / "manifest" / "part-00000.txt").write_text(json.dumps(manifest) + "\n", encoding="utf-8")


def _listing(rng: np.random.Generator, ids: pl.Series, levels: np.ndarray, begin_ms: int) -> pl.DataFrame:
    jobs = len(ids)
    worst = levels.max(axis=1)
    letters = np.array([LETTERS[word] for word in SEVERITIES])[levels]
    name = rng.integers(0, 400, jobs)
    submit = begin_ms + rng.integers(0, DAY_MS, jobs)
    runtime = rng.lognormal(12, 1.2, jobs).astype(np.int64)
    used = (rng.lognormal(8, 2, jobs) * 1000).astype(np.int64)
    wasted = (used * rng.uniform(0, 0.8, jobs)).astype(np.int64)
    columns = {
        "job_id": ids,
        "name": pl.Series([f"daily-{n % 40}-of-team-{n // 40} run " for n in range(400)]).gather(name) + ids.str.slice(-4),
        "user": pl.Series([f"user{n}" for n in range(40)]).gather(name % 40),
        "queue": pl.Series([f"root.queue{n}" for n in range(12)]).gather(name % 12),
        "job_type": pl.Series(["Hive", "Pig", "HadoopJava", "Cascading"]).gather(name % 4),
        "state": pl.Series(STATES.tolist()).gather(rng.choice(3, jobs, p=[0.95, 0.03, 0.02])),
        "submit_ms": submit, "launch_ms": submit + 3000, "finish_ms": submit + runtime,
        "maps": rng.integers(1, 400, jobs), "reduces": rng.integers(0, 40, jobs),
        "severity": pl.Series(SEVERITIES).gather(worst.astype(np.int64)), "score": worst * rng.integers(0, 400, jobs),
        "used_mb_s": used, "wasted_mb_s": wasted, "wait_ms": runtime // 10, "runtime_ms": runtime,
        "upstream_says": pl.Series([""] * jobs), "source": pl.Series(["history"] * jobs), "notes": pl.Series([""] * jobs),
        "strip": pl.Series(["".join(row) for row in letters.tolist()]),
        "cost_mb_s": used * 1.25, "avoidable_mb_s": wasted * 0.9,
        "saving_mb_s": np.where(rng.random(jobs) < 0.5, wasted * 0.7, np.nan), "rank": worst.astype(np.int64) + 1,
    }  # fmt: skip
    frame = LISTING.frame(columns)
    return frame.with_columns(pl.col("saving_mb_s").fill_nan(None))


def _verdicts(
    rng: np.random.Generator, ids: pl.Series, levels: np.ndarray, names: tuple[str, ...]
) -> dict[str, pl.DataFrame]:
    rows = levels.size
    flat = pl.Series(levels.reshape(-1).astype(np.int64))
    tasks = pl.Series(rng.integers(1, 400, rows))
    words = pl.Series(SEVERITIES).gather(flat)
    shown = '"Number of tasks":"{}","Avg task input size":"{} MB","Avg task runtime":"{} min {} sec"'
    values = pl.select(pl.format(shown, tasks, tasks * 7 % 512, tasks * 3 % 60, tasks * 11 % 60)).to_series()
    details = "{" + values + "}"
    place = np.repeat(np.arange(len(ids)), len(names))
    heuristics = HEURISTICS.frame(
        {
            "job_id": ids.gather(place),
            "heuristic": pl.Series(list(names)).gather(np.tile(np.arange(len(names)), len(ids))),
            "severity": words,
            "score": flat * tasks,
            "details": details,
        }
    )
    bad = heuristics.filter(pl.col("severity") != "NONE")
    findings = bad.select(
        "job_id",
        level=pl.col("severity").str.to_lowercase(),
        subject=pl.format("{} of daily run ({})", "heuristic", "job_id"),
        text=pl.lit("12 tasks of 34 sec each; aim at tasks of 5 to 10 minutes"),
    )
    return {"heuristics": heuristics, "findings": findings}


def _rest(rng: np.random.Generator, ids: pl.Series) -> dict[str, pl.DataFrame]:
    jobs = len(ids)
    two = ids.gather(np.repeat(np.arange(jobs), 2))
    three = ids.gather(np.repeat(np.arange(jobs), 3))
    saving = rng.lognormal(7, 2, 2 * jobs)
    text = "The largest map took {} MB of the memory it may take; a container of 1536 MB would do."
    advice = {
        "job_id": two,
        "rank": np.tile([1, 2], jobs),
        "topic": pl.Series(["container size", "splits"] * jobs),
        "key": pl.Series(["mapreduce.map.memory.mb", "mapreduce.input.fileinputformat.split.maxsize"] * jobs),
        "value": pl.Series(["1536", "268435456"] * jobs),
        "current": pl.Series(["4096", "67108864"] * jobs),
        "saving_mb_s": saving,
        "saving_percent": rng.uniform(0, 60, 2 * jobs),
        "wait_change_ms": np.zeros(2 * jobs, dtype=np.int64),
        "heuristic": pl.Series(["Mapper Memory", "Mapper Time"] * jobs),
        "severity_now": pl.Series(["SEVERE"] * (2 * jobs)),
        "severity_after": pl.Series(["NONE"] * (2 * jobs)),
        "text": pl.select(pl.format(text, pl.Series(saving.astype(np.int64)))).to_series(),
    }
    costs = {
        "job_id": three,
        "cause": pl.Series(["useful", "over-sizing", "failed"] * jobs),
        "attempts": np.tile([12, 12, 1], jobs),
        "mb_ms": rng.integers(1, 2**40, 3 * jobs),
        "mb_s": rng.lognormal(7, 2, 3 * jobs),
        "vcore_s": rng.lognormal(4, 2, 3 * jobs),
        "share": np.tile([60.0, 30.0, 10.0], jobs),
    }
    paths = pl.Series(["hdfs:///mr-history/done/{}.jhist", "hdfs:///mr-history/done/{}_conf.xml"] * jobs)
    files = {
        "job_id": two,
        "path": pl.DataFrame({"p": paths, "j": two})
        .select(pl.col("p").str.replace("{}", pl.col("j"), literal=True))
        .to_series(),
    }
    differences = {
        "job_id": two, "what": pl.Series(["wasted", "wait"] * jobs), "upstream": pl.Series(["1", "2"] * jobs),
        "published": pl.Series(["3", "4"] * jobs), "reason": pl.Series(["1.5 x the peak"] * (2 * jobs)),
    }  # fmt: skip
    return {
        "recommendations": RECOMMENDATIONS.frame(advice),
        "costs": COSTS.frame(costs),
        "differences": DIFFERENCES.frame(differences),
        "files": FILES.frame(files),
        "problems": PROBLEMS.empty(),
    }
