"""Files that are cut, wrong, hostile or huge: never an exception, a hang or a silent wrong number; a problem each."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.parameters import Attachment
from engine.core.reading import Problem, Reading, Source
from engine.core.view import Context, NoInput, Result
from engine.job_heuristics.mapreduce.model.job_conf import named_task
from engine.job_heuristics.mapreduce.reading.kinds import HISTORY
from engine.job_heuristics.mapreduce.tables import JOB_EVENTS
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import Shape
from sample_data.job_heuristics.plans import make as plan
from tests.chance import every, tries
from tests.engine.job_heuristics.helper import inputs_of


@cache
def job() -> writer.Job:
    return plan(Shape("small", "ann", "etl", maps=2, reduces=1), 7, 1_760_000_000_000, 3)


@cache
def text() -> bytes:
    return writer.text(job())


@cache
def binary() -> bytes:
    return writer.binary(job())


def read(data: bytes, *, name: str = "x.jhist", state: Any = None, offset: int = 0, final: bool = True) -> Reading:
    return HISTORY.read(Source(f"/d/{name}", name, 0, len(data), offset), data, state, final)


def compute(data: bytes, *, conf: bytes | None = None, name: str = "x.jhist", **parameters: Any) -> Result:
    files = {f"/d/{name}": data, f"/d/{job().id}_conf.xml": conf or writer.conf_xml(job())}
    return VIEW.compute(inputs_of(files), JobParameters(**parameters), Context(0))


@cache
def whole() -> Result:
    return compute(text())


def kinds(problems: tuple[Problem, ...] | list[Problem]) -> set[str]:
    return {p.kind for p in problems}


def ends(reading: Reading) -> list[str]:
    table = next(t for t in HISTORY.tables if t.name == "task_ends")
    return table.frame(reading.rows.get("task_ends", {}))["task_id"].to_list()


@pytest.mark.parametrize("form", ["text", "binary"])
def test_cut_at_any_byte(form: str) -> None:
    """Whole records are kept, nothing is invented, and a cut inside a record is a problem."""
    data = text() if form == "text" else binary()
    whole = read(data)
    assert not whole.problems
    records = [len(data)]
    head = data.index(b"\n", data.index(b"\n") + 1) + 1
    order = [ends(read(data[:at])) for at in (head, len(data))]
    assert order[0] == []
    last: list[str] = []
    for at in [*range(0, head, 997), *range(head, len(data), every(127)), *records]:
        found = read(data[:at])
        tasks = ends(found)
        assert tasks[: len(last)] == last
        assert ends(whole)[: len(tasks)] == tasks
        last = tasks
        clean_end = found.consumed == at or data[found.consumed : at].strip() == b""
        assert clean_end or found.problems, at
        live = read(data[:at], final=False)
        assert live.consumed <= at
        assert not (kinds(live.problems) & {"cut-file", "bad-record"}), at


@pytest.mark.parametrize("form", ["text", "binary"])
def test_read_in_pieces_equals_read_at_once(form: str) -> None:
    data = text() if form == "text" else binary()
    whole = read(data)
    for size in (211, 5_003, 20_011):
        state, offset, found = None, 0, []
        for stop in [*range(size, len(data), size), len(data)]:
            piece = read(data[offset:stop], state=state, offset=offset, final=False)
            assert not piece.problems
            state, offset = piece.state, offset + piece.consumed
            found += ends(piece)
        assert offset == len(data)
        assert found == ends(whole)


@tries(12)
@given(st.binary(max_size=400), st.sampled_from(["x.jhist", "job_1_1_conf.xml", "x.json", "job_1_1.summary"]))
def test_garbage_never_raises(data: bytes, name: str) -> None:
    prefixes = (
        b"",
        b"Avro-Json\n",
        b"Avro-Binary\n",
        b'{"jobs":{"job":',
        b'{"jobID":"job_1_1","mapTasks":[',
        b"jobId=job_1_1,",
    )
    for kind in VIEW.kinds:
        for prefix in prefixes:
            given_ = prefix + data
            kind.recognise(name, given_)
            reading = kind.read(Source(f"/d/{name}", name, 0, len(given_)), given_, None, True)
            for table in kind.tables:
                if table.name in reading.rows:
                    table.frame(reading.rows[table.name])


def test_one_bad_line_costs_one_line() -> None:
    lines = text().split(b"\n")
    number = next(i for i, line in enumerate(lines) if b"MAP_ATTEMPT_STARTED" in line and i > 2)
    lines[number] = lines[number][:100] + b"#" + lines[number][100:]
    result = compute(b"\n".join(lines))
    (problem,) = result.problems
    assert (problem.kind, problem.line) == ("bad-record", number + 1)
    row = result.tables["jobs"].to_dicts()[0]
    assert row["state"] == "SUCCEEDED"
    assert row["upstream_says"].startswith("java.lang.RuntimeException: Could not parse history file")
    assert "1 ended task(s) have no times" in row["notes"]


def test_text_before_the_header() -> None:
    plain = compute(text())
    result = compute(b"<!--\n licence\n-->\n" + text())
    assert kinds(result.problems) == {"text-before-header"}
    assert result.tables["heuristics"].equals(plain.tables["heuristics"])
    assert (
        result.tables["jobs"]["upstream_says"].item().startswith("java.io.IOException: Incompatible event log version")
    )


def test_no_header_no_schema() -> None:
    header, schema, rest = text().split(b"\n", 2)
    assert kinds(compute(rest).problems) == {"no-header"}
    assert kinds(compute(header + b"\n" + rest).problems) == {"bad-schema"}
    assert kinds(compute(header + b"\n" + b'{"type":"nonsense"}\n' + rest).problems) == {"bad-schema"}
    assert compute(header + b"\n" + b"{}\n" + rest).tables["jobs"]["state"].to_list() == ["SUCCEEDED"]
    reading = read(b"Avro-Binary\n" + b'{"type":"record"}\n' + binary().split(b"\n", 2)[2])
    assert kinds(reading.problems) == {"bad-schema"}
    assert schema.startswith(b'{"type": "record"') or schema.startswith(b'{"type":"record"')


def test_wrong_schema_in_binary_is_a_problem_not_numbers() -> None:
    """A file whose schema is not the one it was written with."""
    _, schema, rest = binary().split(b"\n", 2)
    other = json.loads(schema)
    records = other["fields"][1]["type"]
    records.reverse()
    changed = json.dumps(other, separators=(",", ":")).encode()
    reading = read(b"Avro-Binary\n" + changed + b"\n" + rest)
    assert reading.problems


def test_lying_file_name() -> None:
    name = "job_1111111111111_0001-1-mallory-x-2-9-9-FAILED-other-1.jhist"
    result = compute(text(), name=name)
    row = result.tables["jobs"].to_dicts()[0]
    assert (row["job_id"], row["user"], row["state"]) == (job().id, "ann", "SUCCEEDED")


def test_conf_is_found_under_the_lying_name() -> None:
    name = "job_1111111111111_0001-1-ann-x-2-9-9-SUCCEEDED-other-1.jhist"
    files = {f"/d/{name}": text(), "/d/job_1111111111111_0001_conf.xml": writer.conf_xml(job())}
    result = VIEW.compute(inputs_of(files), JobParameters(), Context(0))
    assert result.tables["jobs"]["upstream_says"].to_list() == [""]


@pytest.mark.parametrize("record", ["JobSubmitted", "JobInited", "JobFinished"])
@pytest.mark.parametrize("odd", ["", "5", "job_1_x", "application_1760000000000_0007"])
def test_an_invalid_job_id_adds_no_job(record: str, odd: str) -> None:
    """Its record is of the job that the others name, and Hadoop's parser throws where it reads the id."""
    sound = whole().tables["jobs"].drop("upstream_says")
    result = compute(re.sub(rf'({record}":{{"jobid":")[^"]*'.encode(), rb"\g<1>" + odd.encode(), text()))
    assert [(p.kind, p.reason) for p in result.problems] == [("bad-record", "a job id that names no job")]
    jobs = result.tables["jobs"]
    assert jobs.drop("upstream_says").equals(sound)
    assert jobs["upstream_says"].item().startswith("java.lang.IllegalArgumentException") == (record != "JobInited")


