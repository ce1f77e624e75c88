"""Rows that the palette finds: what tells them apart is in the line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from engine.core.tables import Column, Table
from tui import actions
from tui.screens.palette import Found, rows_in
from tui.widgets.table.window import Choice, build

SWEEP = Table(
    "sweep",
    "Failures.",
    (
        Column("rank", pl.Int64, "Place.", kind="id"),
        Column("down", pl.List(pl.String), "Nodes.", kind="text"),
        Column("lost", pl.Float64, "Share.", kind="ratio"),
    ),
    key=("rank",),
)


def test_a_row_that_is_named_by_a_number_shows_its_texts() -> None:
    frame = pl.DataFrame({"rank": [1, 2], "down": [["node-3"], ["node-1", "node-3"]], "lost": [0.2, 0.1]})
    table: Any = SimpleNamespace(window=build(SWEEP, frame, Choice()))
    found = rows_in(table, "node-3")
    assert [(one.title, one.help) for one in found] == [("1", "node-3"), ("2", "node-1, node-3")]


def test_words_that_operators_use_find_what_they_mean() -> None:
    def best(typed: str, view: str) -> list[str]:
        offered = [action for action in (*actions.view_actions(view), *actions.SHARED) if action.palette]
        known = [Found("action", a.title, a.help, lambda: None, a.keys) for a in offered]
        known.append(Found("column", "cpu %", "Sort by this column: share of the CPU.", lambda: None))
        known.append(Found("theme", "light theme", "Take this colour theme.", lambda: None))
        scored = [(score, found) for found in known if (score := found.score(typed)) is not None]
        return [found.title for _, found in sorted(scored, key=lambda pair: pair[0])]

    for view in ("broker-load", "ring-placement"):
        for typed in ("node fails", "simulate", "kill", "broker dies", "kill broker", "simulate failure"):
            assert best(typed, view)[0] == "Take out", (typed, view)
    assert best("add nodes", "ring-placement")[0] == "Raise" and best("export csv", "query-profile")[0] == "Export"
    assert best("sort by cpu", "broker-load")[0] == best("sort cpu", "query-profile")[0] == "cpu %"
    means = {"what if": "Take out", "exit": "Quit", "quit": "Quit", "reset": "Defaults", "refresh": "Look again"}
    means |= {"rebalance": "Plan", "full screen": "Zoom", "light theme": "light theme"}
    assert {typed: best(typed, "broker-load")[0] for typed in means} == means
    assert best("what if", "job-heuristics")[0] == best("simulate", "query-profile")[0] == "What if"
