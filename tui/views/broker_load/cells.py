"""How the cells of the broker load tab are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.widgets.drawing.bars import bar
from tui.widgets.drawing.fragments import Fragment, cells, fit
from tui.widgets.drawing.plot import spark

if TYPE_CHECKING:
    from engine.core.tables import Kind
    from tui.widgets.table.window import Cell, Renderer

_SHORT = {"over CPU": ">CPU", "over NW_IN": ">in", "over NW_OUT": ">out", "over DISK": ">disk", "cap est.": "est"}


def shown(cell: Cell, kind: Kind, value: Any, width: int) -> str:
    """Return ``value`` as text of its kind in the characters the terminal has."""
    text = units.text(kind, value, width).strip()
    return text.replace(units.NOTHING, "-") if cell.glyphs.ascii else text


def load_bar(kind: Kind, capacity: str = "", more: str = "", over: str = "") -> Renderer:
    """Draw a bar and the number right of it: of 100 for percentages, else of column ``capacity`` of the row, or of the
    column's peak where no capacity is known. Column ``more`` goes on in a second style. The number is red where the row's
    flags have ``over``."""

    def render(cell: Cell) -> Sequence[Fragment]:
        # The header names the percentage: no sign behind each.
        room = (5 if kind == "percent" else 6) + (cell.width >= 12)
        text = shown(cell, kind, cell.value, room).removesuffix("%")
        label = fit(text, min(room, cell.width), "right")
        number = (label, "severe" if over and over in str(cell.row.get("flags") or "") else "")
        left = cell.width - cells(label)
        top = 100.0 if kind == "percent" else (cell.row.get(capacity) if capacity else None)
        if not isinstance(top, (int, float)) or not top > 0:
            top = cell.peak(cell.name)
            return [(bar(cell.value, top, left, cell.glyphs), "bar"), number]
        drawn = bar(cell.value, top, left, cell.glyphs)
        rest = cell.row.get(more) if more else None
        if not rest or not cell.value or cell.value != cell.value:
            return [(drawn, "bar"), number]
        # Both together, the second part in another style.
        whole = bar(cell.value + rest, top, left, cell.glyphs)
        split = len(drawn.rstrip())
        return [(whole[:split], "bar"), (whole[split:], "bar2"), number]

    return render


def moved(before: str, kind: Kind, bars: bool = False, over: str = "") -> Renderer:
    """Draw before and after in one cell: ``38.4→52.1``, with a bar (of 100) of the part that was there and the part that came
    where ``bars``; one number where nothing changed. It is red where the row's breaches have ``over``. A failed broker has
    nothing afterwards, whatever the model leaves it (its replicas, as followers)."""

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


def survivors(kind: Kind) -> Renderer:
    """Draw a number of the brokers that have not failed in the scenario."""
    return lambda cell: [(fit(shown(cell, kind, _after_failure(cell), cell.width), cell.width, "right"), "")]


def leaders_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw leaders of all replicas, ``10/32``, or the leaders alone where both do not fit."""
    both = f"{shown(cell, 'text', cell.value, 0)}/{shown(cell, 'text', cell.row.get('replicas'), 0)}"
    return [
        (
            fit(both if len(both) <= cell.width else shown(cell, "count", cell.value, cell.width), cell.width, "right"),
            "",
        )
    ]


def state_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a broker's state; anything but alive stands out."""
    word = str(cell.value or "")
    return [(word, {"ALIVE": "dim", "FAILED": "critical", "DEMOTED": "moderate"}.get(word, "severe"))]


def residual_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw modelled minus measured CPU with its sign; beyond five points it stands out."""
    if cell.value is None:
        return [("-".rjust(cell.width), "dim")]
    return [(f"{cell.value:+.1f}".rjust(cell.width), "moderate" if abs(cell.value) >= 5 else "")]


def trend_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the measured CPU by window."""
    return [(spark(cell.value or (), cell.width, cell.glyphs), "dim")]


