"""Spark Configuration: memory, cores, overhead, serializer, shuffle service and dynamic allocation.

Source: Dr. Elephant's ``ConfigurationHeuristic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.advice import Wish, granted
from engine.job_heuristics.dr_elephant.gates import Branch
from engine.job_heuristics.spark.model.app import App
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.metrics import Unreadable, bytes_of, flag, judged_ms, size, whole
from engine.job_heuristics.spark.rules.settings import SERIALIZER, SETTINGS, SHUFFLE_SERVICE

GIB = 2**30
DRIVER_MEMORY, EXECUTOR_MEMORY = "spark.driver.memory", "spark.executor.memory"
DRIVER_CORES, EXECUTOR_CORES = "spark.driver.cores", "spark.executor.cores"
INSTANCES = "spark.executor.instances"
DRIVER_OVERHEAD, EXECUTOR_OVERHEAD = "spark.yarn.driver.memoryOverhead", "spark.yarn.executor.memoryOverhead"
DYNAMIC = "spark.dynamicAllocation.enabled"
MIN_EXECUTORS, MAX_EXECUTORS = "spark.dynamicAllocation.minExecutors", "spark.dynamicAllocation.maxExecutors"
JARS = "spark.yarn.secondary.jars"
MISSING = "Not presented. Using default."
_KRYO = "org.apache.spark.serializer.KryoSerializer"
_OVERHEADS = ("driver_overhead", "executor_overhead")
_OVERHEAD_LIMITS = "spark.overheadMemory.thresholds.key"
_SERIALIZER_PARAMETER = "serializer_if_non_null_recommendation"
_FEW, _MANY = 1, 900  # bounds of the minimum and maximum executors of dynamic allocation


def _size_of(app: App, key: str) -> int | None:
    """Return a size in bytes, None if missing or unreadable."""
    text = app.properties.get(key)
    try:
        return bytes_of(text) if text is not None else None
    except Unreadable:
        return None


def overhead_text(app: App, key: str) -> str:
    """Return the displayed (and judged) overhead. Raises Unreadable."""
    text = app.properties.get(key)
    text = "0" if text is None else text
    return size(bytes_of(f"{text}MB")) if text[-1:].isdecimal() else text


def _overhead(app: App, key: str) -> tuple[str, int]:
    """Return the displayed overhead, and its bytes (0 if unreadable)."""
    try:
        shown = overhead_text(app, key)
        return shown, bytes_of(shown)
    except Unreadable:
        return app.properties.get(key) or "", 0


def _flag(app: App, key: str) -> bool:
    try:
        return flag(app.properties.get(key))
    except Unreadable:
        return False


def _level(bad: bool, level: int) -> float:
    return float(level) if bad else 0.0


def _measured(app: App) -> dict[str, float]:
    """Return the measures that no parameter of the rule changes."""
    properties = app.properties
    shuffle, dynamic = _flag(app, SHUFFLE_SERVICE), _flag(app, DYNAMIC)
    return {
        "driver_memory": _size_of(app, DRIVER_MEMORY) or 0,
        "executor_memory": _size_of(app, EXECUTOR_MEMORY) or 0,
        "driver_cores": whole(properties.get(DRIVER_CORES)) or 0,
        "executor_cores": whole(properties.get(EXECUTOR_CORES)) or 0,
        "driver_overhead": _overhead(app, DRIVER_OVERHEAD)[1],
        "executor_overhead": _overhead(app, EXECUTOR_OVERHEAD)[1],
        "min_executors": _level((whole(properties.get(MIN_EXECUTORS)) or 0) > _FEW, 4),
        "max_executors": _level((whole(properties.get(MAX_EXECUTORS)) or 0) > _MANY, 4),
        "jars": _level("*" in (properties.get(JARS) or ""), 4),
        "shuffle": _level(not shuffle, 3 if dynamic else 2),
    }


def _measure(app: App, rule: SparkRule) -> Mapping[str, float]:
    return _measured(app) | {
        "serializer": _level(app.properties.get(SERIALIZER) != rule.texts[_SERIALIZER_PARAMETER], 2)
    }


def _describe(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    properties, measures = app.properties, _measure(app, rule)
    memory = {key: _size_of(app, key) for key in (DRIVER_MEMORY, EXECUTOR_MEMORY)}
    shown = {key: MISSING if value is None else size(value) for key, value in memory.items()}
    number = {key: whole(properties.get(key)) for key in (INSTANCES, EXECUTOR_CORES, DRIVER_CORES)}
    numbers = {key: MISSING if value is None else str(value) for key, value in number.items()}
    details: dict[str, Any] = {
        **shown, INSTANCES: numbers[INSTANCES], EXECUTOR_CORES: numbers[EXECUTOR_CORES],
        "spark.application.duration": f"{int(judged_ms(app) / 1000)} Seconds",
        DYNAMIC: "true" if _flag(app, DYNAMIC) else "false",
        DRIVER_CORES: numbers[DRIVER_CORES],
        DRIVER_OVERHEAD: _overhead(app, DRIVER_OVERHEAD)[0],
        EXECUTOR_OVERHEAD: _overhead(app, EXECUTOR_OVERHEAD)[0],
    }  # fmt: skip
    told: dict[str, tuple[str, Any]] = {
        "serializer": (SERIALIZER, [properties.get(SERIALIZER) or MISSING, "KyroSerializer is Not Enabled."]),
        "shuffle": (SHUFFLE_SERVICE, ["false", "Spark shuffle service is not enabled."]),
        "min_executors": ("Minimum Executors", f"The minimum executors for Dynamic Allocation should be <={_FEW}. "
                          f"Please change it in the {MIN_EXECUTORS} field."),
        "max_executors": ("Maximum Executors", f"The maximum executors for Dynamic Allocation should be <={_MANY}. "
                          f"Please change it in the {MAX_EXECUTORS} field."),
        "jars": ("Jars notation", f"It is recommended to not use * notation while specifying jars in the field {JARS}"),
        "driver_overhead": ("Driver Overhead Memory", "Please do not specify excessive amount of overhead memory for Driver. "
                            f"Change it in the field {DRIVER_OVERHEAD}"),
        "executor_overhead": ("Executor Overhead Memory", "Please do not specify excessive amount of overhead memory for "
                              f"Executors. Change it in the field {EXECUTOR_OVERHEAD}"),
    }  # fmt: skip
    excessive = rule.limits[_OVERHEAD_LIMITS][2]
    bad = (
        entry for key, entry in told.items() if measures[key] and (key not in _OVERHEADS or measures[key] >= excessive)
    )
    return details | dict(bad)


def _throws(app: App) -> str:
    """Return the exception for an invalid flag or an unreadable overhead."""
    try:
        for key in (DYNAMIC, SHUFFLE_SERVICE):
            flag(app.properties.get(key))
        for key in (DRIVER_OVERHEAD, EXECUTOR_OVERHEAD):
            bytes_of(overhead_text(app, key))
    except Unreadable as error:
        return str(error)
    return ""


def _advise(level: int, app: App) -> str:
    if not level:
        return "Nothing to change."
    set_up = (Wish(SERIALIZER, _KRYO, "serializer"), Wish(SHUFFLE_SERVICE, "true", "shuffle service"))
    serializer, service = granted(set_up, SETTINGS, app.properties, app)
    measures = _measured(app)
    words = [
        advice
        for good, advice in (
            (
                measures["executor_memory"] < 10 * GIB and measures["executor_cores"] <= 4,
                "use more, smaller executors: up to 4 cores and below 10 GB each",
            ),
            (measures["executor_cores"] != 4, "4 cores are where the rule begins: they need no change"),
            (not serializer.value, f"set {SERIALIZER} to {_KRYO}"),
            (not service.value, f"set {SHUFFLE_SERVICE} to true where the cluster runs the external shuffle service"),
            (all(measures[key] < 2 * GIB for key in _OVERHEADS), "lower the memory overhead"),
            (
                measures["driver_memory"] < 10 * GIB and measures["driver_cores"] < 4,
                "give the driver below 10 GB and 4 cores, unless it collects or broadcasts that much",
            ),
            (not measures["min_executors"], f"lower {MIN_EXECUTORS}: that many executors are held even without work"),
            (not measures["max_executors"], f"lower {MAX_EXECUTORS}"),
            (not measures["jars"], f"name each file in {JARS}"),
        )
        if not good
    ]
    text = "; ".join(words) or "see which of its settings the work needs"
    return f"{text[0].upper()}{text[1:]}."


_FLAGS: tuple[Branch, ...] = tuple(
    gate(key, label, "flags", fact=fact)
    for key, label, fact in (
        ("min_executors", "level of the minimum of executors", f"{MIN_EXECUTORS} is above {_FEW}"),
        ("max_executors", "level of the maximum of executors", f"{MAX_EXECUTORS} is above {_MANY}"),
        ("jars", "level of a * among the jars", f"{JARS} holds a *"),
        ("serializer", "level of the serializer", "the serializer is not Kryo"),
        ("shuffle", "level of the shuffle service", "the external shuffle service is off"),
    )
)  # fmt: skip

HEURISTICS = (
    SparkHeuristic(
        name="Spark Configuration",
        class_name="ConfigurationHeuristic",
        order=101,
        limits={
            "memory": (10, 15, 20, 25),
            "cores": (4, 6, 8, 10),
            _OVERHEAD_LIMITS: (2 * GIB, 4 * GIB, 6 * GIB, 8 * GIB),
            "flags": (1, 2, 3, 4),
        },
        texts={_SERIALIZER_PARAMETER: _KRYO},
        branches=(
            gate("driver_memory", "memory of the driver", "memory", "bytes", GIB, fact="the driver has a heap of {}"),
            gate(
                "executor_memory",
                "memory of an executor",
                "memory",
                "bytes",
                GIB,
                fact="executors have a heap of {} each",
            ),
            gate("driver_cores", "cores of the driver", "cores", fact="the driver has {} cores"),
            gate("executor_cores", "cores of an executor", "cores", fact="executors have {} cores each"),
            gate(
                "driver_overhead",
                "memory overhead of the driver",
                _OVERHEAD_LIMITS,
                "bytes",
                fact="the driver has a memory overhead of {}",
            ),
            gate(
                "executor_overhead",
                "memory overhead of an executor",
                _OVERHEAD_LIMITS,
                "bytes",
                fact="executors have a memory overhead of {} each",
            ),
            *_FLAGS,
        ),
        measure=_measure,
        describe=_describe,
        advise=_advise,
        throws=_throws,
        sure=_measure,
    ),
)
