"""How the cells of the broker load tab are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from engine.core import units
from tui.views.shared.cells import named, number, trend
from tui.widgets.drawing.bars import bar
from tui.widgets.drawing.fragments import Fragment, cells, fit
from tui.widgets.table.window import Looks, lined_up

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Kind, Table
    from tui.widgets.table.window import Cell, Renderer

_SHORT = {"over CPU": ">CPU", "over NW_IN": ">in", "over NW_OUT": ">out", "over DISK": ">disk"}


def shown(cell: Cell, kind: Kind, value: Any, width: int) -> str:
    """Return ``value`` as text of its kind in the characters the terminal has."""
    text = lined_up(cell, kind, value, width).strip()
    return text.replace(units.NOTHING, "-") if cell.glyphs.ascii else text


def load_bar(kind: Kind, capacity: str = "", more: str = "", over: str = "") -> Renderer:
    """Draw a bar and, right of it, the number. The bar is full at 100 for percentages, else at the row's ``capacity`` or,
    without one, at the column's peak. Column ``more`` is added in a second style. The number is red if the row's flags have
    ``over``."""

    def render(cell: Cell) -> Sequence[Fragment]:
        # The header names the percentage: no sign behind each.
        room = (5 if kind == "percent" else 6) + (cell.width >= 12)
        label = fit(shown(cell, kind, cell.value, room).removesuffix("%"), min(room, cell.width), "right")
        number = (label, "severe" if over and over in str(cell.row.get("flags") or "") else "")
        left = cell.width - cells(label)
        top: Any = 100.0 if kind == "percent" else cell.row.get(capacity)
        limited = isinstance(top, (int, float)) and top > 0
        top = top if limited else cell.peak(cell.name)
        drawn = bar(cell.value, top, left, cell.glyphs)
        rest = cell.row.get(more)
        if not limited or not rest or not cell.value or cell.value != cell.value:
            return [(drawn, "bar"), number]
        # Both together, the second part in another style.
        whole = bar(cell.value + rest, top, left, cell.glyphs)
        split = len(drawn.rstrip())
        return [(whole[:split], "bar"), (whole[split:], "bar2"), number]

    return render


def moved(before: str, kind: Kind, bars: bool = False, over: str = "") -> Renderer:
    """Draw before and after in one cell: ``38.4→52.1``, or one number if nothing changed; with ``bars`` also a bar (of 100)
    of the old and the added part. Red if the row's breaches have ``over``. A failed broker has no number afterwards, although
    the model keeps its replicas as followers."""

    def render(cell: Cell) -> Sequence[Fragment]:
        after = _after_failure(cell)
        room = 13 if not bars else min(cell.width, 12)
        half = (room - 1) // 2
        first, second = (shown(cell, kind, value, half).removesuffix("%") for value in (cell.row.get(before), after))
        text = second if first == second else f"{first}{cell.glyphs.arrow}{second}"
        if len(text) > min(room, cell.width):
            text = shown(cell, kind, after, cell.width)
        label = fit(text, min(room, cell.width), "right")
        style = "severe" if over and over in str(cell.row.get("breaches") or "") else "" if first == second else "title"
        if not bars or cell.width - room < 4:
            return [(fit(label, cell.width, "right"), style)]
        left = cell.width - room - 1
        now = bar(after, 100.0, left, cell.glyphs)
        then = len(bar(cell.row.get(before), 100.0, left, cell.glyphs).rstrip())
        return [(now[:then], "bar"), (now[then:], "bar2"), (" " + label, style)]

    return render


def _after_failure(cell: Cell) -> Any:
    """Return the cell's value, None of a broker that has failed in the scenario."""
    return None if cell.row.get("state") == "FAILED" else cell.value


def of_leads(name: str) -> Renderer:
    """Draw a broker of a step; if only the leader changes, the broker in column ``name``."""
    return lambda cell: [
        (shown(cell, "id", cell.row[name] if cell.row["kind"] == "lead" else cell.value, cell.width), "")
    ]