def test_hostile_names() -> None:
    evil = "\x1b]0;owned\x07[bold red]" + "\u202e" + "x" * 1_000_000
    bad = plan(Shape(evil, "a\x1bnn", "q\u2028x", maps=1, reduces=0), 8, 1_760_000_000_000, 3)
    result = compute(writer.text(bad))
    row = result.tables["jobs"].to_dicts()[0]
    for key in ("name", "user", "queue", "notes"):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]", row[key])
    assert len(row["name"]) <= 4096
    assert "[bold red]" in row["name"]


def test_not_utf8() -> None:
    data = text().replace(b'"userName":"ann"', b'"userName":"\xff\xfe"')
    result = compute(data)
    assert kinds(result.problems) == {"bad-text"}
    assert result.tables["jobs"]["user"].to_list() == ["\ufffd\ufffd"]


def test_counters_beyond_64_bit() -> None:
    number = str(2**63).encode()
    data = re.sub(rb'("name":"CPU_MILLISECONDS","displayName":"[^"]*","value":)\d+', rb"\g<1>" + number, text())
    result = compute(data, job=job().id)
    assert "bad-number" in kinds(result.problems)
    assert result.tables["tasks"]["cpu_ms"].to_list() == [None, None, None]
    huge = re.sub(rb'"finishTime":\d+', b'"finishTime":' + b"9" * 40, text())
    assert "bad-record" in kinds(compute(huge).problems)


