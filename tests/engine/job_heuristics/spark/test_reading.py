"""Logs as they come: cut anywhere, grown, rolled, compacted, of several attempts, hostile."""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Any

import pytest

from engine.core.reading import Reading, Source
from engine.core.view import Context
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.model.app import App
from engine.job_heuristics.spark.model.assembly import current_apps
from engine.job_heuristics.spark.reading.event_log import EventLog
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import spark_log
from sample_data.job_heuristics.shapes import SPARK_LIVE
from sample_data.job_heuristics.spark_log import AppPlan, StagePlan
from tests.engine.job_heuristics.helper import Store, inputs_of

APP = "application_1760000000000_0042"
PLAN = AppPlan("small", "ann", "etl", ((StagePlan("a", 6, 2.0, input_mb=3), StagePlan("b", 3, 1.0, shuffle_read_mb=2)),),
               executors=2, table="t")  # fmt: skip
LINES = [spark_log.line(event) for _, event in spark_log.events(PLAN, APP, 1_760_000_000_000)]
LOG = b"".join(LINES)


def read(data: bytes, name: str = APP, final: bool = True) -> Reading:
    return EventLog().read(Source(f"/{name}", name, 0, len(data)), data, None, final)


def apps(files: dict[str, bytes]) -> dict[str, App]:
    return dict(current_apps(inputs_of(files), Context(0)).apps)


def facts(app: App) -> Any:
    """Everything that the history server would show."""
    return app.jobs, app.stages, app.executors, app.state, app.properties, app.tasks.drop("seq", "start_seq").rows()


def test_cut_at_any_byte_it_is_the_same_as_growing() -> None:
    places = random.Random(1).sample(range(200, len(LOG)), 12)
    for cut in places:
        store = Store()
        store.put(f"/{APP}.inprogress", LOG[:cut], final=False)
        found = current_apps(store.inputs(), Context(0)).apps
        whole = LOG[: LOG.rfind(b"\n", 0, cut) + 1]
        once = apps({f"/{APP}.inprogress": whole})
        assert {k: facts(v) for k, v in found.items()} == {k: facts(v) for k, v in once.items()}
        store.put(f"/{APP}.inprogress", LOG, final=False)
        assert not store.problems
        assert facts(current_apps(store.inputs(), Context(0)).apps[APP]) == facts(apps({f"/{APP}": LOG})[APP])


def test_a_cut_end_is_normal_only_while_it_grows() -> None:
    cut = LOG[: len(LOG) - 30]
    assert [p.kind for p in read(cut).problems] == ["cut-file"] and read(cut).problems[0].line == len(LINES)
    assert not read(cut, f"{APP}.inprogress").problems and not read(cut, f"events_3_{APP}").problems
    app = apps({f"/{APP}": cut})[APP]
    assert app.state == "UNKNOWN" and "cut in the last line" in app.upstream_error
    assert apps({f"/{APP}.inprogress": cut})[APP].state == "RUNNING"


def test_parts_of_a_rolling_log_are_one_application() -> None:
    third = len(LINES) // 3
    parts = [b"".join(LINES[:third]), b"".join(LINES[third : 2 * third]), b"".join(LINES[2 * third :])]
    folder = f"/logs/eventlog_v2_{APP}"
    files = {f"{folder}/events_{k}_{APP}": part for k, part in enumerate(parts, 1)}
    assert facts(apps(files)[APP]) == facts(apps({f"/{APP}": LOG})[APP])
    assert apps(files)[APP].upstream_error == ""
    # A compacted part replaces those before it, which may still be there.
    compacted = {**files, f"{folder}/events_2_{APP}.compact": parts[0] + parts[1]}
    assert facts(apps(compacted)[APP]) == facts(apps({f"/{APP}": LOG})[APP])
    del files[f"{folder}/events_2_{APP}"]
    assert "missing event log file" in apps(files)[APP].upstream_error
    only_last = apps({f"{folder}/events_3_{APP}": parts[2]})
    assert "not listed" in only_last[APP].upstream_error


