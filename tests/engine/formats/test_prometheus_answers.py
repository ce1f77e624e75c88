"""Answers of Prometheus and its relatives: every form gives the same samples; problems say what helps."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.reading import Source
from engine.formats.prometheus import series
from engine.formats.prometheus.series import SeriesFile

AT = 1_700_000_040
LABELS = {"__name__": "node_cpu_seconds_total", "instance": "a:9100", "mode": "idle"}
POINTS = [[AT, "5000"], [AT + 60.5, "1.5e+10"]]
SAMPLES = [("node_cpu_seconds_total", "a:9100", "idle", AT * 1000, 5000.0),
           ("node_cpu_seconds_total", "a:9100", "idle", AT * 1000 + 60_500, 1.5e10)]  # fmt: skip


def read(data: bytes, name: str = "a.json", written_ms: int = 0) -> SeriesFile:
    assert series.looks_like(name, data[:8192])
    return series.read(Source(f"/in/{name}", name, written_ms, len(data)), data, ("instance", "mode"), "^node_cpu")


def samples(file: SeriesFile) -> list[tuple[Any, ...]]:
    return file.samples.select("metric", "instance", "mode", "time_ms", "value").rows()


def envelope(result: list[Any], kind: str = "matrix", **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}, **more}


MATRIX = envelope([{"metric": LABELS, "values": POINTS}])
EXPORT = {"metric": LABELS, "values": [5000, 1.5e10], "timestamps": [AT * 1000, AT * 1000 + 60_500]}
TEXT = 'node_cpu_seconds_total{instance="a:9100",mode="idle"}'
INSIDE = '{__name__="node_cpu_seconds_total", instance="a:9100", mode="idle"}'
FORMS = {
    "matrix": json.dumps(MATRIX),
    "indented, keys sorted": "\ufeff" + json.dumps(MATRIX, indent=2, sort_keys=True),
    "result first": json.dumps({"data": {"result": MATRIX["data"]["result"], "resultType": "matrix"}, "status": "success"}),
    "vectors": "\n".join(json.dumps(envelope([{"metric": LABELS, "value": point}], "vector")) for point in POINTS),
    "list of series": json.dumps(MATRIX["data"]["result"]),
    "extra parts": json.dumps({**MATRIX, "infos": ["not a counter"], "stats": {"seriesFetched": "1"}, "isPartial": False}),
    "native histogram": json.dumps(envelope([{"metric": {**LABELS, "mode": "user"}, "histograms": [[AT, {"count": "3"}]]},
                                             {"metric": LABELS, "values": POINTS}])),
    "export line": json.dumps(EXPORT) + "\n",
    "export lines": "".join(json.dumps({**EXPORT, "values": [value], "timestamps": [at]}) + "\n"
                            for value, at in zip(EXPORT["values"], EXPORT["timestamps"], strict=True)),
    "csv": "__name__,instance,mode,__value__,__timestamp__:unix_ms\n"
           + "".join(f"node_cpu_seconds_total,a:9100,idle,{float(v)},{round(t * 1000)}\n" for t, v in POINTS),
    "csv of seconds": "__timestamp__:rfc3339,mode,instance,__value__,__name__\n"
           "2023-11-14T22:14:00Z,idle,a:9100,5000,node_cpu_seconds_total\n"
           "2023-11-14T22:15:00.5Z,idle,a:9100,15000000000,node_cpu_seconds_total\n",
    "federate": "".join(f"{TEXT} {v} {round(t * 1000)}\n" for t, v in POINTS),
    "openmetrics": "".join(f"{TEXT} {v} {t:.3f}\n" for t, v in POINTS) + "# EOF\n",
    "openmetrics, cut behind a line": "".join(f"{TEXT} {v} {t:.3f}\n" for t, v in POINTS),
    "tsdb dump": "".join(f"{INSIDE} {v} {round(t * 1000)}\n" for t, v in POINTS),
    "quoted names": "".join(f'{{"node_cpu_seconds_total",instance="a:9100","mode"="idle"}} {v} {round(t * 1000)}\n'
                            for t, v in POINTS),
}  # fmt: skip


@pytest.mark.parametrize("form", [name for name in FORMS if name != "quoted names"])
def test_every_form_gives_the_same_samples(form: str) -> None:
    file = read(FORMS[form].encode(), "a.csv" if form.startswith("csv") else "a.json")
    assert samples(file) == SAMPLES and not file.problems and not file.cut


def test_quoted_metric_names_are_read_and_foreign_ones_skipped() -> None:
    data = FORMS["quoted names"] + '{"my metric",a="b"} 1 2\n'
    file = read(data.replace('"mode"=', "mode=").encode())
    assert samples(file) == SAMPLES and not file.problems
    assert [row[:2] for row in samples(read(data.encode()))] == [row[:2] for row in SAMPLES]


@pytest.mark.parametrize(
    ("document", "kind", "words"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution of 11,000 points"},
         "error-answer", ("11,000", "x[1d]")),
        ({"status": "error", "errorType": "execution", "error": "query processing would load too many samples into memory"},
         "error-answer", ("too many samples", "fewer series")),
        ({"status": "error", "errorType": "timeout", "error": "query timed out in expression evaluation"},
         "error-answer", ("timed out", "shorter slices")),
        ({"status": "error", "errorType": "bad_data", "error": "1:32: parse error: missing unit character in duration"},
         "error-answer", ("missing unit", "correct the query")),
        ({"error": "unauthorized"}, "error-answer", ("unauthorized", "log in")),
        ({"message": "Unauthorized", "messageId": "auth", "statusCode": 401}, "error-answer", ("Unauthorized", "curl -f")),
        (envelope([]), "empty-answer", ("no series", "correct the query")),
        (envelope([], "vector"), "empty-answer", ("no series", "delete the file")),
        (envelope([{"metric": {"instance": "a"}, "values": POINTS}]), "nameless-series", ("name", "label_replace")),
        (envelope([], warnings=["store b is down"]), "server-warning", ("store b is down",)),
        (envelope([], isPartial=True), "partial-answer", ("ask again",)),
        (envelope([], "streams"), "other-result", ("streams", "x[1d]")),
        (envelope([{"metric": {"__name__": "up"}, "values": POINTS}]), "no-known-series", ("0 of 1 series", "up")),
    ],
)  # fmt: skip
def test_errors_and_warnings_of_a_server_are_problems_with_a_cure(
    document: Any, kind: str, words: tuple[str, ...]
) -> None:
    file = read(json.dumps(document).encode())
    assert [problem.kind for problem in file.problems] == [kind]
    assert all(word in file.problems[0].reason for word in words) and file.problems[0].path == "/in/a.json"
    assert not samples(file)


@pytest.mark.parametrize(
    "document",
    [envelope([AT, "5"], "scalar"), envelope([AT, "five"], "string"), {"status": "success", "data": [LABELS]}],
)
def test_answers_without_series_of_numbers_are_skipped(document: Any) -> None:
    file = read(json.dumps(document).encode())
    assert not samples(file) and not file.problems


def test_infinities_and_nan_are_read() -> None:
    values = ["NaN", "+Inf", "-Inf"]
    found = [
        row[-1]
        for row in samples(
            read(json.dumps(envelope([{"metric": LABELS, "values": [[AT, v] for v in values]}])).encode())
        )
    ]
    assert math.isnan(found[0]) and found[1:] == [math.inf, -math.inf]
    line = {**EXPORT, "values": [None, "Infinity", "-Infinity"], "timestamps": [1, 2, 3]}
    found = [row[-1] for row in samples(read(json.dumps(line).encode()))]
    assert math.isnan(found[0]) and found[1:] == [math.inf, -math.inf]


def test_a_cut_answer_gives_what_came_before_the_cut() -> None:
    """At every byte: samples are a beginning of all of them, and the cut is a problem."""
    many = envelope([{"metric": {**LABELS, "mode": mode}, "values": POINTS} for mode in ("idle", 'a},{"b', "user")])
    whole = json.dumps(many).encode()
    every = samples(read(whole))
    assert len(every) == 6
    for end in range(whole.index(b'"metric"') + 20, len(whole)):
        file = read(whole[:end])
        found = samples(file)
        assert file.cut and found == every[: len(found)]
        assert [problem.kind for problem in file.problems] == ["cut-file"]
    lines = b"".join(json.dumps({**EXPORT, "metric": {**LABELS, "mode": m}}).encode() + b"\n" for m in ("idle", "user"))
    assert len(samples(read(lines[:-20]))) in (2, 3) and read(lines[:-20]).cut


def test_a_bad_series_costs_only_itself() -> None:
    good = [{"metric": {**LABELS, "mode": mode}, "values": POINTS} for mode in ("idle", "user")]
    odd = {
        "metric": {**LABELS, "mode": "iowait"},
        "values": [[AT, 5], [AT, [1]], [AT + 1, "six"], ["x", "1"], [AT + 2, "7"]],
    }
    file = read(json.dumps(envelope([good[0], odd, good[1]])).encode())
    assert [row[2] for row in samples(file)] == ["idle"] * 2 + ["iowait"] * 2 + ["user"] * 2
    assert [(problem.kind, problem.count) for problem in file.problems] == [("bad-record", 3)]
    broken = json.dumps(envelope(good)).encode().replace(b'"values": [[', b'"values": [[}', 1)
    file = read(broken)
    assert [row[2] for row in samples(file)] == ["user"] * 2
    assert [problem.kind for problem in file.problems] == ["bad-record"]
    no_text = json.dumps(envelope(good)).encode().replace(b'"a:9100"', b'"a\xff:9100"', 1)
    assert len(samples(read(no_text))) == 4


@pytest.mark.parametrize(
    "words", [b"404 page not found\n", b"no org id", b"upstream request timeout", b"Bad Gateway\r\n"]
)
def test_a_line_of_words_in_place_of_an_answer_is_a_refusal(words: bytes) -> None:
    file = read(words)
    assert [problem.kind for problem in file.problems] == ["error-answer"]
    assert words.decode().strip() in file.problems[0].reason and "curl -f" in file.problems[0].reason


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("cpu.txt", b'up{job="a", instance="b"} =>\n1 @[1700000040]\n', "-o json"),
        ("cpu.csv", b'"Time","{instance=""b1:9404"", topic=""t""}"\n2023-11-14 22:14:00,5\n', "feeds"),
        ("meta.json", b'{"ulid":"01H","minTime":1,"maxTime":2,"compaction":{},"version":1}', "promtool tsdb dump"),
    ],
)
def test_unsupported_forms_are_problems_with_a_cure(name: str, data: bytes, words: str) -> None:
    file = read(data, name)
    assert [problem.kind for problem in file.problems] == ["other-form"] and words in file.problems[0].reason


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cpu.csv", b"time,user_us\n1,2\n"),
        ("meta.json", b'{"name":"x"}'),
        ("finished.json", b'{"timestamp":1,"passed":false,"result":"FAILURE","revision":"x"}'),
        ("k.json", b'{"message":"a","b":{"c":1}}'),
        ("k.json", b"true"),
        ("k.json", b"17"),
        ("k.json", b'"words"'),
        ("notes.txt", b"404 page not found"),
        ("k.json", b""),
        ("k.json", b"one line\nand another"),
    ],
)
def test_other_small_files_are_left_alone(name: str, data: bytes) -> None:
    assert not series.looks_like(name, data)


def test_pages_and_tables_without_a_header_are_problems() -> None:
    for html in (b"<!DOCTYPE html><html><title>Sign in</title></html>", b'<a href="/graph/">Moved Permanently</a>.\n'):
        page = read(html, "kafka.json")
        assert [problem.kind for problem in page.problems] == ["html-page"]
    table = read(b"node_cpu_seconds_total,a:9100,idle,5000,1700000040000\n", "export.csv")
    assert [problem.kind for problem in table.problems] == ["no-header"] and "header" in table.problems[0].reason


def test_samples_later_than_their_file_are_a_problem() -> None:
    data = FORMS["matrix"].encode()
    assert not read(data, written_ms=AT * 1000).problems
    late = read(data, written_ms=(AT - 86_400) * 1000)
    assert [problem.kind for problem in late.problems] == ["future-time"] and samples(late) == SAMPLES


def test_labels_renamed_by_a_server_count_as_the_targets_own() -> None:
    metric = {**LABELS, "exported_instance": "b:9100"}
    assert samples(read(json.dumps(envelope([{"metric": metric, "values": POINTS}])).encode()))[0][1] == "b:9100"
    text = 'node_cpu_seconds_total{exported_instance="b:9100",instance="a:9100",mode="idle"} 5000\n'
    assert samples(read(text.encode(), "a.prom"))[0][1] == "b:9100"


def test_large_text_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        f'node_cpu_seconds_total{{instance="a",mode="m{number % 7}"}} {number} {AT * 1000 + number}\n'
        for number in range(500)
    ]
    data = "".join(lines).encode() + b"nonsense here\n"
    whole = read(data, "a.prom")
    monkeypatch.setattr("engine.formats.prometheus.text.LARGE", 2000)
    parts = read(data, "a.prom")
    assert parts.series.height == 7 and parts.series["line"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    assert parts.samples.drop("line").equals(whole.samples.drop("line"))
    assert parts.problems == whole.problems


def _points(count: int) -> list[list[Any]]:
    return [[AT + 60 * number, f"{1e9 + 61440.5 * number}"] for number in range(count)]


def _series(count: int, points: int = 1) -> list[dict[str, Any]]:
    return [{"metric": {**LABELS, "mode": f"m{number}"}, "values": _points(points)} for number in range(count)]


LARGE: dict[str, Callable[[int], bytes]] = {
    "one long series": lambda size: json.dumps(envelope(_series(1, 40 * size))).encode(),
    "many short ones": lambda size: json.dumps(envelope(_series(8 * size))).encode(),
    "one in each answer": lambda size: b"\n".join(json.dumps(envelope([one])).encode() for one in _series(4 * size)),
    "cut": lambda size: json.dumps(envelope(_series(4 * size))).encode()[:-9],
    "broken in the middle": lambda size: json.dumps(envelope(_series(4 * size))).encode().replace(b'm7"', b"m7", 1),
    "series that never end": lambda size: b'{"status":"success","data":{"result":[' + b'{"metric":{},' * 8 * size,
    "export lines": lambda size: b"\n".join(json.dumps(EXPORT).encode() for _ in range(8 * size)),
    "lines that are none": lambda size: json.dumps(EXPORT).encode() + b"\n{" * 40 * size,
    "brackets": lambda size: b'{"status":"success","data":{"result":[{"metric":' + b"[" * 40 * size,
}


@pytest.mark.parametrize("shape", LARGE)
def test_time_grows_with_the_size_only(shape: str) -> None:
    """Processor time: other work on the machine changes nothing. A square would take sixteen times as long."""
    took = []
    for size in (250, 1000):
        data = LARGE[shape](size)
        begin = time.process_time()
        read(data)
        took.append(time.process_time() - begin)
    assert took[1] < max(10 * took[0], 0.5)