def survivors(kind: Kind) -> Renderer:
    """Draw a number of the brokers that have not failed in the scenario."""
    return lambda cell: [(fit(shown(cell, kind, _after_failure(cell), cell.width), cell.width, "right"), "")]


def leaders_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw leaders of all replicas, ``10/32``, or the leaders alone where both do not fit."""
    both = f"{shown(cell, 'text', cell.value, 0)}/{shown(cell, 'text', cell.row.get('replicas'), 0)}"
    text = both if len(both) <= cell.width else shown(cell, "count", cell.value, cell.width)
    return [(fit(text, cell.width, "right"), "")]


def flag_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a state that is not alive, thresholds broken; in short words where there is little room."""
    state, source = (str(cell.row.get(name) or usual) for name, usual in (("state", "ALIVE"), ("source", "model")))
    special = [word for word, usual in ((state, "ALIVE"), (source, "model")) if word != usual]
    words = [*special, *filter(None, str(cell.value or "").split(", "))]
    loud = state != "ALIVE" or any(word.startswith(("over", "silent")) for word in words)
    text = ", ".join(words)
    if cells(text) > cell.width:
        text = " ".join(_SHORT.get(word, word) for word in words)
    return [(text, "severe" if loud else "dim")]


def goal_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a goal; where there is little room without the word that all of them end in."""
    name = str(cell.value or "")
    return [(name if len(name) <= cell.width else name.removesuffix("Goal"), "")]


def violated_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw whether a goal is violated; ``?`` where that is unknown."""
    words = {None: ("?", "dim"), False: ("no", "dim")}
    return [words.get(cell.value, ("YES", "severe" if cell.row.get("hard") else "moderate"))]


def meanwhile(over: str, kind: Kind) -> Renderer:
    """Draw one cell of the rolling restart: the number, and ``!`` where column ``over`` of the row says so; the broker that is
    down has none."""

    def render(cell: Cell) -> Sequence[Fragment]:
        if cell.value is None:
            return [(fit("down", cell.width, "right"), "dim")]
        bad = cell.row.get(over)
        text = shown(cell, kind, cell.value, cell.width - 1).removesuffix("%") + ("!" if bad else " ")
        return [(fit(text, cell.width, "right"), "severe" if bad else "")]

    return render


@lru_cache(maxsize=4)
def in_cores(spec: Table) -> Table:
    """Return the table of brokers with CPU in % of one core in front, for brokers whose cores are unknown."""
    shown = tuple(replace(c, priority=0, width=14) if c.name == "cpu_pct_cores" else c for c in spec.columns)
    return replace(spec, columns=shown)


