"""Files of Tez in every form, whole and damaged: what is whole stays exact, the rest is a problem."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reading import Source
from engine.core.view import Context, Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tez.model import Dag, waves_of
from engine.job_heuristics.tez.reading.entities import hash_order, whole
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import tez_history as tez
from sample_data.job_heuristics.tez_history import DagPlan, VertexPlan
from tests.engine.job_heuristics.helper import Store, inputs_of

APP = "application_1760000000000_9700"
PLAN = DagPlan("orders", (
    VertexPlan("Map 1", "map", 6, 20, hot=1), VertexPlan("Map 3", "map", 2, 6, 8),
    VertexPlan("Reducer 2", "reduce", 3, 12, 40, (("Map 1", "SCATTER_GATHER"), ("Map 3", "BROADCAST")), failing=1),
))  # fmt: skip
EVENTS = tez.events(APP, [PLAN, DagPlan("late", PLAN.vertices, ends="FAILED")], 1_760_400_000_000, 3)
NAMES = ("jobs", "heuristics", "costs", "tez_dags", "tez_vertices", "tez_tasks", "insights")


def ui_zip(kinds: Mapping[str, str] | None = None) -> bytes:
    made, entities = io.BytesIO(), tez.entities(EVENTS)
    parts = {"vertices_part_0": ("vertices", "TEZ_VERTEX_ID"), "tasks_part_0": ("tasks", "TEZ_TASK_ID"),
             "task_attempts_part_0": ("task_attempts", "TEZ_TASK_ATTEMPT_ID")}  # fmt: skip
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in reversed(entities):  # the application first
            if one["entitytype"] == "TEZ_APPLICATION":
                archive.writestr("application.json", json.dumps({"application": one}))
            elif one["entitytype"] == "TEZ_DAG_ID":
                archive.writestr("dag.json" if one["entity"].endswith("_1") else "dag-2.json", json.dumps({"dag": one}))
        for name, (key, kind) in parts.items():
            archive.writestr(f"{name}.json", json.dumps({key: [one for one in entities if one["entitytype"] == kind]}))
        for name, text in (kinds or {}).items():
            archive.writestr(name, text)
    return made.getvalue()


@cache
def files(form: str) -> dict[str, bytes]:
    if form == "answers":
        return {f"/in/{name}": data for name, data in tez.answers(EVENTS).items()}
    if form == "zip":
        return {"/in/dag.zip": ui_zip()}
    if form == "proto":
        return {"/in/dag_1": tez.proto_head() + tez.proto(EVENTS)}
    if form == "pretty":
        return {f"/in/{n}": json.dumps(json.loads(d), indent=1).encode() for n, d in tez.answers(EVENTS).items()}
    text = tez.simple(EVENTS)
    return {"/in/history.txt.appattempt_1": text if form == "simple" else text.replace(b"\x01\n", b"")}


def computed(found: Mapping[str, bytes], **options: Any) -> Result:
    return VIEW.compute(inputs_of(found), JobParameters(job=APP, **options), Context(0))


@cache
def of_form(form: str) -> Result:
    return computed(files(form))


@pytest.mark.parametrize("form", ["answers", "pretty", "zip", "simple", "joined"])
def test_every_form_gives_the_same(form: str) -> None:
    ours, wanted = of_form(form), of_form("proto")
    assert not ours.problems
    for name in NAMES:
        assert ours.tables[name].equals(wanted.tables[name]), name


def test_several_forms_of_one_application_are_one() -> None:
    both = computed(files("proto") | files("answers") | files("zip"))
    assert both.tables["jobs"].equals(of_form("proto").tables["jobs"])


def test_a_growing_history_gives_what_a_whole_one_does() -> None:
    store, data = Store(), tez.proto_head() + tez.proto(EVENTS)
    for end in (40, 700, len(data) // 2, len(data)):
        store.put("/in/dag_1", data[:end], final=False)
    last = VIEW.compute(store.inputs(), JobParameters(job=APP), Context(0))
    assert not last.problems and last.tables["tez_tasks"].equals(of_form("proto").tables["tez_tasks"])


def test_a_running_dag_is_judged_by_what_has_ended() -> None:
    result = computed({"/in/dag_1": tez.proto_head() + tez.proto(EVENTS[:40])})
    (job,) = result.tables["jobs"].to_dicts()
    assert job["state"] == "RUNNING" and job["severity"] and "has no end" in job["upstream_says"]
    assert result.tables["tez_dags"]["ms"].to_list() == [None]


@given(form=st.sampled_from(["answers", "zip", "proto", "simple"]), share=st.floats(0, 1), tail=st.booleans())
def test_a_cut_file_is_a_problem_and_what_is_whole_stays(form: str, share: float, tail: bool) -> None:
    found = files(form)
    name = "/in/TEZ_TASK_ID.json" if form == "answers" else next(iter(found))
    at = int(share * len(found[name]))
    kind = next(kind for kind in VIEW.kinds if kind.recognise(name.rpartition("/")[2], found[name][:8192]))
    data = found[name][at:] if tail else found[name][:at]
    reading = kind.read(Source(name, "x", 0, len(data)), data, None, final=True)
    rows = reading.rows.get("tez_task_facts", {})
    assert reading.problems or not data or share in (0, 1) or reading.rows or not reading.complete
    whole_rows = kind.read(Source(name, "x", 0, len(found[name])), found[name], None, final=True).rows["tez_task_facts"]
    assert isinstance(rows, dict) and isinstance(whole_rows, dict)
    known = set(zip(*(whole_rows[c] for c in ("dag", "vertex", "task", "status", "cpu_ms")), strict=True))
    assert (
        set(zip(*(rows[c] for c in ("dag", "vertex", "task", "status", "cpu_ms")), strict=True) if rows else ())
        <= known
    )


def test_damage_in_a_proto_history_costs_only_the_records_around_it() -> None:
    data = bytearray(tez.proto_head() + tez.proto(EVENTS))
    middle = data.find(tez.SYNC, len(data) // 2) + 16
    data[middle : middle + 4] = b"\x7f\xff\xff\xff"
    result = computed({"/in/dag_1": bytes(data)})
    assert [problem.kind for problem in result.problems] == ["bad-record"]
    assert result.tables["tez_tasks"].height >= of_form("proto").tables["tez_tasks"].height - 1


def test_archives_say_what_they_lack_and_open_no_archive_within() -> None:
    result = computed({"/in/dag.zip": ui_zip({"error.hive_query_id.json": "404", "more.zip": "PK\x03\x04x"})})
    assert {problem.kind for problem in result.problems} == {"partial-archive", "nested-archive"}
    assert result.tables["jobs"].height == 1


def test_answers_of_others_and_wrong_types_are_problems() -> None:
    bad = b'{"entities":[{"entitytype":"TEZ_TASK_ID","entity":5},{"entitytype":"MAPREDUCE_JOB","entity":"job_1_1"},7,null]}'
    error = (
        b'{"exception":"NotFoundException","message":"Timeline entity { id: dag_1, type: TEZ_DAG_ID } is not found"}'
    )
    result = computed(files("answers") | {"/in/a.json": bad, "/in/b.json": error})
    assert {problem.kind for problem in result.problems} == {"bad-record", "unknown-entity", "error-answer"}
    assert result.tables["jobs"].equals(of_form("answers").tables["jobs"])


def test_a_circle_among_vertices_ends_and_is_named() -> None:
    edges = (("A", "B", ""), ("B", "C", ""), ("C", "B", ""), ("C", "D", ""))
    waves, circle = waves_of(Dag("dag_1_1_1", 1, {}, edges), ["A", "B", "C", "D"])
    assert waves["A"] == 0 and circle == ("B", "C", "D") and {waves[v] for v in circle} == {1}


def group(name: str, counts: Mapping[str, int]) -> dict[str, Any]:
    return {"counterGroupName": name, "counters": [{"counterName": k, "counterValue": v} for k, v in counts.items()]}


def test_counters_and_events_tell_what_shuffles_caches_and_parallelism_did() -> None:
    own, llap = "org.apache.tez.common.counters.", "org.apache.hadoop.hive.llap.counters.LlapIOCounters"
    late = {"SHUFFLE_PHASE_TIME": 14_000, "LAST_EVENT_RECEIVED": 13_000, "REDUCE_INPUT_RECORDS": 20_000,
            "MERGE_PHASE_TIME": 5_000, "NUM_FAILED_SHUFFLE_INPUTS": 1, "SHUFFLE_BYTES": 2**20}  # fmt: skip
    placed = group(f"{own}DAGCounter", {"DATA_LOCAL_TASKS": 1, "RACK_LOCAL_TASKS": 5, "OTHER_LOCAL_TASKS": 4})
    cached = group(llap, {"CACHE_HIT_BYTES": 100, "CACHE_MISS_BYTES": 900, "TOTAL_IO_TIME_NS": 5_000_000_000})
    made = []
    for event in tez.events(
        APP, [PLAN], 1_760_400_000_000, 3, conf=tez.CONF | {"hive.tez.auto.reducer.parallelism": "true"}
    ):
        facts = dict(event.facts)
        if event.kind == "TASK_FINISHED":
            counted = [group(f"{own}TaskCounter", late)] if "_02_0" in event.name else []
            facts["counters"] = {"counterGroups": counted or facts["counters"]["counterGroups"]}
        elif event.kind == "DAG_FINISHED":
            facts["counters"] = {"counterGroups": [placed, cached]}
        elif event.kind == "VERTEX_INITIALIZED":
            facts["servicePlugin"] = "LLAP"
        made.append(dataclasses.replace(event, facts=facts))
        if event.kind == "VERTEX_INITIALIZED" and event.name.endswith("_02"):
            made[-1].facts["numTasks"] = 9
            made.append(dataclasses.replace(event, kind="VERTEX_CONFIGURE_DONE", facts={"numTasks": 3}))
    result = computed({"/in/dag_1": tez.proto_head() + tez.proto(made)})
    found = {row["topic"]: row for row in result.tables["insights"].iter_rows(named=True)}
    assert not result.problems
    told = {topic: (found[topic]["value"], found[topic]["key"]) for topic in ("locality", "LLAP cache")}
    assert told == {
        "locality": ("10%", "tez.am.container.reuse.locality.delay-allocation-millis"),
        "LLAP cache": ("10%", "hive.llap.io.memory.size"),
    }  # fmt: skip
    shuffle = found["shuffle"]
    assert shuffle["key"] == "tez.shuffle-vertex-manager.min-src-fraction" and "3 fetches failed" in shuffle["reason"]
    assert "held containers and waited" in shuffle["reason"]
    assert found["reducers"]["reason"].endswith("on: Tez made 3 of the 9 planned tasks.")


def test_a_session_of_a_hundred_dags_has_a_row_for_each() -> None:
    small = DagPlan("q", (VertexPlan("Map 1", "map", 1, 2),))
    events = tez.events(APP, [small] * 100, 1_760_400_000_000, 3)
    result = computed({"/in/dags": tez.proto_head() + tez.proto(events)})
    assert not result.problems and result.tables["tez_dags"]["state"].to_list() == ["SUCCEEDED"] * 100


@pytest.mark.parametrize("digits", [18, 19, 4000])
def test_ids_beyond_all_bounds_cost_only_themselves(digits: int) -> None:
    wide = "9" * digits
    tasks = [
        f"task_{wide}_1_1_00_000000",
        f"task_1760000000000_9700_1_{wide}_000000",
        f"task_1760000000000_9700_1_00_{wide}",
    ]
    odd = json.dumps({"entities": [{"entitytype": "TEZ_TASK_ID", "entity": one} for one in tasks]}).encode()
    result = computed(files("proto") | {"/in/odd.json": odd})
    wanted, jobs = of_form("proto").tables["jobs"], result.tables["jobs"].filter(job_id=APP)
    assert jobs.drop("notes", "upstream_says").equals(wanted.drop("notes", "upstream_says"))
    assert sum(problem.count for problem in result.problems) == (0 if digits == 18 else 3)


def test_numbers_are_javas() -> None:
    assert [whole(v) for v in (3.9, -3.9, "7", True, None, 2**63, 2**64 + 5, 1e300)] == [
        3,
        -3,
        0,
        0,
        None,
        -(2**63),
        5,
        2**63 - 1,
    ]
    names = ("TaskCounter_Reducer_2_INPUT_Map_1", "org.apache.tez.common.counters.TaskCounter", "HIVE", "Aa", "BB")
    assert sorted(hash_order(names)) == sorted(names)
    assert [name for name in hash_order(names) if len(name) == 2] == [
        "Aa",
        "BB",
    ]  # equal hashes stay in order of arrival
