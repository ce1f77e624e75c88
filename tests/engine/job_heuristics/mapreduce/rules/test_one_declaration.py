"""A heuristic is added by one declaration: verdict, letter, why, distance, advice, outlook and what-if follow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from engine.core.parameters import Attachment
from engine.core.result import Result
from engine.core.view import Context
from engine.job_heuristics.dr_elephant import registry
from engine.job_heuristics.dr_elephant.display import each, plain, size
from engine.job_heuristics.dr_elephant.gates import MB, Branch, Final, Gate, Subject, amount
from engine.job_heuristics.dr_elephant.heuristic import Heuristic
from engine.job_heuristics.mapreduce.model.job_arrays import mean
from engine.job_heuristics.mapreduce.rules.side_stats import average
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import Shape, make
from tests.engine.job_heuristics.helper import inputs_of

OUTPUT = Gate(
    key="output", label="mean output of a map", unit="bytes", value=lambda s: s["avg_map_output_bytes"],
    limits="output_severity_in_mb", scale=MB,
)  # fmt: skip
MAPS = Gate(
    key="tasks", label="number of tasks", unit="tasks", value=lambda s: s["n"], limits="num_tasks_severity",
    final=Final.TASKS,
)  # fmt: skip


def details(subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        "Average output": each(size, subject["avg_map_output_bytes"]),
    }


WIDE_MAPS = Heuristic(
    name="Wide Maps",
    class_name="WideMapsHeuristic",
    order=1000,
    own=True,
    side="map",
    limits={"output_severity_in_mb": (1, 2, 4, 800), "num_tasks_severity": (1, 10, 20, 40)},
    measures=(average("map_output_bytes"),),
    branches=(Branch((OUTPUT, MAPS)),),
    averages=True,
    details=details,
    advice=lambda level, job: f"Maps write {amount(mean(job.maps.out_bytes), 'bytes')} each: add a combiner.",
)
CONF = b"""<heuristics><heuristic><applicationtype>mapreduce</applicationtype><heuristicname>Wide</heuristicname>
<classname>our.WideMapsHeuristic</classname><params><num_tasks_severity>1,2,3,100</num_tasks_severity></params>
</heuristic></heuristics>"""


@pytest.fixture(autouse=True)
def added() -> Iterator[None]:
    registry.register(WIDE_MAPS)
    yield
    registry.unregister(WIDE_MAPS)


def compute(**choices: Any) -> Result:
    job = make(Shape("wide", "ann", "etl", maps=12, reduces=2), 1, 1_760_000_000_000, 1)
    files = {f"/d/{job.file_name}": writer.text(job), f"/d/{job.id}_conf.xml": writer.conf_xml(job)}
    return VIEW.compute(inputs_of(files), JobParameters(job=job.id, **choices), Context(0))


def row(result: Result, table: str, column: str, name: str = "Wide Maps") -> dict[str, Any]:
    (found,) = result.tables[table].filter(pl.col(column) == name).to_dicts()
    return found


def test_verdict_score_details_and_letter() -> None:
    registry.unregister(WIDE_MAPS)
    without = compute().tables["jobs"].select("severity", "score").row(0)
    registry.register(WIDE_MAPS)
    result = compute()
    verdict = row(result, "heuristics", "heuristic")
    assert (verdict["severity"], verdict["score"]) == ("MODERATE", 0), "the score is Dr. Elephant's alone"
    assert result.tables["jobs"].select("severity", "score").row(0) == without
    assert list(json.loads(verdict["details"])) == ["Number of tasks", "Average output"]
    assert result.detail.heuristics[-1] == "Wide Maps"
    assert result.detail.listing["strip"][0][-1] == "M"


def test_why_distance_and_advice() -> None:
    explained = row(compute(), "explained", "heuristic")
    assert explained["value"] == "12 tasks" and explained["limits"] == ">= 1 task, 10 tasks, 20 tasks, 40 tasks"
    assert explained["worse"] == "SEVERE with 8 more tasks" and "3 fewer tasks" in explained["better"]
    assert explained["margin"] == pytest.approx(100 * 2 / 12)
    assert explained["reason"].endswith("keeps it at MODERATE.")
    assert "add a combiner" in explained["advice"]


def test_what_if_of_limits_and_of_tasks() -> None:
    stricter = compute(limits=("Wide Maps/num_tasks_severity=x0.5",))
    assert row(stricter, "what_if", "what")["predicted"] == "SEVERE"
    milder = compute(limits=("Wide Maps/output_severity_in_mb=1000:2000:3000:4000",))
    assert row(milder, "what_if", "what")["direction"] == "better"
    fewer = compute(split_size=2**40)
    assert row(fewer, "what_if", "what")["predicted"] == "LOW"


def test_its_parameters_come_from_a_heuristic_conf() -> None:
    result = compute(heuristic_conf=Attachment("HeuristicConf.xml", CONF))
    assert row(result, "heuristics", "heuristic", "Wide")["severity"] == "SEVERE"
    assert row(result, "explained", "heuristic", "Wide")["limits"].endswith(">= 1 task, 2 tasks, 3 tasks, 100 tasks")
    assert result.detail.listing["strip"][0].startswith("S")


def test_a_column_that_tasks_do_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="no column 'map_output_byte', only total_ms"):
        registry.register(replace(WIDE_MAPS, measures=(average("map_output_byte"),)))


def test_published_rules_and_a_configuration_leave_it_in_force() -> None:
    published = compute(mode="published")
    assert row(published, "heuristics", "heuristic")["severity"] == "MODERATE"
    other = CONF.replace(b"our.WideMaps", b"x.MapperGC").replace(b"num_tasks_severity", b"gc_ratio_severity")
    configured = compute(heuristic_conf=Attachment("HeuristicConf.xml", other))
    assert {"Wide", "Wide Maps"} <= set(configured.tables["heuristics"]["heuristic"])
