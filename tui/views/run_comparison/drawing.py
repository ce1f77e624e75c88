"""The drawings of the run comparison: cells of its tables, samples in one line, plots of a metric; and short names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.run_comparison.words import change_text, p_text, ratio_text
from tui.glyphs import Glyphs
from tui.views.shared.cells import interval, number, share
from tui.views.shared.cells import named as named_words
from tui.widgets.drawing.axes import place
from tui.widgets.drawing.fragments import Fragment, Line, cut_left, join
from tui.widgets.drawing.plot import Draw, Mark, Series, ecdf, histogram, plot
from tui.widgets.table.window import Cell, Renderer

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Kind
    from engine.run_comparison.result.detail import Detail

VERDICT_STYLE = {"different": "moderate", "equivalent": "ok", "undecided": "dim", "missing": "low"}
_PERCENTILE = re.compile(r"Perc([0-9.]+)")


def effect_style(row: Mapping[str, Any]) -> str:
    """Return the style of a metric by its change: red for worse, green for better."""
    if row.get("verdict") != "different" or row.get("muted"):
        return ""
    return {"better": "ok", "worse": "severe"}.get(row.get("effect") or "", "moderate")


def means_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw what the ratio compares, medians or else means of both sides, with their unit: ``195 → 405 ms``."""
    statistical = cell.row.get("median_left") is not None and cell.row.get("median_right") is not None
    left, right = (cell.row.get(f"{'median' if statistical else 'mean'}_{side}") for side in ("left", "right"))
    if left is None or right is None:
        return [("", "")]
    text = change_text(left, right, str(cell.row.get("unit") or ""), cell.glyphs.arrow)
    if len(text) > cell.width:  # without room, leave out "per operation"
        text = text.partition("/")[0]
    return [(text.rjust(cell.width), "")]


INFLUENCE = number(
    lambda share: f"{100 * share:+.2f} pp" if round(100 * share, 2) else "0",
    lambda cell: "" if round(100 * cell.value, 2) else "dim",
    none="",
)
"""The change of the matched share in percentage points, with its sign."""


def verdict_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the verdict with a mark for its level: worse or better where it is different."""
    if cell.row.get("muted"):
        return [("  muted", "dim")]
    word = str(cell.value or "")
    style = VERDICT_STYLE.get(word, "")
    if word == "different":
        style = effect_style(cell.row)
        word = str(cell.row.get("effect") or word)
    sign = cell.glyphs.severity.get(style if style != "dim" else "", " ")
    return [(f"{sign} ", style), (word, style)]


def bucket_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw ``p99`` for Perc99, any other bucket by its name."""
    text = str(cell.value or "")
    found = _PERCENTILE.fullmatch(text)
    return [(f"p{found[1]}" if found else text, "")]


RATIO = number(ratio_text, lambda cell: effect_style(cell.row))
METRIC_CELLS: Mapping[str, Renderer] = {
    "means": means_cell, "ratio": RATIO, "interval": interval("ratio_low", "ratio_high", ratio_text), "verdict": verdict_cell,
    "q_value": number(p_text), "p_value": number(p_text),
}  # fmt: skip
GROUP_CELLS: Mapping[str, Renderer] = {
    "group": named_words({"(none)": "dim"}, none="(none)"), "ratio": RATIO, "share": share("{:.1f}%"),
}  # fmt: skip
CHANGE_CELLS: Mapping[str, Renderer] = {"change": share("{:+.1f}%"), "p_value": number(p_text)}
RUN_CELLS: Mapping[str, Renderer] = {"influence": INFLUENCE, "outliers": share("{:.1f}%")}


def naming(tests: Iterable[str]) -> dict[str, Renderer]:
    """Return the renderers of cells that name a metric; ``tests``: names of all tests."""
    shorts = short_ends(tests)

    def test(cell: Cell) -> Sequence[Fragment]:
        """Draw the shortest end of a test's name that differs from the others."""
        text = str(cell.value or "")
        return [(cut_left(shorts.get(text, text), cell.width, cell.glyphs.ellipsis), "")]

    return {"bucket": bucket_cell, "test": test}


def short_ends(names: Iterable[str]) -> dict[str, str]:
    """Return the shortest end of each name, in pieces between ``_``, that no other name ends with.

    ``simple_load`` for ``APIResponsivenessPrometheus_simple_load`` where there is a ``load`` as well.
    """
    known = sorted(set(names))
    pieces = {name: name.split("_") for name in known}
    holders: dict[tuple[str, ...], int] = {}
    for parts in pieces.values():
        for size in range(1, len(parts) + 1):
            end = tuple(parts[-size:])
            holders[end] = holders.get(end, 0) + 1
    found = {}
    for name, parts in pieces.items():
        ends = (tuple(parts[-size:]) for size in range(1, len(parts) + 1))
        found[name] = next(("_".join(end) for end in ends if holders[end] == 1 and any(end)), name)
    return found