def test_fractions_are_cut_as_hadoop_cuts_them() -> None:
    for value, whole in ((b"1.5", 1), (b"-1.9", -1), (b"1e3", 1000), (b"1.9e18", 19 * 10**17)):
        data = re.sub(rb'("name":"SPILLED_RECORDS","displayName":"[^"]*","value":)\d+', rb"\g<1>" + value, text())
        result = compute(data, job=job().id)
        assert not result.problems and result.tables["jobs"]["upstream_says"].item() == ""
        assert result.tables["tasks"]["spilled_records"].drop_nulls().to_list() == [whole] * 3


def test_invalid_numbers() -> None:
    for value in (b"NaN", b"1e400", b'"5"', b"null", b"1e30", b"true"):
        data = re.sub(rb'("name":"SPILLED_RECORDS","displayName":"[^"]*","value":)\d+', rb"\g<1>" + value, text())
        result = compute(data, job=job().id)
        assert result.problems, value
        assert result.tables["tasks"]["spilled_records"].null_count() >= 1


@pytest.mark.parametrize(
    "conf",
    [
        b"<configuration><property><name>a</name>",
        b'<!DOCTYPE c [<!ENTITY a "b">]><configuration><property><name>&a;</name><value>1</value></property></configuration>',
        b'<!DOCTYPE c SYSTEM "file:///etc/passwd"><configuration/>',
        b"<other/>",
        b"\xff\xfe\x00",
        b"",
    ],
)
def test_bad_configuration(conf: bytes) -> None:
    files = {"/d/x.jhist": text(), f"/d/{job().id}_conf.xml": conf}
    result = VIEW.compute(inputs_of(files), JobParameters(), Context(0))
    assert kinds(result.problems) == {"bad-xml"}
    row = result.tables["jobs"].to_dicts()[0]
    assert row["severity"] is not None
    assert "no configuration found" in row["notes"]


def test_variables_that_never_end() -> None:
    for value in ("${mapreduce.map.memory.mb}", "${a}", "${", "$}{", "${b}" * 50_000):
        conf = (
            "<configuration><property><name>mapreduce.map.memory.mb</name><value>" + value + "</value></property>"
            "<property><name>b</name><value>${b}${b}</value></property><property>"
            "<name>mapreduce.job.reduce.slowstart.completedmaps</name><value>0.05</value></property></configuration>"
        )
        result = compute(text(), conf=conf.encode())
        row = result.tables["jobs"].to_dicts()[0]
        # What is no number is only logged; a variable without its braces is cut out of the text beyond its ends.
        thrown = value in ("${", "$}{")
        assert row["upstream_says"].startswith("java.lang.StringIndexOutOfBoundsException") == thrown
        assert thrown or not row["upstream_says"]
        assert "is not a number" in row["notes"]


