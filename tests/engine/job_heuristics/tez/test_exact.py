"""Every reference application in every form: Dr. Elephant's severity, score, metrics, texts and exceptions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.view import Context
from engine.job_heuristics.dr_elephant.heuristic import Rules, default_rules, read
from engine.job_heuristics.tez.judging import judge_apps
from engine.job_heuristics.tez.model import current_apps
from engine.job_heuristics.tez.rules import HEURISTICS, TezHeuristic
from tests.engine.job_heuristics.helper import badly_told, inputs_below
from tests.reference import reference

FORMS = ("rest", "real/rest", "ui-zip", "import-tool-zip", "written/simple-history", "written/entity-logs",
         "written/proto-history", "real/simple-history")  # fmt: skip

PIG = "No Data Received: it counts no task of Pig"


@cache
def expected(part: str) -> dict[str, dict[str, Any]]:
    lines = (reference("tez-jobs") / part / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["job_id"]: row for row in map(json.loads, lines)}


def compare(folder: Path, rows: dict[str, dict[str, Any]], rules: Rules[TezHeuristic], *, yarn: bool) -> int:
    """Compare all applications below a folder; ``yarn``: YARN's answers, which give name and run time, are there."""
    context = Context(0)
    judged = judge_apps(current_apps(inputs_below(folder), context), rules, context)
    assert badly_told(judged.findings) == []
    compared = 0
    for job in judged.jobs.iter_rows(named=True):
        row = rows.get(job["job_id"], {"upstream": "unknown", "tag": ""})
        said = job["upstream_says"]
        if row["upstream"] == "throws":
            assert said.startswith(row["exception"]), (job["job_id"], said)
        else:
            # A job of Pig alone is lost though its tasks are there: it is judged, and told.
            assert said == ("" if row["tag"] != "pig-scopes" else PIG), job["job_id"]
        wanted = row.get("meant", row)
        if wanted["upstream"] != "ok" or (said and "meant" not in row):
            continue
        compared += 1
        assert (job["severity"], job["score"]) == (wanted["severity"].upper(), wanted["score"]), row["tag"]
        metrics = dict(wanted["metrics"])
        runtime = metrics.pop("runtime_ms")
        ours = {key: job[key.replace("sec", "s")] for key in metrics}
        assert ours == metrics, row["tag"]
        if yarn and runtime is not None:
            texts = ("name", "user", "queue", "job_type")
            assert (job["runtime_ms"], *(job[t] for t in texts)) == (runtime, *(row.get(t, job[t]) for t in texts))
        theirs = [(h["name"], h["severity"].upper(), h["score"], h["details"]) for h in wanted["heuristics"]]
        mine = judged.heuristics.filter(pl.col("job_id") == job["job_id"])
        assert [(n, s, p, json.loads(d)) for _, n, s, p, d in mine.iter_rows()] == theirs, row["tag"]
    return compared


@pytest.mark.parametrize("form", FORMS)
def test_verdicts_are_dr_elephants(form: str) -> None:
    rows = expected("real" if form.startswith("real") else "")
    if form == "ui-zip":
        rows = rows | expected("real")
    assert compare(reference("tez-jobs") / form, rows, default_rules(HEURISTICS), yarn=form == "rest") > 0


def test_thresholds_come_from_the_configuration() -> None:
    conf = (reference("tez-jobs") / "custom" / "HeuristicConf.xml").read_bytes()
    rules = read("HeuristicConf.xml", conf, HEURISTICS)
    assert [problem.kind for problem in rules.problems] == ["bad-threshold"]
    assert compare(reference("tez-jobs") / "rest", expected("custom"), rules, yarn=True) > 30
