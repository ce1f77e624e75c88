"""Makes the static sample again: ``python -m sample_data.job_heuristics.make`` writes the same bytes each time."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from sample_data.job_heuristics import spark_log, tez_history, writer
from sample_data.job_heuristics.plans import CLUSTER, make
from sample_data.job_heuristics.shapes import FINISHED, LIVE, SPARK_FINISHED, SPARK_LIVE, TEZ_LIVE

FILES = Path(__file__).parent / "files"
END_MS = CLUSTER + 5 * 24 * 3_600_000
"""The moment the static sample shows."""
SEED = 11


def folder(root: Path, finish_ms: int, sequence: int) -> Path:
    """Where the history server puts a finished job."""
    day = datetime.fromtimestamp(finish_ms / 1000, UTC)
    return root / "done" / f"{day:%Y/%m/%d}" / f"{sequence:09d}"[:6]


def put_done(root: Path, job: writer.Job, *, binary: bool) -> None:
    """Write a finished job's history and configuration."""
    place = folder(root, job.finish_ms, job.sequence)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{job.id}_conf.xml").write_bytes(writer.conf_xml(job))
    (place / job.file_name).write_bytes(writer.binary(job) if binary else writer.text(job))


def main(root: Path = FILES) -> None:
    """Write all files of the static sample below ``root``, replacing what is there."""
    shutil.rmtree(root, ignore_errors=True)
    for number, (shape, hours) in enumerate(FINISHED, 1):
        job = make(shape, number, END_MS - int(hours * 3_600_000), SEED)
        put_done(root, job, binary=number % 3 != 0)
    # One job that still runs: the first part of its history, in its staging folder.
    number = len(FINISHED) + 1
    job = make(LIVE[2], number, END_MS - 60_000, SEED, pace=2.0)
    staging = root / "staging" / job.user / ".staging" / job.id
    staging.mkdir(parents=True)
    (staging / f"{job.id}_1_conf.xml").write_bytes(writer.conf_xml(job))
    lines = [writer.text_line(event) for event in writer.events(job) if event[0] <= job.submit_ms + 28_000]
    (staging / f"{job.id}_1.jhist").write_bytes(writer.head(binary=False) + b"".join(lines))
    for number, (plan, hours) in enumerate(SPARK_FINISHED, 1):
        put_spark(root, plan, number, END_MS - int(hours * 3_600_000))
    app_id = spark_id(len(SPARK_FINISHED) + 1)
    events = spark_log.events(SPARK_LIVE[0], app_id, END_MS - 6_800, SEED)
    (root / "spark" / f"{app_id}.inprogress").write_bytes(b"".join(spark_log.grown(events, END_MS)))
    begin = END_MS - 34_000
    put_tez(root, tez_history.grown(tez_history.events(tez_id(1), TEZ_LIVE, begin, SEED), END_MS))


def tez_id(sequence: int) -> str:
    """The id of an application of Tez on our made-up cluster."""
    return f"application_{CLUSTER}_{9500 + sequence}"


def put_tez(root: Path, events: list[tez_history.Event]) -> None:
    """Append events to the proto histories of their application and DAGs."""
    for event in events:
        ids = event.name.removeprefix("tez_").split("_")
        if event.entity == "TEZ_APPLICATION":
            path = root / "tez" / "app_data" / f"appattempt_{ids[1]}_{ids[2]}_000001"
        else:
            path = root / "tez" / "dag_data" / f"dag_{ids[1]}_{ids[2]}_{ids[3]}_1"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(tez_history.proto_head())
        with path.open("ab") as out:
            out.write(tez_history.proto([event]))


def spark_id(sequence: int) -> str:
    """The id of a Spark application on our made-up cluster."""
    return f"application_{CLUSTER}_{9000 + sequence}"


def put_spark(root: Path, plan: spark_log.AppPlan, sequence: int, start_ms: int) -> None:
    """Write the event log of a finished application, as it is in Spark: packed, and with the codec in its name."""
    place = root / "spark"
    place.mkdir(parents=True, exist_ok=True)
    log = spark_log.text(spark_log.events(plan, spark_id(sequence), start_ms, SEED))
    (place / f"{spark_id(sequence)}.zstd").write_bytes(zstandard.ZstdCompressor(level=9).compress(log))


if __name__ == "__main__":
    main()
