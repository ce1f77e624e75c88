"""Every screen of every view on a small and a larger terminal: it is true, fits, and says what its tables and ``report`` say."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import math
import re
import tempfile
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.cells import cell_len

from engine.output import report
from tests.contract.samples import FED, view
from tests.contract.samples import play as samples
from tests.tui.fakes import NOW
from tests.tui.habits import ten_habits
from tests.tui.process.test_type_ahead import NAMES, burst
from tests.tui.shadow import Shadow
from tests.tui.stage import Stage, opened, play, screen_lines, still, unseen
from tui.glyphs import BRAILLE
from tui.screens.words import LABEL, explained, labels_on
from tui.widgets.drawing.fragments import plain
from tui.widgets.table.layout import beside, layout
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell, default_cell

SMALL = (80, 24)
LARGER = ((160, 45), (200, 50))
SHARED = {"first screen": "", "zoomed": "z", "help": "?", "opened": "\r"}
"""Keys into a state of the screen that every view has; Escape leads back. Every other one begins on the smallest screen, so
also the help, which fills only that."""
OWN = {
    "broker-load": {"a broker dies": " ", "failures": "]]]]", "topics at an earlier time": "]("},
    "job-heuristics": {"roll-up": "]", "tasks": "\r]]", "published, earlier": "m("},
    "query-profile": {"halves": "v", "WLR, earlier": "m(", "what if": "i"},
    "run-comparison": {"change points": "]]]", "only worse, earlier": "W(", "benchmark tool": "m"},
    "ring-placement": {"a node is gone": " A", "tenants, one node more": "]+", "what if": "i"},
}
"""Keys into states of one view."""
MORE = {" ": "space", "]": "right_square_bracket", "(": "left_parenthesis", "!": "exclamation_mark", "+": "plus_sign"}


def scenarios(name: str) -> list[tuple[str, str, tuple[tuple[int, int], tuple[int, int]]]]:
    """Return the states of the screens of a view, the keys into each, and the two sizes in which it is looked at: it begins in
    the one in which the one before ended. Neighbours among states and views have another one of the larger sizes."""
    states = {**SHARED, **OWN[name]}.items()
    pairs = [(SMALL, LARGER[(place // 2 + FED.index(name)) % 2]) for place in range(len(states))]
    return [
        (what, typed, pair[::-1] if place % 2 else pair)
        for place, ((what, typed), pair) in enumerate(zip(states, pairs, strict=True))
    ]


@lru_cache
def data(name: str) -> Path:
    """The one folder of sample files of a view; nothing changes them."""
    folder = tempfile.TemporaryDirectory(prefix="loadlens-")
    atexit.register(folder.cleanup)
    still(samples(name, Path(folder.name) / "data", changes=1))
    return Path(folder.name) / "data"


async def keys(s: Stage, typed: str) -> None:
    await burst(s, [({**NAMES, **MORE}.get(c, c), c if c.isprintable() else "") for c in typed])


async def back(s: Stage) -> None:
    """Return to the first screen, all parameters as at the start."""
    pane = s.app.pane
    while len(s.app.screen_stack) > 1 or len(pane.levels) > 1 or s.app.screen.maximized is not None:
        await keys(s, "\x1b")
    pane.at(None)
    pane.action_reset()
    for sections in pane.query("Sections"):
        sections.choose(0)
    pane.focus_content()


async def quiet(s: Stage) -> None:
    """Wait until nothing is computed any more, without notifications."""
    while s.app.client.wanted:
        await asyncio.sleep(0.005)
    s.app.clear_notifications()
    s.app.update_status()
    await s.pilot.pause()


async def true(s: Stage, shadow: Shadow, what: str) -> None:
    """What was sent to the terminal is, once all frames are drawn, what a full repaint of the same state shows."""
    for _ in range(2):
        with contextlib.suppress(AssertionError):
            await s.until(lambda: shadow.lines() == screen_lines(s.app), 5)
        s.app.update_status()  # as every second: how many columns are hidden is known once the table is drawn
        await s.pilot.pause()
    sent = shadow.lines()
    with unseen():
        for widget in s.app.screen.walk_children(with_self=True):
            widget._styles_cache.clear()
            getattr(widget, "redraw", widget.refresh)()
            widget.refresh()
        await s.pilot.pause()
    assert sent == screen_lines(s.app), what


def fits(s: Stage, what: str) -> None:
    """No line is too long, no widget sticks out."""
    width, height = s.app.size
    shown = screen_lines(s.app)
    assert len(shown) == height and all(cell_len(line) <= width for line in shown), what
    for widget, (region, clip) in s.app.screen._compositor.visible_widgets.items():
        assert region.intersection(clip).right <= width and region.x >= 0, f"{what}: {widget}"
    assert s.app.pane.error == "" and "Traceback" not in "\n".join(shown), what


OWN_UNITS = ("mean_before", "mean_after", "mean_left", "mean_right")
"""Columns of which each row has a unit."""
OTHERS = ("Avg ", "Max ", "Min ", "Average ", "Requested ", "Number of ", "and ")
"""How labels begin that Dr. Elephant gives its own numbers, and lines that count what is not listed."""


def explains(s: Stage, what: str) -> None:
    """The help has a sentence for each word before a value, unless it is a name that the tables hold."""
    pane = s.app.pane
    frames = pane.result.tables.values()
    data = {
        text
        for frame in frames
        for column in frame.select(pl.col(pl.String)).iter_columns()
        for text in column.unique()
    }
    data |= {pane.result.summary.get(f"{side}_name") for side in ("left", "right")}
    data |= {label for label in labels_on(pane) if label.startswith(OTHERS)}
    shown = [(number.label, *(number.short or ())[:1]) for number in pane.result.headline]
    shown += [(pane.result.trend.label,)] if pane.result.trend is not None else []
    on_overview = {word for words in shown for word in words} - data
    assert not [word for word in on_overview if LABEL.fullmatch(word) and not explained(word, [word], ())], what
    assert not [
        label for label in labels_on(pane) if label not in data and not explained(label, [label], pane.view.tables)
    ], what


def lines_up(s: Stage, what: str) -> None:
    """The numbers of a column have one number of decimals; those of durations and of values with their own unit may differ."""
    for table in s.app.screen.query(LiveTable):
        window = table.window
        if window is None or window.spec.name == "metrics":
            continue
        for slot in layout(window.columns, 400).slots:
            column = slot.column
            if column.kind not in ("number", "percent", "bytes", "bytes_per_s") or column.name in OWN_UNITS:
                continue
            renderer = window.looks.cells.get(column.name, partial(default_cell, column))
            shown = [
                plain(renderer(Cell(column.name, row.get(column.name), row, slot.width, BRAILLE, window.peak)))
                for row in window.rows(0, min(window.height, 100))
            ]
            decimals = {len(found) for text in shown for found in re.findall(r"(?<![\d.,])[\d,]+(?:\.(\d+))?", text)}
            assert len(decimals) < 2, f"{what}: {window.spec.name}.{column.name}: {shown}"


UNITS = {
    "B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3, "TiB": 1024.0**4, "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0,
    "MB·s": 1 / 1024 / 3600,
}  # fmt: skip
"""What a unit is in the smallest or the usual one of its quantity."""
QUANTITY = {"%": "%", "×": "×", "GB·h": "memory", "MB·s": "memory"}
TOKEN = re.compile(
    r"(?<![\w.,:/-])[-+]?(\d[\d,]*(?:\.(\d+))?)(?:\s?(GB·h|MB·s|[KMGT]?i?B/s|[KMGT]?i?B|%|×|ms|µs|ns|s|m)(?![\w·]))?"
    r"(?:(?<=m) (\d\d)s)?(?![\w:%])"
)


def numbers(text: str, unit: str = "") -> list[tuple[float, float, str, str]]:
    """Return the numbers of a text: value, half of its last digit, quantity (empty: not told), as written."""
    found = []
    for match in TOKEN.finditer(text):
        digits, decimals, named, seconds = match.groups()
        value, name = float(digits.replace(",", "")), named or unit
        if name == "m":
            found.append((value * 60 + float(seconds or 0), 0.5, "time", match[0]))
            continue
        name = name.removesuffix("/s") if name.endswith("B/s") and name in (*map("{}/s".format, UNITS),) else name
        factor = UNITS.get(name, 1.0)
        quantity = QUANTITY.get(name, name if name not in UNITS else "bytes" if name.endswith("B") else "time")
        found.append((value * factor, 0.5 * 10.0 ** -len(decimals or "") * factor, quantity, match[0].strip()))
    return found


def beside_tables(s: Stage) -> list[str]:
    """Return the lines of the screen without what its tables draw."""
    lines = [list(line) for line in screen_lines(s.app)]
    for table in s.app.screen.query(LiveTable):
        for y in range(max(table.region.y, 0), min(table.region.bottom, len(lines))):
            lines[y][table.region.x : table.region.right] = " " * len(lines[y][table.region.x : table.region.right])
    return ["".join(line) for line in lines]


def one_form(s: Stage, what: str) -> None:
    """A number of the row under the cursor, or of a row named in the first lines, has the table's decimals and unit there."""
    lines = [
        line for line in beside_tables(s) if "│" not in line.replace(" │ ", "")
    ]  # scales of charts are round numbers
    for table in s.app.screen.query(LiveTable):
        window = table.window
        if window is None:
            continue
        for place, row in enumerate(window.rows(0, min(window.height, 40))):
            name = str(row[window.columns[0].name])
            named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
            shown = [line for line in lines if named.search(line)] if len(name) > 3 else []
            near = lines if table.has_focus and not place else shown
            for slot in layout(window.columns, 400).slots if near else ():
                column = slot.column
                if column.kind not in ("number", "percent", "bytes", "bytes_per_s", "ms", "s", "ratio", "mb_s"):
                    continue
                unit = {"mb_s": "GB·h", "percent": "%", "ratio": "×"}.get(column.kind, column.unit)
                renderer = window.looks.cells.get(column.name, partial(default_cell, column))
                cell = plain(renderer(Cell(column.name, row.get(column.name), row, slot.width, BRAILLE, window.peak)))
                for value, half, quantity, written in numbers(cell, unit):
                    for other, other_half, of, text in (each for line in near for each in numbers(line)):
                        same = of == quantity if of and quantity else "." in text and "." in written
                        close = abs(value - other) <= max(half, other_half) * 1.001
                        told = f"{what}: {window.spec.name}.{column.name} is {written} {unit} and {text}"
                        assert not (value > 0.02 and same and close and not math.isclose(half, other_half)), told


