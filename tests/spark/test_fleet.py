"""What Spark writes is what a report prints, row for row, whatever happens to workers and files on the way."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from engine.core.reading import Problem
from engine.core.view import Result, View
from engine.job_heuristics.fleet.run import batches, run
from engine.job_heuristics.fleet.run.batches import frames
from engine.job_heuristics.fleet.tables import PER_JOB
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import ROLLUP
from engine.live.options import LiveSettings
from tests.contract.samples import opened, view
from tests.engine.job_heuristics.fleet.test_job_key import job_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_800_000_000_000
VIEW: View = view("job-heuristics")


@pytest.fixture(scope="module")
def report(histories: Path) -> Iterator[Result]:
    session = opened(VIEW.name, histories)
    yield session.compute(VIEW.name, JobParameters(), now_ms=NOW)
    session.close()


def written(out: Path, table: str) -> pl.DataFrame:
    return pl.read_parquet(out / f"table={table}" / "*.parquet", hive_partitioning=False)


def assert_equal(out: Path, report: Result) -> None:
    for table in (*PER_JOB, ROLLUP):
        frame = written(out, table.name)
        assert frame.schema == table.schema
        assert frame.sort(table.key).equals(report.table(table.name).sort(table.key)), table.name
    detail: Any = report.detail
    assert written(out, "listing").sort("job_id").equals(detail.listing.sort("job_id"))
    problems = sorted(
        (row["path"], row["kind"], row["count"]) for row in written(out, "problems").iter_rows(named=True)
    )
    assert problems == sorted((problem.path, problem.kind, problem.count) for problem in report.problems)
    found = sorted(written(out, "findings").iter_rows())
    ids = {finding: finding.row[1][0] for finding in report.findings if finding.row}
    # A report tells jobs of one name apart by their ids, which are a column here.
    wanted = ((job, one.level, one.subject.removesuffix(f" ({job})"), one.text) for one, job in ids.items())
    assert found == sorted(wanted)


def order(paths: list[Path], out: Path, **more: Any) -> run.Order:
    return run.Order(VIEW, [str(path) for path in paths], str(out), JobParameters(), NOW, **more)


def test_the_tables_are_those_of_a_report(
    spark: SparkSession, histories: Path, report: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small batches, files that the worker opens itself, jobs that several names belong to."""
    monkeypatch.setattr(run, "LARGE", 60_000)
    steps: list[str] = []
    out = tmp_path / "out"
    pack = tmp_path / "pack"
    outcome = run.run(
        spark, order([histories], out, pack=str(pack), day="2026-01-02"), lambda what, *_: steps.append(what)
    )
    assert_equal(out / "day=2026-01-02", report)
    assert outcome.linked and outcome.rows["jobs"] == report.tables["jobs"].height
    assert outcome.rows["rollup"] == report.table("rollup").height
    assert steps[0] == "reading" and "writing" in steps
    manifest = (out / "day=2026-01-02" / "manifest").glob("*.txt")
    assert re.search(r'"loadlens": "[\d.]+', "".join(path.read_text() for path in manifest))
    _assert_files(written(out / "day=2026-01-02", "files"), histories)
    session = opened(VIEW.name, out)
    shown = session.compute(VIEW.name, JobParameters(), now_ms=NOW)
    session.close()
    for table in PER_JOB:
        rows = shown.table(table.name)
        assert rows.sort("job_id", maintain_order=True).equals(
            report.table(table.name).sort("job_id", maintain_order=True)
        )
    assert shown.summary == report.summary and shown.table("rollup").equals(report.table("rollup"))
    assert len(shown.findings) == len(report.findings) and shown.problems == report.problems
    # Once more, from the pack, over what is there.
    again = run.run(spark, order([pack], out, packed=True, day="2026-01-02", partitions=3))
    assert again.rows == outcome.rows
    assert_equal(out / "day=2026-01-02", report)


def _assert_files(files: pl.DataFrame, histories: Path) -> None:
    """Table files names what a job was computed from: the parts of a rolling log, a history and its configuration."""
    nightly = files.filter(job_id="nightly")["path"].to_list()
    assert sorted(nightly) == sorted(map(str, (histories / "others" / "eventlog_v2_nightly").glob("events_*")))
    for history in histories.rglob("job_*_conf.xml"):
        if history.parent.name != "bad":
            assert str(history) in files.filter(job_id=job_key(str(history)))["path"].to_list()


class Killed(batches.Work, frozen=True):
    """Work whose first process ends in the middle of it."""

    marker: str = ""

    def _compute(self, files: Any) -> Iterator[Any]:
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield from super()._compute(files)
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_only_costs_time(spark: SparkSession, histories: Path, report: Result, tmp_path: Path) -> None:
    killed = partial(Killed, marker=str(tmp_path / "killed"))
    run.run(spark, order([histories], tmp_path / "out"), make_work=killed)
    assert (tmp_path / "killed").exists()
    assert_equal(tmp_path / "out", report)


def test_keys_are_the_same_in_spark(spark: SparkSession, histories: Path) -> None:
    paths = [str(path) for path in histories.rglob("*") if path.is_file()]
    paths += [
        "/a/job_1_2/jobs.json",
        "/a/x.xml",
        "s3a://b/application_1_2/job_3_4/attempts",
        "/job_local7_0001.jhist",
        "/logs/eventlog_v2_nightly/events_1_nightly",
        "/logs/eventlog_v2_nightly/appstatus_nightly",
        f"/logs/eventlog_v2_spark-{'a1' * 16}/events_2_spark-{'a1' * 16}.zstd",
        "x",
    ]
    frame = spark.createDataFrame([(path,) for path in paths], "path string").withColumn("key", run._key())
    assert {row["path"]: row["key"] for row in frame.collect()} == {path: job_key(path) for path in paths}


def test_a_file_that_cannot_be_opened_is_a_problem(spark: SparkSession, histories: Path, tmp_path: Path) -> None:
    gone = batches._File("job_9_9", "/no/such/job_9_9.jhist", 0, None)
    work = batches.Work(VIEW, JobParameters(), NOW, LiveSettings(cache=False))
    (packed,) = (batch for batch in work._compute([gone]) if batch.column("_table")[0].as_py() == "problems")
    (rows,) = frames([packed])
    assert rows["path"].to_list() == ["/no/such/job_9_9.jhist"]
    assert Problem.at("/x", "unreadable", rows["reason"][0]).reason.startswith("cannot be opened by the worker")


def test_another_version_on_a_worker_ends_the_run(spark: SparkSession, histories: Path, tmp_path: Path) -> None:
    from engine.job_heuristics.fleet.run.session import in_words

    older = partial(batches.Work, version="0.0.1")
    with pytest.raises(Exception, match="OtherVersion") as caught:
        run.run(spark, order([histories], tmp_path / "out"), make_work=older)
    assert in_words(caught.value).startswith("loadlens is 0.0.1 on the driver and ")


def test_only_progress_uses_the_classic_context() -> None:
    for path in Path(run.__file__).parent.glob("*.py"):
        uses = [line for line in path.read_text().splitlines() if "sparkContext" in line or ".rdd" in line]
        assert not uses or (path.name == "session.py" and len(uses) == 1)