HEADROOM = number(
    "{:+.1f}%", lambda cell: "severe" if cell.value < 0 else "moderate" if cell.value < 10 else "", none="-"
)
COUNT = number("{}", lambda cell: "severe" if cell.value else "dim", none="-")
BROKER_CELLS: dict[str, Any] = {
    "headroom_pct": HEADROOM,
    "cpu_pct": load_bar("percent", over="over CPU"),
    "cpu_pct_cores": load_bar("number"),
    "disk_pct": load_bar("percent", over="over DISK"),
    "leader_nw_in_kbs": load_bar("number", "nw_in_cap_kbs", "follower_nw_in_kbs", over="over NW_IN"),
    "nw_out_kbs": load_bar("number", "nw_out_cap_kbs", over="over NW_OUT"),
    "pnw_out_kbs": load_bar("number", "nw_out_cap_kbs"),
    "leaders": leaders_cell,
    "state": named({"ALIVE": "dim", "FAILED": "critical", "DEMOTED": "moderate"}, other="severe"),
    "residual_cpu_pct": number("{:+.1f}", lambda cell: "moderate" if abs(cell.value) >= 5 else "", none="-"),
    "cpu_trend": trend,
    "flags": flag_cell,
    "breaches": named({}, other="severe"),
}
AFTER_CELLS: dict[str, Any] = {
    **BROKER_CELLS,
    "cpu_pct": moved("cpu_pct_before", "percent", bars=True, over="CPU"),
    "disk_pct": moved("disk_pct_before", "percent", over="DISK"),
    "leader_nw_in_kbs": moved("leader_nw_in_kbs_before", "number"),
    "nw_out_kbs": moved("nw_out_kbs_before", "number", over="NW_OUT"),
    "nw_out_physical_kbs": moved("nw_out_physical_kbs_before", "number"),
    "leaders": moved("leaders_before", "count"),
    "follower_nw_in_kbs": survivors("number"),
    "pnw_out_kbs": survivors("number"),
}
TOPIC_CELLS: dict[str, Any] = {f"{name}_share_pct": load_bar("percent") for name in ("cpu", "nw_in", "nw_out", "disk")}
FAILURE_CELLS: dict[str, Any] = {
    "headroom_pct": HEADROOM,
    **dict.fromkeys(("leaderless", "over", "newly_over", "under_min_isr"), COUNT),
}
COST_CELLS: dict[str, Any] = {
    "cpu_pct_cores": load_bar("number"),
    "split": number(lambda parts: f"/{parts}" if parts > 1 else "", "moderate", none=""),
}
"""Renderers by column: brokers, brokers before and after, replicas and partitions."""
GOAL_CELLS: dict[str, Any] = {"violated": violated_cell, "goal": goal_cell}


# -- the rolling restart: a row per broker that is down, a column per broker that is up meanwhile -------------------------

Measure = tuple[str, str, str, "Kind"]
"""Column of the result table, its column of broken thresholds, what it is in words, how it is shown."""
MEASURES: tuple[Measure, ...] = (
    ("cpu_pct", "cpu_over", "CPU in %", "percent"), ("nw_out_kbs", "nw_out_over", "network out in KB/s", "number"),
    ("leaders", "", "leaders", "count"),
)  # fmt: skip
"""What the rolling restart shows, in the order in which a key steps through."""


def restart_rows(frame: pl.DataFrame, measure: Measure) -> tuple[pl.DataFrame, Table]:
    """Return result table ``rolling_restart`` as a wide frame, and its declaration."""
    import polars as pl

    name, over, _, _ = measure
    ids = tuple(frame["down"].unique().sort().to_list())
    columns = pl.concat_str(pl.lit("b"), pl.col("broker").cast(pl.String))
    wide = (
        frame.with_columns(columns.alias("_at"))
        .pivot("_at", index="down", on_columns=[f"b{i}" for i in ids], values=[name, *([over] if over else [])])
        .rename({f"{name}_b{i}": f"b{i}" for i in ids if over})
        .sort("down")
    )
    return wide.select(list(_spec(ids, measure).schema)), _spec(ids, measure)


def restart_looks(frame: pl.DataFrame, measure: Measure) -> Looks:
    """Return how the cells of ``restart_rows`` are drawn."""
    _, over, _, kind = measure
    return Looks({f"b{i}": meanwhile(f"{over}_b{i}" if over else "", kind) for i in frame["down"].unique().to_list()})


@lru_cache(maxsize=8)
def _spec(ids: tuple[int, ...], measure: Measure) -> Table:
    """Return the declared columns of the matrix, with hidden ones for the thresholds."""
    import polars as pl

    from engine.core.tables import Column, Table

    name, over, words, kind = measure
    dtype = pl.Int64 if kind == "count" else pl.Float64
    columns = (
        Column("down", pl.Int32, "Broker that is down.", kind="id", width=6, priority=0, grow=6),
        *(Column(f"b{i}", dtype, f"Broker {i} meanwhile: {words}.", kind=kind, title=str(i), width=7) for i in ids),
        *(Column(f"{over}_b{i}", pl.Boolean, "Over its threshold.", kind="flag", hidden=True) for i in ids if over),
    )
    return Table(f"rolling_restart_{name}", f"Rolling restart: {words}.", columns, key=("down",), order=("down",))