def test_broken_rest_answer() -> None:
    rest = next(k for k in VIEW.kinds if k.id == "mapreduce-rest")
    data = b'{"job":{"id":"job_1_1","name":7,"submitTime":"x","finishTime":1e99,"state":"SUCCEEDED","mapsTotal":-5}}'
    reading = rest.read(Source("/d/job.json", "job.json", 0, len(data)), data, None, True)
    assert len(reading.problems) == 4
    cut = rest.read(Source("/d/job.json", "job.json", 0, 30), data[:30], None, True)
    assert not cut.complete
    assert kinds(cut.problems) == {"bad-json"}
    deep = b'{"job":' + b"[" * 100_000
    assert not rest.read(Source("/d/j", "j", 0, len(deep)), deep, None, True).complete


def test_heuristic_conf_problems() -> None:
    conf = b"""<heuristics>
    <heuristic><applicationtype>mapreduce</applicationtype><heuristicname>Mapper GC</heuristicname>
    <classname>x.MapperGCHeuristic</classname><params><gc_ratio_severity>1,2,3</gc_ratio_severity>
    <runtime_severity_in_min>1, __import__('os'), 3, 4</runtime_severity_in_min><nonsense>1</nonsense></params></heuristic>
    <heuristic><applicationtype>mapreduce</applicationtype><heuristicname>Mine</heuristicname>
    <classname>x.OwnHeuristic</classname></heuristic>
    <heuristic><applicationtype>spark</applicationtype><heuristicname>S</heuristicname><classname>x.S</classname></heuristic>
    </heuristics>"""
    result = compute(text(), heuristic_conf=Attachment("HeuristicConf.xml", conf))
    assert sorted(p.kind for p in result.problems) == [
        "bad-threshold", "bad-threshold", "unknown-heuristic", "unknown-heuristic", "unknown-parameter",
    ]  # fmt: skip
    assert result.tables["heuristics"]["heuristic"].to_list() == ["Mapper GC"]
    broken = compute(text(), heuristic_conf=Attachment("HeuristicConf.xml", b"<heuristics>"))
    assert kinds(broken.problems) == {"bad-heuristic-conf"}
    assert broken.tables["heuristics"].equals(compute(text()).tables["heuristics"])


