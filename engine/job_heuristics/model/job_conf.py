"""What a job's configuration says to the metrics and heuristics: containers, job type, queue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

DEFAULT_MB = 2048
"""Container size upstream assumes where the configuration gives none that is a number."""
DEFAULT_AM_MB = 1536
"""``yarn.app.mapreduce.am.resource.mb`` where the conf does not say."""
MAP_MEMORY = "mapreduce.map.memory.mb"
REDUCE_MEMORY = "mapreduce.reduce.memory.mb"
SLOW_START = "mapreduce.job.reduce.slowstart.completedmaps"
QUEUE_OLD = "mapred.job.queue.name"
QUEUE = "mapreduce.job.queuename"
BLOCK_SIZES = ("dfs.blocksize", "dfs.block.size")
CACHE_FILES = "mapreduce.job.cache.files"
CACHE_ARCHIVES = "mapreduce.job.cache.archives"

RENAMED = {
    "mapred.reduce.slowstart.completed.maps": SLOW_START,
    "mapred.job.map.memory.mb": MAP_MEMORY,
    "mapred.job.reduce.memory.mb": REDUCE_MEMORY,
    "mapred.cache.files": CACHE_FILES,
    "mapred.cache.files.filesizes": CACHE_FILES + ".filesizes",
    "mapred.cache.archives": CACHE_ARCHIVES,
    "mapred.cache.archives.filesizes": CACHE_ARCHIVES + ".filesizes",
}
"""Keys that Hadoop 2 renames when it loads a configuration, as far as this view looks them up."""

JOB_TYPES: tuple[tuple[str, str, str], ...] = (
    ("Pig", "pig.script", ""),
    ("Hive", "hive.mapred.mode", ""),
    ("OozieLauncher", "oozie.launcher.action.main.class", ""),
    ("Cascading", "cascading.app.frameworks", ""),
    ("Voldemort", "mapred.reducer.class", r"voldemort.store.readonly.mr.*"),
    ("Kafka", "kafka.url", ""),
    ("HadoopJava", "mapred.child.java.opts", ""),
)
"""Job type, the key that tells it, and a pattern its value must match (JobTypeConf.xml); the first match counts."""

_WANTED = frozenset(
    {
        MAP_MEMORY, REDUCE_MEMORY, SLOW_START, *BLOCK_SIZES, QUEUE_OLD, QUEUE, CACHE_FILES, CACHE_ARCHIVES,
        CACHE_FILES + ".filesizes", CACHE_ARCHIVES + ".filesizes", *RENAMED, *(key for _, key, _ in JOB_TYPES),
    }
)  # fmt: skip


def lookup(conf: pl.DataFrame) -> dict[str, dict[str, str]]:
    """Per job, the properties this view looks up. Where a value is only a variable, the property it names too."""
    wanted = conf.filter(pl.col("key").is_in(pl.Series(sorted(_WANTED)).implode()))
    found: dict[str, dict[str, str]] = {}
    for job, key, value in wanted.select("job_id", "key", "value").iter_rows():
        found.setdefault(job, {})[key] = value
    variables = {
        name
        for properties in found.values()
        for key in (MAP_MEMORY, REDUCE_MEMORY)
        if (name := variable(properties.get(key))) is not None
    }
    if variables:
        named = conf.filter(pl.col("key").is_in(pl.Series(sorted(variables)).implode()))
        for job, key, value in named.select("job_id", "key", "value").iter_rows():
            found.setdefault(job, {}).setdefault(key, value)
    for properties in found.values():
        for old, new in RENAMED.items():
            if old in properties and new not in properties:
                properties[new] = properties[old]
    return found


COST_KEYS = {
    "map_vcores": ("mapreduce.map.cpu.vcores", 1),
    "reduce_vcores": ("mapreduce.reduce.cpu.vcores", 1),
    "am_mb": ("yarn.app.mapreduce.am.resource.mb", DEFAULT_AM_MB),
    "am_vcores": ("yarn.app.mapreduce.am.resource.cpu-vcores", 1),
}
"""What cost depends on: name, property and Hadoop's default."""
ADVICE_KEYS = (
    "mapreduce.job.reduce.slowstart.completedmaps",
    "mapreduce.task.io.sort.mb",
    "mapreduce.map.sort.spill.percent",
)
"""Properties that recommendations depend on."""