def flag_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a state that is not alive, thresholds broken, an estimated capacity; in short words where there is little room."""
    words = [word for word in str(cell.value or "").split(", ") if word]
    state = str(cell.row.get("state") or "ALIVE")
    if cell.row.get("source") not in (None, "model"):
        words.insert(0, str(cell.row["source"]))
    if state != "ALIVE":
        words.insert(0, state)
    loud = state != "ALIVE" or any(word.startswith(("over", "silent")) for word in words)
    text = ", ".join(words)
    if cells(text) > cell.width:
        text = " ".join(_SHORT.get(word, word) for word in words)
    return [(text, "severe" if loud else "dim")]


def goal_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a goal without the word that all of them end in, where there is little room."""
    name = str(cell.value or "")
    return [(name if len(name) <= cell.width else name.removesuffix("Goal"), "")]


def violated_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw whether a goal is violated; ``?`` where that is unknown."""
    if cell.value is None:
        return [("?", "dim")]
    if not cell.value:
        return [("no", "dim")]
    return [("YES", "severe" if cell.row.get("hard") else "moderate")]


def breach_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw which thresholds break."""
    return [(str(cell.value or ""), "severe")]


def count_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a count that should be 0."""
    return [(str(cell.value if cell.value is not None else "-").rjust(cell.width), "severe" if cell.value else "dim")]


def headroom_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the distance to the threshold with its sign, red where it is exceeded."""
    if cell.value is None:
        return [("-".rjust(cell.width), "dim")]
    style = "severe" if cell.value < 0 else "moderate" if cell.value < 10 else ""
    return [(f"{cell.value:+.1f}%".rjust(cell.width), style)]


def split_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw over how many partitions the numbers of the row are split evenly; nothing for 1."""
    if not isinstance(cell.value, int) or cell.value < 2:
        return [("", "")]
    return [(f"/{cell.value}".rjust(cell.width), "moderate")]


def meanwhile(over: str, kind: Kind) -> Renderer:
    """Draw one cell of the rolling restart: the number, and ``!`` where column ``over`` of the row says so; the broker that is
    down has none."""

    def render(cell: Cell) -> Sequence[Fragment]:
        if cell.value is None:
            return [(fit("down", cell.width, "right"), "dim")]
        bad = bool(cell.row.get(over)) if over else False
        text = shown(cell, kind, cell.value, cell.width - 1).removesuffix("%") + ("!" if bad else " ")
        return [(fit(text, cell.width, "right"), "severe" if bad else "")]

    return render


BROKER_CELLS: dict[str, Any] = {
    "headroom_pct": headroom_cell,
    "cpu_pct": load_bar("percent", over="over CPU"),
    "disk_pct": load_bar("percent", over="over DISK"),
    "leader_nw_in_kbs": load_bar("number", "nw_in_cap_kbs", "follower_nw_in_kbs", over="over NW_IN"),
    "nw_out_kbs": load_bar("number", "nw_out_cap_kbs", over="over NW_OUT"),
    "pnw_out_kbs": load_bar("number", "nw_out_cap_kbs"),
    "leaders": leaders_cell,
    "state": state_cell,
    "residual_cpu_pct": residual_cell,
    "cpu_trend": trend_cell,
    "flags": flag_cell,
    "breaches": breach_cell,
}
AFTER_CELLS: dict[str, Any] = {
    **BROKER_CELLS,
    "cpu_pct": moved("cpu_pct_before", "percent", bars=True, over="CPU"),
    "leader_nw_in_kbs": moved("leader_nw_in_kbs_before", "number"),
    "nw_out_kbs": moved("nw_out_kbs_before", "number", over="NW_OUT"),
    "nw_out_physical_kbs": moved("nw_out_physical_kbs_before", "number"),
    "leaders": moved("leaders_before", "count"),
    "follower_nw_in_kbs": survivors("number"),
    "pnw_out_kbs": survivors("number"),
}
TOPIC_CELLS: dict[str, Any] = {f"{name}_share_pct": load_bar("percent") for name in ("cpu", "nw_in", "nw_out", "disk")}
FAILURE_CELLS: dict[str, Any] = {
    "headroom_pct": headroom_cell,
    **dict.fromkeys(("leaderless", "over", "newly_over", "under_min_isr"), count_cell),
}
COST_CELLS: dict[str, Any] = {"cpu_pct_cores": load_bar("number"), "split": split_cell}
"""Renderers by column: brokers, brokers before and after, replicas and partitions."""