def only_more(s: Stage, what: str) -> None:
    """A column that is shown at one width is shown at every greater one, with a panel beside the table or without."""
    for table in s.app.screen.query(LiveTable):
        window = table.window
        if window is None:
            continue
        need = window.needs
        for panel in (False, True):
            before: set[str] = set()
            for width in range(80, 221, 5):
                wide, room = beside(window.columns, width, need) if panel else (0, 0)
                shown = {slot.column.name for slot in layout(window.columns, width - wide, 0, need, room).slots}
                assert before <= shown, f"{what}: {window.spec.name} loses {before - shown} at {width}"
                before = shown


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


def agrees(s: Stage, name: str) -> None:
    """The result on screen is what ``report`` prints of the same files, and the first lines show its headline."""
    result, parameters, now_ms = s.app.pane.result, s.app.pane.parameters, int(NOW * 1000)
    printed = s.session.compute(name, parameters, now_ms=now_ms)
    ours = json.loads(report.to_json(view(name), result, parameters, now_ms))
    theirs = json.loads(report.to_json(view(name), printed, parameters, now_ms))
    assert ours["summary"] == theirs["summary"] and ours["problems"] == theirs["problems"]
    for table, rows in theirs["tables"].items():
        if table in ours["tables"]:
            assert ours["tables"][table] == rows, table
    assert view(name).tables[0].name in ours["tables"]
    text = "\n".join(screen_lines(s.app))
    assert any(line.value.split(" ")[0] in text for line in printed.headline)


