"""A Spark session for a run, and its errors in words an operator can act on."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = "pip install 'loadlens[spark]' 'pyspark>=3.5'"
_NOT_THERE = "loadlens is not installed for the Python that workers run: set PYSPARK_PYTHON, or ship it with --archives"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options for runs of minutes, in which an optimising compiler and a parallel collector do not pay off."""
_EVERY_S = 2.0
Show = Callable[[int, int], None]  # called with the number of finished and known tasks of the active stages


class SparkMissing(Exception):
    """There is no PySpark, no Java or no cluster; the message says what to do."""


@contextmanager
def session(master: str = "", remote: str = "") -> Iterator[SparkSession]:
    """Yield the existing session (inside spark-submit) or a new one on ``master`` or ``remote`` (Spark Connect),
    which is stopped at the end. Raises SparkMissing."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing(f"PySpark is not installed here ({error}): {_NEEDED}") from error
    try:
        import pandas  # noqa: F401  (PySpark wants it for Arrow)
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise SparkMissing(f"PySpark needs {error.name} for this: {_NEEDED}") from error
    existing = None if remote else SparkSession.getActiveSession()
    if existing is not None:
        yield existing
        return
    builder = SparkSession.builder.appName("loadlens fleet")
    if remote:
        builder = builder.remote(remote)
    else:
        # The caller shows progress; Spark's own bar would overwrite it.
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.master(master) if master else builder
    if (remote or master or "local").startswith("local"):  # workers on this machine: this Python, not any python3
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.driver.extraJavaOptions", QUICK).config(
            "spark.executor.extraJavaOptions", QUICK
        )
    try:
        made = builder.getOrCreate()
    except Exception as error:  # PySpark raises its own, Py4J's and built-in exceptions
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise SparkMissing(
                "Java could not be started: PySpark 4 needs Java 17 or newer (JAVA_HOME or PATH)"
            ) from error
        raise SparkMissing(f"no Spark session: {_first_line(error)}") from error
    try:
        yield made
    finally:
        made.stop()


def in_words(error: BaseException) -> str:
    """Return the cause of a failed run in one sentence."""
    text = str(error)
    for sign, words in (
        ("OtherVersion: ", ""),
        ("No module named 'engine", _NOT_THERE),
        ("PYTHON_VERSION_MISMATCH", "driver and workers run different versions of Python: set PYSPARK_PYTHON"),
        ("PATH_NOT_FOUND", ""),
        ("OutOfMemoryError", "an executor ran out of memory: give executors 1 GB a core, or more --partitions"),
    ):
        if sign in text:
            line = next(line for line in text.splitlines() if sign in line)
            return words or line.partition(sign)[2].strip() or line.strip()
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextmanager
def progress(spark: SparkSession, show: Show) -> Iterator[None]:
    """While the block runs, call ``show`` every two seconds."""
    with _handled(spark, show) if "connect" in type(spark).__module__ else _asked(spark, show):
        yield


@contextmanager
def _handled(spark: Any, show: Show) -> Iterator[None]:
    """Receive progress of stages from Spark Connect; versions before 4.0 send none."""
    last = time.monotonic()

    def handle(stages: Any, **_: Any) -> None:
        nonlocal last
        if stages and time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            show(sum(stage.num_completed_tasks for stage in stages), sum(stage.num_tasks for stage in stages))

    if not hasattr(spark, "registerProgressHandler"):
        yield
        return
    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)


@contextmanager
def _asked(spark: SparkSession, show: Show) -> Iterator[None]:
    """Poll a classic session for progress of its stages, by its context, which Connect does not have."""
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(_EVERY_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                show(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
