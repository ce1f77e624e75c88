"""Runs that come, go and change one by one give what a fresh computation at the same folder gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.core.incremental import Memo
from engine.core.view import Result
from engine.live.session import LiveSettings, Session
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.view import VIEW
from tests.chance import more
from tests.engine.run_comparison.folder import compute, read_folder
from tests.engine.run_comparison.jobs import api_file, item, perf_data, two_jobs, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def _files(rng: np.random.Generator) -> dict[str, str]:
    """What a run may hold: always one metric, sometimes more, in other units or below the request limit."""
    value = float(rng.lognormal(4.6, 0.2))
    files = {"APIResponsiveness_load_T.json": api_file(value)}
    if rng.random() < 0.4:
        files["APIResponsiveness_density_T.json"] = api_file(value * 2, Verb="LIST", Count=str(rng.integers(1, 30)))
    if rng.random() < 0.3:
        entry = item({"Perc50": value / 1000}, unit="s", Metric="pod_startup")
        files["PodStartupLatency_PodStartupLatency_load_T.json"] = perf_data([entry, entry])
    if rng.random() < 0.2:
        entry = item({"Perc50": value}, unit="ms", Metric="pod_startup")
        files["PodStartupLatency_PodStartupLatency_load_T.json"] = perf_data([entry])
    return files


def _step(root: Path, rng: np.random.Generator, number: int) -> None:
    """One change: a run arrives (in the middle of the order, too), loses a mark, gains a file or goes."""
    job = ("left-job", "right-job")[int(rng.integers(2))]
    there = sorted(path for path in (root / job).iterdir() if path.is_dir())
    what = rng.choice(["arrive", "arrive", "arrive", "between", "unmark", "file", "go"])
    if what in ("arrive", "between"):
        place = 200 + number if what == "arrive" else 50 + number
        result = "SUCCESS" if rng.random() < 0.8 else "FAILURE"
        write_run(root, job, place, _files(rng), hour=number, result=result)
    elif what == "unmark":
        (there[0] / "finished.json").unlink(missing_ok=True)
        (there[0] / "started.json").unlink(missing_ok=True)
    elif what == "file":
        (there[-1] / "artifacts" / f"APIResponsiveness_extra_{number}.json").write_text(api_file(120.0, Verb="PUT"))
    elif len(there) > 4:
        shutil.rmtree(there[int(rng.integers(len(there)))])


@pytest.mark.parametrize(
    ("mode", "select"), [("upstream", "all"), ("statistical", "last-n-runs:7"), ("published", "all")]
)
def test_one_change_at_a_time_gives_what_a_fresh_computation_gives(mode: str, select: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    root = two_jobs(tmp_path, rng.lognormal(4.6, 0.1, 6).tolist(), rng.lognormal(4.6, 0.1, 6).tolist())
    memo = Memo()
    inputs = read_folder(root)
    options: dict[str, Any] = {"mode": mode, "select": select, "draws": 50, **SIDES}
    for number in range(more(7)):
        warm = compute(inputs, memo, **options)
        fresh = compute(inputs, Memo(), **options)
        for name, table in fresh.tables.items():
            assert table.equals(warm.tables[name]), (number, name)
        assert warm.same_as(fresh), number
        _step(root, rng, number)
        inputs = read_folder(root, version=number + 2, before=inputs)


def test_choices_one_after_another_give_what_a_fresh_computation_gives(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    root = two_jobs(tmp_path, rng.lognormal(4.6, 0.1, 9).tolist(), rng.lognormal(4.8, 0.2, 9).tolist())
    for number in range(9):
        _step(root, rng, number)
    inputs = read_folder(root)
    memo = Memo()
    choices: list[dict[str, Any]] = [
        {}, {"threshold": 0.8}, {"threshold": 0.97}, {"threshold": 1.2}, {"threshold": 0.0}, {"scheme": "ks"},
        {"min_average": 150.0}, {"kinds": ("api-responsiveness",)}, {"pass_share": 0.1}, {"group_by": "verb"},
        {"alpha": 0.2}, {"seed": 3}, {"direction": ("load=higher",)}, {"change_p": 0.4}, {"include_failed": True},
        {"right": ("left-job", "right-job")}, {"mode": "upstream"}, {"mode": "published"}, {"threshold": 0.8},
    ]  # fmt: skip
    verdicts = set()
    for choice in choices:
        options = {"select": "all", "draws": 50, **SIDES, **choice}
        warm, fresh = compute(inputs, memo, **options), compute(inputs, Memo(), **options)
        for name, table in fresh.tables.items():
            assert table.equals(warm.tables[name]), (choice, name)
        assert warm.same_as(fresh), choice
        verdicts.add(str(fresh.tables["metrics"].get_column("verdict").to_list()))
    assert len(verdicts) > 3


def _compute_live(session: Session, parameters: ComparisonParameters) -> Result:
    return session.compute("run-comparison", parameters, now_ms=1_785_000_000_000)


@pytest.mark.parametrize("mode", ["upstream", "ks", "published", "statistical"])
def test_a_long_history_and_whatever_happens_next(mode: str, tmp_path: Path) -> None:
    """A live session gives what a new one gives, whatever arrives, changes or goes."""
    rng = np.random.default_rng(17)
    root = tmp_path / "root"
    for job in SIDES["left"] + SIDES["right"]:
        for number in range(13):
            write_run(root, job, 100 + number, _files(rng), hour=2 * number)
    scheme, mode = ("ks", "upstream") if mode == "ks" else ("avg", mode)
    options = {
        "mode": mode, "scheme": scheme, "select": "all", "draws": 40, "change_p": 0.3, "change_window": 6, **SIDES,
    }  # fmt: skip
    parameters = ComparisonParameters(**options)
    live = Session([root], [VIEW], settings=LiveSettings(cache=False))
    changes: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "a run": lambda: write_run(root, "left-job", 300, _files(rng), hour=60),
        "one earlier than all others by number, in their midst by time": lambda: write_run(
            root, "right-job", 50, _files(rng), hour=3
        ),
        "a run goes": lambda: shutil.rmtree(root / "left-job" / "104"),
        "another one in the same folder": lambda: write_run(root, "left-job", 300, _files(rng), hour=61),
        "a new metric": lambda: write_run(
            root, "right-job", 400, {"APIResponsiveness_new_T.json": api_file(5.0, Verb="NEW")}, hour=70
        ),
    }
    for what, change in changes.items():
        change()
        live.scan()
        warm = _compute_live(live, parameters)
        other = Session([root], [VIEW], settings=LiveSettings(cache=False))
        other.scan(final=True)
        fresh = _compute_live(other, parameters)
        for name, table in fresh.tables.items():
            assert warm.tables[name].equals(table), (what, name)
        assert warm.summary == fresh.summary and warm.problems == fresh.problems, what


def test_a_run_that_did_not_change_is_looked_up_once(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [100.0] * 8, [110.0] * 8)
    memo = Memo()
    inputs = read_folder(root)
    compute(inputs, memo, mode="upstream", **SIDES)
    before = {run.key: run for run in compute(inputs, memo, mode="upstream", **SIDES).detail.right}
    write_run(root, "right-job", 900, {"APIResponsiveness_load_T.json": api_file(130.0)}, hour=90)
    result = compute(read_folder(root, version=2, before=inputs), memo, mode="upstream", **SIDES)
    assert [run.number for run in result.detail.right][:2] == [900, 107]
    assert all(run is before[run.key] for run in result.detail.right[1:])