def test_an_archive_is_its_logs() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"eventlog_v2_{APP}/appstatus_{APP}", "")
        archive.writestr(f"eventlog_v2_{APP}/events_1_{APP}", b"".join(LINES[:9]))
        archive.writestr(f"eventlog_v2_{APP}/events_2_{APP}", b"".join(LINES[9:]))
    data = file.getvalue()
    assert facts(apps({f"/eventLogs-{APP}.zip": data})[APP]) == facts(apps({f"/{APP}": LOG})[APP])
    for end in random.Random(2).sample(range(4, len(data)), 5):
        inputs_of({f"/eventLogs-{APP}.zip": data[:end]})


def test_attempts_are_told_apart_and_the_newest_counts() -> None:
    first = LOG.replace(b'"App ID"', b'"App Attempt ID":"1","App ID"')
    second = b"".join(
        spark_log.line(e) for _, e in spark_log.events(PLAN, APP, 1_760_000_900_000)
    ).replace(b'"App ID"', b'"App Attempt ID":"2","App ID"')  # fmt: skip
    app = apps({f"/{APP}_1": first, f"/{APP}_2": second})[APP]
    assert [attempt.attempt for attempt in app.attempts] == ["2", "1"] and app.start_ms == 1_760_000_900_000


def test_bad_files_leave_the_others() -> None:
    deep = '{"nodeName":"Filter","simpleString":"x","metadata":{},"metrics":[],"children":[' * 500 + "]}" * 500
    hostile = [
        b"no json\n",
        b'{"Event":"SparkListenerTaskEnd","Stage ID":0\n',
        b'{"Event":"SparkListenerTaskEnd","Stage ID":99999999999999999999999999,"Task Info":{"Task ID":1}}\n',
        b'{"Event":"SparkListenerJobStart","Job ID":7,"Stage Infos":"none","Stage IDs":{}}\n',
        b'{"Event":"SparkListenerStageCompleted","Stage Info":{"Stage ID":77,"Stage Name":"\\u001b[31m\\u202ered"}}\n',
        b'{"Event":"SparkListenerEnvironmentUpdate","Spark Properties":17}\n',
        b'{"Event":"com.example.Unheard","a":1}\n' * 3,
        b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":9,"time":1,'
        b'"sparkPlanInfo":' + deep.encode() + b"}\n",
        b"\xff\xfe\n",
    ]
    data = b"".join(LINES[:-1]) + b"".join(hostile) + LINES[-1]
    reading = read(data)
    assert {p.kind for p in reading.problems} >= {"bad-event", "bad-record"} and all(p.line for p in reading.problems)
    app, clean = apps({f"/{APP}": data})[APP], apps({f"/{APP}": LOG})[APP]
    assert app.jobs[-1] == clean.jobs[-1] and app.executors == clean.executors and app.state == "SUCCEEDED"
    assert "no event" in app.upstream_error
    assert any("com.example.Unheard (3)" in note for note in app.notes)
    assert "\x1b" not in json.dumps([stage.name for stage in app.stages])


def test_crlf_and_blanks_are_read() -> None:
    assert facts(apps({f"/{APP}": LOG.replace(b"\n", b"\r\n")})[APP]) == facts(apps({f"/{APP}": LOG})[APP])
    spaced = b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in LINES)
    assert facts(apps({f"/{APP}": spaced})[APP]) == facts(apps({f"/{APP}": LOG})[APP])


def test_the_past_is_what_the_log_held_then() -> None:
    events = spark_log.events(PLAN, APP, 1_760_000_000_000)
    for at in (1_760_000_003_700, 1_760_000_005_500, 1_760_000_009_000):
        then = b"".join(spark_log.line(event) for ms, event in events if ms <= at)
        inputs = inputs_of({f"/{APP}.inprogress": LOG})
        back = current_apps(inputs, Context(0, at_ms=at)).apps[APP]
        was = apps({f"/{APP}.inprogress": then})[APP]
        assert back.jobs == was.jobs and back.stages == was.stages
        assert [(e.name, e.task_ms, e.total_tasks) for e in back.executors] == [
            (e.name, e.task_ms, e.total_tasks) for e in was.executors
        ]


