"""How an application was set up: its cluster, version, switches, heaps and containers, as its properties tell."""

from __future__ import annotations

import re

from engine.job_heuristics.dr_elephant.advice import LEAST_MB, STEP_MB
from engine.job_heuristics.spark.model.app import DRIVER, App

MB = 2**20
_SIZE = re.compile(r"\s*(\d{1,15})\s*+([bkmgtp]?)b?\s*", re.IGNORECASE | re.ASCII)
_FACTOR = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SPAN = re.compile(r"\s*(\d{1,12})\s*+(us|ms|s|m|min|h|d|)\s*", re.IGNORECASE | re.ASCII)
_SPANS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
LEAST_OVERHEAD_MB, OVERHEAD_SHARE = 384, 0.1
"""Spark's default memory overhead: a tenth of the memory, at least 384 MB."""
FOREIGN_SHARE = 0.4
"""Its share on Kubernetes for programs in Python and R."""
PEAK_ROOM = 1.2
"""Recommended heap as a multiple of the largest used heap."""
HIGH_PEAK, LOW_PEAK = 0.95, 0.7
"""Peak heap usage above which the heap should grow, and below which it may shrink."""
MOST_MB = 2**24
"""Largest plausible container, MB."""


def spark_bytes(text: str | None, default: str, unit: str = "m") -> int:
    """Parse a size like Spark: ``2g``; without a unit in ``unit``. Unreadable: the default."""
    found = _SIZE.fullmatch(text) if text is not None else None
    if found is None:
        return spark_bytes(default, "0b", unit)
    return min(int(found.group(1)) * _FACTOR[(found.group(2) or unit).lower()], MOST_MB * MB)


def spark_ms(text: str | None, default: int) -> int:
    """Parse a time like Spark: ``3s``; without a unit in ms. Unreadable: the default."""
    found = _SPAN.fullmatch(text) if text is not None else None
    return default if found is None else int(int(found.group(1)) * _SPANS[found.group(2).lower() or "ms"])


LOCAL, STANDALONE, YARN, KUBERNETES, MESOS = "local mode", "a standalone cluster", "YARN", "Kubernetes", "Mesos"
_MASTERS = {
    "local-cluster": STANDALONE,
    "local": LOCAL,
    "spark:": STANDALONE,
    "yarn": YARN,
    "k8s:": KUBERNETES,
    "mesos:": MESOS,
}
_IDS = {"application_": YARN, "local-": LOCAL, "app-": STANDALONE, "spark-": KUBERNETES}
WITH_OVERHEAD = (YARN, KUBERNETES, MESOS)
"""Clusters whose containers are larger than the heap."""


def cluster(app: App) -> str:
    """Return what ran the executors, by ``spark.master`` or the form of the id; empty if neither tells."""
    master = app.properties.get("spark.master") or ""
    known = [kind for sign, kind in _MASTERS.items() if master.startswith(sign)]
    return (known or [kind for sign, kind in _IDS.items() if app.app_id.startswith(sign)] or [""])[0]


def version(app: App) -> tuple[int, ...]:
    """Return Spark's version as far as it is numbers, at most two; empty: unknown."""
    parts = (app.attempts[0].version if app.attempts else "").split(".")[:2]
    return tuple(int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 4)


def is_on(app: App, key: str, default: str = "false") -> bool:
    """Whether a switch is on."""
    return (app.properties.get(key) or default).strip().lower() == "true"


def is_dynamic(app: App) -> bool:
    """Whether Spark adds and gives back executors itself."""
    return is_on(app, "spark.dynamicAllocation.enabled") and not is_local(app)


def on_databricks(app: App) -> bool:
    """Whether Databricks ran it, where the cluster decides on executors."""
    return any(key.startswith("spark.databricks.") for key in app.properties)


def container_mb(app: App, who: str) -> int:
    """Return the MB of a container of the driver or of an executor."""
    of, where = app.properties.get, cluster(app)
    heap = spark_bytes(of(f"spark.{who}.memory"), "1g") // MB
    if where not in WITH_OVERHEAD:
        return min(max(1, heap), MOST_MB)
    asked = of(f"spark.{who}.memoryOverhead") or of(f"spark.yarn.{who}.memoryOverhead")
    foreign = where == KUBERNETES and of("spark.kubernetes.resource.type") in ("python", "r")
    share = FOREIGN_SHARE if foreign else OVERHEAD_SHARE
    for key in (f"spark.{who}.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor"):
        text = of(key)
        if text is not None and re.fullmatch(r"0?\.\d{1,6}|0|1(\.0+)?", text):
            share = float(text)
            break
    overhead = spark_bytes(asked, "0") // MB if asked else max(LEAST_OVERHEAD_MB, int(heap * share))
    more = 0
    if who == "executor":
        more = spark_bytes(of("spark.executor.pyspark.memory"), "0") // MB
        if is_on(app, "spark.memory.offHeap.enabled"):
            more += spark_bytes(of("spark.memory.offHeap.size"), "0", "b") // MB
    return min(max(1, heap + overhead + more), MOST_MB)


def heap_bytes(app: App) -> int:
    """Return the heap of an executor (of the driver in local mode), in bytes."""
    who = DRIVER if is_local(app) else "executor"
    return max(1, spark_bytes(app.properties.get(f"spark.{who}.memory"), "1g"))


def peak_heap(app: App) -> int:
    """Return the largest heap used by an executor, 0 if not logged."""
    return max((one.peaks["heap"] for one in app.executors), default=0)


def fitting_heap_mb(peak: int) -> int:
    """Return the MB of a heap that holds ``peak`` bytes with some room."""
    return max(LEAST_MB, -(-int(peak * PEAK_ROOM) // (STEP_MB * MB)) * STEP_MB)


def has_gpu(app: App, profile: int) -> bool:
    """Whether tasks of a resource profile work on GPUs."""
    of = app.properties
    asked = any(key.endswith(".resource.gpu.amount") and value not in (None, "0") for key, value in of.items())
    return profile in app.gpu_profiles or (not profile and asked) or "rapids" in (of.get("spark.plugins") or "").lower()


def is_local(app: App) -> bool:
    """Whether the driver runs the tasks itself."""
    return cluster(app) == LOCAL