def test_same_job_twice_counts_once() -> None:
    files = {
        "/staging/x_1.jhist": text()[: len(text()) // 2],
        f"/done/{job().file_name}": text(),
        f"/done/{job().id}_conf.xml": writer.conf_xml(job()),
        "/copy/b.jhist": binary(),
    }
    result = VIEW.compute(inputs_of(files, final=False), JobParameters(), Context(0))
    assert result.tables["jobs"].height == 1
    alone = compute(text())
    assert result.tables["heuristics"].equals(alone.tables["heuristics"])
    assert result.tables["jobs"].drop("notes").equals(alone.tables["jobs"].drop("notes"))


def test_a_lost_node_undoes_a_finished_task() -> None:
    """An attempt that had succeeded and is then killed: the task is unfinished until another attempt ends it."""
    lost = writer.text_line(
        (
            0, "MAP_ATTEMPT_KILLED", "TaskAttemptUnsuccessfulCompletion",
            {
                "taskid": f"task_{job().id[4:]}_m_000000", "taskType": "MAP",
                "attemptId": f"attempt_{job().id[4:]}_m_000000_0", "finishTime": job().finish_ms, "hostname": "h",
                "port": 1, "rackname": "/r", "status": "KILLED", "error": "lost node", "counters": None,
                "clockSplits": [], "cpuUsages": [], "vMemKbytes": [], "physMemKbytes": [],
            },
        )
    )  # fmt: skip
    lines = text().rstrip().split(b"\n")
    running = b"\n".join(lines[:-1]) + b"\n" + lost
    result = compute(running)
    row = result.tables["jobs"].to_dicts()[0]
    assert (row["state"], row["maps_finished"]) == ("RUNNING", 1)
    ended = compute(running + lines[-1] + b"\n").tables["jobs"].to_dicts()[0]
    assert ended["maps_finished"] == 1
    assert "NullPointerException" in ended["upstream_says"]


def test_looking_back_in_time() -> None:
    files = {f"/d/{job().file_name}": text(), f"/d/{job().id}_conf.xml": writer.conf_xml(job())}
    inputs = inputs_of(files)
    first = min(a.finish_ms or 0 for t in job().maps for a in t.attempts)
    then = VIEW.compute(inputs, JobParameters(), Context(0, at_ms=first))
    row = then.tables["jobs"].to_dicts()[0]
    assert (row["state"], row["finish_ms"], row["maps_finished"]) == ("RUNNING", None, 1)
    assert (row["maps"], row["reduces"], row["attempts_running"]) == (2, 1, 1)
    now = VIEW.compute(inputs, JobParameters(), Context(0, at_ms=job().finish_ms))
    assert now.tables["jobs"]["state"].to_list() == ["SUCCEEDED"]
    with pytest.raises(NoInput):
        VIEW.compute(inputs, JobParameters(), Context(0, at_ms=job().submit_ms - 1))


def test_files_without_a_job() -> None:
    with pytest.raises(NoInput):
        VIEW.compute(inputs_of({"/d/x.jhist": b"Avro-Json\n"}), JobParameters(), Context(0))


def test_a_job_that_ended_in_error_is_listed() -> None:
    data = (
        text()
        .replace(b'"type":"JOB_FINISHED"', b'"type":"JOB_ERROR"')
        .replace(b"jobhistory.JobFinished", b"jobhistory.JobUnsuccessfulCompletion")
    )
    row = compute(data).tables["jobs"].to_dicts()[0]
    assert row["state"] == "ERROR"
    assert row["upstream_says"] == "java.lang.RuntimeException: job neither succeeded or failed. can not process it "
    assert row["severity"] is not None


def test_no_times_at_all() -> None:
    """Zero-length and backward attempts: named, not divided by."""
    start = re.search(rb'MAP_ATTEMPT_STARTED.*?"startTime":(\d+)', text())
    assert start is not None
    data = re.sub(
        rb'("attemptId":"attempt_\d+_\d+_m_\d+_0","taskType":"MAP","taskStatus":"SUCCEEDED".*?"finishTime":)\d+',
        rb"\g<1>" + start.group(1), text(),
    )  # fmt: skip
    result = compute(data)
    row = result.tables["jobs"].to_dicts()[0]
    assert row["upstream_says"] == "java.lang.ArithmeticException: / by zero"
    assert "of 0 ms" in row["notes"]
    assert result.tables["heuristics"].filter(pl.col("heuristic") == "Mapper Skew").height == 1


def rest_of(data: bytes) -> Reading:
    rest = next(k for k in VIEW.kinds if k.id == "mapreduce-rest")
    return rest.read(Source("/d/jobs.json", "jobs.json", 0, len(data)), data, None, True)


@pytest.mark.parametrize(
    "odd", [b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"9" * 5000, b"1e999", b'"\xff"']
)
def test_one_odd_value_leaves_the_rest_of_an_answer(odd: bytes) -> None:
    data = b'{"jobs":{"job":[{"id":"job_1_1","x":' + odd + b'},{"id":"job_1_2","name":"good","submitTime":5}]}}'
    reading = rest_of(data)
    assert reading.complete and kinds(reading.problems) <= {"nested-too-deeply", "not-utf-8"}
    events = JOB_EVENTS.frame(reading.rows["job_events"])
    assert events.select("job_id", "submit_ms").rows() == [("job_1_1", None), ("job_1_2", 5)]
    assert not rest_of(data[:-1]).complete


def test_equal_problems_take_no_memory() -> None:
    head = b"\n".join(text().split(b"\n")[:2]) + b"\n"
    (problem,) = read(head + b"x\n" * 50_000).problems
    assert (problem.kind, problem.line, problem.count) == ("bad-record", 3, 50_000)
    names = b"".join(b'{"type":"A%s"}\n' % bytes(65 + n // 26**k % 26 for k in range(3)) for n in range(3000))
    problems = read(head + names).problems
    assert len(problems) <= 2000 and sum(each.count for each in problems) == 3000


def schema_with(extra: Any) -> bytes:
    """A binary history whose schema has one more record of events, ``extra``, and one such event."""
    schema = json.loads(binary().split(b"\n", 2)[1])
    kinds_, events = schema["fields"][0]["type"], schema["fields"][1]["type"]
    kinds_["symbols"].append("EXTRA")
    events.append({"type": "record", "name": "Extra", "fields": [{"name": "x", "type": extra}]})
    lead = writer._long(len(kinds_["symbols"]) - 1) + writer._long(len(events) - 1)
    rest = binary().split(b"\n", 2)[2]
    return b"Avro-Binary\n" + json.dumps(schema).encode() + b"\n" + rest + lead


def test_schemas_that_would_never_end() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    nulls = {"type": "array", "items": "null"}
    many = writer._long(60_000_000)
    empty = {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]}
    assert kinds(read(schema_with({"type": "map", "values": "null"}) + many * 50_000).problems) == {"cut-file"}
    assert kinds(read(schema_with({"type": "array", "items": "int"}) + many * 50_000).problems) == {"cut-file"}
    for bad in (
        node, nulls, {"type": "array", "items": empty}, {"type": "array", "items": ["null", nulls]}, ["Extra"],
        {"type": "fixed", "name": "F", "size": -5}, {"type": "fixed", "name": "F", "size": "x"},
        {"type": "enum", "name": "E", "symbols": 5}, {"type": "fixed", "name": "F"}, {"type": 5},
    ):  # fmt: skip
        assert kinds(read(schema_with(bad)).problems) == {"bad-schema"}


@pytest.mark.parametrize("form", ["text", "binary"])
def test_the_last_of_two_groups_with_one_name_counts(form: str) -> None:
    tasks = (writer.Task("MAP", job().submit_ms, (writer.Attempt(job().submit_ms, job().submit_ms + 9),)),)
    plain = writer.Job(
        **{**{f: getattr(job(), f) for f in job().__dataclass_fields__}, "maps": tasks * 3, "reduces": ()}
    )
    group = "org.apache.hadoop.mapreduce.TaskCounter"

    def counters(*values: int) -> dict[str, Any]:
        rows = [[{"name": "CPU_MILLISECONDS", "displayName": "", "value": value}] for value in values]
        return {"name": "COUNTERS", "groups": [{"name": group, "displayName": "", "counts": row} for row in rows]}

    events = []
    for event in writer.events(plain):
        if event[1] == "TASK_FINISHED":
            event = (*event[:3], {**event[3], "counters": counters(1, 2)})
        events.append(event)
    line = writer.text_line if form == "text" else writer.binary_record
    data = writer.head(binary=form == "binary") + b"".join(map(line, events))
    assert compute(data, job=plain.id).tables["tasks"]["cpu_ms"].to_list() == [2, 2, 2]


@pytest.mark.parametrize(("names", "text_"), [(121, "counters: 121"), (120, "")])
def test_more_counters_than_hadoop_takes(names: int, text_: str) -> None:
    group = {
        "name": "mine",
        "displayName": "",
        "counts": [{"name": f"c{n}", "displayName": "", "value": n} for n in range(names)],
    }
    events = [
        (*event[:3], {**event[3], "counters": {"name": "COUNTERS", "groups": [group]}})
        if "MAP_ATTEMPT_FINISHED" in event
        else event
        for event in writer.events(job())
    ]
    data = writer.head(binary=False) + b"".join(map(writer.text_line, events))
    says = compute(data).tables["jobs"]["upstream_says"].item()
    assert (text_ in says) if text_ else says == ""


def test_the_task_that_diagnostics_name() -> None:
    task = "task_1_2_m_3"
    for words, named in (
        (f"Task failed {task} here", task), (f"a\n {task} \nb", task), (f"a\nb {task} c", None), (f"{task} x", None),
        (f"a {task}", None), (f"a {task} b task_1_2_r_4 c", "task_1_2_r_4"), (f"a {task} b\nc", None), ("", None),
    ):  # fmt: skip
        assert named_task(words) == named, words
    assert named_task((" " * 500 + task) * 200) == task
