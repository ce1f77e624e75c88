"""The run comparison's tab, driven by its keys on its sample, and what it looks like."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.cells import cell_len

from engine.run_comparison.view import VIEW
from sample_data.run_comparison.make import FIRST, JOBS, STEP, Mood, write_run
from tests.tui.stage import SIZES, Stage, compare, copied, opened, play, screen_lines, screen_styles, settle
from tui.glyphs import ASCII, BLOCK, BRAILLE
from tui.views.run_comparison.drawing import named, strip
from tui.views.run_comparison.pane import RUNS, MetricLevel, Pane
from tui.widgets.control import NumberControl
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

FILES = Path(__file__).parents[2] / "sample_data" / "run_comparison" / "files"


def tab(tmp_path: Path, size: tuple[int, int] = (120, 40), root: Path | None = None) -> Any:
    """The dashboard on the sample, or on ``root`` whose files change, on this tab, with its first result."""
    return opened(root or copied(FILES), VIEW, tmp_path, size, once=root is None)


def metrics(s: Stage) -> LiveTable:
    return s.app.pane.query_one("#metrics", LiveTable)


def runs(s: Stage) -> LiveTable:
    return s.app.pane.query_one("#runs", LiveTable)


def summary(s: Stage) -> Any:
    return s.app.pane.result.summary


def test_what_the_metrics_look_like_on_every_terminal(tmp_path: Path, update: bool) -> None:
    """Other themes change colours only; an ASCII screen has only ASCII where we draw."""

    async def story() -> None:
        async with tab(tmp_path, SIZES[0]) as s:
            for size in SIZES[::-1]:
                await s.resize(*size)
                await settle(s)
                compare(f"run-comparison-{size[0]}x{size[1]}", s.text(), update)
            before = s.text()
            for theme in ("loadlens-light", "ansi-dark"):
                s.app.theme = theme
                await settle(s)
                assert s.text() == before
                assert max(len(set(line)) for line in screen_styles(s.app)) > 2
            await s.press("f6", "f6")
            await settle(s)
            assert s.app.glyphs is ASCII
            table = metrics(s)
            for line in screen_lines(s.app)[table.region.y + 1 : table.region.bottom]:
                drawn = line[: table.region.width - 2]
                assert drawn.isascii(), drawn
            await s.press("f6")

    play(story)


def test_what_the_sections_look_like(tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:

            async def look(name: str, *keys: str, until: Callable[[], Any] = lambda: True) -> None:
                for key in keys:
                    await s.press(key)
                await s.until(until)
                await settle(s)
                compare(f"run-comparison-{name}", s.text(), update)

            following = "right_square_bracket"
            opened = lambda: bool(s.app.pane.query(MetricLevel))  # noqa: E731
            await look("metric", "enter", until=opened)
            assert "Brown-Forsythe" in s.text()
            await s.choose("run-comparison.distribution")
            await look("histogram", until=opened)
            await s.choose("run-comparison.distribution")
            await s.press("escape")
            await s.until(lambda: not opened())
            assert s.app.focused is metrics(s)
            await look("runs", following)
            await look("groups", following)
            await look("change-points", following)
            await look("thresholds", following, following)
            await s.press(following)
            await look("published", "m", until=lambda: summary(s)["mode"] == "published")
            await look("upstream", "m", until=lambda: summary(s)["mode"] == "upstream")

    play(story)


def test_the_worst_comes_first_and_the_detail_follows(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            table = metrics(s)
            rows = table.window.rows(0, table.window.height)
            worse = [row["verdict"] == "different" and row["effect"] == "worse" for row in rows]
            assert worse == sorted(worse, reverse=True)
            evidence = [row["evidence"] for row in rows[: sum(worse)]]
            assert evidence == sorted(evidence, reverse=True)
            assert sum(worse) == summary(s)["worse"] > 0
            assert f"{summary(s)['worse']} worse, {summary(s)['better']} better" in s.text()
            assert "simulated/cluster" in s.text()
            await s.press("down")
            await s.until(
                lambda: s.app.pane.root.facts(s.app.pane.result, metrics(s).row)[0][0] in s.text().replace("…", "")
            )

    play(story)


def test_the_mode_key_goes_round(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            for mode in ("published", "upstream", "statistical"):
                await s.press("m")
                await s.until(lambda mode=mode: summary(s)["mode"] == mode)
            await s.press("u")
            await s.until(lambda: summary(s)["mode"] == "upstream")

    play(story)


def test_a_threshold_moves_live_from_the_table_and_from_its_control(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            before = summary(s)["matched"]
            await s.press(*["plus"] * 12)
            await s.until(lambda: summary(s)["threshold"] == pytest.approx(0.9))
            assert summary(s)["matched"] < before
            await s.press(*["right_square_bracket"] * 5)
            control = s.app.pane.query_one("#set-threshold", NumberControl)
            assert control.value == pytest.approx(0.9)
            control.focus()
            await s.press("minus")
            await s.until(lambda: summary(s)["threshold"] == pytest.approx(0.88))

    play(story)


def test_one_key_shows_only_worse_then_better_then_where_modes_disagree(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            table = metrics(s)
            whole = table.window.height
            found = s.app.pane.result
            disagree = found.tables["metrics"]["disagree"].fill_null(False).sum()
            for word, expected in (
                ("worse", found.summary["worse"]), ("better", found.summary["better"]), ("disagree", disagree),
            ):  # fmt: skip
                await s.press("W")
                await s.until(lambda expected=expected: table.window.height == expected)
                assert expected < whole
                await s.see(f"Metrics {word} only")
            await s.press("W")
            await s.until(lambda: " only   Runs" not in s.text())
            assert table.choice.filter == ""
            assert table.window.height == whole

    play(story)


def test_space_mutes_a_metric_and_0_copies_the_line_for_a_review(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            table, before = metrics(s), summary(s)
            await s.press("space")
            await s.until(lambda: summary(s)["muted"] == 1)
            assert summary(s)["worse"] == before["worse"] - 1 and not table.row["regression"]
            await s.see("muted")
            await s.press("space")
            await s.until(lambda: summary(s) == before)
            await s.press("R")
            await s.see(before["review"][:40])

    play(story)


async def _at_run(s: Stage, job: str, number: int) -> None:
    sections = s.app.pane.query_one("#sections", Sections)
    if sections.chosen != 1:
        sections.choose(1)
        await s.pilot.pause()
    table = runs(s)
    table.focus()
    found = next(
        i
        for i, row in enumerate(table.window.shown().iter_rows(named=True))
        if (row["job"], row["run"]) == (job, str(number))
    )
    table.move_to(found)
    await s.pilot.pause()


def sides(s: Stage) -> dict[tuple[str, str], str]:
    frame = s.app.pane.result.tables["runs"]
    return {(row["job"], row["run"]): row["side"] for row in frame.iter_rows(named=True)}


def test_one_run_is_taken_out_and_put_back(tmp_path: Path) -> None:
    number = FIRST + 5 * STEP + 1_111

    async def story() -> None:
        async with tab(tmp_path) as s:
            key = (JOBS[1], str(number))
            assert sides(s)[key] == "right"
            await _at_run(s, *(JOBS[1], number))
            await s.press("space")
            await s.until(lambda: sides(s)[key] == "")
            assert summary(s)["runs_right"] == 6
            assert summary(s)["bad_runs"] == 0
            await s.press("space")
            await s.until(lambda: sides(s)[key] == "right")

    play(story)


def test_a_failed_run_can_be_put_on_a_side(tmp_path: Path) -> None:
    number = FIRST + 3 * STEP

    async def story() -> None:
        async with tab(tmp_path) as s:
            await _at_run(s, JOBS[0], number)
            await s.press("greater_than_sign")
            await s.until(lambda: sides(s)[JOBS[0], str(number)] == "right")
            assert "did not finish with SUCCESS" in " ".join(s.app.pane.result.notes)

    play(story)


def test_a_range_and_a_whole_job_and_a_filter(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await _at_run(s, JOBS[0], FIRST + 2 * STEP)
            await s.press("V", "down", "down", "V", "greater_than_sign")
            await s.until(lambda: summary(s)["runs_right"] == 10)
            assert [side for (job, _), side in sides(s).items() if job == JOBS[0]].count("right") == 3
            await _at_run(s, JOBS[0], FIRST)
            await s.choose("run-comparison.mark-job")
            await s.press("less_than_sign")
            await s.until(lambda: summary(s)["runs_left"] == 7)
            assert s.app.pane.parameters.left == (JOBS[0],)
            runs(s).choose(filter=f"job={JOBS[1]} bad=yes")
            await s.pilot.pause()
            await s.choose("run-comparison.mark-shown")
            await s.press("space")
            await s.until(lambda: summary(s)["bad_runs"] == 0)
            await s.choose("run-comparison.usual-sides")
            await s.until(lambda: summary(s)["runs_right"] == 7)

    play(story)


def test_a_side_is_never_emptied(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await _at_run(s, JOBS[0], FIRST)
            await s.choose("run-comparison.mark-job")
            await s.press("greater_than_sign")
            await s.see("that would leave nothing on the left")
            assert summary(s)["runs_left"] == 7

    play(story)


def test_a_run_that_finishes_joins_its_side(tmp_path: Path) -> None:
    import random

    root = Path(shutil.copytree(FILES, tmp_path / "data"))

    async def story() -> None:
        async with tab(tmp_path, root=root) as s:
            folder = write_run(root, 0, 20, Mood(1.0, None), random.Random(1))
            s.app.client.rescan()
            await s.until(lambda: (JOBS[0], folder.name) in sides(s))
            assert sides(s)[JOBS[0], folder.name] == ""
            write_run(root, 0, 20, Mood(), random.Random(1))
            s.app.client.rescan()
            await s.until(lambda: sides(s)[JOBS[0], folder.name] == "left")
            assert summary(s)["runs_left"] == 8

    play(story)


def test_groups_lead_to_their_metrics(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await s.press("b")
            await s.until(lambda: s.app.pane.parameters.group_by == "verb")
            groups = s.app.pane.query_one("#groups", LiveTable)
            await s.until(lambda: groups.row is not None and groups.row["by"] == "verb")
            groups.focus()
            await s.press("enter")
            assert metrics(s).choice.filter.startswith("verb=")
            assert s.app.pane.query_one("#sections", Sections).chosen == 0

    play(story)


def test_a_change_point_leads_to_its_metric(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await s.press(*["right_square_bracket"] * 3)
            table = s.app.pane.query_one("#change-points", LiveTable)
            table.focus()
            wanted = {k: table.row[k] for k in ("test", "verb", "resource", "bucket")}
            await s.press("enter")
            assert {k: metrics(s).row[k] for k in wanted} == wanted

    play(story)


def test_time_travel_steps_over_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            whole = summary(s)["runs_left"] + summary(s)["runs_right"]
            await s.press(*["left_parenthesis"] * 8)
            await s.until(lambda: summary(s)["runs_left"] + summary(s)["runs_right"] < whole)
            await s.press("backslash")
            await s.until(lambda: summary(s)["runs_left"] + summary(s)["runs_right"] == whole)

    play(story)


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK, ASCII], ids=lambda g: g.name)
@pytest.mark.parametrize("width", [0, 1, 2, 14, 40])
def test_strips_have_their_width(glyphs: Any, width: int) -> None:
    for left, right in (([], []), ([1.0], []), ([], [2.0]), ([1.0, 2.0, 3.0], [2.0, 9.0]), ([5.0] * 4, [5.0] * 3)):
        text = "".join(part for part, _ in strip(left, right, width, glyphs))
        assert cell_len(text) == width
        assert not glyphs.ascii or text.isascii()


def test_a_strip_tells_sides_apart_without_colour() -> None:
    text: Callable[[Any], str] = lambda line: "".join(part for part, _ in line)  # noqa: E731
    assert text(strip([0.0, 10.0], [], 3, BRAILLE)) != text(strip([], [0.0, 10.0], 3, BRAILLE))
    assert text(strip([0.0, 1.0, 2.0], [8.0, 9.0, 10.0], 11, ASCII)) == "'^'.....:v.".replace(":", ".")


def test_the_pane_belongs_to_the_view() -> None:
    assert VIEW.name == Pane.VIEW


def test_what_all_metrics_of_a_test_share_is_not_in_names() -> None:
    rows = [
        ("soak", "request", "latency", "connections=8"),
        ("soak", "request", "rate", "connections=8"),
        ("smoke", "request", "latency", "path=/a"),
        ("smoke", "request", "latency", "path=/b"),
        ("alone", "request", "latency", "path=/a"),
        ("bare", "", "", "size=4"),
        ("bare", "", "", "size=4"),
        ("api", "list", "pods", ""),
        ("api", "watch", "pods", ""),
        ("api", "watch", "", ""),
    ]
    frame = pl.DataFrame(rows, schema=["test", "verb", "resource", "metric"], orient="row")
    names = named(frame.with_columns(subresource=pl.lit(""), scope=pl.lit("")))["name"].to_list()
    assert names[:2] == ["latency", "rate"]
    assert names[2:5] == ["latency path=/a", "latency path=/b", "request latency path=/a"]
    assert names[5:7] == ["size=4", "size=4"]
    assert names[7:] == ["list pods", "watch pods", "watch"]


def test_cells_of_a_hidden_table_stay_with_its_rows(tmp_path: Path) -> None:
    """Metrics go while another section is on screen: no cell of the old rows is drawn from the new result."""

    async def story() -> None:
        async with tab(tmp_path, (120, 40)) as s:
            pane, before = s.app.pane, metrics(s).window
            await s.press("right_square_bracket")
            few = {name: frame.clear() for name, frame in pane.result.tables.items() if name != "metrics"}
            kept = pane.result.tables["metrics"].head(2)
            await pane.receive(
                replace(
                    pane.result, tables={**few, "metrics": kept}, detail=_Few(pane.result.detail, kept["row"].to_list())
                )
            )
            assert metrics(s).window.frame is before.frame and metrics(s).window.looks.source is before.looks.source
            await s.resize(100, 30)
            metrics(s).repaint()
            await s.press("left_square_bracket")
            await s.until(lambda: metrics(s).window.height == 2)
            assert pane.error == ""

    play(story)


class _Few:
    """The detail of a result with a few metrics."""

    def __init__(self, detail: Any, rows: list[int]) -> None:
        self._detail, self._rows = detail, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._detail, name)

    def sample(self, row: int) -> Any:
        if row not in self._rows:
            raise IndexError(row)
        return self._detail.sample(row)


def test_files_that_go_while_the_metrics_are_hidden(tmp_path: Path) -> None:
    """The hidden table still holds rows of the earlier result; they are drawn with its samples and names."""
    root = tmp_path / "runs"

    def write(names: str) -> None:
        for side, factor in (("old", 1.0), ("new", 1.5)):
            for run in range(1, 5):
                file = root / side / str(run) / "bench.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(f"Benchmark{name} 10 {100 * factor + run} ns/op\n" for name in names))

    async def story() -> None:
        write("ABCDEFGHIJKLMNOP")
        async with tab(tmp_path, (160, 45), root) as s:
            await s.until(lambda: summary(s)["total"] == 16)
            strips = metrics(s).window.looks.cells["samples"]
            await s.press("right_square_bracket")
            await s.until(lambda: s.app.pane.root.section == RUNS)
            write("P")
            await s.until(lambda: summary(s)["total"] == 1)
            assert metrics(s).window.looks.cells["samples"] is strips and metrics(s).window.height == 16
            await s.resize(80, 24)
            await s.press("left_square_bracket")
            await s.until(lambda: metrics(s).window.height == 1)
            await s.see("new against old")

    play(story)
