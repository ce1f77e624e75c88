"""A folder that ``loadlens fleet`` wrote is shown as the histories that it was made of."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from msgspec.structs import replace

from engine.core.view import Result, TooLarge, UnknownName, at_least
from engine.job_heuristics.fleet import stored_jobs
from engine.job_heuristics.fleet.stored_jobs import FleetResult
from engine.job_heuristics.fleet.tables import PER_JOB
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.result.all_jobs import _listing
from engine.job_heuristics.tables import JOBS, LISTING
from engine.live.session import Session
from engine.output import report
from tests.contract.samples import QUIET, opened, play, view
from tests.engine.job_heuristics.fleet.fleet_writer import write

VIEW = view("job-heuristics")
NOW = 1_800_000_000_000


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play("job-heuristics", tmp_path_factory.mktemp("histories"), changes=2)


@pytest.fixture(scope="module")
def local(histories: Path) -> Result:
    return compute(histories)


def compute(*roots: Path, **options: object) -> Result:
    session = opened("job-heuristics", *roots)
    try:
        return session.compute("job-heuristics", JobParameters(**options), now_ms=NOW)
    finally:
        session.close()


def paths_of(histories: Path, result: Result) -> dict[str, list[str]]:
    found = [str(path) for path in sorted(histories.rglob("*")) if path.is_file()]
    return {
        job: [path for path in found if job in path or f"_{job.partition('_')[2]}_" in path]
        for job in result.tables["jobs"]["job_id"]
    }


@pytest.fixture(scope="module")
def written(histories: Path, local: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("fleet") / "day=2026-01-01", local, paths_of(histories, local)).parent


@pytest.fixture(scope="module")
def stored(written: Path) -> Result:
    return compute(written)


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(written, tmp_path / "copy"))


def test_results_equal_a_report_of_the_histories(stored: Result, local: Result) -> None:
    for table in PER_JOB:
        name = table.name
        assert (
            stored.table(name)
            .sort("job_id", maintain_order=True)
            .equals(local.table(name).sort("job_id", maintain_order=True))
        ), name
        assert stored.table(name)["job_id"].unique(maintain_order=True).to_list() == [
            job for job in local.tables["jobs"]["job_id"] if job in set(local.table(name)["job_id"])
        ]
    assert stored.table("rollup").equals(local.tables["rollup"])
    assert stored.summary == local.summary and stored.headline == local.headline and stored.trend == local.trend
    names = [name for name in local.detail.listing.columns if name in stored.detail.listing.columns]
    texts = pl.col(stored_jobs.REPEATED).cast(pl.String)
    assert stored.detail.listing.with_columns(texts).select(names).equals(local.detail.listing.select(names))
    assert sorted(map(repr, stored.findings)) == sorted(map(repr, local.findings))
    assert stored.detail.advised().sort("job_id", "rank").equals(local.detail.advised().sort("job_id", "rank"))
    assert stored.problems == local.problems and not stored.at_ms


def test_reports_and_checks_read_it(stored: Result, local: Result) -> None:
    text = report.to_json(VIEW, stored, JobParameters(), NOW)
    assert b'"tables"' in text and str(local.tables["jobs"]["job_id"][0]).encode() in text
    assert "heuristics: " in report.to_text(VIEW, stored)
    assert len(at_least(stored.findings, "severe")) == len(at_least(local.findings, "severe"))


def test_one_job_is_read_from_its_own_histories(written: Path, histories: Path, local: Result) -> None:
    sessions = opened("job-heuristics", written), opened("job-heuristics", histories)
    for job in {kind: job for job, kind in local.detail.listing.select("job_id", "job_type").iter_rows()}.values():
        alone, whole = (
            each.compute("job-heuristics", JobParameters(job=job, histories="/"), now_ms=NOW) for each in sessions
        )
        assert alone.focus == whole.focus and (alone.detail.opened is None) == (whole.detail.opened is None)
        for name in whole.tables.keys() - {table.name for table in PER_JOB} - {"rollup", "history", "conf_changes"}:
            assert alone.tables[name].equals(whole.table(name)), (job, name)
        for table in PER_JOB:
            mine = whole.table(table.name).filter(pl.col("job_id") == job)
            assert alone.detail.rows(table.name, job).equals(mine)
        runs = [whole.tables["history"], alone.tables["history"]]
        assert runs[0]["job_id"].to_list() == runs[1]["job_id"].to_list()
    for session in sessions:
        session.close()


def test_only_files_below_a_named_or_watched_folder_are_opened(histories: Path, local: Result, tmp_path: Path) -> None:
    """A fleet result may come from a stranger who names any file of this machine."""
    job = local.tables["jobs"]["job_id"][0]
    paths = paths_of(histories, local)
    link = tmp_path / "linked" / "link"
    link.parent.mkdir()
    link.symlink_to(histories)
    linked = {each: [str(link / Path(path).relative_to(histories)) for path in of] for each, of in paths.items()}
    climbing = {each: [f"/..{path}" for path in of] for each, of in paths.items()}
    elsewhere = {"histories": str(link.parent)}
    for number, (named, options) in enumerate([(paths, {}), (linked, elsewhere), (climbing, elsewhere)]):
        closed = compute(write(tmp_path / f"fleet{number}", local, named), job=job, **options)
        assert closed.detail.opened is None
        assert any("not reachable here" in note for note in closed.notes)
    named = compute(tmp_path / "fleet0", job=job, histories=str(histories))
    assert named.detail.opened is not None


def test_one_job_without_histories_is_shown_from_the_tables(histories: Path, local: Result, tmp_path: Path) -> None:
    job = local.tables["jobs"]["job_id"][0]
    elsewhere = {
        each: [f"hdfs://cluster:8020{path}" for path in paths] for each, paths in paths_of(histories, local).items()
    }
    folder = write(tmp_path / "fleet", local, elsewhere)
    result = compute(folder, job=job.rpartition("_")[2] if job.count("_") > 1 else job)
    assert result.detail.opened is None and any("not reachable here: hdfs://" in note for note in result.notes)
    for table in PER_JOB:
        mine = local.table(table.name).filter(pl.col("job_id") == job)
        assert result.detail.rows(table.name, job).equals(mine)
    mount = tmp_path / "mount"
    mount.symlink_to("/")
    reached = compute(folder, job=job, histories=str(mount))
    assert reached.detail.opened is not None
    with pytest.raises(UnknownName):
        compute(folder, job="job_77_77")


def test_histories_override_results_and_newer_results_older(
    written: Path, histories: Path, local: Result, tmp_path: Path
) -> None:
    job = local.tables["jobs"]["job_id"][0]
    renamed = {
        **local.tables,
        "jobs": local.tables["jobs"].with_columns(name=pl.lit("renamed")),
    }
    listing = local.detail.listing.with_columns(name=pl.lit("renamed"))
    newer = dataclasses.replace(local, tables=renamed, detail=dataclasses.replace(local.detail, listing=listing))
    other = write(tmp_path / "newer", newer, {}, at="2026-02-02T00:00:00Z")
    both = compute(written, other)
    assert both.detail.listing["name"].unique().to_list() == ["renamed"]
    assert both.table("jobs")["name"].unique().to_list() == ["renamed"] and both.summary == local.summary
    assert both.table("heuristics").height == local.tables["heuristics"].height
    ids = [(one, f" ({one.row[1][0]})") for one in local.findings]
    with_ids = [replace(one, subject=one.subject.removesuffix(job) + job) for one, job in ids]  # all have one name now
    assert sorted(map(repr, both.findings)) == sorted(map(repr, with_ids))
    assert both.detail.stored is not None and both.detail.stored.rows(PER_JOB[0], job)[0]["name"].to_list() == [
        "renamed"
    ]
    alone = tmp_path / "one"
    alone.mkdir()
    for path in paths_of(histories, local)[job]:
        shutil.copy2(path, alone)
    mixed = compute(other, alone)
    names = dict(mixed.detail.listing.select("job_id", "name").iter_rows())
    assert names.pop(job) == local.tables["jobs"]["name"][0] and set(names.values()) == {"renamed"}
    assert mixed.detail.has(job) and mixed.table("jobs").height == local.tables["jobs"].height
    assert mixed.table("rollup").equals(local.tables["rollup"])


def test_damaged_cut_and_foreign_tables_are_problems(copy: Path, local: Result) -> None:
    day = copy / "day=2026-01-01"
    first, second = sorted((day / "table=listing").iterdir())
    first.write_bytes(first.read_bytes()[:-40])
    good = pl.read_parquet(second)
    (day / "table=listing" / "part-00002.parquet").write_bytes(b"PAR1" + bytes(9000) + b"PAR1")
    pl.DataFrame({"x": [1]}).write_parquet(day / "table=listing" / "part-00003.parquet")
    good.with_columns(submit_ms=pl.lit("monday")).write_parquet(day / "table=listing" / "part-00004.parquet")
    os.mkfifo(day / "table=listing" / "part-00005.parquet")
    shutil.copy(second, copy.parent / "elsewhere.parquet")
    (day / "table=listing" / "part-00006.parquet").symlink_to(copy.parent / "elsewhere.parquet")
    shutil.rmtree(day / "table=recommendations")
    result = compute(copy)
    assert result.detail.listing["job_id"].sort().to_list() == good["job_id"].sort().to_list()
    reasons = {Path(problem.path).name: problem.reason for problem in result.problems}
    assert reasons.keys() == {first.name, *(f"part-0000{n}.parquet" for n in (2, 3, 4, 5, 6)), "table=recommendations"}
    assert "none of the columns" in reasons["part-00003.parquet"] and "submit_ms" in reasons["part-00004.parquet"]
    assert "regular file" in reasons["part-00005.parquet"] and "elsewhere" in reasons["part-00006.parquet"]


def test_damage_in_a_table_read_on_demand_is_a_problem(copy: Path, local: Result) -> None:
    day = copy / "day=2026-01-01"
    first, *_ = sorted((day / "table=heuristics").iterdir())
    first.write_bytes(first.read_bytes()[:-40])
    result = compute(copy)
    asked = result.with_tables(["heuristics"])
    assert [Path(problem.path).name for problem in asked.problems] == [first.name] and asked.tables["heuristics"].height
    assert asked.with_tables(["heuristics"]) is asked and not result.problems
    assert first.name in report.to_text(VIEW, result, "heuristics")
    assert first.name.encode() in report.to_json(VIEW, result, JobParameters(), NOW)
    assert first.name not in report.to_text(VIEW, result, "jobs")
    shutil.rmtree(day / "table=files")
    opened_job = compute(copy, job=local.tables["jobs"]["job_id"][0])
    assert {"table=files", first.name} <= {Path(problem.path).name for problem in opened_job.problems}


def test_texts_of_tables_are_cleaned(copy: Path, local: Result) -> None:
    for path in (copy / "day=2026-01-01" / "table=listing").iterdir():
        pl.read_parquet(path).with_columns(name=pl.lit("\x1b[31mred\u202e"), user=pl.lit("x" * 99_999)).write_parquet(
            path
        )
    for path in (copy / "day=2026-01-01" / "table=jobs").iterdir():
        pl.read_parquet(path).with_columns(name=pl.lit("\x1b[31mred")).write_parquet(path)
    result = compute(copy)
    assert result.detail.listing["name"].unique().to_list() == ["·[31mred·"]
    assert result.detail.listing["user"].cast(pl.String).str.len_chars().max() == 65536
    assert result.table("jobs")["name"].unique().to_list() == ["·[31mred"]


def test_a_missing_result_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "manifest"
    folder.mkdir()
    head = '{"loadlens": "1", "view": "job-heuristics", "at": "2026-01-01T00:00:00Z"'
    for name, rest in (("a", ""), ("b", ', "rows": 7}'), ("c", ', "rows": {"jobs": 1}, "parameters": 3}')):
        (folder / f"{name}.txt").write_text(head + rest)
    session = opened("job-heuristics", tmp_path)
    assert len(session.inputs("job-heuristics").problems) == 3
    session.close()


def test_long_lists_are_bounded(written: Path, local: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_jobs, "MOST_FINDINGS", 5)
    monkeypatch.setattr(stored_jobs, "MOST_JOBS", 12)
    monkeypatch.setattr(report, "MOST_JOBS", 3)
    result = compute(written)
    assert sum(finding.rest or 1 for finding in result.findings) == len(local.findings)
    listed = [finding for finding in result.findings if not finding.rest]
    assert len(listed) == 5 and {finding.level for finding in listed} <= {"critical", "severe"}
    assert {finding.level for finding in result.findings} == {finding.level for finding in local.findings}
    assert any(problem.kind == "too-many-jobs" for problem in result.problems)
    with pytest.raises(TooLarge):
        result.table("heuristics")
    with pytest.raises(TooLarge):
        report.to_json(VIEW, result, JobParameters(), NOW)


@pytest.mark.parametrize("most", [3, 20, 1000])
def test_the_best_advice_is_that_of_all_results(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(stored_jobs, "MOST_ADVISED", most)
    whole = pl.concat(
        pl.read_parquet(path) for path in sorted((written / "day=2026-01-01" / "table=recommendations").iterdir())
    )
    half = pl.col("saving_mb_s").rank("ordinal") % 2 == 0
    whole = whole.with_columns(saving_mb_s=pl.when(half).then("saving_mb_s"))  # some save an unknown amount
    for number in range(3):
        place = tmp_path / f"day={number}" / "table=recommendations"
        place.mkdir(parents=True)
        whole[number::3].write_parquet(place / "part.parquet")
    results = tuple(FleetResult(str(tmp_path / f"day={n}"), "", n, 0, (n, n), {}, {}) for n in range(3))
    best = stored_jobs._best_advice(results)
    order = ("saving_mb_s", "job_id", "rank")
    expected = whole.sort(order, descending=[True, False, False], nulls_last=True).head(most)
    saving = pl.col("saving_mb_s").is_not_null()  # of those without, any will do
    assert best.drop("_result").filter(saving).equals(expected.filter(saving))
    assert best.height == expected.height


def test_new_days_appear_and_tables_are_no_files(written: Path, local: Result, tmp_path: Path) -> None:
    root = tmp_path / "live"
    root.mkdir()
    shutil.copytree(written / "day=2026-01-01", root / "day=2026-01-01")
    everything = [view(name) for name in ("job-heuristics", "broker-load", "ring-placement")]
    session = Session([root], everything, settings=QUIET)
    session.scan(final=True)
    assert session.status.files == 1
    first = session.compute("job-heuristics", JobParameters(), now_ms=NOW)
    day = write(root / "day=2026-01-02", dataclasses.replace(local, tables=local.tables), {}, at="2026-01-03T00:00:00Z")
    assert session.scan(final=True) == {"job-heuristics"} and session.status.files == 2
    second = session.compute("job-heuristics", JobParameters(), now_ms=NOW)
    assert "2 fleet results" in second.notes[0] and second.summary == first.summary
    assert re.search(r"computed at \d{4}-\d\d-\d\d \d\d:", second.notes[0]), "results are kept for years"
    shutil.rmtree(day)
    session.scan(final=True)
    third = session.compute("job-heuristics", JobParameters(), now_ms=NOW)
    assert third.same_as(first) and not third.same_as(second)
    session.close()


def test_jobs_of_equal_shown_cost_and_those_of_no_visible_cost_are_sorted_by_verdict() -> None:
    jobs = {
        "job_id": ["harmless", "critical", "moderate", "costly"],
        "severity": ["NONE", "CRITICAL", "MODERATE", "LOW"],
        "submit_ms": [4, 3, 2, 1],
    }
    cost = {"avoidable_mb_s": [1_500.0, 0.0, 1_800.0, 900_000.0], "cost_mb_s": [1e6] * 4, "saving_mb_s": [None] * 4}
    rank = {"rank": [1, 5, 3, 2]}
    stored = stored_jobs.in_listed_order([LISTING.frame(jobs | rank | cost)])
    totals = LISTING.frame({"job_id": jobs["job_id"]} | cost).select("job_id", *cost)
    fleet = SimpleNamespace(jobs=JOBS.frame(jobs), strips=pl.DataFrame({"strip": [""] * 4}))
    for listed in (stored, _listing(fleet, totals)):  # type: ignore[arg-type]
        assert listed["job_id"].to_list() == ["costly", "critical", "moderate", "harmless"]
