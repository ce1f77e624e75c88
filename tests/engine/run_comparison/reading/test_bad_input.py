"""What Go's decoder refuses or swallows: upstream mode does as upstream, every mode shows a problem."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reading import Source
from engine.core.view import NoInput
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.reading import go_json
from engine.run_comparison.view import READERS, VIEW
from tests.chance import tries
from tests.engine.run_comparison.folder import TABLES, compute, read_folder
from tests.engine.run_comparison.jobs import api_file, item, perf_data, two_jobs, write_run

GOOD = api_file(60.0)
NAME = "APIResponsiveness_load_T.json"


def _with(content: str | bytes, root: Path) -> Path:
    """Three good runs a side; the newest left run holds ``content``."""
    two_jobs(root, [60.0, 60.0, 60.0], [60.0, 60.0, 60.0])
    write_run(root, "left-job", 999, {NAME: content}, hour=9)
    return root


def _sample(result: Any, bucket: str = "Perc50") -> list[float]:
    frame = result.tables["metrics"]
    row = frame.filter((frame["bucket"] == bucket) & (frame["verb"] == "GET"))["row"][0]
    return result.detail.sample(row)[0].tolist()  # type: ignore[no-any-return]


REFUSED: dict[str, str | bytes] = {
    "NaN literal": GOOD.replace("120.0", "NaN"),
    "Infinity literal": GOOD.replace("120.0", "Infinity"),
    "number beyond double": GOOD.replace("120.0", "1e400"),
    "huge integer": GOOD.replace("120.0", "9" * 400),
    "text for a number": GOOD.replace("120.0", '"120.0"'),
    "number for a label": GOOD.replace('"100"', "100"),
    "boolean for a number": GOOD.replace("120.0", "true"),
    "trailing text": GOOD + " x",
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "empty": "",
    "cut": GOOD[: len(GOOD) // 2],
    "list at the top": "[" + GOOD + "]",
    "number for the version": GOOD.replace('"v1"', "1"),
    "comment": GOOD.replace("{", "{ // x", 1),
    "single quotes": GOOD.replace('"', "'"),
    "nested too deeply": "[" * 100_000,
    "binary": bytes(range(256)) * 20,
}


@pytest.mark.parametrize("name", REFUSED)
def test_upstream_skips_the_whole_file_and_everybody_sees_why(name: str, tmp_path: Path) -> None:
    inputs = read_folder(_with(REFUSED[name], tmp_path))
    result = compute(inputs, left=("left-job",), right=("right-job",), mode="upstream")
    assert _sample(result) == [60.0, 60.0, 60.0]
    assert [p.path for p in result.problems] == [f"left-job/999/artifacts/{NAME}"]
    assert result.problems[0].reason
    for mode in ("published", "statistical"):
        assert [p.path for p in compute(inputs, mode=mode, draws=50).problems] == [f"left-job/999/artifacts/{NAME}"]


def test_what_is_good_in_a_refused_file_serves_the_other_modes(tmp_path: Path) -> None:
    root = _with(REFUSED["NaN literal"], tmp_path)
    result = compute(root, mode="statistical", draws=50)
    assert len(_sample(result, "Perc50")) == 4
    assert len(_sample(result, "Perc90")) == 3


def test_null_is_zero_upstream_and_nothing_elsewhere(tmp_path: Path) -> None:
    root = _with(GOOD.replace("60.0", "null"), tmp_path)
    upstream = compute(root, left=("left-job",), right=("right-job",), mode="upstream")
    assert _sample(upstream) == [0.0, 60.0, 60.0, 60.0]
    assert _sample(compute(root, mode="statistical", draws=50)) == [60.0, 60.0, 60.0]
    (problem,) = upstream.problems
    assert (problem.path, problem.kind, problem.count) == (f"left-job/999/artifacts/{NAME}", "null-value", 1)


def test_many_nulls_are_one_problem_per_file(tmp_path: Path) -> None:
    (problem,) = compute(
        _with(GOOD.replace("60.0", "null").replace("120.0", "null"), tmp_path), mode="upstream"
    ).problems
    assert problem.count == 2


@pytest.mark.parametrize(
    "text",
    ["{}", "null", '{"dataItems": null}', '{"dataItems": []}', '{"dataItems": [null, {}]}', '{"dataItems": [{}, {}]}'],
)
def test_a_report_without_values_is_a_visible_problem(text: str, tmp_path: Path) -> None:
    inputs = read_folder(_with(text, tmp_path))
    for mode in ("upstream", "statistical"):
        result = compute(inputs, mode=mode, draws=20)
        assert _sample(result) == [60.0, 60.0, 60.0]
        assert [(p.path, p.kind) for p in result.problems] == [(f"left-job/999/artifacts/{NAME}", "no-values")]


def test_a_side_with_readable_reports_but_no_value_is_no_error_upstream(tmp_path: Path) -> None:
    write_run(tmp_path, "left-job", 1, {NAME: "{}"})
    write_run(tmp_path, "right-job", 1, {NAME: GOOD})
    result = compute(tmp_path, left=("left-job",), right=("right-job",), mode="upstream")
    rows = result.tables["metrics"].select("n_left", "n_right", "matched", "ratio").rows()
    assert rows == [(0, 1, True, None)] * 3
    printed = VIEW.upstream(result, ComparisonParameters(mode="upstream"))
    assert printed is not None
    assert printed.count("AvgL/R=NaN  AvgL(ms)=NaN") == 3
    write_run(tmp_path, "right-job", 1, {NAME: '{"dataItems": []}'})
    assert compute(tmp_path, left=("left-job",), right=("right-job",), mode="upstream").tables["metrics"].is_empty()
    for bad in ("", "[]", '{"dataItems": 1}'):  # not one readable report
        write_run(tmp_path, "left-job", 1, {NAME: bad})
        with pytest.raises(NoInput, match="can read on the left side"):
            compute(tmp_path, left=("left-job",), right=("right-job",), mode="upstream")


def test_only_the_exact_metric_is_pod_startup(tmp_path: Path) -> None:
    names = ("pod_startup", "pod_startup ", "Pod_Startup", "pod_startup, a=b", "xpod_startup")
    items = [item({"Perc50": 100.0 + i}, Metric=name) for i, name in enumerate(names)]
    items.append(item({"Perc50": 200.0}, Metric="pod_startup", zone="a"))
    items.append(item({"Perc50": 300.0}, **{"pod_startup, x": "y"}))
    for job in ("left-job", "right-job"):
        write_run(tmp_path, job, 1, {"PodStartupLatency_Pod_load_T.json": perf_data(items)})
    metrics = compute(tmp_path, left=("left-job",), right=("right-job",), mode="upstream").tables["metrics"]
    assert dict(zip(metrics["verb"], metrics["n_left"], strict=True)) == {"": 5, "Pod-Startup": 2}


def test_field_names_match_in_any_case_and_map_keys_exactly(tmp_path: Path) -> None:
    text = GOOD.replace("dataItems", "DATAITEMS").replace('"unit"', '"UNIT"').replace('"data"', '"Data"')
    assert _sample(compute(_with(text, tmp_path), mode="upstream")) == [60.0] * 4
    lower = GOOD.replace('"Verb"', '"verb"')
    result = compute(_with(lower, tmp_path), left=("left-job",), right=("right-job",), mode="upstream")
    assert _sample(result) == [60.0] * 3
    assert "" in result.tables["metrics"]["verb"].to_list()


def test_the_last_of_two_equal_keys_wins() -> None:
    text = b'{"dataItems": [{"data": {"Perc50": 1, "Perc50": 2}, "labels": {"Verb": "A", "Verb": "B"}}]}'
    for found in (go_json.decode(text), go_json._decode_slowly(text)):
        assert (found.items[0].data, found.items[0].labels["Verb"], found.refused) == ({"Perc50": 2.0}, "B", "")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12), ("+12", 12), ("-3", -3), ("010", 10), ("", None), (" 12", None), ("12.0", None), ("1e3", None),
        ("0x10", None), ("12_0", None), ("9" * 20, None), ("٣", None), ("+", None), ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None), ("-9223372036854775808", -(2**63)), ("1" * 5000, None),
    ],
)  # fmt: skip
def test_count_labels_parse_as_go_parses_them(text: str, number: int | None) -> None:
    assert go_json.go_atoi(text) == number


@pytest.mark.parametrize(("count", "kept"), [("9", 3), ("10", 4), ("", 4), ("12.0", 3), ("010", 4), ("9" * 20, 3)])
def test_count_filter(count: str, kept: int, tmp_path: Path) -> None:
    result = compute(_with(api_file(60.0, Count=count), tmp_path), mode="upstream")
    assert len(_sample(result)) == kept
    assert bool(result.problems) == (count in ("12.0", "9" * 20))


def test_upstream_pools_transitions_and_files_of_one_test(tmp_path: Path) -> None:
    pods = perf_data(
        [
            item({"Perc50": float(i)}, Metric=name)
            for i, name in enumerate(("create_to_schedule", "run_to_watch", "pod_startup"))
        ]
    )
    for job in ("left-job", "right-job"):
        for number in (1, 2, 3):
            files = {
                "PodStartupLatency_PodStartupLatency_load_T.json": pods,
                "PodStartupLatency_Other_load_T.json": pods,
            }
            write_run(tmp_path, job, number, files)
    upstream = compute(tmp_path, mode="upstream").tables["metrics"]
    assert dict(zip(upstream["verb"], upstream["n_left"], strict=True)) == {"": 12, "Pod-Startup": 6}
    honest = compute(tmp_path, mode="statistical", draws=50).tables["metrics"]
    alone = honest.filter(~honest["pooled"])
    assert alone.height == 6
    assert alone["n_left"].to_list() == [3] * 6
    assert honest.filter(honest["pooled"])["n_left"].sort().to_list() == [6, 12]


def test_a_folder_that_is_no_number_fails_upstreams_listing(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [60.0] * 3, [60.0] * 3)
    write_run(root, "left-job", "latest-build", {NAME: GOOD})
    with pytest.raises(NoInput, match="listing"):
        compute(root, mode="upstream")
    result = compute(root, mode="statistical", draws=50)
    assert [p.path for p in result.problems] == ["left-job/latest-build"]


def test_bad_metadata_is_a_problem_and_leaves_the_run_out(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [60.0] * 4, [60.0] * 3)
    (root / "left-job" / "103" / "finished.json").write_text('{"result": "SUCC')
    result = compute(root, mode="upstream")
    assert [run.number for run in result.detail.left] == [102, 101, 100]
    assert [p.path for p in result.problems] == ["left-job/103/finished.json"]
    runs = result.tables["runs"]
    assert runs.filter(runs["run"] == "103")["result"].to_list()[0] == "unfinished"


def test_hostile_text_is_harmless(tmp_path: Path) -> None:
    evil = api_file(60.0, Resource="pods\x1b]0;x\x07[red]\u202e" + "A" * 100_000)
    for job in ("left-job", "right-job"):
        for number in (1, 2, 3):
            write_run(tmp_path, job, number, {NAME: evil})
    for name in compute(tmp_path, mode="statistical", draws=50).tables["metrics"]["resource"]:
        assert name.isprintable()
        assert len(name) <= 4096


def test_infinite_means_do_not_break_anything(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [1e308, 1e308, 1e308, 5e-324], [0.0, 0.0, 1e308, 60.0])
    for mode in ("upstream", "published", "statistical"):
        result = compute(root, mode=mode, draws=50)
        for name in ("ratio_low", "ratio_high", "q_value"):
            assert not any(v is not None and math.isnan(v) for v in result.tables["metrics"][name])


BYTES = st.binary(max_size=200) | st.sampled_from([GOOD.encode(), b"", b"{}", b"[]", b"null", b"\xff\xfe", b"NaN"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([
        "dataItems", "data", "labels", "unit", "metrics", "values", "benchmarks", "stats", "results", "times", "jobs",
        "read", "pods", "containers", "buckets", "100", "Name", "CPU", "runs", "value", "primaryMetric", "rawData",
    ]) | st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@tries(30)
@given(BYTES | JSON.map(lambda v: json.dumps(v).encode()), st.integers(0, len(READERS) - 1), st.booleans())
def test_no_reader_ever_raises(data: bytes, number: int, final: bool) -> None:
    reader = READERS[number]
    for name in (
        "x.json",
        "ResourceUsageSummary_load.json",
        "EtcdMetrics_load.json",
        "MetricsForE2E_x.json",
        "started.json",
    ):
        reader.recognise(name, data)
        reading = reader.read(Source("/jobs/a/1/" + name, name, 0, len(data)), data, None, final)
        for table, rows in reading.rows.items():
            frame = TABLES[table].frame(rows)
            if table == "measurements":
                assert not frame["value"].drop_nulls().is_nan().any()
                assert not frame["value"].drop_nulls().is_infinite().any()


@tries(12)
@given(st.integers(0, 400))
def test_every_cut_of_a_good_file_is_told(at: int) -> None:
    data = GOOD.encode()
    cut = data[: min(at, len(data) - 1)]
    found = go_json.decode(cut)
    assert found.bad
    assert found.cut
    assert found.items == []
