"""The properties that advice on Spark applications names: where they act, and what Spark takes while they are not set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import Setting, Wish
from engine.job_heuristics.spark.model.app import App, Stage
from engine.job_heuristics.spark.model.setup import (
    KUBERNETES,
    MB,
    MESOS,
    STANDALONE,
    WITH_OVERHEAD,
    cluster,
    is_dynamic,
    is_local,
    on_databricks,
    spark_bytes,
    spark_ms,
    version,
)

INSTANCES, MOST_CORES = "spark.executor.instances", "spark.cores.max"
DYNAMIC, MOST_EXECUTORS = "spark.dynamicAllocation.enabled", "spark.dynamicAllocation.maxExecutors"
SHUFFLE_PARTITIONS, PARALLELISM = "spark.sql.shuffle.partitions", "spark.default.parallelism"
SPLIT_BYTES = "spark.sql.files.maxPartitionBytes"
SERIALIZER, SHUFFLE_SERVICE = "spark.serializer", "spark.shuffle.service.enabled"
SHUFFLE_DEFAULT = "200"
"""Spark's default of ``SHUFFLE_PARTITIONS``."""
LEAST_HEAP_MB = 450
"""Least heap with which Spark starts a driver or an executor: 471,859,200 bytes."""


def _in_cluster(app: App) -> str:
    return "in local mode the driver runs the tasks" if is_local(app) else ""


def _overhead(app: App) -> str:
    where = cluster(app)
    return "" if where in WITH_OVERHEAD else f"{where or 'its cluster'} starts executors without overhead"


def _instances(app: App) -> str:
    if on_databricks(app):
        return "on Databricks the workers of the cluster decide"
    if is_dynamic(app):
        return "dynamic allocation sets the number of executors"
    return "" if cluster(app) in WITH_OVERHEAD else f"{cluster(app) or 'its cluster'} does not read it"


def _most_cores(app: App) -> str:
    read = cluster(app) in (STANDALONE, MESOS) and not (app.properties.get("spark.master") or "").startswith("local")
    return "" if read and not on_databricks(app) else f"{cluster(app) or 'its cluster'} does not read it"


def _dynamic(app: App) -> str:
    """Return why dynamic allocation is not to be switched on."""
    if on_databricks(app):
        return "on Databricks the autoscaling of the cluster decides"
    if app.properties.get(INSTANCES) and not is_dynamic(app):
        return f"{INSTANCES} fixes the number of executors"
    return _in_cluster(app)


def _of_dynamic(app: App) -> str:
    return "" if is_dynamic(app) else "dynamic allocation is off"


def _shuffle_service(app: App) -> str:
    if cluster(app) == KUBERNETES or on_databricks(app):
        return "Kubernetes and Databricks have no external shuffle service"
    return _in_cluster(app)


def _since(*least: int) -> Callable[[App], str]:
    words = f"Spark knows it since {'.'.join(map(str, least))}"
    return lambda app: words if version(app) and version(app) < least else ""


def _fixed(text: str) -> Callable[[App], str]:
    return lambda app: text


def _mb_of(unit: str) -> Callable[[str], float | None]:
    return lambda text: float(spark_bytes(text, "0", unit)) if text[:1].isdecimal() else None


def _write_mb(value: float) -> str:
    return f"{max(1, round(value / MB))}m"


