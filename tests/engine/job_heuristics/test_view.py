"""What the view says in words: lines of ``check``, the text report of one job, upstream's limit on history files."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from engine.core import units
from engine.core.view import Context, Inputs, Result
from engine.job_heuristics.dr_elephant.judged import subject_of
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.output import export, report
from sample_data.job_heuristics.make import FILES
from sample_data.job_heuristics.plans import Shape, make
from sample_data.job_heuristics.writer import text as history_text
from tests.engine.job_heuristics.helper import badly_told, inputs_below, inputs_of


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return inputs_below(FILES)


def compute(inputs: Inputs, **choices: object) -> Result:
    return VIEW.compute(inputs, JobParameters(**choices), Context(0))


@pytest.fixture(scope="module")
def whole(inputs: Inputs) -> Result:
    return compute(inputs)


def test_a_finding_names_subject_fact_and_what_to_do(whole: Result) -> None:
    names = {subject_of(name, "").removesuffix("(no name)") for name in whole.tables["heuristics"]["heuristic"]}
    advised = set(whole.tables["recommendations"]["key"])
    texts = {found.subject: found.text for found in whole.findings}
    assert texts and any(key in text for key in advised for text in texts.values())
    for found in whole.findings:
        assert found.subject.startswith((*names, "Failure of ", "Cost of ")), found
        assert found.level.upper() not in found.text and " avg" not in found.text
    assert badly_told(whole.findings) == []


def test_text_about_one_job_leaves_the_others_out(inputs: Inputs, whole: Result) -> None:
    job = whole.tables["jobs"]["job_id"][0]
    others = [other for other in whole.tables["jobs"]["job_id"].to_list() if other != job]
    chosen = compute(inputs, job=job)
    for name in ("jobs", "heuristics", "recommendations", "costs", "differences"):
        assert chosen.table(name).equals(whole.table(name)), "data keep every job"
        assert set(chosen.focused(name)["job_id"]) <= {job}
    document = report.envelope(VIEW, chosen, JobParameters(job=job), 0)
    assert len(document["tables"]["jobs"]) == whole.tables["jobs"].height
    text = report.to_text(VIEW, chosen, "jobs")
    assert job in text and not any(other in text for other in others)
    assert f"(1 of {whole.tables['jobs'].height}: job_id {job})" in text
    assert all(other in report.to_text(VIEW, whole, "jobs") for other in others)
    runs = chosen.focused("history")
    assert runs.equals(chosen.tables["history"]), "other runs of the same job are what its history is about"


def test_texts_for_humans_hold_times_and_data_hold_numbers(whole: Result) -> None:
    frame = whole.tables["jobs"]
    table = next(t for t in VIEW.tables if t.name == "jobs")
    submitted = int(frame["submit_ms"][0])
    for writer in (export.to_text, export.to_markdown):
        text = writer(frame, table)
        assert units.iso(submitted) in text and str(submitted) not in text and "epoch" not in text
    for writer in (export.to_csv, export.to_json):
        assert str(submitted) in writer(frame, table)
    hostile = frame.head(1).with_columns(submit_ms=pl.lit(2**62))
    assert str(2**62) in export.to_markdown(hostile, table)


def test_a_history_too_large_for_upstream_says_so(inputs: Inputs, whole: Result) -> None:
    ended = next(
        number for number, info in inputs.files.items() if info.path.endswith("SUCCEEDED-etl-1760252004300.jhist")
    )
    limit = 500 * 2**20

    def says(size: int) -> dict[str, str]:
        files = {**inputs.files, ended: msgspec.structs.replace(inputs.files[ended], size=size)}
        result = compute(Inputs(inputs.version, files, inputs.problems, inputs._load))
        assert result.tables["heuristics"].equals(whole.tables["heuristics"]), "we judge it all the same"
        return dict(result.tables["jobs"].select("job_id", "upstream_says").iter_rows())

    job = "job_1760000000000_0001"
    just = says(limit)
    assert just == dict(whole.tables["jobs"].select("job_id", "upstream_says").iter_rows())
    over = says(limit + 1)
    assert "more than Dr. Elephant's limit of 500 MB" in over[job] and "treated as failed" in over[job]
    assert {other: words for other, words in over.items() if other != job} == {
        other: words for other, words in just.items() if other != job
    }


def test_killed_jobs_are_named_beside_the_failed_ones() -> None:
    """``1 (1 killed)`` would say that the one that failed was killed."""
    shapes = [Shape("etl", "ann", "etl", 4, 1, state=state) for state in ("FAILED", "KILLED", "SUCCEEDED")]
    jobs = [make(shape, number, 1_760_000_000_000, number) for number, shape in enumerate(shapes, 1)]
    result = compute(inputs_of({f"/d/{job.file_name}": history_text(job) for job in jobs}))
    failed = next(number for number in result.headline if number.label == "failed")
    assert (failed.value, failed.basis) == ("1", "and 1 killed")
