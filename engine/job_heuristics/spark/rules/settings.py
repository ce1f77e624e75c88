"""The properties that advice on Spark applications names: where they act, and what Spark takes while they are not set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import Setting, Wish
from engine.job_heuristics.spark.model.app import (
    KUBERNETES,
    LOCAL,
    MB,
    MESOS,
    STANDALONE,
    WITH_OVERHEAD,
    YARN,
    App,
    Stage,
    cluster,
    is_dynamic,
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
SHUFFLE_DEFAULT = "200"  # Spark's default of ``SHUFFLE_PARTITIONS``
LEAST_HEAP_MB = 450  # least heap with which Spark starts a driver or an executor: 471,859,200 bytes


_CLUSTERS = (YARN, KUBERNETES, MESOS, STANDALONE, "")  # where executors run; the last: unknown


def _acts(
    on: Collection[str] = _CLUSTERS, dynamic: bool | None = None, databricks: bool = True, since: tuple[int, ...] = ()
) -> Callable[[App], str]:
    """Return what tells why a property has no effect: it acts ``on`` some clusters, with ``dynamic`` allocation or without
    (None: both), on ``databricks`` or not, and since a version of Spark."""

    def idle(app: App) -> str:
        where, known = cluster(app), version(app)
        reasons = (
            (where not in on, f"{where or 'its cluster'} does not use it"),
            (not databricks and on_databricks(app), "on Databricks the cluster decides"),
            (dynamic and not is_dynamic(app), "dynamic allocation is off"),
            (dynamic is False and is_dynamic(app), "dynamic allocation sets the number of executors"),
            (known and known < since, f"Spark knows it since {'.'.join(map(str, since))}"),
        )
        return next((reason for holds, reason in reasons if holds), "")

    return idle


def _fixed(text: str) -> Callable[[App], str]:
    return lambda app: text


def _mb_of(unit: str) -> Callable[[str], float | None]:
    return lambda text: float(spark_bytes(text, "0", unit)) if text[:1].isdecimal() else None


def _write_mb(value: float) -> str:
    return f"{max(1, round(value / MB))}m"


_IN_CLUSTER, _OF_DYNAMIC = _acts(), _acts(dynamic=True)
_OWN_NUMBER, _OWN_CORES = _acts(WITH_OVERHEAD, False, False), _acts((STANDALONE, MESOS), False, False)
_SWITCHABLE = _acts(databricks=False)
_ADAPTIVE = _acts((*_CLUSTERS, LOCAL), since=(3, 0))
_SIZE = Setting(read=_mb_of("m"), write=_write_mb, least=1)
_BYTES = replace(_SIZE, read=_mb_of("b"))
_HEAP = replace(_SIZE, default=_fixed("1g"), least=LEAST_HEAP_MB * MB)
_SWITCH = Setting(default=_fixed("false"))
SETTINGS: Mapping[str, Setting] = {
    "spark.executor.memory": replace(_HEAP, idle=_IN_CLUSTER),
    "spark.driver.memory": _HEAP,
    "spark.executor.memoryOverhead": replace(_SIZE, idle=_acts(WITH_OVERHEAD)),
    "spark.executor.cores": Setting(default=lambda app: "1" if cluster(app) in WITH_OVERHEAD else "", idle=_IN_CLUSTER, least=1),
    INSTANCES: Setting(idle=_OWN_NUMBER, least=1),
    MOST_CORES: Setting(idle=_OWN_CORES, least=1),
    DYNAMIC: replace(_SWITCH, idle=_SWITCHABLE),
    MOST_EXECUTORS: Setting(idle=_OF_DYNAMIC, least=1),
    "spark.dynamicAllocation.initialExecutors": Setting(idle=_OF_DYNAMIC, least=1),
    SHUFFLE_PARTITIONS: Setting(default=_fixed(SHUFFLE_DEFAULT), least=1),
    PARALLELISM: Setting(least=1),
    SPLIT_BYTES: replace(_BYTES, default=_fixed("128m")),
    "spark.speculation": _SWITCH,
    "spark.locality.wait": Setting(read=lambda text: float(spark_ms(text, 0)), default=_fixed("3s")),
    "spark.reducer.maxSizeInFlight": replace(_SIZE, default=_fixed("48m"), idle=_IN_CLUSTER),
    "spark.shuffle.file.buffer": replace(_SIZE, read=_mb_of("k"), default=_fixed("32k")),
    "spark.sql.autoBroadcastJoinThreshold": replace(_BYTES, default=_fixed("10m"), least=float("-inf")),
    "spark.sql.adaptive.enabled": Setting(
        default=lambda app: str(not version(app) or version(app) >= (3, 2)).lower(), idle=_ADAPTIVE
    ),
    "spark.sql.adaptive.skewJoin.enabled": Setting(default=_fixed("true"), idle=_ADAPTIVE),
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": replace(_BYTES, default=_fixed("256m"), idle=_ADAPTIVE),
    "spark.sql.streaming.stateStore.providerClass": Setting(idle=_acts((*_CLUSTERS, LOCAL), since=(3, 2))),
    SERIALIZER: Setting(default=_fixed("org.apache.spark.serializer.JavaSerializer")),
    SHUFFLE_SERVICE: replace(_SWITCH, idle=_acts((YARN, MESOS, STANDALONE, ""), databricks=False)),
}  # fmt: skip
"""They take an ``App``."""


def may_be_dynamic(app: App) -> bool:
    """Whether dynamic allocation could be switched on without taking back what the application asks for."""
    return not (is_dynamic(app) or app.properties.get(INSTANCES) or _SWITCHABLE(app))


def executors_wish(app: App, wanted: int, cores: int, had: int) -> Wish:
    """Return the wish for ``wanted`` executors of ``cores`` cores, by the property that sets their number here.

    Empty unless that is fewer than the application ``had``.
    """
    if wanted >= had:
        return Wish("", "", "")
    because = f"{wanted:,} of {had:,} executors"
    if is_dynamic(app):
        return Wish(MOST_EXECUTORS, str(wanted), because, -1, str(had))
    if not _OWN_CORES(app):
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
