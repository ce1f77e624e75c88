"""Logs that are damaged or made to do harm: a problem each, the rest is read, and in parts as at once."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import pytest
import zstandard

from engine.core.reading import Reading, Source, clean
from engine.core.view import Context
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.model.assembly import current_apps
from engine.job_heuristics.spark.reading import event_log
from engine.job_heuristics.spark.reading.event_log import EventLog
from engine.job_heuristics.spark.reading.events import unpacked
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import spark_log
from tests.contract.samples import opened
from tests.engine.job_heuristics.helper import Store, inputs_of
from tests.engine.job_heuristics.spark.test_reading import APP, LINES, LOG, apps, facts, read

_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"


def sql(number: int, plan: str) -> bytes:
    return (
        f'{{"Event":"{_SQL}","executionId":{number},"description":"q","time":1760000000001,"sparkPlanInfo":{plan}}}\n'
    ).encode()


def with_lines(*more: bytes) -> bytes:
    """The log with further lines in front of its last one."""
    return b"".join((*LINES[:-1], *more, LINES[-1]))


def test_a_damaged_task_start_is_the_same_in_parts_and_at_once() -> None:
    starts = [k for k, line in enumerate(LINES) if b"TaskStart" in line]
    for place, damage in (
        (starts[0], lambda line: line.replace(b'"Host"', b'"Host":{')),
        (starts[1], lambda line: line.replace(b'"Stage ID":', b'"Stage ID":"x",')),
        (starts[2], lambda line: line.replace(b'"Launch Time":', b'"Launch Time":[],"L":')),
        (starts[3], lambda line: line[:90] + b"\n" + line[90:]),
    ):
        lines = [damage(line) if k == place else line for k, line in enumerate(LINES)]
        data, store = b"".join(lines), Store()
        for end in (len(b"".join(lines[: place + 1])), len(data)):
            store.put(f"/{APP}", data[:end])
        once, whole = Store(), current_apps(inputs_of({f"/{APP}": data}), Context(0)).apps[APP]
        once.put(f"/{APP}", data)
        assert facts(current_apps(store.inputs(), Context(0)).apps[APP]) == facts(whole)
        assert {(p.kind, p.line) for p in store.problems} == {(p.kind, p.line) for p in once.problems} != set()


def test_a_line_beyond_the_limit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST_LINE", 1 << 20)
    huge = b'{"Event":"SparkListenerJobStart","Job ID":9,"Stage IDs":[' + b"1," * (1 << 20) + b"1]}\n"
    reading = read(with_lines(huge))
    assert [(p.kind, p.line) for p in reading.problems] == [("long-line", len(LINES))]
    assert facts(apps({f"/{APP}": with_lines(huge)})[APP]) == facts(apps({f"/{APP}": LOG})[APP])


@pytest.mark.parametrize(
    "filling",
    (b"[{\\\\", b"[[[[", b'{"a":', b"1,1,", b'"a\\u0000', b"\xff\xfe\x00\xed"),
    ids=("text", "arrays", "objects", "numbers", "strings", "no text"),
)
def test_long_lines_take_linear_time_and_bounded_memory(filling: bytes) -> None:
    def spent(size: int) -> tuple[float, int]:
        line = b'{"Event":"SparkListenerTaskEnd","Stage ID":[' + filling * (size // 4) + b'"}\n'
        began = time.process_time()
        tracemalloc.start()
        assert read(line).problems
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return time.process_time() - began, peak

    (small, _), (large, peak) = spent(1 << 13), spent(1 << 17)
    assert large < 40 * small + 1 and peak < 24 * (1 << 17) + (1 << 20)


@pytest.mark.parametrize("depth", (500, 20_000))
def test_a_plan_that_is_nested_too_deeply_is_cut_with_a_problem(depth: int) -> None:
    node = '{"nodeName":"Filter","simpleString":"x","metadata":{},"metrics":[],"children":['
    data = with_lines(sql(0, node * depth + "]}" * depth))
    assert {(p.kind, p.line) for p in read(data).problems} == {("bad-record", len(LINES))}
    result = VIEW.compute(inputs_of({f"/{APP}": data}), JobParameters(job=APP), Context(0))
    assert result.tables["plan_nodes"]["depth"].max() > 25  # levels of JSON, two for each node
    assert facts(apps({f"/{APP}": data})[APP]) == facts(apps({f"/{APP}": LOG})[APP])


def test_a_damaged_node_leaves_the_rest_of_the_plan() -> None:
    plan = {
        "nodeName": "Sort", "simpleString": "Sort", "metrics": [{"name": "n", "accumulatorId": "x"}, 7],
        "children": [{"nodeName": 5, "children": "none", "metrics": [{"name": "rows", "accumulatorId": 3}]}, None],
    }  # fmt: skip
    app = apps({f"/{APP}": with_lines(sql(0, json.dumps(plan)))})[APP]
    nodes = unpacked(app.sql[0].plan)
    assert [(node.depth, node.name) for node in nodes] == [(0, "Sort"), (1, "")]
    assert nodes[1].metrics == [("rows", 3, "")]


def test_huge_ids_and_hostile_names_harm_nothing() -> None:
    name = "\x1b]0;x\x07[bold]red[/]‮\x00\r\n" + "n" * 5000
    events = [
        {"Event": "SparkListenerExecutorAdded", "Timestamp": 2**70, "Executor ID": name,
         "Executor Info": {"Host": name, "Total Cores": 2**45}},
        {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 2**46, "Stage Name": name,
         "Number of Tasks": 2**46, "Parent IDs": [2**46, -5]}},
        {"Event": "SparkListenerJobStart", "Job ID": 2**46, "Submission Time": -(2**46), "Stage IDs": [2**46],
         "Properties": {"spark.job.description": name, "spark.sql.execution.id": "9" * 30}},
        {"Event": "SparkListenerTaskEnd", "Stage ID": 2**46, "Task Info": {"Task ID": 2**46, "Finish Time": 2**46,
         "Launch Time": -(2**46), "Executor ID": name, "Host": name}, "Task Metrics": {"Executor Run Time": 2**46}},
        {"Event": "SparkListenerTaskEnd", "Stage ID": 2**60, "Task Info": {"Task ID": 10**400}},
        {"Event": _SQL, "executionId": 2**46, "description": name, "sparkPlanInfo": {"nodeName": name}},
    ]  # fmt: skip
    data = with_lines(*map(spark_log.line, events))
    inputs = inputs_of({f"/{APP}": data})
    result = VIEW.compute(inputs, JobParameters(job=APP, executors=3), Context(0))
    for table in result.tables.values():
        for column, kind in table.schema.items():
            if kind == "String" and column != "metrics":
                assert all(clean(text) == text for text in table[column].drop_nulls())
    clean_app, app = apps({f"/{APP}": LOG})[APP], current_apps(inputs, Context(0)).apps[APP]
    assert app.jobs[1:] == clean_app.jobs and app.stages[1:] == clean_app.stages


def test_truncated_logs_never_raise_and_report_their_end() -> None:
    data = with_lines(sql(0, '{"nodeName":"Scan","simpleString":"s","children":[],"metrics":[]}'))
    for end in random.Random(3).sample(range(len(data)), 300):
        reading = read(data[:end])
        lines = data[:end].count(b"\n")
        assert all(p.kind == "cut-file" and p.line == lines + 1 for p in reading.problems)
        height = sum(len(next(iter(rows.values()))) for rows in reading.rows.values() if rows)
        assert height or not lines


class _Lz4:
    """``LZ4Block`` as lz4-java writes it, of one raw block."""

    @staticmethod
    def pack(data: bytes) -> bytes:
        import xxhash

        checksum = xxhash.xxh32(data, seed=0x9747B28C).intdigest() & 0x0FFFFFFF
        sizes = len(data).to_bytes(4, "little") * 2
        return b"LZ4Block\x1f" + sizes + checksum.to_bytes(4, "little") + data + b"LZ4Block\x10" + b"\0" * 12


def test_the_codec_is_recognised_by_content(tmp_path: Path) -> None:
    packed = {
        "1.lz4": zstandard.compress(LOG), "2.zstd": _Lz4.pack(LOG), "3.snappy": LOG, "4.lzf": zlib.compress(LOG, wbits=31),
    }  # fmt: skip
    for number, content in enumerate(packed.items(), 1):
        name, data = content
        app = f"application_1760000000000_900{number}"
        body = data if name != "3.snappy" else data.replace(APP.encode(), app.encode())
        (tmp_path / f"{app}.{name.partition('.')[2]}").write_bytes(body)
    # A frame that breaks off, bytes of no codec below the name of one, and a block that is not what its sum says.
    (tmp_path / "application_1760000000000_9011.zstd").write_bytes(zstandard.compress(LOG)[:-9])
    (tmp_path / "application_1760000000000_9012.zstd").write_bytes(b"\x28\xb5\x2f\xfd" + b"\x00\xff" * 40)
    (tmp_path / "application_1760000000000_9013.lz4").write_bytes(_Lz4.pack(LOG)[:-60] + bytes(60))
    (tmp_path / "application_1760000000000_9014.snappy").write_bytes(bytes(cramjam.snappy.compress_raw(LOG)))
    session = opened(VIEW.name, tmp_path)
    result = session.compute(VIEW.name, JobParameters())
    session.close()
    assert set(result.tables["jobs"]["job_id"]) == {APP, "application_1760000000000_9003"}
    assert {p.path.rpartition("_")[2] for p in result.problems} >= {"9011.zstd", "9012.zstd", "9013.lz4"}


def test_a_reading_never_raises_for_random_bytes() -> None:
    draw = random.Random(4)
    reader = EventLog()
    for _ in range(200):
        lines = draw.sample(LINES, 5)
        data = bytearray(b"".join(lines))
        for _ in range(draw.randrange(1, 30)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        reading: Reading = reader.read(Source("/x", APP, 0, len(data)), bytes(data), None, True)
        assert reading.consumed <= len(data)
