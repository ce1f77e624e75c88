"""What is a run in a table, and what a log of requests gives: statistics of one run, of successes only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.reading import Source
from engine.run_comparison.reading.series import Series
from engine.run_comparison.view import READERS
from tests.engine.run_comparison.folder import compute, read_folder

BY_ID = {kind.id: kind for kind in READERS}


def read(kind: str, name: str, text: str) -> Any:
    data = text.encode()
    assert BY_ID[kind].recognise(name, data[:8192])
    return BY_ID[kind].read(Source(f"/{name}", name, 0, len(data)), data, None, True)


def values(reading: Any) -> dict[tuple[str, str, str], list[float]]:
    found: dict[tuple[str, str, str], list[float]] = {}
    table = reading.rows.get("measurements", {"series": [], "value": []})
    for text, value in zip(table["series"], table["value"], strict=True):
        series = Series.unpack(text)
        found.setdefault((series.verb, series.resource, series.bucket), []).append(value)
    return found


@pytest.mark.parametrize(
    ("header", "rows", "runs", "note"),
    [
        ("time,ms", ["2026-03-01,5", "2026-03-02,6", "2026-03-03,7"], 3, "3 runs from t.csv, one a row, 1d 00h apart"),
        ("time,ms", ["100,5", "101,6", "102,7"], 0, 'rows are 1 s apart: a log, not a history; a column "run" would name its'),
        ("time,Build,ms", ["100,a,5", "101,b,6", "102,b,7"], 2, "2 runs from t.csv, by column Build, 1.0 s apart, 3 values"),
        ("time,version,ms", ["100,9,5", "200,9,6", "300,9,7"], 3, "one a row, 1m 40s apart"),
        ("time,version,ms", ["100,9,5", "101,9,6"], 0, "rows are 1 s apart"),
        ("time,metric,ms", ["86400,a,5", "86400,b,6", "172800,a,5", "172800,b,6"], 2, "2 runs from t.csv, one a row"),
        ("time,metric,ms", ["86400,a,5", "86400,b,6"], 1, "all rows have one time"),
        ("time,ms", ["0,1", "10,1", "20,1", "500,1", "900,1", "1300,1"], 6, "6m 40s apart"),
    ],
)  # fmt: skip
def test_what_is_a_run_in_a_table(header: str, rows: list[str], runs: int, note: str) -> None:
    reading = read("csv-series", "t.csv", "\n".join([header, *rows, ""]))
    facts = reading.rows.get("run_facts", {"result": []})["result"]
    assert note in (facts[0] if runs else reading.problems[0].reason)
    assert len(set(reading.rows.get("measurements", {"run": []})["run"])) == runs


@pytest.mark.parametrize(
    "header",
    ["timeStamp,elapsed,label", "metric_name,timestamp,metric_value", "Timestamp,User Count,Type", "starttime\tseconds\tctime"],
)  # fmt: skip
def test_a_known_log_is_no_history(header: str) -> None:
    cut = "\t" if "\t" in header else ","
    row = cut.join(["1760000000", *["1"] * header.count(cut)])
    assert not BY_ID["csv-series"].recognise("history.csv", f"{header}\n{row}\n".encode())


def test_requests_count_by_label_and_failures_only_in_the_share() -> None:
    rows = [f"{1_760_000_000_000 + 200 * i};{10 + i % 10};pay;{str(i % 4 > 0).lower()};" for i in range(200)]
    rows += ['1760000000000;99;pay;true;"Number of samples in transaction : 2, ""slow"""']
    reading = read("jmeter-jtl", "r.csv", "\n".join(["timeStamp;elapsed;label;success;responseMessage", *rows, ""]))
    found = values(reading)
    assert found["pay", "success", "value"] == [0.75] and found["pay (transaction)", "latency", "max"] == [99.0]
    assert len(found["pay", "latency", "request"]) == 150 and found["pay", "throughput", "rate"] == pytest.approx(
        [5.02], 0.01
    )
    failed = read("jmeter-jtl", "r.csv", "timeStamp,elapsed,label,success\n1760000000000,5,pay,false\n")
    assert list(values(failed)) == [("pay", "success", "value")]


def test_parts_of_a_request_are_not_requests() -> None:
    text = '<testResults version="1.2"><httpSample t="9" lb="home" s="true"><httpSample t="4" lb="a.css" s="true"/></httpSample>'
    assert values(read("jmeter-jtl-xml", "r.jtl", f"{text}</testResults>"))["home", "latency", "request"] == [9.0]
    cut = read("jmeter-jtl-xml", "r.jtl", f'{text}<httpSample t="5" lb="ho')
    assert [problem.kind for problem in cut.problems] == ["cut-file"] and ("home", "latency", "max") in values(cut)
    bomb = read("jmeter-jtl-xml", "r.jtl", '<!DOCTYPE x [<!ENTITY a "b">]><testResults version="1.2">&a;</testResults>')
    assert [problem.kind for problem in bomb.problems] == ["refused-file"]


def test_single_requests_count_only_where_a_side_has_one_run(tmp_path: Path) -> None:
    for side, took in (("old", 50), ("new", 80)):
        for run in ("1", "2"):
            file = tmp_path / side / run / "hey.csv"
            file.parent.mkdir(parents=True)
            lines = [f"0.{took + i % 7:04d},0,0,0,0,0,200,{i / 10}" for i in range(30)]
            header = "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
            file.write_text("\n".join([header, *lines, ""]))
    several = compute(tmp_path, draws=20).tables["metrics"]
    assert "request" not in several["bucket"].to_list() and "Perc95" in several["bucket"].to_list()
    one = compute(tmp_path, draws=20, left=("old/1",), right=("new/1",))
    assert one.tables["metrics"].filter(bucket="request")["effect"].to_list() == ["worse"]


def test_a_server_that_only_refuses_has_no_latency_and_appended_reports_are_a_sample() -> None:
    text = (
        "Running 2s test @ http://shop.example/\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        "    Latency     1.50s     2.14ms  27.42ms   97.49%\n  1.20k requests in 2.00s, 655.22KB read\n{}"
        "Requests/sec:     1.20k\n"
    )
    refused = read("wrk", "w.txt", text.format("  Non-2xx or 3xx responses: 1200\n"))
    assert values(refused) == {("request", "success", "value"): [0.0]}
    both = values(read("wrk", "w.txt", 2 * text.format("")))
    assert values(read("wrk", "w.txt", 2 * text.format("").replace("\n", "\r\n"))) == both
    assert both["request", "latency", "mean"] == [1500.0] * 2 and both["request", "throughput", "rate"] == [1200.0] * 2


def test_a_benchmark_named_by_a_number_is_no_run(tmp_path: Path) -> None:
    sample = '{"sampling_mode":"Flat","iters":[2,4],"times":[20,44]}'
    for side in ("before", "after"):
        for place in ("64/new", "64/base", "512/new"):
            file = tmp_path / side / "target" / "criterion" / "sum" / place / "sample.json"
            file.parent.mkdir(parents=True)
            file.write_text(sample)
            (file.parent / "estimates.json").write_text('{"slope":{"confidence_interval":{}},"median_abs_dev":{}}')
    assert not read_folder(tmp_path).problems
    result = compute(tmp_path, draws=20)
    assert result.tables["runs"].select("run", "values").rows() == [("after", 4), ("before", 4)]
    assert set(result.tables["metrics"]["verb"]) == {"sum/64", "sum/512"}
