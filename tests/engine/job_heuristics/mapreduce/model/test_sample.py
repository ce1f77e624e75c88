"""The sample data: the same bytes each time, varied verdicts, and a played cluster that moves."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from engine.core.incremental import Memo
from engine.core.view import Context, Result
from engine.job_heuristics.mapreduce.model.assembly import current_model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import live, make, writer
from sample_data.job_heuristics.plans import Shape
from sample_data.job_heuristics.plans import make as plan
from tests.engine.job_heuristics.helper import Store, inputs_below, inputs_of, read_bytes


def test_static_sample_is_what_the_script_makes(tmp_path: Path) -> None:
    make.main(tmp_path)
    ours = {p.relative_to(make.FILES): p.read_bytes() for p in make.FILES.rglob("*") if p.is_file()}
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert ours == made
    assert sum(map(len, ours.values())) < 330_000


def test_static_sample_has_varied_verdicts() -> None:
    result = VIEW.compute(inputs_below(make.FILES), JobParameters(), Context(0))
    jobs = result.tables["jobs"]
    assert not result.problems
    assert set(jobs["state"]) == {"SUCCEEDED", "FAILED", "RUNNING"}
    assert {"CRITICAL", "MODERATE", "NONE"} <= set(jobs["severity"])
    assert jobs.filter(pl.col("name") == "daily-sessions").height == 3
    assert jobs["user"].n_unique() >= 4
    assert set(jobs.filter(pl.col("state") != "RUNNING")["upstream_says"]) == {""}


def test_text_and_binary_say_the_same() -> None:
    shape = Shape("both", "ann", "etl", maps=7, reduces=3, failing=0.5)
    job = plan(shape, 1, 1_760_000_000_000, 1)
    conf = writer.conf_xml(job)
    results = [
        VIEW.compute(
            inputs_of({f"/d/{job.file_name}": data, f"/d/{job.id}_conf.xml": conf}),
            JobParameters(job=job.id),
            Context(0),
        )
        for data in (writer.text(job), writer.binary(job))
    ]
    assert results[0].tables["jobs"].height == 1
    for name in ("jobs", "heuristics", "tasks"):
        assert results[0].tables[name].equals(results[1].tables[name])


def test_the_played_cluster_moves(tmp_path: Path) -> None:
    steps = live.steps(tmp_path)
    assert next(steps) == live.STEP_S
    store = Store()
    known: dict[str, int] = {}
    memo = Memo()

    def look() -> Result:
        paths = {str(p): p for p in tmp_path.rglob("*") if p.is_file()}
        for gone in known.keys() - paths.keys():
            del known[gone]
            store.drop(gone)
        for name, path in sorted(paths.items()):
            size = path.stat().st_size
            if known.get(name) != size:
                known[name] = size
                store.put(name, read_bytes(path), final=False)
        return VIEW.compute(store.inputs(), JobParameters(), Context(0, memo=memo))

    first = look()
    assert first.tables["jobs"].filter(pl.col("state") == "RUNNING").height == 4
    assert first.tables["jobs"]["severity"].is_in(["CRITICAL", "SEVERE"]).any()
    seen = [first]
    for step in range(30):
        next(steps)
        if step % 10 == 9:
            seen.append(look())
    last = seen[-1]
    assert len({json.dumps(r.summary) for r in seen}) == len(seen) == 4
    ended = first.tables["jobs"].filter(pl.col("state") == "RUNNING")["job_id"]
    states = dict(last.tables["jobs"].select("job_id", "state").iter_rows())
    assert any(states[job] in ("SUCCEEDED", "FAILED") for job in ended)
    assert last.tables["jobs"]["job_id"].is_unique().all()
    assert not last.problems
    # What was computed piece by piece equals what is computed at once.
    fresh = VIEW.compute(store.inputs(), JobParameters(), Context(0))
    for name, frame in fresh.tables.items():
        assert last.tables[name].equals(frame), name
    model = current_model(store.inputs(), Context(0))
    again = current_model(store.inputs(), Context(0, memo=memo))
    for part in ("jobs", "tasks", "attempts", "conf"):
        assert getattr(model, part).equals(getattr(again, part)), part
