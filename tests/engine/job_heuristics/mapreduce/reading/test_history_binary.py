"""Binary histories: we write what fastavro writes, and read back what we wrote."""

from __future__ import annotations

import io

import fastavro
import pytest

from engine.core.reading import Source
from engine.job_heuristics.mapreduce.reading.kinds import HISTORY
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import Shape, make


@pytest.fixture(scope="module")
def job() -> writer.Job:
    return make(Shape("oracle", "ann", "etl", maps=8, reduces=3, failing=0.4), 1, 1_760_000_000_000, 5)


def test_our_encoder_writes_what_fastavro_writes(job: writer.Job) -> None:
    parsed, out = fastavro.parse_schema(writer.schema()), io.BytesIO()
    for _, kind, record, fields in writer.events(job):
        event = {"type": kind, "event": (f"{writer.NAMESPACE}.{record}", fields)}
        fastavro.schemaless_writer(out, parsed, event, strict=True)
    assert writer.binary(job).endswith(out.getvalue())


def test_the_reader_gives_back_what_was_written(job: writer.Job) -> None:
    data = writer.binary(job)
    end = len(data)
    reading = HISTORY.read(Source("/d/x.jhist", "x.jhist", 0, end), data, None, True)
    assert reading.consumed == end and not reading.problems
    frames = {
        table.name: table.frame(reading.rows[table.name]) for table in HISTORY.tables if table.name in reading.rows
    }
    for table, kinds, columns in (
        ("task_starts", {"TASK_STARTED"}, {"task_id": "taskid", "type": "taskType", "scheduled_ms": "startTime"}),
        ("task_ends", {"TASK_FINISHED", "TASK_FAILED"}, {"task_id": "taskid", "finish_ms": "finishTime"}),
        (
            "attempt_starts",
            {"MAP_ATTEMPT_STARTED", "REDUCE_ATTEMPT_STARTED"},
            {"attempt_id": "attemptId", "host": "trackerName", "container": "containerId", "start_ms": "startTime"},
        ),
    ):
        records = [fields for _, kind, _, fields in writer.events(job) if kind in kinds]
        for column, field in columns.items():
            assert frames[table][column].to_list() == [record[field] for record in records], column
