"""Settings of a job that metrics, verdicts, cost and advice need: containers, job type, queue."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec
import polars as pl

from engine.job_heuristics.dr_elephant.display import integer

DEFAULT_MB = 2048  # MB of a container without a numeric setting (Dr. Elephant's default).
DEFAULT_AM_MB = 1536  # MB of the application master's container if unset (Hadoop's default)
MAP_MEMORY = "mapreduce.map.memory.mb"
REDUCE_MEMORY = "mapreduce.reduce.memory.mb"
MEMORY = {"map": MAP_MEMORY, "reduce": REDUCE_MEMORY}  # property with the container's MB, by side
SLOW_START = "mapreduce.job.reduce.slowstart.completedmaps"
QUEUE_OLD = "mapred.job.queue.name"
QUEUE = "mapreduce.job.queuename"
BLOCK_SIZES = ("dfs.blocksize", "dfs.block.size")
CACHE_FILES = "mapreduce.job.cache.files"
CACHE_ARCHIVES = "mapreduce.job.cache.archives"

JOB_TYPES: tuple[tuple[str, str, str], ...] = (
    ("Pig", "pig.script", r".*"),
    ("Hive", "hive.mapred.mode", r".*"),
    ("OozieLauncher", "oozie.launcher.action.main.class", r".*"),
    ("Cascading", "cascading.app.frameworks", r".*"),
    ("Voldemort", "mapred.reducer.class", r"voldemort.store.readonly.mr.*"),
    ("Kafka", "kafka.url", r".*"),
    ("HadoopJava", "mapred.child.java.opts", r".*"),
)
"""Job type, property, and pattern for its value (Dr. Elephant's JobTypeConf.xml); the first match counts."""

_WANTED = frozenset(
    {
        MAP_MEMORY, REDUCE_MEMORY, SLOW_START, *BLOCK_SIZES, QUEUE_OLD, QUEUE, CACHE_FILES, CACHE_ARCHIVES,
        CACHE_FILES + ".filesizes", CACHE_ARCHIVES + ".filesizes", *(key for _, key, _ in JOB_TYPES),
    }
)  # fmt: skip


COST_KEYS = {
    "map_vcores": ("mapreduce.map.cpu.vcores", 1),
    "reduce_vcores": ("mapreduce.reduce.cpu.vcores", 1),
    "am_mb": ("yarn.app.mapreduce.am.resource.mb", DEFAULT_AM_MB),
    "am_vcores": ("yarn.app.mapreduce.am.resource.cpu-vcores", 1),
}
"""Settings for cost: name, property and Hadoop's default."""
SPLIT_MOST = "mapreduce.input.fileinputformat.split.maxsize"
ADVICE_KEYS = (
    SLOW_START, MAP_MEMORY, REDUCE_MEMORY, SPLIT_MOST, "mapreduce.input.fileinputformat.split.minsize",
    "mapreduce.job.reduces", "mapreduce.task.io.sort.mb", "mapreduce.map.sort.spill.percent", "hive.input.format",
)  # fmt: skip
"""Properties used by recommendations."""
_COST_NAMES = {key: name for name, (key, _) in COST_KEYS.items()}


class Settings(msgspec.Struct):
    """Settings of one job: ``properties`` for verdicts; ``cost``: positive numbers of ``COST_KEYS``, by name;
    ``advice``: those of ``ADVICE_KEYS``."""

    properties: dict[str, str] = msgspec.field(default_factory=dict)
    cost: dict[str, int] = msgspec.field(default_factory=dict)
    advice: dict[str, str] = msgspec.field(default_factory=dict)


def settings_by_job(conf: pl.DataFrame) -> dict[str, Settings]:
    """Read the settings of each job from CONF_MODEL rows; jobs without any are absent.

    Where a container size is only a variable, ``properties`` also holds the property that the variable names.
    """
    settings: dict[str, Settings] = defaultdict(Settings)
    for job, key, value in _rows(conf, pl.Series(sorted({*_WANTED, *_COST_NAMES, *ADVICE_KEYS}))):
        one = settings[job]
        if key in _WANTED:
            one.properties[key] = value
        if key in ADVICE_KEYS:
            one.advice[key] = value
        if key in _COST_NAMES and (number := _positive(value)) is not None:
            one.cost.setdefault(_COST_NAMES[key], number)
    variables = {
        name
        for one in settings.values()
        for key in (MAP_MEMORY, REDUCE_MEMORY)
        if (name := _variable_or_none(one.properties.get(key))) is not None
    }
    if variables:
        for job, key, value in _rows(conf, pl.Series(sorted(variables))):
            settings[job].properties.setdefault(key, value)
    return settings


def _rows(conf: pl.DataFrame, keys: pl.Series) -> Iterator[tuple[str, str, str]]:
    return conf.filter(pl.col("key").is_in(keys.implode())).select("job_id", "key", "value").iter_rows()


def _positive(value: str | None) -> int | None:
    """A whole number from 1 to 2^31, else None."""
    text = (value or "").strip()
    return (
        (number if 1 <= (number := int(text)) <= 2**31 else None) if re.fullmatch(r"[+-]?0*[0-9]{1,19}", text) else None
    )


def variable(value: str | None) -> str | None:
    """The variable named in a value that begins with ``$``, as Dr. Elephant's memory heuristic reads it: the text
    between the first ``{`` (or the beginning) and the first ``}``. None for other values. Raises ValueError where Dr.
    Elephant fails: without a ``}``."""
    if value is None or not value.startswith("$"):
        return None
    begin, end = value.find("{") + 1, value.find("}")
    if end < begin:
        raise ValueError(f"begin {begin}, end {end}, length {len(value)}")
    return value[begin:end]


def _variable_or_none(value: str | None) -> str | None:
    try:
        return variable(value)
    except ValueError:
        return None


def stated_mb(properties: Mapping[str, str], side: str) -> int:
    """Return the container's MB as Dr. Elephant's memory heuristic sees them: the number, or the value of the
    variable it names; -1 if unset, negative or not a number."""
    value = properties.get(MEMORY[side])
    name = _variable_or_none(value)
    stated = integer(properties.get(name) if name is not None else value)
    return -1 if stated is None or stated < 0 else stated


def container_mb(value: str | None) -> int:
    """The container in metrics: the integer in the configuration, 2048 if unset, negative or not a number (variables
    are not resolved)."""
    number = integer(value)
    return DEFAULT_MB if number is None or number < 0 else number


def job_type(properties: Mapping[str, str]) -> str:
    """The job type by Dr. Elephant's table (``JOB_TYPES``), "Unknown" if nothing matches."""
    # Java requires a full match, and its dot excludes line breaks.
    fitting = (
        name
        for name, key, pattern in JOB_TYPES
        if "\n" not in (value := properties.get(key, "\n")) and re.fullmatch(pattern, value)
    )
    return next(fitting, "Unknown")


_FAILED_TASK = re.compile(r"task_[0-9]+_[0-9]+_[m|r]_[0-9]+")
_BLANKS = " \t\n\x0b\f\r\u00a0"
NO_DIAGNOSTICS = "No sufficient diagnostic Info"  # Dr. Elephant's text if the job's diagnostics name no task.


def named_task(text: str) -> str | None:
    """Return the task named in a job's diagnostics as found by Dr. Elephant: the last id between blanks, on one line."""
    breaks = [place for place in (text.find("\n"), text.find("\r")) if place >= 0]
    first, last = min(breaks, default=len(text)), max(text.rfind("\n"), text.rfind("\r"))
    latest = len(text) - len(text[first:].lstrip(_BLANKS))  # where an id may begin behind the first line break
    earliest = len(text[: last + 1].rstrip(_BLANKS))  # where an id may end in front of the last one
    found = None
    for match in _FAILED_TASK.finditer(text):
        begin, end = match.span()
        between = begin > 0 and text[begin - 1] in _BLANKS and end < len(text) and text[end] in _BLANKS
        if between and begin <= latest and end >= earliest:
            found = match.group()
    return found


def _rest_diagnostics(text: str | None, attempts: pl.DataFrame) -> str | None:
    """Dr. Elephant's error text of a failed job from REST: diagnostics of the named task's first failed attempt, or
    None."""
    task = named_task(text or "")
    if task is None:
        return NO_DIAGNOSTICS
    tried = attempts.filter((pl.col("task_id") == task) & (pl.col("state") != "SUCCEEDED")).sort(
        "finish_ms", "attempt_id", nulls_last=True
    )
    return (tried["error"][0] or "") if tried.height else None


def complete(
    jobs: pl.DataFrame, settings: Mapping[str, Settings], conf_files: Mapping[str, int], attempts: pl.DataFrame
) -> pl.DataFrame:
    """Add configuration columns to ``jobs`` (job type, containers, file, missing queue) and bring the diagnostics
    into Dr. Elephant's form."""
    names: list[str] = jobs["job_id"].to_list()
    nothing = Settings()
    properties = [settings.get(name, nothing).properties for name in names]
    diagnostics: list[str | None] = jobs["diagnostics"].fill_null("").to_list()
    for i, (state, source) in enumerate(jobs.select("state", "source").iter_rows()):
        if state == "FAILED" and source == "rest":
            diagnostics[i] = _rest_diagnostics(diagnostics[i], attempts)
    queues = [
        (each.get(QUEUE) or each.get(QUEUE_OLD)) if queue is None else queue
        for queue, each in zip(jobs["queue"].to_list(), properties, strict=True)
    ]
    return jobs.with_columns(
        pl.Series("job_type", [job_type(each) for each in properties], dtype=pl.String),
        pl.Series("map_memory_mb", [container_mb(each.get(MAP_MEMORY)) for each in properties], dtype=pl.Int64),
        pl.Series("reduce_memory_mb", [container_mb(each.get(REDUCE_MEMORY)) for each in properties], dtype=pl.Int64),
        pl.Series("conf_file", [conf_files.get(name) for name in names], dtype=pl.UInt32),
        pl.Series("diagnostics", diagnostics, dtype=pl.String),
        pl.Series("queue", queues, dtype=pl.String),
    )