def of_cost(conf: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Per job the settings that cost depends on, by the names of ``COST_KEYS``: those that are positive numbers."""
    names = {key: name for name, (key, _) in COST_KEYS.items()}
    known = conf.filter(pl.col("key").is_in(list(names))).select(
        "job_id", "key", pl.col("value").str.strip_chars().cast(pl.Int64, strict=False)
    )
    found: dict[str, dict[str, int]] = {}
    for job_id, key, value in known.iter_rows():
        if value is not None and 1 <= value <= 2**31:
            found.setdefault(job_id, {}).setdefault(names[key], value)
    return found


def of_advice(conf: pl.DataFrame) -> dict[str, dict[str, str]]:
    """Per job the values of ``ADVICE_KEYS``."""
    known = conf.filter(pl.col("key").is_in(list(ADVICE_KEYS)))
    found: dict[str, dict[str, str]] = {}
    for job_id, key, value in known.select("job_id", "key", "value").iter_rows():
        found.setdefault(job_id, {})[key] = value
    return found


def variable(value: str | None) -> str | None:
    """The name in a value that begins with ``$`` and holds ``{name}``, as upstream's memory heuristic reads it."""
    if value is None or not value.startswith("$"):
        return None
    begin, end = value.find("{"), value.find("}")
    return value[begin + 1 : end] if 0 <= begin < end else ""


def integer(value: str | None) -> int | None:
    """A Java ``Long.parseLong``: None where it would throw."""
    if value is None or not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


def container_mb(value: str | None) -> int:
    """The container the metrics count with: the integer in the configuration; unset, not a number (variables are not
    replaced here) or negative: 2048."""
    number = integer(value)
    return DEFAULT_MB if number is None or number < 0 or number > 2**31 - 1 else number


def job_type(properties: Mapping[str, str]) -> str:
    """The job type by upstream's table, "Unknown" if nothing matches."""
    for name, key, pattern in JOB_TYPES:
        value = properties.get(key)
        if value is not None and (not pattern or re.fullmatch(pattern, value)):
            return name
    return "Unknown"


_FAILED_TASK = re.compile(r"[^\n\r]*[\s\u00a0]+(task_[0-9]+_[0-9]+_[m|r]_[0-9]+)[\s\u00a0]+[^\n\r]*")
NO_DIAGNOSTICS = "No sufficient diagnostic Info"
"""What upstream shows where the job's diagnostics name no task."""


def _rest_diagnostics(text: str | None, attempts: pl.DataFrame) -> str:
    """Upstream's error text of a failed job read from REST: the diagnostics of the named task's first loser."""
    match = _FAILED_TASK.fullmatch(text or "")
    if match is None:
        return NO_DIAGNOSTICS
    tried = attempts.filter((pl.col("task_id") == match.group(1)) & (pl.col("state") != "SUCCEEDED")).sort(
        "finish_ms", "attempt_id", nulls_last=True
    )
    return (tried["error"][0] or "") if tried.height else NO_DIAGNOSTICS


def complete(
    jobs: pl.DataFrame,
    conf: pl.DataFrame,
    conf_files: Mapping[str, int],
    tasks: pl.DataFrame,
    attempts: pl.DataFrame,
) -> pl.DataFrame:
    """``jobs`` with the columns that come from the configuration (job type, containers, its file) and upstream's form
    of the diagnostics."""
    found = lookup(conf)
    names: list[str] = jobs["job_id"].to_list()
    empty: dict[str, str] = {}
    columns: dict[str, Any] = {
        "job_type": [job_type(found.get(n, empty)) for n in names],
        "map_memory_mb": [container_mb(found.get(n, empty).get(MAP_MEMORY)) for n in names],
        "reduce_memory_mb": [container_mb(found.get(n, empty).get(REDUCE_MEMORY)) for n in names],
        "conf_file": [conf_files.get(n) for n in names],
    }
    said: list[str | None] = jobs["diagnostics"].to_list()
    for i, (state, source) in enumerate(jobs.select("state", "source").iter_rows()):
        if state == "FAILED" and source == "rest":
            said[i] = _rest_diagnostics(said[i], attempts)
    queues: list[str | None] = jobs["queue"].to_list()
    for i, name in enumerate(names):
        if queues[i] is None:
            properties = found.get(name, empty)
            queues[i] = properties.get(QUEUE) or properties.get(QUEUE_OLD)
    return jobs.with_columns(
        pl.Series("job_type", columns["job_type"], dtype=pl.String),
        pl.Series("map_memory_mb", columns["map_memory_mb"], dtype=pl.Int64),
        pl.Series("reduce_memory_mb", columns["reduce_memory_mb"], dtype=pl.Int64),
        pl.Series("conf_file", columns["conf_file"], dtype=pl.UInt32),
        pl.Series("diagnostics", said, dtype=pl.String).fill_null(""),
        pl.Series("queue", queues, dtype=pl.String),
    )