def test_every_state_and_every_view_is_seen_in_every_size() -> None:
    seen = [(name, what, size) for name in FED for what, _, sizes in scenarios(name) for size in sizes]
    for size in (SMALL, *LARGER):
        assert {name for name, _, at in seen if at == size} == set(FED)
        assert {what for _, what, at in seen if at == size} >= set(SHARED)


@pytest.mark.parametrize("name", FED)
def test_every_screen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    async def story() -> Any:
        async with opened(data(name), view(name), tmp_path, LARGER[-1], once=True, painted=True) as s:
            shadow = Shadow(s.app)
            await s.resize(*SMALL)
            for what, typed, sizes in scenarios(name):
                await keys(s, typed)
                await quiet(s)
                await true(s, shadow, what)
                DERIVED.get(name, lambda result: None)(s.app.pane.result)  # the headline is what the tables hold
                if what == "first screen":
                    agrees(s, name)
                with unseen():
                    lines_up(s, what)
                    only_more(s, what)
                    for size in sizes:
                        if size != s.app.size:
                            await s.resize(*size)
                        at = f"{what} at {size[0]}x{size[1]}"
                        fits(s, at)
                        if size == SMALL or what != "help":
                            one_form(s, at)
                        explains(s, at)
                    await back(s)
                    await quiet(s)
                s.app.screen.refresh(layout=True)
                await s.pilot.pause()
            with unseen():
                if s.app.size != SMALL:
                    await s.resize(*SMALL)
                await ten_habits(s)

    play(story)
