"""The dashboard and ``report`` show the same result: for every view, on its own sample data."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.output import report
from engine.own_files.settings import Settings, State
from tests.contract.samples import FED, QUIET, opened, play, view
from tests.tui.fakes import screen_lines
from tui.app import Dashboard
from tui.widgets.table.table import LiveTable

NOW_S = 1_800_000_000.0


async def _shown(name: str, folder: Path, state: Path) -> tuple[Any, Any, list[str]]:
    settings = Settings(state / "config.toml", (QUIET,))
    app = Dashboard([folder], settings, view=name, state=State(state / "state.toml"), clock=lambda: NOW_S)
    async with app.run_test(size=(200, 50)) as pilot:
        for _ in range(1500):
            await asyncio.sleep(0.02)  # not pilot.pause: its message to each widget takes longer than most answers
            pane = app.pane
            status = app.live_status
            if pane is not None and pane.result is not None and status is not None and not status.reading:
                break
        else:
            raise AssertionError("no result on screen within 30 s")
        await pilot.pause(0.3)
        while app.client.wanted:  # what another process has read comes in a second result
            await pilot.pause(0.1)
        assert pane.result is not None
        screen = screen_lines(app)
        tables = [str(table.name) for table in app.screen.query(LiveTable)]
        assert tables, "no table on screen"
        return pane.result, pane.parameters, screen


def _broker_load(result: Any) -> None:
    brokers, failures = result.tables["brokers"], result.tables["failures"]
    headline = {line.label: line.value for line in result.headline}
    assert headline["over capacity"] == str(brokers.filter(pl.col("headroom_pct") < 0).height)
    told = headline.get("single failure") or headline["one more failure"]  # on top of a what-if
    for kind in ("broker", "rack"):
        losses = failures.filter(pl.col("failure").str.starts_with(kind + " "))
        lost = losses.filter(~pl.col("survivable")).height
        assert not lost or f"{lost} of {losses.height} {kind}s" in told
    assert headline["goals"].startswith(f"{result.tables['goals']['violated'].sum()} violated")


def _job_heuristics(result: Any) -> None:
    jobs = result.tables["jobs"]
    headline = {line.label: line.value for line in result.headline}
    assert headline["jobs"] == str(jobs.height)
    assert headline["severe or worse"] == str(jobs["severity"].is_in(["SEVERE", "CRITICAL"]).sum())
    listed = result.detail.listing["avoidable_mb_s"].sum()
    assert headline["avoidable"].startswith(f"{listed / 1024 / 3600:,.2f} GB·h")
    assert headline["failed"] == str((jobs["state"] == "FAILED").sum())


def _query_profile(result: Any) -> None:
    classes = result.tables["classes"]
    intervals = result.tables["intervals"].filter(pl.col("window") == "now")
    headline = {line.label: line.value for line in result.headline}
    assert headline["intervals"] == f"{intervals['used'].sum()} of {intervals.height}"
    assert headline["attributed"] == f"{100 * classes['y_share'].sum():.1f}%"
    assert float(headline["active CPUs"].split()[0]) == pytest.approx(
        classes["active_cpus"].sum() / classes["y_share"].sum(), abs=0.006
    )


def _run_comparison(result: Any) -> None:
    rows = result.tables["metrics"].filter(~pl.col("pooled") & ~pl.col("muted"))
    effects = rows.filter(pl.col("verdict") == "different")["effect"]
    assert result.headline[0].value == f"{(effects == 'worse').sum()} worse, {(effects == 'better').sum()} better"
    assert result.summary["regressions"] == len([f for f in result.findings if f.row and f.level == "severe"])


DERIVED = {
    "broker-load": _broker_load,
    "job-heuristics": _job_heuristics,
    "query-profile": _query_profile,
    "run-comparison": _run_comparison,
}
"""By view: checks that the headline is what the tables below it hold."""


@pytest.mark.parametrize("name", FED)
def test_the_screen_shows_what_report_prints(name: str, tmp_path: Path) -> None:
    asyncio.run(_agrees(name, tmp_path))


async def _agrees(name: str, tmp_path: Path) -> None:
    """Return nothing: ``asyncio.run`` asks twice for the text of what it returns, which of a result takes seconds."""
    folder = play(name, tmp_path / "data", changes=1)
    result, parameters, screen = await _shown(name, folder, tmp_path)
    session = opened(name, folder)
    printed = session.compute(name, parameters, now_ms=int(NOW_S * 1000))
    session.close()
    DERIVED.get(name, lambda result: None)(printed)
    now = int(NOW_S * 1000)
    ours = json.loads(report.to_json(view(name), result, parameters, now))
    theirs = json.loads(report.to_json(view(name), printed, parameters, now))
    assert ours["summary"] == theirs["summary"]
    assert ours["problems"] == theirs["problems"]
    for table, rows in theirs["tables"].items():
        if table in ours["tables"]:
            assert ours["tables"][table] == rows, table
    assert view(name).tables[0].name in ours["tables"]
    # What the header line shows is the result's own text.
    text = "\n".join(screen)
    assert any(line.value.split(" ")[0] in text for line in printed.headline)
