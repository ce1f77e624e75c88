"""One Spark session with two executors for all tests here, and histories to compute."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sample_data.job_heuristics import spark_log
from sample_data.job_heuristics.make import END_MS
from sample_data.job_heuristics.shapes import SPARK_FINISHED
from tests.contract.file_samples import SAMPLES
from tests.contract.samples import play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two executor processes of one core each."""
    pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed (dependency group spark)")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed")
    from pyspark.sql import SparkSession

    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.network.timeout": "600s",
        "spark.sql.unionOutputPartitioning": "false",  # as in Spark 3.5
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder: Any = SparkSession.builder.master("local-cluster[2,1,1024]").appName("loadlens tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's histories, some of them damaged, one under the name of another job."""
    folder = play("job-heuristics", tmp_path_factory.mktemp("histories"), changes=2)
    for hidden in list(folder.rglob(".*")):  # Spark lists nothing below folders of such names
        hidden.rename(hidden.with_name(hidden.name.lstrip(".")))
    whole = sorted(folder.rglob("*.jhist"))
    first, second = whole[0], whole[1]
    bad = folder / "bad"
    bad.mkdir()
    (bad / "job_1_0001-empty.jhist").write_bytes(b"")
    (bad / "job_1_0002-zeros.jhist").write_bytes(bytes(3000))
    (bad / "job_1_0003.jhist").write_bytes(first.read_bytes()[:-100])  # the beginning of another job's history
    (bad / "job_1_0004.jhist.gz").write_bytes(gzip.compress(second.read_bytes())[:-200])
    (bad / "job_1_0005_conf.xml").write_bytes(b"<configuration><property><name>mapreduce.job.user.name</name>")
    (bad / "job_1_0006.jhist").write_bytes(first.read_bytes()[:40])
    shutil.copy(second, bad / f"copy-of-{second.name}")
    _others(folder / "others", first.name.split("-")[0])
    return folder


def _others(folder: Path, job: str) -> None:
    """Write rolling logs of two applications, one of an id like no other, and what else tells of a known ``job``."""
    folder.mkdir()
    for number, app in enumerate((f"spark-{'0f' * 16}", "nightly")):
        log = spark_log.text(spark_log.events(SPARK_FINISHED[number][0], app, END_MS))
        lines = log.splitlines(keepends=True)
        rolling = folder / f"eventlog_v2_{app}"
        rolling.mkdir()
        third = len(lines) // 3
        for part in range(3):
            end = None if part == 2 else third * (part + 1)
            data = b"".join(lines[third * part : end])
            (rolling / f"events_{part + 1}_{app}").write_bytes(data)
        (rolling / f"appstatus_{app}").write_bytes(b"")
    samples = SAMPLES["job-heuristics"]
    name, data = samples["mapreduce-rest"]
    place = folder / job / name
    place.parent.mkdir()
    place.write_bytes(data.replace(b"job_1760000000000_0001", job.encode()))