def named(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a column ``name``: verb, resource/subresource, scope (unless it is ``resource``) and further labels.

    Left out are labels that repeat verb or resource, and labels or verbs that all metrics of a test share: they distinguish
    nothing and would cut off what does.
    """
    import polars as pl

    def unless_empty(text: pl.Expr) -> pl.Expr:
        return pl.when(text != "").then(text)

    verb, resource, part = pl.col("verb"), pl.col("resource"), pl.col("subresource")
    scope, labels = pl.col("scope"), pl.col("metric")
    whole = pl.concat_str(resource, pl.when(part != "").then(pl.lit("/") + part).otherwise(pl.lit("")))
    several = pl.len().over("test") > 1
    shared = several & (labels.n_unique().over("test") == 1) & ((verb != "") | (whole != ""))
    spare = (labels == resource) | (labels == verb) | shared
    pieces = [
        unless_empty(pl.when(~(several & (verb.n_unique().over("test") == 1) & (whole != ""))).then(verb)),
        unless_empty(whole),
        pl.when(scope != "resource").then(unless_empty(scope)),
        pl.when(~spare).then(unless_empty(labels)),
    ]
    return frame.with_columns(pl.concat_str(pieces, separator=" ", ignore_nulls=True).alias("name"))


# -- both samples in one line: the upper half of each cell is the left sample, the lower the right one ----------------------

UNICODE = {
    (0, 0): " ", (1, 0): "▘", (0, 1): "▖", (1, 1): "▌",
    (2, 0): "▀", (0, 2): "▄", (2, 1): "▛", (1, 2): "▙", (2, 2): "█",
}  # fmt: skip
"""Characters by what a cell holds of the left and the right sample: 0 nothing, 1 values, 2 the median."""
ASCII = {
    (0, 0): " ", (1, 0): "'", (0, 1): ".", (1, 1): ":",
    (2, 0): "^", (0, 2): "v", (2, 1): "^", (1, 2): "v", (2, 2): "#",
}  # fmt: skip


def legend(glyphs: Glyphs, names: tuple[str, str]) -> str:
    """Say what the characters of a strip mean; ``names``: of both sides."""
    table = ASCII if glyphs.ascii else UNICODE
    above, below = f"{names[0]} above {table[1, 0]} (median {table[2, 0]})", f"{names[1]} below {table[0, 1]}"
    return f"{above}, {below} (median {table[0, 2]}), lowest to highest"


def sides(names: tuple[str, str]) -> Renderer:
    """Return a renderer of a side by its name."""
    named_sides = dict(zip(("left", "right"), names, strict=True))

    def side(cell: Cell) -> Sequence[Fragment]:
        word = named_sides.get(str(cell.value), str(cell.value or ""))
        return [(cut_left(word, cell.width, cell.glyphs.ellipsis), "")]

    return side


def strip(left: Sequence[float], right: Sequence[float], width: int, glyphs: Glyphs) -> Line:
    """Draw a strip of exactly ``width`` cells over the common range; an empty sample leaves its half empty."""
    values = [*left, *right]
    if not values or width <= 0:
        return [(" " * max(width, 0), "")]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 1.0, high + 1.0
    cells = [[0, 0] for _ in range(width)]
    for half, sample in enumerate((left, right)):
        ordered = sorted(sample)
        for value in ordered:
            at = cells[place(value, (low, high), width)]
            at[half] = max(at[half], 1)
        if ordered:
            cells[place(ordered[(len(ordered) - 1) // 2], (low, high), width)][half] = 2
    table = ASCII if glyphs.ascii else UNICODE
    line: Line = []
    for one, two in cells:
        style = "mark" if one and two else "bar" if one else "bar2" if two else "dim"
        line.append((table[one, two] if one or two else glyphs.gap, style))
    return join(line)


class SampleStrips:
    """Draws the column of samples. Another threshold leaves the samples, and their strips, as they are."""

    def __init__(self) -> None:
        self._samples: Any = None
        self._drawn: dict[tuple[Any, ...], Sequence[Fragment]] = {}

    def of(self, detail: Detail) -> Renderer:
        """Return the renderer of the samples of ``detail``."""
        if self._samples is not detail.samples:
            self._samples, self._drawn = detail.samples, {}
        drawn = self._drawn

        def samples(cell: Cell) -> Sequence[Fragment]:
            key = cell.row["row"], cell.width, id(cell.glyphs)
            if key not in drawn:
                left, right = detail.sample(cell.row["row"])
                drawn[key] = strip(left.tolist(), right.tolist(), cell.width, cell.glyphs)
            return drawn[key]

        return samples


# -- plots of a metric --------------------------------------------------------------------------------------------------

KINDS: Mapping[str, Kind] = {"ms": "ms", "bytes": "bytes", "B/s": "bytes_per_s", "%": "percent"}
"""How values of a unit are formatted."""


def distribution(detail: Detail, row: Mapping[str, Any], bars: bool) -> Draw:
    """Return what draws both samples of a metric: as distribution functions, with ``bars`` as a histogram."""
    kind = KINDS.get(str(row["unit"]), "number")
    if bars:
        return partial(_histogram, detail, row["row"], kind)
    left, right = detail.sample(row["row"])
    samples = [(detail.names[0], left.tolist(), "bar"), (detail.names[1], right.tolist(), "bar2")]
    return partial(_ecdf, [sample for sample in samples if sample[1]], kind)


def _ecdf(samples: Any, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    return ecdf(samples, width, height, glyphs, kind=kind) if samples else []


def _histogram(detail: Any, row: int, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    edges, left, right = detail.histogram(row, max(min(width // 3, 40), 4))
    return histogram(edges.tolist(), left.tolist(), width, height, glyphs, kind=kind, other=right.tolist())


def over_runs(detail: Detail, row: Mapping[str, Any]) -> Draw:
    """Return what draws the values of a metric over the runs, with its change points."""
    places, values, sides = (part.tolist() for part in detail.series(row["row"]))
    changes = detail.change_points(row["row"])
    marks = [Mark(float(at), "change") for at in (changes.positions if changes is not None else ())]
    drawn = []
    for side, name, style, shape in ((0, detail.names[0], "bar", "o"), (1, detail.names[1], "bar2", "x")):
        points = [(x, y) for x, y, of in zip(places, values, sides, strict=True) if of == side]
        if points:
            drawn.append(Series([x for x, _ in points], [y for _, y in points], name, style, points=True, shape=shape))
    kind = KINDS.get(str(row["unit"]), "number")
    return partial(plot, drawn, x_kind="count", y_kind=kind, marks=marks, zero=False)