_SIZE = Setting(read=_mb_of("m"), write=_write_mb, least=1)
_BYTES = replace(_SIZE, read=_mb_of("b"))
_HEAP = replace(_SIZE, default=_fixed("1g"), least=LEAST_HEAP_MB * MB)
_SWITCH = Setting(default=_fixed("false"))
SETTINGS: Mapping[str, Setting] = {
    "spark.executor.memory": replace(_HEAP, idle=_in_cluster),
    "spark.driver.memory": _HEAP,
    "spark.executor.memoryOverhead": replace(_SIZE, idle=_overhead),
    "spark.executor.cores": Setting(default=lambda app: "1" if cluster(app) in WITH_OVERHEAD else "", idle=_in_cluster, least=1),
    INSTANCES: Setting(idle=_instances, least=1),
    MOST_CORES: Setting(idle=_most_cores, least=1),
    DYNAMIC: replace(_SWITCH, idle=_dynamic),
    MOST_EXECUTORS: Setting(idle=_of_dynamic, least=1),
    "spark.dynamicAllocation.initialExecutors": Setting(idle=_of_dynamic, least=1),
    SHUFFLE_PARTITIONS: Setting(default=_fixed(SHUFFLE_DEFAULT), least=1),
    PARALLELISM: Setting(least=1),
    SPLIT_BYTES: replace(_BYTES, default=_fixed("128m")),
    "spark.speculation": _SWITCH,
    "spark.locality.wait": Setting(read=lambda text: float(spark_ms(text, 0)), default=_fixed("3s")),
    "spark.reducer.maxSizeInFlight": replace(_SIZE, default=_fixed("48m"), idle=_in_cluster),
    "spark.shuffle.file.buffer": replace(_SIZE, read=_mb_of("k"), default=_fixed("32k")),
    "spark.sql.autoBroadcastJoinThreshold": replace(_BYTES, default=_fixed("10m"), least=float("-inf")),
    "spark.sql.adaptive.enabled": Setting(
        default=lambda app: str(not version(app) or version(app) >= (3, 2)).lower(), idle=_since(3, 0)
    ),
    "spark.sql.adaptive.skewJoin.enabled": Setting(default=_fixed("true"), idle=_since(3, 0)),
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": replace(_BYTES, default=_fixed("256m"), idle=_since(3, 0)),
    "spark.sql.streaming.stateStore.providerClass": Setting(idle=_since(3, 2)),
    SERIALIZER: Setting(default=_fixed("org.apache.spark.serializer.JavaSerializer")),
    SHUFFLE_SERVICE: replace(_SWITCH, idle=_shuffle_service),
}  # fmt: skip
"""They take an ``App``."""


def may_be_dynamic(app: App) -> bool:
    """Whether dynamic allocation could be switched on without taking back what the application asks for."""
    return not is_dynamic(app) and not _dynamic(app)


def executors_wish(app: App, wanted: int, cores: int, had: int) -> Wish:
    """Return the wish for ``wanted`` executors of some ``cores``, of which it ``had`` more, by the property that sets their
    number here; none for as many or more."""
    if wanted >= had:
        return Wish("", "", "")
    because = f"{wanted:,} of {had:,} executors"
    if is_dynamic(app):
        return Wish(MOST_EXECUTORS, str(wanted), because, -1, str(had))
    if not _most_cores(app):
        return Wish(MOST_CORES, str(wanted * cores), because, -1, str(had * cores))
    return Wish(INSTANCES, str(wanted), because, -1, str(had))


MISSING_SHARE = 0.05
"""Most tasks that never ran with which the rest still tells how long the application takes on other executors."""


def all_ran(app: App) -> bool:
    """Whether, but for a few, the tasks of all stages ran: of a cancelled application only a part is known."""
    newest = {stage.stage: stage for stage in sorted(app.stages, key=lambda stage: stage.attempt)}
    missing = sum(
        one.tasks - one.completed_tasks for one in newest.values() if one.status not in ("COMPLETE", "SKIPPED")
    )
    return missing <= MISSING_SHARE * sum(one.tasks for one in newest.values())


def is_sql(app: App, stage: Stage) -> bool:
    """Whether a stage is part of a SQL execution."""
    return any(job.execution is not None for job in app.jobs if job.number in stage.jobs)


def tasks_wish(app: App, stage: Stage, wanted: int, because: str) -> Wish:
    """Return the wish for ``wanted`` tasks of a stage, by the property that cuts it; without a key if none does.

    Stages that read shuffled data are cut by the number of partitions: of SQL, or of RDDs unless the program passes its own
    number. Those that scan files in SQL are cut by bytes, other first stages by the program.
    """
    way = (wanted > stage.tasks) - (wanted < stage.tasks)
    pending = "" if stage.status == "COMPLETE" else f"stage {stage.stage} did not run all of its {stage.tasks:,} tasks"
    sql = is_sql(app, stage)
    if stage.shuffle_read_bytes or stage.parents:
        key = SHUFFLE_PARTITIONS if sql else PARALLELISM
        cut = (app.properties.get(key) or (SHUFFLE_DEFAULT if sql else "")).strip()
        if cut and cut != str(stage.tasks):
            words = f"the stage has {stage.tasks:,} tasks, not {cut}: the program or adaptive execution divides it"
            pending = pending or words
        return Wish(key, str(wanted), because, way, str(stage.tasks), pending)
    if sql and stage.sums["input_bytes"]:
        size = _write_mb(stage.sums["input_bytes"] / max(1, wanted))
        each, most = (
            stage.sums["input_bytes"] / max(1, stage.tasks),
            spark_bytes(app.properties.get(SPLIT_BYTES), "128m", "b"),
        )
        if each > 1.5 * most:
            pending = pending or f"its tasks read {units.size(each)} each, so the files cannot be divided"
        return Wish(SPLIT_BYTES, size, because, -way, open=pending)
    return Wish("", "", because)