def test_costs_add_up_and_other_executors_are_judged_again() -> None:
    data = b"".join(spark_log.line(event) for _, event in spark_log.events(SPARK_LIVE[0], APP, 1_760_000_000_000))
    inputs = inputs_of({f"/{APP}": data})
    result = VIEW.compute(inputs, JobParameters(job=APP, executors=8, executor_mb=12288), Context(0))
    app = current_apps(inputs, Context(0)).apps[APP]
    containers = sum((4096 + 409) * (app.end_ms - e.add_ms) for e in app.executors if e.name != "driver")
    driver = (2048 + 384) * (app.end_ms - app.start_ms)
    assert result.tables["costs"]["mb_ms"].sum() == containers + driver
    told = dict(result.tables["what_if"].select("what", "predicted").iter_rows())
    assert told["Spark Configuration"] == "LOW"  # 12 GiB
    scale = {row["executors"]: row for row in result.tables["other_executors"].iter_rows(named=True)}
    assert scale[8]["runtime_ms"] < scale[4]["runtime_ms"] < scale[1]["runtime_ms"] and "now" in scale[4]["mark"]
    assert abs(scale[4]["runtime_ms"] - app.runtime_ms) < 0.05 * app.runtime_ms
    insights = {(row["topic"], row["subject"]): row for row in result.tables["insights"].iter_rows(named=True)}
    assert (
        5 < float(insights["skew", "stage 1"]["value"].split()[0]) < 7
        and insights["spill", "stage 1"]["severity"] != "NONE"
    )


@pytest.mark.parametrize("seed", range(3))
def test_pieces_give_the_same_rows(seed: int) -> None:
    draw = random.Random(seed)
    reader, state, at, gathered = EventLog(), None, 0, []
    while at < len(LOG):
        piece = LOG[at : at + draw.randrange(1, 9000)]
        reading = reader.read(Source("/x", APP, 0, len(LOG), at), piece, state, False)
        if not reading.consumed:
            nxt = LOG.find(b"\n", at) + 1
            reading = reader.read(Source("/x", APP, 0, len(LOG), at), LOG[at:nxt], state, False)
        at, state = at + reading.consumed, reading.state
        gathered += list(zip(*reading.rows.get("spark_task_ends", {"seq": ()}).values(), strict=True))
    whole = list(zip(*read(LOG).rows["spark_task_ends"].values(), strict=True))
    start = list(read(LOG).rows["spark_task_ends"]).index("start_seq")
    assert [(*r[:start], *r[start + 1 :]) for r in gathered] == [(*r[:start], *r[start + 1 :]) for r in whole]


def test_a_folder_of_spark_1_is_named_by_its_folder() -> None:
    old = LOG.replace(f'"App ID":"{APP}",'.encode(), b"").replace(
        b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n', b""
    )
    folders = {f"/logs/wordcount-{k}/EVENT_LOG_1": old for k in (1, 2)}
    found = apps(folders)
    assert set(found) == {"wordcount-1", "wordcount-2"}
    assert facts(found["wordcount-1"])[:4] == facts(apps({f"/{APP}": LOG})[APP])[:4]
    assert "Spark 1.0 to 1.2" in found["wordcount-1"].upstream_error


def test_parts_of_a_databricks_log_are_one_application_in_their_order() -> None:
    lines = LOG.splitlines(keepends=True)
    names = ("eventlog-2026-01-05--10-30", "eventlog-2026-01-05--11-30", "eventlog")
    head = b'{"Event":"DBCEventLoggingListenerMetadata","Rollover Number":0}\n'
    cuts = [0, len(lines) // 3, 2 * len(lines) // 3, len(lines)]
    store = Store()
    for k in (2, 0, 1):
        store.put(
            f"/0105-abc/eventlog/0105-abc_10_0_0_5/7/{names[k]}",
            head + b"".join(lines[cuts[k] : cuts[k + 1]]),
            final=True,
        )
    found = current_apps(store.inputs(), Context(0)).apps
    assert not store.problems and set(found) == {APP}
    assert facts(found[APP]) == facts(apps({f"/{APP}": LOG})[APP])
    only = Store()
    only.put("/0105-abc_10_0_0_5/7/eventlog", head + b"".join(lines[cuts[2] :]), final=True)
    (app,) = current_apps(only.inputs(), Context(0)).apps.values()
    assert app.app_id == "0105-abc_10_0_0_5-7" and "does not name its application" in app.upstream_error
